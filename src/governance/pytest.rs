//! Prepares a run of pytest: checks the caller's arguments, and generates the Python source that starts pytest. Never
//! starts a process.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};
use thiserror::Error;

use super::judge::Judge;
use super::level::Level;
use super::summary::FAILURES_MAX;

/// The maximum number of node ids in a call.
const NODE_IDS_MAX: usize = 200;
/// The limit for each path, node id and expression, in bytes.
const TEXT_BYTES_MAX: usize = 1024;
/// The maximum value of the argument `max_fail`.
const MAX_FAIL_MAX: u64 = 1_000_000;

/// The space that is reserved for reports in the folder for artifacts, in bytes. The server's own reports need a few
/// hundred kilobytes. The other bytes are enough for the `junit.xml` of a few thousand tests.
const RESERVE_BYTES: u64 = 2 * 1024 * 1024;

/// The name of the file with the outcomes of the tests, in the folder for artifacts.
pub(super) const REPORT_FILE: &str = ".new-report";
/// The name of the file with the record of how pytest ended, in the folder for artifacts. The file is created with NUL
/// bytes, which remain if pytest does not reach its end.
pub(super) const ENDED_FILE: &str = ".new-ended";
/// The name of the file that occupies up to [`RESERVE_BYTES`] in the folder for artifacts until the reports are
/// written, so that tests cannot fill the folder.
pub(super) const RESERVE_FILE: &str = ".new-reserve";

/// The exit code of [`COMMON`] if pytest cannot be imported. The exit codes of pytest itself are 0 to 5.
pub(super) const NO_PYTEST: i32 = 86;

/// The parts of the Python source that starts pytest. [`PytestOrder::source`] joins them.
const COMMON: &str = include_str!("pytest/common.py");
const IN_PROCESS: &str = include_str!("pytest/in_process.py");
const ISOLATION: &str = include_str!("pytest/isolation.py");
const CONTROL: &str = include_str!("pytest/control.py");
const OBSERVER: &str = include_str!("pytest/observer.py");

/// The validated arguments of a run. All paths are in the workspace or in the judge's folder of tests. pytest cannot
/// interpret a value as an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PytestOrder {
    /// The canonical path of the workspace.
    pub(super) workspace: PathBuf,
    /// The arguments for pytest.
    arguments: Vec<String>,
}

