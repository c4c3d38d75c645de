//! Builds the Verification Context v1.0 document of a run, its `proof_ref` and its digest.
//!
//! Two runs of a script with the same settings have equal documents, unless the script's result can differ between
//! runs. Therefore a document contains no time, no address and no random number.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::executor::{Environment, Outcome, Package, RunLimits, Surroundings};
use crate::gateway::{AuthorizedScript, ScriptNames};
use crate::sandbox::Tier;
use crate::verdict::{CheckReport, CheckState, Conclusion, Verdict};

use super::conclusion::{Concluded, Variants, conclude};
use super::differences::{Differences, Names};
use super::{RULES_SHA256, sources, theory};

/// The version of the specification.
const SPEC_VERSION: &str = "1.0";

/// The maximum number of checks in a document and in a result.
const CHECKS_MAX: usize = 64;

/// The maximum total size of the checks in a formal statement, in bytes.
const STATEMENT_BYTES_MAX: usize = 16 * 1024;

/// The formal statement of a call without a script.
const NO_SCRIPT: &str = "no script";

/// The treatment of outcomes other than success (section 3.2 of the specification).
const OUTCOME_TREATMENT: &str = "A timeout, an error, a result that can differ between runs, and a \
                                 check that was not executed or cannot fail are never VERIFIED.";

/// The interpreter and the packages of a run. Both may be unknown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Circumstances {
    surroundings: Option<Arc<Surroundings>>,
    environment: Option<Arc<Environment>>,
}

impl Circumstances {
    pub(crate) fn new(
        surroundings: Arc<Surroundings>,
        environment: Option<Arc<Environment>>,
    ) -> Self {
        Self { surroundings: Some(surroundings), environment }
    }

    fn packages(&self) -> &[Package] {
        self.environment.as_ref().map_or(&[], |environment| &environment.packages)
    }
}

/// The parts of a document that depend on the kind of run.
struct Parts {
    statement: String,
    model: Option<String>,
    interpretation: Value,
    configuration: Option<Value>,
    dependencies: Option<Vec<String>>,
    evidence: Value,
}

/// Returns the verdict on a run of a script that has ended.
pub(crate) fn verdict_on_run(
    script: &AuthorizedScript,
    limits: RunLimits,
    circumstances: &Circumstances,
    outcome: &Outcome,
    variants: Variants,
) -> Verdict {
    let names = script.names();
    let checks = names.map_or(&[][..], |names| &names.checks);
    let determinism = circumstances.surroundings.as_ref().and_then(|of| of.measures(outcome.start));
    let determinism = determinism.map(|it| it.confirmed(outcome.end_report.observed.as_ref()));
    let uses = names.map_or(&[][..], |names| &names.uses);
    let differs = sources::differ(uses, determinism);
    let counts = outcome.check_counts.as_ref();
    let Concluded { conclusion, reports } = conclude(checks, counts, outcome, differs, variants);
    let parts = Parts {
        statement: statement(&reports).text(|| script_statement(&digest(script.source().as_str()))),
        model: script.asked_by().model.clone(),
        interpretation: interpretation(Some(script), circumstances),
        configuration: Some(configuration(limits, circumstances, outcome.tier, variants)),
        dependencies: names
            .map(|names| theory::dependencies(&names.imports, circumstances.packages())),
        evidence: evidence(script, circumstances, outcome, conclusion, &reports),
    };
    verdict(conclusion, reports, parts)
}

/// The identity of a script, for a document about a script without a known run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Subject {
    /// The digest of the script. `None` if the call had no valid script.
    script: Option<String>,
    /// The model, if the client names it.
    model: Option<String>,
}

impl Subject {
    pub(crate) fn new(code: Option<&str>, model: Option<String>) -> Self {
        Self { script: code.map(digest), model }
    }

    pub(crate) fn of(script: &AuthorizedScript) -> Self {
        Self::new(Some(script.source().as_str()), script.asked_by().model.clone())
    }
}

