//! Builds this server's entry from the flags of the command line, and recognises existing entries of this server. It
//! never reads or writes a file.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde_json::Value;
use thiserror::Error;

use super::client::{Client, Shape};
use super::edit::{Edit, Member};
use super::program::Launch;

/// The environment variable that opens the admin gate. If its value is `true`, scripts may run.
pub const ALLOW_CODE: &str = "QWED_MCP_TRUSTED_CODE_EXECUTION";
/// The environment variable that names the interpreter for scripts.
pub const PYTHON: &str = "QWED_MCP_PYTHON";
/// The environment variable that limits the characters of a script's output in a result.
const RESULT_CHARS: &str = "QWED_MCP_RESULT_CHARS";
/// The default name of this server's entry.
pub(super) const NAME_DEFAULT: &str = "qwed";

/// The maximum length of a server's name that every client accepts, in characters.
const NAME_CHARS_MAX: usize = 64;

/// The name of a server in a client's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerName(String);

/// The error for a name that at least one client does not accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected 1 to 64 letters, digits, - and _")]
pub struct ServerNameError;

impl FromStr for ServerName {
    type Err = ServerNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let fits = (1..=NAME_CHARS_MAX).contains(&text.len()) && text.chars().all(is_known);
        if fits { Ok(Self(text.to_owned())) } else { Err(ServerNameError) }
    }
}

