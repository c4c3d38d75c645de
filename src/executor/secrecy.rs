//! Keeps the memory of this process secret from other processes.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Prevents other processes of the same user from reading the memory, the environment and the file descriptors of this
/// process. Also prevents core dumps. Call this only in the server's own process, which holds a token. Programs that
/// the server starts do not get this protection, because supervisors could not set up namespaces with it.
pub(crate) fn conceal() -> std::io::Result<()> {
    // Lowers only the soft limit. Child processes inherit both limits, and scripts without a sandbox could not raise a
    // lowered hard limit again.
    let (_, most) = getrlimit(Resource::RLIMIT_CORE)?;
    setrlimit(Resource::RLIMIT_CORE, 0, most)?;
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false)?;
    Ok(())
}
