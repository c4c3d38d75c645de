//! Finds folders of the Windows user, if this program runs in WSL. The code follows Microsoft's documentation, but was
//! not tested on Windows. This module never changes a file.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

use super::places::Places;

/// The path of the Windows command interpreter in WSL.
const CMD: &str = "/mnt/c/Windows/System32/cmd.exe";

/// The path of Claude Desktop's file, relative to the Windows user's folder for application settings.
const CLAUDE_DESKTOP: &str = "Claude/claude_desktop_config.json";

/// The reason why the folders of the Windows user are unknown.
#[derive(Debug, Error)]
pub enum WindowsError {
    #[error("failed to get the settings folder from Windows ({}): {source}", .program.display())]
    Ask { program: PathBuf, source: io::Error },
    #[error("Windows did not return its settings folder: {0:?}")]
    Answer(String),
}

/// Returns the path in WSL of Claude Desktop's file on Windows.
pub(super) fn claude_desktop(places: &Places) -> Result<PathBuf, WindowsError> {
    let program = places.program("cmd.exe").unwrap_or_else(|| PathBuf::from(CMD));
    let mut command = Command::new(&program);
    command.args(["/d", "/c", "echo", "%APPDATA%"]);
    // Run cmd.exe in a folder that exists on Windows, because it prints a warning otherwise.
    if Path::new("/mnt/c").is_dir() {
        command.current_dir("/mnt/c");
    }
    let answer = ask(command).map_err(|source| WindowsError::Ask { program, source })?;
    let folder = answer.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let path = match places.program("wslpath") {
        // Prefer `wslpath`, because it uses the actual mount points of the Windows drives.
        Some(wslpath) => {
            let mut command = Command::new(&wslpath);
            command.args(["-u", folder]);
            let answer =
                ask(command).map_err(|source| WindowsError::Ask { program: wslpath, source })?;
            Some(PathBuf::from(answer.trim()))
        }
        None => mounted(folder),
    };
    let path = path.filter(|path| path.is_absolute() && folder.get(1..3) == Some(":\\"));
    Ok(path.ok_or_else(|| WindowsError::Answer(folder.to_owned()))?.join(CLAUDE_DESKTOP))
}

fn ask(mut command: Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Converts a Windows path to a path in WSL. Assumes that the drives are mounted at their default paths, such as
/// `/mnt/c`.
fn mounted(path: &str) -> Option<PathBuf> {
    let (drive, rest) = path.split_once(":\\")?;
    let is_drive = drive.len() == 1 && drive.chars().all(|c| c.is_ascii_alphabetic());
    let rest = rest.replace('\\', "/");
    is_drive.then(|| PathBuf::from(format!("/mnt/{}/{rest}", drive.to_ascii_lowercase())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_are_mounted_by_their_letters() {
        let path = "C:\\Users\\Ann B\\AppData\\Roaming";
        assert_eq!(mounted(path), Some(PathBuf::from("/mnt/c/Users/Ann B/AppData/Roaming")));
        for path in ["", "%APPDATA%", "\\\\wsl$\\x", "CC:\\x", "1:\\x"] {
            assert_eq!(mounted(path), None, "{path}");
        }
    }
}
