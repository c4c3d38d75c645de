//! Tests the governed tools with the real binary.

mod admin;
mod attacks;
mod audit;
mod evidence;
mod judge;
mod refusals;
mod runs;
mod shared;
mod strict_modes;
mod traps;
mod verdicts;
mod wishes;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::harness::{McpProcess, ServerBuilder, Test, binary, python, root};

pub(crate) fn tests() -> Vec<Test> {
    let parts = [
        admin::tests(),
        attacks::tests(),
        audit::tests(),
        evidence::tests(),
        judge::tests(),
        refusals::tests(),
        runs::tests(),
        shared::tests(),
        strict_modes::tests(),
        traps::tests(),
        verdicts::tests(),
        wishes::tests(),
    ];
    parts.into_iter().flatten().collect()
}

/// The UID of a server that does not run as root.
pub(crate) const ORDINARY_USER: u32 = 4321;

/// A workspace, a policy, a data folder and a token for each role.
pub(crate) struct Governed {
    folder: tempfile::TempDir,
    pub(crate) workspace: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) policy: PathBuf,
    pub(crate) admin: String,
    pub(crate) user: String,
    pub(crate) viewer: String,
    /// The URL of the database that servers share, or `None` if each server has its own store.
    store: Option<String>,
}

impl Governed {
    /// Creates a workspace with a copy of `tests/projects/<project>`.
    pub(crate) fn new(project: &str) -> Self {
        Self::sharing(project, None)
    }

    /// Like [`Self::new`], with a shared database.
    pub(crate) fn sharing(project: &str, store: Option<String>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("workspace");
        copy(&root().join("tests/projects").join(project), &workspace);
        Self::of(folder, workspace, store)
    }

    /// Uses this workspace, which is below `folder`.
    pub(crate) fn of_workspace(folder: tempfile::TempDir, workspace: PathBuf) -> Self {
        Self::of(folder, workspace, None)
    }

    fn of(folder: tempfile::TempDir, workspace: PathBuf, store: Option<String>) -> Self {
        let data = folder.path().join("data");
        let policy = folder.path().join("policy.toml");
        let none = String::new;
        let (admin, user, viewer) = (none(), none(), none());
        let mut governed = Self { folder, workspace, data, policy, admin, user, viewer, store };
        governed.admin = governed.token("ada", "admin");
        governed.user = governed.token("bob", "user");
        governed.viewer = governed.token("eve", "viewer");
        governed.write_policy("");
        governed
    }

    /// Writes a policy with these sections. By default, the policy allows `run_pytest` in the workspace.
    pub(crate) fn write_policy(&self, sections: &str) {
        let has = |section: &str| sections.contains(&format!("[{section}]"));
        let mut text = String::new();
        if !has("tools") {
            text.push_str("[tools]\nallowlist = [\"run_pytest\"]\n");
        }
        if !has("workspace") {
            text.extend(["[workspace]\nroot = ", &quoted(&self.workspace), "\n"]);
        }
        text.push_str(sections);
        fs::write(&self.policy, text).unwrap();
    }

