//! Protection of the admin's files against changes by others, as sshd has it (`StrictModes` in
//! `sshd_config(5)`).
//!
//! The policy, the tokens and the audit log are worth nothing if somebody else can write them, or put
//! other files in their place. So they, and every folder and link on the way to them, have to belong
//! to root or to the user of this process, and be written to by nobody else. Rights that an access
//! control list gives are seen, too: its mask is the group's part of the mode (`acl(5)`).

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use thiserror::Error;

use crate::links::places_on_the_way;

/// Writing by the group, and by everybody.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// The sticky bit: in a folder with it, who may write may not remove or rename what is not theirs
/// (`/tmp`).
const STICKY: u32 = 0o1000;

/// Something on the way to a file that others can change. The text is for the admin: it has the path.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unprotected {
    #[error(
        "{path} belongs to user {owner}, who could change it; it has to be root's, or user {user}'s, \
         as whom this runs (chown)"
    )]
    Owner { path: PathBuf, owner: u32, user: u32 },
    #[error(
        "{path} has mode {mode:04o}, so that others can change what is there; chmod go-w mends that"
    )]
    Writable { path: PathBuf, mode: u32 },
    #[error("{path} cannot be looked at, so that it is not known who can change it")]
    Unknown { path: PathBuf },
}

/// Fails if anybody but root and the user of this process can change what is at `path`, or put
/// something else there. `path` has to be there.
pub fn require_protected(path: &Path) -> Result<(), Unprotected> {
    require_protected_for(path, geteuid().as_raw())
}

fn require_protected_for(path: &Path, user: u32) -> Result<(), Unprotected> {
    let unknown = || Unprotected::Unknown { path: path.to_owned() };
    let absolute = std::path::absolute(path).map_err(|_| unknown())?;
    let places = places_on_the_way(&absolute).ok_or_else(unknown)?;
    // From the root on: who can change a folder can change all that is below.
    let mut ancestors: Vec<&Path> = places.iter().flat_map(|place| place.ancestors()).collect();
    ancestors.sort_unstable();
    ancestors.dedup();
    ancestors.into_iter().try_for_each(|place| look_at(place, user))
}

fn look_at(place: &Path, user: u32) -> Result<(), Unprotected> {
    let path = || place.to_owned();
    let found = fs::symlink_metadata(place).map_err(|_| Unprotected::Unknown { path: path() })?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if owner != 0 && owner != user {
        return Err(Unprotected::Owner { path: path(), owner, user });
    }
    // A link has no permissions: the folder that it is in has.
    let is_shared_safely = found.is_dir() && mode & STICKY != 0;
    if !found.is_symlink() && mode & WRITABLE_BY_OTHERS != 0 && !is_shared_safely {
        return Err(Unprotected::Writable { path: path(), mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    #[test]
    fn everything_on_the_way_is_looked_at() {
        // Below a folder that everybody may write to, and that is sticky.
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(root.join("c/d")).unwrap();
        fs::write(root.join("a/b/file"), "").unwrap();
        symlink(root.join("a"), root.join("c/d/link")).unwrap();
        let way = root.join("c/d/link/b/file");
        let mode = |path: &str, mode| {
            fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("a/b/file", 0o640);
        assert_eq!(require_protected(&way), Ok(()));
        for (path, before) in [("a/b/file", 0o640), ("a/b", 0o755), ("a", 0o755), ("c/d", 0o755)] {
            for wrong in [0o020, 0o002] {
                mode(path, before | wrong);
                let expected =
                    Unprotected::Writable { path: root.join(path), mode: before | wrong };
                assert_eq!(require_protected(&way), Err(expected), "{path}");
            }
            mode(path, before);
        }
        // The bit says nothing of a file.
        mode("a/b/file", 0o1666);
        assert!(require_protected(&way).is_err());
        mode("a/b/file", 0o600);
        mode("c", 0o1777);
        assert_eq!(require_protected(&way), Ok(()));

        // Whoever asks: the owner of all of this is another user then.
        let owner = geteuid().as_raw();
        if owner != 0 {
            assert!(matches!(require_protected_for(&way, 0), Err(Unprotected::Owner { .. })));
            return;
        }
        assert_eq!(require_protected_for(&way, 4321), Ok(()), "root may change anything anyway");
        for path in ["a/b/file", "a/b", "c"] {
            chown(root.join(path), Some(4321), None).unwrap();
            let expected = Unprotected::Owner { path: root.join(path), owner: 4321, user: 0 };
            assert_eq!(require_protected(&way), Err(expected));
            assert_eq!(require_protected_for(&way, 4321), Ok(()));
            chown(root.join(path), Some(0), None).unwrap();
        }
        // A link of somebody else's, in a folder that everybody may write to.
        symlink(root.join("a/b/file"), root.join("c/link")).unwrap();
        std::os::unix::fs::lchown(root.join("c/link"), Some(4321), None).unwrap();
        assert!(matches!(require_protected(&root.join("c/link")), Err(Unprotected::Owner { .. })));
    }

    #[test]
    fn what_others_can_change_most_is_named_first() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        for path in ["a/b", "a"] {
            fs::set_permissions(root.join(path), fs::Permissions::from_mode(0o777)).unwrap();
        }
        let expected = Unprotected::Writable { path: root.join("a"), mode: 0o777 };
        assert_eq!(require_protected(&root.join("a/b")), Err(expected));
    }
}
