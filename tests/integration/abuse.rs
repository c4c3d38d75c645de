//! Runs attacks on the machine as scripts, with the analysis switched off.
//!
//! Each file in `tests/abuse` is an attack. The comments at the start of the file state the expected results. Without a
//! sandbox, each attack must succeed. This positive control shows that a denial comes from the sandbox.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{
    CallResult, FORK_SERVER_PROCESSES, McpProcess, Outside, SYNC_TIMEOUT, Scratch, ServerBuilder,
    alive_with_marker, eventually, is_root, ordinary_user, public_python, root,
};

tests! {
    needs []:
        the_suite_is_complete;
    needs [Root, Tier3, PublicPython]:
        nothing_gets_out_of_tier_3_as_root,
        nothing_gets_out_of_a_batch_that_reports,
        nothing_gets_out_of_a_warm_interpreter_as_root;
    needs [Tier3ForUsers]:
        nothing_gets_out_of_tier_3_as_an_ordinary_user,
        nothing_gets_out_of_a_warm_interpreter_as_an_ordinary_user;
    needs [Root, Tier2, PublicPython]:
        only_the_documented_gets_out_of_tier_2_as_root;
    needs [Tier2, PublicPython]:
        only_the_documented_gets_out_of_tier_2_as_an_ordinary_user;
    // The control needs tier 3 too, because some attacks use namespaces.
    needs [Root, Tier3, PublicPython]:
        every_attack_works_without_a_sandbox_as_root;
    needs [Tier3ForUsers]:
        every_attack_works_without_a_sandbox_as_an_ordinary_user;
}

/// The UID of a user that owns nothing else on the machine.
const ORDINARY_USER: u32 = 24_601;

/// A file of `tests/abuse`.
struct Case {
    name: String,
    code: String,
    head: BTreeMap<String, String>,
}

/// The containment in which a server runs the attacks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Containment {
    T3,
    /// Tier 3, with scripts in forks of a warm interpreter.
    Warm,
    T2,
    None,
}

fn nothing_gets_out_of_tier_3_as_root() {
    run_all(Containment::T3, None);
}

fn nothing_gets_out_of_tier_3_as_an_ordinary_user() {
    run_all(Containment::T3, ordinary_user(ORDINARY_USER));
}

fn nothing_gets_out_of_a_warm_interpreter_as_root() {
    run_all(Containment::Warm, None);
}

fn nothing_gets_out_of_a_warm_interpreter_as_an_ordinary_user() {
    run_all(Containment::Warm, ordinary_user(ORDINARY_USER));
}

fn only_the_documented_gets_out_of_tier_2_as_root() {
    run_all(Containment::T2, None);
}

fn only_the_documented_gets_out_of_tier_2_as_an_ordinary_user() {
    run_all(Containment::T2, ordinary_user(ORDINARY_USER));
}

fn every_attack_works_without_a_sandbox_as_root() {
    run_all(Containment::None, None);
}

fn every_attack_works_without_a_sandbox_as_an_ordinary_user() {
    run_all(Containment::None, ordinary_user(ORDINARY_USER));
}

fn the_suite_is_complete() {
    let cases = cases();
    let count = |kind: &str| cases.iter().filter(|case| case.name.starts_with(kind)).count();
    for kind in ["reads", "writes", "network", "processes", "privilege", "kernel", "resources"] {
        assert!(count(kind) >= 15, "{kind}: {}", count(kind));
    }
    // If an attack cannot have a positive control, the attack's file gives the reason. Only a few attacks may lack a
    // control.
    let without: Vec<_> =
        cases.iter().filter(|case| case.head["control"].starts_with("none")).collect();
    assert!(without.len() <= 12, "{}", without.len());
    assert!(without.iter().all(|case| case.head["control"].len() > 20));
    // Attacks that exist on one architecture only are skipped on other architectures. Only a few such attacks are
    // allowed.
    let of_one: Vec<_> = cases.iter().filter_map(|case| case.head.get("only")).collect();
    assert!(of_one.len() <= 6 && of_one.iter().all(|name| *name == "x86_64"), "{of_one:?}");
    // Some attacks succeed because of a known gap in the protection. The security model must mention each gap.
    let model = fs::read_to_string(root().join("docs/SECURITY_MODEL.md")).unwrap();
    let expectations = cases.iter().flat_map(|case| case.head.values());
    let gaps: Vec<_> = expectations.filter_map(|value| value.split("gap: ").nth(1)).collect();
    assert!(gaps.len() > 5, "{gaps:?}");
    for gap in gaps {
        assert!(model.contains(gap), "{gap}");
    }
}

