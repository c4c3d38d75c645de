//! The second line of defence: what to do when a supervisor itself was killed.
//!
//! Nothing of a run can signal its supervisor where the kernel can keep it from that; but whoever
//! administers the machine can, and so can the kernel when memory runs out. What runs in namespaces
//! then ends with process 1, and a run of one process with the supervisor. The server is a child
//! subreaper too, so other orphans become its children, where they are found and killed.

pub(crate) use platform::{adopt, kill};

#[cfg(all(target_os = "linux", not(qwed_portable)))]
mod platform {
    use std::collections::HashSet;
    use std::time::Duration;

    use nix::sys::prctl;
    use nix::sys::wait::{WaitPidFlag, waitpid};
    use nix::unistd::{Pid, getsid};

    use crate::sandbox::process_tree;

    /// The wait for killed processes before they are killed again: at first, and at most.
    const ROUND: Duration = Duration::from_millis(1);
    const ROUND_MAX: Duration = Duration::from_millis(200);

    /// Makes this process the new parent of orphans below it. For the server's own process only: a
    /// program that embeds this crate keeps its children to itself.
    pub(crate) fn adopt() -> std::io::Result<()> {
        Ok(prctl::set_child_subreaper(true)?)
    }

    /// Kills the children of this process that are neither of its own session (it started them for
    /// itself) nor among `supervisors`, with all that is below them, until there are none left.
    pub(crate) async fn kill(supervisors: impl Fn() -> HashSet<u32>) {
        // Without that, orphans are not ours, and strangers' children are not to be touched.
        if !prctl::get_child_subreaper().unwrap_or(false) {
            return;
        }
        let Ok(own_session) = getsid(None) else { return };
        let mut round = ROUND;
        loop {
            let known = supervisors();
            let is_orphan = move |pid: &Pid| {
                let is_known = u32::try_from(pid.as_raw()).is_ok_and(|pid| known.contains(&pid));
                !is_known && getsid(Some(*pid)) != Ok(own_session)
            };
            let mut orphans = process_tree::children();
            orphans.retain(&is_orphan);
            if orphans.is_empty() {
                return;
            }
            // They decide how long that takes, and nobody else is to wait.
            let _ = tokio::task::spawn_blocking(move || {
                process_tree::kill_below(Pid::this(), is_orphan);
            })
            .await;
            for orphan in orphans {
                // It may go on ending.
                let _ = waitpid(orphan, Some(WaitPidFlag::WNOHANG));
            }
            tokio::time::sleep(round).await;
            round = (round * 2).min(ROUND_MAX);
        }
    }
}

#[cfg(not(all(target_os = "linux", not(qwed_portable))))]
mod platform {
    use std::collections::HashSet;

    /// Nothing to do: orphans go to the system's first process here.
    #[expect(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
    pub(crate) fn adopt() -> std::io::Result<()> {
        Ok(())
    }

    /// Nothing to do: orphans are not ours here.
    pub(crate) async fn kill(_supervisors: impl Fn() -> HashSet<u32>) {}
}
