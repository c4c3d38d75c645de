//! Runs a batch: a file of scripts, one on each line. The answer to each line is one line of the results. Only the
//! gateway decides whether a script is allowed.
//!
//! - `input` reads lines, and limits their length.
//! - `ask` parses a line.
//! - `pump` distributes the lines to the workers, and collects the answers.
//! - `verifier` runs the script of a line through the module `scripts`, which also runs the scripts of clients.
//! - `answer` contains the types of an answer. `output` writes answers.
//! - `value` compares the value of a call with the expected value.
//! - `answered` remembers the lines that an earlier run has answered.
//! - `summary` counts the answers.
//! - `stream` runs a batch from the body of an HTTP request.

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
mod value;
mod verifier;

pub(crate) use answer::{Judge, Status};
pub(crate) use ask::Bounds;
pub(crate) use input::{Input, LINE_BYTES_MAX};
pub(crate) use memory::available_memory_bytes;
pub(crate) use output::{Output, is_same};
pub(crate) use pump::{Ended, Pump, Pumped};
pub(crate) use shard::Shard;
pub(crate) use stream::{AnswerLine, Batch, Chunk, OneAnswer, Single, Wanted, answer_one};
pub(crate) use summary::{Progress, RunBy, Summary};
pub(crate) use verifier::{Analysis, Judging, Verifier};
