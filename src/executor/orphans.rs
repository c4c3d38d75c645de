//! The second line of defence: what to do when a supervisor itself was killed.
//!
//! A script runs with the rights of the server's user, so without a sandbox it can kill its own
//! supervisor; so can the kernel when memory runs out. The server is a child subreaper too, so the
//! orphans become its children, where they are found and killed.

use std::collections::HashSet;

/// Makes this process the new parent of orphans below it. For the server's own process only: a
/// program that embeds this crate keeps its children to itself.
#[cfg(all(target_os = "linux", not(qwed_portable)))]
pub(crate) fn adopt() -> std::io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

/// Nothing to do: orphans go to the system's first process here.
#[cfg(not(all(target_os = "linux", not(qwed_portable))))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
pub(crate) fn adopt() -> std::io::Result<()> {
    Ok(())
}

/// Kills the children of this process that are neither of its own session (it started them for
/// itself) nor among `supervisors`, until there are none left.
#[cfg(all(target_os = "linux", not(qwed_portable)))]
pub(crate) async fn kill(supervisors: impl Fn() -> HashSet<u32>) {
    use std::time::Duration;

    use nix::sys::signal::Signal;
    use nix::sys::wait::{WaitPidFlag, waitpid};
    use nix::unistd::{Pid, getsid};

    use super::limits::KILL_TIMEOUT;
    use super::process_tree;

    // Without that, orphans are not ours, and strangers' children are not to be touched.
    if !nix::sys::prctl::get_child_subreaper().unwrap_or(false) {
        return;
    }
    let Ok(own_session) = getsid(None) else { return };
    let killing = async {
        loop {
            let known = supervisors();
            let is_known =
                |pid: &Pid| u32::try_from(pid.as_raw()).is_ok_and(|p| known.contains(&p));
            let mut orphans = process_tree::children();
            orphans.retain(|pid| !is_known(pid) && getsid(Some(*pid)) != Ok(own_session));
            if orphans.is_empty() {
                return;
            }
            for orphan in orphans {
                // Either may find that it has ended already.
                let _ = nix::sys::signal::kill(orphan, Signal::SIGKILL);
                let _ = waitpid(orphan, Some(WaitPidFlag::WNOHANG));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    if tokio::time::timeout(KILL_TIMEOUT, killing).await.is_err() {
        tracing::error!("orphans of a killed supervisor do not end");
    }
}

/// Nothing to do: orphans are not ours here.
#[cfg(not(all(target_os = "linux", not(qwed_portable))))]
#[expect(clippy::unused_async, reason = "the same signature as on Linux")]
pub(crate) async fn kill(_supervisors: impl Fn() -> HashSet<u32>) {}
