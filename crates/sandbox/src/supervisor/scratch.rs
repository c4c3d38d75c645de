//! Creates and removes the scratch folder of a run without its own file tree. Also removes abandoned folders of other
//! runs. This module never removes a folder that another process has locked.
//!
//! The process that creates a folder locks it (`flock(2)`) until the process ends. If a folder is not locked, its
//! creator was killed. Then any process with the necessary rights may remove the folder.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{Gid, Uid, geteuid, setegid, seteuid};
use qwed_files::folder::Folder;

use super::super::NOBODY;

/// The prefix of the names of all folders that this program creates in the temporary folder.
const PREFIX: &str = "qwed-mcp-";

/// The suffix of the name of a folder that is not locked yet.
const UNLOCKED: &str = ".new";

/// The time after which a folder that is not locked yet counts as abandoned. Its creator was probably killed before it
/// could lock the folder.
const UNLOCKED_AGE_MAX: Duration = Duration::from_secs(600);

/// A locked scratch folder.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    lock: File,
}

impl Scratch {
    /// Creates the folder, accessible to its owner only.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), lock: create_locked(path)? })
    }

    /// Removes the folder with its content. Returns whether nothing is left.
    pub(super) fn remove(self) -> bool {
        remove(&self.path, self.lock)
    }
}

/// Creates a folder that is accessible to its owner only, and returns the lock on it. The folder gets its final name
/// after it is locked.
pub fn create_locked(folder: &Path) -> io::Result<File> {
    let mut new = folder.as_os_str().to_owned();
    new.push(UNLOCKED);
    fs::DirBuilder::new().mode(0o700).create(&new)?;
    let locked = || -> io::Result<File> {
        let lock = File::open(&new)?;
        match lock.try_lock() {
            // Accept a folder that cannot be locked (NFS). A sweep cannot lock such a folder either, so the sweep does
            // not remove the folder.
            Ok(()) | Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::ResourceBusy.into()),
        }
        fs::rename(&new, folder)?;
        Ok(lock)
    };
    locked().inspect_err(|_| {
        let _ = fs::remove_dir(&new);
    })
}

/// Removes folders in `place` that were left when a server, supervisor or launcher was killed.
pub fn sweep(place: &Path) {
    let Ok(folder) = Folder::open(place) else { return };
    for name in folder.names(usize::MAX).unwrap_or_default() {
        if is_ours(&name) {
            sweep_one(&folder, &place.join(name));
        }
    }
}

