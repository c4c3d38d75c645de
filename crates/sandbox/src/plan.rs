//! The whole policy for a run, as data: what it may read, write and use up.

use std::fs;
use std::path::{Path, PathBuf};

use qwed_files::links::LinkClosure;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Tier;

/// A path that every run may read if it is there, and what for.
struct SystemPath {
    path: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reader, and for a test"))]
    why: &'static str,
}

/// Paths that programs of the machine need besides their own files. None of them is private: every
/// user of the machine can read them.
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

/// The file in which musl's dynamic loader looks for folders, which has its architecture in its name.
const MUSL_PATHS: &str = if cfg!(target_arch = "aarch64") {
    "/etc/ld-musl-aarch64.path"
} else {
    "/etc/ld-musl-x86_64.path"
};

/// Package managers that keep each package in a folder of its own: a program there needs all of
/// them, and all of them are public.
const STORES: [&str; 2] = ["/nix/store", "/gnu/store"];

/// Candidates for the scratch folder in a file tree of the run's own. The first one that has
/// nothing readable in it is taken: rights in the scratch folder are rights in everything below it.
const SCRATCH_PLACES: [&str; 3] = ["/tmp", "/scratch", "/run/qwed-mcp/scratch"];

/// Nothing at or below these is ever readable: they are no files, but doors to the kernel.
const NEVER_READABLE: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The paths that an interpreter reads, as it reports them itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// The interpreter, as it is called: it finds its environment from that.
    pub program: PathBuf,
    /// The dynamic loader, which the kernel executes with it.
    pub loader: Option<PathBuf>,
    /// Its libraries and its module search path.
    pub paths: Vec<PathBuf>,
}

/// The reach and the limits of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub tier: Tier,
    /// The ABI whose rights Landlock restricts, all of them; 0 is none.
    pub landlock_abi: u8,
    /// The interpreter, as it is called.
    pub program: PathBuf,
    /// The same, without links.
    pub program_file: PathBuf,
    /// True if the interpreter starts with its standard library alone (`-I -S`): no installed
    /// package and no variable has any influence on it.
    pub is_isolated: bool,
    /// Executable files: the interpreter and its loader, without links.
    pub executable: Vec<PathBuf>,
    /// Readable paths: real ones, none below another.
    pub readable: Vec<PathBuf>,
    /// Links that lead to what may be read: where each is, and what it says.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Folders that are gone through on the way to what may be read, and that are empty there.
    pub folders: Vec<PathBuf>,
    /// A folder of the machine in which the run may leave files and folders.
    pub artifacts: Option<ArtifactFolder>,
    pub programs: Programs,
    /// The scratch folder in a file tree of the run's own.
    pub scratch: PathBuf,
    pub limits: Limits,
}

/// A folder whose content outlives the run.
///
/// Where the run has a file tree of its own, it is a file system of its own there, and what is in it
/// is copied when every process is dead: it cannot have more than it may at any time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactFolder {
    /// The folder's real path, in both trees.
    pub path: PathBuf,
    /// The most bytes in it.
    pub bytes_max: u64,
    /// Files and folders in it.
    pub inodes_max: u64,
}

/// The programs that the processes of a run may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Programs {
    /// No program: the launcher becomes the interpreter, and nothing starts after that.
    None,
    /// Those of [`Plan::executable`], again: test suites start the interpreter.
    Executable,
}

/// The limits of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Resident memory of all processes of the run together; above it, the run is killed.
    pub memory_bytes: u64,
    /// Address space of each process; above it, an allocation fails (`MemoryError`).
    pub(crate) address_space_bytes: u64,
    /// Processes and threads of the run together.
    pub processes: u64,
    /// Open files of each process.
    pub open_files: u64,
    /// The size of each file.
    pub file_bytes: u64,
    /// The scratch folder, with everything in it.
    pub scratch_bytes: u64,
    /// Files and folders in the scratch folder.
    pub scratch_inodes: u64,
    /// Shared memory, and semaphores.
    pub shared_memory_bytes: u64,
}

const MIB: u64 = 1024 * 1024;

impl Limits {
    /// Returns the limits of a run that may have so much resident memory.
    pub fn with_memory(memory_mb: u64) -> Self {
        let memory_bytes = memory_mb * MIB;
        Self {
            memory_bytes,
            // NumPy, Z3 and threads reserve gigabytes that they never touch.
            address_space_bytes: (2 * memory_bytes).max(4096 * MIB),
            // A thread pool of its default size (32 at most), and a process pool beside it.
            processes: 64,
            // Below `syscalls::PROGRAM_FD`, which is what makes executing a second program
            // impossible.
            open_files: 256,
            file_bytes: 64 * MIB,
            scratch_bytes: 128 * MIB,
            scratch_inodes: 4096,
            shared_memory_bytes: 64 * MIB,
        }
    }

