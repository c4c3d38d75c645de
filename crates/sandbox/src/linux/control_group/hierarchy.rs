//! Decides below which control groups the server may create groups, from data that the caller has read. This module
//! performs no I/O.

use std::path::{Component, Path, PathBuf};

use crate::linux::unescape;

/// The mounted file system of control groups, version 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// The group that the mount shows as its root.
    root: PathBuf,
    mount_point: PathBuf,
}

impl Hierarchy {
    /// Finds the mount in the text of `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`). The mount point is not always
    /// the same: machines that mount both versions of control groups have another mount point. Returns the last of
    /// several mounts, because the last mount covers the earlier mounts.
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

    /// Returns the folder of `group`, a path from `/proc/self/cgroup`. Returns `None` if the group is outside of the
    /// mounted part of the hierarchy.
    pub(super) fn folder(&self, group: &Path) -> Option<PathBuf> {
        // In a cgroup namespace, the path of a group outside of the namespace starts with `/..`. Such a group has no
        // folder in this mount.
        let is_outside = |path: &Path| path.components().any(|part| part == Component::ParentDir);
        if is_outside(&self.root) || is_outside(group) {
            return None;
        }
        Some(self.mount_point.join(group.strip_prefix(&self.root).ok()?))
    }
}

/// Finds this process's control group (version 2) in the text of `/proc/self/cgroup`.
pub(super) fn own_group(cgroup: &str) -> Option<PathBuf> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(PathBuf::from(path))
}

/// Facts about the server's own control group. They are collected before the server tries to create groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts, not states")]
pub(super) struct Facts {
    /// True if the group is `/`: the root group of the machine, or of a container's cgroup namespace.
    pub(super) is_root_group: bool,
    /// True if this process may write to the group's folder, and to the files `cgroup.procs` and
    /// `cgroup.subtree_control` in the folder.
    pub(super) is_writable: bool,
    /// True if the group's folder belongs to this process's user, and this user is not root.
    pub(super) is_owned: bool,
    /// True if the creator of the group has marked it as delegated to the processes in it.
    pub(super) is_marked: bool,
    /// True if systemd runs this machine, or this container.
    pub(super) has_systemd: bool,
    /// True if the group contains no other process, or if the group is the machine's root group. The root group can
    /// enable controllers even if it contains other processes.
    pub(super) is_alone: bool,
}

/// A way to get a parent group in which the server can create groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Use the server's own group, with its controllers. The server moves to a group below its own group, because a
    /// group that enables controllers for the groups below cannot contain processes.
    OwnGroup,
    /// Use a scope: a group that systemd creates for the server.
    Scope,
    /// Use the server's own group without controllers. The server stays in this group, so the groups below it cannot
    /// have controllers.
    OwnGroupShared,
}

/// Returns the ways to try, the best way first.
///
/// If systemd runs the machine, the server may use its own group only if the group is marked as delegated. Permission
/// to write to the group is not enough: a user's systemd manager runs as the user, so the user may write to the groups
/// of this manager. Without systemd, the server may also use its own group if the group is the root group, or if the
/// group's folder belongs to the server's user and this user is not root. Permission to write proves nothing for root,
/// because root may write to every group.
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

/// Returns the groups that the server would leave if it moved to a scope: `own` and its ancestors, except for `manager`
/// and the ancestors of `manager`. The server would escape the limits of these groups. `manager` is the group of the
/// systemd manager that creates the scope.
pub(super) fn left_behind(own: &Path, manager: &Path) -> Vec<PathBuf> {
    own.ancestors().filter(|group| !manager.starts_with(group)).map(Path::to_owned).collect()
}
