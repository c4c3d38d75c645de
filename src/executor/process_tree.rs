//! The processes below this one, as `/proc` lists them.
//!
//! A process that is a child subreaper (`prctl(2)`, `PR_SET_CHILD_SUBREAPER`) becomes the parent of
//! every descendant whose own parent ends. So nothing gets out of the tree below it, whatever it
//! does to detach: new sessions, double forks.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};

use nix::dir::Dir;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, fstatat};
use nix::unistd::Pid;

/// An open `/proc`, which can be read also where the process has none any more.
#[derive(Debug)]
pub(super) struct ProcessTable {
    proc: OwnedFd,
}

/// What `/proc/{pid}/stat` says of a process (`proc_pid_stat(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    /// Whether it was stopped by a signal or a tracer.
    pub(super) is_stopped: bool,
    pub(super) parent: Pid,
    /// Page faults of all its threads since it was forked.
    pub(super) faults: u64,
    /// When it was started; with the number, this names a process once and for all.
    pub(super) started: u64,
}

impl ProcessTable {
    /// Opens the machine's table.
    ///
    /// # Errors
    ///
    /// There is no `/proc`, or one that does not list children (`CONFIG_PROC_CHILDREN`).
    pub(super) fn open() -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let table = Self { proc: open("/proc", flags, Mode::empty())? };
        table.read("thread-self/children")?;
        Ok(table)
    }

    /// The processes below `roots`, each with the parent below which it was found; the roots too.
    pub(super) fn descendants(&self, roots: &[Pid]) -> HashMap<Pid, Pid> {
        let mut found: HashMap<Pid, Pid> = roots.iter().map(|root| (*root, *root)).collect();
        let mut parents = roots.to_vec();
        while let Some(parent) = parents.pop() {
            // A process that has just ended has none.
            for child in self.children(parent).unwrap_or_default() {
                if found.insert(child, parent).is_none() {
                    parents.push(child);
                }
            }
        }
        found
    }

    /// The children of a process. Each thread lists those that it started (`proc_pid_task(5)`).
    pub(super) fn children(&self, pid: Pid) -> io::Result<Vec<Pid>> {
        let mut children = Vec::new();
        for task in self.tasks(pid)? {
            if let Ok(list) = self.read(&format!("{task}/children")) {
                children.extend(list.split_ascii_whitespace().filter_map(number));
            }
        }
        Ok(children)
    }

    /// The folders of a process's threads, the first one's first.
    pub(super) fn tasks(&self, pid: Pid) -> io::Result<Vec<String>> {
        let folder = format!("{pid}/task");
        let names = self.names(&folder)?;
        Ok(names.into_iter().map(|name| format!("{folder}/{name}")).collect())
    }

    /// The state of a process; none if it has ended.
    pub(super) fn stat(&self, pid: Pid) -> Option<Stat> {
        parse_stat(&self.read(&format!("{pid}/stat")).ok()?)
    }

    /// How many descriptors are open in `{folder}/fd`.
    pub(super) fn descriptors(&self, folder: &str) -> io::Result<u64> {
        let folder = format!("{folder}/fd");
        let about = fstatat(self.proc.as_fd(), folder.as_str(), AtFlags::empty())?;
        match u64::try_from(about.st_size) {
            Ok(count @ 1..) => Ok(count),
            // Before Linux 6.2 the folder does not tell its size.
            Ok(0) | Err(_) => Ok(u64::try_from(self.names(&folder)?.len()).unwrap_or(u64::MAX)),
        }
    }

    /// Reads a file of the table.
    pub(super) fn read(&self, path: &str) -> io::Result<String> {
        let mut text = String::new();
        self.open_file(path)?.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Opens a file of the table.
    pub(super) fn open_file(&self, path: &str) -> io::Result<File> {
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

fn parse_stat(text: &str) -> Option<Stat> {
    // The name, in brackets, may hold anything; behind it come the state, the parent, and 50 numbers.
    let (_, behind_name) = text.rsplit_once(')')?;
    let fields: Vec<&str> = behind_name.split_ascii_whitespace().collect();
    let field = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Stat {
        is_stopped: matches!(fields.first(), Some(&"T" | &"t")),
        parent: number(fields.get(1)?)?,
        faults: field(7)? + field(9)?,
        started: field(19)?,
    })
}

/// The direct children of this process. A kernel that does not list them has the parent's number
/// in each process's `stat`.
pub(super) fn children() -> Vec<Pid> {
    match ProcessTable::open() {
        Ok(table) => table.children(Pid::this()).unwrap_or_default(),
        Err(_) => children_by_stat(),
    }
}

fn children_by_stat() -> Vec<Pid> {
    let own = Pid::this();
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.flatten().filter_map(|entry| number(entry.file_name().to_str()?));
    let parent = |process: &Pid| {
        parse_stat(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?).map(|s| s.parent)
    };
    numbers.filter(|process| parent(process) == Some(own)).collect()
}

fn number(text: &str) -> Option<Pid> {
    text.parse().ok().map(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn both_ways_of_listing_find_a_child() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let table = ProcessTable::open().expect("this kernel has the list");
        let listed = (children(), children_by_stat(), table.descendants(&[Pid::this()]));
        let stat = table.stat(pid).unwrap();
        let descriptors = table.descriptors(&pid.to_string()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(listed.0.contains(&pid) && listed.1.contains(&pid));
        assert_eq!(listed.2[&pid], Pid::this());
        assert_eq!((stat.parent, stat.is_stopped), (Pid::this(), false));
        assert!(stat.faults > 0 && stat.started > 0 && descriptors >= 3, "{stat:?} {descriptors}");
        assert_eq!(table.stat(pid), None);
    }

    #[test]
    fn a_name_may_look_like_the_rest_of_the_line() {
        let numbers = (4..30).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let stat = parse_stat(&format!("7 (a) T 1 2)) t 3 {numbers}")).unwrap();
        let expected =
            Stat { is_stopped: true, parent: Pid::from_raw(3), faults: 9 + 11, started: 21 };
        assert_eq!(stat, expected);
        assert_eq!(parse_stat("7 (a) S"), None);
    }
}
