//! The statement of a receipt: in-toto's Statement, version 1, with a predicate of our own. Nothing is signed or
//! verified here.
//!
//! `docs/receipt.schema.json` is the schema of the predicate. Readers accept a new field. Any other change needs a new
//! version.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Environment;
use crate::gateway::AskedBy;
use crate::ledger::AuditPlace;

/// The type of every statement of in-toto, version 1.
pub(super) const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// The type of our predicate, with its version.
pub(crate) const PREDICATE_TYPE: &str = "https://qwed.ai/attestation/verification/v1";
/// In-toto's predicate for tests.
pub(crate) const TEST_RESULT_TYPE: &str = "https://in-toto.io/attestation/test-result/v0.1";

/// A statement: its subjects, and a predicate about them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Statement<P> {
    #[serde(rename = "_type")]
    pub(crate) kind: Cow<'static, str>,
    pub(crate) subject: Vec<Subject>,
    pub(crate) predicate_type: Cow<'static, str>,
    pub(crate) predicate: P,
}

impl<P> Statement<P> {
    pub(super) fn new(subject: Vec<Subject>, predicate_type: &'static str, predicate: P) -> Self {
        let (kind, predicate_type) = (STATEMENT_TYPE.into(), predicate_type.into());
        Self { kind, subject, predicate_type, predicate }
    }

    /// Returns the SHA-256 of the subject with this name.
    pub(crate) fn digest(&self, name: &str) -> Option<&str> {
        let subject = self.subject.iter().find(|subject| subject.name == name)?;
        Some(&subject.digest.sha256)
    }
}

/// A content, identified by its digest alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) digest: Digest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Digest {
    pub(crate) sha256: String,
}

impl Subject {
    pub(super) fn new(name: impl Into<String>, sha256: String) -> Self {
        Self { name: name.into(), digest: Digest { sha256 } }
    }
}

/// Our predicate.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Predicate<'a> {
    /// The name of the tool that was called.
    pub(crate) tool: String,
    /// The time at which the receipt was made.
    pub(crate) created_on: DateTime<Utc>,
    pub(crate) server: Server,
    pub(crate) decision: Decision,
    pub(crate) caller: AskedBy,
    /// The interpreter and the installed packages; `None` for a call that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) environment: Option<Cow<'a, Environment>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sandbox: Option<Sandbox>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limits: Option<Limits>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<Run>,
    /// The reason why an allowed call was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_run: Option<String>,
    /// The measures that make two runs of the script the same; `None` without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deterministic: Option<Deterministic>,
    /// The reasons why two runs of the script may differ; empty if none is known. `None` for a refusal and a run of
    /// tests, and in receipts of older versions, which left an empty list out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) may_differ_by: Option<Vec<Cow<'static, str>>>,
    /// The last row about this call in the audit log, if the log has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) audit: Option<AuditPlace>,
}

/// The program that decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) version: String,
}

impl Default for Server {
    fn default() -> Self {
        let (name, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        Self { name: name.to_owned(), version: version.to_owned() }
    }
}

/// The decision about the call.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Decision {
    /// `ALLOW_VERIFIED`, `BLOCKED` or `BLOCKED_ADMIN_POLICY`.
    pub(crate) status: String,
    /// The id of the decision, or the run id of a run of tests.
    pub(crate) id: String,
    /// The code of the refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error_code: Option<String>,
    /// The number of findings of the safety analysis. An allowed script has findings only under `--analysis report`.
    #[serde(default)]
    pub(crate) findings: usize,
    /// The SHA-256 of the rules of the safety analysis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rules_sha256: Option<String>,
    /// The SHA-256 of the policy file, for a governed tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) policy_sha256: Option<String>,
}

/// The sandbox of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sandbox {
    /// `None` for a run that never started.
    pub(crate) tier: Option<String>,
    /// The SHA-256 of the plan, which has every path that scripts may read, and every limit.
    pub(crate) plan_sha256: String,
    /// `true` if the run was forked from a warm interpreter.
    pub(crate) warm: bool,
}

/// The limits of the run.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Limits {
    pub(crate) wall_ms: u64,
    #[serde(rename = "memoryMiB")]
    pub(crate) memory_mib: u64,
    pub(crate) output_bytes: u64,
}

/// The run and its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Run {
    pub(crate) started_on: DateTime<Utc>,
    pub(crate) finished_on: DateTime<Utc>,
    pub(crate) duration_ms: u64,
    /// `exited`, `signal`, `timeout`, `cancelled`, `capped` or `memory`.
    pub(crate) ending: String,
    pub(crate) exit_code: i32,
    pub(crate) stdout_truncated: bool,
    pub(crate) stderr_truncated: bool,
    /// The status of a run of tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<String>,
}

/// A run of a script in which the seed of random numbers is made from the script's SHA-256, and numerical libraries use
/// the kernels that every machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deterministic {
    /// `true` if addresses are the same in each run.
    pub(crate) fixed_addresses: bool,
}

/// In-toto's predicate for a run of tests.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TestResult {
    /// `PASSED`, `WARNED` or `FAILED`.
    pub(super) result: &'static str,
    /// The arguments and the policy.
    pub(super) configuration: [ResourceDescriptor; 2],
    pub(super) passed_tests: Vec<String>,
    pub(super) failed_tests: Vec<String>,
}

/// In-toto's descriptor of a content.
#[derive(Debug, Serialize)]
pub(super) struct ResourceDescriptor {
    #[serde(flatten)]
    pub(super) subject: Subject,
    /// Fields of ours. The predicate itself has no place for them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<&'static str, serde_json::Value>,
}
