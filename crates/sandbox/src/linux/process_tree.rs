//! Lists and kills the descendants of a process by `/proc`. This module never decides which run must end.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

use nix::dir::Dir;
use nix::fcntl::{AtFlags, OFlag, open, openat, readlinkat};
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, fstatat};
use nix::unistd::Pid;

/// A descriptor of `/proc`. The descriptor works even if this process has lost access to the path `/proc`.
#[derive(Debug)]
pub(crate) struct ProcessTable {
    proc: OwnedFd,
}

/// The state of a process from `/proc/{pid}/stat` (`proc_pid_stat(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// True if the process's first thread is ending or has ended. Such a thread runs no code any more, and may have
    /// released the process's memory. On a busy machine, the thread may exist for another second.
    pub(crate) is_ending: bool,
    pub parent: Pid,
    /// The number of page faults of all threads of the process since it was forked.
    pub(crate) faults: u64,
    pub threads: u64,
    /// The number of the processor on which the process's first thread ran last.
    pub(super) processor: usize,
    /// The process's start time, in clock ticks since boot. The PID and the start time identify a process uniquely.
    pub started: u64,
}

impl ProcessTable {
    /// Opens `/proc`.
    ///
    /// # Errors
    ///
    /// `/proc` does not exist, or does not list children (`CONFIG_PROC_CHILDREN`).
    pub(crate) fn open() -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let table = Self { proc: open("/proc", flags, Mode::empty())? };
        table.read("thread-self/children")?;
        Ok(table)
    }

    /// Returns `roots` and all their descendants, and whether the list is complete. The list may be incomplete if a
    /// process or thread ended during the listing. For the processes in `single_threaded`, the function does not list
    /// the threads, because listing them would double the duration of the call.
    pub(crate) fn descendants(
        &self,
        roots: &[Pid],
        single_threaded: &HashSet<Pid>,
    ) -> (HashSet<Pid>, bool) {
        let mut found: HashSet<Pid> = roots.iter().copied().collect();
        let mut parents = roots.to_vec();
        let mut is_complete = true;
        while let Some(parent) = parents.pop() {
            let tasks = if single_threaded.contains(&parent) {
                Ok(vec![format!("{parent}/task/{parent}")])
            } else {
                self.tasks(parent)
            };
            let Ok(tasks) = tasks else {
                is_complete = false;
                continue;
            };
            for task in tasks {
                let Ok(children) = self.children_of_task(&task) else {
                    is_complete = false;
                    continue;
                };
                parents.extend(children.into_iter().filter(|child| found.insert(*child)));
            }
        }
        (found, is_complete)
    }

    /// Returns the same processes as [`Self::descendants`], but reads the parent of every process of the machine. This
    /// takes longer, but no process can hide its children with threads that start and end during the listing.
    pub(crate) fn descendants_by_parent(&self, roots: &[Pid]) -> HashSet<Pid> {
        let numbers = self.names(".").unwrap_or_default();
        let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
        for pid in numbers.iter().filter_map(|name| number(name)) {
            if let Some(stat) = self.stat(pid) {
                children.entry(stat.parent).or_default().push(pid);
            }
        }
        let mut found: HashSet<Pid> = roots.iter().copied().collect();
        let mut parents = roots.to_vec();
        while let Some(parent) = parents.pop() {
            let below = children.remove(&parent).unwrap_or_default();
            parents.extend(below.into_iter().filter(|child| found.insert(*child)));
        }
        found
    }

    /// Returns the children of a process. Each thread lists the children that it started (`proc_pid_task(5)`), so all
    /// threads are read.
    pub(crate) fn children(&self, pid: Pid) -> io::Result<Vec<Pid>> {
        let tasks = self.tasks(pid)?;
        let children = tasks.iter().filter_map(|task| self.children_of_task(task).ok());
        Ok(children.flatten().collect())
    }

    fn children_of_task(&self, task: &str) -> io::Result<Vec<Pid>> {
        let list = self.read(&format!("{task}/children"))?;
        Ok(list.split_ascii_whitespace().filter_map(number).collect())
    }

    /// Returns the folder of each thread of a process. The folder of the first thread comes first.
    pub(crate) fn tasks(&self, pid: Pid) -> io::Result<Vec<String>> {
        let folder = format!("{pid}/task");
        let names = self.names(&folder)?;
        Ok(names.into_iter().map(|name| format!("{folder}/{name}")).collect())
    }

    /// Returns the state of a process, or `None` if it has ended.
    pub(crate) fn stat(&self, pid: Pid) -> Option<Stat> {
        self.stat_in(&pid.to_string())
    }

    /// Returns whether all threads of a process are ending or have ended. In doubt, returns false.
    pub(crate) fn has_only_ending_threads(&self, pid: Pid) -> bool {
        let Ok(before) = self.tasks(pid) else { return false };
        let are_ending =
            before.iter().all(|task| self.stat_in(task).is_some_and(|stat| stat.is_ending));
        // Check the length of the list, because the kernel ends the list early if a thread ends during the listing
        // (`next_tid` in `fs/proc/base.c`). Also list the threads again, because a thread may have started another
        // thread before it ended.
        let is_whole =
            || self.stat(pid).is_some_and(|stat| usize::try_from(stat.threads) == Ok(before.len()));
        let has_no_other =
            || self.tasks(pid).is_ok_and(|now| now.iter().all(|task| before.contains(task)));
        are_ending && is_whole() && has_no_other()
    }

    /// Returns the state of a process or thread. `folder` is its folder in `/proc`.
    fn stat_in(&self, folder: &str) -> Option<Stat> {
        parse_stat(&self.read(&format!("{folder}/stat")).ok()?)
    }

    /// Counts the open descriptors in `{folder}/fd`.
    pub(crate) fn descriptors(&self, folder: &str) -> io::Result<u64> {
        let folder = format!("{folder}/fd");
        let about = fstatat(self.proc.as_fd(), folder.as_str(), AtFlags::empty())?;
        match u64::try_from(about.st_size) {
            Ok(count @ 1..) => Ok(count),
            // Before Linux 6.2 the kernel does not report the folder's size, so count the entries.
            Ok(0) | Err(_) => Ok(u64::try_from(self.names(&folder)?.len()).unwrap_or(u64::MAX)),
        }
    }

    /// Returns the targets of the symlinks in `{folder}/fd`, with one symlink for each open descriptor.
    pub(crate) fn targets(&self, folder: &str) -> io::Result<Vec<OsString>> {
        let folder = format!("{folder}/fd");
        let names = self.names(&folder)?;
        let target =
            |name: &String| readlinkat(self.proc.as_fd(), format!("{folder}/{name}").as_str()).ok();
        Ok(names.iter().filter_map(target).collect())
    }

    /// Writes `text` to the file `path` in `/proc`.
    pub(crate) fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        let mut file = File::from(openat(self.proc.as_fd(), path, flags, Mode::empty())?);
        file.write_all(text.as_bytes())
    }

    /// Reads the file `path` in `/proc`. Replaces bytes that are not UTF-8, because the file may contain names that a
    /// script chose.
    pub(crate) fn read(&self, path: &str) -> io::Result<String> {
        let mut file = self.open_file(path)?;
        // Start with a buffer into which nearly every file fits, because the watch reads hundreds of files.
        // `read_to_end` would start with 32 bytes.
        let mut bytes = vec![0; BLOCK_BYTES];
        let mut length = 0;
        loop {
            let room = bytes.get_mut(length..).unwrap_or_default();
            match file.read(room) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if length == bytes.len() {
                bytes.resize(length * 2, 0);
            }
        }
        bytes.truncate(length);
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// Opens the file `path` in `/proc` for reading.
    pub(crate) fn open_file(&self, path: &str) -> io::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        Ok(File::from(openat(self.proc.as_fd(), path, flags, Mode::empty())?))
    }

    fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut entries = Dir::openat(self.proc.as_fd(), folder, flags, Mode::empty())?;
        let names = entries.iter().flatten().filter_map(|entry| {
            let name = entry.file_name().to_str().ok()?;
            (!name.starts_with('.')).then(|| name.to_owned())
        });
        Ok(names.collect())
    }
}

