//! The errors that stop the start of a run in the sandbox. Each step of the start has its own variant.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Tier;

/// An error number (`errno(3)`) of the operating system. It can be serialized for another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{}", io::Error::from_raw_os_error(*.0))]
pub struct OsError(i32);

impl From<io::Error> for OsError {
    fn from(error: io::Error) -> Self {
        // An `io::Error` without a system error number becomes `EIO`, a general input/output error.
        Self(error.raw_os_error().unwrap_or(nix::libc::EIO))
    }
}

impl From<nix::Error> for OsError {
    fn from(error: nix::Error) -> Self {
        io::Error::from(error).into()
    }
}

/// Converts a system error into the [`LaunchError`] of the step that failed.
pub(super) trait OrFail<T> {
    /// Replaces a system error by the variant `step` that contains it.
    fn or_fail(self, step: fn(OsError) -> LaunchError) -> Result<T, LaunchError>;
}

impl<T, E: Into<OsError>> OrFail<T> for Result<T, E> {
    fn or_fail(self, step: fn(OsError) -> LaunchError) -> Result<T, LaunchError> {
        self.map_err(|error| step(error.into()))
    }
}

impl OsError {
    /// Returns whether this error means that the kernel refused a call: the kernel lacks the feature, or a policy or
    /// limit of the machine forbids the call.
    fn is_refusal(self) -> bool {
        use nix::libc::{EACCES, EINVAL, ENOSPC, ENOSYS, EPERM, EUSERS};

        [EPERM, EACCES, ENOSYS, EINVAL, ENOSPC, EUSERS].contains(&self.0)
    }

    /// Returns whether this error means that a file does not exist (`ENOENT`).
    pub(super) fn is_missing(self) -> bool {
        self.0 == nix::libc::ENOENT
    }
}

/// A layer of the sandbox. The error message of a failed launch contains the name of the layer that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// User, PID, mount, network, IPC and UTS namespaces.
    Namespaces,
    /// A root folder that contains only the paths that the run's plan lists.
    FileTree,
    /// The change from root to the user `nobody`. It applies only if the server runs as root.
    Identity,
    /// Limits for memory, processes and other resources (`setrlimit(2)`, control groups, the memory watch).
    ResourceLimits,
    /// The run has no capabilities and cannot gain any (`capabilities(7)`).
    Capabilities,
    /// Restricts access to files, and the sending of signals (`landlock(7)`).
    Landlock,
    /// Filters system calls (`seccomp(2)`).
    Seccomp,
    /// The sandbox of macOS.
    Seatbelt,
    /// The start of the run's processes. This is not a layer, but it can fail like a layer.
    Start,
}

/// The reason why a run could not start in the sandbox. The messages contain no path, because clients see them.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum LaunchError {
    #[error("this system has no kernel sandbox that the server knows")]
    UnsupportedSystem,
    #[error("the process could not be set up: {0}")]
    PrepareProcess(OsError),
    #[error("the scratch folder could not be created: {0}")]
    CreateScratch(OsError),
    #[error("the script could not be stored: {0}")]
    StoreScript(OsError),
    #[error("new namespaces could not be created: {0}")]
    CreateNamespaces(OsError),
    #[error("the user of the new namespace could not be mapped: {0}")]
    MapIdentity(OsError),
    #[error("the host name of the new namespace could not be set: {0}")]
    NameHost(OsError),
    #[error("the launcher could not be started: {0}")]
    StartLauncher(OsError),
    #[error("process 1 could not be started: {0}")]
    StartInit(OsError),
    #[error("the launcher ended without reporting an error")]
    LauncherEnded,
    #[error("the mounts could not be made private: {0}")]
    IsolateMounts(OsError),
    #[error("a temporary file system could not be mounted: {error}")]
    MountTemporary { at: PathBuf, error: OsError },
    #[error("a readable path could not be mounted: {error}")]
    MountReadable { path: PathBuf, error: OsError },
    #[error("the new root could not be laid out: {error}")]
    LayOutRoot { at: PathBuf, error: OsError },
    #[error("the new root could not be entered: {0}")]
    EnterRoot(OsError),
    #[error("the interpreter could not be opened: {0}")]
    OpenProgram(OsError),
    #[error("no file descriptor with a high number is available: {0}")]
    ReserveDescriptor(OsError),
    #[error("the scratch folder could not be entered: {0}")]
    EnterScratch(OsError),
    #[error("the rights of root could not be given up: {0}")]
    DropIdentity(OsError),
    #[error("a resource limit could not be set: {0}")]
    LimitResources(OsError),
    #[error("the memory of the run cannot be watched: {0}")]
    WatchMemory(OsError),
    #[error("the control group of the run cannot be used: {0}")]
    JoinControlGroup(OsError),
    #[error("the capabilities could not be dropped: {0}")]
    DropCapabilities(OsError),
    #[error("no_new_privs could not be set: {0}")]
    ForbidPrivileges(OsError),
    #[error("Landlock does not restrict files: {0}")]
    RestrictFiles(String),
    #[error("Landlock does not keep signals within the run: {0}")]
    RestrictSignals(String),
    #[error("seccomp does not filter system calls: {0}")]
    FilterCalls(String),
    #[error("all layers need Linux: macOS has only Seatbelt")]
    LessThanAllLayers,
    #[error("the memory limit of the run could not be set: {0}")]
    LimitMemory(OsError),
    #[error("Python ended before it was in the sandbox")]
    EndedBeforeSandbox,
    #[error("Seatbelt does not confine the process: {0}")]
    EnterSeatbelt(String),
    #[error("the interpreter did not start: {0}")]
    Execute(OsError),
}

