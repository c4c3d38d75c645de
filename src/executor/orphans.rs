//! Kills the processes of a run after its supervisor was killed. This is the second line of defence.
//!
//! Where the kernel can prevent it, no process of a run can signal its supervisor. But an administrator of the machine
//! can kill a supervisor, and so can the kernel when memory runs out. Processes in namespaces then end with process 1,
//! and a run of one process ends with the supervisor. The server is a child subreaper too, so other orphans become its
//! children. This module finds and kills them. It never kills children that the server started for itself.

pub(crate) use platform::{adopt, kill};

#[cfg(all(target_os = "linux", not(qwed_portable)))]
mod platform {
    use std::collections::HashSet;
    use std::time::Duration;

    use nix::sys::prctl;
    use nix::sys::wait::{WaitPidFlag, waitpid};
    use nix::unistd::{Pid, getsid};

    use crate::sandbox::process_tree;

    /// The wait before killed processes are killed again: the first wait, and the longest.
    const ROUND: Duration = Duration::from_millis(1);
    const ROUND_MAX: Duration = Duration::from_millis(200);

    /// Makes this process the new parent of orphans below it. For the server's own process only: a program that embeds
    /// this crate keeps its own children.
    pub(crate) fn adopt() -> std::io::Result<()> {
        Ok(prctl::set_child_subreaper(true)?)
    }

    /// Kills children of this process, with all their descendants, until none are left. Spares the children in this
    /// process's session, which it started for itself, and the `supervisors`.
    pub(crate) async fn kill(supervisors: impl Fn() -> HashSet<u32>) {
        // A process that is not a subreaper gets no orphans, and must not touch the children of other code.
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
            // The orphans decide how long this takes, and other tasks must not wait for it.
            let _ = tokio::task::spawn_blocking(move || {
                process_tree::kill_below(Pid::this(), is_orphan);
            })
            .await;
            for orphan in orphans {
                // It may still be ending.
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

    /// Does nothing: orphans become children of the system's first process here.
    #[expect(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
    pub(crate) fn adopt() -> std::io::Result<()> {
        Ok(())
    }

    /// Does nothing: orphans do not become children of this process here.
    pub(crate) async fn kill(_supervisors: impl Fn() -> HashSet<u32>) {}
}
