//! Tests governed calls from the token to the reply. Never starts a process, because the executor is a fake.

use std::fs;
use std::future::ready;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use sha2::Digest as _;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::*;
use crate::config::{AdminGate, Settings};
use crate::executor::fake::FakeExecutor;
use crate::executor::{
    Captured, Ending, Installation, NotForProject, Outcome, ProjectRun, Ran, RunError, Source,
};
use crate::gateway::tests::verified;
use crate::gateway::{Accompanying, Decision, ErrorCode, RiskBasedExecutionGateway};
use crate::ledger::{
    ArgumentsHash, AuditEntry, AuditEvent, AuditFilter, AuditOutcome, EVIDENCE_SHA256, Presented,
    Proof, Role, UserName,
};
use crate::receipt::KeyStore;
use crate::sandbox::Tier;

const TEST_PATH: &str = "tests/test_a.py";
const ALLOWLIST: &str = "[tools]\nallowlist = [\"run_pytest\"]\n";

fn user(name: &str) -> UserName {
    name.parse().unwrap()
}

fn entry(run_id: Uuid, event: AuditEvent) -> AuditEntry {
    AuditEntry {
        run_id,
        event,
        user: Some(user("ana")),
        tool: "run_pytest".to_owned(),
        arguments_hash: Some(ArgumentsHash::of(&Map::new())),
        outcome: AuditOutcome::ALLOWED,
        details: Map::new(),
    }
}

/// A server with a policy, a token for each role, and an executor that starts nothing.
struct Fixture {
    folder: TempDir,
    store: Store,
    session: Arc<Session>,
    executor: Arc<FakeExecutor>,
    governance: Arc<Governance>,
    tokens: [(Role, String); 3],
}