/// The reason why arguments are refused. The model gets the `Display` text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum InvalidArguments {
    #[error("'{0}' is not an argument of run_pytest; its arguments are {known}", known = KNOWN.join(", "))]
    Unknown(String),
    #[error("'test_path' is missing: name a file or folder of the workspace, for example tests")]
    NoPath,
    #[error("'{name}' must be {expected}")]
    Type { name: &'static str, expected: &'static str },
    #[error("'{0}' is empty, too long, or has control characters")]
    Text(&'static str),
    #[error("'{0}' must be a path within the workspace, relative to its root, without '..'")]
    Outside(&'static str),
    #[error("the workspace of the policy does not exist; ask the admin")]
    NoWorkspace,
    #[error("'{0}' does not exist in the workspace")]
    Missing(&'static str),
}

const KNOWN: [&str; 6] = ["test_path", "node_ids", "keyword", "markers", "exit_first", "max_fail"];

impl PytestOrder {
    /// Checks the arguments of a call. Paths in the arguments are relative to the judge's folder of tests. If the judge
    /// has no such folder, the paths are relative to the workspace `root`.
    pub(super) fn parse(
        arguments: &Map<String, Value>,
        root: &Path,
        judge: &Judge,
    ) -> Result<Self, InvalidArguments> {
        if let Some(unknown) = arguments.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            return Err(InvalidArguments::Unknown(unknown.chars().take(100).collect()));
        }
        let workspace = fs::canonicalize(root).map_err(|_| InvalidArguments::NoWorkspace)?;
        let tests = judge.pinned.as_ref().map_or(&workspace, |pinned| &pinned.folder);
        let given = |name: &'static str| arguments.get(name).filter(|value| !value.is_null());
        let mut order = Vec::new();
        for (name, option) in [("keyword", "-k"), ("markers", "-m")] {
            if let Some(value) = given(name) {
                // Put the option and the value into one argument, so that pytest cannot interpret the value as an
                // option.
                order.push(format!("{option}{}", text(name, value)?));
            }
        }
        match given("exit_first") {
            None | Some(Value::Bool(false)) => {}
            Some(Value::Bool(true)) => order.push("-x".to_owned()),
            Some(_) => return Err(expected("exit_first", "true or false")),
        }
        if let Some(value) = given("max_fail") {
            let count = value.as_u64().filter(|count| (1..=MAX_FAIL_MAX).contains(count));
            let count = count.ok_or(expected("max_fail", "a whole number from 1"))?;
            order.push(format!("--maxfail={count}"));
        }
        let path = given("test_path").ok_or(InvalidArguments::NoPath)?;
        let mut targets = vec![target("test_path", text("test_path", path)?, tests)?];
        if let Some(value) = given("node_ids") {
            let ids = value.as_array().filter(|ids| ids.len() <= NODE_IDS_MAX);
            let ids = ids.ok_or(expected("node_ids", "a list of at most 200 texts"))?;
            let ids = ids.iter().map(|id| target("node_ids", text("node_ids", id)?, tests));
            let ids: Vec<String> = ids.collect::<Result<_, _>>()?;
            if !ids.is_empty() {
                // The ids select tests, so they replace the path.
                targets = ids;
            }
        }
        order.extend(targets);
        Ok(Self { workspace, arguments: order })
    }

    /// Returns the Python source that runs pytest. pytest leaves its files in the folder `files`, which has at most
    /// `files_bytes_max` bytes. `timeout` is the time limit of the run. Tests can also import from the entries of
    /// `python_path` that are in the workspace.
    pub(super) fn source(
        &self,
        judge: &Judge,
        python_path: &PythonPath,
        (files, files_bytes_max): (&Path, u64),
        timeout: Duration,
    ) -> String {
        // A string or a list of strings in JSON is also a Python literal.
        let project = json!(self.workspace.to_string_lossy());
        let paths = |paths: &[PathBuf]| {
            let paths = paths.iter().map(|path| path.to_string_lossy());
            json!(paths.collect::<Vec<_>>())
        };
        let (first, last) = (paths(&python_path.inside), paths(&python_path.sources));
        let files = json!(files.to_string_lossy());
        let arguments = json!(self.arguments);
        let reserve = RESERVE_BYTES.min(files_bytes_max / 4);
        let given = format!(
            "PROJECT = {project}\nFIRST = {first}\nLAST = {last}\nFILES = {files}\n\
             RESERVE = {reserve}\nFAILURES_MAX = {FAILURES_MAX}\nARGUMENTS = {arguments}\n"
        );
        let Some(pinned) = &judge.pinned else {
            return format!("{given}TESTS = None\n{COMMON}{IN_PROCESS}");
        };
        let tests = json!(pinned.folder.to_string_lossy());
        let none = || ("None".to_owned(), "None".to_owned());
        let (listed, kinds) = judge.list().map_or_else(none, |list| {
            let ids: Vec<&str> = list.tests.iter().map(|test| test.id.as_str()).collect();
            (json!(ids).to_string(), json!(list.kinds).to_string())
        });
        let literal = |is_true| if is_true { "True" } else { "False" };
        let is_isolated = literal(judge.level == Level::Isolated);
        let has_control = literal(judge.has_control);
        let seconds = timeout.as_secs_f64();
        format!(
            "{given}TESTS = {tests}\nLISTED = {listed}\nKINDS = {kinds}\nIS_ISOLATED = {is_isolated}\n\
             HAS_CONTROL = {has_control}\nTIME_S = {seconds}\n{COMMON}{ISOLATION}{CONTROL}{OBSERVER}"
        )
    }
}

/// A module search path, split into parts. Entries in the workspace are added only after pytest was imported, so that
/// code in the workspace cannot replace pytest's own modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PythonPath {
    /// The entries in the workspace, as canonical paths.
    inside: Vec<PathBuf>,
    /// The workspace's folder `src`. Empty if `src` is missing, is itself a package, or is already in `inside`.
    sources: Vec<PathBuf>,
    /// All other entries, in the format of `PYTHONPATH`; `None` if the server has no variable `PYTHONPATH`.
    outside: Option<OsString>,
}