/// Returns the verdict on a script without a known run. `outcome` is [`Conclusion::Blocked`] if the script was refused
/// or could not be run, and [`Conclusion::Inconclusive`] if it may have run in part.
pub(crate) fn verdict_without_run(outcome: Conclusion, subject: &Subject) -> Verdict {
    let Subject { script, model } = subject.clone();
    let parts = Parts {
        statement: script.as_deref().map_or_else(|| NO_SCRIPT.to_owned(), script_statement),
        model,
        interpretation: interpretation(None, &Circumstances::default()),
        configuration: None,
        dependencies: None,
        evidence: json!({ "script": script, "refuted": false }),
    };
    verdict(outcome, Vec::new(), parts)
}

/// A run of tests, for [`verdict_on_tests`].
#[derive(Debug)]
pub(crate) struct TestRun {
    pub(crate) outcome: Conclusion,
    /// The tests that ran, sorted by their ids.
    pub(crate) tests: Vec<TestResult>,
    /// The number of tests that ran and are not in `tests`.
    pub(crate) tests_omitted: usize,
    /// The version of Python.
    pub(crate) python: Option<String>,
    /// The version of pytest.
    pub(crate) pytest: Option<String>,
    /// The SHA-256 of the policy that permitted the run.
    pub(crate) policy_sha256: Option<String>,
    /// The limits of the run, its tier, and the level of the judge (the protection of the test results against
    /// forgery). All values are strings.
    pub(crate) configuration: Value,
    /// The arguments, the workspace and the counts. All values are strings, or counts below 2^53.
    pub(crate) evidence: Map<String, Value>,
}

#[derive(Debug)]
pub(crate) struct TestResult {
    pub(crate) id: String,
    pub(crate) has_failed: bool,
}

/// Returns the verdict on a run of tests.
pub(crate) fn verdict_on_tests(run: TestRun) -> Verdict {
    let TestRun { outcome, tests, tests_omitted, mut evidence, .. } = run;
    let state = |test: &TestResult| {
        if test.has_failed { CheckState::Failed } else { CheckState::Held }
    };
    let reports: Vec<_> =
        tests.iter().map(|test| CheckReport::test(&test.id, state(test))).collect();
    let mut statement = statement(&reports);
    statement.omitted += tests_omitted;
    let listed = tests.iter().take(CHECKS_MAX);
    let listed: Vec<_> =
        listed.map(|test| json!({ "test": test.id, "state": state(test) })).collect();
    let omitted = tests.len() - listed.len() + tests_omitted;
    evidence.insert("checks".to_owned(), json!(listed));
    evidence.insert("checks_omitted".to_owned(), json!(omitted));
    evidence.insert("refuted".to_owned(), json!(outcome == Conclusion::Refuted));
    let language = run.python.map(|version| json!(format!("Python {version}")));
    let policy_version = run.policy_sha256.map(|sha256| json!(format!("sha256:{sha256}")));
    let pytest = run.pytest.map(|version| format!("pytest {version}"));
    let parts = Parts {
        statement: statement.text(|| "pytest".to_owned()),
        model: None,
        interpretation: object([
            ("theory", Some(json!("tests (pytest)"))),
            ("language", language),
            ("policy_version", policy_version),
        ]),
        configuration: Some(run.configuration),
        dependencies: Some(pytest.into_iter().collect()),
        evidence: evidence.into(),
    };
    let mut verdict = verdict(outcome, reports, parts);
    verdict.checks_omitted += tests_omitted;
    verdict
}

fn verdict(outcome: Conclusion, mut checks: Vec<CheckReport>, mut parts: Parts) -> Verdict {
    let formalization = object([
        ("verified", Some(Value::Bool(false))),
        ("translator", parts.model.take().map(Value::String)),
    ]);
    let mut document = document(outcome, parts);
    let document_digest = digest(canonical(&mut document));
    // Add the formalization after the digest, because the digest must not cover it.
    if let Some(object) = document.get_mut("object").and_then(Value::as_object_mut) {
        object.insert("formalization".to_owned(), formalization);
    }
    let checks_omitted = checks.len().saturating_sub(CHECKS_MAX);
    checks.truncate(CHECKS_MAX);
    Verdict { outcome, checks, checks_omitted, document_digest, document, depends_on_load: false }
}

