//! `qwed-mcp` is an MCP server that lets a language model check its own claims. The model writes a Python script.
//! This server decides whether the script may run, runs it in a sandbox, and returns the result.
//!
//! # The path of a call
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
//! Read `server::call` for a `tools/call` from start to end, and `scripts::decide` for the decision about a script. Only
//! the gateway can create a `Grant`, and the executor accepts nothing else. With a policy file, `server` passes calls of
//! governed tools to `governance::call`, and the runs that it clears use the same executor.
//!
//! # Modules
//!
//! In reading order. A module imports only modules below it. `safety`, `provenance` and `aibom` are a library that
//! works without the server:
//!
//! | module | responsibility | feature |
//! |---|---|---|
//! | `cli` | the command line, and the only exit codes | `server` |
//! | `http` | HTTP for teams: connections, authentication, messages, scripts of pipelines | `http` |
//! | `server` | the MCP side: tools, the steps of a call, replies, shutdown | `server` |
//! | `transport` | JSON-RPC over stdio, with limits in both directions | `server` |
//! | `jobs` | background jobs: states, queue, expiry | `server` |
//! | `batch` | a file of scripts: one line in, one line out | `server` |
//! | `scripts` | the one entry for scripts: decide, audit, wait for a turn, run, audit | `server` |
//! | `bearer` | authentication over HTTP, by tokens of the store and by access tokens | `http` |
//! | `governance` | governed tools: policy, budget, the pytest run, its artifacts and evidence | `server` |
//! | `receipt` | signed receipts: decision, environment and outcome of a run | `server` |
//! | `ledger` | tokens, roles, the audit log, and their store | `server` |
//! | `oidc` | validation of an authorization server's access tokens | `http` |
//! | `executor` | runs authorized scripts, and kills all their processes | `server` |
//! | `environments` | virtual environments for scripts: create, list, remove | `server` |
//! | `gateway` | the decision about a call: yes or no, the reason, the id | `server` |
//! | `config`, `logging` | settings from environment variables; logs to stderr | `server` |
//! | `postgres` | the PostgreSQL that replicas share: connections, schema | `postgres` |
//! | `terminal` | output for terminals | `server` |
//! | `traces`, `https` | spans for a collector; the outbound HTTP client | `traces`, `http` |
//! | `shares`, `plain_text`, `secret` | leaves | `server` |
//!
//! Below them are packages in `crates/`, which import nothing from this one:
//!
//! | package | modules here | responsibility | feature |
//! |---|---|---|---|
//! | `qwed-clients` | `clients` | this server's entry in the configurations of MCP clients | `server` |
//! | `qwed-safety` | `safety` | analysis of a script's syntax tree for dangerous calls | `safety` |
//! | `qwed-manifests` | `provenance` | trust in a skill manifest | `provenance` |
//! | | `aibom` | the AI bill of materials: model, engines and tools of a session | `aibom` |
//! | | `canonical_json`, `hidden` | the text that is hashed; characters that people do not see | |
//! | `qwed-sandbox` | `sandbox` | the kernel's limits on a run: tiers, the plan, the launch that enforces it | `server` |
//! | `qwed-files` | `data_folder`, `strict_modes` | the data folder; files that only the admin may write | `server` |
//! | | `folder` | folders that scripts write to, accessed by file descriptors only | `server` |
//!
//! The feature `server` is on by default and includes the other three. A library takes the features that it needs:
//!
//! ```toml
//! [dependencies]
//! qwed-mcp = { version = "0.3", default-features = false, features = ["safety"] }
//! ```
//!
//! # As a library
//!
//! `safety` finds dangerous calls in a script without running it:
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
//! `provenance` verifies the manifest of a skill before the skill is loaded:
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
//! `aibom` creates a bill of materials from names:
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
//! `gateway` decides calls like the server. It needs the feature `server`:
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

// Code that only teams use is compiled in every build of the program.
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

// The packages in `crates/`, under their module names.
#[cfg(feature = "server")]
use qwed_clients as clients;
#[cfg(feature = "server")]
use qwed_files::{data_folder, folder, strict_modes};
#[cfg(feature = "server")]
use qwed_manifests::{canonical_json, hidden};
#[cfg(feature = "server")]
use qwed_sandbox as sandbox;

/// The samples of the README, as doctests.
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

/// Reads a line like the transport, for the fuzz target `wire`.
#[cfg(all(fuzzing, feature = "server"))]
#[doc(hidden)]
pub fn read_line_for_fuzzing(line: &[u8]) {
    transport::read_line(line);
}
