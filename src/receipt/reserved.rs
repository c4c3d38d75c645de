//! Files for which disk space is reserved before their content exists, so that a full disk is noticed before a script
//! runs.
//!
//! A file gets its final name when its content is complete. Until then, it is a draft. A draft is removed when its
//! owner drops it. If the owner was killed, a later process removes the draft. This module never inspects the content.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

use tempfile::NamedTempFile;

use crate::folder::Folder;

/// The prefix of the names of drafts.
const DRAFT: &str = ".new-";

/// The maximum number of file names in a folder that the search for abandoned drafts reads.
const NAMES_MAX: usize = 100_000;

/// A draft, with disk space that is reserved for its content.
#[derive(Debug)]
pub(super) struct ReservedFile {
    draft: NamedTempFile,
}

impl ReservedFile {
    /// Creates a draft of `bytes` bytes in `folder`. Creates the folder if it does not exist. Blocks on the disk.
    ///
    /// Reserves the space by writing zeros, because not every file system can allocate space in another way.
    pub(super) fn new(folder: &Path, bytes: u64) -> io::Result<Self> {
        create_folder(folder)?;
        loop {
            let mut draft = tempfile::Builder::new().prefix(DRAFT).tempfile_in(folder)?;
            // The lock shows other processes that the owner of the draft is alive. The lock is held until the draft
            // is dropped or its owner has ended.
            draft.as_file().lock()?;
            // If another process has removed the draft as abandoned before this process had the lock, create another
            // draft.
            if draft.as_file().metadata()?.nlink() == 0 {
                continue;
            }
            io::copy(&mut io::repeat(0).take(bytes), &mut draft)?;
            return Ok(Self { draft });
        }
    }

    /// Writes the content to the draft, and renames the draft to `target`, which must be on the same file system.
    /// Replaces an existing file with this name. With `syncs`, the content and the name are on the disk when this
    /// function returns.
    pub(super) fn store(mut self, content: &[u8], target: &Path, syncs: bool) -> io::Result<()> {
        self.draft.rewind()?;
        self.draft.write_all(content)?;
        self.draft.as_file().set_len(u64::try_from(content.len()).unwrap_or(u64::MAX))?;
        if syncs {
            self.draft.as_file().sync_all()?;
        }
        let folder = target.parent().unwrap_or(Path::new("/"));
        if !folder.is_dir() {
            create_folder(folder)?;
            if syncs && let Some(above) = folder.parent() {
                File::open(above)?.sync_all()?;
            }
        }
        self.draft.persist(target).map_err(|error| error.error)?;
        if syncs {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }
}

fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(folder)
}

/// Removes abandoned drafts from `folder`. A draft is abandoned if its owner has ended.
pub(super) fn remove_abandoned(folder: &Path) {
    let Ok(folder) = Folder::open(folder) else { return };
    for name in folder.names(NAMES_MAX).unwrap_or_default() {
        if !name.as_encoded_bytes().starts_with(DRAFT.as_bytes()) {
            continue;
        }
        let Ok(draft) = folder.file(&name) else { continue };
        // If a draft can be locked, its owner has ended, or has not locked it yet. Keep the file open, and so locked,
        // until the draft is removed. Otherwise the owner could lock the draft before the removal, and then use it.
        if draft.try_lock().is_ok() {
            remove(&folder, &name);
        }
        drop(draft);
    }
}

fn remove(folder: &Folder, name: &OsStr) {
    if let Err(error) = folder.remove_file(name) {
        tracing::warn!(%error, "cannot remove an abandoned draft of a receipt");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_has_its_room_first_and_its_name_last() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("receipts");
        let reserved = ReservedFile::new(&root, 4096).unwrap();
        assert_eq!(names(&root).len(), 1);
        assert_eq!(root.join(&names(&root)[0]).metadata().unwrap().len(), 4096);
        // The owner of the draft is alive, so the draft is not removed.
        remove_abandoned(&root);
        reserved.store(b"content", &root.join("day/name"), true).unwrap();
        assert_eq!(names(&root), ["day"]);
        assert_eq!(fs::read(root.join("day/name")).unwrap(), b"content");
        // The content is larger than the reserved space.
        let reserved = ReservedFile::new(&root, 1).unwrap();
        reserved.store(b"other content", &root.join("day/name"), false).unwrap();
        assert_eq!(fs::read(root.join("day/name")).unwrap(), b"other content");
    }

    #[test]
    fn a_draft_is_not_removed_while_its_owner_uses_it() {
        let folder = tempfile::tempdir().unwrap();
        let is_over = AtomicBool::new(false);
        let stored = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    remove_abandoned(folder.path());
                }
            });
            let stored = (0..2_000).try_for_each(|_| {
                let reserved = ReservedFile::new(folder.path(), 1)?;
                reserved.store(b"content", &folder.path().join("name"), false)
            });
            is_over.store(true, Ordering::Relaxed);
            stored
        });
        stored.unwrap();
    }

    #[test]
    fn no_draft_stays() {
        let folder = tempfile::tempdir().unwrap();
        drop(ReservedFile::new(folder.path(), 16).unwrap());
        assert_eq!(names(folder.path()), [""; 0]);
        // This is a draft that a killed owner has left.
        fs::write(folder.path().join(".new-abandoned"), "").unwrap();
        fs::write(folder.path().join("other"), "").unwrap();
        std::os::unix::fs::symlink("other", folder.path().join(".new-link")).unwrap();
        remove_abandoned(folder.path());
        assert_eq!(names(folder.path()), [".new-link", "other"]);
        // If the content of a draft cannot be stored, the draft is also removed.
        let reserved = ReservedFile::new(folder.path(), 16).unwrap();
        assert!(reserved.store(b"", &folder.path().join("other/name"), false).is_err());
        assert_eq!(names(folder.path()), [".new-link", "other"]);
    }
}