/// Returns whether the name has this program's form: `qwed-mcp-{id}` or `qwed-mcp-{word}-{id}`, also with [`UNLOCKED`].
fn is_ours(name: &OsStr) -> bool {
    let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { return false };
    let rest = rest.strip_suffix(UNLOCKED).unwrap_or(rest);
    let id = rest.rsplit('-').next().unwrap_or(rest);
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn sweep_one(place: &Folder, path: &Path) {
    let (Some(name), Ok(about)) = (path.file_name(), fs::symlink_metadata(path)) else { return };
    let own = geteuid().as_raw();
    let is_own = about.uid() == own || (own == 0 && about.uid() == NOBODY);
    let is_new = name.as_encoded_bytes().ends_with(UNLOCKED.as_bytes());
    let age = about.modified().ok().and_then(|modified| modified.elapsed().ok());
    let is_due = !is_new || age.is_some_and(|age| age > UNLOCKED_AGE_MAX);
    if !is_own || !is_due {
        return;
    }
    let opened = place.folder(name).or_else(|_| {
        // A script may have removed its own right to read the folder. Then `folder_to_read` changes the folder's mode.
        // Make this change with the rights of the folder's owner, even if this process is root. Otherwise the owner
        // could replace the folder just before the change, and root would change the mode of another file.
        let _rights = OwnersRights::take(&about)?;
        place.folder_to_read(name)
    });
    let Ok(lock) = opened.map(File::from) else { return };
    // The folder's owner may have replaced the folder since the check of its metadata.
    let is_same =
        lock.metadata().is_ok_and(|now| now.ino() == about.ino() && now.uid() == about.uid());
    // Other processes may sweep at the same time. Only the process that gets the lock removes the folder.
    if is_same && lock.try_lock().is_ok() {
        remove(path, lock);
    }
}

/// Removes the folder at `path`, which is open and locked as `lock`, with its content. Returns whether nothing is left.
///
/// The removal uses the rights of the folder's owner, even if this process is root. Otherwise another run of the same
/// owner could move another user's folder into this folder, and root would remove the other user's folder. The change
/// of rights applies to the whole process, so the process must do nothing else at the same time.
fn remove(path: &Path, lock: File) -> bool {
    let Ok(rights) = lock.metadata().and_then(|about| OwnersRights::take(&about)) else {
        return !path.exists();
    };
    // Ignore a failure: the removal below then fails too.
    let _ = lock.set_permissions(fs::Permissions::from_mode(0o700));
    let folder = Folder::from(lock);
    // Ignore entries that cannot be removed, such as a mount or another user's file.
    let _ = folder.remove_contents();
    drop(rights);
    fs::remove_dir(path).is_ok()
}

/// Gives this process the rights of a folder's owner instead of root's, until this value is dropped. The rights apply
/// to all threads of the process.
struct OwnersRights {
    is_root: bool,
}

impl OwnersRights {
    /// Changes to the user and the group that own the folder. `about` is the folder's metadata. Does nothing unless this
    /// process is root and another user owns the folder.
    fn take(about: &Metadata) -> io::Result<Self> {
        let is_root = geteuid().is_root() && about.uid() != 0;
        if is_root {
            // Change the group first, because this process is not allowed to change the group after the change of the
            // user.
            setegid(Gid::from_raw(about.gid()))?;
            seteuid(Uid::from_raw(about.uid()))?;
        }
        Ok(Self { is_root })
    }
}

impl Drop for OwnersRights {
    fn drop(&mut self) {
        if self.is_root {
            // Root is still the real user of this process, so the process may always switch back.
            let _ = seteuid(Uid::from_raw(0));
            let _ = setegid(Gid::from_raw(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn whatever_is_in_the_folder_goes() {
        let parent = tempfile::tempdir().unwrap();
        let kept = parent.path().join("kept");
        fs::write(&kept, "").unwrap();
        let path = parent.path().join("scratch");
        let scratch = Scratch::create(&path).unwrap();
        fs::create_dir_all(path.join("a/b/c")).unwrap();
        fs::create_dir_all(path.join("a/d")).unwrap();
        fs::write(path.join("a/b/file"), "").unwrap();
        symlink(parent.path(), path.join("a/link")).unwrap();
        fs::set_permissions(path.join("a/b"), fs::Permissions::from_mode(0o000)).unwrap();
        assert!(scratch.remove());
        assert!(!path.exists() && kept.exists());
    }

    #[test]
    fn only_folders_that_nobody_has_are_swept() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let id = |digit: &str| digit.repeat(32);
        let kept = at(&format!("qwed-mcp-{}", id("a")));
        let scratch = Scratch::create(&kept).unwrap();
        fs::write(kept.join("file"), "").unwrap();
        let left = at(&format!("qwed-mcp-{}", id("b")));
        drop(Scratch::create(&left).unwrap());
        fs::create_dir_all(left.join("a/b")).unwrap();
        fs::set_permissions(&left, fs::Permissions::from_mode(0o000)).unwrap();
        let canary = at(&format!("qwed-mcp-canary-{}", id("c")));
        fs::create_dir(&canary).unwrap();
        // The creator of this folder has not locked it yet.
        let new = at(&format!("qwed-mcp-{}.new", id("d")));
        fs::create_dir(&new).unwrap();
        let strangers = [
            at("qwed-mcp-notes"),
            at(&format!("qwed-mcp-{}x", id("e"))),
            at("data"),
            at("qwed-mcp-"),
        ];
        for stranger in &strangers {
            fs::create_dir(stranger).unwrap();
        }
        let link = at(&format!("qwed-mcp-{}", id("f")));
        symlink(&strangers[0], &link).unwrap();

        sweep(place.path());
        assert!(!left.exists() && !canary.exists());
        assert!(kept.join("file").exists() && new.exists() && link.is_symlink());
        assert!(strangers.iter().all(|stranger| stranger.exists()));
        drop(scratch);
        sweep(place.path());
        assert!(!kept.exists());
    }

    /// Tests of the largest trees.
    mod large {
        use super::*;

        #[test]
        #[ignore = "takes seconds: `cargo test --lib -- --ignored large::`"]
        fn many_folders_take_as_long_as_they_are_many() {
            let parent = tempfile::tempdir().unwrap();
            let path = parent.path().join("scratch");
            let scratch = Scratch::create(&path).unwrap();
            for number in 0..20_000 {
                fs::create_dir(path.join(number.to_string())).unwrap();
            }
            // The removal must not list the folder again for each entry, because that would take minutes.
            assert!(scratch.remove());
            assert!(!path.exists());
        }

        #[test]
        #[ignore = "takes seconds: `cargo test --lib -- --ignored large::`"]
        fn folders_may_be_nested_deeper_than_a_path_is_long() {
            let parent = tempfile::tempdir().unwrap();
            let path = parent.path().join("scratch");
            let scratch = Scratch::create(&path).unwrap();
            // The folders are created from the inside out, so that no path is longer than two names.
            fs::create_dir(path.join("0")).unwrap();
            for depth in 1..3000 {
                let (outer, inner) = (path.join(depth.to_string()), (depth - 1).to_string());
                fs::create_dir(&outer).unwrap();
                fs::rename(path.join(&inner), outer.join(&inner)).unwrap();
            }
            assert!(scratch.remove());
            assert!(!path.exists());
        }
    }
}
