//! The texts and schemas that describe the server and its tools to clients. This module never carries out calls.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::config::{SandboxMode, Settings};
use crate::gateway;
use crate::governance::{GovernedTool, ReadTool};
use crate::ledger::Permission;

use super::{card, identity};

/// The rules for scripts. The server's instructions and the description of `execute_python_code` contain these rules.
const RULES: &str = "the standard library and, where installed, sympy, z3, numpy, qwed_legal, \
                     qwed_finance, qwed_tax, qwed_ucp, qwed_new.guards, qwed_sdk. Not allowed: eval, exec, \
                     compile, __import__, importlib, files (open, pathlib, os), subprocess, \
                     multiprocessing, network, ctypes, pickle.loads. Pass data in `inputs`. A refusal \
                     says what to change; try again. Each call is a new process";

/// The beginning of the instructions, which a model reads before the descriptions of the tools. All instructions
/// together stay below 800 characters, because they are part of the context of every conversation.
const PURPOSE: &str = "Check a claim by writing a Python script that proves or refutes it, and run it with \
                       execute_python_code. Print what you find and assert what must hold: exit code 0 \
                       means that nothing failed. Scripts may import ";

/// The last part of the server's instructions for models, if the server has governed tools.
const WITH_TESTS: &str = "run_pytest runs the project's tests; get_evidence, list_artifacts and \
                          get_artifact_content read past runs.";

/// The sentence about pictures in results, if the server returns them.
const PICTURES: &str = " matplotlib's plt.show() and savefig(\"plot.png\") return pictures.";

/// The limits of scripts that the texts for models contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatedLimits {
    background_seconds: u64,
    /// The memory limit in MiB. `None` without a sandbox, because then nothing limits memory.
    memory_mb: Option<u64>,
}

impl StatedLimits {
    pub(super) fn of(settings: &Settings) -> Self {
        let is_bounded = settings.sandbox != SandboxMode::Off;
        Self {
            // The texts for models state a limit of at least one second, because no useful script can be written for a
            // shorter limit.
            background_seconds: settings.background_timeout.as_secs().max(1),
            memory_mb: is_bounded.then_some(settings.memory_mb),
        }
    }

    fn text(self) -> String {
        let memory = match self.memory_mb {
            Some(mb) if mb % 1024 == 0 => format!("{} GiB memory, ", mb / 1024),
            Some(mb) => format!("{mb} MiB memory, "),
            None => String::new(),
        };
        let seconds = self.background_seconds;
        format!("30 seconds ({seconds} with background=true), {memory}1 MB output")
    }
}

/// Returns the instructions of the server. `is_governed` is whether the server has governed tools.
pub(super) fn instructions(limits: StatedLimits, is_governed: bool) -> String {
    let limits = limits.text();
    if is_governed {
        return format!(
            "{PURPOSE}{RULES}. Limits: {limits}; poll verification_status. {WITH_TESTS}"
        );
    }
    format!(
        "{PURPOSE}{RULES}: nothing is kept, standard input is empty. Limits: {limits}. A background call \
         returns a job_id: poll verification_status until the status is final."
    )
}

/// Returns the description of `execute_python_code`. The description has less than 900 characters. It repeats the rules
/// for scripts, because many frameworks do not show the instructions to the model.
fn execution_description(settings: &Settings) -> String {
    let pictures = if settings.pictures { PICTURES } else { "" };
    format!(
        "Execute Python code in a sandboxed subprocess with access to all QWED SDK libraries. Use it to \
         check a claim: print the evidence, and assert the claim against a value that is not derived \
         from it, or nothing is verified. A failed assertion is a result too. Imports: {RULES}.{pictures} Limits: {}. A background call returns a job_id at once: \
         poll verification_status. {}",
        StatedLimits::of(settings).text(),
        if settings.store.is_some() {
            SHARED_JOBS_LIVE
        } else {
            "Jobs live as long as this server process."
        }
    )
}

