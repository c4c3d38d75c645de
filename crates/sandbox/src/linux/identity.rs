//! The user of a run: the server's, or where that is root, nobody.

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
    /// Nobody: the server's user is root, and is given up.
    Nobody,
}

impl RunUser {
    /// Returns the user for the runs of a server of this process's user.
    ///
    /// Root in a user namespace that knows no other user is an ordinary user under another name.
    pub(crate) fn of_server() -> Self {
        let maps_nobody = || match fs::read_to_string("/proc/self/uid_map") {
            Ok(uid_map) => maps_nobody(&uid_map),
            // Not known: better to fail to give root up than not to try.
            Err(_) => true,
        };
        if geteuid().is_root() && maps_nobody() { Self::Nobody } else { Self::Server }
    }
}

/// Returns the number of the user that scripts of this process run as.
pub fn script_user(tier: Tier) -> u32 {
    match RunUser::of_server() {
        RunUser::Nobody if tier > Tier::Off => NOBODY,
        RunUser::Nobody | RunUser::Server => geteuid().as_raw(),
    }
}

/// Returns whether a `uid_map` (`user_namespaces(7)`) has the user nobody: lines of first id inside, first
/// id outside, count.
fn maps_nobody(uid_map: &str) -> bool {
    let nobody = u64::from(NOBODY);
    uid_map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().filter_map(|n| n.parse::<u64>().ok());
        let (first, count) = (numbers.next(), numbers.nth(1));
        first.zip(count).is_some_and(|(first, count)| (first..first + count).contains(&nobody))
    })
}

/// The process's own folder in `/proc`, by which its user can be mapped also when `/proc` is not
/// there any more.
pub(crate) struct OwnProcess(OwnedFd);

impl OwnProcess {
    pub(crate) fn open(proc: &Path) -> Result<Self, LaunchError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let folder = open(proc, flags, Mode::empty()).or_fail(LaunchError::MapIdentity)?;
        Ok(Self(folder))
    }

    /// Maps the one user and group that this process has to themselves, in the user namespace that
    /// it has just created.
    pub(crate) fn map_to_itself(&self, uid: Uid, gid: Gid) -> Result<(), LaunchError> {
        // Before the groups may be mapped, they must not be droppable any more (CVE-2014-8989).
        self.write("setgroups", "deny")?;
        self.write("uid_map", &format!("{uid} {uid} 1"))?;
        self.write("gid_map", &format!("{gid} {gid} 1"))
    }

    /// Puts this process into a user namespace in which its user is the only one.
    pub(crate) fn enter_user_namespace(&self) -> Result<(), LaunchError> {
        let (uid, gid) = (geteuid(), getegid());
        unshare(CloneFlags::CLONE_NEWUSER).or_fail(LaunchError::MapIdentity)?;
        self.map_to_itself(uid, gid)
    }

    /// Leaves the folder open for the program that this process becomes; its number.
    pub(crate) fn leave_open(self) -> Result<RawFd, LaunchError> {
        let flags = FcntlArg::F_SETFD(FdFlag::empty());
        fcntl(&self.0, flags).or_fail(LaunchError::MapIdentity)?;
        Ok(self.0.into_raw_fd())
    }

    /// Writes to one of the process's own files.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<(), LaunchError> {
        let path = format!("self/{name}");
        let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        let file = openat(self.0.as_fd(), path.as_str(), flags, Mode::empty());
        let written = file.and_then(|file| write(File::from(file), content.as_bytes()));
        written.or_fail(LaunchError::MapIdentity)?;
        Ok(())
    }
}

/// Makes this process nobody's, for good.
pub(crate) fn become_nobody() -> Result<(), LaunchError> {
    let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    setgroups(&[]).or_fail(LaunchError::DropIdentity)?;
    setresgid(gid, gid, gid).or_fail(LaunchError::DropIdentity)?;
    setresuid(uid, uid, uid).or_fail(LaunchError::DropIdentity)?;
    if geteuid() != uid || getegid() != gid || setresuid(Uid::from_raw(0), uid, uid).is_ok() {
        return Err(LaunchError::DropIdentity(Errno::EPERM.into()));
    }
    // A process that changed its user is not dumpable, and its /proc files are root's.
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
