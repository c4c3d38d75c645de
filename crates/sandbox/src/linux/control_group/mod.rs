//! Uses control groups, version 2, to limit and end all processes of a run together. This module never decides the
//! limits; the run's order does.
//!
//! One write to `cgroup.kill` kills a whole group, including processes that are forked meanwhile. Calls of `kill(2)`
//! cannot guarantee this. If the memory controller is delegated to the server, all memory that the kernel uses for a
//! run counts against one limit. This memory includes page tables, sockets, pipes and files in memory, which the memory
//! watch (`memory`) only estimates or does not count. Control groups are optional: without them, the memory watch and
//! the kill of the process tree remain.
//!
//! [`ControlGroups::find`] runs once, to find the parent of all runs' groups. `hierarchy` decides which groups may be
//! the parent. `scope` asks systemd for a new group, a scope. For each run, [`ControlGroups::order`] names a group, and
//! `group` creates it. The module respects systemd's rule of a single writer (<https://systemd.io/CGROUP_DELEGATION>):
//! it creates groups only below a group that is delegated to the server, or that no other program manages.
//!
//! A script must not be able to write to its group's folder, because it could then leave the group. At tier 3 a script
//! has no `/sys`. At tier 2 Landlock allows writes only to the scratch folder. Descriptors of groups are closed on
//! `exec`. At tier 1 and without a sandbox, the script has the server's rights to files. Then the group is not a
//! reliable limit, and only helps to end a run.

mod group;
mod hierarchy;
mod scope;
#[cfg(test)]
mod tests;

pub use group::ControlGroup;
pub(crate) use scope::ScopeError;

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::dir::Dir;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{AccessFlags, Pid, UnlinkatFlags, eaccess, geteuid, unlinkat};
use thiserror::Error;

use crate::{GroupLimits, GroupOrder, process_tree};

use group::{open_folder, read, write};
use hierarchy::{Facts, Hierarchy, Way, own_group, ways};

/// The target of this module's log lines. Like all targets of the server, it starts with `qwed_mcp`.
const LOG_TARGET: &str = "qwed_mcp::sandbox";

/// The prefix of the names of this module's groups. The rest of the name identifies the group's [`Maker`].
const NAME_PREFIX: &str = "qwed-mcp-";

/// A folder that exists if systemd runs the machine (`sd_booted(3)`).
const SYSTEMD_FOLDER: &str = "/run/systemd/system";

/// The extended attributes that systemd sets on a group that it delegates. Only root can read the second attribute.
const DELEGATION_MARKS: [&str; 2] = ["user.delegate", "trusted.delegate"];

/// The paths in a group's folder that must be writable if the group is delegated (`cgroups(7)`). The empty path means
/// the folder itself.
const DELEGATED_FILES: [&str; 3] = ["", "cgroup.procs", "cgroup.subtree_control"];

/// The name of the controller that limits memory.
const MEMORY: &str = "memory";
/// The name of the controller that limits the number of processes and threads.
const PIDS: &str = "pids";

/// The name of the controller that shares the processors among the runs and the server.
const CPU: &str = "cpu";

/// The features that control groups have on this machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Controls {
    /// True if the kernel limits the memory of each group.
    pub memory: bool,
    /// True if the kernel limits the number of processes of each group.
    pub pids: bool,
    /// True if the kernel has `cgroup.kill`. Without it, the processes of a group are frozen and killed one by one.
    pub kill: bool,
}

impl fmt::Display for Controls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memory, pids, kill } = *self;
        let words = [
            memory.then_some("memory"),
            pids.then_some("pids"),
            Some(if kill { "kill" } else { "freeze" }),
        ];
        let words: Vec<_> = words.into_iter().flatten().collect();
        write!(f, "control group ({})", words.join(", "))
    }
}

