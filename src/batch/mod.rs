//! Runs a batch: a file of scripts, one on each line. Each line is answered with one line. This module never decides
//! about a script. The gateway does.
//!
//! - `input` reads lines, and limits their length.
//! - `ask` parses a line.
//! - `pump` gives each worker a line.
//! - `verifier` runs the script of a line. It uses `scripts`, as calls of clients do.
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
