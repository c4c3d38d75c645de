//! A scope of systemd's for the server: a group that systemd makes and leaves to whoever asked.
//!
//! A user's own manager has memory and process numbers delegated on ordinary desktops, so this
//! takes no rights. It is asked through `busctl`, which is a part of systemd, at the place where
//! systemd puts its bus: no variable of the client's decides whom we speak to.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::{Pid, Uid, geteuid};
use thiserror::Error;

use super::hierarchy::{Hierarchy, left_behind, own_group};

/// The time that systemd has for all of it. It takes some 20 ms, and nothing waits for it but the
/// server's first run.
const SCOPE_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval between two looks at whether it is done.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// The places of systemd's tools.
const BUSCTL_PATHS: [&str; 3] =
    ["/usr/bin/busctl", "/bin/busctl", "/run/current-system/sw/bin/busctl"];

/// The number of the first namespace of process numbers (`PROC_PID_INIT_INO`), the machine's own.
const MACHINE_PROCESS_NUMBERS: &str = "pid:[4026531836]";

/// A file of a group that states a limit, and how it begins where there is none.
struct LimitFile {
    name: &'static str,
    none: &'static str,
}

/// The limits that somebody has set for the server on purpose. Not `pids.max`: systemd sets it for
/// every unit.
const LIMIT_FILES: [LimitFile; 5] = [
    LimitFile { name: "memory.max", none: "max" },
    LimitFile { name: "memory.high", none: "max" },
    LimitFile { name: "cpu.max", none: "max " },
    LimitFile { name: "cpuset.cpus", none: "\n" },
    LimitFile { name: "io.max", none: "" },
];

impl LimitFile {
    /// Returns whether the file with this text sets a limit.
    fn is_set(&self, text: &str) -> bool {
        if self.none.is_empty() { !text.is_empty() } else { !text.starts_with(self.none) }
    }
}