/// Returns the document without `object.formalization`.
fn document(outcome: Conclusion, parts: Parts) -> Value {
    let Parts { statement, interpretation, configuration, dependencies, evidence, .. } = parts;
    let proof = object([
        ("verifier", Some(json!(env!("CARGO_PKG_NAME")))),
        ("verifier_version", Some(json!(env!("CARGO_PKG_VERSION")))),
        ("configuration", configuration),
        ("trusted_dependencies", dependencies.map(|dependencies| json!(dependencies))),
        ("outcome_treatment", Some(json!(OUTCOME_TREATMENT))),
    ]);
    let admission = if outcome == Conclusion::Verified { "ADMIT" } else { "DENY" };
    let context = object([
        ("interpretation", Some(interpretation)),
        ("proof", Some(proof)),
        ("evidence", Some(object([("evidence", Some(evidence))]))),
        ("decision", Some(json!({ "admission": admission }))),
    ]);
    // `proof_ref` is the digest of this payload, so the payload contains all fields of the context except `proof_ref`.
    let mut payload =
        object([("formal_statement", Some(Value::String(statement))), ("context", Some(context))]);
    let proof_ref = (outcome == Conclusion::Verified).then(|| digest(canonical(&mut payload)));
    let [statement, mut context] =
        ["formal_statement", "context"].map(|name| payload.get_mut(name).map(Value::take));
    let evidence = context.as_mut().and_then(|context| context.get_mut("evidence"));
    if let Some(evidence) = evidence.and_then(Value::as_object_mut) {
        evidence.insert("proof_ref".to_owned(), proof_ref.map_or(Value::Null, Value::String));
    }
    object([
        ("spec_version", Some(json!(SPEC_VERSION))),
        ("object", Some(object([("formal_statement", statement)]))),
        ("context", context),
        ("verdict", Some(json!(outcome.verdict()))),
    ])
}

/// Returns an object with the members that have a value.
fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let members = members.into_iter();
    members
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect::<Map<_, _>>()
        .into()
}

/// The parts of the text that becomes the `formal_statement` of a document: the executed checks, one on each line, and
/// the number of checks that were omitted because of the limits.
struct Statement {
    lines: String,
    omitted: usize,
}

fn statement(reports: &[CheckReport]) -> Statement {
    let mut lines = String::new();
    let mut omitted = 0;
    let executed = reports.iter().filter(|report| report.state != CheckState::NotReached);
    for (number, report) in executed.enumerate() {
        if number >= CHECKS_MAX || lines.len() + report.text.len() > STATEMENT_BYTES_MAX {
            omitted += 1;
            continue;
        }
        if !lines.is_empty() {
            lines.push('\n');
        }
        lines.push_str(&report.text);
    }
    Statement { lines, omitted }
}

impl Statement {
    /// Returns the text of the statement: the executed checks. `subject` returns the identity of the script or of the
    /// tests as text. If checks were omitted, the statement ends with this identity. If no checks were executed, the
    /// statement consists only of the identity.
    fn text(self, subject: impl Fn() -> String) -> String {
        let Self { mut lines, omitted } = self;
        if omitted > 0 {
            let word = if omitted == 1 { "check" } else { "checks" };
            // Writing to a string does not fail.
            let _ = write!(lines, "\n… and {omitted} more {word}, {}", subject());
        }
        if lines.trim().is_empty() { subject() } else { lines }
    }
}

/// Returns the text that identifies a script by its digest in a statement.
fn script_statement(digest: &str) -> String {
    format!("script {digest}")
}

