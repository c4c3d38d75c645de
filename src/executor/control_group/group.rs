//! One group: what is in it, what it may use, and its end.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{Pid, UnlinkatFlags, unlinkat};

/// How long to wait between two looks at who is left.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// How long a kernel without `cgroup.kill` has to end what is in a group.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// What the processes of a group may use, all together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GroupLimits {
    /// Everything that the kernel counts: what is resident, page tables, sockets, pipes, files in
    /// a tmpfs. Above it, all of the group's processes are killed at once.
    pub(crate) memory_bytes: Option<u64>,
    /// Processes and threads; a fork above it fails.
    pub(crate) pids: Option<u64>,
}

/// A control group of ours.
///
/// Everything goes through descriptors, so it can be used from a process that has left the
/// machine's file tree since. A script never gets one of them: they are closed at `exec`.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    path: PathBuf,
    parent: OwnedFd,
    folder: OwnedFd,
    /// Whether this value stands for the group's life: it was made here, and not removed yet.
    is_maker: bool,
}

impl ControlGroup {
    /// Makes the group `path`, a folder in `parent`. A limit that cannot be set is an error.
    pub(super) fn create(parent: OwnedFd, path: PathBuf, limits: &GroupLimits) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        mkdirat(&parent, name, Mode::from_bits_truncate(0o755))?;
        let folder = open_folder_at(&parent, name)?;
        let group = Self { path, parent, folder, is_maker: true };
        if let Some(bytes) = limits.memory_bytes {
            // One process of a run that is killed for all of them leaves a run that makes no sense;
            // and what is swapped out is not within the limit, so nothing is.
            group.limit_if_known("memory.oom.group", 1)?;
            group.limit_if_known("memory.swap.max", 0)?;
            group.limit("memory.max", bytes)?;
        }
        if let Some(pids) = limits.pids {
            group.limit("pids.max", pids)?;
        }
        Ok(group)
    }

    /// Opens a group that another process of ours has made, and will remove.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let above = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = open_folder(above)?;
        let folder = open_folder(path)?;
        Ok(Self { path: path.to_owned(), parent, folder, is_maker: false })
    }

    /// Its folder in the machine's file tree.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves a process here, with its threads; what it starts from now on begins here. What it has
    /// started before stays where it is, and so does the memory that it has already.
    ///
    /// Takes tens of microseconds, and milliseconds if no process was moved on this machine for the
    /// last few: the kernel then waits until each core has been somewhere else.
    pub(crate) fn add(&self, pid: Pid) -> io::Result<()> {
        write(&self.folder, "cgroup.procs", &pid.to_string())
    }

    /// Kills every process of the group, those included that are forked while it does so. They may
    /// take a moment to be gone: see [`ControlGroup::wait_until_empty`].
    pub(crate) fn kill(&self) -> io::Result<()> {
        match write(&self.folder, "cgroup.kill", "1") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.freeze_and_kill(),
            killed => killed,
        }
    }

    /// Whether a process is alive in it.
    pub(crate) fn is_populated(&self) -> io::Result<bool> {
        Ok(counter(&read(&self.folder, "cgroup.events")?, "populated") != Some(0))
    }

    /// Waits for at most `limit` until no process is alive in it. False if there still is one.
    pub(crate) fn wait_until_empty(&self, limit: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + limit;
        while self.is_populated()? {
            if Instant::now() > deadline {
                return Ok(false);
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        Ok(true)
    }

    /// Whether a process of it was killed because there was no memory left. Without a memory
    /// controller nobody can tell: false.
    pub(crate) fn was_out_of_memory(&self) -> io::Result<bool> {
        match read(&self.folder, "memory.events") {
            Ok(events) => Ok(counter(&events, "oom_kill").is_some_and(|count| count > 0)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the group. For at most `limit` it waits for processes that are not quite gone.
    pub(crate) fn remove(mut self, limit: Duration) -> io::Result<()> {
        self.is_maker = false;
        let deadline = Instant::now() + limit;
        loop {
            match self.remove_folder() {
                Err(Errno::EBUSY) if Instant::now() < deadline => {
                    std::thread::sleep(LOOK_INTERVAL);
                }
                Ok(()) | Err(Errno::ENOENT) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn remove_folder(&self) -> nix::Result<()> {
        let name = self.path.file_name().ok_or(Errno::EINVAL)?;
        unlinkat(&self.parent, name, UnlinkatFlags::RemoveDir)
    }

    fn limit(&self, file: &str, value: u64) -> io::Result<()> {
        write(&self.folder, file, &value.to_string())
    }

    /// Sets what older kernels, and those without swap, do not have.
    fn limit_if_known(&self, file: &str, value: u64) -> io::Result<()> {
        match self.limit(file, value) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            set => set,
        }
    }

    /// The same as `cgroup.kill` on kernels before 5.14: what is frozen does not fork, and can be
    /// killed.
    pub(super) fn freeze_and_kill(&self) -> io::Result<()> {
        write(&self.folder, "cgroup.freeze", "1")?;
        let deadline = Instant::now() + KILL_TIMEOUT;
        while self.is_populated()? {
            if Instant::now() > deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let processes = read(&self.folder, "cgroup.procs")?;
            for pid in processes.lines().filter_map(|pid| pid.parse().ok()).filter(|pid| *pid > 0) {
                // It may have ended by now.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        Ok(())
    }
}

impl Drop for ControlGroup {
    /// Best effort, without waiting: who wants to know removes it with [`ControlGroup::remove`].
    fn drop(&mut self) {
        if self.is_maker && self.remove_folder() == Err(Errno::EBUSY) {
            let _ = self.kill();
            let _ = self.remove_folder();
        }
    }
}

/// The value of `key` in a file of lines `key value`.
fn counter(text: &str, key: &str) -> Option<u64> {
    let values = text.lines().filter_map(|line| line.split_once(' '));
    values.filter(|(name, _)| *name == key).find_map(|(_, value)| value.trim().parse().ok())
}

pub(super) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    Ok(open(path, flags, Mode::empty())?)
}

fn open_folder_at(parent: &impl AsFd, name: &std::ffi::OsStr) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// Reads a file of the group `folder`.
pub(super) fn read(folder: &impl AsFd, file: &str) -> io::Result<String> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(folder, file, flags, Mode::empty())?);
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// Writes to a file of the group `folder`, which acts on each write as a whole.
pub(super) fn write(folder: &impl AsFd, file: &str, text: &str) -> io::Result<()> {
    let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(folder, file, flags, Mode::empty())?);
    file.write_all(text.as_bytes())
}
