//! `qwed-mcp` is an MCP server over stdio that lets a language model check its own claims: it
//! writes a Python script, and this server decides whether the script may run, runs it, and returns
//! the result.
//!
//! # The line
//!
//! ```text
//! stdin → transport → server ──→ scripts: gateway ──Verified──→ sandbox ──Permit──→ turn → run → executor ⇄ supervisor → launcher = python
//!                       │  HTTP,          arguments             ready?                      │  (server's      (processes of each run,
//!                       │  batches        code safety             │                         │   side)          held by the sandbox)
//!                       │                 admin gate              │                         ↓
//! stdout ← transport ← reply ←───────────── Refuse ───────────────┘          Outcome (capped output, exit code, duration)
//!                       ↑                                                                   │
//!                       └───────────────────────────── jobs ←───────────────────────────────┘ the same run, held and polled
//! ```
//!
//! A `tools/call` is read from top to bottom in `server::call`, and a decision about a script in
//! `scripts::decide`. Only the gateway makes a `Grant`, and the executor takes nothing else. If there is a
//! policy file, the call of a governed tool goes from `server` to `governance::call` instead, and a run that
//! it clears goes to the same executor.
//!
//! # Modules
//!
//! In reading order; each imports only from below. `safety`, `provenance` and `aibom` are the library,
//! which a program can have without the server:
//!
//! | module | responsibility | feature |
//! |---|---|---|
//! | `cli` | the command line; the only exit codes | `server` |
//! | `http` | one address for a team: connections, who calls, messages, scripts of pipelines | `http` |
//! | `server` | the side that an MCP client sees: tools, the line of a call, replies, the end of a connection | `server` |
//! | `transport` | JSON-RPC over stdio, bounded in every direction | `server` |
//! | `jobs` | background jobs: states, slots, queue, expiry | `server` |
//! | `batch` | a file of scripts, a line in, a line out | `server` |
//! | `scripts` | the one entry for scripts: decided, written down, run in turn, written down | `server` |
//! | `bearer` | who calls over HTTP: tokens, and access tokens | `http` |
//! | `governance` | governed tools: policy, budget, the pytest run, its artifacts and evidence | `server` |
//! | `receipt` | signed receipts: what was decided, where it ran, what came of it | `server` |
//! | `ledger` | who may call and what was done: tokens, roles, the audit log, their store | `server` |
//! | `oidc` | access tokens of an authorization server, validated | `http` |
//! | `executor` | runs what was authorised; every process is dead when a run has ended | `server` |
//! | `environments` | virtual environments for scripts: made, listed, removed | `server` |
//! | `gateway` | yes or no, why, and under which id | `server` |
//! | `config`, `logging` | the environment as typed settings; logs to stderr | `server` |
//! | `postgres` | PostgreSQL, which replicas share: the connection, the schema | `postgres` |
//! | `terminal` | what a person's terminal is sent | `server` |
//! | `traces`, `https` | spans of calls for a collector; the client of HTTP for addresses that the admin names | `traces`, `http` |
//! | `plain_text`, `secret` | leaves | |
//!
//! Below them are packages of their own, in `crates/`, which import nothing of this one:
//!
//! | package | modules here | responsibility | feature |
//! |---|---|---|---|
//! | `qwed-clients` | `clients` | the configurations of MCP clients, and this server's entry in them | `server` |
//! | `qwed-safety` | `safety` | dangerous calls in a script: analysis of the syntax tree | `safety` |
//! | `qwed-manifests` | `provenance` | trust in a skill manifest | `provenance` |
//! | | `aibom` | the AI bill of materials: which model, engines and tools had a part | `aibom` |
//! | | `canonical_json`, `hidden` | the text that hashes are taken of; characters that a person does not see | |
//! | `qwed-sandbox` | `sandbox` | the kernel's limits on a run: tiers, the plan, the launch that enforces it | `server` |
//! | `qwed-files` | `data_folder`, `strict_modes` | the folder of what stays; files that are the admin's alone | `server` |
//! | | `folder` | folders that scripts write into, listed, read and removed by descriptors | `server` |
//!
//! The feature `server` is on by default, and brings the other three. A library takes what it needs:
//!
//! ```toml
//! [dependencies]
//! qwed-mcp = { version = "0.3", default-features = false, features = ["safety"] }
//! ```
//!
//! # As a library
//!
//! `safety` says what in a script is dangerous, without running it:
//!
//! ```
//! # #[cfg(feature = "safety")] {
//! let analysis = qwed_mcp::safety::analyze("import os\nos.system('id')").unwrap();
//! let finding = &analysis.findings[0];
//! assert_eq!(finding.position.unwrap().line, 2);
//! assert_eq!(
//!     finding.to_string(),
//!     "Dangerous function call: os.system() (line 2), instead: do the work in Python"
//! );
//! # }
//! ```
//!
//! `provenance` judges the manifest of a skill before the skill is loaded:
//!
//! ```
//! # #[cfg(feature = "provenance")] {
//! use qwed_mcp::SkillProvenanceGuard;
//! use qwed_mcp::provenance::SkillManifest;
//!
//! let guard = SkillProvenanceGuard::new().with_trusted_domains(["git.example.org"]).unwrap();
//! let manifest = SkillManifest::parse(br#"{ "name": "my-skill", "version": "1.0.0" }"#).unwrap();
//! let verification = guard.verify_manifest(&manifest);
//! assert!(!verification.verified);
//! assert!(verification.findings[2].contains("digest"), "{:?}", verification.findings);
//! # }
//! ```
//!
//! `aibom` makes a bill of materials from names:
//!
//! ```
//! # #[cfg(feature = "aibom")] {
//! use qwed_mcp::AiBom;
//!
//! let bom = AiBom::from_names("gpt-4o", ["z3"], ["execute_python_code"]).unwrap();
//! assert_eq!(bom.components.verification_engines[0].name, "z3");
//! assert_eq!(bom.manifest_hash.len(), 64);
//! # }
//! ```
//!
//! `gateway` decides calls as the server does; it needs the feature `server`:
//!
//! ```
//! # #[cfg(feature = "server")] {
//! use qwed_mcp::{AdminGate, RiskBasedExecutionGateway};
//!
//! let gateway = RiskBasedExecutionGateway::new(AdminGate::Open);
//! let arguments = serde_json::from_str(r#"{ "code": "print(6 * 7)" }"#).unwrap();
//! let decision = gateway.evaluate_and_route("execute_python_code", arguments);
//! assert!(decision.verified);
//! # }
//! ```

