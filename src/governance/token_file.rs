//! The server's own token, from the environment or from a file.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use thiserror::Error;

use super::policy::PolicyFile;
use super::tokens::Token;
use crate::config::Settings;
use crate::executor::UntrustedFolder;
use crate::secret::Secret;

/// The most bytes that are read: a token and a line end are much shorter.
const BYTES_MAX: u64 = 4096;
/// Reading and writing by everybody, and writing by the group.
const OPEN_TO_OTHERS: u32 = 0o027;

/// The reason that the server's own token is not known. For the admin: texts name the file, and
/// never its content.
#[derive(Debug, Error)]
pub(crate) enum OwnTokenError {
    #[error(
        "QWED_MCP_AUTH_TOKEN and QWED_MCP_AUTH_TOKEN_FILE are both set; leave out the one that is not \
         meant"
    )]
    Both,
    #[error("QWED_MCP_AUTH_TOKEN_FILE: failed to read {}", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("QWED_MCP_AUTH_TOKEN_FILE: {} is not a regular file", file.display())]
    NotAFile { file: PathBuf },
    #[error(
        "QWED_MCP_AUTH_TOKEN_FILE: {} has mode {mode:04o}, which lets others read it or the group \
         change it; chmod 600 mends that",
        file.display()
    )]
    Open { file: PathBuf, mode: u32 },
    #[error(
        "QWED_MCP_AUTH_TOKEN_FILE: {} belongs to user {owner}, and has to be this user's or root's",
        file.display()
    )]
    Owner { file: PathBuf, owner: u32 },
    #[error(
        "QWED_MCP_AUTH_TOKEN_FILE: {} is in {}, which tests can read; keep it elsewhere",
        file.display(),
        folder.display()
    )]
    ReadByTests { file: PathBuf, folder: PathBuf },
    #[error(
        "QWED_MCP_AUTH_TOKEN_FILE: {} has to have one token, as `qwed-mcp token create` prints it, and \
         nothing else",
        file.display()
    )]
    NoToken { file: PathBuf },
}

/// Reads the token of calls that bring none, if there is one.
pub(crate) fn own_token(settings: &Settings) -> Result<Option<Secret>, OwnTokenError> {
    match (&settings.auth_token, &settings.auth_token_file) {
        (Some(_), Some(_)) => Err(OwnTokenError::Both),
        (token, None) => Ok(token.clone()),
        (None, Some(file)) => {
            require_out_of_reach(file, settings)?;
            read(file).map(Some)
        }
    }
}

/// Fails if tests could read the file. A policy that cannot be used lets no test run.
fn require_out_of_reach(file: &Path, settings: &Settings) -> Result<(), OwnTokenError> {
    let policy = settings.policy.clone().map(PolicyFile::new);
    let Some(Ok(policy)) = policy.map(|policy| policy.current()) else { return Ok(()) };
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folders = policy.workspace_root.iter().chain(&policy.sandbox.allowed_paths);
    for folder in folders {
        // What is not there holds nothing.
        if UntrustedFolder::new(folder).is_some_and(|folder| folder.holds(&absolute)) {
            let (file, folder) = (file.to_owned(), folder.clone());
            return Err(OwnTokenError::ReadByTests { file, folder });
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<Secret, OwnTokenError> {
    let named = || file.to_owned();
    let failed = |source| OwnTokenError::Read { file: named(), source };
    // Not to wait for who writes to a pipe.
    let flags = OFlag::O_NONBLOCK.bits();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(file).map_err(failed)?;
    let metadata = opened.metadata().map_err(failed)?;
    let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
    if !metadata.is_file() {
        return Err(OwnTokenError::NotAFile { file: named() });
    }
    if owner != 0 && owner != geteuid().as_raw() {
        return Err(OwnTokenError::Owner { file: named(), owner });
    }
    if mode & OPEN_TO_OTHERS != 0 {
        return Err(OwnTokenError::Open { file: named(), mode });
    }
    let mut bytes = Vec::new();
    opened.take(BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    let token =
        Token::parse(text.trim()).ok_or_else(|| OwnTokenError::NoToken { file: named() })?;
    Ok(Secret::from(token.reveal().to_owned()))
}
