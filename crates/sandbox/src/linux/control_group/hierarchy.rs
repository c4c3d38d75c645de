//! Decides the server's place among the control groups, and its rights there, from texts of the kernel. It performs no
//! I/O.

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
    /// Finds the mount in the text of `proc_pid_mountinfo(5)`. The mount point is different on machines with both
    /// versions. If there are several mounts, the last one covers the others.
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

    /// Returns the folder of `group`, a name from `/proc/self/cgroup`. `None` if it is outside of the mounted part.
    pub(super) fn folder(&self, group: &Path) -> Option<PathBuf> {
        // In a cgroup namespace, paths above its root start with `/..`.
        let is_outside = |path: &Path| path.components().any(|part| part == Component::ParentDir);
        if is_outside(&self.root) || is_outside(group) {
            return None;
        }
        Some(self.mount_point.join(group.strip_prefix(&self.root).ok()?))
    }
}

/// Returns the group of version 2 from the text of `/proc/self/cgroup`.
pub(super) fn own_group(cgroup: &str) -> Option<PathBuf> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(PathBuf::from(path))
}

/// The facts about the server's own group before anything is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts, not states")]
pub(super) struct Facts {
    /// True if the group is `/`, of the machine or of a container's namespace.
    pub(super) is_root_group: bool,
    /// True if its folder is writable, and so are the files that distribute its controllers and processes.
    pub(super) is_writable: bool,
    /// True if its folder belongs to this user, and this user is not root.
    pub(super) is_owned: bool,
    /// True if the creator of the group has marked it as delegated to the processes in it.
    pub(super) is_marked: bool,
    /// True if systemd runs this machine, or this container.
    pub(super) has_systemd: bool,
    /// True if no other process is in the group.
    pub(super) is_alone: bool,
}

/// A way to get a place where groups can be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The server's own group, with its controllers. The server moves to a group below it, because a group that enables
    /// controllers for the groups below cannot contain processes.
    OwnGroup,
    /// A scope that systemd creates for the server.
    Scope,
    /// The server's own group. The server stays in it, so the groups below have no controllers.
    OwnGroupShared,
}

/// Returns the ways to try, best one first.
///
/// A group that systemd created belongs to systemd unless it is marked as delegated, even if the file modes allow us to
/// write: a user's manager runs as the user. Without systemd, the group belongs to the owner of its folder. Root may
/// write to every group, so for root only the root group counts as its own.
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

/// Returns the groups whose limits the server would escape if it moved to a scope: `own` and its ancestors, except for
/// ancestors of `manager` and `manager` itself. `manager` is the group of the manager that creates the scope.
pub(super) fn left_behind(own: &Path, manager: &Path) -> Vec<PathBuf> {
    own.ancestors().filter(|group| !manager.starts_with(group)).map(Path::to_owned).collect()
}
