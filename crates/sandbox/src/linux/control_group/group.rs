//! Creates, limits, kills and removes one control group. This module never chooses where a group is created.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{AccessFlags, Pid, UnlinkatFlags, faccessat, unlinkat};

use crate::GroupOrder;

/// The interval between two checks for remaining processes of a killed group.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// The maximum time for killing the processes of a group on a kernel without `cgroup.kill`.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// The weight of a run's group when the kernel distributes processor time (`cpu.weight`). The server's group has the
/// weight 100, so that the server replies in time even next to many runs. The weights apply only between the groups
/// below the parent group, so they do not affect other processes of the machine.
const RUN_WEIGHT: u64 = 10;

/// The control group of a run.
///
/// All access goes through descriptors, so a process can still use the group when it cannot reach `/sys` any more. A
/// script never gets these descriptors, because they are closed on `exec`.
#[derive(Debug)]
pub struct ControlGroup {
    parent: OwnedFd,
    name: String,
    folder: OwnedFd,
    is_removed: bool,
}

impl ControlGroup {
    /// Creates a group. Fails if one of the limits in `order` cannot be set.
    pub fn create(order: &GroupOrder) -> io::Result<Self> {
        let GroupOrder { place, name, limits } = order;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let parent = open_folder(place)?;
        mkdirat(&parent, name.as_str(), Mode::from_bits_truncate(0o755))?;
        let group = Self::open(parent, name)?;
        if let Some(bytes) = limits.memory_bytes {
            // Make the kernel kill all processes of the group together, because a run is useless after the kernel has
            // killed one of its processes. Allow no swap, because swapped memory would not count against the limit.
            group.limit_if_known("memory.oom.group", 1)?;
            group.limit_if_known("memory.swap.max", 0)?;
            group.limit("memory.max", bytes)?;
            // Ignore a failure: the weight cannot be set if the `cpu` controller is not available.
            let _ = group.limit("cpu.weight", RUN_WEIGHT);
        }
        if let Some(pids) = limits.pids {
            group.limit("pids.max", pids)?;
        }
        Ok(group)
    }

    /// Opens the group that another process created from `order` and may have left, so that the caller can remove it.
    /// Returns `None` if the group does not exist.
    pub fn orphaned(order: &GroupOrder) -> Option<Self> {
        Self::open(open_folder(&order.place).ok()?, &order.name).ok()
    }

    /// Opens the existing group `name`.
    fn open(parent: OwnedFd, name: &str) -> io::Result<Self> {
        let folder = open_folder_at(&parent, Path::new(name))?;
        Ok(Self { parent, name: name.to_owned(), folder, is_removed: false })
    }

    /// Moves a process and its threads into the group. Processes that the moved process starts later begin in this
    /// group. Existing children of the moved process stay in their groups. Memory that the moved process already uses
    /// stays charged to its old group.
    ///
    /// The move takes tens of microseconds. If no process was moved on this machine in the last few milliseconds, the
    /// move takes milliseconds, because the kernel then waits for every core to pass a quiescent state.
    pub fn add(&self, pid: Pid) -> io::Result<()> {
        write(&self.folder, "cgroup.procs", &pid.to_string())
    }

    /// Kills every process of the group, including processes that are forked meanwhile. The processes may still exist
    /// for a moment after this function returns.
    pub fn kill(&self) -> io::Result<()> {
        match write(&self.folder, "cgroup.kill", "1") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.freeze_and_kill(),
            killed => killed,
        }
    }

    /// Returns whether the kernel has `cgroup.kill`.
    pub(super) fn has_kill(&self) -> bool {
        faccessat(&self.folder, "cgroup.kill", AccessFlags::F_OK, AtFlags::empty()).is_ok()
    }

    /// Returns whether the group contains a live process.
    pub(super) fn is_populated(&self) -> io::Result<bool> {
        Ok(counter(&read(&self.folder, "cgroup.events")?, "populated") != Some(0))
    }

    /// Returns whether the kernel killed processes because the group exceeded its own memory limit. Returns false if
    /// the kernel killed processes because a parent group or the machine ran out of memory. In `memory.events`,
    /// `oom_kill` counts every kill, but `oom` counts only the cases in which the limit of this group was reached.
    /// Without a memory controller, the reason for a kill is unknown, so the function returns false.
    pub fn was_out_of_memory(&self) -> bool {
        let is_counted = |events: &str, key| counter(events, key).is_some_and(|count| count > 0);
        read(&self.folder, "memory.events")
            .is_ok_and(|events| is_counted(&events, "oom") && is_counted(&events, "oom_kill"))
    }

    /// Removes the group if it contains no process. Returns whether the group is gone.
    pub fn try_remove(&mut self) -> bool {
        let removed = unlinkat(&self.parent, self.name.as_str(), UnlinkatFlags::RemoveDir);
        self.is_removed |= matches!(removed, Ok(()) | Err(Errno::ENOENT));
        self.is_removed
    }

    /// Returns the PIDs of the group's processes, one per line.
    pub fn processes(&self) -> io::Result<String> {
        read(&self.folder, "cgroup.procs")
    }

    /// Changes the memory limit of a group that was created with a memory limit.
    pub fn limit_memory(&self, bytes: u64) -> io::Result<()> {
        self.limit("memory.max", bytes)
    }

    fn limit(&self, file: &str, value: u64) -> io::Result<()> {
        write(&self.folder, file, &value.to_string())
    }

    /// Sets a limit. Does nothing if this kernel does not have the limit: it may be too old, or have no swap.
    fn limit_if_known(&self, file: &str, value: u64) -> io::Result<()> {
        match self.limit(file, value) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            set => set,
        }
    }

    /// Kills every process of the group on kernels before 5.14, which have no `cgroup.kill`. Freezes the group first,
    /// because a frozen process cannot fork, but can be killed.
    pub(super) fn freeze_and_kill(&self) -> io::Result<()> {
        write(&self.folder, "cgroup.freeze", "1")?;
        let deadline = Instant::now() + KILL_TIMEOUT;
        while self.is_populated()? {
            if Instant::now() > deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            for pid in
                self.processes()?.lines().filter_map(|pid| pid.parse().ok()).filter(|pid| *pid > 0)
            {
                // Ignore a failure: the process may have ended already.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        Ok(())
    }
}

impl Drop for ControlGroup {
    /// Kills the group's processes and removes the group, without waiting. If a killed process still exists, the group
    /// stays, and the next server removes it in [`super::ControlGroups::find`].
    fn drop(&mut self) {
        if !self.is_removed && !self.try_remove() {
            let _ = self.kill();
            self.try_remove();
        }
    }
}

/// Returns the value of `key` in a text with lines of the form `key value`.
fn counter(text: &str, key: &str) -> Option<u64> {
    let values = text.lines().filter_map(|line| line.split_once(' '));
    values.filter(|(name, _)| *name == key).find_map(|(_, value)| value.trim().parse().ok())
}

pub(super) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    open_folder_at(&AT_FDCWD, path)
}

fn open_folder_at(parent: &impl AsFd, name: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// Reads the file `file` of a group. `folder` is the group's folder.
pub(super) fn read(folder: &impl AsFd, file: &str) -> io::Result<String> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(folder, file, flags, Mode::empty())?);
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// Writes `text` to the file `file` of a group. `folder` is the group's folder.
pub(super) fn write(folder: &impl AsFd, file: &str, text: &str) -> io::Result<()> {
    let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(folder, file, flags, Mode::empty())?);
    file.write_all(text.as_bytes())
}
