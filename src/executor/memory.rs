//! How much memory the processes of a run have, all together.
//!
//! `setrlimit(2)` limits the address space of one process, which says little: libraries reserve
//! gigabytes that they never touch, and a script can have many processes. So the supervisor looks
//! at what is resident. It holds `/proc` open for that, which the run itself does not have.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use nix::dir::Dir;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, SysconfVar, sysconf};

/// How often to look. A process can touch about 2 GiB a second, so the limit is passed by 50 MiB
/// at most on each core.
pub(super) const WATCH_INTERVAL: Duration = Duration::from_millis(25);

/// The deepest that a tree of processes is followed: there are at most as many as the limit.
const DEPTH_MAX: usize = 128;

/// Watches the memory of a run.
#[derive(Debug)]
pub(super) struct MemoryWatch {
    proc: OwnedFd,
    page_bytes: u64,
    limit_bytes: u64,
}

impl MemoryWatch {
    /// None if this machine has no `/proc`.
    pub(super) fn new(limit_bytes: u64) -> Option<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let proc = open("/proc", flags, Mode::empty()).ok()?;
        let page_bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten()?;
        Some(Self { proc, page_bytes: page_bytes.try_into().ok()?, limit_bytes })
    }

    /// Whether `python` and its descendants have more than the limit. Those whose parent has ended
    /// are children of `init`, if there is one, else of this process.
    pub(super) fn is_exceeded(&self, python: Pid, init: Option<Pid>) -> bool {
        let mut processes = vec![python];
        self.add_descendants(python, &mut processes, DEPTH_MAX);
        match init {
            Some(init) => self.add_descendants(init, &mut processes, DEPTH_MAX),
            None => self.add_descendants(Pid::this(), &mut processes, DEPTH_MAX),
        }
        processes.sort();
        processes.dedup();
        let resident = |pid: &Pid| self.resident_bytes(*pid).unwrap_or(0);
        if processes.iter().map(resident).sum::<u64>() <= self.limit_bytes {
            return false;
        }
        // What processes share was counted once for each of them; to count exactly takes longer.
        let proportional =
            |pid: &Pid| self.proportional_bytes(*pid).unwrap_or_else(|| resident(pid));
        processes.iter().map(proportional).sum::<u64>() > self.limit_bytes
    }

    fn add_descendants(&self, pid: Pid, found: &mut Vec<Pid>, depth_left: usize) {
        // A process that has just ended has none.
        let Ok(children) = self.children(pid) else { return };
        if depth_left == 0 {
            return;
        }
        for child in children {
            if !found.contains(&child) {
                found.push(child);
                self.add_descendants(child, found, depth_left - 1);
            }
        }
    }

    /// `proc_pid_task(5)`: each thread lists the children that it started.
    fn children(&self, pid: Pid) -> io::Result<Vec<Pid>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let tasks = format!("{pid}/task");
        let mut tasks = Dir::openat(self.proc.as_fd(), tasks.as_str(), flags, Mode::empty())?;
        let mut children = Vec::new();
        for task in tasks.iter().flatten() {
            let Ok(task) = task.file_name().to_str() else { continue };
            if let Ok(list) = self.read(&format!("{pid}/task/{task}/children")) {
                let numbers = list.split_ascii_whitespace().filter_map(|text| text.parse().ok());
                children.extend(numbers.map(Pid::from_raw));
            }
        }
        Ok(children)
    }

    /// `proc_pid_statm(5)`: the second number is the resident pages.
    fn resident_bytes(&self, pid: Pid) -> Option<u64> {
        let statm = self.read(&format!("{pid}/statm")).ok()?;
        let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
        Some(pages * self.page_bytes)
    }

    /// `proc_pid_smaps(5)`: a page that four processes share is a quarter of a page for each.
    fn proportional_bytes(&self, pid: Pid) -> Option<u64> {
        let rollup = self.read(&format!("{pid}/smaps_rollup")).ok()?;
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        let kibibytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        Some(kibibytes * 1024)
    }

    fn read(&self, path: &str) -> io::Result<String> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let mut file = File::from(openat(self.proc.as_fd(), path, flags, Mode::empty())?);
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn memory_of_children_counts_and_what_they_share_counts_once() {
        // 4 processes share 60 MiB.
        let script = "
import os, sys
block = bytearray(60 << 20)
for _ in range(3):
    if os.fork() == 0:
        sys.stdin.read(1)
        os._exit(0)
print('ready', flush=True)
sys.stdin.read(1)
";
        let mut python = Command::new("python3")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(python.id()).unwrap());
        let mut ready = [0; 6];
        python.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        let exceeds =
            |mebibytes: u64| MemoryWatch::new(mebibytes << 20).unwrap().is_exceeded(pid, Some(pid));
        let answers = [40, 58, 150, 400].map(exceeds);
        python.stdin.take().unwrap().write_all(b"....").unwrap();
        python.wait().unwrap();
        // Each of the four has about 70 MiB resident, 90 MiB are there in all.
        assert_eq!(answers, [true, true, false, false]);
    }
}
