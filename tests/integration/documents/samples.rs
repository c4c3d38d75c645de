//! Checks the samples in the documents. Each fenced block is run and compared, parsed, compiled, or listed here with
//! a reason. Any other block fails.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use regex::Regex;
use serde_json::{Value, json};

use super::{documents, first_columns, read};
use crate::governed::{Governed, run_pytest, text};
use crate::harness::{ServerBuilder, binary, root};

tests! {
    needs []:
        every_sample_is_run_or_listed,
        a_sample_that_differs_is_found,
        configurations_of_clients_are_sound,
        the_action_has_the_inputs_of_the_documents;
    needs [Tier3]:
        replies_are_what_the_documents_show;
    needs [Tier3, Packages]:
        commands_print_what_the_documents_show,
        a_test_run_prints_what_the_documents_show;
}

const WITH_MODELS: &str =
    "asks a model of a provider; `tests/pipelines/run` runs it with a scripted one";
const INSTALLS: &str = "writes to the home folder; `tests/install/run` runs it with an empty one";
const OF_DATABASE: &str = "needs a database; the tests of shared stores run deploy/postgres.sql";
const AS_ROOT: &str = "needs root, and changes the machine";

/// Commands that are not run, each with its reason. Their output is not compared.
const NOT_RUN: &[(&str, &str)] = &[
    ("createdb --encoding ", OF_DATABASE),
    ("psql -d qwed ", OF_DATABASE),
    ("QWED_MCP_STORE=postgres://qwed_owner", OF_DATABASE),
    ("export QWED_MCP_STORE=", OF_DATABASE),
    ("qwed-mcp audit verify    # of the database", OF_DATABASE),
    ("qwed-mcp judge record", "needs tests and a workspace; the tests of `governed::judge` run it"),
    ("cargo test", "runs this test; `.ci/run readme_test` runs it"),
    (
        "QWED_MCP_TRUSTED_CODE_EXECUTION=true QWED_MCP_SYNC_CONCURRENCY=4 qwed-mcp serve",
        "does not end; the tests of `http` start it",
    ),
    (
        "QWED_MCP_TRUSTED_CODE_EXECUTION=true qwed-mcp serve --http 127.0.0.1:8000",
        "does not end; the tests of `http` start it",
    ),
    (
        "export QWED_MCP_STORE='postgres://qwed_server:SECRET@db.example.org",
        "needs a database; the tests of `shared_jobs` have one",
    ),
    (
        "QWED_MCP_TRUSTED_CODE_EXECUTION=true qwed-mcp serve --http 0.0.0.0:8000",
        "does not end; `tests/endurance/replicas.py` starts three",
    ),
    (
        "qwed-mcp token create --user ann --role user",
        "makes a store in the home folder; the tests of `http` do it in another",
    ),
    ("git clone https://github.com/QWED-AI/qwed-mcp", INSTALLS),
    ("uv tool install \".[sdk]\"", INSTALLS),
    ("qwed-mcp install --client claude-code --allow-code", INSTALLS),
    ("pip install '.[sdk]' inspect_ai", "installs packages; `tests/pipelines/run` installs them"),
    ("inspect eval evals/task.py", WITH_MODELS),
    ("python evals/report", WITH_MODELS),
    ("evals/check target/debug", "needs the packages of the tests; `.ci/run evals` runs it"),
    ("sudo install -d /etc/qwed", AS_ROOT),
    ("useradd --system", AS_ROOT),
    ("install -m 0755 ", AS_ROOT),
    ("/usr/bin/python3 -m venv /opt/qwed-venv", AS_ROOT),
    ("cat > /usr/local/bin/qwed-mcp-tests", AS_ROOT),
    ("chmod 0755 /usr/local/bin/qwed-mcp-tests", AS_ROOT),
    ("sudo -u qwed sh -c 'umask 077; qwed-mcp-tests token create", AS_ROOT),
    ("echo 'ada ALL=(qwed)", AS_ROOT),
    ("chmod 0440 /etc/sudoers.d", AS_ROOT),
    ("setfacl -m u:qwed:x /home/ada", AS_ROOT),
    ("setfacl -R -m u:qwed:rX", AS_ROOT),
    ("sudo -u qwed qwed-mcp-tests doctor", AS_ROOT),
    ("qwed-mcp doctor --apparmor-profile | sudo tee", AS_ROOT),
];

