//! The statement of a receipt: in-toto's Statement, version 1, with this project's own predicate. This module never
//! signs or verifies anything.
//!
//! `docs/receipt.schema.json` is the schema of the predicate. Readers of receipts accept new fields. Any other change
//! of the predicate needs a new version.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::executor::{Cached, Determinism, Environment};
use crate::gateway::{AskedBy, Form};
use crate::ledger::AuditPlace;
use crate::verdict::{Conclusion, Verdict};

/// The type of every in-toto statement of version 1.
pub(super) const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// The type of this project's predicate, with the version of the predicate.
pub(crate) const PREDICATE_TYPE: &str = "https://qwed.ai/attestation/verification/v1";
/// The type of a predicate that is a Verification Context, the document about a verdict (`verification::document`).
pub(crate) const CONTEXT_TYPE: &str = "https://qwed.ai/attestation/verification-context/v1";
/// The type of in-toto's predicate for the results of tests.
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

/// A piece of content that a statement is about, such as a script. The digest identifies the content.
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

/// The predicate of this project, about a call.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Predicate<'a> {
    pub(crate) tool: String,
    /// The time at which the receipt was created.
    pub(crate) created_on: DateTime<Utc>,
    pub(crate) server: Server,
    pub(crate) decision: Decision,
    pub(crate) caller: AskedBy,
    /// The interpreter and the installed packages. `None` for a call that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) environment: Option<Cow<'a, Environment>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sandbox: Option<Sandbox>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limits: Option<Limits>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<Run>,
    /// The files that were passed with the script, by name. The value is the type that the script sees in its mapping
    /// `inputs`: text, bytes or JSON. The subjects of the receipt contain the digests of these files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) inputs: BTreeMap<String, Form>,
    /// The reason why the script of an allowed call was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_run: Option<String>,
    /// The measures that make each run of the script behave the same. `None` if the run was not deterministic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deterministic: Option<Deterministic>,
    /// The reasons why two runs of the script may differ. Empty if no reason is known. `None` for a refusal and for a
    /// run of tests. Also `None` in receipts of older versions, which omitted an empty list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) may_differ_by: Option<Vec<Cow<'static, str>>>,
    /// The earlier run that the result comes from. `None` if the script was run for this call, and in receipts of older
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cached: Option<Cached>,
    /// The verdict on the script. `None` in receipts of older versions, and for a call without a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verification: Option<Verification>,
    /// The number and the hash of the last row about this call in the audit log. `None` without an audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) audit: Option<AuditPlace>,
}

/// The verdict on a script, without its checks and its document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Verification {
    pub(crate) outcome: Conclusion,
    /// The hash that commits to the fields of the Verification Context. `None` if the script is not verified.
    pub(crate) proof_ref: Option<String>,
    /// The digest of the Verification Context.
    pub(crate) document_digest: String,
    /// Whether variants of the script were also run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) with_variants: bool,
}

impl Verification {
    pub(crate) fn of(verdict: &Verdict) -> Self {
        Self {
            outcome: verdict.outcome,
            proof_ref: verdict.proof_ref().map(str::to_owned),
            document_digest: verdict.document_digest.clone(),
            with_variants: verdict.has_variants(),
        }
    }
}

/// The program that made the decision.
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

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Decision {
    /// The status of the decision: `ALLOW_VERIFIED`, `BLOCKED` or `BLOCKED_ADMIN_POLICY`.
    pub(crate) status: String,
    /// The id of the decision. For a call of `run_pytest`, this is the run id.
    pub(crate) id: String,
    /// The code of the reason, if the call was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error_code: Option<String>,
    /// The number of findings of the safety analysis. An allowed script has findings only with `--analysis report`.
    #[serde(default)]
    pub(crate) findings: usize,
    /// The SHA-256 of the rules of the safety analysis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rules_sha256: Option<String>,
    /// The SHA-256 of the policy file. `None` for a script, and for a call of `run_pytest` that was refused before its
    /// run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) policy_sha256: Option<String>,
}

/// The sandbox in which the script ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sandbox {
    /// The tier of the sandbox. `None` for a run that never started.
    pub(crate) tier: Option<String>,
    /// The SHA-256 of the sandbox's plan, which contains every path that scripts may read, and every limit.
    pub(crate) plan_sha256: String,
    /// Whether the run was forked from a warm interpreter.
    pub(crate) warm: bool,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Limits {
    pub(crate) wall_ms: u64,
    #[serde(rename = "memoryMiB")]
    pub(crate) memory_mib: u64,
    pub(crate) output_bytes: u64,
}

/// The run of the script, and the way in which it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Run {
    pub(crate) started_on: DateTime<Utc>,
    pub(crate) finished_on: DateTime<Utc>,
    pub(crate) duration_ms: u64,
    /// The way in which the run ended: `exited`, `signal`, `timeout`, `cancelled`, `capped` or `memory`.
    pub(crate) ending: String,
    pub(crate) exit_code: i32,
    pub(crate) stdout_truncated: bool,
    pub(crate) stderr_truncated: bool,
    /// The status of the run, for a run of tests only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<String>,
}

/// The measures of a deterministic run. Two further measures always apply: the seed of random numbers is derived from
/// the script's SHA-256, and numerical libraries use compute kernels that every processor supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deterministic {
    /// Whether objects have the same addresses in each run.
    pub(crate) fixed_addresses: bool,
    /// The time on the clocks of the run at its start. `None` if clocks and random bits came from the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clock: Option<DateTime<Utc>>,
}

impl From<Determinism> for Deterministic {
    fn from(of: Determinism) -> Self {
        Self { fixed_addresses: of.fixes_addresses, clock: of.clock }
    }
}

/// In-toto's predicate for the results of tests.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TestResult {
    /// The result of the run of tests: `PASSED`, `WARNED` or `FAILED`.
    pub(super) result: &'static str,
    /// The digests of the call's arguments and of the policy.
    pub(super) configuration: [ResourceDescriptor; 2],
    pub(super) passed_tests: Vec<String>,
    pub(super) failed_tests: Vec<String>,
}

/// In-toto's descriptor of content: its digest, and additional fields.
#[derive(Debug, Serialize)]
pub(super) struct ResourceDescriptor {
    #[serde(flatten)]
    pub(super) subject: Subject,
    /// Additional fields of this project, for which in-toto's predicate has no field.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<&'static str, serde_json::Value>,
}