/// The reason why runs have no control groups. The error messages are for the admin, so they contain paths.
#[derive(Debug, Error)]
pub enum NoControlGroups {
    /// Version 2 of control groups is not mounted: the machine is old, or a container has no control groups.
    #[error("no control groups of version 2 are mounted")]
    NotMounted,
    /// The control groups are mounted, but the mount shows a part of the hierarchy without the server's own group.
    #[error("the server's own control group {0} is not below the mount point")]
    OutOfSight(PathBuf),
    /// The server's own group is not delegated to the server, and systemd does not run the machine.
    #[error("the server's own control group is not delegated to it, and there is no systemd")]
    NotDelegated,
    /// The server's own group cannot be used, and systemd did not create a scope.
    #[error(
        "the server's own control group is not delegated to it, and systemd does not create one: \
         {0}"
    )]
    Scope(#[from] ScopeError),
    /// The server's own group is delegated without the memory controller. Another group, such as a scope, may
    /// still have this controller.
    #[error("the server's own control group has no controllers to delegate")]
    NoControllers,
    /// The kernel refused an operation on a control group.
    #[error("no control group can be used: {0}")]
    Use(#[from] io::Error),
}

/// The group below which this server creates the groups of its runs.
#[derive(Debug)]
pub struct ControlGroups {
    path: PathBuf,
    /// The prefix of this server's group names.
    prefix: String,
    controls: Controls,
    /// The number of [`GroupOrder`]s that were created so far. The name of the next group contains this number.
    ordered: AtomicU64,
    /// The parent group, if the server has moved itself to a group below it and has enabled controllers. Then
    /// [`Self::release`] must restore the parent group.
    taken: Mutex<Option<Place>>,
}

impl ControlGroups {
    /// Finds or creates the parent group for the groups of runs. If necessary, moves this process into the parent
    /// group, or into a group below the parent group. Removes groups that earlier servers left in the parent group.
    ///
    /// Call this once, before the first process of a run is started, because it may be impossible to move processes
    /// that were started earlier. Blocks for up to two seconds.
    pub fn find() -> Result<Self, NoControlGroups> {
        let mountinfo = fs::read_to_string("/proc/self/mountinfo")?;
        let hierarchy = Hierarchy::find(&mountinfo).ok_or(NoControlGroups::NotMounted)?;
        let cgroup = fs::read_to_string("/proc/self/cgroup")?;
        let own = own_group(&cgroup).ok_or(NoControlGroups::NotMounted)?;
        let path =
            hierarchy.folder(&own).ok_or_else(|| NoControlGroups::OutOfSight(own.clone()))?;
        let facts = facts(&own, &path)?;
        let mut reason = NoControlGroups::NotDelegated;
        for way in ways(facts) {
            let found = match way {
                Way::OwnGroup => Self::with_controllers(path.clone()),
                Way::Scope => Self::in_scope(&hierarchy, &own),
                Way::OwnGroupShared => Self::below(path.clone()),
            };
            match found {
                Ok(groups) => return Ok(groups),
                Err(error) => {
                    tracing::debug!(target: LOG_TARGET, ?way, %error, "no control groups this way");
                    reason = error;
                }
            }
        }
        Err(reason)
    }

    /// Returns a [`GroupOrder`] for the control group of a run: a new group name, and each of `limits` for which a
    /// controller exists.
    pub fn order(&self, limits: &GroupLimits) -> GroupOrder {
        let number = self.ordered.fetch_add(1, Ordering::Relaxed);
        GroupOrder {
            place: self.path.clone(),
            name: format!("{}run-{number}", self.prefix),
            limits: GroupLimits {
                memory_bytes: limits.memory_bytes.filter(|_| self.controls.memory),
                pids: limits.pids.filter(|_| self.controls.pids),
            },
        }
    }

    /// Returns a description of the controllers if the groups limit memory. Otherwise returns an error with the reason
    /// why the groups do not limit memory.
    pub fn memory_bound(&self) -> Result<String, String> {
        if self.controls.memory {
            return Ok(self.controls.to_string());
        }
        Err(format!("the groups below {} do not limit memory", self.path.display()))
    }

    /// Restores the parent group to its original state, so that a server that starts in this group later can use it.
    /// Call this after the last group below the parent group is gone.
    pub fn release(&self) {
        // Take the value in a separate statement, to release the lock before the I/O.
        let taken = self.taken().take();
        if let Some(place) = taken {
            place.take_controllers_back();
        }
    }

    fn taken(&self) -> MutexGuard<'_, Option<Place>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses the group at `path` as the parent group, with its controllers. Moves the server to a group below the parent
    /// group.
    fn with_controllers(path: PathBuf) -> Result<Self, NoControlGroups> {
        let place = Place::open(path)?;
        match place.pass_controllers_on().and_then(|()| Self::at(&place)) {
            Ok(groups) => {
                *groups.taken() = Some(place);
                Ok(groups)
            }
            Err(error) => {
                place.take_controllers_back();
                Err(error)
            }
        }
    }

    fn in_scope(hierarchy: &Hierarchy, own: &Path) -> Result<Self, NoControlGroups> {
        let name = format!("{NAME_PREFIX}{}.scope", Pid::this());
        let group = scope::enter(hierarchy, own, &name)?;
        let path =
            hierarchy.folder(&group).ok_or_else(|| NoControlGroups::OutOfSight(group.clone()))?;
        match Self::with_controllers(path.clone()) {
            // The scope belongs to the server even without controllers, so the server can create groups below the
            // scope.
            Err(NoControlGroups::NoControllers) => Self::below(path),
            found => found,
        }
    }

    /// Uses the group at `path` as the parent group, without controllers.
    fn below(path: PathBuf) -> Result<Self, NoControlGroups> {
        Self::at(&Place::open(path)?)
    }

    fn at(place: &Place) -> Result<Self, NoControlGroups> {
        place.remove_leftovers();
        let passed_on = read(&place.folder, "cgroup.subtree_control")?;
        let has = |controller| passed_on.split_ascii_whitespace().any(|word| word == controller);
        let controls = Controls { memory: has(MEMORY), pids: has(PIDS), kill: false };
        let mut groups = Self {
            path: place.path.clone(),
            prefix: place.prefix.clone(),
            controls,
            ordered: AtomicU64::new(0),
            taken: Mutex::new(None),
        };
        // Create one group as a test, because only an existing group shows whether the kernel has `cgroup.kill`.
        let limits = GroupLimits { memory_bytes: Some(1 << 20), pids: Some(1) };
        groups.controls.kill = ControlGroup::create(&groups.order(&limits))?.has_kill();
        Ok(groups)
    }
}

impl Drop for ControlGroups {
    fn drop(&mut self) {
        self.release();
    }
}

/// A candidate for the parent group of the runs' groups.
#[derive(Debug)]
struct Place {
    folder: OwnedFd,
    path: PathBuf,
    prefix: String,
}

impl Place {
    fn open(path: PathBuf) -> io::Result<Self> {
        let own = Pid::this();
        let start = start_of(own).ok_or(io::ErrorKind::Unsupported)?;
        let namespace = pid_namespace_inode().ok_or(io::ErrorKind::Unsupported)?;
        let prefix = format!("{NAME_PREFIX}{namespace}-{own}-{start}-");
        Ok(Self { folder: open_folder(&path)?, path, prefix })
    }

    fn server_group(&self) -> String {
        format!("{}server", self.prefix)
    }

    /// Enables the controllers for memory, processes and processors in the groups below this group.
    fn pass_controllers_on(&self) -> Result<(), NoControlGroups> {
        let present = read(&self.folder, "cgroup.controllers")?;
        let is_present = |name: &str| present.split_ascii_whitespace().any(|word| word == name);
        if !is_present(MEMORY) {
            return Err(NoControlGroups::NoControllers);
        }
        // Move the server to a group below this group. Skip this in the machine's root group, which has no
        // `cgroup.type` and may enable controllers while it contains processes.
        if read(&self.folder, "cgroup.type").is_ok() {
            let own = self.path.join(self.server_group());
            fs::create_dir(&own)?;
            write(&open_folder(&own)?, "cgroup.procs", &Pid::this().to_string())?;
        }
        write(&self.folder, "cgroup.subtree_control", &format!("+{MEMORY}"))?;
        if is_present(PIDS) {
            // Ignore a failure, because the memory controller alone is enough. Enable `pids` after memory: if `pids`
            // came first, the group would become a threaded group.
            let _ = write(&self.folder, "cgroup.subtree_control", &format!("+{PIDS}"));
        }
        if is_present(CPU) {
            // Ignore a failure: without this controller, a run's share of the processors depends only on the weights of
            // the run's processes.
            let _ = write(&self.folder, "cgroup.subtree_control", &format!("+{CPU}"));
        }
        Ok(())
    }

    /// Undoes the completed steps of [`Place::pass_controllers_on`].
    fn take_controllers_back(&self) {
        let own = self.path.join(self.server_group());
        // Undo the steps only if the server was moved. In the machine's root group the server is not moved, and the
        // controllers may stay enabled.
        if own.exists() {
            let steps = [
                write(&self.folder, "cgroup.subtree_control", &format!("-{MEMORY}")),
                write(&self.folder, "cgroup.subtree_control", &format!("-{PIDS}")),
                write(&self.folder, "cgroup.subtree_control", &format!("-{CPU}")),
                write(&self.folder, "cgroup.procs", &Pid::this().to_string()),
                fs::remove_dir(&own),
            ];
            for error in steps.into_iter().filter_map(Result::err) {
                tracing::debug!(target: LOG_TARGET, %error, "a control group is not as it was before");
            }
        }
    }

    /// Removes the control groups that ended servers have left. The kernel refuses to remove a group that still
    /// contains a process.
    fn remove_leftovers(&self) {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let Ok(mut folder) = Dir::openat(&self.folder, ".", flags, Mode::empty()) else { return };
        for entry in folder.iter().flatten() {
            let is_left = entry.file_name().to_str().is_ok_and(|name| {
                maker_of(name).is_some_and(|Maker { namespace, pid, start }| {
                    pid_namespace_inode() == Some(namespace) && start_of(pid) != Some(start)
                })
            });
            if is_left {
                let _ = unlinkat(&self.folder, entry.file_name(), UnlinkatFlags::RemoveDir);
            }
        }
    }
}

/// Collects the facts about the server's own group. `own` is the group's name, and `path` is its folder.
fn facts(own: &Path, path: &Path) -> io::Result<Facts> {
    let folder = open_folder(path)?;
    let is_outermost_of_machine = read(&folder, "cgroup.type").is_err();
    let processes = read(&folder, "cgroup.procs")?;
    let own_number = Pid::this().to_string();
    Ok(Facts {
        is_root_group: own == Path::new("/"),
        is_writable: DELEGATED_FILES
            .iter()
            .all(|file| eaccess(&path.join(file), AccessFlags::W_OK).is_ok()),
        is_owned: !geteuid().is_root() && fstat(&folder)?.st_uid == geteuid().as_raw(),
        is_marked: DELEGATION_MARKS.iter().any(|mark| {
            let mut value = [0; 1];
            rustix::fs::fgetxattr(&folder, *mark, &mut value[..]) == Ok(1) && value == *b"1"
        }),
        has_systemd: Path::new(SYSTEMD_FOLDER).exists(),
        is_alone: is_outermost_of_machine || processes.lines().all(|line| line == own_number),
    })
}

/// The process that created a group, according to the group's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Maker {
    /// The inode of the process's PID namespace.
    namespace: u64,
    pid: Pid,
    /// The process's start time.
    start: u64,
}

fn maker_of(name: &str) -> Option<Maker> {
    let mut parts = name.strip_prefix(NAME_PREFIX)?.splitn(4, '-');
    let (namespace, pid) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let start = parts.next()?.parse().ok()?;
    parts.next().map(|_| Maker { namespace, pid: Pid::from_raw(pid), start })
}

/// Returns the inode of this process's PID namespace (`pid_namespaces(7)`).
fn pid_namespace_inode() -> Option<u64> {
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    namespace.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// Returns the start time of a process, in clock ticks since boot.
fn start_of(pid: Pid) -> Option<u64> {
    process_tree::stat(pid).map(|stat| stat.started)
}
