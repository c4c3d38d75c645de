//! Builds the file tree of a run: the plan's paths, read-only, and the run's own writable folders. This module never
//! decides which paths are readable.
//!
//! The tree is laid out next to the machine's tree, in a mount namespace of the run. When the tree is complete, the
//! run's processes enter it (`pivot_root(2)`). For these processes, paths outside of the plan then do not exist.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, umask};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{chdir, pivot_root};

use crate::error::{OrFail as _, OsError};
use crate::linux::libraries::Library;
use crate::linux::{DEVICES, SHARED_MEMORY, unescape};
use crate::{ArtifactFolder, LaunchError, Plan};

/// The folder in which the tree is laid out. Every Linux system has this folder, and no plan lists it.
const STAGE: &str = "/sys";

/// The mount point of the old root inside the new root, until the old root is detached.
const OLD_ROOT: &str = "/old";

/// The maximum number of files for semaphores and shared memory. `multiprocessing` needs only a few.
const SHARED_MEMORY_INODES: u64 = 256;

/// The flags of every mount except for devices: set-user-ID bits have no effect, and device files cannot be used.
const INERT: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);

/// The mount flags of the run's own folders: the flags [`INERT`], and a flag that forbids executing programs in these
/// folders.
pub(crate) const OWN_FOLDER: MsFlags = INERT.union(MsFlags::MS_NOEXEC);

/// Returns the paths of the run's own folders, and the tmpfs options of each.
pub(crate) fn own_folders(plan: &Plan) -> [(&Path, String); 2] {
    let limits = &plan.limits;
    [
        (plan.scratch.as_path(), limits.scratch_bytes, limits.scratch_inodes),
        (Path::new(SHARED_MEMORY), limits.shared_memory_bytes, SHARED_MEMORY_INODES),
    ]
    .map(|(at, bytes, inodes)| (at, format!("mode=0700,size={bytes},nr_inodes={inodes}")))
}

/// A file tree that is laid out but not entered yet.
#[derive(Debug)]
pub(crate) struct FileTree(());

impl FileTree {
    /// Lays out the tree in this process's mount namespace. If `owner` is given, the run's own folders belong to this
    /// UID and GID. The tree contains `libraries`.
    pub(super) fn lay_out(
        plan: &Plan,
        owner: Option<u32>,
        libraries: &[Library],
    ) -> Result<Self, LaunchError> {
        // Make all mounts private, because mounts made here must not propagate to other namespaces.
        mount_none("/", MsFlags::MS_REC | MsFlags::MS_PRIVATE)
            .map_err(LaunchError::IsolateMounts)?;
        // Set the umask, so that every user can enter the folders even if the server's umask is stricter.
        umask(Mode::from_bits_truncate(0o022));
        mount_temporary(Path::new(STAGE), INERT, "mode=0755,size=1m")?;
        make_folder(&staged(OLD_ROOT))?;

        let owner = owner.map_or_else(String::new, |id| format!(",uid={id},gid={id}"));
        for (at, options) in own_folders(plan) {
            let at = staged(at);
            make_folder(&at)?;
            mount_temporary(&at, OWN_FOLDER, &format!("{options}{owner}"))?;
        }
        for path in &plan.readable {
            mount_readable(path)?;
        }
        // The recursive bind mounts include further mounts below the readable paths. Each further mount must be made
        // read-only separately.
        for mount_point in mount_points_below(&plan.readable)? {
            make_read_only(&mount_point, INERT)?;
        }
        if let Some(ArtifactFolder { path, bytes_max, inodes_max }) = &plan.artifacts {
            let at = staged(path);
            make_folder(&at)?;
            let options = format!("mode=0700,size={bytes_max},nr_inodes={inodes_max}{owner}");
            mount_temporary(&at, OWN_FOLDER, &options)?;
        }
        for (device, _) in DEVICES {
            // A read-only mount of a device protects only the device's owner and mode. The run can still write to the
            // device.
            let device = Path::new(device);
            mount_readable(device)?;
            make_read_only(&staged(device), MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC)?;
        }
        for folder in &plan.folders {
            make_folder(&staged(folder))?;
        }
        for (link, target) in &plan.links {
            make_link(link, target)?;
        }
        for library in libraries {
            let at = staged(&library.path);
            library.place(&at).map_err(|error| lay_out_failed(&at, error.into()))?;
        }
        // The dynamic loader reads the program's path from this link ($ORIGIN in a library path, ld.so(8)). The rest of
        // `/proc` does not exist in the run's file tree.
        make_link(Path::new("/proc/self/exe"), &plan.program_file)?;
        Ok(Self(()))
    }

