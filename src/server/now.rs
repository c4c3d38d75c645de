//! What a server does at one moment.

use crate::executor::ForkServers;

/// What a server does at one moment, for operators.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// The background jobs in each state; `None` if nobody knows.
    pub(crate) jobs: Option<[(&'static str, usize); 3]>,
    /// The synchronous runs that could begin at once.
    pub(crate) turns_free: usize,
    /// The synchronous runs that wait for their turn.
    pub(crate) calls_waiting: usize,
    pub(crate) fork_servers: ForkServers,
    /// The tier of the sandbox; `None` until it was tried out.
    pub(crate) tier: Option<&'static str>,
}
