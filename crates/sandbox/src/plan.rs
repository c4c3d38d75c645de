//! Defines the plan of a run as data: its readable and writable paths and its limits. This module enforces nothing.

use std::fs;
use std::path::{Path, PathBuf};

use qwed_files::links::LinkClosure;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Tier;

/// A path that every run may read if it exists. `why` is the reason.
struct SystemPath {
    path: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reader, and for a test"))]
    why: &'static str,
}

/// Paths that programs need in addition to their own files. These paths are not private, because every user of the
/// machine can read them.
const SYSTEM_PATHS: [SystemPath; 10] = [
    SystemPath { path: "/lib", why: "shared libraries" },
    SystemPath { path: "/lib64", why: "the dynamic loader, and shared libraries" },
    SystemPath { path: "/usr/lib", why: "shared libraries, the system's own Python" },
    SystemPath { path: "/usr/lib64", why: "shared libraries" },
    SystemPath { path: "/usr/local/lib", why: "shared libraries and Python packages" },
    SystemPath { path: "/etc/ld.so.cache", why: "where the dynamic loader looks first" },
    SystemPath { path: MUSL_PATHS, why: "the same, with musl" },
    SystemPath { path: "/etc/alternatives", why: "links to shared libraries, on Debian" },
    SystemPath { path: "/etc/localtime", why: "the time zone" },
    SystemPath { path: "/usr/share/zoneinfo", why: "time zones" },
];

/// The file in which musl's dynamic loader finds its search path. Its name contains the architecture.
const MUSL_PATHS: &str = if cfg!(target_arch = "aarch64") {
    "/etc/ld-musl-aarch64.path"
} else {
    "/etc/ld-musl-x86_64.path"
};

/// The package stores of Nix and Guix. If the interpreter is in a store, a run may read the whole store, because the
/// interpreter may need any package in it. All packages are public.
const STORES: [&str; 2] = ["/nix/store", "/gnu/store"];

/// Candidates for the path of the scratch folder in the run's own file tree. The first candidate that does not overlap
/// a readable path is used, because the run's rights to the scratch folder include everything below that folder.
const SCRATCH_PLACES: [&str; 3] = ["/tmp", "/scratch", "/run/qwed-mcp/scratch"];

/// Folders that are never readable, with everything below them, because they are interfaces to the kernel.
const NEVER_READABLE: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The paths that an interpreter needs, as the interpreter itself reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// The path by which the interpreter is called. The interpreter locates its environment from this path.
    pub program: PathBuf,
    /// The dynamic loader, which the kernel executes together with the interpreter.
    pub loader: Option<PathBuf>,
    /// The interpreter's libraries and its module search path.
    pub paths: Vec<PathBuf>,
}

/// The readable and writable paths and the limits of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub tier: Tier,
    /// The Landlock ABI. Landlock restricts all rights that this ABI contains. 0 means that Landlock is not used.
    pub landlock_abi: u8,
    /// The path by which the interpreter is called.
    pub program: PathBuf,
    /// The canonical path of the interpreter.
    pub program_file: PathBuf,
    /// True if the interpreter starts with its standard library only (`-I -S`), so that no installed package and no
    /// variable can influence it.
    pub is_isolated: bool,
    /// The executable files: canonical paths of the interpreter and its loader.
    pub executable: Vec<PathBuf>,
    /// The readable paths. They are canonical, and no path is below another.
    pub readable: Vec<PathBuf>,
    /// The symlinks that lead to readable paths: the path and the target of each.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// The folders that precede a `..` on the way to a readable path, such as `/a/b` in `/a/b/../c`. The run's file
    /// tree contains these folders without their files.
    pub folders: Vec<PathBuf>,
    /// A folder of the machine in which the run may leave files and folders. `None` for scripts.
    pub artifacts: Option<ArtifactFolder>,
    pub programs: Programs,
    /// The path of the scratch folder, if the run has a file tree of its own.
    pub scratch: PathBuf,
    pub limits: Limits,
}

/// A folder of the machine, in which files remain after the run.
///
/// If the run has a file tree of its own, the run writes to a separate file system at the path of the folder. This
/// file system enforces the limits. Its content is copied to the machine's folder after every process of the run is
/// dead. So the machine's folder never exceeds the limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactFolder {
    /// The canonical path of the folder, both in the machine's file tree and in the run's file tree.
    pub path: PathBuf,
    /// The maximum size of the folder's content, in bytes.
    pub bytes_max: u64,
    /// The maximum number of files and folders in the folder.
    pub inodes_max: u64,
}

/// The programs that the processes of a run may execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Programs {
    /// No program: the launcher becomes the interpreter, which cannot start another program.
    None,
    /// The files in [`Plan::executable`], any number of times, because test suites start the interpreter.
    Executable,
}

