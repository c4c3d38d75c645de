//! How much memory the processes of a run have, all together.
//!
//! `setrlimit(2)` limits the address space of one process, which says little: libraries reserve
//! gigabytes that they never touch, and a script can have many processes. So the supervisor looks
//! at what is resident. It holds `/proc` open for that, which the run itself does not have.

use std::collections::HashSet;
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

/// Watches the memory of a run.
#[derive(Debug)]
pub(super) struct MemoryWatch {
    proc: OwnedFd,
    page_bytes: u64,
    limit_bytes: u64,
}

impl MemoryWatch {
    /// Fails if this machine has no `/proc`, or one that does not list children
    /// (`CONFIG_PROC_CHILDREN`).
    pub(super) fn new(limit_bytes: u64) -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let proc = open("/proc", flags, Mode::empty())?;
        let page_bytes = sysconf(SysconfVar::PAGE_SIZE)?.and_then(|bytes| bytes.try_into().ok());
        let page_bytes = page_bytes.ok_or(io::ErrorKind::Unsupported)?;
        let watch = Self { proc, page_bytes, limit_bytes };
        watch.read("thread-self/children")?;
        Ok(watch)
    }

    /// Whether `python` and its descendants have more than the limit. Those whose parent has ended
    /// are children of `init`, if there is one, else of this process.
    pub(super) fn is_exceeded(&self, python: Pid, init: Option<Pid>) -> bool {
        let mut processes = HashSet::from([python]);
        self.add_descendants(python, &mut processes);
        self.add_descendants(init.unwrap_or(Pid::this()), &mut processes);
        let resident = |pid: &Pid| self.resident_bytes(*pid).unwrap_or(0);
        if processes.iter().map(resident).sum::<u64>() <= self.limit_bytes {
            return false;
        }
        // What processes share was counted once for each of them; to count exactly takes longer.
        let proportional =
            |pid: &Pid| self.proportional_bytes(*pid).unwrap_or_else(|| resident(pid));
        processes.iter().map(proportional).sum::<u64>() > self.limit_bytes
    }

    fn add_descendants(&self, pid: Pid, found: &mut HashSet<Pid>) {
        let mut parents = vec![pid];
        while let Some(parent) = parents.pop() {
            // A process that has just ended has none.
            let children = self.children(parent).unwrap_or_default();
            parents.extend(children.into_iter().filter(|child| found.insert(*child)));
        }
    }

    /// `proc_pid_task(5)`: each thread lists the children that it started.
    fn children(&self, pid: Pid) -> io::Result<Vec<Pid>> {
        let mut children = Vec::new();
        for task in self.tasks(pid)? {
            if let Ok(list) = self.read(&format!("{task}/children")) {
                let numbers = list.split_ascii_whitespace().filter_map(|text| text.parse().ok());
                children.extend(numbers.map(Pid::from_raw));
            }
        }
        Ok(children)
    }

    /// The folders of a process's threads, the first one's first.
    fn tasks(&self, pid: Pid) -> io::Result<Vec<String>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let folder = format!("{pid}/task");
        let mut tasks = Dir::openat(self.proc.as_fd(), folder.as_str(), flags, Mode::empty())?;
        let names = tasks.iter().flatten().filter_map(|task| {
            let name = task.file_name().to_str().ok()?;
            (!name.starts_with('.')).then(|| format!("{folder}/{name}"))
        });
        Ok(names.collect())
    }

    fn resident_bytes(&self, pid: Pid) -> Option<u64> {
        self.of_any_thread(pid, |folder| {
            // proc_pid_statm(5): the second number is the resident pages.
            let statm = self.read(&format!("{folder}/statm")).ok()?;
            let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
            Some(pages * self.page_bytes)
        })
    }

    fn proportional_bytes(&self, pid: Pid) -> Option<u64> {
        self.of_any_thread(pid, |folder| {
            // proc_pid_smaps(5): a page that four processes share is a quarter for each.
            let rollup = self.read(&format!("{folder}/smaps_rollup")).ok()?;
            let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
            let kibibytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
            Some(kibibytes * 1024)
        })
    }

    /// What `read` finds in the folder of a process. Its first thread may have ended before the
    /// others: then it has no memory any more, and each of the others has all of it.
    fn of_any_thread(&self, pid: Pid, read: impl Fn(&str) -> Option<u64>) -> Option<u64> {
        if let Some(bytes @ 1..) = read(&pid.to_string()) {
            return Some(bytes);
        }
        self.tasks(pid).ok()?.iter().filter_map(|task| read(task)).max()
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
