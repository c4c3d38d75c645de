//! The scratch folder of a run that has no file tree of its own.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// Creates the folder, for its owner only.
pub(super) fn create(scratch: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(scratch)
}

/// Removes the folder with what the script left in it, best effort: a script can leave folders
/// that it took its own rights on, or thousands inside each other.
pub(super) fn remove(scratch: &Path) {
    // Folders come up one level each time, so the depth never matters.
    while let Some(folder) = empty(scratch, scratch) {
        let _ = empty(&folder, scratch);
        if fs::remove_dir(&folder).is_err() {
            // What still is left is not ours to force: a mount, or another user's file.
            return;
        }
    }
    let _ = fs::remove_dir(scratch);
}

/// Removes the files in `folder` and moves its folders up into `scratch`. One that is there then.
fn empty(folder: &Path, scratch: &Path) -> Option<PathBuf> {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    let mut found = None;
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        // Of the entry itself: a symbolic link is not followed.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = fs::remove_file(path);
        } else if folder == scratch {
            found = Some(path);
        } else {
            // To move a folder is to write to it: its parent's name is in there.
            let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o700));
            // A name that the script cannot have taken.
            let _ = fs::rename(path, scratch.join(Uuid::new_v4().simple().to_string()));
        }
    }
    found
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
