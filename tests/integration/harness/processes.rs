//! Finds the remains of a run: processes, file descriptors, files and memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use super::python;

/// The number of processes of an idle fork server: two of the server itself, one that creates init processes, and
/// three spare children, each with an init process.
pub(crate) const FORK_SERVER_PROCESSES: usize = 9;

/// Returns whether the process exists and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

/// Returns the PIDs of all descendants of `pid`, zombies included.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> =
        processes().into_iter().filter_map(|pid| Some((pid, stat(pid)?.1))).collect();
    let mut found = vec![pid];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.remove(0);
    found
}

/// Returns the PIDs of all processes that run scripts of one server, even if their parent process has ended. Finds them
/// by the `PATH` in their environment, which contains the server's `TMPDIR`.
pub(crate) fn alive_with_marker(scratch: &Path) -> Vec<u32> {
    let marker = scratch.to_str().unwrap();
    let of_scratch = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        // Compares the name only, because the program may be a copy, or may have been rebuilt.
        let name = program.file_name().unwrap_or_default();
        let is_server = name.as_encoded_bytes().starts_with(b"qwed-mcp");
        !is_server && String::from_utf8_lossy(&environment).contains(marker) && is_alive(*pid)
    };
    processes().into_iter().filter(of_scratch).collect()
}

/// Returns whether a script process of the server with this scratch folder has this number of threads. Test projects
/// start threads to signal their progress, because files that they write are not visible before the end of the run.
pub(crate) fn has_threads(scratch: &Path, count: u32) -> bool {
    let of_process = |pid| status_of(pid, "Threads").is_some_and(|told| told == count.to_string());
    alive_with_marker(scratch).into_iter().any(of_process)
}

pub(crate) fn open_descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Returns the resident memory of the process, in KiB.
pub(crate) fn resident_kibibytes(pid: u32) -> u64 {
    let resident = status_of(pid, "VmRSS").unwrap();
    resident.trim_end_matches("kB").trim().parse().unwrap()
}

/// Returns a field of `/proc/PID/status`, or `None` if the process has ended.
pub(crate) fn status_of(pid: u32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mut values = status.lines().filter_map(|line| line.split_once(':'));
    values.find_map(|(name, value)| (name == field).then(|| value.trim().to_owned()))
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// The `TMPDIR` of one server, in which tests find the files that the server leaves.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn entries(&self) -> Vec<PathBuf> {
        fs::read_dir(self.path()).unwrap().flatten().map(|entry| entry.path()).collect()
    }
}

/// Processes that keep all processors busy: eight for each processor, each in its own session. They end when this
/// value is dropped.
pub(crate) struct BusyProcessors(Vec<Child>);

impl BusyProcessors {
    pub(crate) fn start() -> Self {
        let count = 8 * std::thread::available_parallelism().unwrap().get();
        let start = |_| {
            let mut python = Command::new(python());
            python.args(["-c", "import os\nos.setsid()\nwhile True: pass"]).spawn().unwrap()
        };
        Self((0..count).map(start).collect())
    }
}

impl Drop for BusyProcessors {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