    /// Makes the tree the root of every process in this mount namespace, and detaches the machine's tree.
    pub(crate) fn enter(self) -> Result<(), LaunchError> {
        let Self(()) = self;
        pivot_root(STAGE, &staged(OLD_ROOT)).or_fail(LaunchError::EnterRoot)?;
        chdir("/").or_fail(LaunchError::EnterRoot)?;
        umount2(OLD_ROOT, MntFlags::MNT_DETACH).or_fail(LaunchError::EnterRoot)?;
        fs::remove_dir(OLD_ROOT).or_fail(LaunchError::EnterRoot)?;
        let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | INERT;
        mount_none("/", read_only).map_err(LaunchError::EnterRoot)
    }
}

/// Returns the path at which a file of the new tree exists while the tree is laid out. `path` is the absolute path of
/// the file in the complete tree.
fn staged(path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    Path::new(STAGE).join(path.strip_prefix("/").unwrap_or(path))
}

fn mount_none(at: &str, flags: MsFlags) -> Result<(), OsError> {
    Ok(mount(None::<&str>, at, None::<&str>, flags, None::<&str>)?)
}

fn mount_temporary(at: &Path, flags: MsFlags, options: &str) -> Result<(), LaunchError> {
    mount(Some("tmpfs"), at, Some("tmpfs"), flags, Some(options))
        .map_err(|error| LaunchError::MountTemporary { at: at.to_owned(), error: error.into() })
}

/// Mounts a file or folder of the machine at the same path of the new tree.
fn mount_readable(path: &Path) -> Result<(), LaunchError> {
    let failed = |error: OsError| LaunchError::MountReadable { path: path.to_owned(), error };
    let at = staged(path);
    let metadata = fs::metadata(path).map_err(|error| failed(error.into()))?;
    if metadata.is_dir() {
        make_folder(&at)?;
    } else {
        make_folder(at.parent().unwrap_or(&at))?;
        File::create(&at).map_err(|error| lay_out_failed(&at, error.into()))?;
    }
    // Make the bind mount recursive. In a user namespace the kernel refuses any other bind mount, because it could
    // reveal files that another mount hides.
    let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(path), &at, None::<&str>, bind, None::<&str>).map_err(|error| failed(error.into()))
}

/// Returns the mount points at and below these paths in the new tree, outermost first.
fn mount_points_below(readable: &[PathBuf]) -> Result<Vec<PathBuf>, LaunchError> {
    let table = fs::read("/proc/self/mountinfo").map_err(|error| {
        let path = PathBuf::from("/proc/self/mountinfo");
        LaunchError::MountReadable { path, error: error.into() }
    })?;
    let staged: Vec<PathBuf> = readable.iter().map(staged).collect();
    let mut points: Vec<PathBuf> = table
        .split(|byte| *byte == b'\n')
        // proc_pid_mountinfo(5): the fifth field is the mount point, with octal escapes.
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescape)
        .filter(|point| staged.iter().any(|path| point.starts_with(path)))
        .collect();
    points.sort();
    points.dedup();
    Ok(points)
}

/// Makes the mount at this path of the new tree read-only.
fn make_read_only(at: &Path, flags: MsFlags) -> Result<(), LaunchError> {
    let failed =
        |error: nix::Error| LaunchError::MountReadable { path: at.to_owned(), error: error.into() };
    let present = statvfs(at).map_err(failed)?.flags();
    // Preserve these flags of the machine's mount, because a process in a user namespace is not allowed to clear them.
    let kept = [
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
    ];
    let kept = kept.into_iter().filter(|(flag, _)| present.contains(*flag)).map(|(_, flag)| flag);
    let flags = kept.fold(flags | MsFlags::MS_RDONLY, MsFlags::union);
    mount(
        None::<&str>,
        at,
        None::<&str>,
        MsFlags::MS_REMOUNT | MsFlags::MS_BIND | flags,
        None::<&str>,
    )
    .map_err(failed)
}

fn make_folder(at: &Path) -> Result<(), LaunchError> {
    fs::create_dir_all(at).map_err(|error| lay_out_failed(at, error.into()))
}

fn make_link(link: &Path, target: &Path) -> Result<(), LaunchError> {
    let at = staged(link);
    make_folder(at.parent().unwrap_or(&at))?;
    symlink(target, &at).map_err(|error| lay_out_failed(&at, error.into()))
}

fn lay_out_failed(at: &Path, error: OsError) -> LaunchError {
    LaunchError::LayOutRoot { at: at.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn mount_points_are_unescaped() {
        for (field, path) in [
            (&b"/a\\040b\\134c"[..], &b"/a b\\c"[..]),
            (b"/bad\xff", b"/bad\xff"),
            (b"/end\\01", b"/end\\01"),
        ] {
            assert_eq!(unescape(field).as_os_str().as_bytes(), path);
        }
    }
}
