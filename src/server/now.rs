//! The activity of a server at one moment. This module only contains data.

use crate::executor::ForkServers;

/// The activity of a server at one moment, for admins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// The number of background jobs in each state. `None` if it is unknown.
    pub(crate) jobs: Option<[(&'static str, usize); 3]>,
    /// The number of additional synchronous runs that could start at once.
    pub(crate) turns_free: usize,
    /// The number of synchronous runs that wait for their turn.
    pub(crate) calls_waiting: usize,
    pub(crate) fork_servers: ForkServers,
    /// The tier of the sandbox. `None` before the sandbox was probed.
    pub(crate) tier: Option<&'static str>,
}
