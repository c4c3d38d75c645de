//! Writes checkpoints of the audit log: at intervals, signs the head of the log (the number and the hash of the last
//! row), and appends the signed head to the file that the policy names.
//!
//! No call waits for a checkpoint. A failed write is logged and retried, but never refuses a run.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use thiserror::Error;
use tokio::sync::Notify;

use super::policy::{CheckpointPolicy, Policy, PolicyFile};
use crate::executor::UntrustedFolder;
use crate::ledger::{AuditPlace, Store, StoreError};
use crate::logging::Causes;
use crate::receipt::Receipts;

/// The pause before a failed write is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// The reason why no checkpoint was written. The text is for the admin, because it contains paths.
#[derive(Debug, Error)]
enum CheckpointError {
    #[error("{0} is in the workspace, whose code could change it")]
    InWorkspace(PathBuf),
    #[error("failed to write {file}")]
    Write { file: PathBuf, source: io::Error },
    #[error("the head cannot be signed")]
    Sign(#[from] serde_json::Error),
    #[error("the head of the audit log cannot be read")]
    Head(#[from] StoreError),
}

#[derive(Debug)]
pub(super) struct CheckpointWriter {
    store: Store,
    policy: Arc<PolicyFile>,
    receipts: Arc<Receipts>,
    state: Mutex<State>,
    /// Notified when rows are appended to the log.
    appended: Notify,
    is_started: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// The row number of the last written head, and the time of the write.
    last: Option<(i64, Instant)>,
    /// The time at which a failed write is retried.
    retry_at: Option<Instant>,
    /// The hashes of other replicas' heads at the last write.
    others: HashSet<String>,
}

impl CheckpointWriter {
    pub(super) fn new(store: Store, policy: Arc<PolicyFile>, receipts: Arc<Receipts>) -> Self {
        let (state, appended, is_started) =
            (Mutex::default(), Notify::new(), AtomicBool::new(false));
        Self { store, policy, receipts, state, appended, is_started }
    }

    /// Notifies the writer that rows were appended. Returns at once.
    pub(super) fn notify(self: &Arc<Self>) {
        if !self.is_started.swap(true, Ordering::Relaxed) {
            tokio::spawn(Arc::clone(self).run());
        }
        self.appended.notify_one();
    }

    /// Writes checkpoints when they are due, until the server ends.
    async fn run(self: Arc<Self>) {
        loop {
            self.appended.notified().await;
            while let Some(wait) = self.write_if_due_in_background(false).await {
                // Also wake up for new rows, because a checkpoint may then be due.
                let _ = tokio::time::timeout(wait, self.appended.notified()).await;
            }
        }
    }

    /// Writes the last checkpoint, even if it is not due yet. Call this method after the last row.
    pub(super) async fn finish(self: &Arc<Self>) {
        let _ = self.write_if_due_in_background(true).await;
    }

    async fn write_if_due_in_background(self: &Arc<Self>, is_last: bool) -> Option<Duration> {
        let writer = Arc::clone(self);
        tokio::task::spawn_blocking(move || writer.write_if_due(is_last)).await.ok().flatten()
    }

    /// Writes a checkpoint if it is due. Returns the time until the next checkpoint is due, or until a retry; `None` if
    /// no row is new.
    fn write_if_due(&self, is_last: bool) -> Option<Duration> {
        // If the policy is unusable, no checkpoint is written. The mistake is not reported here, because every governed
        // call reports it.
        let policy = self.policy.current().ok()?;
        let checkpoint = policy.checkpoint.as_ref()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let until_retry = state.retry_at.map(|at| at.saturating_duration_since(Instant::now()));
        if let Some(wait) = until_retry.filter(|wait| !wait.is_zero() && !is_last) {
            return Some(wait);
        }
        let written = self.store.audit_head().map_err(CheckpointError::from).and_then(|head| {
            let Some(head) = head else { return Ok(None) };
            let wait = wait(checkpoint, &head, state.last);
            if wait.is_none_or(|wait| !wait.is_zero() && !is_last) {
                return Ok(wait);
            }
            let others = self.write(&policy, checkpoint, &head, &state.others)?;
            *state = State { last: Some((head.seq, Instant::now())), retry_at: None, others };
            Ok(None)
        });
        written.unwrap_or_else(|error| {
            tracing::error!(error = %Causes(&error), "no checkpoint of the audit log");
            state.retry_at = Some(Instant::now() + RETRY_INTERVAL);
            Some(RETRY_INTERVAL)
        })
    }

    /// Writes `head` (the head of this server's own rows), and the heads of other replicas with hashes that are not in
    /// `known`. Returns the hashes of all other replicas' heads.
    fn write(
        &self,
        policy: &Policy,
        checkpoint: &CheckpointPolicy,
        head: &AuditPlace,
        known: &HashSet<String>,
    ) -> Result<HashSet<String>, CheckpointError> {
        let file = &checkpoint.file;
        let workspace = policy.workspace_root.as_deref().and_then(UntrustedFolder::new);
        if workspace.is_some_and(|workspace| workspace.holds(file)) {
            return Err(CheckpointError::InWorkspace(file.clone()));
        }
        // Other replicas write their own heads too. The copies in this file help if a replica's checkpoints are lost or
        // changed.
        let others = self.store.other_heads()?;
        let new = others.iter().filter(|head| !known.contains(&head.hash));
        let lines = std::iter::once(head).chain(new).map(|head| self.receipts.sign_head(head));
        let written = append(file, &lines.collect::<Result<Vec<_>, _>>()?.concat());
        written.map_err(|source| CheckpointError::Write { file: file.clone(), source })?;
        Ok(others.into_iter().map(|head| head.hash).collect())
    }
}

/// Returns the time until a checkpoint of this head is due; `None` if the head is already written.
fn wait(
    checkpoint: &CheckpointPolicy,
    head: &AuditPlace,
    last: Option<(i64, Instant)>,
) -> Option<Duration> {
    // Write the first head after the start at once, because the time of earlier checkpoints is unknown.
    let Some((seq, time)) = last else { return Some(Duration::ZERO) };
    if head.seq == seq {
        return None;
    }
    let rows = u64::try_from(head.seq - seq).unwrap_or(u64::MAX);
    let is_due = rows >= checkpoint.rows;
    Some(if is_due { Duration::ZERO } else { checkpoint.interval.saturating_sub(time.elapsed()) })
}

/// Appends lines with one write, so that the lines of several servers do not mix. Then syncs the file.
fn append(path: &Path, line: &[u8]) -> io::Result<()> {
    let flags = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o644).custom_flags(flags);
    let mut file = options.open(path)?;
    // Refuse a pipe, because a write would wait for the reader.
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // If the last line of the file is incomplete, begin a new line.
    let is_torn = !file.metadata()?.len().eq(&0) && last_byte(&mut file)? != b'\n';
    let line = if is_torn { [b"\n", line].concat() } else { line.to_vec() };
    file.write_all(&line)?;
    file.sync_all()
}

fn last_byte(file: &mut File) -> io::Result<u8> {
    let mut byte = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut byte)?;
    Ok(byte[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_due_after_so_many_rows_or_so_much_time() {
        let checkpoint = |rows, seconds| CheckpointPolicy {
            file: PathBuf::new(),
            rows,
            interval: Duration::from_secs(seconds),
        };
        let head = AuditPlace { seq: 10, hash: String::new() };
        let now = Instant::now();
        let due = |checkpoint: &CheckpointPolicy, last: Option<i64>| {
            wait(checkpoint, &head, last.map(|seq| (seq, now))).map(|wait| wait.is_zero())
        };
        for (rows, seconds, last, expected) in [
            (100, 1000, None, Some(true)),
            (100, 1000, Some(10), None),
            (100, 1000, Some(9), Some(false)),
            (2, 1000, Some(9), Some(false)),
            (2, 1000, Some(8), Some(true)),
            (100, 0, Some(9), Some(true)),
            // If an older backup of the store was restored, the current head is older than the last written head. In
            // this case, a checkpoint is due at once.
            (100, 1000, Some(11), Some(true)),
        ] {
            assert_eq!(
                due(&checkpoint(rows, seconds), last),
                expected,
                "{rows} {seconds} {last:?}"
            );
        }
    }

    #[test]
    fn a_line_is_behind_the_lines_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("checkpoints");
        append(&file, b"a\n").unwrap();
        append(&file, b"b\n").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"a\nb\n");
        std::fs::write(&file, "torn").unwrap();
        append(&file, b"c\n").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"torn\nc\n");
        assert!(append(folder.path(), b"d\n").is_err());
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(append(&pipe, b"e\n").is_err());
    }
}
