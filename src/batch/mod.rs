//! A file of scripts, each run once: a line in, a line out.
//!
//! `input` reads lines within bounds, `ask` is what one of them asks for, `pump` hands as many as there are
//! workers to the `verifier`, which takes each through the same entry for scripts as a client's
//! call, and `output` writes the `answer`s down. `answered` knows which lines an earlier run has answered,
//! `summary` counts. `stream` has the same for bodies of HTTP.

mod answer;
mod answered;
mod ask;
mod input;
mod memory;
mod output;
mod pump;
mod shard;
mod stream;
mod summary;
mod verifier;

pub(crate) use answer::Status;
pub(crate) use ask::Bounds;
pub(crate) use input::Input;
pub(crate) use memory::available_memory_bytes;
pub(crate) use output::{Output, is_same};
pub(crate) use pump::{Ended, Pump, Pumped};
pub(crate) use shard::Shard;
pub(crate) use stream::{AnswerLine, Batch, Chunk, OneAnswer, Single, Wanted, answer_one};
pub(crate) use summary::{Progress, RunBy, Summary};
pub(crate) use verifier::{Analysis, Verifier};
