//! The scratch folder of a run that has no file tree of its own.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, geteuid, setegid, seteuid};
use uuid::Uuid;

/// Creates the folder, for its owner only.
pub(super) fn create(scratch: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(scratch)
}

/// Removes the folder with what the script left in it, best effort: a script can leave folders
/// that it took its own rights on, or thousands inside each other.
///
/// The rights to do so are those of the folder's owner, whoever this process is: while it is
/// cleared up, another run of the same owner may put a link where a folder was.
pub(in crate::executor) fn remove(scratch: &Path) {
    let Ok(rights) = OwnersRights::take(scratch) else { return };
    // Folders come up one level each time, so the depth never matters.
    while let Some(folders) = clear(scratch, scratch).filter(|folders| !folders.is_empty()) {
        for folder in folders {
            clear(&folder, scratch);
            if fs::remove_dir(&folder).is_err() {
                // What still is left is not ours to force: a mount, or another user's file.
                return;
            }
        }
    }
    drop(rights);
    let _ = fs::remove_dir(scratch);
}

/// Removes the files in `folder`, and moves its folders up into `scratch`; those that are there
/// already are given back. None if the folder cannot be read.
fn clear(folder: &Path, scratch: &Path) -> Option<Vec<PathBuf>> {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        // Of the entry itself: a symbolic link is not followed.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = fs::remove_file(path);
        } else if folder == scratch {
            folders.push(path);
        } else {
            // To move a folder is to write to it: its parent's name is in there.
            let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o700));
            // A name that the script cannot have taken.
            let _ = fs::rename(path, scratch.join(Uuid::new_v4().simple().to_string()));
        }
    }
    Some(folders)
}

/// The rights of a folder's owner in place of root's, as long as this lives.
struct OwnersRights {
    is_root: bool,
}

impl OwnersRights {
    fn take(folder: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(folder)?;
        let is_root = geteuid().is_root() && metadata.uid() != 0;
        if is_root {
            // The group first: another user may not change it any more.
            setegid(Gid::from_raw(metadata.gid()))?;
            seteuid(Uid::from_raw(metadata.uid()))?;
        }
        Ok(Self { is_root })
    }
}

impl Drop for OwnersRights {
    fn drop(&mut self) {
        if self.is_root {
            // Root is this process's real user, to which it may always go back.
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
        let scratch = parent.path().join("scratch");
        create(&scratch).unwrap();
        fs::create_dir_all(scratch.join("a/b/c")).unwrap();
        fs::create_dir_all(scratch.join("a/d")).unwrap();
        fs::write(scratch.join("a/b/file"), "").unwrap();
        symlink(parent.path(), scratch.join("a/link")).unwrap();
        fs::set_permissions(scratch.join("a/b"), fs::Permissions::from_mode(0o000)).unwrap();
        remove(&scratch);
        assert!(!scratch.exists() && kept.exists());
    }

    #[test]
    fn many_folders_take_as_long_as_they_are_many() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = parent.path().join("scratch");
        create(&scratch).unwrap();
        for number in 0..20_000 {
            fs::create_dir(scratch.join(number.to_string())).unwrap();
        }
        // One listing for all of them; a listing for each takes minutes.
        remove(&scratch);
        assert!(!scratch.exists());
    }

    #[test]
    fn folders_may_be_nested_deeper_than_a_path_is_long() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = parent.path().join("scratch");
        create(&scratch).unwrap();
        // From the inside out: no path is longer than two names.
        fs::create_dir(scratch.join("0")).unwrap();
        for depth in 1..3000 {
            let (outer, inner) = (scratch.join(depth.to_string()), (depth - 1).to_string());
            fs::create_dir(&outer).unwrap();
            fs::rename(scratch.join(&inner), outer.join(&inner)).unwrap();
        }
        remove(&scratch);
        assert!(!scratch.exists());
    }
}
