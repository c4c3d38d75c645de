//! The activity of a server at one moment, for admins. This module contains only data.

use crate::executor::ForkServers;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// The number of background jobs in each state. `None` if these numbers are unknown.
    pub(crate) jobs: Option<[(&'static str, usize); 3]>,
    /// The number of synchronous runs that could start now, in addition to the runs in progress.
    pub(crate) turns_free: usize,
    /// The number of synchronous runs that wait for their turn.
    pub(crate) calls_waiting: usize,
    pub(crate) fork_servers: ForkServers,
    /// The tier of the sandbox. `None` before the sandbox was probed.
    pub(crate) tier: Option<&'static str>,
}
