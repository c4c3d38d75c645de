//! Checks that other users cannot change the admin's files, like sshd with `StrictModes` (`sshd_config(5)`). This
//! module never changes a mode or an owner.
//!
//! The policy, the tokens and the audit log are worthless if another user can write or replace them. So root or the
//! user of this process must own these files, and every folder and symlink in the resolution of their paths. No other
//! user may have permission to write to them. Rights from an access control list are detected too, because the group
//! bits of the mode contain the mask of the list (`acl(5)`).

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use thiserror::Error;

use crate::links::places_on_the_way;

/// The permission bits that let the group and all other users write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// The sticky bit of a mode. In a folder with this bit, such as `/tmp`, a user with permission to write still cannot
/// remove or rename the files of other users.
const STICKY: u32 = 0o1000;

/// The error if other users can change a file, folder or symlink in the resolution of a path. The text is for the
/// admin and contains the path.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unprotected {
    #[error(
        "{path} belongs to user {owner}, who could change it; change the owner to root or user \
         {user}, who runs this program (chown)"
    )]
    Owner { path: PathBuf, owner: u32, user: u32 },
    #[error("{path} has mode {mode:04o}, so others can change it; run chmod go-w")]
    Writable { path: PathBuf, mode: u32 },
    #[error("{path} cannot be checked, so it is unknown who can change it")]
    Unknown { path: PathBuf },
}

/// Fails if a user other than root and the user of this process can change or replace the file at `path`. Also fails if
/// the file does not exist.
pub fn require_protected(path: &Path) -> Result<(), Unprotected> {
    require_protected_for(path, geteuid().as_raw())
}

fn require_protected_for(path: &Path, user: u32) -> Result<(), Unprotected> {
    let unknown = || Unprotected::Unknown { path: path.to_owned() };
    let absolute = std::path::absolute(path).map_err(|_| unknown())?;
    let places = places_on_the_way(&absolute).ok_or_else(unknown)?;
    // Check from the root downwards, so that the error names the topmost folder: a user that can change this folder
    // can replace everything below it.
    let mut ancestors: Vec<&Path> = places.iter().flat_map(|place| place.ancestors()).collect();
    ancestors.sort_unstable();
    ancestors.dedup();
    ancestors.into_iter().try_for_each(|place| check(place, user))
}

fn check(place: &Path, user: u32) -> Result<(), Unprotected> {
    let path = || place.to_owned();
    let found = fs::symlink_metadata(place).map_err(|_| Unprotected::Unknown { path: path() })?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if owner != 0 && owner != user {
        return Err(Unprotected::Owner { path: path(), owner, user });
    }
    // Do not check the permission bits of a symlink, because they have no effect. The permissions of its folder apply.
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
        // All users may write to the folder above the test's folder, but its sticky bit makes it safe.
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
        // The sticky bit has no effect on a file, so the check must fail.
        mode("a/b/file", 0o1666);
        assert!(require_protected(&way).is_err());
        mode("a/b/file", 0o600);
        mode("c", 0o1777);
        assert_eq!(require_protected(&way), Ok(()));

        // Without root, the test's files belong to another user, so a check for user 0 must fail.
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
        // Create a symlink in a folder that all users may write to, and give the symlink to another user. The check
        // must fail.
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
