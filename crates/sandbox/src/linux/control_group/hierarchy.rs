//! The server's place among the control groups, and what it may do there: texts of the kernel in, a
//! decision out. No I/O.

use std::path::{Component, Path, PathBuf};

use crate::linux::unescape;

/// The file system of control groups, version 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// The group that the mount shows as its root.
    root: PathBuf,
    mount_point: PathBuf,
}

impl Hierarchy {
    /// Finds it in `proc_pid_mountinfo(5)`. Machines with both versions have it elsewhere than
    /// machines with one. The last mount of several lies above the others.
    pub(super) fn find(mountinfo: &str) -> Option<Self> {
        let mut mounts = mountinfo.lines().filter_map(|line| {
            let (mount, file_system) = line.split_once(" - ")?;
            (file_system.split(' ').next()? == "cgroup2").then_some(())?;
            let mut fields = mount.split(' ').skip(3);
            let root = unescape(fields.next()?.as_bytes());
            Some(Self { root, mount_point: unescape(fields.next()?.as_bytes()) })
        });
        mounts.next_back()
    }

    /// Returns the folder of `group`, a name from `/proc/self/cgroup`. `None` if it lies outside of
    /// what is mounted.
    pub(super) fn folder(&self, group: &Path) -> Option<PathBuf> {
        // In a namespace of control groups, what is above its root starts with `/..`.
        let is_outside = |path: &Path| path.components().any(|part| part == Component::ParentDir);
        if is_outside(&self.root) || is_outside(group) {
            return None;
        }
        Some(self.mount_point.join(group.strip_prefix(&self.root).ok()?))
    }
}

/// Returns the group of version 2 in the text of `/proc/self/cgroup`.
pub(super) fn own_group(cgroup: &str) -> Option<PathBuf> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(PathBuf::from(path))
}

/// The facts about the server's own group before anything is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts, not states")]
pub(super) struct Facts {
    /// True if the group is `/`: of the machine, or of a container's namespace.
    pub(super) is_root_group: bool,
    /// Its folder, and the files that distribute its controllers and processes, can be written to.
    pub(super) is_writable: bool,
    /// Its folder belongs to this user, and this user is not root.
    pub(super) is_owned: bool,
    /// True if the group's maker has marked it as delegated to whoever is in it.
    pub(super) is_marked: bool,
    /// systemd runs this machine, or this container.
    pub(super) has_systemd: bool,
    /// No other process is in it.
    pub(super) is_alone: bool,
}

/// A way to a place where groups can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The server's own group, with its controllers. The server moves to a group below it, since a
    /// group that passes controllers on has no processes itself.
    OwnGroup,
    /// A scope that systemd makes for the server.
    Scope,
    /// The server's own group, which the server stays in, so there are no controllers.
    OwnGroupShared,
}

/// Returns the ways to try, best one first.
///
/// A group that systemd made is systemd's alone unless it is marked as delegated, even where the
/// file modes would let us write: a user's manager runs as the user. Without systemd, the owner of
/// the folder says whose it is; for root, who may write everywhere, only the outermost group is.
pub(super) fn ways(facts: Facts) -> Vec<Way> {
    let Facts { is_root_group, is_writable, is_owned, is_marked, has_systemd, is_alone } = facts;
    let is_ours = is_writable && (is_marked || !has_systemd && (is_root_group || is_owned));
    [
        (is_ours && is_alone).then_some(Way::OwnGroup),
        has_systemd.then_some(Way::Scope),
        is_ours.then_some(Way::OwnGroupShared),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the groups that the server would leave with their limits if it moved to a scope: those
/// on the way to `own`, itself included, that are not above `manager`, the group of the manager
/// that makes the scope.
pub(super) fn left_behind(own: &Path, manager: &Path) -> Vec<PathBuf> {
    own.ancestors().filter(|group| !manager.starts_with(group)).map(Path::to_owned).collect()
}
