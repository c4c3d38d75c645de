//! The memory that is available to scripts: the machine's available memory, limited by the control groups of this
//! process. This module never sets a limit.

use std::fs;
use std::path::{Path, PathBuf};

const KIB: u64 = 1024;

/// Returns the number of bytes of memory that are available to scripts. `None` if the system does not report it.
pub(crate) fn available_memory_bytes() -> Option<u64> {
    let machine = available_of(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let group = group.and_then(|text| own_group(&text));
    let left = group.into_iter().flat_map(|group| left_in(Path::new("/sys/fs/cgroup"), &group));
    Some(left.fold(machine, u64::min))
}

/// Returns `MemAvailable` of `/proc/meminfo`, in bytes.
fn available_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes.saturating_mul(KIB))
}

/// Returns the path of this process's control group (version 2), relative to the mount point of the hierarchy.
fn own_group(cgroup: &str) -> Option<PathBuf> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(PathBuf::from(path))
}

/// Returns the number of bytes that a control group and each of its ancestors can still use within their memory limits.
/// Skips groups without a limit.
fn left_in(mount: &Path, group: &Path) -> Vec<u64> {
    let number = |folder: &Path, file: &str| -> Option<u64> {
        fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
    };
    let left = |group: &Path| {
        let folder = mount.join(group);
        // The content `max` means no limit. It does not parse as a number, so such a group is skipped.
        let limit = number(&folder, "memory.max")?;
        Some(limit.saturating_sub(number(&folder, "memory.current").unwrap_or(0)))
    };
    group.ancestors().filter_map(left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_what_the_machine_says_of_itself() {
        let meminfo = "MemTotal:  100 kB\nMemFree:  1 kB\nMemAvailable:   64 kB\n";
        assert_eq!(available_of(meminfo), Some(64 * KIB));
        assert_eq!(available_of("MemTotal: 100 kB\n"), None);
    }

    #[test]
    fn the_group_is_that_of_version_2() {
        assert_eq!(own_group("4:memory:/x\n0::/a/b\n"), Some("a/b".into()));
        assert_eq!(own_group("0::/\n"), Some("".into()));
        assert_eq!(own_group("4:memory:/x\n"), None);
    }

    #[test]
    fn the_limits_of_all_groups_above_count() {
        let mount = tempfile::tempdir().unwrap();
        let group = mount.path().join("a/b");
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("memory.max"), "max\n").unwrap();
        assert_eq!(left_in(mount.path(), Path::new("a/b")), [0; 0]);
        fs::write(mount.path().join("a/memory.max"), "1000\n").unwrap();
        assert_eq!(left_in(mount.path(), Path::new("a/b")), [1000]);
        fs::write(mount.path().join("a/memory.current"), "400\n").unwrap();
        fs::write(mount.path().join("memory.max"), "500\n").unwrap();
        assert_eq!(left_in(mount.path(), Path::new("a/b")), [600, 500]);
        fs::write(mount.path().join("a/memory.current"), "4000\n").unwrap();
        assert_eq!(left_in(mount.path(), Path::new("a/b")), [0, 500]);
    }
}
