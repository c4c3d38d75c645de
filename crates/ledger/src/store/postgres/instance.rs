//! Provides the name of a replica, which distinguishes the replicas that share a database. The name is stored in the
//! replica's data folder.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use qwed_files::strict_modes::require_protected;
use uuid::Uuid;

use super::super::error::StoreError;

/// The file in the data folder that contains the replica's name.
const FILE_NAME: &str = "instance-id";

/// Reads the name of the replica. Creates the name if the replica has none yet.
pub(super) fn instance(folder: &Path) -> Result<Uuid, StoreError> {
    let create_folder =
        |source| StoreError::CreateFolder { folder: folder.to_owned(), source: Arc::new(source) };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(create_folder)?;
    require_protected(folder)?;
    let file = folder.join(FILE_NAME);
    if file.symlink_metadata().is_err() {
        create(folder, &file).map_err(|source| failed(&file, source))?;
    }
    require_protected(&file)?;
    read(&file)
}

/// Reads the name of the replica. `None` if it has no name yet.
pub(super) fn known_instance(folder: &Path) -> Result<Option<Uuid>, StoreError> {
    let file = folder.join(FILE_NAME);
    file.exists().then(|| read(&file)).transpose()
}

fn read(file: &Path) -> Result<Uuid, StoreError> {
    let text = fs::read_to_string(file).map_err(|source| failed(file, source))?;
    let no_name = |_| failed(file, io::Error::new(io::ErrorKind::InvalidData, "it has no UUID"));
    Uuid::try_parse(text.trim()).map_err(no_name)
}

fn failed(file: &Path, source: io::Error) -> StoreError {
    StoreError::Instance { file: file.to_owned(), source: Arc::new(source) }
}

/// Writes a name to a temporary file, and renames the temporary file to `file`. If another process has created `file`
/// meanwhile, does not change `file`.
fn create(folder: &Path, file: &Path) -> io::Result<()> {
    let mut draft = tempfile::Builder::new().prefix(".instance-").tempfile_in(folder)?;
    writeln!(draft, "{}", Uuid::new_v4())?;
    draft.as_file().sync_all()?;
    match draft.persist_noclobber(file) {
        Ok(_) => fs::File::open(folder)?.sync_all(),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_its_name_and_another_has_another() {
        let parent = tempfile::tempdir().unwrap();
        let (first, second) = (parent.path().join("a/b"), parent.path().join("c"));
        let name = instance(&first).unwrap();
        assert_eq!(instance(&first).unwrap(), name);
        assert_eq!(known_instance(&second).unwrap(), None);
        assert_ne!(instance(&second).unwrap(), name);
        assert_eq!(known_instance(&first).unwrap(), Some(name));
        for content in ["", "x"] {
            fs::write(first.join(FILE_NAME), content).unwrap();
            for error in [instance(&first).unwrap_err(), known_instance(&first).unwrap_err()] {
                assert!(matches!(error, StoreError::Instance { .. }), "{error}");
            }
        }
    }
}
