//! Asks systemd for a scope: a control group that systemd creates for the server and delegates to it. This module sends
//! no request if the server would escape a limit by moving to the scope.
//!
//! On ordinary desktops the user's own systemd manager has the controllers for memory and processes, so the request
//! needs no special rights. The tool `busctl`, a part of systemd, sends the request to the bus at systemd's default
//! path. The client that started the server cannot select another bus by an environment variable.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::{Pid, Uid, geteuid};
use thiserror::Error;

use super::hierarchy::{Hierarchy, left_behind, own_group};

/// The timeout of the whole request. A request takes about 20 ms, and only the server's first run waits for it.
const SCOPE_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval between two checks whether the request is done.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// The possible paths of `busctl`.
const BUSCTL_PATHS: [&str; 3] =
    ["/usr/bin/busctl", "/bin/busctl", "/run/current-system/sw/bin/busctl"];

/// The target of the symlink `/proc/self/ns/pid` in the machine's initial PID namespace (`PROC_PID_INIT_INO`).
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// A file with a limit, in the folder of a control group. If no limit is set, the file's text starts with the value of
/// the field `none`. An empty `none` means that the text is then empty.
struct LimitFile {
    name: &'static str,
    none: &'static str,
}

/// The files with limits that only an admin sets. `pids.max` is not listed, because systemd sets `pids.max` for every
/// unit.
const LIMIT_FILES: [LimitFile; 5] = [
    LimitFile { name: "memory.max", none: "max" },
    LimitFile { name: "memory.high", none: "max" },
    LimitFile { name: "cpu.max", none: "max " },
    LimitFile { name: "cpuset.cpus", none: "\n" },
    LimitFile { name: "io.max", none: "" },
];

impl LimitFile {
    /// Returns whether a file with this text sets a limit.
    fn is_set(&self, text: &str) -> bool {
        if self.none.is_empty() { !text.is_empty() } else { !text.starts_with(self.none) }
    }
}

