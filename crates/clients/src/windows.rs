//! Finds folders of the Windows user, if this program runs in WSL. The code follows Microsoft's documentation, but was
//! not tested on Windows. This module never changes a file.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use thiserror::Error;

use super::places::Places;

/// The path of the Windows command interpreter in WSL.
const CMD: &str = "/mnt/c/Windows/System32/cmd.exe";

/// The path of Claude Desktop's file, relative to the Windows user's folder for application settings.
const CLAUDE_DESKTOP: &str = "Claude/claude_desktop_config.json";

/// The time limit for an answer from Windows. Starting a Windows program takes up to a second.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

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
    // `/u`: UTF-16. The default encoding lacks some characters.
    command.args(["/u", "/d", "/c", "echo", "%APPDATA%"]);
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

/// Returns the standard output of a program. Fails if the program takes longer than [`ANSWER_TIMEOUT`].
fn ask(mut command: Command) -> io::Result<String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let (sender, answer) = mpsc::channel();
    if let Some(mut stdout) = child.stdout.take() {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // Ignore an error: after a timeout, the receiver no longer exists.
            let _ = sender.send(stdout.read_to_end(&mut bytes).map(|_| bytes));
        });
    }
    let answer = answer.recv_timeout(ANSWER_TIMEOUT);
    // End the program. It has closed its output, or has exceeded the timeout.
    let _ = child.kill();
    child.wait()?;
    decoded(&answer.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??)
}

/// Decodes UTF-8, or UTF-16 in little-endian order. A Windows path in UTF-16 contains zero bytes.
fn decoded(bytes: &[u8]) -> io::Result<String> {
    let text = if bytes.contains(&0) {
        let units: Vec<u16> = bytes
            .chunks_exact(2)
            .map(|unit| u16::from_le_bytes(unit.try_into().unwrap_or_default()))
            .collect();
        String::from_utf16(&units).ok()
    } else {
        String::from_utf8(bytes.to_vec()).ok()
    };
    text.ok_or_else(|| io::ErrorKind::InvalidData.into())
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
    fn answers_are_utf_8_or_utf_16() {
        let path = "C:\\Users\\Jos\u{e9}";
        let wide: Vec<u8> = path.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(decoded(&wide).unwrap(), path);
        assert_eq!(decoded(path.as_bytes()).unwrap(), path);
        assert!(decoded(b"C:\\Users\\Jos\x82").is_err());
    }

    #[test]
    fn drives_are_mounted_by_their_letters() {
        let path = "C:\\Users\\Ann B\\AppData\\Roaming";
        assert_eq!(mounted(path), Some(PathBuf::from("/mnt/c/Users/Ann B/AppData/Roaming")));
        for path in ["", "%APPDATA%", "\\\\wsl$\\x", "CC:\\x", "1:\\x"] {
            assert_eq!(mounted(path), None, "{path}");
        }
    }
}