/// The initial size of the buffer for a file, in bytes.
const BLOCK_BYTES: usize = 4096;

/// The maximum number of rounds in which the processes of a run are listed and stopped before they are killed.
const STOP_ROUNDS_MAX: usize = 100;

/// The flag of a thread that is in `do_exit` (`include/linux/sched.h`).
const PF_EXITING: u64 = 0x4;

fn parse_stat(text: &str) -> Option<Stat> {
    // Split after the last parenthesis, because the process's name, in parentheses, may contain any characters. The
    // next fields are the state, the parent and numbers.
    let (_, behind_name) = text.rsplit_once(')')?;
    let fields: Vec<&str> = behind_name.split_ascii_whitespace().collect();
    let field = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Stat {
        is_ending: field(6)? & PF_EXITING != 0,
        parent: number(fields.get(1)?)?,
        faults: field(7)? + field(9)?,
        threads: field(17)?,
        processor: usize::try_from(field(36)?).ok()?,
        started: field(19)?,
    })
}

/// Kills the children of `parent` that `is_to_be_killed` selects, and all descendants of these children.
///
/// First stops all these processes, and lists them again until no new process appears, because a stopped process cannot
/// fork. Otherwise processes that fork without end could outrun the kills.
pub fn kill_below(parent: Pid, is_to_be_killed: impl Fn(&Pid) -> bool) {
    let Ok(table) = ProcessTable::open() else {
        return signal(children().iter().filter(|pid| is_to_be_killed(pid)), Signal::SIGKILL);
    };
    let below = || {
        let mut roots = table.children(parent).unwrap_or_default();
        roots.retain(&is_to_be_killed);
        table.descendants(&roots, &HashSet::new()).0
    };
    let mut stopped = HashSet::new();
    for _ in 0..STOP_ROUNDS_MAX {
        let found = below();
        let new: Vec<Pid> = found.into_iter().filter(|pid| stopped.insert(*pid)).collect();
        if new.is_empty() {
            break;
        }
        signal(new.iter(), Signal::SIGSTOP);
    }
    signal(below().iter(), Signal::SIGKILL);
}