/// The reason why the server has no scope.
#[derive(Debug, Error)]
pub enum ScopeError {
    /// The server is in another PID namespace than systemd. In systemd's namespace, the server's PID may belong to
    /// another process.
    #[error("systemd uses another PID namespace than the server")]
    OtherPidNamespace,
    /// The server is in another cgroup namespace than systemd, so the same group has different paths in the two
    /// namespaces.
    #[error("the server uses another control group namespace than systemd")]
    OtherCgroupNamespace,
    /// The server was started with this limit, and would escape it by moving to a scope.
    #[error("the server would leave the limit that {file} of its group {group} sets")]
    LimitLeft {
        /// A group that contains the server.
        group: PathBuf,
        /// The file with the limit.
        file: &'static str,
    },
    /// `busctl` could not be started: systemd or this tool may be missing.
    #[error("busctl, which calls systemd, cannot be started: {0}")]
    StartBusctl(#[source] io::Error),
    /// systemd refuses the request, or its bus does not exist.
    #[error("systemd refuses: {0}")]
    Refused(String),
    /// systemd did not create the scope in time.
    #[error("systemd did not create it within {} s", SCOPE_TIMEOUT.as_secs())]
    TimedOut,
}

/// Asks systemd for a scope named `name`, with delegated controllers for memory and processes. systemd moves this
/// process with all of its threads to the scope. Returns the scope's group.
pub(super) fn enter(hierarchy: &Hierarchy, own: &Path, name: &str) -> Result<PathBuf, ScopeError> {
    let user = geteuid();
    if !is_counted_by_systemd() {
        return Err(ScopeError::OtherPidNamespace);
    }
    // If the server's group is `/`, the server is in another cgroup namespace than systemd. In systemd's own namespace,
    // the server is never in the root group.
    if own == Path::new("/") {
        return Err(ScopeError::OtherCgroupNamespace);
    }
    if let Some((group, file)) = limit_left(hierarchy, own, &manager(user)) {
        return Err(ScopeError::LimitLeft { group, file });
    }
    let deadline = Instant::now() + SCOPE_TIMEOUT;
    let busctl = request(user, name).spawn().map_err(ScopeError::StartBusctl)?;
    finish(busctl, deadline)?;
    // The reply confirms that systemd has queued a job, not that the job is done. So wait until this process is in the
    // scope.
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

/// Returns the group of the systemd manager that receives the request: the user's own manager, or the machine's manager
/// if the user is root.
fn manager(user: Uid) -> PathBuf {
    if user.is_root() {
        return PathBuf::from("/");
    }
    PathBuf::from(format!("/user.slice/user-{user}.slice/user@{user}.service"))
}

/// Finds the first limit that the server would escape by moving to a scope. Returns the group with the limit, and the
/// name of the file that contains the limit.
fn limit_left(
    hierarchy: &Hierarchy,
    own: &Path,
    manager: &Path,
) -> Option<(PathBuf, &'static str)> {
    left_behind(own, manager).into_iter().find_map(|group| {
        let folder = hierarchy.folder(&group);
        let is_set = |file: &&LimitFile| match &folder {
            // A missing file means that the group lacks the controller, so no limit is set.
            Some(folder) => {
                fs::read_to_string(folder.join(file.name)).is_ok_and(|text| file.is_set(&text))
            }
            // The group's folder is not mounted here, so its limits are unknown. Assume that a limit is set.
            None => true,
        };
        let file = LIMIT_FILES.iter().find(is_set)?;
        Some((group, file.name))
    })
}

/// Returns whether systemd uses the same PIDs as this process. In a container with access to the machine's bus, the
/// PIDs may differ. Then the machine's systemd would move a different process, which has the same PID outside of the
/// container.
fn is_counted_by_systemd() -> bool {
    let namespace = fs::read_link("/proc/self/ns/pid");
    let first = fs::read_to_string("/proc/1/comm");
    namespace.is_ok_and(|namespace| namespace == Path::new(INITIAL_PID_NAMESPACE))
        || first.is_ok_and(|name| name.trim_end() == "systemd")
}

/// Builds the `busctl` command that requests a scope: it calls systemd's method `StartTransientUnit`
/// (`org.freedesktop.systemd1(5)`). The arguments of this method are the name of the scope, the mode, the properties,
/// and an empty list of further units.
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
        // This property implies `Delegate`, but only for the two listed controllers.
        .args(["DelegateControllers", "as", "2", "memory", "pids"])
        // With this property, systemd removes the ended scope even if a process in the scope was killed.
        .args(["CollectMode", "s", "inactive-or-failed"])
        .arg("0")
        .env_clear()
        .env("XDG_RUNTIME_DIR", format!("/run/user/{user}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    busctl
}

/// Waits until `busctl` has ended. Kills `busctl` after `deadline`.
fn finish(mut busctl: Child, deadline: Instant) -> Result<(), ScopeError> {
    loop {
        match busctl.try_wait().map_err(ScopeError::StartBusctl)? {
            Some(status) if status.success() => return Ok(()),
            Some(_) => return Err(ScopeError::Refused(first_line(&mut busctl))),
            None if Instant::now() > deadline => {
                // Ignore a failure: `busctl` may just have ended.
                let _ = busctl.kill();
                let _ = busctl.wait();
                return Err(ScopeError::TimedOut);
            }
            None => std::thread::sleep(LOOK_INTERVAL),
        }
    }
}

/// Returns the first line that `busctl` wrote to standard error. Call this after `busctl` has ended.
fn first_line(busctl: &mut Child) -> String {
    let mut bytes = Vec::new();
    if let Some(stderr) = &mut busctl.stderr {
        // Ignore a failure: the output is only a part of an error message.
        let _ = stderr.take(1024).read_to_end(&mut bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    text.lines().next().unwrap_or("busctl gives no reason").trim().to_owned()
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
