//! Reads the server's own token from the environment or from a file. Never accepts a file that tests or other users can
//! read, or that the file's group can change.
//!
//! This module does not use the module `strict_modes`, because `strict_modes` accepts files that other users can read.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use thiserror::Error;

use super::policy::PolicyFile;
use crate::Secret;
use crate::config::Settings;
use crate::executor::UntrustedFolder;
use crate::ledger::Token;

/// The maximum size of the file, in bytes. A token with a line end is much shorter.
const BYTES_MAX: u64 = 4096;
/// The mode bits for any access by others, and for write access by the group.
const OPEN_TO_OTHERS: u32 = 0o027;

/// The reason why the server's own token is unusable. The text is for the admin. It contains the path of the file, but
/// never its content.
#[derive(Debug, Error)]
pub(crate) enum OwnTokenError {
    #[error("QWED_MCP_AUTH_TOKEN and QWED_MCP_AUTH_TOKEN_FILE are both set; remove one of them")]
    Both,
    #[error("QWED_MCP_AUTH_TOKEN_FILE: failed to read {file}")]
    Read { file: PathBuf, source: io::Error },
    #[error("QWED_MCP_AUTH_TOKEN_FILE: {file} is not a regular file")]
    NotAFile { file: PathBuf },
    #[error(
        "QWED_MCP_AUTH_TOKEN_FILE: {file} has mode {mode:04o}, which lets others read it or the \
         group change it; run chmod 600"
    )]
    Open { file: PathBuf, mode: u32 },
    #[error(
        "QWED_MCP_AUTH_TOKEN_FILE: {file} belongs to user {owner}, and must belong to this user or \
         root"
    )]
    Owner { file: PathBuf, owner: u32 },
    #[error(
        "QWED_MCP_AUTH_TOKEN_FILE: {file} is in {folder}, which tests can read; keep it elsewhere"
    )]
    ReadByTests { file: PathBuf, folder: PathBuf },
    #[error(
        "QWED_MCP_AUTH_TOKEN_FILE: {file} must have one token, as `qwed-mcp token create` prints \
         it, and nothing else"
    )]
    NoToken { file: PathBuf },
}

/// Returns the token for calls without a token, if the admin configured it.
pub(crate) fn own_token(settings: &Settings) -> Result<Option<Secret>, OwnTokenError> {
    match (&settings.auth_token, &settings.auth_token_file) {
        (Some(_), Some(_)) => Err(OwnTokenError::Both),
        (token, None) => Ok(token.clone()),
        (None, Some(file)) => {
            require_out_of_reach(file, settings)?;
            read_for(file, geteuid().as_raw()).map(Some)
        }
    }
}

/// Fails if tests could read the file. Passes if the policy is unusable, because then no tests run.
fn require_out_of_reach(file: &Path, settings: &Settings) -> Result<(), OwnTokenError> {
    let policy = settings.policy.clone().map(PolicyFile::new);
    let Some(Ok(policy)) = policy.map(|policy| policy.current()) else { return Ok(()) };
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    for folder in policy.readable() {
        // `UntrustedFolder::new` returns `None` for a folder that does not exist.
        if UntrustedFolder::new(folder).is_some_and(|folder| folder.holds(&absolute)) {
            let (file, folder) = (file.to_owned(), folder.clone());
            return Err(OwnTokenError::ReadByTests { file, folder });
        }
    }
    Ok(())
}