impl ServerName {
    /// Returns the default name of the entry.
    pub fn usual() -> Self {
        Self(NAME_DEFAULT.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The launchers: programs that start another program, which their arguments name. The second text of each row is the
/// reason why an entry may contain the launcher.
const LAUNCHERS: &[(&str, &str)] = &[
    ("uvx", "the documents of 0.2.x"),
    ("uv", "`uv run` and `uv tool run`"),
    ("pipx", "`pipx run`"),
    ("wsl", "a client on Windows"),
    ("env", "variables in the command"),
];

/// The Python modules that start the server in version 0.2.x of the package.
const MODULES: [&str; 3] = ["qwed_mcp", "qwed_mcp.server", "qwed_mcp.__main__"];
/// The files of the modules in [`MODULES`], relative to the folder that contains the package.
const MODULE_FILES: [&str; 2] = ["qwed_mcp/server.py", "qwed_mcp/__main__.py"];

/// The name of this program and of its Python package.
const PROGRAM: &str = "qwed-mcp";

/// The command line of an entry: the program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandLine(Vec<String>);

impl CommandLine {
    /// Reads the command line of an entry. Supports the entry shapes of all clients whose files this program can edit.
    pub(crate) fn of(members: &Value) -> Option<Self> {
        let command = members.get("command")?;
        let texts = |value: &Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let mut words = match command {
            Value::String(program) => vec![program.clone()],
            Value::Array(_) => texts(command)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
        };
        words.extend(members.get("args").and_then(texts).unwrap_or_default());
        Some(Self(words))
    }

    /// Returns whether the command line starts this server, in any version.
    pub(super) fn is_ours(&self) -> bool {
        let Some((program, arguments)) = self.0.split_first() else { return false };
        let stem = stem(program);
        let is_module = |words: &[String]| matches!(words, [option, module] if option == "-m" && names_module(module));
        let runs_module = arguments.windows(2).any(is_module)
            || arguments.iter().any(|argument| names_module_file(argument));
        let is_python =
            ["python", "pypy"].iter().any(|name| stem.starts_with(name)) || stem == "py";
        let is_launcher = LAUNCHERS.iter().any(|(name, _)| *name == stem);
        stem == PROGRAM
            || (is_python && runs_module)
            || (is_launcher && (runs_module || arguments.iter().any(|word| names_program(word))))
    }

    /// Returns whether the command line starts the server as entries of version 0.2.x did: by a name that is looked up
    /// on `PATH`, by Python, or by a launcher without a pinned version.
    pub(crate) fn is_of_older_version(&self) -> bool {
        let Some(program) = self.0.first() else { return false };
        let is_path = program.contains(['/', '\\']) && stem(program) == PROGRAM;
        let is_pinned = self.0.iter().any(|word| word.starts_with("qwed-mcp[sdk]=="));
        self.is_ours() && !is_path && !is_pinned && stem(program) != "wsl"
    }

    /// Returns the interpreter that the command line starts, if it is an absolute path.
    pub(crate) fn python(&self) -> Option<&str> {
        let program = self.0.first()?;
        (stem(program).starts_with("python") && Path::new(program).is_absolute())
            .then_some(program.as_str())
    }

    /// Returns the program, or an empty text if the command line is empty.
    pub(crate) fn program(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    /// Returns the words of the command line that are not secret: the program, launchers, names of this server, and
    /// names of options. Leaves out all other words, because they may be secrets.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &str> {
        let words = self.0.iter().map(String::as_str).enumerate();
        let is_shown = |(at, word): &(usize, &str)| {
            let is_plain = !word.contains('=') && !word.contains("://");
            let is_known = is_option(word)
                || LAUNCHERS.iter().any(|(name, _)| *name == stem(word))
                || names_program(word)
                || names_module(word)
                || names_module_file(word);
            is_plain && (*at == 0 || is_known)
        };
        words.filter(is_shown).map(|(_, word)| word)
    }

    /// Returns whether the command line sets a variable to `true` by means of `env`, as entries for WSL do.
    pub(super) fn sets_true(&self, name: &str) -> bool {
        let is_true = |value: &str| value.eq_ignore_ascii_case("true");
        self.assignments().iter().any(|(known, value)| known == name && is_true(value))
    }

    /// Returns the variables that the command line sets by means of `env`, as entries for WSL do.
    fn assignments(&self) -> Vec<(String, String)> {
        let behind_env = self.0.iter().skip_while(|word| stem(word) != "env").skip(1);
        let pairs = behind_env.map_while(|word| word.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shown().collect::<Vec<_>>().join(" "))
    }
}

/// Returns the name of a program in lower case, without its folder and the suffix `.exe`.
fn stem(program: &str) -> String {
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default().to_lowercase();
    name.strip_suffix(".exe").unwrap_or(&name).to_owned()
}

/// Returns whether a word is a path of this program, or a requirement for its Python package, such as `qwed-mcp==0.3`.
fn names_program(word: &str) -> bool {
    let behind = word.strip_prefix(PROGRAM);
    let is_requirement = behind.is_some_and(|rest| {
        rest.is_empty() || rest.starts_with(['[', '=', '@', '<', '>', '~', '!', ' '])
    });
    is_requirement || stem(word) == PROGRAM
}

fn names_module(word: &str) -> bool {
    MODULES.contains(&word)
}

fn names_module_file(word: &str) -> bool {
    let word = word.replace('\\', "/");
    MODULE_FILES.iter().any(|file| word.ends_with(file))
}

/// Returns whether a word is only the name of an option, without a value.
fn is_option(word: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_lowercase() || c == '-';
    let is_short = word.len() == 2 && word.starts_with('-');
    is_short || word.strip_prefix("--").is_some_and(|name| name.chars().all(is_of_name))
}

/// The texts that this program writes into entries, regardless of the flags. These texts are not secret.
const CONSTANTS: [&str; 8] = ["stdio", "custom", "local", "*", "wsl.exe", "-d", "--exec", "env"];

/// Returns the texts of an entry that are not secret: some words of its command line, and values that this program
/// wrote. Leaves out all other values, because they may be secrets.
pub(super) fn texts_shown(members: &Value, distribution: Option<&str>) -> Vec<String> {
    let is_own = |name: &str, value: &str| match name {
        ALLOW_CODE => value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false"),
        PYTHON => value.starts_with('/'),
        RESULT_CHARS => value.parse::<u32>().is_ok(),
        _ => false,
    };
    let variables = ["env", "environment", "envs"].into_iter().filter_map(|name| members.get(name));
    let variables = variables.filter_map(Value::as_object).flatten();
    let values = variables.filter_map(|(name, value)| {
        value.as_str().filter(|value| is_own(name, value)).map(str::to_owned)
    });
    let line = CommandLine::of(members);
    let assignments = line.as_ref().map(CommandLine::assignments).unwrap_or_default();
    let assignments = assignments.into_iter().filter(|(name, value)| is_own(name, value));
    let assignments = assignments.map(|(name, value)| format!("{name}={value}"));
    let words = line.iter().flat_map(CommandLine::shown).chain(CONSTANTS).chain(distribution);
    words.map(str::to_owned).chain(values).chain(assignments).collect()
}

/// The parts of the entry that the flags of the command line determine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted<'a> {
    pub launch: &'a Launch,
    /// The environment variables that the flags set.
    pub variables: &'a [(String, String)],
    /// The WSL distribution in which a client on Windows starts the server.
    pub distribution: Option<&'a str>,
    /// The value of `QWED_MCP_RESULT_CHARS` for an entry that does not set it yet.
    pub result_chars: Option<u32>,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(
        client: &Client,
        launch: &'a Launch,
        variables: &'a [(String, String)],
        distribution: Option<&'a str>,
    ) -> Self {
        Self { launch, variables, distribution, result_chars: client.result_chars }
    }

    /// Returns the texts of the new entry that are not secret: values from the flags, and constants of this program.
    pub(crate) fn shown(&self) -> Vec<String> {
        let Launch { command, arguments, .. } = self.launch;
        let variables: Vec<_> = self.variables.iter().cloned().chain(self.default()).collect();
        let assignments = variables.iter().map(|(name, value)| format!("{name}={value}"));
        let values = variables.iter().map(|(_, value)| value.clone());
        let known = CONSTANTS.into_iter().chain(self.distribution).map(str::to_owned);
        let launch = [command.clone()].into_iter().chain(arguments.iter().cloned());
        known.chain(launch).chain(assignments).chain(values).collect()
    }

    /// Returns the variable that the entry sets by default, with its value.
    fn default(&self) -> Option<(String, String)> {
        self.result_chars.map(|chars| (RESULT_CHARS.to_owned(), chars.to_string()))
    }

    /// Returns the edits that create the entry, or change an existing entry. `known` is the command line of the
    /// existing entry, if there is one.
    pub(super) fn edits(&self, shape: Shape, known: Option<&CommandLine>) -> Vec<Edit> {
        let mut words = vec![self.launch.command.clone()];
        words.extend(self.launch.arguments.iter().cloned());
        let mut variables = self.variables.to_vec();
        let mut default = self.default();
        if let Some(distribution) = self.distribution {
            // Let `env` set the variables, because WSL does not pass an entry's variables on to the program.
            let mut assignments = known.map(CommandLine::assignments).unwrap_or_default();
            let is_set = |name: &str| assignments.iter().any(|(known, _)| known == name);
            variables.extend(default.take().filter(|(name, _)| !is_set(name)));
            assignments.retain(|(name, _)| variables.iter().all(|(known, _)| known != name));
            assignments.append(&mut variables);
            let start = ["wsl.exe", "-d", distribution, "--exec", "env"].map(str::to_owned);
            let assignments = assignments.iter().map(|(name, value)| format!("{name}={value}"));
            words = start.into_iter().chain(assignments).chain(words).collect();
        }
        let (command, arguments) = words
            .split_first()
            .map_or((String::new(), Vec::new()), |words| (words.0.clone(), words.1.to_vec()));
        let text = |value: &str| Member::Text(value.to_owned());
        let all = || Member::List(vec!["*".to_owned()]);
        let (before, mut edits, after, environment) = match shape {
            Shape::Plain => (None, vec![], vec![], "env"),
            Shape::Typed => (Some(("type", text("stdio"))), vec![], vec![], "env"),
            Shape::Zed => (Some(("source", text("custom"))), vec![], vec![], "env"),
            Shape::Copilot => {
                (Some(("type", text("stdio"))), vec![], vec![("tools", all())], "env")
            }
            Shape::OpenCode => {
                let command = Edit::Set("command", Member::List(words.clone()));
                let enabled = vec![("enabled", Member::Yes)];
                (Some(("type", text("local"))), vec![command], enabled, "environment")
            }
            Shape::Goose => {
                let command = vec![
                    Edit::Set("cmd", Member::Text(command.clone())),
                    Edit::Set("args", Member::List(arguments.clone())),
                ];
                let enabled = vec![("enabled", Member::Yes)];
                (Some(("type", text("stdio"))), command, enabled, "envs")
            }
        };
        if edits.is_empty() {
            edits = vec![
                Edit::Set("command", Member::Text(command)),
                Edit::Set("args", Member::List(arguments)),
            ];
        }
        let member = |(name, value)| Edit::Default(name, value);
        let variables =
            variables.into_iter().map(|(name, value)| Edit::SetIn(environment, name, value));
        let default = default.map(|(name, value)| Edit::DefaultIn(environment, name, value));
        let before = before.into_iter().map(member);
        let after = after.into_iter().map(member);
        before.chain(edits).chain(variables).chain(default).chain(after).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_of_every_version_are_recognised_and_no_others() {
        for (members, is_ours, is_older) in [
            (json!({ "command": "qwed-mcp" }), true, true),
            (json!({ "command": "/opt/x/bin/qwed-mcp", "args": ["serve"] }), true, false),
            (json!({ "command": "C:\\x\\Scripts\\qwed-mcp.exe" }), true, false),
            (json!({ "command": "python", "args": ["-m", "qwed_mcp.server"] }), true, true),
            (
                json!({ "command": "/v/bin/python3.11", "args": ["-I", "-m", "qwed_mcp"] }),
                true,
                true,
            ),
            (json!({ "command": "py", "args": ["C:\\q\\qwed_mcp\\server.py"] }), true, true),
            (json!({ "command": "uvx", "args": ["qwed-mcp"] }), true, true),
            (json!({ "command": "uvx", "args": ["qwed-mcp@latest"] }), true, true),
            (
                json!({ "command": "uvx", "args": ["--from", "qwed-mcp[sdk]==0.3.0", "qwed-mcp"] }),
                true,
                false,
            ),
            (
                json!({ "command": "uv", "args": ["run", "python", "-m", "qwed_mcp.server"] }),
                true,
                true,
            ),
            (json!({ "command": ["uvx", "qwed-mcp"] }), true, true),
            (
                json!({ "command": "wsl.exe", "args": ["--exec", "env", "A=b", "/x/qwed-mcp"] }),
                true,
                false,
            ),
            (json!({ "command": "python", "args": ["-m", "qwed_mcp_other"] }), false, false),
            (json!({ "command": "uvx", "args": ["qwed-mcp-other"] }), false, false),
            (json!({ "command": "/x/qwed-mcp-other" }), false, false),
            (json!({ "command": "node", "args": ["/x/qwed-mcp"] }), false, false),
            (json!({ "command": { "path": "qwed-mcp" } }), false, false),
            (json!({ "url": "https://example.org/qwed-mcp" }), false, false),
            (json!("qwed-mcp"), false, false),
        ] {
            let line = CommandLine::of(&members);
            assert_eq!(line.as_ref().is_some_and(CommandLine::is_ours), is_ours, "{members}");
            let older = line.as_ref().is_some_and(CommandLine::is_of_older_version);
            assert_eq!(older, is_older, "{members}");
        }
    }

    #[test]
    fn words_that_may_be_secrets_are_not_shown() {
        let words =
            ["--exec", "env", "QWED_MCP_AUTH_TOKEN=x", "--index", "https://a:b@c", "qwed-mcp"];
        let line = CommandLine::of(&json!({ "command": "wsl.exe", "args": words })).unwrap();
        assert_eq!(line.to_string(), "wsl.exe --exec env --index qwed-mcp");
        let words = ["-I", "-m", "qwed_mcp", "--auth-token", "s1", "-ps2", "--S3", "s4/qwed-mcpx"];
        let line = CommandLine::of(&json!({ "command": "/v/bin/python", "args": words })).unwrap();
        assert_eq!(line.to_string(), "/v/bin/python -I -m qwed_mcp --auth-token");
    }

    #[test]
    fn names_are_those_that_every_client_takes() {
        for (name, is_valid) in [
            ("qwed", true),
            ("q_w-1", true),
            (&*"a".repeat(64), true),
            (&*"a".repeat(65), false),
            ("", false),
            ("a.b", false),
            ("a b", false),
            ("é", false),
            ("a\"b", false),
        ] {
            assert_eq!(name.parse::<ServerName>().is_ok(), is_valid, "{name}");
        }
    }
}