impl PythonPath {
    /// Splits the server's own `PYTHONPATH`. `workspace` must be a canonical path. Relative entries are relative to the
    /// workspace, because pytest starts in the workspace.
    pub(super) fn of_server(workspace: &Path) -> Self {
        Self::parted(std::env::var_os("PYTHONPATH").as_deref(), workspace)
    }

    /// Returns `PYTHONPATH` for the start of pytest; `None` if the server has no such variable.
    pub(super) fn variable(&self) -> Option<(&'static str, String)> {
        Some(("PYTHONPATH", self.outside.as_ref()?.to_string_lossy().into_owned()))
    }

    fn parted(python_path: Option<&OsStr>, workspace: &Path) -> Self {
        let mut inside = Vec::new();
        let mut outside = Vec::new();
        let entries = std::env::split_paths(python_path.unwrap_or_default());
        let entries = entries.filter(|entry| !entry.as_os_str().is_empty());
        // If `src` is itself a package, it is imported from its parent folder, so `src` must not be in the search path.
        let sources = workspace.join("src");
        let is_layout = sources.is_dir() && !sources.join("__init__.py").exists();
        for entry in entries {
            let real = fs::canonicalize(workspace.join(&entry)).ok();
            match real.filter(|real| real.starts_with(workspace)) {
                Some(real) if inside.contains(&real) => {}
                Some(real) => inside.push(real),
                None => outside.push(entry),
            }
        }
        // `join_paths` cannot fail, because the entries come from a valid search path.
        let outside = python_path.map(|_| std::env::join_paths(outside).unwrap_or_default());
        let sources = is_layout.then_some(sources);
        let sources = sources.filter(|sources| !inside.contains(sources)).into_iter().collect();
        Self { inside, sources, outside }
    }
}

fn expected(name: &'static str, expected: &'static str) -> InvalidArguments {
    InvalidArguments::Type { name, expected }
}

fn text<'v>(name: &'static str, value: &'v Value) -> Result<&'v str, InvalidArguments> {
    let is_list = name == "node_ids";
    let kind = if is_list { "a list of at most 200 texts" } else { "a text" };
    let text = value.as_str().ok_or(expected(name, kind))?;
    let is_fit = !text.trim().is_empty()
        && text.len() <= TEXT_BYTES_MAX
        && !text.chars().any(char::is_control);
    if is_fit { Ok(text) } else { Err(InvalidArguments::Text(name)) }
}