const REPLIES: Other = Other::Test("replies_are_what_the_documents_show");

const PYTHON: Other = Other::Script("test_its_samples_print_what_they_say");

const PIPELINES: Other = Other::Script("test_the_samples_print_what_they_say");

const INTEGRATIONS: Other = Other::Script("test_the_samples_of_the_document");

/// Blocks that are neither commands nor configurations. Each entry has the page, the beginning of the block, and the
/// check of the block.
const OTHERS: &[(&str, &str, Other)] = &[
    ("README.md", "let analysis = qwed_mcp::", Other::Doctest),
    ("docs/ARCHITECTURE.md", "stdin → transport", Other::Picture),
    ("docs/ARCHITECTURE.md", "src/\n  main.rs", Other::Picture),
    (
        "docs/COMMAND_LINE.md",
        "$ qwed-mcp\n",
        Other::Test("the_recorded_session_is_what_a_terminal_shows"),
    ),
    (
        "docs/COMMAND_LINE.md",
        "- uses: QWED-AI/qwed-mcp@",
        Other::Test("the_action_has_the_inputs_of_the_documents"),
    ),
    ("docs/AIBOM.md", "{\n  \"timestamp\"", Other::Test("the_bill_of_the_documents_is_real")),
    ("docs/BATCHES.md", "{\"id\":\"sum\"", Other::File("scripts.jsonl")),
    (
        "docs/CONFIGURATION.md",
        "# /// script",
        Other::Test("packages_that_a_script_lists_are_installed_if_the_admin_allows_them"),
    ),
    ("docs/PYTHON.md", "from qwed_mcp", PYTHON),
    ("docs/PIPELINES.md", "from qwed_mcp", PIPELINES),
    ("docs/PIPELINES.md", "import ray", Other::Script("check_the_document")),
    ("docs/INTEGRATIONS.md", "from qwed_mcp", INTEGRATIONS),
    ("docs/INTEGRATIONS.md", "STDERR:", INTEGRATIONS),
    ("docs/SKILL_MANIFESTS.md", "{\n  \"name\"", Other::File("skill.json")),
    (
        "docs/GOVERNED_TOOLS.md",
        "Status: failed",
        Other::Test("a_test_run_prints_what_the_documents_show"),
    ),
    (
        "docs/TROUBLESHOOTING.md",
        "BLOCKED_ADMIN_POLICY: Scripts cannot run: ",
        Other::Test("the_refusal_on_ubuntu_is_that_of_the_documents"),
    ),
    ("docs/VERDICTS.md", "line 2: total", Other::Test("the_values_of_a_failed_check_are_reported")),
    ("docs/REFERENCE.md", "{\"jsonrpc\"", REPLIES),
    ("docs/REFERENCE.md", "{\n  \"jsonrpc\"", REPLIES),
    ("docs/REFERENCE.md", "{\"code\": ", REPLIES),
    ("docs/REFERENCE.md", "{status}: ", REPLIES),
    ("docs/REFERENCE.md", "Error code: ", REPLIES),
    ("docs/REFERENCE.md", "STDOUT:", REPLIES),
    (
        "docs/REFERENCE.md",
        "The members of ",
        Other::Test("a_wrong_use_of_a_package_is_answered_with_its_members"),
    ),
    ("docs/REFERENCE.md", "Status: success", REPLIES),
];

