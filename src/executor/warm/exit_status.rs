//! Reads the exit code of an exiting process from `/proc`. This is faster than waiting for the exit notice of the fork
//! server. The fork server gets the exit code only after the kernel has freed the memory of the process, which takes as
//! long as a short script.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use nix::unistd::Pid;
use tokio::task::yield_now;
use tokio::time::sleep;

/// The maximum size of `/proc/PID/stat`: 52 fields, with a process name of 16 bytes.
const STAT_BYTES_MAX: usize = 2048;

/// `PF_EXITING` of the kernel: the task has begun to exit.
const EXITING: u64 = 4;

/// The number of attempts to read the exit code without a pause. A process begins to exit a few microseconds after it
/// has announced its exit code to the server.
const ATTEMPTS: usize = 20;
/// The number of further attempts, each after a pause. If the last attempt fails, the server waits for the exit code
/// from the fork server.
const PAUSES: usize = 5;
const PAUSE: Duration = Duration::from_millis(1);

/// The file `/proc/PID/stat` of a process. It never describes another process, even if the PID is used again.
#[derive(Debug)]
pub(super) struct ExitStatus(File);

/// The fields of `/proc/PID/stat` that are used here (`proc_pid_stat(5)`).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    flags: u64,
    threads: u64,
    memory_bytes: u64,
    code_address: u64,
    wait_status: u64,
}

impl ExitStatus {
    /// Opens `/proc/PID/stat` of a process. Returns `None` if the kernel hides the exit code from this process. The
    /// kernel then shows 1 as the address of the code, and 0 as the exit code.
    pub(super) fn of(process: Pid) -> Option<Self> {
        let status = Self(File::open(format!("/proc/{process}/stat")).ok()?);
        (status.read()?.code_address > 1).then_some(status)
    }

    /// Waits a few milliseconds for the process to exit. Returns its exit code, or the negative number of the signal
    /// that killed it. Returns `None` if the process does not exit in this time.
    pub(super) async fn soon(&self) -> Option<i32> {
        for attempt in 0..ATTEMPTS + PAUSES {
            if let Some(code) = self.read()?.exit_code() {
                return Some(code);
            }
            if attempt < ATTEMPTS { yield_now().await } else { sleep(PAUSE).await }
        }
        None
    }

    fn read(&self) -> Option<Stat> {
        let mut text = [0; STAT_BYTES_MAX];
        let length = loop {
            match self.0.read_at(&mut text, 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read.ok()?,
            }
        };
        Stat::parse(text.get(..length)?)
    }
}

impl Stat {
    fn parse(text: &[u8]) -> Option<Self> {
        // The name of the process ends at the last parenthesis. It may contain spaces and parentheses.
        let after_name = text.iter().rposition(|byte| *byte == b')')? + 2;
        let mut fields = str::from_utf8(text.get(after_name..)?).ok()?.split_ascii_whitespace();
        // `nth(skipped)` skips fields. The first field after the name is field 3 of the manual page.
        let mut next = |skipped| fields.nth(skipped)?.parse().ok();
        Some(Self {
            flags: next(6)?,
            threads: next(10)?,
            memory_bytes: next(2)?,
            code_address: next(2)?,
            wait_status: next(25)?,
        })
    }

    /// Returns the exit code if it is final. The kernel sets the exit code before it frees the memory of the process.
    /// If another thread still runs, that thread may decide the exit code.
    fn exit_code(&self) -> Option<i32> {
        let is_final = self.flags & EXITING != 0 && self.memory_bytes == 0 && self.threads == 1;
        let signal = i32::try_from(self.wait_status & 0x7f).ok()?;
        let code = i32::try_from(self.wait_status >> 8 & 0xff).ok()?;
        is_final.then_some(if signal == 0 { code } else { -signal })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn only_a_final_exit_code_counts() {
        let stat = |flags, threads, memory_bytes, wait_status| Stat {
            flags,
            threads,
            memory_bytes,
            code_address: 0,
            wait_status,
        };
        for (stat, code) in [
            (stat(EXITING | 64, 1, 0, 7 << 8), Some(7)),
            (stat(EXITING, 1, 0, 0), Some(0)),
            (stat(EXITING, 1, 0, 11), Some(-11)),
            (stat(EXITING, 1, 0, 0x8b), Some(-11)),
            (stat(64, 1, 0, 0), None),
            (stat(EXITING, 2, 0, 0), None),
            (stat(EXITING, 1, 4096, 0), None),
        ] {
            assert_eq!(stat.exit_code(), code, "{stat:?}");
        }
    }

    #[test]
    fn the_kernel_shows_the_exit_code_of_a_process() {
        for code in [0, 7] {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", &format!("read line; exit {code}")]).stdin(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let process = Pid::from_raw(i32::try_from(child.id()).unwrap());
            // `of` returns `None` while the program is being loaded, because its code has no address yet.
            let status = loop {
                if let Some(status) = ExitStatus::of(process) {
                    break status;
                }
            };
            assert_eq!(status.read().unwrap().exit_code(), None);
            drop(child.stdin.take());
            let found = loop {
                if let Some(found) = status.read().unwrap().exit_code() {
                    break found;
                }
            };
            assert_eq!(found, code);
            child.wait().unwrap();
            assert_eq!(status.read(), None, "a process that was waited for has no status");
        }
    }
}
