//! The secrecy of this process's memory.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Keeps other processes of the same user from looking into this one (its memory, its environment, its
/// descriptors), and keeps it out of core files. For the server's own process: it has a token. What it
/// starts is as open as any program, so that supervisors can lay out namespaces.
pub(crate) fn conceal() -> std::io::Result<()> {
    // The hard limit stays: what scripts without a sandbox may raise is not for this to say.
    let (_, most) = getrlimit(Resource::RLIMIT_CORE)?;
    setrlimit(Resource::RLIMIT_CORE, 0, most)?;
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false)?;
    Ok(())
}
