//! A run of pytest: what a caller may ask for, and what the interpreter is told.

use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};
use thiserror::Error;

/// The most node ids of a run.
const NODE_IDS_MAX: usize = 200;
/// The longest path, node id or expression, in bytes.
const TEXT_BYTES_MAX: usize = 1024;
/// The largest number of failures that can be asked for.
const MAX_FAIL_MAX: u64 = 1_000_000;

/// The name of the `JUnit` XML file, in the folder that tests write to.
pub(super) const JUNIT_FILE: &str = "junit.xml";

/// What the report gets of the room for files: as much as some thousand tests need.
const RESERVE_BYTES: u64 = 1024 * 1024;

/// The exit code of [`START`] where there is no pytest. Pytest itself has 0 to 5.
pub(super) const NO_PYTEST: i32 = 86;

/// Starts pytest as `python -m pytest` does in the folder of the project. RESERVE, PROJECT,
/// FILES and ARGUMENTS are put before it.
const START: &str = r#"
import os, sys
os.chdir(PROJECT)
sys.path.insert(0, PROJECT)
sys.argv[:] = ["pytest", *ARGUMENTS]
try:
    import pytest
except ImportError:
    sys.exit(86)
# The project is read-only.
cache = os.path.join(os.environ["TMPDIR"], "pytest_cache")
# Room for the report, however much the tests leave.
reserve = os.path.join(FILES, ".new-reserve")
try:
    with open(reserve, "xb") as file:
        file.write(bytes(RESERVE))
except OSError:
    pass
class Reserve:
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self):
        try:
            os.unlink(reserve)
        except OSError:
            pass
# xunit1: with the file of each test.
options = ["--color=no", "-o", "cache_dir=" + cache, "-o", "junit_family=xunit1"]
options.append("--junitxml=" + os.path.join(FILES, "junit.xml"))
sys.exit(pytest.main([*options, *ARGUMENTS], plugins=[Reserve()]))
"#;

/// What a caller asks for, checked: paths are in the workspace, and nothing is an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PytestOrder {
    /// The workspace, without links.
    pub(super) workspace: PathBuf,
    /// What pytest is called with.
    arguments: Vec<String>,
}

/// Why arguments are not accepted. Its `Display` is what the model reads.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum InvalidArguments {
    #[error("'{0}' is not an argument of run_pytest; there are {known}", known = KNOWN.join(", "))]
    Unknown(String),
    #[error("'test_path' is missing: name a file or folder of the workspace, for example tests")]
    NoPath,
    #[error("'{name}' must be {expected}")]
    Type { name: &'static str, expected: &'static str },
    #[error("'{0}' is empty, too long, or has control characters")]
    Text(&'static str),
    #[error("'{0}' must be a path within the workspace, relative to its root, without '..'")]
    Outside(&'static str),
    #[error("the workspace of the policy is not there; ask the admin")]
    NoWorkspace,
    #[error("'{0}' names nothing that is in the workspace")]
    Missing(&'static str),
}

const KNOWN: [&str; 6] = ["test_path", "node_ids", "keyword", "markers", "exit_first", "max_fail"];

impl PytestOrder {
    /// Checks the arguments of a call against the workspace at `root`, which is there.
    pub(super) fn parse(
        arguments: &Map<String, Value>,
        root: &Path,
    ) -> Result<Self, InvalidArguments> {
        if let Some(unknown) = arguments.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            return Err(InvalidArguments::Unknown(unknown.chars().take(100).collect()));
        }
        let workspace = fs::canonicalize(root).map_err(|_| InvalidArguments::NoWorkspace)?;
        let given = |name: &'static str| arguments.get(name).filter(|value| !value.is_null());
        let mut order = Vec::new();
        for (name, option) in [("keyword", "-k"), ("markers", "-m")] {
            if let Some(value) = given(name) {
                // In one word: what it begins with does not make an option of it.
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
        let mut targets = vec![target("test_path", text("test_path", path)?, &workspace)?];
        if let Some(value) = given("node_ids") {
            let ids = value.as_array().filter(|ids| ids.len() <= NODE_IDS_MAX);
            let ids = ids.ok_or(expected("node_ids", "a list of at most 200 texts"))?;
            let ids = ids.iter().map(|id| target("node_ids", text("node_ids", id)?, &workspace));
            let ids: Vec<String> = ids.collect::<Result<_, _>>()?;
            if !ids.is_empty() {
                // They are chosen from what the path holds.
                targets = ids;
            }
        }
        order.extend(targets);
        Ok(Self { workspace, arguments: order })
    }

    /// Python that runs it, and leaves its files in the folder `files`, which has so much room.
    pub(super) fn source(&self, files: &Path, files_bytes_max: u64) -> String {
        // A JSON text or list of texts is a Python literal.
        let project = json!(self.workspace.to_string_lossy());
        let files = json!(files.to_string_lossy());
        let arguments = json!(self.arguments);
        let reserve = RESERVE_BYTES.min(files_bytes_max / 4);
        format!(
            "RESERVE = {reserve}\nPROJECT = {project}\nFILES = {files}\nARGUMENTS = {arguments}\n{START}"
        )
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

/// A path in the workspace, maybe with the names of a test behind it (`tests/test_a.py::test_b`),
/// as an absolute path: nothing that pytest could take for an option.
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
        let order = PytestOrder::parse(&arguments, folder)?;
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
            // No option: an absolute path.
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
        let source = order.source(Path::new("/f"), 4_000);
        assert!(source.starts_with("RESERVE = 1000\nPROJECT = \"/w\\\"\\\\"), "{source}");
        assert!(source.contains(&format!("sys.exit({NO_PYTEST})")));
        assert!(source.contains(JUNIT_FILE));
    }
}
