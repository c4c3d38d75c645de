//! The walk over a script's syntax tree.

mod callers;
mod calls;
mod conditions;
pub(super) mod expressions;
mod names;
pub(super) mod statements;
mod texts;
