//! Removal of a folder, whatever tests made of it.

use std::ffi::OsStr;
use std::io;

use uuid::Uuid;

use super::folder::{Folder, Kind, Stat};
use super::{ArtifactError, FILES, RunFolder, failed_to};

/// How many names are removed between two looks into a folder.
const BATCH: usize = 1024;

impl RunFolder {
    /// Removes what the tests left.
    pub(crate) fn remove_files(&self) -> Result<(), ArtifactError> {
        remove_tree(&self.folder, OsStr::new(FILES)).map_err(failed_to("remove what the run left"))
    }
}

/// Removes a folder with all that is in it. Folders in folders are moved up into `name` before they
/// are emptied: no path gets long, and two folders are open at a time.
pub(super) fn remove_tree(root: &Folder, name: &OsStr) -> io::Result<()> {
    let Some(top) = open_own(root, name)? else { return Ok(()) };
    loop {
        let names = top.names(BATCH)?;
        let count = names.len();
        for entry in names {
            match top.stat(&entry).map(|stat| stat.kind) {
                Ok(Kind::Folder) => empty_into(&top, &entry)?,
                Ok(Kind::File | Kind::Other) => absent_is_done(top.remove_file(&entry))?,
                Err(error) => absent_is_done(Err(error))?,
            }
        }
        if is_gone(root, name, count)? {
            return Ok(());
        }
    }
}

/// Removes the folder `name`, after it has moved the folders in it to `top`.
fn empty_into(top: &Folder, name: &OsStr) -> io::Result<()> {
    let Some(folder) = open_own(top, name)? else { return Ok(()) };
    loop {
        let names = folder.names(BATCH)?;
        let count = names.len();
        for entry in names {
            match folder.stat(&entry) {
                Ok(Stat { kind: Kind::Folder, is_owners, .. }) => {
                    // To move a folder is to change it: its parent is another one. Whether it could
                    // be unlocked shows then.
                    if !is_owners {
                        let _ = folder.unlock(&entry);
                    }
                    let moved = Uuid::new_v4().simple().to_string();
                    absent_is_done(folder.rename(&entry, top, OsStr::new(&moved)))?;
                }
                Ok(Stat { kind: Kind::File | Kind::Other, .. }) => {
                    absent_is_done(folder.remove_file(&entry))?;
                }
                Err(error) => absent_is_done(Err(error))?,
            }
        }
        if is_gone(top, name, count)? {
            return Ok(());
        }
    }
}

/// Removes the folder `name`, from which so many names were just removed, if nothing is left in it.
fn is_gone(parent: &Folder, name: &OsStr, removed: usize) -> io::Result<bool> {
    if removed == BATCH {
        return Ok(false);
    }
    match absent_is_done(parent.remove_folder(name)) {
        // What was moved up, or came meanwhile.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && removed > 0 => Ok(false),
        gone => gone.map(|()| true),
    }
}

/// Opens a folder whose owner may have closed it for himself.
fn open_own(parent: &Folder, name: &OsStr) -> io::Result<Option<Folder>> {
    // To change a mode costs a disk as much as to remove a name.
    if !parent.stat(name).is_ok_and(|stat| stat.is_owners) {
        // Whether this helped shows when it is opened.
        let _ = parent.unlock(name);
    }
    match parent.folder(name) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Another server may clean up at the same time.
fn absent_is_done(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