/// The sentence about the lifetime of jobs in a database. These jobs outlive the server that placed them.
const SHARED_JOBS_LIVE: &str = "Jobs are kept for one hour after their last change.";

fn status_description(settings: &Settings) -> String {
    let own = "Jobs live as long as this server process, and for one hour after their last change.";
    format!(
        "Check the execution status and output of a background verification task dispatched via \
         execute_python_code with background=true. Poll until the status is success, failed, cancelled \
         or timed_out: a job may run for {} seconds, and may wait for others before. {}",
        StatedLimits::of(settings).background_seconds,
        if settings.store.is_some() { SHARED_JOBS_LIVE } else { own }
    )
}

const RUN_ID: &str = "The run_id that run_pytest returned.";

/// A key in the `_meta` of a tool. The value is the number of characters up to which Claude Code does not cut off
/// results of the tool.
const RESULT_CHARS_KEY: &str = "anthropic/maxResultSizeChars";
/// The highest value of this key that Claude Code accepts.
const RESULT_CHARS_MAX: usize = 500_000;
/// The number of characters that a result may have besides the output of the script.
const OTHER_CHARS: usize = 10_000;

/// Returns the `_meta` of the tools for scripts. If the admin limits the output in results, the `_meta` contains
/// [`RESULT_CHARS_KEY`], so that Claude Code does not cut the results further.
fn tool_meta(settings: &Settings) -> MetaObject {
    let mut meta = card::tool_meta();
    if let Some(chars) = settings.result_chars {
        let chars_max = (chars + OTHER_CHARS).min(RESULT_CHARS_MAX);
        meta.insert(RESULT_CHARS_KEY.to_owned(), json!(chars_max));
    }
    meta
}

/// Returns the tools for scripts, in the order in which they are listed. Their annotations and descriptions depend on
/// the settings.
pub(super) fn tools(settings: &Settings) -> [Tool; 2] {
    // Every tier of the sandbox denies sockets, so only without a sandbox can scripts reach the network.
    let is_open_world = settings.sandbox == SandboxMode::Off;
    let script = "The complete Python script.";
    let inputs = "Files for the script, by any plain names: a text, {\"base64\": …} or {\"json\": …} each. Read them \
                  as open(\"data.csv\"), pd.read_csv(\"data.csv\") or inputs[\"data.csv\"].";
    let background = "Return a job_id at once and run the script in the background; poll it with \
                      verification_status.";
    let job_id = "The UUID that execute_python_code returned with background=true.";
    [
        tool(
            gateway::Tool::ExecutePythonCode.name(),
            execution_description(settings),
            &["code"],
            json!({
                "code": property("string", script),
                // This object has an example property, because some hosts, such as the Gemini API, refuse an object
                // without properties. Other hosts refuse `additionalProperties`.
                "inputs": {
                    "type": "object",
                    "description": inputs,
                    "properties": { "data.csv": property("string", "The content of one file.") },
                },
                "background": { "type": "boolean", "default": false, "description": background },
            }),
            ToolAnnotations::with_title("Run a Python verification script")
                .read_only(false)
                .destructive(true)
                .idempotent(false)
                .open_world(is_open_world),
        )
        .with_meta(tool_meta(settings)),
        tool(
            gateway::Tool::VerificationStatus.name(),
            status_description(settings),
            &["job_id"],
            json!({ "job_id": property("string", job_id) }),
            reading("State of a background verification"),
        )
        .with_meta(tool_meta(settings)),
    ]
}

/// Returns the tools that exist only if the admin has configured a policy, in the order in which they are listed.
pub(super) fn governed_tools() -> &'static [Tool] {
    static TOOLS: LazyLock<[Tool; 4]> =
        LazyLock::new(|| [run_pytest(), get_evidence(), list_artifacts(), get_artifact_content()]);
    &*TOOLS
}

