//! Kills the processes of a run after its supervisor was killed.
//!
//! A run cannot send signals to its supervisor, if the kernel supports this restriction. But an administrator of the
//! machine can kill a supervisor, and so can the kernel when memory runs out. If the run has namespaces or only one
//! process, the kernel then ends the run. The processes of all other runs become children of the server, because the
//! server is a child subreaper (`prctl(2)`). This module finds and kills these orphans. It never kills children that
//! the server started for itself.

pub(crate) use platform::{adopt, kill};

#[cfg(all(target_os = "linux", not(qwed_portable)))]
mod platform {
    use std::collections::HashSet;
    use std::time::Duration;

    use nix::sys::prctl;
    use nix::sys::wait::{WaitPidFlag, waitpid};
    use nix::unistd::{Pid, getsid};

    use crate::sandbox::process_tree;

    /// The pause after the first attempt to kill the orphans. Each further pause is twice as long.
    const ROUND: Duration = Duration::from_millis(1);
    /// The maximum pause between two attempts to kill the orphans.
    const ROUND_MAX: Duration = Duration::from_millis(200);

    /// Makes this process the new parent of all orphans among its descendants. Call this in the server's own process
    /// only. In a program that embeds this crate, `kill` would kill other children of that program.
    pub(crate) fn adopt() -> std::io::Result<()> {
        Ok(prctl::set_child_subreaper(true)?)
    }

    /// Kills the orphans among the children of this process, with all their descendants, until no orphan is left. The
    /// `supervisors` are not orphans. Children in this process's own session are not orphans either, because the server
    /// started them for itself.
    pub(crate) async fn kill(supervisors: impl Fn() -> HashSet<u32> + Clone + Send + 'static) {
        // Only a subreaper gets orphans. In any other process, the children belong to other code and must not be
        // killed.
        if !prctl::get_child_subreaper().unwrap_or(false) {
            return;
        }
        let Ok(own_session) = getsid(None) else { return };
        let mut round = ROUND;
        loop {
            // Read the session before the list of supervisors. The server adds a supervisor to the list before the
            // supervisor leaves the server's session. So a supervisor that has left the session is in the list.
            let supervisors = supervisors.clone();
            let is_orphan = move |pid: &Pid| {
                getsid(Some(*pid)) != Ok(own_session)
                    && !u32::try_from(pid.as_raw()).is_ok_and(|pid| supervisors().contains(&pid))
            };
            let mut orphans = process_tree::children();
            orphans.retain(&is_orphan);
            if orphans.is_empty() {
                return;
            }
            // Killing many processes is slow. In a thread for blocking work, it delays no other task.
            let _ = tokio::task::spawn_blocking(move || {
                process_tree::kill_below(Pid::this(), is_orphan);
            })
            .await;
            for orphan in orphans {
                // If the orphan has not ended yet, a later iteration of this loop reaps it.
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

    /// Does nothing: on this system, orphans become children of the system's first process.
    #[expect(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
    pub(crate) fn adopt() -> std::io::Result<()> {
        Ok(())
    }

    /// Does nothing: on this system, orphans do not become children of this process.
    pub(crate) async fn kill(_supervisors: impl Fn() -> HashSet<u32>) {}
}
