//! Provides the current policy. Reads the policy file again after each change. Never falls back to an earlier policy.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::executor::{Untrusted, UntrustedFolder};
use crate::plain_text::without_error_numbers;
use crate::strict_modes::require_protected;

use super::{POLICY_BYTES_MAX, Policy, PolicyError};

/// If the last change of the policy file was less than this time before the read, the next call reads the file again,
/// even if its metadata is unchanged. The timestamps of some file systems have steps of two seconds, so a second change
/// may leave the timestamp unchanged.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// The policy file, with its last content. While the file is unusable, every governed call is refused.
#[derive(Debug)]
pub(crate) struct PolicyFile {
    path: PathBuf,
    last: Mutex<Option<Reading>>,
    /// The error that was logged last, so that the same error is logged only once. A usable policy resets it.
    logged: Mutex<Option<PolicyError>>,
}

#[derive(Debug)]
struct Reading {
    /// The stamp of the file; `None` if the file must be read again, because it may have changed unnoticed.
    stamp: Option<Stamp>,
    policy: Result<Arc<Policy>, PolicyError>,
}

/// The metadata by which the server recognizes that a file was modified or replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl PolicyFile {
    /// Creates a value for the policy at `path`, without reading the file.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, last: Mutex::default(), logged: Mutex::default() }
    }

    /// Returns the current policy. If the policy is unusable, logs the reason with the path.
    pub(crate) fn current(&self) -> Result<Arc<Policy>, PolicyError> {
        let policy = self.read_current();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let error = policy.as_ref().err().cloned();
        if *logged != error {
            if let Some(error) = &error {
                let reason = explained(&self.path, error);
                tracing::error!("governed calls are refused until the policy is fixed: {reason}");
            }
            *logged = error;
        }
        policy
    }

    fn read_current(&self) -> Result<Arc<Policy>, PolicyError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let found = metadata(&self.path)?;
        require_protected(&self.path).map_err(PolicyError::Unprotected)?;
        let stamp = Some(Stamp::of(&found));
        let reading = match last.take().filter(|last| last.stamp == stamp) {
            Some(reading) => reading,
            None => read(&self.path)?,
        };
        let policy = last.insert(reading).policy.clone()?;
        require_outside(&self.path, &policy)?;
        Ok(policy)
    }
}

/// Fails if the policy at `path` is in the workspace, or if a symlink in `path` leads through the workspace. In both
/// cases, code in the workspace could replace the policy.
pub(super) fn require_outside(path: &Path, policy: &Policy) -> Result<(), PolicyError> {
    // `UntrustedFolder::new` returns `None` for a folder that does not exist.
    let workspace = policy.workspace_root.as_deref().and_then(UntrustedFolder::new);
    let path = std::path::absolute(path)?;
    if workspace.is_some_and(|workspace| workspace.holds(&path)) {
        return Err(PolicyError::InWorkspace);
    }
    Ok(())
}

/// Provides the workspace of the current policy to the executor, which never runs code of this folder outside of the
/// sandbox.
impl From<Arc<PolicyFile>> for Untrusted {
    fn from(policy: Arc<PolicyFile>) -> Self {
        Self::looked_up_by(move || {
            let policy = policy.current().map_err(|error| error.to_string())?;
            Ok(policy.workspace_root.clone())
        })
    }
}

/// Returns the reason why a policy file is unusable, for the admin. The text contains the path, so it must not reach a
/// model.
pub(super) fn explained(path: &Path, error: &PolicyError) -> String {
    let path_text = path.display();
    let is_unread = matches!(error, PolicyError::Unreadable(_));
    if is_unread && path.starts_with("~") {
        format!("{path_text}: {error}; ~ is not expanded; write an absolute path")
    } else if is_unread && path.is_relative() {
        let folder = std::env::current_dir().unwrap_or_default();
        format!("{path_text}: {error}; the path is relative to {}", folder.display())
    } else {
        format!("{path_text}: {}", error.for_admin())
    }
}

/// Reads the text of a policy file.
pub(super) fn text(path: &Path) -> Result<String, PolicyError> {
    metadata(path)?;
    text_of(content(&File::open(path)?)?)
}

/// Returns the metadata of a regular file. Call this function before you open the file, because opening a pipe would
/// wait for a writer.
fn metadata(path: &Path) -> Result<Metadata, PolicyError> {
    let found = fs::metadata(path)?;
    if found.is_file() { Ok(found) } else { Err(PolicyError::NotAFile) }
}