fn cases() -> Vec<Case> {
    let folder = root().join("tests/abuse");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .flat_map(|kind| fs::read_dir(kind).unwrap().map(|entry| entry.unwrap().path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .collect();
    files.sort();
    let prelude = fs::read_to_string(folder.join("prelude.py")).unwrap();
    let case = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().map_while(|line| line.strip_prefix("# "));
        let head: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let name = path.strip_prefix(&folder).unwrap().with_extension("");
        for field in ["attack", "t3", "t2", "control"] {
            assert!(head.contains_key(field), "{}: no {field}", path.display());
        }
        Case { name: name.to_str().unwrap().to_owned(), code: format!("{prelude}\n{text}"), head }
    };
    files.into_iter().map(case).collect()
}

fn server(containment: Containment, user: Option<u32>, timeout_ms: &str) -> McpProcess {
    let mut builder = ServerBuilder::new()
        .unchecked()
        .variable("QWED_MCP_PYTHON", public_python().unwrap().to_str().unwrap())
        .variable("QWED_MCP_MEMORY_MB", "512")
        // By default, other processes may not inspect the server. Allow it here, because the sandbox alone must stop
        // the attacks.
        .variable("QWED_MCP_TEST_DUMPABLE", "1")
        .variable(SYNC_TIMEOUT, timeout_ms);
    if let Some(user) = user {
        builder = builder.with_user(user);
    }
    builder = match containment {
        Containment::T3 => builder.variable("QWED_MCP_SANDBOX", "strict"),
        Containment::Warm => builder.variable("QWED_MCP_SANDBOX", "strict").warm("ctypes"),
        Containment::T2 => builder.variable("QWED_MCP_TEST_KERNEL_LACKS", "namespaces"),
        // Without a sandbox, Landlock still denies signals to processes outside of the run. So the control switches
        // Landlock off too.
        Containment::None => builder
            .variable("QWED_MCP_SANDBOX", "off")
            .variable("QWED_MCP_TEST_KERNEL_LACKS", "landlock"),
    };
    let mut server = builder.connect();
    if containment == Containment::Warm {
        server.wait_until_warm();
    }
    server
}

fn run_all(containment: Containment, user: Option<u32>) {
    let mut outside = Outside::new(user);
    // Most attacks get a long timeout, because the machine may be busy. Attacks that run until their timeout get a
    // short timeout.
    let mut patient = server(containment, user, "100000");
    let mut hasty = server(containment, user, "4000");
    let at_rest = if containment == Containment::Warm { FORK_SERVER_PROCESSES } else { 0 };
    let mut wrong = Vec::new();
    let mut ran = 0;
    for (number, case) in cases().into_iter().enumerate() {
        let Some(expected) = expected(&case, containment, user) else { continue };
        let server = if expected.contains("timed out") { &mut hasty } else { &mut patient };
        let tag = format!("t{number}x{}", server.pid());
        let code = outside.filled_in(&case.code, server.pid(), &tag);
        let result = if at_rest > 0 { server.execute_warm(&code) } else { server.execute(&code) };
        ran += 1;
        let reached = reached(&result);
        if !expected.split(" | ").any(|expected| expected == reached) {
            wrong.push(format!(
                "{}: {reached} instead of {expected}\n{:?}",
                case.name, result.texts
            ));
        }
        // The reply to a warm run may arrive before all processes of the run have ended.
        let limit = Duration::from_secs(if at_rest == 0 { 0 } else { 5 });
        let marked = || alive_with_marker(server.scratch.path()).len();
        if eventually(limit, || marked() == at_rest).is_none() {
            wrong.push(format!("{}: {} processes instead of {at_rest}", case.name, marked()));
        }
        if at_rest > 0 && result.execution()["warm"] != true {
            wrong.push(format!("{}: it was not run warm", case.name));
        }
        if !outside.is_untouched() {
            wrong.push(format!("{}: it changed what is outside", case.name));
            break;
        }
    }
    assert!(wrong.is_empty(), "{} of {ran}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(ran > 100, "{ran}");
    // The servers still run scripts after all attacks.
    for mut server in [patient, hasty] {
        assert!(!server.execute("print(1)").is_error);
        // Some attacks create tens of thousands of folders, so the removal of the scratch folders takes long.
        let is_empty = || server.scratch.entries().is_empty();
        let emptied = eventually(Duration::from_secs(120), is_empty);
        assert!(emptied.is_some(), "{:?}", server.scratch.entries());
        server.finish();
    }
}

/// Runs the attacks in a batch with `--analysis report`. The analysis then only reports findings, so only the kernel
/// contains the scripts. Release builds support this option too.
fn nothing_gets_out_of_a_batch_that_reports() {
    let mut outside = Outside::new(None);
    let scratch = Scratch::new();
    let folder = scratch.path().to_str().unwrap();
    let builder = ServerBuilder::new()
        .variable("QWED_MCP_PYTHON", public_python().unwrap().to_str().unwrap())
        .variable("QWED_MCP_MEMORY_MB", "512")
        .variable("QWED_MCP_TEST_DUMPABLE", "1")
        .variable("TMPDIR", folder)
        .variable("PATH", &format!("{}:{folder}", std::env::var("PATH").unwrap()));
    let mut command = builder.command();
    command.args([
        "run",
        "--batch",
        "-",
        "--analysis",
        "report",
        "--timeout",
        "100",
        "--workers",
        "1",
    ]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut batch = command.spawn().unwrap();
    let mut lines = batch.stdin.take().unwrap();
    let mut answers = BufReader::new(batch.stdout.take().unwrap()).lines();
    let (mut wrong, mut ran) = (Vec::new(), 0);
    // The batch exits with 1 if an answer has the status `infra_error`.
    let mut unjudged = 0;
    for (number, case) in cases().into_iter().enumerate() {
        let Some(expected) = expected(&case, Containment::T3, None) else { continue };
        let code = outside.filled_in(&case.code, batch.id(), &format!("b{number}x{}", batch.id()));
        let timeout = if expected.contains("timed out") { 4 } else { 100 };
        writeln!(lines, "{}", json!({ "id": case.name, "code": code, "timeout": timeout }))
            .unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert_eq!((&answer["id"], &answer["analysis"]), (&json!(case.name), &json!("report")));
        ran += 1;
        if answer["status"] == "infra_error" {
            unjudged = 1;
        }
        let printed =
            [answer["stdout"].as_str(), answer["stderr"].as_str()].map(Option::unwrap_or_default);
        let said = printed.join("\n");
        let said = said.lines().rev().find_map(|line| line.strip_prefix("RESULT "));
        let reached = match (said, answer["status"].as_str().unwrap()) {
            (Some(said), _) => said.to_owned(),
            // On a busy machine, the script may have had too little processor time, so its timeout proves nothing.
            (None, "timeout" | "infra_error") => "timed out".to_owned(),
            (None, "memory") => "memory limit".to_owned(),
            (None, _) => format!("exit {}", answer["exit_code"]),
        };
        if !expected.split(" | ").any(|expected| expected == reached) {
            wrong.push(format!("{}: {reached} instead of {expected}\n{answer}", case.name));
        }
        let left = alive_with_marker(scratch.path());
        if !left.is_empty() {
            wrong.push(format!("{}: {left:?} are left", case.name));
        }
        if !outside.is_untouched() {
            wrong.push(format!("{}: it changed what is outside", case.name));
            break;
        }
    }
    assert!(wrong.is_empty(), "{} of {ran}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(ran > 100, "{ran}");
    drop(lines);
    assert_eq!(batch.wait().unwrap().code(), Some(unjudged));
    let is_empty = || scratch.entries().is_empty();
    assert!(eventually(Duration::from_secs(120), is_empty).is_some(), "{:?}", scratch.entries());
}

/// Returns the expected result of the attack, or `None` if the attack does not apply to this machine and user.
fn expected(case: &Case, containment: Containment, user: Option<u32>) -> Option<String> {
    if case.head.get("only").is_some_and(|architecture| architecture != ARCH) {
        return None;
    }
    let is_root = user.is_none() && is_root();
    match containment {
        Containment::T3 => Some(case.head["t3"].clone()),
        Containment::Warm => {
            let expected = case.head.get("warm").unwrap_or(&case.head["t3"]);
            Some(expected.split(',').next()?.to_owned())
        }
        Containment::T2 => {
            let of_root = case.head.get("t2 as root").filter(|_| is_root);
            let expected = of_root.unwrap_or(&case.head["t2"]);
            Some(expected.split(',').next()?.to_owned())
        }
        Containment::None => match case.head["control"].as_str() {
            "harm" => Some("harm".to_owned()),
            "harm as root" => is_root.then(|| "harm".to_owned()),
            reason => {
                assert!(reason.starts_with("none, "), "{}: {reason}", case.name);
                None
            }
        },
    }
}

/// Returns the result of an attack: the line that the script printed, or how the run ended.
fn reached(result: &CallResult) -> String {
    let text = &result.texts[0];
    let said = text.lines().rev().find_map(|line| line.strip_prefix("RESULT "));
    if let Some(said) = said {
        said.to_owned()
    } else if text.starts_with("Execution timed out") {
        "timed out".to_owned()
    } else if text.contains("The memory limit of the sandbox ended it.") {
        "memory limit".to_owned()
    } else {
        format!("exit {}", result.execution()["exit_code"])
    }
}