impl Fixture {
    fn new(executor: FakeExecutor) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("workspace/tests")).unwrap();
        fs::write(folder.path().join("workspace").join(TEST_PATH), "").unwrap();
        let data = folder.path().join("data");
        let store = Store::open(&data).unwrap();
        let tokens = Role::ALL.map(|role| {
            let created = aside(|| store.create_token(&user(role.as_str()), role, None));
            let (_, token) = created.unwrap();
            (role, token.reveal().to_owned())
        });
        let session = Arc::new(Session::new(None));
        let executor = Arc::new(executor);
        let (settings, _) = Settings::from_lookup(|_| None);
        let policy = Arc::new(PolicyFile::new(folder.path().join("policy.toml")));
        let governance = Arc::new(Governance::new(
            &settings,
            policy,
            &data,
            store.clone(),
            executor.clone(),
            Some(Arc::clone(&session)),
        ));
        let fixture = Self { folder, store, session, executor, governance, tokens };
        fixture.write_policy(ALLOWLIST, "");
        fixture
    }

    /// Creates a server with a sandbox at this tier. The fake executor calls `act` for each run, and returns the
    /// result.
    fn of<F: Future<Output = Ran> + Send + 'static>(
        tier: Tier,
        act: impl Fn(ProjectRun, CancellationToken) -> F + Send + Sync + 'static,
    ) -> Self {
        Self::new(FakeExecutor::of_projects(tier, act))
    }

    /// Enables receipts, with a new key in the folder `keys`.
    fn with_receipts(mut self, keys: &Path) -> Self {
        let store = KeyStore::new(keys.to_owned());
        let key = store.generate(false).unwrap();
        let folder = self.folder.path();
        let receipts = folder.join("receipts");
        let receipts = Receipts::new(key, &store.signing_key(), &receipts, false, false).unwrap();
        let (settings, _) = Settings::from_lookup(|_| None);
        let governance = Governance::new(
            &settings,
            Arc::new(PolicyFile::new(folder.join("policy.toml"))),
            &folder.join("data"),
            self.store.clone(),
            self.executor.clone(),
            Some(Arc::clone(&self.session)),
        );
        self.governance = Arc::new(governance.with_receipts(Some(Arc::new(receipts))));
        self
    }

    fn write_policy(&self, tools: &str, sections: &str) {
        let root = self.folder.path().join("workspace");
        let text = format!("{tools}[workspace]\nroot = {}\n{sections}", json!(root));
        fs::write(self.folder.path().join("policy.toml"), text).unwrap();
    }

    fn token(&self, role: Role) -> &str {
        let (_, token) = self.tokens.iter().find(|(of, _)| *of == role).unwrap();
        token
    }

    async fn call(
        &self,
        token: Option<&str>,
        tool: GovernedTool,
        arguments: Value,
    ) -> (Uuid, Result<GovernedReply, Refusal>) {
        let call = request(token, tool, arguments);
        timeout(Duration::from_secs(60), self.governance.call(call)).await.expect("an end")
    }

    /// Calls `run_pytest` with the token of [`Role::User`].
    async fn run(&self) -> (Uuid, Result<GovernedReply, Refusal>) {
        let token = Some(self.token(Role::User));
        self.call(token, GovernedTool::RunPytest, json!({ "test_path": TEST_PATH })).await
    }

    /// Calls a read tool with the token of [`Role::Viewer`].
    async fn read(&self, tool: ReadTool, arguments: Value) -> Result<GovernedReply, Refusal> {
        let token = Some(self.token(Role::Viewer));
        self.call(token, GovernedTool::Read(tool), arguments).await.1
    }

    /// Returns the event, the outcome and the details of each row about a call.
    fn rows(&self, run_id: Uuid) -> Vec<(String, String, Value)> {
        let filter =
            AuditFilter { run_id: Some(run_id.into()), limit: 100, ..AuditFilter::default() };
        let rows = self.store.audit_rows(&filter).unwrap().into_iter();
        rows.map(|row| (row.event, row.outcome, serde_json::from_str(&row.details).unwrap()))
            .collect()
    }

    /// Returns the event and the outcome of each row about a call.
    fn events(&self, run_id: Uuid) -> Vec<[String; 2]> {
        self.rows(run_id).into_iter().map(|(event, outcome, _)| [event, outcome]).collect()
    }

    fn run_folder(&self, run_id: Uuid) -> PathBuf {
        self.folder.path().join("data/artifacts").join(run_id.to_string())
    }

    fn evidence(&self, run_id: Uuid) -> Value {
        let text = fs::read(self.run_folder(run_id).join("evidence.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    /// Returns the outcome, the user and the details of the last row about a script.
    fn last_of_scripts(&self) -> (String, Option<String>, Value) {
        let rows = self.store.audit_rows(&AuditFilter { limit: 1, ..AuditFilter::default() });
        let row = rows.unwrap().pop().unwrap();
        let names = (row.tool.as_str(), row.event.as_str());
        assert_eq!(names, ("execute_python_code", "MCP_TOOL_CALL"));
        (row.outcome, row.user, serde_json::from_str(&row.details).unwrap())
    }

    fn close_log(&self) {
        close_log(&self.folder.path().join("data"));
    }
}

fn close_log(data: &Path) {
    let statement = "CREATE TRIGGER closed BEFORE INSERT ON audit
                     BEGIN SELECT RAISE(ABORT, 'closed'); END";
    let database = rusqlite::Connection::open(data.join("governance.db")).unwrap();
    database.execute_batch(statement).unwrap();
}

/// Runs `work` on a separate thread, because `work` waits for the store.
fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

fn request(token: Option<&str>, tool: GovernedTool, arguments: Value) -> GovernedCall {
    let Value::Object(arguments) = arguments else { panic!("{arguments}") };
    GovernedCall {
        tool,
        arguments,
        presented: Presented { token: token.map(|token| token.to_owned().into()), known: None },
        cancel: CancellationToken::new(),
        waits_for_turn: Arc::default(),
    }
}

fn ended(ending: Ending) -> Outcome {
    let stdout =
        Captured { text: "printed".to_owned(), is_truncated: false, ..Captured::default() };
    let duration = Duration::from_millis(1200);
    Outcome { ending, stdout, duration, tier: Some(Tier::T3), ..Outcome::never_started() }
}

/// Returns output that exceeded the limit.
fn flood() -> Captured {
    Captured { text: "x".to_owned(), is_truncated: true, ..Captured::default() }
}

/// Writes the files that pytest leaves after tests with these outcomes.
fn leave_reports(files: &Path, passed: u64, failed: u64) {
    let counts = json!({
        "passed": passed, "failed": failed, "errors": 0, "skipped": 0, "xfailed": 0,
        "duration_s": 0.5,
    });
    fs::write(files.join(".new-report"), format!("{counts}\n")).unwrap();
    fs::write(files.join(".new-ended"), "{\"way\": \"returned\", \"passed\": 1}\n").unwrap();
    fs::write(files.join(".new-reserve"), [0; 64]).unwrap();
}

fn passes(project: &ProjectRun) -> Outcome {
    leave_reports(&project.artifacts.path, 1, 0);
    ended(Ending::Exited(0))
}

fn pair(event: &str, outcome: &str) -> [String; 2] {
    [event, outcome].map(str::to_owned)
}

/// Returns the expected rows of a run that ended with the outcome `end`.
fn rows_of_run(end: &str) -> Vec<[String; 2]> {
    [
        ("MCP_TOOL_CALL", "ALLOWED"),
        ("TOOL_STARTED", "STARTED"),
        ("SANDBOX_EXEC", end),
        ("TOOL_FINISHED", end),
    ]
    .map(|(event, outcome)| pair(event, outcome))
    .to_vec()
}

fn text_of(reply: &GovernedReply) -> String {
    let texts = reply.blocks.iter().map(|block| match block {
        Block::Text(text) => text.clone(),
        Block::Binary { uri, .. } => uri.clone(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn each_role_does_what_it_may_and_others_nothing() {
    let fixture = Fixture::of(Tier::T3, |project, _| ready(Ok(passes(&project))));
    let (first, reply) = fixture.run().await;
    assert!(reply.is_ok(), "{reply:?}");
    let changed = format!("{}x", &fixture.token(Role::Admin)[..50]);
    let nobody = [None, Some(""), Some(changed.as_str())].map(|token| (None, token));
    let known = fixture.tokens.iter().map(|(role, token)| (Some(*role), Some(token.as_str())));
    for (role, token) in known.chain(nobody) {
        for tool in GovernedTool::ALL {
            let arguments = match tool {
                GovernedTool::RunPytest => json!({ "test_path": TEST_PATH }),
                GovernedTool::Read(ReadTool::GetEvidence) => json!({ "run_id": first }),
                GovernedTool::Read(ReadTool::ListArtifacts) => json!({}),
                GovernedTool::Read(ReadTool::GetArtifactContent) => {
                    json!({ "run_id": first, "path": "stdout.txt" })
                }
            };
            let runs = fixture.executor.runs();
            let (run_id, reply) = fixture.call(token, tool, arguments).await;
            let is_run = tool == GovernedTool::RunPytest;
            let refusal = match role {
                None => Some(Refusal::AuthRequired),
                Some(Role::Viewer) if is_run => Some(Refusal::PermissionDenied),
                Some(Role::Admin | Role::User | Role::Viewer) => None,
            };
            assert_eq!(reply.err(), refusal, "{role:?} {tool:?}");
            let has_run = fixture.executor.runs() > runs;
            assert_eq!(has_run, is_run && refusal.is_none(), "{role:?} {tool:?}");
            let events = match &refusal {
                Some(refusal) => vec![pair("MCP_TOOL_CALL", refusal.code().name())],
                None if is_run => rows_of_run("PASSED"),
                None => vec![pair("MCP_TOOL_CALL", "ALLOWED")],
            };
            assert_eq!(fixture.events(run_id), events, "{role:?} {tool:?}");
            let (_, _, details) = &fixture.rows(run_id)[0];
            assert_eq!(details.get("token").is_some(), role.is_some(), "{details}");
            let is_about_file = tool == GovernedTool::Read(ReadTool::GetArtifactContent);
            assert_eq!(details.get("path").is_some(), is_about_file && role.is_some());
        }
    }
    // The bill of materials contains the used tools.
    let bill = serde_json::to_value(fixture.session.manifest()).unwrap();
    let tools = bill["components"].to_string();
    assert!(GovernedTool::ALL.iter().all(|tool| tools.contains(tool.name())), "{tools}");
}

#[tokio::test]
async fn a_call_that_is_refused_is_not_in_the_bill_of_materials() {
    let fixture = Fixture::of(Tier::T3, |project, _| ready(Ok(passes(&project))));
    fixture.write_policy("[tools]\nallowlist = []\n", "");
    assert!(fixture.run().await.1.is_err());
    let bill = serde_json::to_value(fixture.session.manifest()).unwrap();
    assert!(!bill["components"].to_string().contains("run_pytest"), "{bill}");
}

#[tokio::test]
async fn the_policy_the_tier_and_the_budget_decide_before_anything_starts() {
    let violation = |text: &str| Some(Refusal::SandboxViolation(text.to_owned()));
    let weak = |tier| {
        violation(&format!(
            "tier {tier} of the kernel sandbox does not confine a project to its files; T2 is \
             needed"
        ))
    };
    let exceeded = |what| Some(Refusal::BudgetExceeded(what));
    let none = "[tools]\nallowlist = []\n";
    let other = "[tools]\nallowlist = [\"get_evidence\"]\n";
    for (tier, tools, sections, expected) in [
        (Tier::T3, ALLOWLIST, "", None),
        (Tier::T2, ALLOWLIST, "", None),
        (Tier::T1, ALLOWLIST, "", weak("T1")),
        (Tier::Off, ALLOWLIST, "", weak("off")),
        (Tier::T3, none, "", Some(Refusal::NoAllowlist)),
        (Tier::T3, "", "", Some(Refusal::NoAllowlist)),
        (Tier::T3, other, "", Some(Refusal::NotInAllowlist)),
        (Tier::T3, ALLOWLIST, "[sandbox]\nenabled = false\n", Some(Refusal::SandboxDisabled)),
        (Tier::T3, ALLOWLIST, "[sandbox]\nenabled = true\n", None),
        (Tier::T3, ALLOWLIST, "[budget]\nattempts_max = 0\n", exceeded("attempts_total")),
        (Tier::T3, ALLOWLIST, "[budget]\nattempts_max = 1\n", None),
    ] {
        let fixture = Fixture::of(tier, |project, _| ready(Ok(passes(&project))));
        fixture.write_policy(tools, sections);
        let (run_id, reply) = fixture.run().await;
        let case = format!("{tier} {tools:?} {sections:?}");
        assert_eq!(reply.err(), expected, "{case}");
        assert_eq!(fixture.executor.runs(), usize::from(expected.is_none()), "{case}");
        let Some(refusal) = expected else { continue };
        let code = refusal.code().name();
        let mut rows = vec![pair("MCP_TOOL_CALL", code)];
        if code == "POLICY_BLOCKED" {
            rows.push(pair("POLICY_BLOCKED", code));
            let (_, _, details) = &fixture.rows(run_id)[1];
            assert_eq!(details["blocked_reason"], refusal.to_string());
        }
        assert_eq!(fixture.events(run_id), rows, "{case}");
        // Exactly one row about each refusal has the reason.
        let facts = fixture.rows(run_id).into_iter().flat_map(|(_, _, details)| {
            ["blocked_reason", "exceeded"].map(|name| details[name].clone())
        });
        let facts: Vec<Value> = facts.filter(|fact| !fact.is_null()).collect();
        let fact = if let Refusal::BudgetExceeded(exceeded) = &refusal {
            (*exceeded).to_owned()
        } else {
            refusal.to_string()
        };
        assert_eq!(facts, [json!(fact)], "{case}");
    }
}

#[tokio::test]
async fn under_a_policy_that_cannot_be_used_nothing_is_done() {
    let fixture = Fixture::of(Tier::T3, |project, _| ready(Ok(passes(&project))));
    fs::remove_file(fixture.folder.path().join("policy.toml")).unwrap();
    for (role, tool) in [
        (Role::Admin, GovernedTool::RunPytest),
        (Role::Viewer, GovernedTool::Read(ReadTool::ListArtifacts)),
    ] {
        let token = Some(fixture.token(role));
        let (run_id, reply) = fixture.call(token, tool, json!({})).await;
        assert!(matches!(reply, Err(Refusal::PolicyUnusable(_))), "{reply:?}");
        let code = "POLICY_BLOCKED";
        assert_eq!(fixture.events(run_id), [pair("MCP_TOOL_CALL", code), pair(code, code)]);
    }
    assert_eq!(fixture.executor.runs(), 0);
}

#[tokio::test]
async fn a_rehearsal_refuses_what_a_call_under_a_broken_policy_refuses() {
    let fixture = Fixture::of(Tier::T3, |project, _| ready(Ok(passes(&project))));
    let path = fixture.folder.path().join("policy.toml");
    fs::write(&path, "[nonsense]\n").unwrap();
    let policy = PolicyFile::new(path);
    for (role, tool) in [
        (Role::User, GovernedTool::RunPytest),
        (Role::Viewer, GovernedTool::RunPytest),
        (Role::Viewer, GovernedTool::Read(ReadTool::ListArtifacts)),
    ] {
        let arguments = Map::from_iter([("test_path".to_owned(), json!(TEST_PATH))]);
        let real = Value::Object(arguments.clone());
        let (_, real) = fixture.call(Some(fixture.token(role)), tool, real).await;
        let rehearsal = Rehearsal { tool, role, arguments: &arguments, runs_of: None };
        let refusal = rehearsal.outcome(&policy, &*fixture.executor).await.err();
        assert!(refusal.is_some(), "{role:?} {tool:?}");
        assert_eq!(refusal, real.err(), "{role:?} {tool:?}");
    }
}

/// The run ends only after a checkpoint was written.
#[tokio::test]
async fn rows_about_the_start_of_a_run_within_a_quota_get_a_checkpoint() {
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("checkpoints");
    let written = file.clone();
    let fixture = Fixture::of(Tier::T3, move |project, _| {
        let written = written.clone();
        async move {
            while !written.exists() {
                sleep(Duration::from_millis(1)).await;
            }
            Ok(passes(&project))
        }
    });
    let fixture = fixture.with_receipts(&elsewhere.path().join("keys"));
    let sections = format!("[budget]\nruns_per_day = 1\n[audit]\ncheckpoint = {file:?}\n");
    fixture.write_policy(ALLOWLIST, &sections);
    let (_, reply) = fixture.run().await;
    assert!(reply.is_ok(), "{reply:?}");
}

#[tokio::test]
async fn no_folder_that_tests_may_read_may_have_the_signing_key() {
    let elsewhere = tempfile::tempdir().unwrap();
    let keys = fs::canonicalize(elsewhere.path()).unwrap().join("keys");
    let fixture = Fixture::of(Tier::T3, |project, _| ready(Ok(passes(&project))));
    let fixture = fixture.with_receipts(&keys);
    for (section, is_safe) in [
        (String::new(), true),
        (format!("[workspace]\nroot = {keys:?}\n"), false),
        (format!("[sandbox]\nallowed_paths = [{keys:?}]\n"), false),
        (format!("[judge]\ntests = {keys:?}\nlist = {:?}\n", keys.join("list")), false),
    ] {
        let policy = Policy::parse(&section).unwrap();
        let found = fixture.governance.require_safe_key(&policy);
        assert_eq!(found.is_ok(), is_safe, "{section}");
    }
}

#[tokio::test]
async fn without_an_audit_log_nothing_is_done_and_nothing_is_told() {
    let fixture = Fixture::of(Tier::T3, |project, _| ready(Ok(passes(&project))));
    let (first, _) = fixture.run().await;
    fixture.close_log();
    for (role, tool, arguments) in [
        (Role::User, GovernedTool::RunPytest, json!({ "test_path": TEST_PATH })),
        (Role::Viewer, GovernedTool::RunPytest, json!({})),
        (Role::User, GovernedTool::RunPytest, json!({})),
        (Role::Viewer, GovernedTool::Read(ReadTool::GetEvidence), json!({ "run_id": first })),
        (Role::Viewer, GovernedTool::Read(ReadTool::GetEvidence), json!({})),
    ] {
        let (_, reply) = fixture.call(Some(fixture.token(role)), tool, arguments).await;
        let Err(Refusal::Internal(told)) = &reply else { panic!("{role:?} {tool:?}: {reply:?}") };
        assert!(told.contains("so nothing is done"), "{told}");
    }
    assert_eq!(fixture.executor.runs(), 1);
}

#[tokio::test]
async fn a_run_whose_end_cannot_be_written_down_has_no_result() {
    let data = Arc::new(std::sync::OnceLock::<PathBuf>::new());
    let place = Arc::clone(&data);
    let fixture = Fixture::of(Tier::T3, move |project, _| {
        close_log(place.get().unwrap());
        ready(Ok(passes(&project)))
    });
    data.set(fixture.folder.path().join("data")).unwrap();
    let (run_id, reply) = fixture.run().await;
    let Err(Refusal::Internal(told)) = &reply else { panic!("{reply:?}") };
    assert!(told.contains("their end cannot be written to the audit log"), "{told}");
    assert_eq!(fixture.executor.runs(), 1);
    assert_eq!(fixture.events(run_id), rows_of_run("")[..2]);
}

#[tokio::test]
async fn a_run_without_a_folder_for_its_artifacts_is_not_made() {
    let fixture = Fixture::of(Tier::T3, |project, _| ready(Ok(passes(&project))));
    fs::write(fixture.folder.path().join("data/artifacts"), "").unwrap();
    let (run_id, reply) = fixture.run().await;
    assert_eq!(reply, Err(Refusal::Internal("The artifacts cannot be stored.".to_owned())));
    assert_eq!(fixture.executor.runs(), 0);
    let end = pair("TOOL_FINISHED", "INTERNAL_ERROR");
    assert_eq!(fixture.events(run_id).last(), Some(&end));
}

#[tokio::test]
async fn who_waits_is_written_down_and_checked_again_when_its_turn_comes() {
    let goes_on = Arc::new(Notify::new());
    let release = Arc::clone(&goes_on);
    let fixture = Arc::new(Fixture::of(Tier::T3, move |project, _| {
        let goes_on = Arc::clone(&goes_on);
        async move {
            goes_on.notified().await;
            Ok(passes(&project))
        }
    }));
    let start = |role| {
        let arguments = json!({ "test_path": TEST_PATH });
        let call = request(Some(fixture.token(role)), GovernedTool::RunPytest, arguments);
        let (waits, cancel) = (Arc::clone(&call.waits_for_turn), call.cancel.clone());
        let governance = Arc::clone(&fixture.governance);
        (tokio::spawn(async move { governance.call(call).await }), waits, cancel)
    };
    let is_waiting = async |waits: &AtomicBool| {
        while !waits.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let (first, _, _) = start(Role::Admin);
    while fixture.executor.runs() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    // Three calls wait: one loses its token, one is cancelled, and one stays permitted.
    let (revoked, waits, _) = start(Role::User);
    is_waiting(&waits).await;
    let (cancelled, waits, cancel) = start(Role::Admin);
    is_waiting(&waits).await;
    let (last, waits, _) = start(Role::Admin);
    is_waiting(&waits).await;
    let of_user = fixture.store.tokens().unwrap().into_iter().find(|it| it.role == Role::User);
    aside(|| fixture.store.revoke(of_user.unwrap().id)).unwrap();
    cancel.cancel();
    let (run_id, reply) = cancelled.await.unwrap();
    let reply = reply.unwrap();
    assert!(reply.is_error && text_of(&reply).contains("Execution was cancelled."), "{reply:?}");
    let waiting = pair("MCP_TOOL_CALL", "WAITING");
    let ends = pair("MCP_TOOL_CALL", "CANCELLED");
    assert_eq!(fixture.events(run_id), [waiting.clone(), ends]);
    assert_eq!(fixture.executor.runs(), 1, "one after the other");

    release.notify_one();
    let (run_id, reply) = first.await.unwrap();
    assert!(reply.is_ok(), "{reply:?}");
    assert_eq!(fixture.events(run_id), rows_of_run("PASSED"), "it did not wait");
    let (run_id, reply) = revoked.await.unwrap();
    assert_eq!(reply, Err(Refusal::AuthRequired));
    let refused = pair("MCP_TOOL_CALL", "AUTH_REQUIRED");
    assert_eq!(fixture.events(run_id), [waiting.clone(), refused]);
    release.notify_one();
    let (run_id, reply) = last.await.unwrap();
    assert!(reply.is_ok(), "{reply:?}");
    assert_eq!(fixture.events(run_id)[0], waiting);
    assert_eq!(fixture.events(run_id)[1..], rows_of_run("PASSED"));
    assert_eq!(fixture.executor.runs(), 2);
}

type End = fn() -> Ran;

/// Runs tests under a policy with `sections`. `end` returns how the run ends. Checks the code of the refusal, the text
/// of the reply, the status in the evidence, and the rows of the log.
async fn assert_comes_to(end: End, sections: &str, code: Option<&str>, ends: [&str; 2]) {
    let [status, told] = ends;
    let fixture = Fixture::of(Tier::T3, move |project, _| {
        leave_reports(&project.artifacts.path, 1, 0);
        ready(end())
    });
    fixture.write_policy(ALLOWLIST, sections);
    let (run_id, reply) = fixture.run().await;
    let (found, text) = match &reply {
        Ok(reply) => (None, text_of(reply)),
        Err(refusal) => (Some(refusal.code().name()), refusal.to_string()),
    };
    assert_eq!(found, code, "{told}: {reply:?}");
    assert!(text.contains(told), "{text}, not {told}");
    // The reply to a call that was not refused is an error if the run did not pass.
    let is_error = reply.is_ok_and(|reply| reply.is_error);
    assert_eq!(is_error, code.is_none() && status != "passed", "{text}");
    let evidence = fixture.evidence(run_id);
    assert_eq!(evidence["status"], status, "{evidence}");
    let is_over = status == "budget_exceeded";
    assert_eq!(evidence["governance"]["short_circuited"], is_over, "{evidence}");
    let mut rows = rows_of_run(code.unwrap_or(&status.to_uppercase()));
    if !end().is_ok_and(|outcome| outcome.tier.is_some()) {
        rows.remove(2);
    }
    assert_eq!(fixture.events(run_id), rows, "{told}");
}

#[tokio::test]
async fn what_the_bounds_of_the_sandbox_have_ended_is_a_violation() {
    let ends: [(End, &str); 5] = [
        (
            || Ok(Outcome { stdout: flood(), ..ended(Ending::Exited(0)) }),
            "the tests printed more than",
        ),
        (
            || Ok(Outcome { stderr: flood(), ..ended(Ending::Exited(0)) }),
            "the tests printed more than",
        ),
        (|| Ok(ended(Ending::OutOfMemory)), "MiB of memory"),
        (|| Ok(ended(Ending::Exited(-31))), "SIGSYS"),
        (|| Err(RunError::Project(NotForProject::OwnInterpreter)), "is in the workspace"),
    ];
    for (end, told) in ends {
        let code = Some("SANDBOX_VIOLATION");
        assert_comes_to(end, "", code, ["sandbox_violation", told]).await;
    }
}

#[tokio::test]
async fn a_run_comes_to_what_its_end_means() {
    let cancelled = ["cancelled", "Execution was cancelled."];
    let ends: [(End, [&str; 2]); 6] = [
        (|| Ok(ended(Ending::Exited(0))), ["passed", "exit code 0"]),
        (|| Ok(ended(Ending::Exited(-11))), ["error", "signal 11"]),
        (|| Ok(ended(Ending::Exited(1))), ["error", "no test failed in its report"]),
        (|| Ok(ended(Ending::Exited(86))), ["error", "which pytest never returns"]),
        (|| Ok(ended(Ending::Cancelled)), cancelled),
        (|| Ok(Outcome::never_started()), cancelled),
    ];
    for (end, ends) in ends {
        assert_comes_to(end, "", None, ends).await;
    }
    let timed_out = || Ok(ended(Ending::TimedOut));
    let ends = ["timeout", "Execution timeout"];
    assert_comes_to(timed_out, "", Some("TIMEOUT"), ends).await;
    let (budget, ends) =
        ("[budget]\nelapsed_ms_max = 60000\n", ["budget_exceeded", "Budget exceeded"]);
    assert_comes_to(timed_out, budget, Some("BUDGET_EXCEEDED"), ends).await;
    let ends = ["error", "stopped unexpectedly"];
    assert_comes_to(|| Err(RunError::Panicked), "", Some("INTERNAL_ERROR"), ends).await;
}

#[tokio::test]
async fn a_machine_without_pytest_is_not_what_the_run_says_but_what_the_server_sees() {
    let missing = Some("pytest is not installed for the interpreter of this server");
    for (code, has_python, has_pytest, expected) in [
        (86, true, false, missing),
        (86, true, true, None),
        (86, false, false, None),
        (0, true, false, None),
    ] {
        let mut executor = FakeExecutor::of_projects(Tier::T3, move |project, _| {
            leave_reports(&project.artifacts.path, 1, 0);
            ready(Ok(ended(Ending::Exited(code))))
        });
        let packages = tempfile::tempdir().unwrap();
        if has_pytest {
            fs::create_dir(packages.path().join("pytest-9.0.2.dist-info")).unwrap();
        }
        executor.installation = has_python.then(|| Installation {
            source: Source::Path,
            program: "/usr/bin/python3".into(),
            version: "3.13.1".to_owned(),
            packages: vec![packages.path().to_owned()],
        });
        let fixture = Fixture::new(executor);
        let (run_id, reply) = fixture.run().await;
        let case = format!("{code} {has_python} {has_pytest}: {reply:?}");
        match (expected, reply) {
            (Some(expected), Err(Refusal::Internal(told))) => {
                assert!(told.starts_with(expected), "{told}");
                assert_eq!(fixture.events(run_id), rows_of_run("INTERNAL_ERROR"));
            }
            (None, Ok(reply)) => assert_eq!(reply.is_error, code != 0, "{case}"),
            (_, Ok(_) | Err(_)) => panic!("{case}"),
        }
        let python = &fixture.evidence(run_id)["python"];
        let version = has_pytest.then_some("9.0.2");
        assert_eq!((python.is_object(), &python["pytest"]), (has_python, &json!(version)));
    }
}

#[tokio::test]
async fn evidence_has_what_the_run_left_and_no_more_passes_than_pytest_had_counted() {
    let fixture = Fixture::of(Tier::T3, |project, _| {
        let files = &project.artifacts.path;
        // The tests forged the report: it has seven passed tests, but the record of how pytest ended has one.
        leave_reports(files, 7, 0);
        fs::write(files.join("a.txt"), "content").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", files.join("link")).unwrap();
        let stderr =
            Captured { text: "warned".to_owned(), is_truncated: false, ..Captured::default() };
        ready(Ok(Outcome { stderr, ..ended(Ending::Exited(0)) }))
    });
    let (run_id, reply) = fixture.run().await;
    assert_eq!(reply.unwrap().meta["status"], "passed");
    let evidence = fixture.evidence(run_id);
    assert_eq!(evidence["summary"]["passed"], 1, "{evidence}");
    let files = evidence["artifacts"].as_array().unwrap();
    let paths: Vec<_> = files.iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["files/a.txt", "stderr.txt", "stdout.txt"]);
    assert!(files.iter().all(|file| file["sha256"].is_string()), "{evidence}");
    assert_eq!(evidence["artifacts_omitted"], 1, "{evidence}");
    for (name, text) in [("stdout.txt", "printed"), ("stderr.txt", "warned")] {
        assert_eq!(fs::read_to_string(fixture.run_folder(run_id).join(name)).unwrap(), text);
    }
    // The log has the hash of the evidence.
    let content = fs::read(fixture.run_folder(run_id).join("evidence.json")).unwrap();
    let (_, _, details) = fixture.rows(run_id).pop().unwrap();
    assert_eq!(details[EVIDENCE_SHA256], hex::encode(sha2::Sha256::digest(content)));
}

#[tokio::test]
async fn a_run_that_was_cancelled_is_not_hashed() {
    let fixture = Fixture::of(Tier::T3, |project, cancel| async move {
        cancel.cancelled().await;
        fs::write(project.artifacts.path.join("a.txt"), "content").unwrap();
        Ok(ended(Ending::Cancelled))
    });
    let arguments = json!({ "test_path": TEST_PATH });
    let call = request(Some(fixture.token(Role::User)), GovernedTool::RunPytest, arguments);
    call.cancel.cancel();
    let (run_id, reply) = fixture.governance.call(call).await;
    assert!(reply.unwrap().is_error);
    let evidence = fixture.evidence(run_id);
    let files = evidence["artifacts"].as_array().unwrap();
    let hashed = files.iter().filter(|file| file["sha256"].is_string());
    let hashed: Vec<_> = hashed.map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!((files.len(), hashed), (3, vec!["stderr.txt"]), "but for what is empty: {evidence}");
}

/// Each run leaves two files of one megabyte. The policy permits one megabyte.
#[tokio::test]
async fn at_tier_2_a_run_that_leaves_too_much_is_ended_and_what_it_left_is_removed() {
    for (tier, waits, expected) in [
        (Tier::T2, true, Some("the tests left more than 1048576 bytes")),
        // The run ends before the next measurement, so only the measurement after the end finds the files.
        (Tier::T2, false, Some("the tests left more than 1048576 bytes")),
        // At T3 the server does not measure the files, because the kernel limits the size of the folder.
        (Tier::T3, false, None),
    ] {
        let fixture = Fixture::of(tier, move |project, cancel| async move {
            let files = &project.artifacts.path;
            leave_reports(files, 1, 0);
            for name in ["a", "b"] {
                fs::write(files.join(name), vec![b'x'; 1 << 20]).unwrap();
            }
            if waits {
                cancel.cancelled().await;
                return Ok(ended(Ending::Cancelled));
            }
            Ok(ended(Ending::Exited(0)))
        });
        fixture.write_policy(ALLOWLIST, "[budget]\nartifact_bytes_max = 1048576\n");
        let (run_id, reply) = fixture.run().await;
        let told = reply.err().map(|refusal| refusal.to_string());
        let is_expected = match (&told, expected) {
            (Some(told), Some(expected)) => told.contains(expected),
            (None, None) => true,
            (Some(_) | None, Some(_) | None) => false,
        };
        assert!(is_expected, "{tier} {waits}: {told:?}");
        let files = fixture.run_folder(run_id).join("files");
        assert_eq!(files.exists(), expected.is_none(), "{tier} {waits}");
    }
}

#[tokio::test(start_paused = true)]
async fn at_tier_2_a_run_of_which_something_stays_unseen_is_ended() {
    // The size is measured every 100 ms. In the first case, five measurements in a row fail. In the second case, three
    // measurements in a row fail, one succeeds, and three in a row fail again.
    for (unseen_ms, expected) in [(vec![475], true), (vec![325, 300], false)] {
        let is_ended = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&is_ended);
        let fixture = Fixture::of(Tier::T2, move |project, cancel| {
            let (unseen_ms, is_ended) = (unseen_ms.clone(), Arc::clone(&ending));
            async move {
                let files = project.artifacts.path;
                leave_reports(&files, 1, 0);
                sleep(Duration::from_millis(50)).await;
                for milliseconds in unseen_ms {
                    let aside = files.with_file_name("aside");
                    fs::rename(&files, &aside).unwrap();
                    sleep(Duration::from_millis(milliseconds)).await;
                    fs::rename(&aside, &files).unwrap();
                    sleep(Duration::from_millis(100)).await;
                }
                is_ended.store(cancel.is_cancelled(), Ordering::Relaxed);
                Ok(ended(Ending::Exited(0)))
            }
        });
        let arguments = json!({ "test_path": TEST_PATH });
        let call = request(Some(fixture.token(Role::User)), GovernedTool::RunPytest, arguments);
        // Do not use a timeout here. The paused clock would jump to the timeout while the call waits for the store.
        let (_, reply) = fixture.governance.call(call).await;
        let told = reply.err().map(|refusal| refusal.to_string());
        assert_eq!(told.is_some(), expected, "{told:?}");
        assert_eq!(is_ended.load(Ordering::Relaxed), expected);
        assert!(told.is_none_or(|told| told.contains("folders that cannot be read")));
    }
}

#[tokio::test]
async fn after_a_run_what_the_policy_does_not_keep_is_removed() {
    let fixture = Fixture::of(Tier::T3, |project, _| {
        fs::write(project.artifacts.path.join("large"), vec![b'x'; 2 << 20]).unwrap();
        ready(Ok(passes(&project)))
    });
    fixture.write_policy(ALLOWLIST, "[artifacts]\ntotal_mb_max = 1\n");
    let (first, _) = fixture.run().await;
    let (second, _) = fixture.run().await;
    while fixture.run_folder(first).exists() {
        sleep(Duration::from_millis(5)).await;
    }
    assert!(fixture.run_folder(second).exists(), "the newest is kept");
}

#[tokio::test]
async fn what_a_run_left_is_served_as_it_is_or_not_at_all() {
    let fixture = Fixture::of(Tier::T3, |project, _| {
        let files = &project.artifacts.path;
        fs::write(files.join("plain"), "ab\n").unwrap();
        fs::write(files.join("coloured"), "\u{1b}[1mab\n").unwrap();
        fs::write(files.join("binary"), [0xff, 0xfe]).unwrap();
        ready(Ok(passes(&project)))
    });
    let (run_id, _) = fixture.run().await;
    let content = async |path: &str, limit: Option<usize>| {
        let arguments = json!({ "run_id": run_id, "path": path, "limit": limit });
        fixture.read(ReadTool::GetArtifactContent, arguments).await
    };
    let hidden = "[1 control or invisible characters are shown as \u{fffd}]";
    let uri = format!("qwed-artifact:///{run_id}/files/binary");
    for (path, limit, expected) in [
        ("files/plain", None, "ab\n"),
        ("files/plain", Some(1), "a\n[1 of 3 bytes; the next part starts at offset 1]"),
        ("files/coloured", None, &format!("\u{fffd}[1mab\n\n{hidden}")),
        ("files/binary", None, &uri),
    ] {
        let reply = content(path, limit).await.unwrap();
        assert_eq!(text_of(&reply), expected);
        assert!(!reply.is_error);
        assert_eq!(reply.meta["integrity"], "confirmed");
    }
    // An argument that is null counts as missing.
    let arguments = json!({ "run_id": null, "path": "files/plain" });
    let missing = "invalid arguments: missing field `run_id`".to_owned();
    let reply = fixture.read(ReadTool::GetArtifactContent, arguments).await;
    assert_eq!(reply, Err(Refusal::InvalidParams(missing)));
    fs::write(fixture.run_folder(run_id).join("files/plain"), "ba\n").unwrap();
    let reply = content("files/plain", None).await;
    assert!(matches!(reply, Err(Refusal::ArtifactChanged(_))), "{reply:?}");
    fs::write(fixture.run_folder(run_id).join("evidence.json"), "{}").unwrap();
    let reply = fixture.read(ReadTool::GetEvidence, json!({ "run_id": run_id })).await;
    assert!(matches!(reply, Err(Refusal::ArtifactChanged(_))), "{reply:?}");
}

#[tokio::test]
async fn a_list_of_files_that_are_not_there_has_the_reason_of_the_evidence() {
    let fixture = Fixture::of(Tier::T3, |project, _| ready(Ok(passes(&project))));
    let (deleted, _) = fixture.run().await;
    fs::remove_dir_all(fixture.run_folder(deleted)).unwrap();
    let [started, removed, unknown] = [7, 8, 9].map(Uuid::from_u128);
    let rows = [
        entry(started, AuditEvent::ToolStarted),
        entry(removed, AuditEvent::ToolStarted),
        entry(removed, AuditEvent::ArtifactsRemoved),
    ];
    aside(|| fixture.store.append(&rows)).unwrap();
    for (run_id, expected) in [
        (deleted, "evidence.json is missing, and the run left it"),
        (started, "it is just starting"),
        (removed, "were removed by the policy's retention"),
        (unknown, "no run has this run_id"),
    ] {
        let arguments = json!({ "run_id": run_id });
        let evidence = fixture.read(ReadTool::GetEvidence, arguments.clone()).await.unwrap_err();
        assert!(evidence.to_string().contains(expected), "{evidence}");
        assert_eq!(fixture.read(ReadTool::ListArtifacts, arguments).await, Err(evidence));
    }
}

#[tokio::test]
async fn what_nothing_confirms_is_told_to_the_model_and_to_programs() {
    let fixture = Fixture::of(Tier::T3, |project, _| ready(Ok(passes(&project))));
    // The server died during this run, so the log has no row about the end of the run.
    let run_id = Uuid::from_u128(7);
    aside(|| fixture.store.append(&[entry(run_id, AuditEvent::ToolStarted)])).unwrap();
    let folder = fixture.governance.artifacts.create_run(run_id).unwrap();
    folder.write_text("stdout.txt", b"text").unwrap();
    drop(folder);
    let arguments = json!({ "run_id": run_id, "path": "stdout.txt" });
    let reply = fixture.read(ReadTool::GetArtifactContent, arguments).await.unwrap();
    assert_eq!(reply.meta["integrity"], "unconfirmed");
    let told = text_of(&reply);
    assert!(
        told.ends_with(
            "[This could not be confirmed with the audit log: the run has no evidence.]"
        ),
        "{told}"
    );
}

#[tokio::test]
async fn a_run_that_goes_on_ends_with_its_caller() {
    let fixture = Fixture::of(Tier::T3, |_, cancel| async move {
        cancel.cancelled().await;
        Ok(ended(Ending::Cancelled))
    });
    let arguments = json!({ "test_path": TEST_PATH });
    let call = request(Some(fixture.token(Role::User)), GovernedTool::RunPytest, arguments);
    let cancel = call.cancel.clone();
    let run = fixture.governance.call(call);
    tokio::pin!(run);
    let starts = async {
        while fixture.executor.runs() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        (_, reply) = &mut run => panic!("it ended: {reply:?}"),
        () = starts => cancel.cancel(),
    }
    let (run_id, reply) = run.await;
    assert!(reply.unwrap().is_error);
    assert_eq!(fixture.events(run_id), rows_of_run("CANCELLED"));
}

#[tokio::test]
async fn a_decision_about_a_script_is_in_the_log_with_whose_token_came_with_it() {
    let fixture = Fixture::of(Tier::T3, |project, _| ready(Ok(passes(&project))));
    let script = || verified(&json!({ "code": "print(1)" }));
    let Value::Object(unsafe_code) = json!({ "code": "eval('1')" }) else { panic!("an object") };
    let refused = RiskBasedExecutionGateway::new(AdminGate::Open)
        .evaluate(unsafe_code, Accompanying::default());
    let refused = Decision::Refuse(*refused.unwrap_err());
    let token: Secret = fixture.token(Role::Viewer).to_owned().into();
    let unknown: Secret = "qwedmcp_".to_owned().into();
    for (decision, token, outcome, user, code) in [
        (script().confirm(Ok(None)), Some(&token), "ALLOW_VERIFIED", Some("viewer"), json!(null)),
        (script().confirm(Ok(None)), Some(&unknown), "ALLOW_VERIFIED", None, json!(null)),
        (script().withdraw(), None, "CANCELLED", None, json!(null)),
        (refused, None, "BLOCKED", None, json!(ErrorCode::UnsafeCode.as_str())),
    ] {
        let presented = Presented { token: token.cloned(), known: None };
        assert!(fixture.governance.script_decided(&decision, &presented).await.is_ok());
        let id = json!(decision.record().verification_id);
        let mut details = json!({ "verification_id": id, "error_code": code });
        if user.is_some() {
            let viewer = Role::ALL.iter().position(|role| *role == Role::Viewer).unwrap() + 1;
            details["token"] = json!(viewer.to_string());
        }
        assert_eq!(
            fixture.last_of_scripts(),
            (outcome.to_owned(), user.map(str::to_owned), details)
        );
    }
    fixture.close_log();
    let nobody = Presented::default();
    let decided = fixture.governance.script_decided(&script().confirm(Ok(None)), &nobody).await;
    assert!(matches!(decided, Err(Refusal::Internal(_))), "{decided:?}");
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of rows")]
async fn a_job_needs_its_own_decision_that_was_not_used() {
    use crate::gateway::{JobId, JobOwner, Status};
    type Change<'a> = &'a dyn Fn(AuditEntry) -> Vec<AuditEntry>;

    let fixture = Fixture::of(Tier::T3, |project, _| ready(Ok(passes(&project))));
    let allowed = || {
        let arguments = json!({ "code": "print(1)", "background": true });
        let Decision::Allow { record, .. } = verified(&arguments).confirm(Ok(None)) else {
            panic!()
        };
        record
    };
    let other = json!({ "code": "print(2)", "background": true });
    let row = |record: &crate::gateway::DecisionRecord| {
        let digits = &record.verification_id.as_str()[..32];
        let number = u128::from_str_radix(digits, 16).unwrap().to_be_bytes();
        AuditEntry {
            tool: "execute_python_code".to_owned(),
            arguments_hash: Some(ArgumentsHash::of(&record.normalized_arguments)),
            outcome: AuditOutcome::of(Status::AllowVerified.as_str()),
            details: Map::from_iter([
                ("verification_id".to_owned(), json!(record.verification_id.as_str())),
                ("token".to_owned(), json!("7")),
            ]),
            ..entry(uuid::Builder::from_random_bytes(number).into_uuid(), AuditEvent::McpToolCall)
        }
    };
    let of_other = ArgumentsHash::of(other.as_object().unwrap());
    let cases: [(&str, Change<'_>, bool); 12] = [
        ("its own", &|row| vec![row], true),
        ("none", &|_| Vec::new(), false),
        ("of another user", &|row| vec![AuditEntry { user: Some(user("eve")), ..row }], false),
        ("of no user", &|row| vec![AuditEntry { user: None, ..row }], false),
        (
            "of another script",
            &|row| vec![AuditEntry { arguments_hash: Some(of_other.clone()), ..row }],
            false,
        ),
        ("of another id", &|row| vec![AuditEntry { details: Map::new(), ..row }], false),
        (
            "a refusal",
            &|row| {
                let outcome = AuditOutcome::of(Status::Blocked.as_str());
                vec![AuditEntry { outcome, ..row }]
            },
            false,
        ),
        (
            "of another tool",
            &|row| vec![AuditEntry { tool: "run_pytest".to_owned(), ..row }],
            false,
        ),
        (
            "by another token",
            &|mut row| {
                row.details.insert("token".to_owned(), json!("8"));
                vec![row]
            },
            false,
        ),
        (
            "without a token",
            &|mut row| {
                row.details.remove("token");
                vec![row]
            },
            false,
        ),
        (
            "told as not run",
            &|row| {
                let (event, outcome) = (AuditEvent::ToolFinished, AuditOutcome::NOT_RUN);
                let not_run = AuditEntry { event, outcome, ..row.clone() };
                vec![row, not_run]
            },
            false,
        ),
        (
            "used before",
            &|row| {
                let started = AuditEntry { event: AuditEvent::ToolStarted, ..row.clone() };
                vec![row, started]
            },
            false,
        ),
    ];
    let never = CancellationToken::new();
    for (what, change, expected) in cases {
        let record = allowed();
        fixture.store.submit_entries(change(row(&record))).done().await.ok();
        let job = JobOwner { job: JobId::fresh(), user: "ana".to_owned() };
        let proof = Some(Proof::Token("7".parse().unwrap()));
        let found = fixture.governance.has_decision(&record, &job, proof, &never).await.unwrap();
        assert_eq!(found, expected, "{what}");
        // A job must not run if another process has removed the token and the user from the job's row.
        let nobody = JobOwner { user: String::new(), ..job };
        let found = fixture.governance.has_decision(&record, &nobody, None, &never).await.unwrap();
        assert!(!found || what == "without a token", "{what}");
    }
}
