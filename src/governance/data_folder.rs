//! Where the store is.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use etcetera::base_strategy::Xdg;
use thiserror::Error;

/// Below the user's folder for data.
const NAME: &str = "qwed-mcp";

/// There is no folder for data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("there is no home folder to keep data in; set HOME, or QWED_MCP_DATA_DIR to a folder")]
pub(crate) struct NoDataFolder;

/// The configured folder, or the user's one for data (`XDG_DATA_HOME`, `~/.local/share`).
pub(crate) fn data_folder(configured: Option<&Path>) -> Result<PathBuf, NoDataFolder> {
    if let Some(configured) = configured {
        return Ok(configured.to_owned());
    }
    // Values that are not absolute are ignored, as the XDG specification asks for.
    let folder = Xdg::new().map_err(|_| NoDataFolder)?.data_dir();
    // An empty HOME gives a folder wherever the program was started.
    if folder.is_absolute() { Ok(folder.join(NAME)) } else { Err(NoDataFolder) }
}
