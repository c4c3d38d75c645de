//! Finding and killing the processes below this one.
//!
//! A process that is a child subreaper (`prctl(2)`, `PR_SET_CHILD_SUBREAPER`) becomes the parent of
//! every descendant whose own parent ends. So, killing one's children again and again until there
//! are none left kills the whole tree, whatever it did to detach: new sessions, double forks.

use std::fs;

use nix::unistd::Pid;

/// The direct children of this process.
///
/// Reads the kernel's own list (`proc(5)`, `/proc/pid/task/tid/children`), which takes
/// microseconds: a process that forks and ends in a loop is still caught. A kernel without that
/// list has the parent's number in each process's `stat`.
pub(super) fn children() -> Vec<Pid> {
    listed_children().unwrap_or_else(children_by_stat)
}

fn listed_children() -> Option<Vec<Pid>> {
    let mut children = Vec::new();
    for task in fs::read_dir("/proc/self/task").ok()?.flatten() {
        let list = match fs::read_to_string(task.path().join("children")) {
            Ok(list) => list,
            // A thread that has ended since the folder was read has no children either.
            Err(_) if !task.path().exists() => continue,
            Err(_) => return None,
        };
        children.extend(list.split_ascii_whitespace().filter_map(pid));
    }
    Some(children)
}

fn children_by_stat() -> Vec<Pid> {
    let own = Pid::this();
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.flatten().filter_map(|entry| pid(entry.file_name().to_str()?));
    numbers.filter(|process| parent_of(*process) == Some(own)).collect()
}

fn parent_of(process: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in brackets, may hold anything; behind it come the state and the parent.
    let (_, behind_name) = stat.rsplit_once(')')?;
    pid(behind_name.split_ascii_whitespace().nth(1)?)
}

fn pid(text: &str) -> Option<Pid> {
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
        let listed = (listed_children(), children_by_stat());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(listed.0.expect("this kernel has the list").contains(&pid));
        assert!(listed.1.contains(&pid));
    }
}