/// Resolves a path in the workspace to an absolute path, which pytest cannot interpret as an option. In `text`, the
/// name of a test may follow the path: `tests/test_a.py::test_b`.
fn target(name: &'static str, text: &str, workspace: &Path) -> Result<String, InvalidArguments> {
    let (path, names) = match text.split_once("::") {
        Some((path, names)) => (path, Some(names)),
        None => (text, None),
    };
    let path = Path::new(path);
    let is_below = |path: &Path| {
        path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
    };
    let relative = path.strip_prefix(workspace).unwrap_or(path);
    if !is_below(relative) {
        return Err(InvalidArguments::Outside(name));
    }
    let real =
        fs::canonicalize(workspace.join(relative)).map_err(|_| InvalidArguments::Missing(name))?;
    if !real.starts_with(workspace) {
        return Err(InvalidArguments::Outside(name));
    }
    let real = real.to_str().ok_or(InvalidArguments::Text(name))?;
    Ok(match names {
        Some(names) => format!("{real}::{names}"),
        None => real.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn workspace() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tests")).unwrap();
        fs::write(folder.path().join("tests/test_a.py"), "").unwrap();
        fs::write(folder.path().join("-x"), "").unwrap();
        symlink("/etc", folder.path().join("out")).unwrap();
        symlink("tests", folder.path().join("in")).unwrap();
        folder
    }

    fn parse(folder: &Path, arguments: Value) -> Result<Vec<String>, InvalidArguments> {
        let Value::Object(arguments) = arguments else { panic!("{arguments}") };
        let order = PytestOrder::parse(&arguments, folder, &Judge::default())?;
        let root = fs::canonicalize(folder).unwrap();
        let root = root.to_str().unwrap();
        Ok(order.arguments.iter().map(|argument| argument.replace(root, "R")).collect())
    }

    #[test]
    fn what_is_allowed_becomes_pytests_arguments() {
        let folder = workspace();
        for (arguments, expected) in [
            (json!({ "test_path": "tests" }), vec!["R/tests"]),
            (json!({ "test_path": "./tests/" }), vec!["R/tests"]),
            (json!({ "test_path": "." }), vec!["R"]),
            (json!({ "test_path": "in/test_a.py" }), vec!["R/tests/test_a.py"]),
            (json!({ "test_path": folder.path().join("tests") }), vec!["R/tests"]),
            // pytest cannot interpret this value as an option, because the value becomes an absolute path.
            (json!({ "test_path": "-x" }), vec!["R/-x"]),
            (
                json!({ "test_path": "tests/test_a.py::T::t[a-1]" }),
                vec!["R/tests/test_a.py::T::t[a-1]"],
            ),
            (
                json!({
                    "test_path": "tests", "keyword": "a and not b", "markers": "slow",
                    "exit_first": true, "max_fail": 3, "node_ids": null
                }),
                vec!["-ka and not b", "-mslow", "-x", "--maxfail=3", "R/tests"],
            ),
            (
                json!({ "test_path": "tests", "node_ids": ["tests/test_a.py::a"] }),
                vec!["R/tests/test_a.py::a"],
            ),
        ] {
            let found = parse(folder.path(), arguments.clone());
            assert_eq!(found, Ok(expected.into_iter().map(str::to_owned).collect()), "{arguments}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_the_name_of_the_argument() {
        let folder = workspace();
        let outside = InvalidArguments::Outside("test_path");
        let long = "x".repeat(2000);
        for (arguments, error) in [
            (json!({}), InvalidArguments::NoPath),
            (json!({ "test_path": null }), InvalidArguments::NoPath),
            (json!({ "test_path": 7 }), expected("test_path", "a text")),
            (json!({ "test_path": "" }), InvalidArguments::Text("test_path")),
            (json!({ "test_path": "a\0b" }), InvalidArguments::Text("test_path")),
            (json!({ "test_path": "a\nb" }), InvalidArguments::Text("test_path")),
            (json!({ "test_path": long }), InvalidArguments::Text("test_path")),
            (json!({ "test_path": "/etc/passwd" }), outside.clone()),
            (json!({ "test_path": "../x" }), outside.clone()),
            (json!({ "test_path": "tests/../../x" }), outside.clone()),
            (json!({ "test_path": "out/passwd" }), outside.clone()),
            (json!({ "test_path": "out/passwd::x" }), outside),
            (json!({ "test_path": "missing" }), InvalidArguments::Missing("test_path")),
            (
                json!({ "test_path": "tests", "node_ids": ["/etc/passwd::x"] }),
                InvalidArguments::Outside("node_ids"),
            ),
            (
                json!({ "test_path": "tests", "node_ids": "x" }),
                expected("node_ids", "a list of at most 200 texts"),
            ),
            (
                json!({ "test_path": "tests", "exit_first": 1 }),
                expected("exit_first", "true or false"),
            ),
            (
                json!({ "test_path": "tests", "max_fail": 0 }),
                expected("max_fail", "a whole number from 1"),
            ),
            (json!({ "test_path": "tests", "keyword": [] }), expected("keyword", "a text")),
            (
                json!({ "test_path": "tests", "args": ["-p", "evil"] }),
                InvalidArguments::Unknown("args".to_owned()),
            ),
        ] {
            assert_eq!(parse(folder.path(), arguments.clone()), Err(error), "{arguments}");
        }
    }

    #[test]
    fn texts_are_python_literals_whatever_they_hold() {
        let order = PytestOrder {
            workspace: "/w\"\\\u{2028}é".into(),
            arguments: vec!["a'\"\\n\u{7f}😀".to_owned()],
        };
        let inside = vec!["/w\"/lib".into()];
        let sources = vec!["/w\"/src".into()];
        let paths = PythonPath { inside, sources, outside: None };
        let source = order.source(
            &Judge::default(),
            &paths,
            (Path::new("/f"), 4_000),
            Duration::from_secs(1),
        );
        let start = "PROJECT = \"/w\\\"\\\\";
        assert!(source.starts_with(start), "{source}");
        let first_and_last = "FIRST = [\"/w\\\"/lib\"]\nLAST = [\"/w\\\"/src\"]\n";
        assert!(source.contains(first_and_last), "{source}");
        assert!(source.contains("RESERVE = 1000\n"), "{source}");
        assert!(source.contains(&format!("sys.exit({NO_PYTEST})")));
        for file in [REPORT_FILE, ENDED_FILE, RESERVE_FILE] {
            assert!(source.contains(&format!("{file:?}")), "{file}");
        }
    }

    #[test]
    fn folders_of_the_workspace_are_taken_out_of_the_search_path() {
        let machine = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(machine.path()).unwrap();
        let workspace = root.join("ws");
        fs::create_dir_all(workspace.join("src/package")).unwrap();
        fs::create_dir_all(workspace.join("lib")).unwrap();
        fs::create_dir_all(root.join("other")).unwrap();
        symlink(workspace.join("lib"), root.join("link")).unwrap();
        let entries = ["lib", "", "/missing"].map(PathBuf::from).into_iter();
        let entries = entries.chain(["other", "link", "ws/src"].map(|name| root.join(name)));
        let python_path = std::env::join_paths(entries).unwrap();
        let parted = PythonPath::parted(Some(&python_path), &workspace);
        assert_eq!(parted.inside, ["lib", "src"].map(|name| workspace.join(name)));
        assert!(parted.sources.is_empty(), "it is among them");
        assert_eq!(PythonPath::parted(None, &workspace).sources, [workspace.join("src")]);
        let outside = [PathBuf::from("/missing"), root.join("other")];
        assert_eq!(parted.outside, Some(std::env::join_paths(outside).unwrap()));

        // With this file, `src` is itself a package.
        fs::write(workspace.join("src/__init__.py"), "").unwrap();
        let parted = PythonPath::parted(None, &workspace);
        assert!(parted.inside.is_empty() && parted.sources.is_empty());
        assert!(parted.variable().is_none());
    }

    #[test]
    fn a_bound_of_the_arguments_is_the_last_that_is_taken() {
        let folder = workspace();
        let with = |name: &str, value: Value| {
            let mut arguments = json!({ "test_path": "tests" });
            arguments[name] = value;
            parse(folder.path(), arguments)
        };
        let ids = |count: usize| json!(vec!["tests/test_a.py::a"; count]);
        assert_eq!(with("node_ids", ids(NODE_IDS_MAX)).unwrap().len(), NODE_IDS_MAX);
        let too_many = expected("node_ids", "a list of at most 200 texts");
        assert_eq!(with("node_ids", ids(NODE_IDS_MAX + 1)), Err(too_many));
        // An empty list selects no tests, so the path is used.
        assert_eq!(with("node_ids", json!([])).unwrap(), ["R/tests"]);
        assert!(with("keyword", json!("x".repeat(TEXT_BYTES_MAX))).is_ok());
        assert!(with("keyword", json!("x".repeat(TEXT_BYTES_MAX + 1))).is_err());
        assert!(with("max_fail", json!(MAX_FAIL_MAX)).is_ok());
        assert!(with("max_fail", json!(MAX_FAIL_MAX + 1)).is_err());
        let shown = InvalidArguments::Unknown("é".repeat(100));
        assert_eq!(with(&"é".repeat(5_000), json!(1)), Err(shown));
    }

    #[test]
    fn a_search_path_without_folders_of_the_workspace_is_set_anew() {
        let workspace = tempfile::tempdir().unwrap();
        let workspace = fs::canonicalize(workspace.path()).unwrap();
        let parted = PythonPath::parted(Some(OsStr::new("/a:/b")), &workspace);
        assert_eq!(parted.variable(), Some(("PYTHONPATH", "/a:/b".to_owned())));
        // The workspace has no `src`, so the list `sources` is empty.
        assert!(parted.sources.is_empty() && parted.inside.is_empty());
    }
}