/// The check of a block that is neither a command nor a configuration.
#[derive(Clone, Copy, PartialEq)]
enum Other {
    /// `cargo test --doc` compiles and runs the block.
    Doctest,
    /// The block is a drawing and has no check.
    Picture,
    /// Commands in later blocks read this block as a file.
    File(&'static str),
    /// The test with this name checks the block.
    Test(&'static str),
    /// A test with this name in the Python package or in its integrations checks the block.
    Script(&'static str),
}

/// Parts of an output that differ between runs. Each entry has a description, a pattern and a replacement.
const VOLATILE: &[(&str, &str, &str)] = &[
    ("timestamp", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", "{time}"),
    (
        "verdict, whose content another page describes",
        r#""verification":\{"outcome":"(\w+)",.*?"verdict":"[A-Z]+"\}\}"#,
        "\"verification\":{\"outcome\":\"$1\",…}",
    ),
    ("hash or id of a decision", r"\b[0-9a-f]{64}\b", "{hash}"),
    ("run id or job id", r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "{uuid}"),
    ("token", r"qwedmcp_([\w-]{43}|…)", "{token}"),
    ("interpreter", r"/\S+/bin/python\S*", "{python}"),
    ("version", r"\b\d+\.\d+\.\d+(\.\d+)?\b", "{version}"),
    ("duration", r"in \d+\.\d\d s\b", "in {seconds} s"),
    ("folder of a day", r"\b\d{4}-\d\d-\d\d/", "{day}/"),
    ("folder of keys", r"/\S+/keys/", "{keys}/"),
    ("size of a file", r"\(\d+ bytes\)", "({size} bytes)"),
    ("Landlock of this kernel", r"enforced: ABI \d+", "enforced: ABI {n}"),
    ("user", r"(?m)^scripts run as .*$", "scripts run as {user}"),
    ("control groups of this machine", r"(?m)^memory bound by .*$", "memory bound by {what}"),
    ("marks of a traceback, which depend on Python", r"(?m)^[ ^~]*\^[ ^~]*\n", ""),
    ("milliseconds", r#""(duration|queue)_ms":( ?)\d+"#, "\"${1}_ms\":$2{ms}"),
    (
        "what bounds memory here, and whether it is warm",
        r#""(memory_bound|warm)": [^,\n]+"#,
        "\"$1\": {}",
    ),
];

struct Block {
    page: String,
    line: usize,
    language: String,
    text: String,
}

impl Block {
    fn is_configuration(&self) -> bool {
        self.language == "json"
            && ["\"mcpServers\"", "\"servers\""].iter().any(|key| self.text.contains(key))
    }

    fn other(&self) -> Option<Other> {
        let fits = |(page, start, _): &&(&str, &str, Other)| {
            self.page == *page && self.text.starts_with(start)
        };
        OTHERS.iter().find(fits).map(|(.., other)| *other)
    }

    /// Returns the commands, each with the output that the page shows.
    fn commands(&self) -> Vec<(String, String)> {
        let mut commands: Vec<(String, String)> = Vec::new();
        let mut lines = self.text.lines().peekable();
        while let Some(line) = lines.next() {
            let prompt = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# "));
            match (prompt, commands.last_mut()) {
                (Some(command), _) => {
                    let mut command = command.to_owned();
                    while command.ends_with('\\') {
                        command.push('\n');
                        command.push_str(lines.next().unwrap());
                    }
                    commands.push((command, String::new()));
                }
                (None, Some((_, output))) => {
                    output.push_str(line);
                    output.push('\n');
                }
                (None, None) => panic!("{}:{}: no command before {line}", self.page, self.line),
            }
        }
        commands
    }
}

fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    for page in documents() {
        let mut open: Option<(Block, usize)> = None;
        for (number, line) in page.text.lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            match (&mut open, line.trim_start().strip_prefix("```")) {
                (None, Some(language)) => {
                    let language = language.to_owned();
                    let block = Block {
                        page: page.name.clone(),
                        line: number + 1,
                        language,
                        text: String::new(),
                    };
                    open = Some((block, indent));
                }
                (Some(_), Some(_)) => blocks.extend(open.take().map(|(block, _)| block)),
                (Some((block, indent)), None) => {
                    block.text.push_str(line.get(*indent..).unwrap_or_default());
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block does not end", page.name);
    }
    assert!(blocks.len() > 20, "{}", blocks.len());
    blocks
}

/// Returns the reason not to run a command, or `None`.
fn not_run(command: &str) -> Option<&'static str> {
    let listed = NOT_RUN.iter().find(|(start, _)| command.starts_with(start));
    listed.map(|(_, reason)| *reason)
}

/// Returns the command with the binary under test instead of the installed program.
fn as_run(command: &str) -> String {
    let command = command.replace("cargo run -- ", "qwed-mcp ");
    command.replace("~/.cargo/bin/qwed-mcp", "qwed-mcp").replace("/etc/qwed/", "")
}

fn the_action_has_the_inputs_of_the_documents() {
    let action = read("action.yml");
    let (_, inputs) = action.split_once("\ninputs:\n").unwrap();
    let (inputs, _) = inputs.split_once("\nruns:\n").unwrap();
    let blocks = blocks();
    let block =
        blocks.iter().find(|block| block.language == "yaml" && block.text.starts_with("- uses:"));
    let block = block.unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(block.text.starts_with(&format!("- uses: QWED-AI/qwed-mcp@v{version}\n")));
    let used = Regex::new(r"(?m)^    (\w+):").unwrap();
    let used: Vec<&str> =
        used.captures_iter(&block.text).map(|it| it.get(1).unwrap().as_str()).collect();
    assert!(used.len() > 2 && used.contains(&"files"), "{used:?}");
    for input in used {
        assert!(inputs.contains(&format!("  {input}:\n    description: ")), "{input}");
    }
}

fn every_sample_is_run_or_listed() {
    let blocks = blocks();
    let mut used = Vec::new();
    for block in &blocks {
        let place = format!("{}:{}", block.page, block.line);
        match block.language.as_str() {
            _ if block.is_configuration() => {}
            "console" => {
                for (command, _) in block.commands() {
                    let is_ours =
                        as_run(&command).contains("qwed-mcp ") || command.starts_with("sudo tee ");
                    assert!(not_run(&command).is_some() || is_ours, "{place}: {command}");
                    used.push(command);
                }
            }
            // The test `claims_of_the_documents_are_verified` runs these blocks.
            "python verify" => {}
            _ => assert!(block.other().is_some(), "{place}: nothing checks this block"),
        }
        if let Some(Other::Doctest) = block.other() {
            assert_eq!(block.language, "rust", "{place}");
            let included = format!("include_str!(\"../{}\")", block.page);
            assert!(read("src/lib.rs").contains(&included), "{place}: no doctest includes it");
        }
    }
    // Each entry of `NOT_RUN` and `OTHERS` must match a command or a block.
    for start in NOT_RUN.iter().map(|(start, _)| start) {
        assert!(used.iter().any(|command| command.starts_with(start)), "not in any page: {start}");
    }
    for &(page, start, other) in OTHERS {
        let has = blocks.iter().any(|block| block.page == page && block.text.starts_with(start));
        assert!(has, "not in {page}: {start}");
        if let Other::Script(name) = other {
            let tests = [
                "install/package.py",
                "pipelines/client.py",
                "pipelines/integrations.py",
                "pipelines/ray_cluster.py",
            ];
            let mut tests = tests.map(|file| read(format!("tests/{file}"))).into_iter();
            assert!(tests.any(|file| file.contains(&format!("def {name}("))), "no test {name}");
        }
        if let Other::Test(name) = other {
            let tests = [
                read("tests/integration/supply_chain.rs"),
                read("tests/integration/documents/samples.rs"),
                read("src/executor/obstacle.rs"),
                read("tests/integration/terminal.rs"),
                read("tests/integration/verdicts.rs"),
                read("tests/integration/environments.rs"),
                read("tests/integration/skills.rs"),
            ];
            assert!(
                tests.iter().any(|file| file.contains(&format!("fn {name}"))),
                "no test {name}"
            );
        }
    }
}

/// Replaces the volatile parts of a text, and removes white space at the ends of lines.
fn normalised(text: &str) -> String {
    let mut text = format!("{}\n", text.trim_end());
    for &(_, pattern, name) in VOLATILE {
        text = Regex::new(pattern).unwrap().replace_all(&text, name).into_owned();
    }
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// Compares the output of a command with the output in the page. Returns both if they differ.
fn difference(shown: &str, printed: &str) -> Option<String> {
    let (shown, printed) = (normalised(shown), normalised(printed));
    (shown != printed).then(|| format!("shown:\n{shown}\n\nprinted:\n{printed}"))
}

fn a_sample_that_differs_is_found() {
    let printed =
        "token 1 until 2026-12-22T15:18:16.4Z, run 42693d70-1234-1234-1234-123456789012 in 1.07 s";
    let same =
        "token 1 until 2027-01-02T00:00:00Z, run 00000000-0000-0000-0000-000000000000 in 3.21 s";
    assert_eq!(difference(same, printed), None);
    for other in [
        "token 2 until 2026-12-22T15:18:16.4Z, run 42693d70-1234-1234-1234-123456789012 in 1.07 s",
        "token 1 until today, run 42693d70-1234-1234-1234-123456789012 in 1.07 s",
    ] {
        assert!(difference(other, printed).is_some(), "{other}");
    }
}

/// Prepares a folder with the program, the examples and the documents, as the pages assume.
fn prepare(folder: &Path) {
    fs::create_dir(folder.join("bin")).unwrap();
    std::os::unix::fs::symlink(binary(), folder.join("bin/qwed-mcp")).unwrap();
    for name in ["examples", "docs"] {
        std::os::unix::fs::symlink(root().join(name), folder.join(name)).unwrap();
    }
}

/// Runs a command of a page and returns its output, whether it succeeded, and its standard error.
fn run(folder: &Path, command: &str) -> (String, bool, String) {
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let builder = ServerBuilder::new()
        .without("QWED_MCP_TRUSTED_CODE_EXECUTION")
        .variable("PATH", &path)
        .variable("QWED_MCP_DATA_DIR", folder.join("data").to_str().unwrap());
    let prepared = builder.command();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(as_run(command)).current_dir(folder).stdin(Stdio::null()).env_clear();
    shell.envs(prepared.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), output.status.success(), text(output.stderr))
}

fn commands_print_what_the_documents_show() {
    let mut compared = 0;
    for page in documents() {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        for block in blocks().iter().filter(|block| block.page == page.name) {
            if let Some(Other::File(name)) = block.other() {
                fs::write(folder.path().join(name), &block.text).unwrap();
            }
            if block.language != "console" {
                continue;
            }
            for (command, shown) in block.commands() {
                if let Some(file) = command.strip_prefix("sudo tee ") {
                    fs::write(folder.path().join(as_run(file)), shown).unwrap();
                } else if not_run(&command).is_none() {
                    let (printed, has_succeeded, log) = run(folder.path(), &command);
                    let place = format!("{}:{}: {command}", page.name, block.line);
                    if shown.trim().is_empty() {
                        assert!(has_succeeded, "{place}\n{printed}{log}");
                    } else if difference(&shown, &format!("{printed}{log}")).is_none() {
                        compared += 1;
                    } else if let Some(difference) = difference(&shown, &printed) {
                        panic!("{place}\n{difference}\n\nlog:\n{log}");
                    } else {
                        compared += 1;
                    }
                }
            }
        }
    }
    assert!(compared >= 9, "{compared}");
}

/// Checks the configurations of clients. The client must know each field, and the server must know each variable.
fn configurations_of_clients_are_sound() {
    let settings = first_columns(&read("docs/CONFIGURATION.md"));
    let mut checked = 0;
    for block in blocks().into_iter().filter(Block::is_configuration) {
        let place = format!("{}:{}", block.page, block.line);
        let document: Value = serde_json::from_str(&block.text).unwrap();
        let (key, servers) = document.as_object().unwrap().iter().next().unwrap();
        // Only VS Code uses the key `servers`.
        assert_eq!(key == "servers", block.text.contains("\"servers\""), "{place}");
        for server in servers.as_object().unwrap().values() {
            let members = server.as_object().unwrap();
            for name in members.keys() {
                assert!(
                    ["type", "command", "args", "env"].contains(&name.as_str()),
                    "{place}: {name}"
                );
            }
            let command = server["command"].as_str().unwrap();
            let is_absolute = command.starts_with('/') || command.starts_with("${HOME}/");
            assert!(is_absolute || command == "wsl.exe", "{place}: {command}");
            let arguments = server["args"].as_array().into_iter().flatten();
            let assigned = arguments.filter_map(|argument| argument.as_str()?.split_once('='));
            let variables = members.get("env").and_then(Value::as_object).into_iter().flatten();
            let variables = variables.map(|(name, value)| (name.as_str(), value.as_str().unwrap()));
            for (name, value) in variables.chain(assigned) {
                assert!(settings.contains(name), "{place}: {name}");
                let is_path = value.contains('/');
                let is_absolute = value.starts_with('/') || value.starts_with("${HOME}/");
                assert!(!is_path || is_absolute, "{place}: {value}");
                checked += 1;
            }
        }
    }
    assert!(checked >= 8, "{checked}");
}

/// Returns the blocks of docs/REFERENCE.md that begin with this text.
fn of_reference(start: &str) -> String {
    let found = blocks()
        .into_iter()
        .find(|block| block.page == "docs/REFERENCE.md" && block.text.starts_with(start));
    found.unwrap_or_else(|| panic!("{start}")).text.trim_end().to_owned()
}

/// Asserts that a text matches a block, in which each `{…}` stands for any text.
#[track_caller]
fn assert_form(block: &str, text: &str) {
    let placeholder = Regex::new(r"\{[^{}]+\}").unwrap();
    let parts: Vec<_> = placeholder.split(block).map(regex::escape).collect();
    let form = Regex::new(&format!("(?s)^{}$", parts.join(".+"))).unwrap();
    assert!(form.is_match(text), "{block}\n\n{text}");
}

fn replies_are_what_the_documents_show() {
    let mut server = ServerBuilder::new().connect();
    let request: Value = serde_json::from_str(&of_reference("{\"jsonrpc\"")).unwrap();
    let mut reply = server.request(request["method"].as_str().unwrap(), &request["params"]);
    reply["id"] = json!(4);
    // The page shows the reply without the document.
    let verification = &mut reply["result"]["_meta"]["qwed.ai/verification"];
    verification["document"] = json!({});
    let shown: Value = serde_json::from_str(&of_reference("{\n  \"jsonrpc\"")).unwrap();
    let pretty = |value: &Value| normalised(&serde_json::to_string_pretty(value).unwrap());
    assert_eq!(pretty(&reply), pretty(&shown));

    let arguments: Value = serde_json::from_str(&of_reference("{\"code\": ")).unwrap();
    let with_inputs = server.call("execute_python_code", &arguments);
    assert!(with_inputs.text().starts_with("STDOUT:\n2\n"), "{:?}", with_inputs.texts);

    let refused = server.execute("eval('1')");
    assert_form(&of_reference("{status}: "), &refused.texts[0]);
    assert_form(&of_reference("Error code: "), &refused.texts[1]);
    let both = server.execute("import sys\nprint(1)\nprint(2, file=sys.stderr)");
    assert_form(&of_reference("STDOUT:"), both.text());
    let job = server.place("print('done')");
    assert_eq!(server.wait_for_job(&job).text(), of_reference("Status: success"));
    server.finish();
}

fn a_test_run_prints_what_the_documents_show() {
    let shown =
        blocks().into_iter().find(|block| block.text.starts_with("Status: failed")).unwrap();
    let governed = Governed::new("ledger");
    let mut server = governed.connect();
    let reply = run_pytest(&mut server, &governed.user, "tests");
    server.finish();
    let printed = normalised(text(&reply));
    let mut rest = printed.as_str();
    // A line with three dots stands for omitted lines.
    for part in normalised(&shown.text).split("\n…\n") {
        let Some((_, behind)) = rest.split_once(part) else { panic!("{part}\n\nin:\n{printed}") };
        rest = behind;
    }
}
