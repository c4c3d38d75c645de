//! What a client is told about the server and its tools: one table.

use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::config::SandboxMode;

/// The name that clients show.
pub(super) const SERVER_NAME: &str = "qwed-mcp";
pub(super) const SERVER_TITLE: &str = "QWED verification";

/// What a model is told before it sees any tool. Below 800 characters: it is in every context.
pub(super) const INSTRUCTIONS: &str = "\
Check a claim by writing a Python script that proves or refutes it, and run it with \
execute_python_code. Print what you find and assert what must hold: exit code 0 means that nothing \
failed. Scripts may import the standard library and, where installed, sympy, z3, numpy, \
qwed_legal, qwed_finance, qwed_ucp, qwed_new.guards, qwed_sdk. Not allowed: eval, exec, compile, \
__import__, importlib, files (open, pathlib, os), subprocess, multiprocessing, network, ctypes, \
pickle.loads. Put data into the script. A blocked call says why; change the script and try again. \
Each call is a new process: nothing is kept between calls, standard input is empty. Limits: 30 seconds, 1 MB of output. For longer scripts set \
background=true and poll verification_status with the job_id until the status is final.";

/// The tools, in the order in which they are listed. `mode` decides what their annotations say.
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
    [
        Tool::new(
            "execute_python_code",
            "Runs a Python script in a new process and returns its stdout, stderr and exit status. \
             Use it to verify a claim with SymPy, Z3 or the QWED SDKs: print the evidence and \
             assert what must hold. At most 30 seconds; longer scripts with background=true.",
            schema(
                &json!({
                    "code": {
                        "type": "string",
                        "description": "The complete Python script."
                    },
                    "background": {
                        "type": "boolean",
                        "default": false,
                        "description": "Return a job_id at once and run the script in the \
                                        background; poll it with verification_status."
                    }
                }),
                "code",
            ),
        )
        .with_annotations(
            ToolAnnotations::with_title("Run a Python verification script")
                .read_only(false)
                .destructive(true)
                .idempotent(false)
                .open_world(is_open_world),
        ),
        Tool::new(
            "verification_status",
            "Returns the state of a background verification, and its result once it has ended.",
            schema(
                &json!({
                    "job_id": {
                        "type": "string",
                        "description": "The UUID that execute_python_code returned with \
                                        background=true."
                    }
                }),
                "job_id",
            ),
        )
        .with_annotations(
            ToolAnnotations::with_title("State of a background verification")
                .read_only(true)
                .destructive(false)
                .idempotent(true)
                .open_world(false),
        ),
    ]
}

/// A plain schema: types, descriptions, `required`. No `$schema`, no arrays of types: there are
/// clients that reject either.
fn schema(properties: &Value, required: &str) -> Arc<JsonObject> {
    let schema = json!({ "type": "object", "properties": properties, "required": [required] });
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instructions_are_short_and_the_schemas_plain() {
        assert!(INSTRUCTIONS.chars().count() < 800, "{}", INSTRUCTIONS.chars().count());
        let tools = serde_json::to_string(tools(SandboxMode::Required)).unwrap();
        assert!(!tools.contains("$schema") && !tools.contains("\"type\":["));
        assert!(!tools.contains("outputSchema"));
    }
}
