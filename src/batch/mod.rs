//! A file of scripts, each run once: a line in, a line out. It never decides about a script: the gateway does.
//!
//! - `input` reads lines within bounds.
//! - `ask` parses a line.
//! - `pump` gives each worker a line.
//! - `verifier` passes the script of a line through the same entry for scripts as a client's call.
//! - `answer` is the answer to a line. `output` writes answers.
//! - `answered` remembers the lines that an earlier run has answered.
//! - `summary` counts the answers.
//! - `stream` does the same for bodies over HTTP.

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