    /// Returns these limits with less memory, if that is less.
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

/// An error that leaves a run without a plan.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The interpreter has gone since it was found.
    #[error("the interpreter {0} is not there any more")]
    ProgramMissing(PathBuf),
    /// A relative path, which depends on the server's current folder.
    #[error("QWED_MCP_READ_PATHS lists {0}, which is not an absolute path")]
    ReadPathRelative(PathBuf),
    /// A path of the admin's that is not there: a typing error must not go unseen.
    #[error("QWED_MCP_READ_PATHS lists {0}, and nothing is there")]
    ReadPathMissing(PathBuf),
    /// A name that cannot be passed on as text.
    #[error("QWED_MCP_READ_PATHS lists {0:?}, which is not UTF-8")]
    ReadPathNotText(PathBuf),
    /// Every place for it is among what is readable.
    #[error("there is no place for the scratch folder: all that it could have is readable")]
    NoScratchPlace,
    /// The whole machine, or a door to the kernel.
    #[error("QWED_MCP_READ_PATHS lists {0}, which cannot be opened to scripts")]
    ReadPathRefused(PathBuf),
}

impl PlanError {
    /// Returns the same without a path, for clients.
    pub fn for_clients(&self) -> &'static str {
        match self {
            Self::ProgramMissing(_) => "the interpreter is not there any more",
            Self::ReadPathRelative(_) => "an entry of QWED_MCP_READ_PATHS is not an absolute path",
            Self::ReadPathMissing(_) => "an entry of QWED_MCP_READ_PATHS is not there",
            Self::ReadPathNotText(_) => "an entry of QWED_MCP_READ_PATHS is not UTF-8",
            Self::ReadPathRefused(_) => {
                "an entry of QWED_MCP_READ_PATHS cannot be opened to scripts"
            }
            Self::NoScratchPlace => {
                "there is no place for the scratch folder beside QWED_MCP_READ_PATHS"
            }
        }
    }

    /// Returns the admin's remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::ProgramMissing(_) => "restart the server",
            Self::ReadPathRelative(_) => "write it from / on; ~ and variables are not expanded",
            Self::ReadPathMissing(_) => "correct or remove it",
            Self::ReadPathNotText(_) => "give it another name",
            Self::ReadPathRefused(_) => "list folders below / that are not in /proc, /sys or /dev",
            Self::NoScratchPlace => "leave /scratch out of QWED_MCP_READ_PATHS",
        }
    }
}

impl Plan {
    /// Returns the plan for a script in the interpreter that needs `reach`, with what the admin
    /// lets it read besides (`read_paths`) and may use up (`memory_mb`).
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
            // Which of these there are differs from machine to machine.
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
    /// Returns whether the run has to stay one process, with threads: a script that has no process
    /// numbers of its own. The kill of that one process is then the end of the run.
    pub fn is_one_process(&self) -> bool {
        self.tier < Tier::T3 && self.tier > Tier::Off && self.programs == Programs::None
    }

    /// Returns the same plan for a run that may write to `folder`, which is there and is no link,
    /// and may start the interpreter again. `None` if `folder` is among what may be read, or is a
    /// place for the scratch folder: rights in one would be rights in the other.
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
            // Nothing else bounds it there while the run goes on.
            self.limits.file_bytes = self.limits.file_bytes.min(artifacts.bytes_max);
        }
        self.artifacts = Some(artifacts);
        self.programs = Programs::Executable;
        Some(self)
    }
}

/// Returns whether a path may ever be opened to a run: not the whole machine, nor a door to the
/// kernel.
pub fn may_be_readable(path: &Path) -> bool {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real.parent().is_some() && !NEVER_READABLE.iter().any(|door| real.starts_with(door))
}

/// Returns a place for the scratch folder: one that nothing of this is in, and that is in none of
/// it.
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

/// Returns every place of a file tree at which something has to be.
fn taken<'a>(
    readable: &'a [PathBuf],
    links: &'a [(PathBuf, PathBuf)],
    folders: &'a [PathBuf],
) -> impl Iterator<Item = &'a PathBuf> {
    readable.iter().chain(links.iter().map(|(link, _)| link)).chain(folders)
}

#[cfg(test)]
mod tests;