fn signal<'a>(processes: impl Iterator<Item = &'a Pid>, signal: Signal) {
    for process in processes {
        // Ignore a failure: the process may have ended already.
        let _ = nix::sys::signal::kill(*process, signal);
    }
}

/// Returns the direct children of this process. If the kernel does not list children, finds them by the parent in each
/// process's `stat`.
pub fn children() -> Vec<Pid> {
    match ProcessTable::open() {
        Ok(table) => table.children(Pid::this()).unwrap_or_default(),
        Err(_) => children_by_stat(),
    }
}

fn children_by_stat() -> Vec<Pid> {
    let own = Pid::this();
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.flatten().filter_map(|entry| number(entry.file_name().to_str()?));
    numbers.filter(|process| stat(*process).is_some_and(|stat| stat.parent == own)).collect()
}

/// Returns the state of a process, or `None` if it has ended. Does not need an open process table.
pub fn stat(pid: Pid) -> Option<Stat> {
    parse_stat(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

fn number(text: &str) -> Option<Pid> {
    text.parse().ok().map(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_file_of_several_blocks_is_read_as_a_whole() {
        let long = "x".repeat(5 * BLOCK_BYTES);
        let script = "import time; time.sleep(60)";
        let mut python = Command::new("python3");
        let mut child = python.args(["-c", script, "é", &long]).spawn().unwrap();
        let table = ProcessTable::open().unwrap();
        let file = format!("{}/cmdline", child.id());
        let expected = format!("\0é\0{long}\0");
        // If `python3` is a wrapper script, as with pyenv, `cmdline` may be empty at first.
        let is_read = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            table.read(&file).unwrap().ends_with(&expected)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_read);
    }

    #[test]
    fn both_ways_of_listing_find_a_child() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let table = ProcessTable::open().expect("this kernel has the list");
        let listed =
            (children(), children_by_stat(), table.descendants(&[Pid::this()], &HashSet::new()));
        let by_parent = table.descendants_by_parent(&[Pid::this()]);
        let stat = table.stat(pid).unwrap();
        let descriptors = table.descriptors(&pid.to_string()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(listed.0.contains(&pid) && listed.1.contains(&pid));
        assert!(listed.2.0.contains(&pid) && by_parent.contains(&pid));
        assert_eq!((stat.parent, stat.is_ending), (Pid::this(), false));
        assert!(stat.faults > 0 && stat.started > 0 && descriptors >= 3, "{stat:?} {descriptors}");
        assert_eq!(table.stat(pid), None);
    }

    #[test]
    fn a_name_may_look_like_the_rest_of_the_line() {
        // In this text, the value of each field is the field's position minus 1, except for field 9, which contains the
        // flags.
        let stat = |flags: u32| {
            let number = |n: u32| if n == 8 { flags } else { n }.to_string();
            let numbers = (4..53).map(number).collect::<Vec<_>>().join(" ");
            parse_stat(&format!("7 (a) T 1 2)) Z 3 {numbers}")).unwrap()
        };
        let parent = Pid::from_raw(3);
        let expected = Stat {
            is_ending: false,
            parent,
            faults: 9 + 11,
            threads: 19,
            processor: 38,
            started: 21,
        };
        assert_eq!(stat(0x0040_0040), expected);
        assert_eq!(stat(0x0040_0044), Stat { is_ending: true, ..expected });
        assert_eq!(parse_stat("7 (a) S"), None);
    }
}
