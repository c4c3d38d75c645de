//! `qwed-mcp` is an MCP server over stdio that lets a language model check its own claims: it
//! writes a Python script, and this server decides whether the script may run, runs it, and says
//! what came of it.
//!
//! # The line
//!
//! ```text
//! stdin → transport → server ──call──→ gateway ──Grant──→ executor ⇄ supervisor → launcher = python
//!                       │              │ arguments        │ (server's side)  (processes of each run,
//!                       │              │ code safety      │                   held by the sandbox)
//!                       │              │ admin gate       ↓
//! stdout ← transport ← reply ←─────────┴─ Block      Outcome (capped output, exit code, duration)
//!                       ↑                                 │
//!                       └──────────── jobs ←──────────────┘ the same run, held and polled
//! ```
//!
//! A `tools/call` is read from top to bottom in `server::call`. The gateway is the only
//! one that makes a `Grant`, and the executor takes nothing else. Where there is a policy file, the
//! call of a governed tool goes from `server` to `governance::call` instead, and what that clears to the
//! same executor.
//!
//! # Modules
//!
//! In reading order; each imports only from below:
//!
//! | module | what it is |
//! |---|---|
//! | [`cli`] | the command line; the only exit codes |
//! | `server` | what an MCP client sees: tools, the line of a call, replies, the end of a connection |
//! | `transport` | JSON-RPC over stdio, bounded in every direction |
//! | `governance` | governed tools: tokens, roles, policy, budget, audit, artifacts, the pytest run |
//! | `jobs` | background jobs: states, slots, queue, expiry |
//! | `executor` | runs what was authorised; every process is dead when a run has ended |
//! | [`gateway`] | yes or no, why, and under which id |
//! | `sandbox` | what the kernel lets a run reach: tiers, the plan, the launch that enforces it |
//! | [`safety`] | what a script would do that it must not: analysis of the syntax tree |
//! | [`provenance`] | whether a skill manifest may be trusted |
//! | [`aibom`] | which model, engines and tools had a part: the AI bill of materials |
//! | `folder` | folders that scripts write into, listed, read and removed by descriptors |
//! | [`config`], `logging` | the environment as typed settings; logs to stderr |
//!
//! # As a library
//!
//! [`RiskBasedExecutionGateway`], [`SkillProvenanceGuard`] and [`AiBomGenerator`] can be used without
//! the server; see their examples.

pub mod aibom;
mod canonical_json;
#[doc(hidden)]
pub mod cli;
pub mod config;
mod executor;
mod folder;
pub mod gateway;
mod governance;
mod jobs;
mod logging;
pub mod provenance;
mod runs;
pub mod safety;
mod sandbox;
mod secret;
mod server;
mod transport;

/// The samples of the README, which are doctests too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

pub use aibom::{AiBom, AiBomGenerator};
pub use config::AdminGate;
pub use gateway::{
    DecisionRecord, ErrorCode, RiskBasedExecutionGateway, RiskLevel, Status, VerificationId,
};
pub use provenance::SkillProvenanceGuard;
#[doc(hidden)]
pub use sandbox::process_of_a_run;
pub use secret::Secret;

/// Reads a line as the transport does, for the fuzz target of the wire.
#[cfg(fuzzing)]
#[doc(hidden)]
pub fn read_line_for_fuzzing(line: &[u8]) {
    transport::read_line(line);
}