    pub(crate) fn token(&self, user: &str, role: &str) -> String {
        let output = self.command(&["token", "create", "--user", user, "--role", role]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Runs a command of the program with this data folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Output {
        Command::new(binary())
            .args(arguments)
            .env_clear()
            .env("QWED_MCP_DATA_DIR", &self.data)
            .envs(self.store.iter().map(|url| ("QWED_MCP_STORE", url)))
            .output()
            .unwrap()
    }

    /// Like [`Self::command`], with the interpreter of the tests.
    pub(crate) fn command_with_python(&self, arguments: &[&str]) -> Output {
        let mut command = self.server().command();
        command.env_remove("QWED_MCP_POLICY").args(arguments).output().unwrap()
    }

    /// Returns the rows of the audit log, except for rows about tokens.
    pub(crate) fn audit_rows(&self) -> Vec<Value> {
        let output = self.command(&["audit", "export", "--format", "json"]);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
        rows.filter(|row: &Value| row["tool"] != "qwed-mcp token").collect()
    }

    /// Asserts that the audit log is intact. Returns the report of `audit verify`.
    #[track_caller]
    pub(crate) fn verify_audit(&self) -> Value {
        let output = self.command(&["audit", "verify", "--format", "json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Returns a server with this policy and this data folder.
    pub(crate) fn server(&self) -> ServerBuilder {
        let server = ServerBuilder::new()
            .variable("QWED_MCP_POLICY", self.policy.to_str().unwrap())
            .variable("QWED_MCP_DATA_DIR", self.data.to_str().unwrap());
        match &self.store {
            Some(url) => server.variable("QWED_MCP_STORE", url),
            None => server,
        }
    }

    pub(crate) fn connect(&self) -> McpProcess {
        self.server().connect()
    }

    /// Executes SQL statements on the store, as a user with a shell could.
    pub(crate) fn sqlite(&self, statements: &str) -> Output {
        let program =
            "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])";
        let store = self.data.join("governance.db");
        Command::new(python()).args(["-c", program]).arg(store).arg(statements).output().unwrap()
    }

    /// Changes the owner of all files to the ordinary user. The tests must run as root.
    pub(crate) fn give_away(&self) {
        let owner = format!("{ORDINARY_USER}:{ORDINARY_USER}");
        let given = Command::new("chown").args(["-hR", &owner]).arg(self.folder.path()).status();
        assert!(given.unwrap().success());
    }

    /// Returns a path next to the workspace.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Calls a tool with this token in the message. Returns the whole reply.
#[expect(clippy::needless_pass_by_value, reason = "what is passed is made for the call")]
pub(crate) fn call_as(server: &mut McpProcess, token: &str, tool: &str, arguments: Value) -> Value {
    server.request("tools/call", &params(token, tool, &arguments))
}

pub(crate) fn params(token: &str, tool: &str, arguments: &Value) -> Value {
    json!({ "name": tool, "arguments": arguments, "auth": { "token": token } })
}

/// Runs the tests at `path`. Returns the whole reply.
pub(crate) fn run_pytest(server: &mut McpProcess, token: &str, path: &str) -> Value {
    call_as(server, token, "run_pytest", json!({ "test_path": path }))
}

/// Returns the first text of a result.
#[track_caller]
pub(crate) fn text(reply: &Value) -> &str {
    reply["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {reply}"))
}

/// Returns the line with the counts of a run. This line follows the line with the status.
#[track_caller]
pub(crate) fn counted(reply: &Value) -> &str {
    let mut lines = text(reply).lines();
    let status = lines.next().unwrap_or_default();
    assert!(status.starts_with("Status: "), "{reply}");
    lines.next().unwrap_or_default()
}

#[track_caller]
pub(crate) fn run_id(reply: &Value) -> String {
    let of_result = &reply["result"]["_meta"]["qwed.ai/run"]["run_id"];
    let of_error = &reply["error"]["data"]["run_id"];
    let id = of_result.as_str().or(of_error.as_str());
    id.unwrap_or_else(|| panic!("no run id in {reply}")).to_owned()
}

#[track_caller]
pub(crate) fn evidence(server: &mut McpProcess, token: &str, run_id: &str) -> Value {
    let reply = call_as(server, token, "get_evidence", json!({ "run_id": run_id }));
    serde_json::from_str(text(&reply)).unwrap()
}

#[track_caller]
pub(crate) fn assert_refused(reply: &Value, code: i64, name: &str, message: &str) {
    let error = &reply["error"];
    assert_eq!(error["code"], code, "{reply}");
    assert_eq!(error["data"]["code"], name, "{reply}");
    let told = error["message"].as_str().unwrap();
    assert!(told.starts_with(message), "{told}");
    run_id(reply);
}

/// Returns the path as a quoted string, which is valid in Python, TOML and JSON.
pub(crate) fn quoted(path: &Path) -> String {
    json!(path.to_str().unwrap()).to_string()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            if entry.file_name() != "__pycache__" {
                copy(&entry.path(), &target);
            }
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