impl Layer {
    /// Returns the lowest tier that has this layer.
    pub fn tier_min(self) -> Tier {
        match self {
            Self::Namespaces | Self::FileTree => Tier::T3,
            Self::Landlock => Tier::T2,
            Self::Seatbelt => Tier::Seatbelt,
            Self::Identity
            | Self::ResourceLimits
            | Self::Capabilities
            | Self::Seccomp
            | Self::Start => Tier::T1,
        }
    }

    /// Returns the layer's name for messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::FileTree => "file tree",
            Self::Identity => "user",
            Self::ResourceLimits => "resource limits",
            Self::Capabilities => "capabilities",
            Self::Landlock => "Landlock",
            Self::Seccomp => "seccomp",
            Self::Seatbelt => "Seatbelt",
            Self::Start => "start",
        }
    }
}

impl LaunchError {
    /// Returns whether the start failed because the kernel or container has no namespaces, or does not let this user
    /// mount anything in a namespace. These are known reasons for a tier below 3. All other errors are faults.
    pub fn is_without_namespaces(&self) -> bool {
        // List the known reasons, so that a new variant counts as a fault.
        let (Self::CreateNamespaces(error)
        | Self::MapIdentity(error)
        | Self::NameHost(error)
        | Self::IsolateMounts(error)
        | Self::MountTemporary { error, .. }
        | Self::EnterRoot(error)) = self
        else {
            return false;
        };
        error.is_refusal()
    }

    /// Returns the layer that could not be applied.
    pub fn layer(&self) -> Layer {
        match self {
            Self::CreateNamespaces(_) | Self::MapIdentity(_) | Self::NameHost(_) => {
                Layer::Namespaces
            }
            Self::IsolateMounts(_)
            | Self::MountTemporary { .. }
            | Self::MountReadable { .. }
            | Self::LayOutRoot { .. }
            | Self::EnterRoot(_) => Layer::FileTree,
            Self::DropIdentity(_) => Layer::Identity,
            Self::LimitResources(_)
            | Self::LimitMemory(_)
            | Self::WatchMemory(_)
            | Self::JoinControlGroup(_) => Layer::ResourceLimits,
            Self::DropCapabilities(_) | Self::ForbidPrivileges(_) => Layer::Capabilities,
            Self::RestrictFiles(_) | Self::RestrictSignals(_) => Layer::Landlock,
            Self::FilterCalls(_) => Layer::Seccomp,
            Self::EnterSeatbelt(_) | Self::EndedBeforeSandbox | Self::LessThanAllLayers => {
                Layer::Seatbelt
            }
            Self::UnsupportedSystem
            | Self::PrepareProcess(_)
            | Self::CreateScratch(_)
            | Self::StoreScript(_)
            | Self::StartLauncher(_)
            | Self::StartInit(_)
            | Self::LauncherEnded
            | Self::OpenProgram(_)
            | Self::ReserveDescriptor(_)
            | Self::EnterScratch(_)
            | Self::Execute(_) => Layer::Start,
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::libc::{EACCES, EINVAL, EIO, EMFILE, ENOENT, ENOMEM, ENOSPC, ENOSYS, EPERM, EUSERS};

    use super::*;

    #[test]
    fn only_what_refuses_namespaces_is_expected_to_do_so() {
        for errno in [EPERM, EACCES, ENOSYS, EINVAL, ENOSPC, EUSERS] {
            let error = OsError(errno);
            let at = PathBuf::from("/");
            assert!(LaunchError::CreateNamespaces(error).is_without_namespaces(), "{errno}");
            assert!(LaunchError::MapIdentity(error).is_without_namespaces(), "{errno}");
            assert!(LaunchError::IsolateMounts(error).is_without_namespaces(), "{errno}");
            assert!(LaunchError::MountTemporary { at, error }.is_without_namespaces(), "{errno}");
            assert!(!LaunchError::OpenProgram(error).is_without_namespaces(), "{errno}");
            let path = PathBuf::from("/");
            assert!(!LaunchError::MountReadable { path, error }.is_without_namespaces());
        }
        for errno in [ENOENT, ENOMEM, EMFILE, EIO] {
            let error = OsError(errno);
            assert!(!LaunchError::CreateNamespaces(error).is_without_namespaces(), "{errno}");
            assert!(!LaunchError::EnterRoot(error).is_without_namespaces(), "{errno}");
        }
    }
}