fn interpretation(script: Option<&AuthorizedScript>, circumstances: &Circumstances) -> Value {
    let theory = script.map(|script| {
        let (imports, source) = (script.imports().unwrap_or_default(), script.source().as_str());
        json!(theory::theory(imports, circumstances.packages(), source))
    });
    let surroundings = circumstances.surroundings.as_ref();
    let language = surroundings.map(|of| json!(format!("Python {}", of.version)));
    object([
        ("theory", theory),
        ("language", language),
        ("policy_version", Some(json!(format!("sha256:{}", *RULES_SHA256)))),
    ])
}

fn configuration(
    limits: RunLimits,
    circumstances: &Circumstances,
    tier: Option<Tier>,
    variants: Variants,
) -> Value {
    let memory_mib = circumstances.surroundings.as_ref().map(|of| of.memory_mib);
    let memory_mib = match (memory_mib, limits.memory_mb) {
        (Some(usual), Some(lowered)) => Some(usual.min(lowered)),
        (usual, lowered) => usual.or(lowered),
    };
    let mut configuration = json!({
        "timeout_seconds": limits.timeout.as_secs_f64().to_string(),
        "output_bytes_max": limits.output_bytes_max.to_string(),
        "memory_mib": memory_mib.map(|memory_mib| memory_mib.to_string()),
        "tier": tier.map(Tier::as_str),
    });
    if let (Some(configuration), true) =
        (configuration.as_object_mut(), variants != Variants::NotRun)
    {
        configuration.insert("vacuity".to_owned(), "variants".into());
    }
    configuration
}

/// Returns the evidence in the document of a run. All numbers are integers.
fn evidence(
    script: &AuthorizedScript,
    circumstances: &Circumstances,
    outcome: &Outcome,
    conclusion: Conclusion,
    reports: &[CheckReport],
) -> Value {
    let checks = reports.iter().take(CHECKS_MAX).map(|report| {
        // Omit the compared values, because they can differ between runs.
        let CheckReport { line, text: _, state, vacuous, times, compared: _ } = report;
        json!({ "line": line, "state": state, "vacuous": vacuous, "times": times })
    });
    let may_differ = may_differ(script.names(), script.source().as_str(), circumstances, outcome);
    let stdout = (!may_differ).then(|| digest(outcome.stdout.content()));
    let inputs = script
        .inputs()
        .digests()
        .map(|(name, sha256)| (name.to_owned(), format!("sha256:{sha256}").into()))
        .collect::<Map<_, _>>()
        .into();
    object([
        ("script", Some(digest(script.source().as_str()).into())),
        ("stdin", Some(digest(script.stdin()).into())),
        ("inputs", Some(inputs)),
        ("stdout", Some(stdout.map_or(Value::Null, Value::String))),
        ("exit_code", Some(outcome.ending.exit_code().to_string().into())),
        ("checks", Some(checks.collect())),
        ("checks_omitted", Some(reports.len().saturating_sub(CHECKS_MAX).into())),
        ("refuted", Some((conclusion == Conclusion::Refuted).into())),
    ])
}

/// Returns whether the output of a script may differ between runs for a known reason.
fn may_differ(
    names: Option<&ScriptNames>,
    source: &str,
    circumstances: &Circumstances,
    outcome: &Outcome,
) -> bool {
    let determinism = circumstances.surroundings.as_ref().and_then(|of| of.measures(outcome.start));
    let observed = outcome.end_report.observed.as_ref();
    let may_differ_by = Differences::of(names.map(Names::of), source).of_run(
        determinism,
        observed,
        [outcome.stdout.content()],
    );
    !may_differ_by.is_empty()
}

fn digest(bytes: impl AsRef<[u8]>) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Returns the canonical JSON of a value (RFC 8785). `serde_json` escapes strings as the RFC does. All member names
/// are ASCII, so their order by bytes equals their order by UTF-16 code units. All numbers are integers below 2^53,
/// which ECMAScript writes in the same form.
fn canonical(value: &mut Value) -> String {
    // Sort the members, because another crate may enable the feature of `serde_json` that preserves their order.
    value.sort_all_objects();
    value.to_string()
}