// What teams use alone is compiled in every build of the program.
#![cfg_attr(
    not(all(feature = "http", feature = "postgres")),
    allow(dead_code, unused_imports, reason = "used with the features http and postgres only")
)]

#[cfg(feature = "aibom")]
pub mod aibom;
#[cfg(feature = "server")]
mod batch;
#[cfg(feature = "http")]
mod bearer;
#[cfg(feature = "server")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "server")]
pub mod config;
#[cfg(feature = "server")]
mod environments;
#[cfg(feature = "server")]
mod executor;
#[cfg(feature = "server")]
pub mod gateway;
#[cfg(feature = "server")]
mod governance;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod https;
#[cfg(feature = "server")]
mod jobs;
#[cfg(feature = "server")]
mod ledger;
#[cfg(feature = "server")]
mod logging;
#[cfg(feature = "http")]
mod oidc;
#[cfg(feature = "server")]
mod plain_text;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "server")]
mod receipt;
#[cfg(feature = "server")]
mod scripts;
#[cfg(feature = "server")]
mod secret;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
mod shares;
#[cfg(feature = "server")]
mod terminal;
#[cfg(feature = "traces")]
mod traces;
#[cfg(feature = "server")]
mod transport;

// The packages of `crates/`, under the names that they have as modules.
#[cfg(feature = "server")]
use qwed_clients as clients;
#[cfg(feature = "server")]
use qwed_files::{data_folder, folder, strict_modes};
#[cfg(feature = "server")]
use qwed_manifests::{canonical_json, hidden};
#[cfg(feature = "server")]
use qwed_sandbox as sandbox;

/// The samples of the README, which are doctests too.
#[cfg(all(doctest, feature = "server"))]
#[doc = include_str!("../README.md")]
pub struct Readme;

#[cfg(feature = "aibom")]
pub use aibom::{AiBom, AiBomGenerator};
#[cfg(feature = "server")]
pub use config::AdminGate;
#[cfg(feature = "server")]
pub use gateway::{
    DecisionFinding, DecisionRecord, ErrorCode, RiskBasedExecutionGateway, RiskLevel, Status,
    VerificationId,
};
#[cfg(feature = "provenance")]
pub use provenance::SkillProvenanceGuard;
#[cfg(feature = "provenance")]
#[doc(inline)]
pub use qwed_manifests::provenance;
#[cfg(feature = "safety")]
#[doc(inline)]
pub use qwed_safety as safety;
#[cfg(feature = "server")]
#[doc(hidden)]
pub use qwed_sandbox::process_of_a_run;
#[cfg(feature = "server")]
pub use secret::Secret;

/// Reads a line as the transport does, for the fuzz target of the wire.
#[cfg(all(fuzzing, feature = "server"))]
#[doc(hidden)]
pub fn read_line_for_fuzzing(line: &[u8]) {
    transport::read_line(line);
}
