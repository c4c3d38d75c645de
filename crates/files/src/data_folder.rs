//! Finds the data folder of this program. The folder contains, for example, the Python environments for scripts, the
//! tokens and the audit log. This module never creates the folder.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use etcetera::base_strategy::Xdg;
use nix::unistd::geteuid;
use thiserror::Error;

/// The permission bits of the group and of all other users.
const OTHERS: u32 = 0o077;

/// The name of this program's folder within the user's data folder.
const NAME: &str = "qwed-mcp";

/// The error if the data folder is unknown, because no home folder is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("there is no home folder for data; set HOME, or set QWED_MCP_DATA_DIR to a folder")]
pub struct NoDataFolder;

/// Returns the configured folder. If none is configured, returns this program's folder in the user's data folder
/// (`XDG_DATA_HOME`, or `~/.local/share`).
pub fn data_folder(configured: Option<&Path>) -> Result<PathBuf, NoDataFolder> {
    if let Some(configured) = configured {
        return Ok(configured.to_owned());
    }
    // `Xdg` ignores relative values of variables, as the XDG specification requires.
    own(&Xdg::new().map_err(|_| NoDataFolder)?.data_dir())
}

/// Returns this program's folder in `folder`, the user's data folder. Fails if `folder` is relative.
fn own(folder: &Path) -> Result<PathBuf, NoDataFolder> {
    // If HOME is empty, `folder` is relative. Reject a relative folder, because it would depend on the current
    // folder.
    if folder.is_absolute() { Ok(folder.join(NAME)) } else { Err(NoDataFolder) }
}

/// The owner and the permissions of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FolderState {
    pub mode: u32,
    pub owner: u32,
    /// Whether only the current user has access to the folder.
    pub is_private: bool,
}

impl FolderState {
    /// Reads the owner and the permissions of a folder.
    pub fn of(folder: &Path) -> io::Result<Self> {
        let metadata = folder.metadata()?;
        if !metadata.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
        let is_private = mode & OTHERS == 0 && owner == geteuid().as_raw();
        Ok(Self { mode, owner, is_private })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_data_folder_is_the_configured_one_or_an_absolute_one_of_the_user() {
        let configured = Path::new("/srv/qwed");
        assert_eq!(data_folder(Some(configured)), Ok(configured.to_owned()));
        let own = |folder: &str| super::own(Path::new(folder));
        assert_eq!(own("/home/ana/.local/share"), Ok("/home/ana/.local/share/qwed-mcp".into()));
        for relative in [".local/share", "", "~/.local/share"] {
            assert_eq!(own(relative), Err(NoDataFolder), "{relative}");
        }
    }

    #[test]
    fn a_folder_is_private_if_it_is_this_users_and_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        for (mode, is_private) in
            [(0o700, true), (0o500, true), (0o750, false), (0o710, false), (0o701, false)]
        {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            let state = FolderState::of(folder.path()).unwrap();
            assert_eq!((state.mode, state.is_private), (mode, is_private), "{mode:o}");
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(FolderState::of(&folder.path().join("file")).is_err());
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(folder.path(), Some(4321), None).unwrap();
            let state = FolderState::of(folder.path()).unwrap();
            assert_eq!((state.owner, state.is_private), (4321, false));
        }
    }
}