/// The limits of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The limit for the resident memory of all processes of the run together, in bytes. If it is exceeded, the run is
    /// killed.
    pub memory_bytes: u64,
    /// The limit for the address space of each process, in bytes. An allocation above this limit fails (`MemoryError`).
    pub(crate) address_space_bytes: u64,
    /// The maximum number of processes and threads of the run together.
    pub processes: u64,
    /// The maximum number of open files of each process.
    pub open_files: u64,
    /// The maximum size of each file, in bytes.
    pub file_bytes: u64,
    /// The maximum total size of the files in the scratch folder, in bytes.
    pub scratch_bytes: u64,
    /// The maximum number of files and folders in the scratch folder together.
    pub scratch_inodes: u64,
    /// The maximum total size of shared memory and semaphores, in bytes.
    pub shared_memory_bytes: u64,
}

const MIB: u64 = 1024 * 1024;

impl Limits {
    /// Returns the limits of a run with this much resident memory, in MiB.
    pub fn with_memory(memory_mb: u64) -> Self {
        let memory_bytes = memory_mb * MIB;
        Self {
            memory_bytes,
            // Allow this much, because NumPy, Z3 and threads reserve gigabytes of address space that they never touch.
            address_space_bytes: (2 * memory_bytes).max(4096 * MIB),
            // This number is enough for a thread pool of the default size (at most 32) and a process pool.
            processes: 64,
            // Must stay below `syscalls::PROGRAM_FD`, the only descriptor that the filters allow to execute. Otherwise
            // a script could open a file as this descriptor and execute it.
            open_files: 256,
            file_bytes: 64 * MIB,
            scratch_bytes: 128 * MIB,
            scratch_inodes: 4096,
            shared_memory_bytes: 64 * MIB,
        }
    }

    /// Returns these limits, with each memory limit lowered to at most the limit of a run with `memory_mb` MiB.
    #[must_use]
    pub fn lowered_to(self, memory_mb: u64) -> Self {
        let Self { memory_bytes, address_space_bytes, .. } = Self::with_memory(memory_mb);
        Self {
            memory_bytes: memory_bytes.min(self.memory_bytes),
            address_space_bytes: address_space_bytes.min(self.address_space_bytes),
            ..self
        }
    }
}

/// The reason why no plan can be made for a run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The interpreter was removed after it was found.
    #[error("the interpreter {0} no longer exists")]
    ProgramMissing(PathBuf),
    /// A path from the admin is relative, so its meaning would depend on the server's current folder.
    #[error("QWED_MCP_READ_PATHS lists {0}, which is not an absolute path")]
    ReadPathRelative(PathBuf),
    /// A path from the admin does not exist. This is an error, so that the admin notices a typing error.
    #[error("QWED_MCP_READ_PATHS lists {0}, which does not exist")]
    ReadPathMissing(PathBuf),
    /// A path from the admin is not UTF-8, so the plan cannot be sent to the supervisor as JSON.
    #[error("QWED_MCP_READ_PATHS lists {0:?}, which is not UTF-8")]
    ReadPathNotText(PathBuf),
    /// Every candidate for the scratch folder overlaps a readable path.
    #[error("no path is free for the scratch folder, because scripts can read all candidates")]
    NoScratchPlace,
    /// A path from the admin is the root folder or an interface to the kernel, which no run may read.
    #[error("QWED_MCP_READ_PATHS lists {0}, which no script may read")]
    ReadPathRefused(PathBuf),
}

impl PlanError {
    /// Returns the message for clients, which contains no path.
    pub fn for_clients(&self) -> &'static str {
        match self {
            Self::ProgramMissing(_) => "the interpreter no longer exists",
            Self::ReadPathRelative(_) => "an entry of QWED_MCP_READ_PATHS is not an absolute path",
            Self::ReadPathMissing(_) => "an entry of QWED_MCP_READ_PATHS does not exist",
            Self::ReadPathNotText(_) => "an entry of QWED_MCP_READ_PATHS is not UTF-8",
            Self::ReadPathRefused(_) => {
                "an entry of QWED_MCP_READ_PATHS must not be readable to scripts"
            }
            Self::NoScratchPlace => "QWED_MCP_READ_PATHS leaves no place for the scratch folder",
        }
    }

    /// Returns advice for the admin: how to correct the cause of this error.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::ProgramMissing(_) => "restart the server",
            Self::ReadPathRelative(_) => "write an absolute path; ~ and variables are not expanded",
            Self::ReadPathMissing(_) => "correct or remove it",
            Self::ReadPathNotText(_) => "give it another name",
            Self::ReadPathRefused(_) => "list folders below / that are not in /proc, /sys or /dev",
            Self::NoScratchPlace => "leave /scratch out of QWED_MCP_READ_PATHS",
        }
    }
}