fn run_pytest() -> Tool {
    let test_path = "A file, folder or node id, relative to the workspace, such as \
                     tests/test_a.py::test_b.";
    let node_ids = "Node ids to run instead of the whole test_path.";
    let keyword = "Only tests whose names match this expression (pytest -k).";
    let markers = "Only tests whose markers match this expression (pytest -m).";
    tool(
        GovernedTool::RunPytest.name(),
        "Runs pytest on a path of the configured workspace, in a sandbox: the workspace is \
         read-only, there is no network. Returns counts, failures with their assertion lines, and \
         a run_id for the other tools. Tests may leave files in the folder of the variable \
         QWED_ARTIFACTS.",
        &["test_path"],
        json!({
            "test_path": property("string", test_path),
            "node_ids": { "type": "array", "items": { "type": "string" }, "description": node_ids },
            "keyword": property("string", keyword),
            "markers": property("string", markers),
            "exit_first": property("boolean", "Stop at the first failure (pytest -x)."),
            "max_fail": property("integer", "Stop after this number of failures (pytest --maxfail)."),
        }),
        ToolAnnotations::with_title("Run the tests of the workspace")
            .read_only(false)
            .destructive(false)
            .idempotent(false)
            .open_world(false),
    )
}

fn get_evidence() -> Tool {
    tool(
        GovernedTool::Read(ReadTool::GetEvidence).name(),
        "Returns the evidence of a run of run_pytest: who, what, when, counts, failures, the \
         artifacts with their hashes, the budget.",
        &["run_id"],
        json!({ "run_id": property("string", RUN_ID) }),
        reading("Evidence of a run"),
    )
}

fn list_artifacts() -> Tool {
    tool(
        GovernedTool::Read(ReadTool::ListArtifacts).name(),
        "Lists the files of a run. Without a run_id, lists the runs, newest first.",
        &[],
        json!({
            "run_id": property("string", RUN_ID),
            "offset": property("integer", "Where to continue: next_offset of the previous page."),
            "limit": property("integer", "The maximum number of entries, up to 200."),
        }),
        reading("Artifacts of runs"),
    )
}

fn get_artifact_content() -> Tool {
    tool(
        GovernedTool::Read(ReadTool::GetArtifactContent).name(),
        "Returns an artifact of a run, text as text and everything else as base64; long ones in \
         parts.",
        &["run_id", "path"],
        json!({
            "run_id": property("string", RUN_ID),
            "path": property("string", "The path that list_artifacts returned."),
            "offset": property("integer", "The first byte."),
            "limit": property("integer", "The maximum number of bytes, up to 1 MiB."),
        }),
        reading("Content of an artifact"),
    )
}

/// Creates a tool, with the title from its annotations.
///
/// The tool's schema only has types, descriptions and `required`. It has no `$schema` and no arrays of types, because
/// some clients reject these.
fn tool(
    name: &'static str,
    description: impl Into<Cow<'static, str>>,
    required: &[&str],
    properties: Value,
    annotations: ToolAnnotations,
) -> Tool {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), properties);
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    let mut tool = Tool::new(name, description, Arc::new(schema));
    tool.title.clone_from(&annotations.title);
    tool.with_annotations(annotations).with_icons(identity::icons())
}

fn property(kind: &str, description: &str) -> Value {
    json!({ "type": kind, "description": description })
}

fn reading(title: &str) -> ToolAnnotations {
    ToolAnnotations::with_title(title)
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(false)
}