/// Reads at most one byte more than [`POLICY_BYTES_MAX`], which is enough to detect a file that is too large.
fn content(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let bytes_max = u64::try_from(POLICY_BYTES_MAX).unwrap_or(u64::MAX);
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn text_of(bytes: Vec<u8>) -> Result<String, PolicyError> {
    if bytes.len() > POLICY_BYTES_MAX {
        return Err(PolicyError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| PolicyError::NotUtf8)
}

fn read(path: &Path) -> io::Result<Reading> {
    let started = SystemTime::now();
    let file = File::open(path)?;
    let stamp = Stamp::of(&file.metadata()?);
    let bytes = content(&file)?;
    let after = Stamp::of(&file.metadata()?);

    let policy = text_of(bytes).and_then(|text| Policy::parse(&text)).map(Arc::new);
    Ok(Reading { stamp: stamp.settled(&after, started), policy })
}

impl From<io::Error> for PolicyError {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(without_error_numbers(&error.to_string()))
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns the stamp if it identifies the content that was read. For this, the stamp must be equal to `after`, the
    /// stamp after the read. The last change must also be old enough at `started`, the time at which the read started.
    fn settled(self, after: &Self, started: SystemTime) -> Option<Self> {
        let is_settled = self == *after && self.is_older_than(SETTLED_AFTER, started);
        is_settled.then_some(self)
    }

    /// Returns whether the last change is at least `age` before `now`. Returns `false` for a change in the future,
    /// which occurs if the clock was set back.
    fn is_older_than(&self, age: Duration, now: SystemTime) -> bool {
        let latest = self.modified.max(self.changed);
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let latest = Duration::new(
            u64::try_from(latest.0).unwrap_or_default(),
            u32::try_from(latest.1).unwrap_or_default(),
        );
        since_epoch.checked_sub(latest).is_some_and(|elapsed| elapsed >= age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_cannot_change_unseen_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        std::fs::write(&path, "").unwrap();
        // The file was written just now, and may change again without a new timestamp.
        assert_eq!(read(&path).unwrap().stamp, None);

        let at = |modified: (i64, i64), changed: (i64, i64)| Stamp {
            device: 0,
            inode: 0,
            size: 0,
            modified,
            changed,
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        for (stamp, is_older) in [
            (at((90, 0), (90, 0)), true),
            (at((98, 0), (90, 0)), true),
            (at((98, 1), (90, 0)), false),
            (at((90, 0), (98, 1)), false),
            (at((90, 0), (98, 0)), true),
            // The clock was set back, so the last change is in the future.
            (at((90, 0), (101, 0)), false),
            (at((4_000, 0), (90, 0)), false),
        ] {
            assert_eq!(stamp.is_older_than(Duration::from_secs(2), now), is_older, "{stamp:?}");
            // The stamp is the same before and after the read.
            let settled = stamp.clone().settled(&stamp, now);
            assert_eq!(settled, is_older.then(|| stamp.clone()));
            let other = Stamp { size: 1, ..stamp.clone() };
            assert_eq!(stamp.settled(&other, now), None);
        }
    }

    #[test]
    fn of_a_file_without_end_a_policy_and_a_byte_are_read() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 20).unwrap();
        assert_eq!(content(&file).unwrap().len(), POLICY_BYTES_MAX + 1);
        assert_eq!(text_of(vec![b' '; POLICY_BYTES_MAX + 1]), Err(PolicyError::TooLarge));
        assert!(text_of(vec![b' '; POLICY_BYTES_MAX]).is_ok());
        assert_eq!(text_of(vec![0xff]), Err(PolicyError::NotUtf8));
    }

    #[test]
    fn the_admin_is_told_where_a_file_was_looked_for() {
        let missing = PolicyError::Unreadable("No such file or directory".to_owned());
        let folder = std::env::current_dir().unwrap();
        for (path, end) in [
            ("~/policy.toml", "; ~ is not expanded; write an absolute path".to_owned()),
            ("policy.toml", format!("; the path is relative to {}", folder.display())),
            ("/policy.toml", String::new()),
        ] {
            assert_eq!(explained(Path::new(path), &missing), format!("{path}: {missing}{end}"));
        }
        for path in ["~/policy.toml", "policy.toml"] {
            let other = PolicyError::TooLarge;
            assert_eq!(explained(Path::new(path), &other), format!("{path}: {other}"));
        }
    }
}