impl Plan {
    /// Returns the plan for a script. `reach` contains the paths that the script's interpreter needs. The admin allows
    /// the script to read `read_paths` too, and to use `memory_mb` MiB.
    pub fn new(
        tier: Tier,
        landlock_abi: u8,
        reach: &Reach,
        read_paths: &[PathBuf],
        memory_mb: u64,
    ) -> Result<Self, PlanError> {
        let program_file = fs::canonicalize(&reach.program)
            .map_err(|_| PlanError::ProgramMissing(reach.program.clone()))?;
        let mut closure = LinkClosure::default();
        closure.add(&reach.program);
        for path in read_paths {
            if path.to_str().is_none() {
                return Err(PlanError::ReadPathNotText(path.clone()));
            }
            if !path.is_absolute() {
                return Err(PlanError::ReadPathRelative(path.clone()));
            }
            if !may_be_readable(path) {
                return Err(PlanError::ReadPathRefused(path.clone()));
            }
            if !closure.add(path) {
                return Err(PlanError::ReadPathMissing(path.clone()));
            }
        }
        let stores = STORES.iter().map(Path::new).filter(|store| program_file.starts_with(store));
        let system = SYSTEM_PATHS.iter().map(|row| Path::new(row.path));
        let own = reach.paths.iter().map(PathBuf::as_path);
        for path in system.chain(stores).chain(own).filter(|path| may_be_readable(path)) {
            // Ignore the result, because not every machine has all of these paths.
            closure.add(path);
        }
        let loader = reach.loader.as_ref().and_then(|loader| fs::canonicalize(loader).ok());
        let (readable, links, folders) = (closure.real(), closure.links(), closure.folders());
        let scratch =
            scratch_place(&readable, &links, &folders).ok_or(PlanError::NoScratchPlace)?;
        Ok(Self {
            tier,
            landlock_abi,
            program: reach.program.clone(),
            is_isolated: false,
            executable: loader.into_iter().chain([program_file.clone()]).collect(),
            program_file,
            links,
            folders,
            readable,
            artifacts: None,
            programs: Programs::None,
            scratch,
            limits: Limits::with_memory(memory_mb),
        })
    }
}

impl Plan {
    /// Returns whether the run must stay one process, which may have threads. This is true for a confined script
    /// without a PID namespace, so that killing this process ends the run.
    pub fn is_one_process(&self) -> bool {
        self.tier < Tier::T3 && self.tier > Tier::Off && self.programs == Programs::None
    }

    /// Returns this plan for a run that may write to the artifact folder and may start the interpreter again. The
    /// folder must exist and must not be a symlink. Returns `None` if the folder's path is relative, overlaps a
    /// readable path, or leaves no candidate for the scratch folder. If two folders overlap, the rights to the outer
    /// folder would also apply to the inner one.
    pub fn for_project(mut self, artifacts: ArtifactFolder) -> Option<Self> {
        let folder = &artifacts.path;
        let taken = || taken(&self.readable, &self.links, &self.folders);
        let overlaps = |path: &PathBuf| path.starts_with(folder) || folder.starts_with(path);
        if taken().any(overlaps) || !folder.is_absolute() {
            return None;
        }
        let with_folder: Vec<PathBuf> =
            self.readable.iter().cloned().chain([folder.clone()]).collect();
        self.scratch = scratch_place(&with_folder, &self.links, &self.folders)?;
        if self.tier < Tier::T3 {
            // Limit the size of each file, because below tier 3 nothing else limits the folder's size during the run.
            self.limits.file_bytes = self.limits.file_bytes.min(artifacts.bytes_max);
        }
        self.artifacts = Some(artifacts);
        self.programs = Programs::Executable;
        Some(self)
    }
}

/// Returns whether a path is a package store, in which installed packages never change.
pub fn is_store(path: &Path) -> bool {
    STORES.iter().any(|store| path == Path::new(store))
}

/// Returns whether a path may ever be readable to a run. The root folder and the interfaces to the kernel are never
/// readable.
pub fn may_be_readable(path: &Path) -> bool {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real.parent().is_some() && !NEVER_READABLE.iter().any(|door| real.starts_with(door))
}

/// Returns the first candidate for the scratch folder that neither contains any of these paths nor is below one.
fn scratch_place(
    readable: &[PathBuf],
    links: &[(PathBuf, PathBuf)],
    folders: &[PathBuf],
) -> Option<PathBuf> {
    let is_free = |place: &PathBuf| {
        let mut taken = taken(readable, links, folders);
        !taken.any(|path| path.starts_with(place) || place.starts_with(path))
    };
    SCRATCH_PLACES.iter().map(PathBuf::from).find(is_free)
}

/// Returns every path that must exist in the run's file tree.
fn taken<'a>(
    readable: &'a [PathBuf],
    links: &'a [(PathBuf, PathBuf)],
    folders: &'a [PathBuf],
) -> impl Iterator<Item = &'a PathBuf> {
    readable.iter().chain(links.iter().map(|(link, _)| link)).chain(folders)
}

#[cfg(test)]
mod tests;
