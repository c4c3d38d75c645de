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
//! Read `server::call` for a `tools/call` from start to end, and `scripts::decide` for the decision about a script.
//! Only the gateway can create a `Grant`, and the executor runs nothing without a `Grant`. With a policy file,
//! `server` passes calls of governed tools to `governance::call`. Their runs use the same executor.
//!
//! # Modules
//!
//! The modules are in reading order. A module imports only modules below it. Modules with a star need the feature
//! `teams`. In a build without this feature, the files `*_absent.rs` replace some of these modules.
//!
//! | module | responsibility |
//! |---|---|
//! | `cli` | the command line, and all exit codes |
//! | `http` * | HTTP for teams: connections, authentication, messages, scripts of pipelines |
//! | `server` | the MCP side: tools, the steps of a call, replies, shutdown |
//! | `transport` | JSON-RPC over stdio, with limits in both directions |
//! | `jobs` | background jobs: states, queue, expiry |
//! | `batch` | runs a file of scripts: writes one answer for each line |
//! | `scripts` | the one entry for scripts: decide, audit, wait for a turn, run (once for identical calls), audit |
//! | `bearer` * | authentication over HTTP, by tokens of the store and by access tokens |
//! | `governance` | governed tools: policy, budget, the pytest run, its artifacts and evidence |
//! | `receipt` | signed receipts: decision, environment and outcome of a run |
//! | `recipes` | scripts that a person fills in: one for each kind of claim |
//! | `skill` | the skill: how a model verifies a claim |
//! | `oidc` * | validation of an authorization server's access tokens |
//! | `verification` | creates verdicts from the checks of a run |
//! | `executor` | runs authorized scripts, and kills all their processes |
//! | `environments` | virtual environments for scripts: create, list, remove |
//! | `gateway` | the decision about a call: allow or refuse, the reason, the id |
//! | `verdict` | the verdict on a run: conclusion, checks, Verification Context |
//! | `config` | settings from environment variables |
//! | `traces` *, `https` * | spans for a collector; the outbound HTTP client |
//! | `shares` | the shares of users in common resources |
//! | `logging` | logs to stderr |
//! | `terminal` | output for terminals |
//! | `plain_text` | the removal of hidden characters |
//!
//! The packages in `crates/` import nothing from this package:
//!
//! | package | modules here | responsibility |
//! |---|---|---|
//! | `qwed-ledger` | `ledger` | tokens, roles, the audit log, and their store |
//! | | `postgres` | the PostgreSQL that replicas share: connections, schema |
//! | `qwed-clients` | `clients` | this server's entry in the configurations of MCP clients |
//! | `qwed-safety` | `safety` | analysis of a script's syntax tree for dangerous calls |
//! | `qwed-manifests` | `provenance` | verification of skill manifests |
//! | | `aibom` | the AI bill of materials: model, engines and tools of a session |
//! | | `canonical_json`, `hidden` | the text that is hashed; characters that people do not see |
//! | `qwed-sandbox` | `sandbox` | the kernel's limits on a run: tiers, the plan, the launch that enforces it |
//! | `qwed-files` | `data_folder`, `strict_modes` | the data folder; files that only the admin may write |
//! | | `folder` | folders that scripts write to, accessed by file descriptors only |
//!
//! A program that needs only the analysis, skill manifests or bills of materials can depend on `qwed-safety` or
//! `qwed-manifests` alone.
//!
//! # As a library
//!
//! `safety` finds dangerous calls in a script without running it:
//!
//! ```
//! let analysis = qwed_mcp::safety::analyze("import os\nos.system('id')").unwrap();
//! let finding = &analysis.findings[0];
//! assert_eq!(finding.position.unwrap().line, 2);
//! assert_eq!(
//!     finding.to_string(),
//!     "Dangerous function call: os.system() (line 2), instead: do the work in Python"
//! );
//! ```
//!
//! `provenance` verifies the manifest of a skill before the skill is loaded:
//!
//! ```
//! use qwed_mcp::SkillProvenanceGuard;
//! use qwed_mcp::provenance::SkillManifest;
//!
//! let guard = SkillProvenanceGuard::new().with_trusted_domains(["git.example.org"]).unwrap();
//! let manifest = SkillManifest::parse(br#"{ "name": "my-skill", "version": "1.0.0" }"#).unwrap();
//! let verification = guard.verify_manifest(&manifest);
//! assert!(!verification.verified);
//! assert!(verification.findings[2].contains("digest"), "{:?}", verification.findings);
//! ```
//!
//! `aibom` creates a bill of materials from names:
//!
//! ```
//! use qwed_mcp::AiBom;
//!
//! let bom = AiBom::from_names("gpt-4o", ["z3"], ["execute_python_code"]).unwrap();
//! assert_eq!(bom.components.verification_engines[0].name, "z3");
//! assert_eq!(bom.manifest_hash.len(), 64);
//! ```
//!
//! `gateway` decides whether a call is allowed, as in the server:
//!
//! ```
//! use qwed_mcp::{AdminGate, RiskBasedExecutionGateway};
//!
//! let gateway = RiskBasedExecutionGateway::new(AdminGate::Open);
//! let arguments = serde_json::from_str(r#"{ "code": "print(6 * 7)" }"#).unwrap();
//! let decision = gateway.evaluate_and_route("execute_python_code", arguments);
//! assert!(decision.verified);
//! ```

// Without the feature `teams`, some code is unused, and the functions in the files `*_absent.rs` ignore their
// parameters. So the lints about unused code and unused parameters are off.
#![cfg_attr(
    not(feature = "teams"),
    allow(
        dead_code,
        unused_imports,
        clippy::needless_pass_by_value,
        clippy::unnecessary_wraps,
        clippy::unused_async,
        clippy::unused_self,
        reason = "used with the feature teams only"
    )
)]

pub mod aibom;
mod batch;
#[doc(hidden)]
pub mod cli;
pub mod config;
mod environments;
mod executor;
pub mod gateway;
mod governance;
mod jobs;
mod logging;
mod plain_text;
mod receipt;
mod recipes;
mod scripts;
mod server;
mod shares;
mod skill;
mod terminal;
mod transport;
mod verdict;
mod verification;

#[cfg(feature = "teams")]
mod bearer;
#[cfg(feature = "teams")]
mod http;
#[cfg(feature = "teams")]
mod https;
#[cfg(feature = "teams")]
mod oidc;
#[cfg_attr(not(feature = "teams"), path = "traces_absent.rs")]
mod traces;

// Import the packages in `crates/` under the names that the modules of this package use.
use qwed_clients as clients;
use qwed_files::{data_folder, folder, is_same_file, strict_modes};
use qwed_ledger as ledger;
use qwed_ledger::postgres;
use qwed_manifests::{canonical_json, hidden};
use qwed_sandbox as sandbox;

/// The samples of the README, as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

pub use aibom::{AiBom, AiBomGenerator};
pub use config::AdminGate;
pub use gateway::{
    DecisionFinding, DecisionRecord, ErrorCode, RiskBasedExecutionGateway, RiskLevel, Status,
    VerificationId,
};
pub use provenance::SkillProvenanceGuard;
pub use qwed_ledger::Secret;
#[doc(inline)]
pub use qwed_manifests::provenance;
#[doc(inline)]
pub use qwed_safety as safety;
#[doc(hidden)]
pub use qwed_sandbox::process_of_a_run;

/// Reads a line as the transport does. The fuzz target `wire` calls this function.
#[cfg(fuzzing)]
#[doc(hidden)]
pub fn read_line_for_fuzzing(line: &[u8]) {
    transport::read_line(line);
}
