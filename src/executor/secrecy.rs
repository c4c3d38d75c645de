//! Keeps the memory of this process secret from other processes.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Prevents other processes of the same user from reading this process (its memory, environment and descriptors), and
/// prevents core files. Call this in the server's own process only, because it holds a token. Programs that the server
/// starts are not protected, so that supervisors can set up namespaces.
pub(crate) fn conceal() -> std::io::Result<()> {
    // Only the soft limit changes. The server's child processes inherit the hard limit, and this function must not
    // decide how far scripts without a sandbox may raise their own soft limit.
    let (_, most) = getrlimit(Resource::RLIMIT_CORE)?;
    setrlimit(Resource::RLIMIT_CORE, 0, most)?;
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false)?;
    Ok(())
}