/// An error that leaves the server without a scope of systemd's.
#[derive(Debug, Error)]
pub enum ScopeError {
    /// The number that we know ourselves by may be somebody else's there.
    #[error("systemd counts processes in another namespace than the server's")]
    OtherProcessNumbers,
    /// The names of groups that we see are not those that systemd sees.
    #[error("the server's control groups are of another namespace than systemd's")]
    OtherGroups,
    /// Whoever started the server gave it so much, and a scope has its own limit.
    #[error("the server would leave the limit that {file} of its group {group} sets")]
    LimitLeft {
        /// A group that the server is in.
        group: PathBuf,
        /// The file with the limit.
        file: &'static str,
    },
    /// There is no systemd to speak to, or not its tool.
    #[error("busctl, which asks systemd for it, cannot be started: {0}")]
    StartBusctl(#[source] io::Error),
    /// systemd says no, or there is no bus.
    #[error("systemd refuses: {0}")]
    Refused(String),
    /// systemd takes too long.
    #[error("systemd did not make it within {} s", SCOPE_TIMEOUT.as_secs())]
    TimedOut,
}

/// Has systemd make a scope named `name`, moves this process there with all of its threads, and
/// returns its group. The groups for memory and processes are delegated to us.
pub(super) fn enter(hierarchy: &Hierarchy, own: &Path, name: &str) -> Result<PathBuf, ScopeError> {
    let user = geteuid();
    if !is_counted_by_systemd() {
        return Err(ScopeError::OtherProcessNumbers);
    }
    // Where systemd runs the machine, nothing but itself is in the outermost group.
    if own == Path::new("/") {
        return Err(ScopeError::OtherGroups);
    }
    if let Some((group, file)) = limit_left(hierarchy, own, &manager(user)) {
        return Err(ScopeError::LimitLeft { group, file });
    }
    let deadline = Instant::now() + SCOPE_TIMEOUT;
    let busctl = request(user, name).spawn().map_err(ScopeError::StartBusctl)?;
    finish(busctl, deadline)?;
    // The answer says that there is a job for it, not that the job is done.
    loop {
        let group = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| own_group(&text));
        if let Some(group) = group.filter(|group| group.ends_with(name)) {
            return Ok(group);
        }
        if Instant::now() > deadline {
            return Err(ScopeError::TimedOut);
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// Returns the group of the manager that is asked: the user's own, or the machine's.
fn manager(user: Uid) -> PathBuf {
    if user.is_root() {
        return PathBuf::from("/");
    }
    PathBuf::from(format!("/user.slice/user-{user}.slice/user@{user}.service"))
}

/// Returns the first group with a limit that the server would leave.
fn limit_left(
    hierarchy: &Hierarchy,
    own: &Path,
    manager: &Path,
) -> Option<(PathBuf, &'static str)> {
    left_behind(own, manager).into_iter().find_map(|group| {
        let folder = hierarchy.folder(&group);
        let is_set = |file: &&LimitFile| match &folder {
            // A controller that the group does not have limits nothing.
            Some(folder) => {
                fs::read_to_string(folder.join(file.name)).is_ok_and(|text| file.is_set(&text))
            }
            // Nobody knows.
            None => true,
        };
        let file = LIMIT_FILES.iter().find(is_set)?;
        Some((group, file.name))
    })
}

/// Returns whether the process numbers that we see are those that systemd sees. A container may
/// have the machine's bus in it, and our number there is another process's here.
fn is_counted_by_systemd() -> bool {
    let namespace = fs::read_link("/proc/self/ns/pid");
    let first = fs::read_to_string("/proc/1/comm");
    namespace.is_ok_and(|namespace| namespace == Path::new(MACHINE_PROCESS_NUMBERS))
        || first.is_ok_and(|name| name.trim_end() == "systemd")
}

/// Makes the request for a scope (`org.freedesktop.systemd1(5)`): name, mode, properties, and no
/// further units.
fn request(user: Uid, name: &str) -> Command {
    let present = BUSCTL_PATHS.into_iter().find(|path| Path::new(path).exists());
    let mut busctl = Command::new(present.unwrap_or("/usr/bin/busctl"));
    busctl
        .arg(if user.is_root() { "--system" } else { "--user" })
        .args(["--timeout=2", "--allow-interactive-authorization=no", "call"])
        .args(["org.freedesktop.systemd1", "/org/freedesktop/systemd1"])
        .args(["org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))"])
        .args([name, "fail", "4"])
        .args(["Description", "s", "Runs of qwed-mcp"])
        .args(["PIDs", "au", "1", &Pid::this().to_string()])
        // Implies `Delegate`, for these alone.
        .args(["DelegateControllers", "as", "2", "memory", "pids"])
        // It is forgotten when it is over, even if something in it was killed.
        .args(["CollectMode", "s", "inactive-or-failed"])
        .arg("0")
        .env_clear()
        .env("XDG_RUNTIME_DIR", format!("/run/user/{user}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    busctl
}

/// Waits for `busctl` until `deadline`.
fn finish(mut busctl: Child, deadline: Instant) -> Result<(), ScopeError> {
    loop {
        match busctl.try_wait().map_err(ScopeError::StartBusctl)? {
            Some(status) if status.success() => return Ok(()),
            Some(_) => return Err(ScopeError::Refused(first_line(&mut busctl))),
            None if Instant::now() > deadline => {
                // It may have ended just now.
                let _ = busctl.kill();
                let _ = busctl.wait();
                return Err(ScopeError::TimedOut);
            }
            None => std::thread::sleep(LOOK_INTERVAL),
        }
    }
}

/// Returns the first line of the output of `busctl`, which has ended.
fn first_line(busctl: &mut Child) -> String {
    let mut bytes = Vec::new();
    if let Some(stderr) = &mut busctl.stderr {
        // What cannot be read is not said.
        let _ = stderr.take(1024).read_to_end(&mut bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    text.lines().next().unwrap_or("busctl does not say why").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_hangs_is_ended_in_time() {
        let hanging = Command::new("sleep").arg("60").stderr(Stdio::piped()).spawn().unwrap();
        let began = Instant::now();
        let ended = finish(hanging, began + Duration::from_millis(50));
        assert!(matches!(ended, Err(ScopeError::TimedOut)), "{ended:?}");
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn limits_are_told_from_none() {
        let is_set = |name: &str, text: &str| {
            LIMIT_FILES.iter().find(|file| file.name == name).unwrap().is_set(text)
        };
        for (name, none, set) in [
            ("memory.max", "max\n", "1073741824\n"),
            ("memory.high", "max\n", "0\n"),
            ("cpu.max", "max 100000\n", "20000 100000\n"),
            ("cpuset.cpus", "\n", "0-1\n"),
            ("io.max", "", "8:0 rbps=1048576 wbps=max riops=max wiops=max\n"),
        ] {
            assert!(!is_set(name, none) && is_set(name, set), "{name}");
        }
    }

    #[test]
    fn what_the_tool_says_is_the_reason() {
        let refusing = Command::new("sh")
            .args(["-c", "echo 'Call failed: no' >&2; echo more >&2; exit 1"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let ended = finish(refusing, Instant::now() + SCOPE_TIMEOUT);
        assert_eq!(ended.unwrap_err().to_string(), "systemd refuses: Call failed: no");
    }
}
