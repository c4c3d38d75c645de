//! Sets the user of a run: the server's user, or `nobody` if the server is root. A process that gave up root cannot get
//! it back.

use std::fs;
use std::fs::File;
use std::os::fd::{AsFd, IntoRawFd as _, OwnedFd, RawFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl, open, openat};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid, getegid, geteuid, setgroups, setresgid, setresuid, write};

use super::{LaunchError, NOBODY, OrFail as _, Tier};

/// The user of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunUser {
    /// The server's user.
    Server,
    /// The user `nobody`. The server runs as root, and the run must not have root's rights.
    Nobody,
}

impl RunUser {
    /// Returns the user for runs. Call this as the server's user.
    ///
    /// If the server's user namespace does not map `nobody`, the runs keep the server's user even if this user is root.
    /// Outside of the namespace, this root user is an ordinary user.
    pub(crate) fn of_server() -> Self {
        let maps_nobody = || match fs::read_to_string("/proc/self/uid_map") {
            Ok(uid_map) => maps_nobody(&uid_map),
            // The map cannot be read, so assume that it maps `nobody`. If the map does not, the launch fails.
            Err(_) => true,
        };
        if geteuid().is_root() && maps_nobody() { Self::Nobody } else { Self::Server }
    }
}

/// Returns the UID of the scripts that this process runs at `tier`.
pub fn script_user(tier: Tier) -> u32 {
    match RunUser::of_server() {
        RunUser::Nobody if tier > Tier::Off => NOBODY,
        RunUser::Nobody | RunUser::Server => geteuid().as_raw(),
    }
}

/// Returns whether a `uid_map` (`user_namespaces(7)`) maps `nobody`. Each line contains the first ID inside of the
/// namespace, the first ID outside of it, and the number of IDs.
fn maps_nobody(uid_map: &str) -> bool {
    let nobody = u64::from(NOBODY);
    uid_map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().filter_map(|n| n.parse::<u64>().ok());
        let (first, count) = (numbers.next(), numbers.nth(1));
        first.zip(count).is_some_and(|(first, count)| (first..first + count).contains(&nobody))
    })
}

/// A descriptor of `/proc`. Through this descriptor, this process can write its own settings, such as the UID map of
/// its user namespace, even after the path `/proc` has become unreachable.
pub(crate) struct OwnProcess(OwnedFd);

impl OwnProcess {
    pub(crate) fn open(proc: &Path) -> Result<Self, LaunchError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let folder = open(proc, flags, Mode::empty()).or_fail(LaunchError::MapIdentity)?;
        Ok(Self(folder))
    }

    /// Maps the UID and GID of this process to themselves, in the user namespace that the process has just created.
    pub(crate) fn map_to_itself(&self, uid: Uid, gid: Gid) -> Result<(), LaunchError> {
        // Deny `setgroups` first: the kernel lets a process map its group only if the process cannot drop groups any
        // more (CVE-2014-8989).
        self.write("setgroups", "deny")?;
        self.write("uid_map", &format!("{uid} {uid} 1"))?;
        self.write("gid_map", &format!("{gid} {gid} 1"))
    }

    /// Moves this process into a new user namespace that maps only the user and group of this process.
    pub(crate) fn enter_user_namespace(&self) -> Result<(), LaunchError> {
        let (uid, gid) = (geteuid(), getegid());
        unshare(CloneFlags::CLONE_NEWUSER).or_fail(LaunchError::MapIdentity)?;
        self.map_to_itself(uid, gid)
    }

    /// Clears the close-on-exec flag, so that the next program inherits the descriptor. Returns the descriptor.
    pub(crate) fn leave_open(self) -> Result<RawFd, LaunchError> {
        let flags = FcntlArg::F_SETFD(FdFlag::empty());
        fcntl(&self.0, flags).or_fail(LaunchError::MapIdentity)?;
        Ok(self.0.into_raw_fd())
    }

    /// Writes `content` to the file `self/{name}` below `/proc`.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<(), LaunchError> {
        let path = format!("self/{name}");
        let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        let file = openat(self.0.as_fd(), path.as_str(), flags, Mode::empty());
        let written = file.and_then(|file| write(File::from(file), content.as_bytes()));
        written.or_fail(LaunchError::MapIdentity)?;
        Ok(())
    }
}

/// Changes this process's user to `nobody`, irrevocably.
pub(crate) fn become_nobody() -> Result<(), LaunchError> {
    let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    setgroups(&[]).or_fail(LaunchError::DropIdentity)?;
    setresgid(gid, gid, gid).or_fail(LaunchError::DropIdentity)?;
    setresuid(uid, uid, uid).or_fail(LaunchError::DropIdentity)?;
    if geteuid() != uid || getegid() != gid || setresuid(Uid::from_raw(0), uid, uid).is_ok() {
        return Err(LaunchError::DropIdentity(Errno::EPERM.into()));
    }
    // Make this process dumpable again, because a change of the user clears this flag. Without the flag, the process's
    // files in `/proc` belong to root.
    nix::sys::prctl::set_dumpable(true).or_fail(LaunchError::DropIdentity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_one_user_has_no_nobody() {
        for (map, expected) in [
            ("         0          0 4294967295\n", true),
            ("0 1000 1\n", false),
            ("0 1000 1\n1 100000 65536\n", true),
            ("1000 1000 1\n", false),
            ("", false),
        ] {
            assert_eq!(maps_nobody(map), expected, "{map:?}");
        }
    }
}
