//! The texts and schemas of the server and its tools for clients: one table.

use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::config::SandboxMode;
use crate::gateway;
use crate::governance::{GovernedTool, ReadTool};

/// The name that clients show.
pub(super) const SERVER_NAME: &str = "qwed-mcp";
pub(super) const SERVER_TITLE: &str = "QWED verification";

/// The rules of a script, as they stand in the instructions and in the description.
macro_rules! rules {
    () => {
        "the standard library and, where installed, sympy, z3, numpy, qwed_legal, qwed_finance, \
         qwed_ucp, qwed_new.guards, qwed_sdk. Not allowed: eval, exec, compile, __import__, \
         importlib, files (open, pathlib, os), subprocess, multiprocessing, network, ctypes, \
         pickle.loads. Put data into the script. A blocked call says why; change the script and try \
         again. Each call is a new process"
    };
}

/// The start of the instructions, which a model reads before it sees any tool. Below 800
/// characters: it is in every context.
const INSTRUCTIONS: &str = concat!(
    "Check a claim by writing a Python script that proves or refutes it, and run it with \
     execute_python_code. Print what you find and assert what must hold: exit code 0 means that \
     nothing failed. Scripts may import ",
    rules!(),
);

/// The end of the instructions where there are these tools only.
const SCRIPTS_ONLY: &str = ": nothing is kept between calls, standard input is empty. Limits: 30 \
                            seconds, 1 MB of output. For longer scripts set background=true and \
                            poll verification_status with the job_id until the status is final.";

/// The end of the instructions where there are the governed tools, too.
const WITH_TESTS: &str = "\
. Limits: 30 seconds, 1 MB of output; longer with background=true and \
verification_status. run_pytest runs the project's tests; get_evidence, list_artifacts and \
get_artifact_content read past runs.";

/// Returns the instructions for the tools that there are.
pub(super) fn instructions(is_governed: bool) -> String {
    format!("{INSTRUCTIONS}{}", if is_governed { WITH_TESTS } else { SCRIPTS_ONLY })
}

/// The sentence of the documents, and the rules for who sees no instructions: many frameworks show
/// them to no model. Below 900 characters.
const EXECUTION_DESCRIPTION: &str = concat!(
    "Execute Python code in a sandboxed subprocess with access to all QWED SDK libraries. Use it to \
     check a claim: print the evidence and assert what must hold; an assertion that fails is a \
     result too. Imports: ",
    rules!(),
    ". matplotlib's plt.show() and savefig(\"plot.png\") return pictures. Limits: 30 seconds, 1 MB of output. With background=true a longer script's job_id comes back \
     at once; poll verification_status. Jobs live as long as this server process."
);

const RUN_ID: &str = "The run_id that run_pytest returned.";

/// Returns the tools in the order in which they are listed. `mode` decides what their annotations say.
pub(super) fn tools(mode: SandboxMode) -> &'static [Tool] {
    static CLOSED_WORLD: LazyLock<[Tool; 2]> = LazyLock::new(|| list(false));
    static OPEN_WORLD: LazyLock<[Tool; 2]> = LazyLock::new(|| list(true));
    match mode {
        // Every tier of the sandbox denies sockets.
        SandboxMode::Required | SandboxMode::Strict | SandboxMode::Degraded => &*CLOSED_WORLD,
        SandboxMode::Off => &*OPEN_WORLD,
    }
}

fn list(is_open_world: bool) -> [Tool; 2] {
    let script = "The complete Python script.";
    let background = "Return a job_id at once and run the script in the background; poll it with \
                      verification_status.";
    let job_id = "The UUID that execute_python_code returned with background=true.";
    [
        tool(
            gateway::Tool::ExecutePythonCode.name(),
            EXECUTION_DESCRIPTION,
            &["code"],
            json!({
                "code": property("string", script),
                "background": { "type": "boolean", "default": false, "description": background },
            }),
            ToolAnnotations::with_title("Run a Python verification script")
                .read_only(false)
                .destructive(true)
                .idempotent(false)
                .open_world(is_open_world),
        ),
        tool(
            gateway::Tool::VerificationStatus.name(),
            "Returns the state of a background verification, and its result once it has ended.",
            &["job_id"],
            json!({ "job_id": property("string", job_id) }),
            reading("State of a background verification"),
        ),
    ]
}

/// Returns the tools that exist only under a policy, in the order in which they are listed.
pub(super) fn governed_tools() -> &'static [Tool] {
    static TOOLS: LazyLock<[Tool; 4]> =
        LazyLock::new(|| [run_pytest(), get_evidence(), list_artifacts(), get_artifact_content()]);
    &*TOOLS
}

fn run_pytest() -> Tool {
    let test_path = "A file, folder or node id, relative to the workspace, such as \
                     tests/test_a.py::test_b.";
    let node_ids = "Node ids to run in place of the whole test_path.";
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
            "max_fail": property("integer", "Stop after so many failures (pytest --maxfail)."),
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
        "Lists what a run left behind, or without a run_id the runs, newest first.",
        &[],
        json!({
            "run_id": property("string", RUN_ID),
            "offset": property("integer", "Where to go on: next_offset of the last page."),
            "limit": property("integer", "At most so many, up to 200."),
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
            "path": property("string", "The path as list_artifacts has it."),
            "offset": property("integer", "The first byte."),
            "limit": property("integer", "At most so many bytes, up to 1 MiB."),
        }),
        reading("Content of an artifact"),
    )
}

/// Creates a tool whose title is that of its annotations.
///
/// Its schema is a plain one: types, descriptions, `required`. No `$schema`, no arrays of types: there
/// are clients that reject either.
fn tool(
    name: &'static str,
    description: &'static str,
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
    tool.with_annotations(annotations)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instructions_are_short_and_the_schemas_plain() {
        for is_governed in [false, true] {
            let told = instructions(is_governed);
            assert!(told.chars().count() < 800, "{}", told.chars().count());
            let names_tool = |tool: &Tool| told.contains(&*tool.name);
            assert!(tools(SandboxMode::Required).iter().all(names_tool), "{told}");
            assert_eq!(governed_tools().iter().all(names_tool), is_governed, "{told}");
        }
        let all = tools(SandboxMode::Required).iter().chain(governed_tools());
        for tool in all {
            let description = tool.description.as_deref().unwrap();
            assert!(description.chars().count() < 900, "{}: {}", tool.name, description.len());
            assert!(tool.title.is_some(), "{}", tool.name);
        }
        let tools = serde_json::to_string(tools(SandboxMode::Required)).unwrap();
        assert!(!tools.contains("$schema") && !tools.contains("\"type\":["));
        assert!(!tools.contains("outputSchema"));
        let governed = serde_json::to_string(governed_tools()).unwrap();
        assert!(!governed.contains("$schema") && !governed.contains("\"type\":["));
    }
}