fn read_for(file: &Path, user: u32) -> Result<Secret, OwnTokenError> {
    let named = || file.to_owned();
    let failed = |source| OwnTokenError::Read { file: named(), source };
    // With this flag, opening a pipe does not wait for a writer.
    let flags = OFlag::O_NONBLOCK.bits();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(file).map_err(failed)?;
    let metadata = opened.metadata().map_err(failed)?;
    let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
    if !metadata.is_file() {
        return Err(OwnTokenError::NotAFile { file: named() });
    }
    if owner != 0 && owner != user {
        return Err(OwnTokenError::Owner { file: named(), owner });
    }
    if mode & OPEN_TO_OTHERS != 0 {
        return Err(OwnTokenError::Open { file: named(), mode });
    }
    let mut bytes = Vec::new();
    let length = opened.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    let is_short = u64::try_from(length).is_ok_and(|length| length <= BYTES_MAX);
    let token = Token::parse(text.trim()).filter(|_| is_short);
    let token = token.ok_or_else(|| OwnTokenError::NoToken { file: named() })?;
    Ok(Secret::from(token.reveal().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    const TOKEN: &str = "qwedmcp_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn settings(variables: &[(&str, &Path)]) -> Settings {
        let found = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Settings::from_lookup(|name| found(name).map(|(_, value)| value.as_os_str().to_owned())).0
    }

    /// Creates a file with this content and mode 0600 in a new folder.
    fn file(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, content).unwrap();
        set_mode(&file, 0o600);
        (folder, file)
    }

    fn set_mode(file: &Path, mode: u32) {
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_token_is_taken_from_one_place() {
        let (_folder, file) = file(format!("{TOKEN}\n").as_bytes());
        let own = |variables: &[(&str, &Path)]| own_token(&settings(variables));
        let (name, of_file) = ("QWED_MCP_AUTH_TOKEN", ("QWED_MCP_AUTH_TOKEN_FILE", &*file));
        let reveal = |token: Option<Secret>| token.map(|token| token.reveal().to_owned());
        assert_eq!(reveal(own(&[]).unwrap()), None);
        assert_eq!(reveal(own(&[of_file]).unwrap()).as_deref(), Some(TOKEN));
        assert_eq!(reveal(own(&[(name, Path::new("x"))]).unwrap()).as_deref(), Some("x"));
        let both = own(&[of_file, (name, Path::new("x"))]);
        assert!(matches!(both, Err(OwnTokenError::Both)));
    }

    fn read(file: &Path) -> Result<Secret, OwnTokenError> {
        read_for(file, geteuid().as_raw())
    }

    #[test]
    fn a_file_that_others_can_read_or_change_is_refused() {
        let (_folder, file) = file(TOKEN.as_bytes());
        for mode in [0o600, 0o400, 0o640, 0o700] {
            set_mode(&file, mode);
            assert_eq!(read(&file).unwrap().reveal(), TOKEN, "{mode:o}");
        }
        for wrong in [0o604, 0o602, 0o601, 0o620, 0o660] {
            set_mode(&file, wrong);
            let error = read(&file).unwrap_err();
            assert!(matches!(error, OwnTokenError::Open { mode, .. } if mode == wrong), "{error}");
        }
        set_mode(&file, 0o600);
        if !geteuid().is_root() {
            let error = read_for(&file, 0).unwrap_err();
            assert!(matches!(error, OwnTokenError::Owner { .. }), "{error}");
            return;
        }
        assert!(read_for(&file, 4321).is_ok(), "root may change anything anyway");
        chown(&file, Some(4321), None).unwrap();
        assert!(read_for(&file, 4321).is_ok());
        for user in [0, 4322] {
            let error = read_for(&file, user).unwrap_err();
            assert!(matches!(error, OwnTokenError::Owner { owner: 4321, .. }), "{error}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let padded = |before: usize| [vec![b' '; before], TOKEN.as_bytes().to_vec()].concat();
        let most = usize::try_from(BYTES_MAX).unwrap() - TOKEN.len();
        for (content, is_token) in [
            (padded(most), true),
            (padded(most + 1), false),
            ([&padded(0), &vec![b' '; most][..], b"more"].concat(), false),
            (b"".to_vec(), false),
            (format!("{TOKEN}\n{TOKEN}").into_bytes(), false),
            (TOKEN.as_bytes()[1..].to_vec(), false),
            (vec![0xff; 51], false),
        ] {
            let (_folder, file) = file(&content);
            let found = read(&file);
            assert_eq!(found.is_ok(), is_token, "{} bytes", content.len());
            assert!(found.is_ok() || matches!(found, Err(OwnTokenError::NoToken { .. })));
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(read(folder.path()), Err(OwnTokenError::NotAFile { .. })));
        let missing = folder.path().join("missing");
        assert!(matches!(read(&missing), Err(OwnTokenError::Read { .. })));
        nix::unistd::mkfifo(&missing, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(matches!(read(&missing), Err(OwnTokenError::NotAFile { .. })));
    }

    #[test]
    fn a_file_that_tests_can_read_is_refused() {
        let (folder, file) = file(TOKEN.as_bytes());
        let root = fs::canonicalize(folder.path()).unwrap();
        let (elsewhere, policy) = self::file(b"");
        for (text, is_refused) in [
            (format!("[workspace]\nroot = {root:?}\n"), true),
            (format!("[sandbox]\nallowed_paths = [{root:?}]\n"), true),
            (format!("[judge]\ntests = {root:?}\nlist = {:?}\n", root.join("list")), true),
            (format!("[workspace]\nroot = {:?}\n", root.join("missing")), false),
            (String::new(), false),
            // This policy is invalid, because it has an unknown key. So no test can run and read the token file, and the
            // token file is accepted.
            (format!("[workspace]\nroot = {root:?}\nx = 1\n"), false),
        ] {
            fs::write(&policy, &text).unwrap();
            let settings =
                settings(&[("QWED_MCP_AUTH_TOKEN_FILE", &file), ("QWED_MCP_POLICY", &policy)]);
            let found = own_token(&settings);
            let refused = matches!(found, Err(OwnTokenError::ReadByTests { .. }));
            assert_eq!((refused, found.is_ok()), (is_refused, !is_refused), "{text}");
        }
        drop(elsewhere);
    }
}