/// Returns the permission that a tool requires. `None` for an unknown tool, which the gateway refuses.
pub(super) fn permission_of(tool: &str) -> Option<Permission> {
    if let Some(governed) = GovernedTool::from_name(tool) {
        return Some(governed.permission());
    }
    if tool == gateway::Tool::ExecutePythonCode.name() {
        Some(Permission::OrchestrationRun)
    } else if tool == gateway::Tool::VerificationStatus.name() {
        Some(Permission::ArtifactRead)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Role;

    #[test]
    fn the_instructions_are_short_and_the_schemas_plain() {
        let longest = |name: &str| match name {
            "QWED_MCP_BACKGROUND_TIMEOUT" => Some("600".into()),
            "QWED_MCP_MEMORY_MB" => Some("1048575".into()),
            _ => None,
        };
        let (settings, _) = Settings::from_lookup(longest);
        let tools = tools(&settings);
        for is_governed in [false, true] {
            let told = instructions(StatedLimits::of(&settings), is_governed);
            assert!(told.chars().count() < 800, "{}", told.chars().count());
            let names_tool = |tool: &Tool| told.contains(&*tool.name);
            assert!(tools.iter().all(names_tool), "{told}");
            assert_eq!(governed_tools().iter().all(names_tool), is_governed, "{told}");
        }
        for tool in tools.iter().chain(governed_tools()) {
            let description = tool.description.as_deref().unwrap();
            assert!(description.chars().count() < 900, "{}: {}", tool.name, description.len());
            assert!(tool.title.is_some(), "{}", tool.name);
        }
        // The maximum is one and a half times the size of the texts of version 0.2.2.
        let texts = tools.iter().flat_map(|tool| {
            let arguments = tool.input_schema["properties"].as_object().unwrap().values();
            let descriptions = arguments.map(|it| it["description"].as_str().unwrap());
            tool.description.as_deref().into_iter().chain(descriptions)
        });
        let bytes: usize = texts.map(str::len).sum();
        assert!((1_000..=2_653).contains(&bytes), "{bytes}");
        let tools = serde_json::to_string(&tools).unwrap();
        assert!(!tools.contains("$schema") && !tools.contains("\"type\":["));
        assert!(!tools.contains("outputSchema"));
        let governed = serde_json::to_string(governed_tools()).unwrap();
        assert!(!governed.contains("$schema") && !governed.contains("\"type\":["));
    }

    #[test]
    fn the_limits_are_told_as_they_are_set() {
        let told = |variables: &[(&str, &str)]| {
            let value = |name: &str| variables.iter().find(|(known, _)| *known == name);
            let (settings, _) = Settings::from_lookup(|name| Some(value(name)?.1.into()));
            let [execution, status] = tools(&settings);
            let text = |tool: Tool| tool.description.unwrap().into_owned();
            let instructions = instructions(StatedLimits::of(&settings), false);
            [instructions, text(execution), text(status)]
        };
        for (variables, limits, status) in [
            (
                &[][..],
                "Limits: 30 seconds (120 with background=true), 1 GiB memory, 1 MB output",
                "may run for 120 seconds",
            ),
            (
                &[("QWED_MCP_BACKGROUND_TIMEOUT", "300.5"), ("QWED_MCP_MEMORY_MB", "1500")],
                "Limits: 30 seconds (300 with background=true), 1500 MiB memory, 1 MB output",
                "may run for 300 seconds",
            ),
            (
                &[("QWED_MCP_SANDBOX", "off")],
                "Limits: 30 seconds (120 with background=true), 1 MB output",
                "may run for 120 seconds",
            ),
        ] {
            let [instructions, execution, polling] = told(variables);
            assert!(instructions.contains(limits), "{instructions}");
            assert!(execution.contains(limits), "{execution}");
            assert!(polling.contains(status), "{polling}");
            assert!(
                execution.ends_with("Jobs live as long as this server process."),
                "{execution}"
            );
        }
        let [_, execution, polling] = told(&[("QWED_MCP_STORE", "postgres://u@h/d")]);
        assert!([execution, polling].iter().all(|it| it.ends_with(SHARED_JOBS_LIVE)));
    }

    #[test]
    fn roles_decide_per_tool() {
        for (role, tool, expected) in [
            (Role::Admin, "execute_python_code", true),
            (Role::User, "execute_python_code", true),
            (Role::Viewer, "execute_python_code", false),
            (Role::Viewer, "verification_status", true),
            (Role::Viewer, "run_pytest", false),
            (Role::User, "run_pytest", true),
            (Role::Viewer, "get_evidence", true),
            // No permission exists for an unknown tool. The gateway refuses it.
            (Role::Viewer, "rm", true),
        ] {
            let may = permission_of(tool).is_none_or(|permission| role.has(permission));
            assert_eq!(may, expected, "{role:?} {tool}");
        }
    }
}
