//! Tests the section `[judge]` of a policy, with which an admin's own tests decide whether the code in a workspace
//! passes. At each level of protection, these tests check that certain attacks are detected and that certain test
//! suites are accepted.
//!
//! Each attack contains wrong code under test. The first test of this file shows that this code passes in plain pytest.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::harness::{McpProcess, python};

use super::{
    Governed, assert_refused, call_as, counted, evidence, quoted, run_id, run_pytest, text,
};

tests! {
    needs [Packages, Time]:
        every_attack_passes_in_a_plain_pytest;
    needs [Sandbox, Packages]:
        nothing_passes_of_which_no_test_passed,
        plugins_and_compiled_files_of_the_workspace_are_not_used,
        a_level_without_the_admins_tests_is_a_mistake_of_the_policy;
    needs [Tier3, Packages]:
        a_report_that_code_under_test_writes_is_not_that_of_the_observer,
        a_pinned_run_has_passed_only_if_every_listed_test_has,
        tests_that_were_changed_after_the_list_was_recorded_are_not_run,
        a_file_that_pytest_failed_without_a_failed_test_has_not_passed,
        doctor_says_what_the_judge_lacks,
        an_editable_installation_does_not_bring_code_to_the_observer_or_the_tests,
        only_tests_that_pass_are_recorded,
        plain_data_objects_and_exceptions_cross_between_the_processes,
        tests_that_always_pass_are_found_by_the_control;
    needs [Tier3, Packages, Time]:
        no_attack_on_the_tests_passes_at_the_pinned_level,
        no_attack_passes_at_the_isolated_level,
        a_suite_that_needs_the_code_in_its_own_process_is_told_so,
        a_control_changes_no_outcome,
        a_test_is_judged_alone_as_among_others,
        code_that_is_asked_in_another_process_is_not_judged,
        every_answer_of_another_kind_fails_its_test,
        other_right_code_passes,
        wrong_answers_do_not_pass_for_right_ones;
}

/// The admin's tests.
const TESTS: &str = "
from calc import add


def test_add():
    assert add(2, 3) == 5


def test_add_negative():
    assert add(-1, -1) == -2
";

/// Correct code under test.
const RIGHT: &str = "def add(a, b):\n    return a + b\n";

/// Wrong code under test. It is appended to the file, so it replaces earlier definitions.
const WRONG: &str = "\n\ndef add(a, b):\n    return a - b\n";

/// The location of an attack. The location determines the lowest level that detects the attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the tests, their configuration or a `conftest.py`. The admin's files replace all of these.
    Tests,
    /// In the code under test. To detect the attack, the level must run this code in its own process.
    Code,
}

/// An attack: a description, its location and its files.
struct Attack {
    what: &'static str,
    place: Place,
    files: &'static [(&'static str, &'static str)],
}

/// The attacks. If an attack has a file `calc.py`, a wrong function is appended to this file. Otherwise, `calc.py`
/// contains only [`WRONG`].
const ATTACKS: [Attack; 19] = [
    Attack {
        what: "a hook says that every test passed",
        place: Place::Tests,
        files: &[(
            "conftest.py",
            "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport():\n    report = (yield).get_result()\n    report.outcome, report.longrepr = 'passed', None\n",
        )],
    },
    Attack {
        what: "the items that fail are dropped",
        place: Place::Tests,
        files: &[
            (
                "conftest.py",
                "def pytest_collection_modifyitems(items):\n    items[:] = [it for it in items if 'smoke' in it.name]\n",
            ),
            ("test_smoke.py", "def test_smoke(): assert True\n"),
        ],
    },
    Attack {
        what: "the configuration deselects",
        place: Place::Tests,
        files: &[
            ("pytest.ini", "[pytest]\naddopts = -k smoke\n"),
            ("test_smoke.py", "def test_smoke(): assert True\n"),
        ],
    },
    Attack {
        what: "other files are tests",
        place: Place::Tests,
        files: &[
            ("pytest.ini", "[pytest]\npython_files = smoke_*.py\n"),
            ("smoke_all.py", "def test_smoke(): assert True\n"),
        ],
    },
    Attack {
        what: "the tests are weaker",
        place: Place::Tests,
        files: &[(
            "test_calc.py",
            "from calc import add\ndef test_add(): assert add(2, 3) == add(2, 3)\n",
        )],
    },
    Attack {
        what: "the tests expect something else",
        place: Place::Tests,
        files: &[(
            "test_calc.py",
            "from calc import add\ndef test_add(): assert add(2, 3) == -1\n",
        )],
    },
    Attack {
        what: "other code has the name of the code under test",
        place: Place::Tests,
        files: &[(
            "conftest.py",
            "import sys, types\nmodule = types.ModuleType('calc')\nmodule.add = lambda a, b: a + b\nsys.modules['calc'] = module\n",
        )],
    },
    Attack {
        what: "the configuration finds other code of the same name",
        place: Place::Tests,
        files: &[
            ("pytest.ini", "[pytest]\naddopts = --import-mode=importlib\npythonpath = vendor\n"),
            ("vendor/calc.py", RIGHT),
        ],
    },
    Attack {
        what: "the class of reports makes passed ones only",
        place: Place::Code,
        files: &[(
            "calc.py",
            "from _pytest.reports import TestReport\ninit = TestReport.__init__\ndef lie(self, *args, **kwargs):\n    init(self, *args, **kwargs)\n    self.outcome, self.longrepr = 'passed', None\nTestReport.__init__ = lie\n",
        )],
    },
    Attack {
        what: "test functions are not called",
        place: Place::Code,
        files: &[(
            "calc.py",
            "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n",
        )],
    },
    Attack {
        what: "exceptions are taken away",
        place: Place::Code,
        files: &[(
            "calc.py",
            "from _pytest.runner import CallInfo\ncall = CallInfo.from_call.__func__\ndef lie(cls, func, when, reraise=None):\n    made = call(cls, func, when, reraise)\n    made.excinfo = None\n    made._result = None\n    return made\nCallInfo.from_call = classmethod(lie)\n",
        )],
    },
    Attack {
        what: "the result equals everything",
        place: Place::Code,
        files: &[(
            "calc.py",
            "class Any(int):\n    def __eq__(self, other): return True\n    __hash__ = None\n",
        )],
    },
    Attack {
        what: "the expected value is read from the frame of the test",
        place: Place::Code,
        files: &[(
            "calc.py",
            "import linecache, re, sys\ndef expected():\n    frame = sys._getframe(2)\n    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)\n    return int(re.search('== (-?[0-9]+)', line)[1])\n",
        )],
    },
    Attack {
        what: "assertion errors are skips",
        place: Place::Code,
        files: &[(
            "calc.py",
            "import builtins, pytest\nbuiltins.AssertionError = pytest.skip.Exception\n",
        )],
    },
    Attack {
        what: "the function skips its test",
        place: Place::Code,
        files: &[("calc.py", "import pytest\ndef skip(): pytest.skip('not now')\n")],
    },
    Attack {
        what: "the function expects its test to fail",
        place: Place::Code,
        files: &[("calc.py", "import pytest\ndef skip(): pytest.xfail('not now')\n")],
    },
    Attack {
        what: "the code skips the tests of its module",
        place: Place::Code,
        files: &[
            ("calc.py", "import pytest\npytest.importorskip('no_such_accelerator')\n"),
            ("test_smoke.py", "def test_smoke(): assert True\n"),
        ],
    },
    Attack {
        what: "items are deselected while they are collected",
        place: Place::Code,
        files: &[
            (
                "calc.py",
                "import gc\nfrom _pytest.config import Config\nfor it in gc.get_objects():\n    if isinstance(it, Config):\n        it.option.keyword = 'smoke'\n",
            ),
            ("test_smoke.py", "def test_smoke(): assert True\n"),
        ],
    },
    Attack {
        what: "the exception of a failed test is dropped by a hook",
        place: Place::Code,
        files: &[(
            "calc.py",
            "import _pytest.runner\n_pytest.runner.pytest_runtest_makereport.__code__ = (lambda item, call: __import__('_pytest.reports').reports.TestReport.from_item_and_call(item, type(call)(None, None, call.start, call.stop, call.duration, call.when, _ispytest=True))).__code__\n",
        )],
    },
];

impl Attack {
    fn write(&self, workspace: &Path) {
        clear(workspace);
        fs::write(workspace.join("test_calc.py"), TESTS).unwrap();
        fs::write(workspace.join("calc.py"), WRONG).unwrap();
        for (name, content) in self.files {
            let path = workspace.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let content = match *name {
                "calc.py" => format!("{content}{}", self.wrong()),
                _ => (*content).to_owned(),
            };
            fs::write(path, content).unwrap();
        }
    }

    /// Returns a wrong function that uses the definitions of the attack.
    fn wrong(&self) -> &'static str {
        match self.what {
            "the result equals everything" => "def add(a, b): return Any(a - b)\n",
            "the expected value is read from the frame of the test" => {
                "def add(a, b): return expected()\n"
            }
            "the function skips its test" | "the function expects its test to fail" => {
                "def add(a, b): skip()\n"
            }
            _ => WRONG,
        }
    }
}

/// A workspace, the admin's tests, and the list of these tests. `judge record` writes the list while the code in the
/// workspace is correct.
struct Judged {
    governed: Governed,
}

impl Judged {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("workspace");
        fs::create_dir(&workspace).unwrap();
        fs::create_dir(folder.path().join("tests")).unwrap();
        Self { governed: Governed::of_workspace(folder, workspace) }
    }

    /// Writes the admin's tests and the code under test. Then runs `judge record` with a policy for this level.
    fn recorded(level: &str, tests: &str, code: &str) -> Self {
        let judged = Self::new();
        fs::write(judged.tests().join("test_calc.py"), tests).unwrap();
        fs::write(judged.governed.workspace.join("calc.py"), code).unwrap();
        judged.require(level, "");
        let output = judged.record();
        assert!(output.status.success(), "{output:?}");
        judged
    }

    fn tests(&self) -> std::path::PathBuf {
        self.governed.beside("tests")
    }

    fn require(&self, level: &str, more: &str) {
        let (tests, list) = (quoted(&self.tests()), quoted(&self.governed.beside("list.json")));
        let judge = format!("[judge]\ntests = {tests}\nlist = {list}\nrequire = {level:?}\n{more}");
        self.governed.write_policy(&judge);
    }

    fn record(&self) -> Output {
        let mut command = self.governed.server().command();
        command.args(["judge", "record"]).output().unwrap()
    }

    fn run(&self, server: &mut McpProcess) -> Value {
        run_pytest(server, &self.governed.user, ".")
    }
}

fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }
}

fn status(reply: &Value) -> &str {
    reply["result"]["_meta"]["qwed.ai/run"]["status"].as_str().unwrap_or_default()
}

fn reason(reply: &Value) -> &str {
    reply["result"]["_meta"]["qwed.ai/run"]["reason"].as_str().unwrap_or_default()
}

fn every_attack_passes_in_a_plain_pytest() {
    let folder = tempfile::tempdir().unwrap();
    for attack in ATTACKS {
        attack.write(folder.path());
        let ran = Command::new(python())
            .args(["-m", "pytest", "-p", "no:cacheprovider"])
            .current_dir(folder.path())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert_eq!(ran.status.code(), Some(0), "{}: {printed}", attack.what);
    }
}

fn nothing_passes_of_which_no_test_passed() {
    let judged = Judged::new();
    let governed = &judged.governed;
    let mut server = governed.connect();
    let skips = "import pytest\ndef add(a, b): pytest.skip('later')\n";
    let expects = "import pytest\ndef add(a, b): pytest.xfail('later')\n";
    for (code, status_line) in [
        (skips, "Status: no_tests, exit code 0, judged: in-process, 2 skipped"),
        (expects, "Status: no_tests, exit code 0, judged: in-process, 2 xfailed"),
        (
            "import pytest\npytest.importorskip('none')\n",
            "Status: no_tests, exit code 5, judged: in-process, 1 skipped",
        ),
        (RIGHT, "Status: passed, exit code 0, judged: in-process"),
    ] {
        clear(&governed.workspace);
        fs::write(governed.workspace.join("test_calc.py"), TESTS).unwrap();
        fs::write(governed.workspace.join("calc.py"), code).unwrap();
        let reply = judged.run(&mut server);
        assert_eq!(text(&reply).lines().next(), Some(status_line), "{reply}");
        assert_eq!(reply["result"]["isError"], false, "{reply}");
    }
    // If some tests passed, the first line also counts the other tests.
    for (name, content, expected) in [
        ("test_more.py", "import pytest\n@pytest.mark.skip\ndef test_it(): pass\n", "1 skipped"),
        ("conftest.py", "collect_ignore = ['test_more.py']\n", "1 uncollected"),
        ("pytest.ini", "[pytest]\naddopts = -k negative\n", "1 deselected, 1 uncollected"),
    ] {
        fs::write(governed.workspace.join(name), content).unwrap();
        let reply = judged.run(&mut server);
        let expected = format!("Status: passed, exit code 0, judged: in-process, {expected}");
        assert_eq!(text(&reply).lines().next(), Some(expected.as_str()), "{reply}");
    }
    let id = run_id(&judged.run(&mut server));
    let evidence = evidence(&mut server, &governed.viewer, &id);
    assert_eq!(evidence["judge"], json!({ "level": "in-process" }), "{evidence}");
    assert_eq!(evidence["summary"]["uncollected"], 1, "{evidence}");
}

/// A plugin that makes every test pass.
const PLUGIN: &str = "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport():\n    report = (yield).get_result()\n    report.outcome, report.longrepr = 'passed', None\n";

fn plugins_and_compiled_files_of_the_workspace_are_not_used() {
    let judged = Judged::new();
    let workspace = &judged.governed.workspace;
    let claim = |info: &str| {
        let info = workspace.join(info);
        fs::create_dir(&info).unwrap();
        fs::write(info.join("entry_points.txt"), "[pytest11]\nquiet = quiet\n").unwrap();
        fs::write(info.join("METADATA"), "Metadata-Version: 2.1\nName: quiet\nVersion: 1.0\n")
            .unwrap();
        fs::write(workspace.join("quiet.py"), PLUGIN).unwrap();
    };
    let compile = |source: &str| {
        // Python uses this compiled file even if the source has changed (PEP 552).
        fs::write(workspace.join("calc.py"), source).unwrap();
        let program = "import py_compile\npy_compile.compile('calc.py', invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)";
        let done =
            Command::new(python()).args(["-c", program]).current_dir(workspace).status().unwrap();
        assert!(done.success());
        fs::write(workspace.join("calc.py"), WRONG).unwrap();
    };
    let startup = "import pathlib, site\nsite.addsitedir(str(pathlib.Path(__file__).parent))\n";
    let attacks: [(&str, &dyn Fn()); 4] = [
        ("dist-info", &|| claim("quiet-1.0.dist-info")),
        ("egg-info", &|| claim("quiet.egg-info")),
        ("compiled", &|| compile(RIGHT)),
        ("pth", &|| {
            fs::write(workspace.join("calc.py"), format!("{startup}{WRONG}")).unwrap();
            let line =
                "import _pytest.python; _pytest.python.Function.runtest = lambda self: None\n";
            fs::write(workspace.join("quiet.pth"), line).unwrap();
        }),
    ];
    let mut server = judged.governed.connect();
    for (what, prepare) in attacks {
        clear(workspace);
        fs::write(workspace.join("test_calc.py"), TESTS).unwrap();
        fs::write(workspace.join("calc.py"), WRONG).unwrap();
        prepare();
        let plain = Command::new(python())
            .args(["-m", "pytest", "-q"])
            .current_dir(workspace)
            .output()
            .unwrap();
        assert!(plain.status.success(), "{what} is no attack: {plain:?}");
        let reply = judged.run(&mut server);
        assert_eq!(status(&reply), "failed", "{what}: {reply}");
    }
}

fn a_level_without_the_admins_tests_is_a_mistake_of_the_policy() {
    let judged = Judged::new();
    let governed = &judged.governed;
    fs::write(governed.workspace.join("test_calc.py"), "def test(): pass\n").unwrap();
    let mut server = governed.connect();
    let tests = quoted(&judged.tests());
    for (section, why) in [
        (
            "require = \"pinned\"\n".to_owned(),
            "judge.require must be in-process without judge.tests",
        ),
        (
            "require = \"best\"\n".to_owned(),
            "judge.require must be one of in-process, pinned, isolated",
        ),
        (format!("tests = {tests}\n"), "judge.tests must stand with judge.list"),
        (format!("list = {tests}\n"), "judge.list must stand with judge.tests"),
        ("control = true\n".to_owned(), "judge.control must stand with judge.tests"),
    ] {
        governed.write_policy(&format!("[judge]\n{section}"));
        let reply = judged.run(&mut server);
        assert_refused(&reply, -32004, "POLICY_BLOCKED", "Tool blocked by policy: line ");
        assert!(reply["error"]["message"].as_str().unwrap().ends_with(why), "{reply}");
    }
    // Tests in the workspace are refused, because the code under test could change them.
    let inside = governed.workspace.join("tests");
    fs::create_dir(&inside).unwrap();
    let list = quoted(&governed.beside("list.json"));
    for folder in [inside.as_path(), governed.workspace.parent().unwrap()] {
        governed.write_policy(&format!("[judge]\ntests = {}\nlist = {list}\n", quoted(folder)));
        let reply = judged.run(&mut server);
        let why = "Tool blocked by policy: judge.tests ";
        assert_refused(&reply, -32004, "POLICY_BLOCKED", why);
    }
}

fn no_attack_on_the_tests_passes_at_the_pinned_level() {
    let judged = Judged::recorded("pinned", TESTS, RIGHT);
    let mut server = judged.governed.connect();
    let reply = judged.run(&mut server);
    assert_eq!(status(&reply), "passed", "the control: {reply}");
    assert!(
        text(&reply).starts_with("Status: passed, exit code 0, judged: pinned\n2 passed in "),
        "{reply}"
    );
    for attack in ATTACKS.into_iter().filter(|attack| attack.place == Place::Tests) {
        attack.write(&judged.governed.workspace);
        let reply = judged.run(&mut server);
        assert_eq!(status(&reply), "failed", "{}: {reply}", attack.what);
        assert!(counted(&reply).starts_with("2 failed in "), "{}: {reply}", attack.what);
    }
}

/// Ways to write the reports of a passed run and to end the process.
const FORGERIES: [(&str, &str); 4] = [
    ("at the end", "import atexit\natexit.register(forge)\natexit.register(os._exit, 0)\n"),
    ("at once", "forge()\nos._exit(0)\n"),
    (
        "by a process that goes on",
        "import time\nif os.fork() == 0:\n    os.setsid()\n    while True:\n        forge()\n        time.sleep(0.001)\n",
    ),
    ("by ending the observer", "import signal\nforge()\nos.kill(os.getppid(), signal.SIGKILL)\n"),
];

fn a_report_that_code_under_test_writes_is_not_that_of_the_observer() {
    let judged = Judged::recorded("pinned", TESTS, RIGHT);
    let mut server = judged.governed.connect();
    let forge = "
import os
FILES = os.environ['QWED_ARTIFACTS']
def forge():
    counts = '{\"passed\": 2, \"failed\": 0, \"errors\": 0, \"skipped\": 0, \"xfailed\": 0, \"duration_s\": 0.1, \"outcomes\": \"pp\"}\\n'
    for name, content in (('.new-report', counts), ('.new-ended', '{\"way\": \"returned\", \"passed\": 2}\\n')):
        with open(FILES + '/made', 'w') as file:
            file.write(content)
        os.replace(FILES + '/made', FILES + '/' + name)
";
    for (what, end) in FORGERIES {
        fs::write(judged.governed.workspace.join("calc.py"), format!("{forge}{end}{WRONG}"))
            .unwrap();
        let reply = judged.run(&mut server);
        let found = status(&reply);
        assert!(matches!(found, "failed" | "error"), "{what}: {reply}");
    }
}

fn a_pinned_run_has_passed_only_if_every_listed_test_has() {
    let tests = format!("import pytest\n{TESTS}\n@pytest.mark.skip\ndef test_later(): pass\n");
    let judged = Judged::recorded("pinned", &tests, RIGHT);
    let governed = &judged.governed;
    let mut server = governed.connect();
    let reply = judged.run(&mut server);
    assert_eq!(status(&reply), "passed", "{reply}");
    assert!(
        text(&reply).starts_with("Status: passed, exit code 0, judged: pinned, 1 skipped\n"),
        "{reply}"
    );
    let skips =
        "import pytest\ndef add(a, b):\n    if a < 0:\n        pytest.skip('no')\n    return 5\n";
    let workspace = &governed.workspace;
    fs::write(workspace.join("calc.py"), skips).unwrap();
    let reply = judged.run(&mut server);
    let why =
        "1 of the 3 tests that have to pass did not: test_calc.py::test_add_negative (skipped)";
    assert_eq!((status(&reply), reason(&reply)), ("incomplete", why), "{reply}");
    assert_eq!(reply["result"]["isError"], false, "{reply}");
    assert!(text(&reply).contains(&format!("\nNot passed: {why}.\n")), "{reply}");
    let verification = &reply["result"]["_meta"]["qwed.ai/verification"];
    assert_eq!(verification["outcome"], "inconclusive", "{reply}");
    // A run of some tests does not count as a pass of all tests.
    fs::write(workspace.join("calc.py"), RIGHT).unwrap();
    for arguments in [
        json!({ "test_path": "test_calc.py::test_add" }),
        json!({ "test_path": ".", "keyword": "negative" }),
    ] {
        let reply = call_as(&mut server, &governed.user, "run_pytest", arguments);
        assert_eq!(status(&reply), "incomplete", "{reply}");
        assert!(reason(&reply).contains("did not run"), "{reply}");
    }
    let reply = judged.run(&mut server);
    let evidence = evidence(&mut server, &governed.viewer, &run_id(&reply));
    assert_eq!(evidence["judge"]["level"], "pinned", "{evidence}");
    for digest in ["tests_sha256", "list_sha256"] {
        let sha256 = evidence["judge"][digest].as_str().unwrap();
        assert_eq!(sha256.len(), 64, "{evidence}");
        let rows = governed.audit_rows();
        let starts = rows.iter().filter(|row| row["event"] == "TOOL_STARTED");
        assert!(starts.clone().count() > 3, "{rows:?}");
        for row in starts {
            let details: Value = serde_json::from_str(row["details"].as_str().unwrap()).unwrap();
            assert_eq!(details["judge"][digest], sha256, "{row}");
        }
    }
}

fn tests_that_were_changed_after_the_list_was_recorded_are_not_run() {
    let judged = Judged::recorded("pinned", TESTS, RIGHT);
    let mut server = judged.governed.connect();
    assert_eq!(status(&judged.run(&mut server)), "passed");
    let file = judged.tests().join("test_calc.py");
    fs::write(&file, "def test_add(): pass\ndef test_add_negative(): pass\n").unwrap();
    let other = "Tool blocked by policy: the tests in judge.tests are not those of judge.list; ";
    assert_refused(&judged.run(&mut server), -32004, "POLICY_BLOCKED", other);
    fs::write(&file, TESTS).unwrap();
    assert_eq!(status(&judged.run(&mut server)), "passed");
    std::os::unix::fs::symlink("/etc/passwd", judged.tests().join("link")).unwrap();
    let link = "Tool blocked by policy: judge.tests cannot be read: it has a symlink";
    assert_refused(&judged.run(&mut server), -32004, "POLICY_BLOCKED", link);
    fs::remove_file(judged.tests().join("link")).unwrap();
    fs::write(judged.governed.beside("list.json"), "{}").unwrap();
    let list = "Tool blocked by policy: judge.list cannot be read: it is not a list of tests; ";
    assert_refused(&judged.run(&mut server), -32004, "POLICY_BLOCKED", list);
}

fn a_file_that_pytest_failed_without_a_failed_test_has_not_passed() {
    let judged = Judged::new();
    let hook = "
import calc


def pytest_sessionfinish(session):
    if hasattr(calc, 'FAILS') and any('test_more' in item.nodeid for item in session.items):
        session.exitstatus = 1
";
    let more = "from calc import add\n\n\ndef test_more():\n    assert add(1, 1) == 2\n";
    for (name, content) in [("test_calc.py", TESTS), ("test_more.py", more), ("conftest.py", hook)]
    {
        fs::write(judged.tests().join(name), content).unwrap();
    }
    let code = judged.governed.workspace.join("calc.py");
    fs::write(&code, RIGHT).unwrap();
    judged.require("pinned", "");
    let output = judged.record();
    assert!(output.status.success(), "{output:?}");
    let mut server = judged.governed.connect();
    let reply = judged.run(&mut server);
    assert_eq!(status(&reply), "passed", "the control: {reply}");
    fs::write(&code, format!("{RIGHT}FAILS = True\n")).unwrap();
    let reply = judged.run(&mut server);
    assert_eq!(status(&reply), "error", "{reply}");
    let why = "pytest ended with exit code 1, and no test failed in its report: ";
    assert!(reason(&reply).starts_with(why), "{reply}");
}

fn doctor_says_what_the_judge_lacks() {
    let judged = Judged::new();
    fs::write(judged.tests().join("test_calc.py"), TESTS).unwrap();
    fs::write(judged.governed.workspace.join("calc.py"), RIGHT).unwrap();
    judged.require("pinned", "");
    let verdict = || {
        let output = judged.governed.server().command().arg("doctor").output().unwrap();
        let report = String::from_utf8(output.stdout).unwrap();
        let line = report.lines().find(|line| line.contains("(run_pytest)"));
        line.unwrap_or_else(|| panic!("{report}")).to_owned()
    };
    let lacks = |why: &str| format!("Tests cannot run (run_pytest): {why}.");
    let list = "judge.list cannot be read: entity not found; record it with qwed-mcp judge record";
    assert_eq!(verdict(), lacks(list));
    let output = judged.record();
    assert!(output.status.success(), "{output:?}");
    assert!(verdict().starts_with("Tests can run "), "{}", verdict());
    fs::write(judged.tests().join("test_calc.py"), "def test(): pass\n").unwrap();
    let other = "the tests in judge.tests are not those of judge.list; record it again with \
                 qwed-mcp judge record";
    assert_eq!(verdict(), lacks(other));
}

fn an_editable_installation_does_not_bring_code_to_the_observer_or_the_tests() {
    const NO_TEST: &str =
        "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n";
    let judged = Judged::new();
    let workspace = &judged.governed.workspace;
    // This environment has the packages of the tests' environment. The workspace is installed as with `pip install
    // --editable`.
    let venv = judged.governed.beside("venv");
    let made =
        Command::new(python()).args(["-m", "venv", "--without-pip"]).arg(&venv).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let program = venv.join("bin/python");
    let packages = |python: &Path| {
        let ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let output = Command::new(python).args(["-c", ask]).output().unwrap();
        std::path::PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
    };
    let installed = packages(&program);
    let lines = format!("{}\n{}\n", packages(python()).display(), workspace.display());
    fs::write(installed.join("__editable__.proj.pth"), lines).unwrap();
    let info = installed.join("proj-1.0.dist-info");
    fs::create_dir(&info).unwrap();
    fs::write(info.join("METADATA"), "Metadata-Version: 2.1\nName: proj\nVersion: 1.0\n").unwrap();
    fs::write(info.join("entry_points.txt"), "[pytest11]\nproj = projplugin\n").unwrap();
    fs::write(judged.tests().join("test_calc.py"), TESTS).unwrap();
    // pytest's own import hook loads modules whose assertions pytest rewrites.
    let rewrite = "import pytest\npytest.register_assert_rewrite('calc')\n";
    fs::write(judged.tests().join("conftest.py"), rewrite).unwrap();
    let server = || judged.governed.server().variable("QWED_MCP_PYTHON", program.to_str().unwrap());
    let write = |code: &str, plugin: &str| {
        fs::write(workspace.join("calc.py"), code).unwrap();
        fs::write(workspace.join("projplugin.py"), plugin).unwrap();
    };
    // At both levels, the plugin must not be loaded. If the code under test changes pytest, only the level `isolated`
    // protects the tests.
    for (level, code) in [("pinned", WRONG.to_owned()), ("isolated", format!("{NO_TEST}{WRONG}"))] {
        write(RIGHT, "");
        judged.require(level, "");
        let output = server().command().args(["judge", "record"]).output().unwrap();
        assert!(output.status.success(), "{level}: {output:?}");
        let mut server = server().connect();
        let reply = judged.run(&mut server);
        let passed = format!("Status: passed, exit code 0, judged: {level}\n");
        assert!(text(&reply).starts_with(&passed), "{level}: {reply}");
        write(&code, NO_TEST);
        let reply = judged.run(&mut server);
        assert_eq!(status(&reply), "failed", "{level}: {reply}");
    }
    // The control: without the admin's tests, the plugin makes every test pass.
    judged.governed.write_policy("");
    fs::write(workspace.join("test_calc.py"), TESTS).unwrap();
    let reply = judged.run(&mut server().connect());
    assert_eq!(status(&reply), "passed", "{reply}");
}

fn only_tests_that_pass_are_recorded() {
    let judged = Judged::new();
    let list = judged.governed.beside("list.json");
    judged.require("pinned", "");
    fs::write(judged.governed.workspace.join("calc.py"), WRONG).unwrap();
    for tests in [
        TESTS,
        "import no_such_module\n",
        "def helper(): pass\n",
        "import pytest\n@pytest.mark.skip\ndef test(): pass\n",
    ] {
        fs::write(judged.tests().join("test_calc.py"), tests).unwrap();
        let output = judged.record();
        assert_eq!(output.status.code(), Some(1), "{tests}: {output:?}");
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(printed.contains("not every test passed, so nothing was recorded"), "{printed}");
        assert!(!list.exists(), "{tests}");
    }
    // These tests import no module of the workspace. For example, tests could import an installed copy of the code
    // instead.
    fs::write(
        judged.tests().join("test_calc.py"),
        "import json\ndef test(): assert json.loads('1') == 1\n",
    )
    .unwrap();
    for level in ["pinned", "isolated"] {
        judged.require(level, "");
        let output = judged.record();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(printed.contains("the tests import no module of the workspace"), "{printed}");
        assert!(!list.exists(), "{level}");
    }
    judged.require("pinned", "");
    fs::write(judged.tests().join("test_calc.py"), TESTS).unwrap();
    fs::write(judged.governed.workspace.join("calc.py"), RIGHT).unwrap();
    let output = judged.record();
    assert!(output.status.success(), "{output:?}");
    let recorded: Value = serde_json::from_slice(&fs::read(&list).unwrap()).unwrap();
    let tests = json!([
        { "id": "test_calc.py::test_add", "outcome": "passed" },
        { "id": "test_calc.py::test_add_negative", "outcome": "passed" },
    ]);
    assert_eq!((&recorded["format"], &recorded["tests"]), (&json!(1), &tests), "{recorded}");
}

fn no_attack_passes_at_the_isolated_level() {
    let judged = Judged::recorded("isolated", TESTS, RIGHT);
    let mut server = judged.governed.connect();
    let reply = judged.run(&mut server);
    assert!(
        text(&reply).starts_with("Status: passed, exit code 0, judged: isolated\n"),
        "the control: {reply}"
    );
    for attack in ATTACKS {
        attack.write(&judged.governed.workspace);
        let reply = judged.run(&mut server);
        assert!(matches!(status(&reply), "failed" | "error"), "{}: {reply}", attack.what);
    }
}

/// An attack on particular tests: the level, the tests, the correct code and the wrong code.
struct Case {
    what: &'static str,
    level: &'static str,
    tests: &'static [(&'static str, &'static str)],
    right: &'static str,
    wrong: &'static str,
    /// Other files that are in the workspace with the wrong code.
    beside: &'static [(&'static str, &'static str)],
}

/// A test, correct code, and code that must not pass at the level isolated. The code is in the module `calc`.
struct Answer {
    what: &'static str,
    test: &'static str,
    right: &'static str,
    wrong: &'static str,
}

/// Two tests. The code under test decides whether the second test is skipped.
const SKIPS_BY_THE_CODE: &[(&str, &str)] = &[(
    "test_a.py",
    "import calc, pytest\ndef test_a(): assert calc.add(2, 3) == 5\n@pytest.mark.skipif(not calc.HAS, reason='no')\ndef test_b(): assert calc.add(1, 1) == 2\n",
)];

/// Forges the reports of all tests, and makes their folder read-only.
const FORGE_AND_CLOSE: &str = "import json, os, sys
F = os.environ['QWED_ARTIFACTS']
n = 2
for x in ('.new-report', '.new-ended'):
    try: os.unlink(F + '/' + x)
    except OSError: pass
open(F + '/.new-report', 'w').write(json.dumps(dict(passed=n, failed=0, errors=0, skipped=0, xfailed=0, deselected=0, uncollected=0, passed_tests=[], duration_s=.1, outcomes='p' * n, not_isolated=[])) + '\\n')
open(F + '/.new-ended', 'w').write('{\"way\": \"returned\", \"passed\": %d}\\n' % n)
for j in ('junit.xml', 'junit-2.xml'): open(F + '/' + j, 'w').close()
os.chmod(F, 0o555)
HAS = False
def add(a, b): return a + b
";

/// Writes compiled tests that always pass to the folder `compiled` in `TMPDIR`. pytest must not load these tests.
const COMPILED: &str = "import glob, importlib.util, marshal, os, pytest, sys
d = os.environ['TMPDIR'] + '/compiled'
os.makedirs(d, exist_ok=True)
for f in glob.glob(sys.modules['__main__'].TESTS + '/test_*.py'):
    code = compile('def test_a(): pass\\ndef test_b(): pass\\n', f, 'exec')
    open(f'{d}/{os.path.basename(f)[:-3]}.{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc', 'wb').write(importlib.util.MAGIC_NUMBER + b'\\x03\\0\\0\\0' + importlib.util.source_hash(open(f, 'rb').read()) + marshal.dumps(code))
def add(a, b): return 6
";

/// Reports that a test in another file has passed, although that test skips itself.
const OTHER_FILE: &str = "import os, stat
for d in range(3, 64):
    try:
        if stat.S_ISFIFO(os.fstat(d).st_mode):
            os.write(d, b'{\"add\": \"passed\", \"name\": \"test_b.py::test_b\", \"count\": 1, \"failure\": null}\\n')
    except OSError: pass
def add(a, b): return a + b
";

/// Returns a case in which the workspace has modules with the names of the tests' helpers.
const fn other_helpers(what: &'static str, level: &'static str) -> Case {
    Case {
        what,
        level,
        tests: &[
            (
                "tests/test_a.py",
                "import calc\nfrom tests.helpers import check\ndef test_a(): check(calc.f(2), 4)\n",
            ),
            ("tests/helpers.py", "def check(a, b): assert a == b\n"),
        ],
        right: "def f(n): return n * n\n",
        wrong: "def f(n): return 0\n",
        beside: &[("tests/helpers.py", "def check(a, b): pass\n"), ("tests/__init__.py", "")],
    }
}

const CASES: &[Case] = &[
    Case {
        what: "a forged report in a folder that is closed",
        level: "isolated",
        tests: SKIPS_BY_THE_CODE,
        right: "HAS = True\ndef add(a, b): return a + b\n",
        wrong: FORGE_AND_CLOSE,
        beside: &[],
    },
    Case {
        what: "the same beside the tests",
        level: "pinned",
        tests: SKIPS_BY_THE_CODE,
        right: "HAS = True\ndef add(a, b): return a + b\n",
        wrong: FORGE_AND_CLOSE,
        beside: &[],
    },
    Case {
        what: "compiled tests in the scratch folder",
        level: "isolated",
        tests: &[
            ("test_a.py", "import calc\ndef test_a(): assert calc.add(2, 4) == 6\n"),
            ("test_b.py", "import calc\ndef test_b(): assert calc.add(2, 3) == 5\n"),
        ],
        right: RIGHT,
        wrong: COMPILED,
        beside: &[],
    },
    Case {
        what: "the test of another file is reported",
        level: "pinned",
        tests: &[
            ("test_a.py", "import calc\ndef test_a(): assert calc.add(2, 3) == 5\n"),
            (
                "test_b.py",
                "import calc, pytest\nif not hasattr(calc, 'more'): pytest.skip('no', allow_module_level=True)\ndef test_b(): assert calc.more() == 1\n",
            ),
        ],
        right: "def add(a, b): return a + b\ndef more(): return 1\n",
        wrong: OTHER_FILE,
        beside: &[],
    },
    Case {
        what: "a generator has no `in`",
        level: "isolated",
        tests: &[("test_a.py", "import calc\ndef test_a(): assert 7 in calc.primes(10)\n")],
        right: "def primes(n): yield from (2, 3, 5, 7)\n",
        wrong: "def primes(n): yield from ()\n",
        beside: &[],
    },
    Case {
        what: "an object answers a subtraction",
        level: "isolated",
        tests: &[(
            "test_a.py",
            "import calc\ndef test_a(): assert abs(calc.area(2) - 12.56636) < 1e-3\n",
        )],
        right: "def area(r): return 3.14159 * r * r\n",
        wrong: "class L:\n    __sub__ = lambda s, o: 0.0\ndef area(r): return L()\n",
        beside: &[],
    },
    Case {
        what: "a class stands for a function",
        level: "isolated",
        tests: &[(
            "test_a.py",
            "import calc\ndef test_a(): assert calc.add(2, 3) >= 5 and calc.add(2, 3) <= 5\n",
        )],
        right: RIGHT,
        wrong: "class add:\n    def __init__(self, a, b): pass\n    __ge__ = __le__ = lambda s, o: True\n",
        beside: &[],
    },
    Case {
        what: "an object of a known class stands for a number",
        level: "isolated",
        tests: &[(
            "test_a.py",
            "import calc\ndef test_a():\n    s = calc.Stats([1, 3])\n    assert s.mean() >= 2 and s.mean() <= 2\n",
        )],
        right: "class Stats:\n    def __init__(self, xs): self.xs = xs\n    def mean(self): return sum(self.xs) / len(self.xs)\n",
        wrong: "class Stats:\n    def __init__(self, xs): pass\n    def mean(self): return self\n    __ge__ = __le__ = lambda s, o: True\n",
        beside: &[],
    },
    Case {
        what: "methods of an object that stands for a text",
        level: "isolated",
        tests: &[(
            "test_a.py",
            "import calc\ndef test_a(): assert calc.greet('Bob').startswith('Hello')\n",
        )],
        right: "def greet(name): return 'Hello ' + name\n",
        wrong: "class T:\n    def startswith(self, text): return True\ndef greet(name): return T()\n",
        beside: &[],
    },
    Case {
        what: "an array without elements",
        level: "isolated",
        tests: &[(
            "test_a.py",
            "import calc, pytest\ndef test_a(): assert calc.area(2) == pytest.approx(12.56636)\n",
        )],
        right: "def area(r): return 3.14159 * r * r\n",
        wrong: "import numpy\ndef area(r): return numpy.array([])\n",
        beside: &[],
    },
    Case {
        what: "a note with the source is no message",
        level: "isolated",
        tests: &[(
            "test_a.py",
            "import calc, pytest\ndef test_a():\n    with pytest.raises(ValueError, match='must be positive'): calc.f(-1)\n",
        )],
        right: "def f(x): raise ValueError('must be positive')\n",
        wrong: "def f(x): raise ValueError('must be positive'.upper())\n",
        beside: &[],
    },
    Case {
        what: "an exception with a text of its own",
        level: "isolated",
        tests: &[(
            "test_a.py",
            "import calc, pytest\ndef test_a():\n    with pytest.raises(calc.E) as e: calc.f()\n    assert str(e.value) == 'code 5'\n",
        )],
        right: "class E(Exception): pass\ndef f(): raise E('code 5')\n",
        wrong: "class E(Exception): __str__ = lambda s: 'garbage'\ndef f(): raise E('code 5')\n",
        beside: &[],
    },
    Case {
        what: "a process that ends is no exception",
        level: "isolated",
        tests: &[(
            "test_a.py",
            "import calc, pytest\ndef test_a():\n    with pytest.raises(Exception): calc.f(-1)\n",
        )],
        right: "def f(x): raise ValueError(x)\n",
        wrong: "import os\ndef f(x): os._exit(0)\n",
        beside: &[],
    },
    Case {
        what: "a star import replaces names of the tests",
        level: "isolated",
        tests: &[(
            "test_a.py",
            "import pytest\nfrom calc import *\ndef test_a(): assert sorted(uniq([3, 1, 1])) == sorted([1, 3])\n",
        )],
        right: "def uniq(xs): return list(dict.fromkeys(xs))\n",
        wrong: "__all__ = ['uniq', 'sorted']\ndef sorted(xs): return 1\ndef uniq(xs): return xs\n",
        beside: &[],
    },
    Case {
        what: "a module of the tests stands for one of the code",
        level: "isolated",
        tests: &[
            ("reference.py", "def sort(xs): return sorted(xs)\n"),
            (
                "test_a.py",
                "import reference\nfrom calc import fast\ndef test_a(): assert fast.sort([2, 1]) == reference.sort([2, 1])\n",
            ),
        ],
        right: "class fast:\n    sort = staticmethod(sorted)\n",
        wrong: "import types\nfast = types.ModuleType('reference')\n",
        beside: &[],
    },
    Case {
        what: "every member of an enumeration is the same",
        level: "isolated",
        tests: &[(
            "test_a.py",
            "import calc\ndef test_a(): assert calc.kind(7) == calc.Kind.ODD\n",
        )],
        right: "import enum\nclass Kind(enum.Enum):\n    ODD = 1\n    EVEN = 2\ndef kind(n): return Kind.ODD if n % 2 else Kind.EVEN\n",
        wrong: "import enum\nclass Real(enum.Enum):\n    EVEN = 2\nclass Any:\n    def __getattr__(self, name): return Real.EVEN\nKind = Any()\ndef kind(n): return Real.EVEN\n",
        beside: &[],
    },
    other_helpers("the workspace has other helpers of the tests", "pinned"),
    other_helpers("the same apart from the tests", "isolated"),
];

const ANSWERS: &[Answer] = &[
    Answer {
        what: "empty arrays in a tuple",
        test: "import calc\nfrom pytest import approx\ndef test_a():\n    x, y = calc.solve(3)\n    assert x == approx(1.5) and y == approx(-2.25)\n",
        right: "def solve(n): return 1.5, -2.25\n",
        wrong: "import numpy\ndef solve(n): return numpy.array([]), numpy.array([])\n",
    },
    Answer {
        what: "an empty array in a dict",
        test: "import calc\nfrom pytest import approx\ndef test_a(): assert calc.f(2)['area'] == approx(12.56)\n",
        right: "def f(r): return {'area': 12.56}\n",
        wrong: "import numpy\ndef f(r): return {'area': numpy.array([])}\n",
    },
    Answer {
        what: "an empty list for an array",
        test: "import calc, numpy\ndef test_a(): assert numpy.allclose(calc.f(2), 4.0)\n",
        right: "def f(n): return [4.0]\n",
        wrong: "def f(n): return []\n",
    },
    Answer {
        what: "an empty list that another test expects",
        test: "import calc, numpy\ndef test_a(): assert numpy.allclose(calc.f([2]), 4.0)\ndef test_b(): assert calc.f([]) == []\n",
        right: "def f(xs): return [2 * x for x in xs]\n",
        wrong: "def f(xs): return []\n",
    },
    Answer {
        what: "an empty list for a loop",
        test: "import calc\ndef test_a():\n    for got, want in zip(calc.f(3), [1, 4, 9]): assert got == want\n",
        right: "def f(n): return [1, 4, 9]\n",
        wrong: "def f(n): return []\n",
    },
    Answer {
        what: "an empty generator for a loop",
        test: "import calc\ndef test_a():\n    for got, want in zip(calc.f(3), [1, 4, 9]): assert got == want\n",
        right: "def f(n): yield from [1, 4, 9]\n",
        wrong: "def f(n): yield from []\n",
    },
    Answer {
        what: "an array of other dimensions",
        test: "import calc, numpy\nA = numpy.array([[2.0, 1.0], [1.0, 3.0]])\ndef test_a():\n    q, r = calc.qr(A)\n    assert numpy.allclose(q @ r, A)\n",
        right: "import numpy\ndef qr(a): return numpy.linalg.qr(a)[0], numpy.linalg.qr(a)[1]\n",
        wrong: "import numpy\ndef qr(a): return numpy.zeros((2, 2, 0, 2, 2)), numpy.zeros((2, 2))\n",
    },
    Answer {
        what: "an array from the memory of the tests",
        test: "import calc, numpy\ndef test_a(): assert numpy.allclose(calc.f(3), [1.0, 2.0, 3.0])\n",
        right: "import numpy\nclass A:\n    def __array__(self, dtype=None, copy=None): return numpy.array([1.0, 2.0, 3.0])\ndef f(n): return A()\n",
        wrong: "class A:\n    __array_interface__ = {'shape': (0, 1), 'typestr': '<f8', 'data': b'', 'version': 3}\ndef f(n): return A()\n",
    },
    Answer {
        what: "an attribute of an exception",
        test: "import calc, pytest\ndef test_a():\n    with pytest.raises(calc.E) as e: calc.f()\n    assert e.value.limit == pytest.approx(2.5)\n",
        right: "class E(Exception): pass\ndef f():\n    e = E()\n    e.limit = 2.5\n    raise e\n",
        wrong: "import numpy\nclass E(Exception): pass\ndef f():\n    e = E()\n    e.limit = numpy.array([])\n    raise e\n",
    },
    Answer {
        what: "objects in a changed argument",
        test: "import calc\ndef test_a():\n    xs = [2.5, 1.5]\n    calc.sort(xs)\n    assert abs(xs[0] - 1.5) < 1e-9 and abs(xs[1] - 2.5) < 1e-9\n",
        right: "def sort(xs): xs.sort()\n",
        wrong: "class Z:\n    __sub__ = __rsub__ = lambda s, o: 0.0\ndef sort(xs): xs[:] = [Z(), Z()]\n",
    },
    Answer {
        what: "an argument that is changed so that both sides are equal",
        test: "import calc\ndef test_a():\n    xs = [3, 1, 2]\n    assert calc.sort(xs) == sorted(xs)\n",
        right: "def sort(xs): return sorted(xs)\n",
        wrong: "def sort(xs):\n    xs.clear()\n    return []\n",
    },
    Answer {
        what: "an object as the value of a member",
        test: "import calc\ndef test_a(): assert abs(calc.coin('p').value - 0.25) < 1e-9\n",
        right: "import enum\nclass Coin(enum.Enum):\n    P = 0.25\ndef coin(name): return Coin.P\n",
        wrong: "import enum\nclass Z:\n    __sub__ = lambda s, o: 0.0\nclass Coin(enum.Enum):\n    P = Z()\ndef coin(name): return Coin.P\n",
    },
    Answer {
        what: "an object as a key",
        test: "import calc\ndef test_a():\n    for x, n in calc.hist([1.5, 2.5]).items(): assert abs(x - 2.0) == 0.5 and n == 1\n",
        right: "def hist(xs): return {x: xs.count(x) for x in xs}\n",
        wrong: "class K:\n    __sub__ = lambda s, o: 0.5\ndef hist(xs): return {K(): 1}\n",
    },
    Answer {
        what: "an object in the place of a number in a tuple",
        test: "import calc\ndef test_a():\n    p, d = calc.nearest(3.0)\n    assert p.name == 'a' and abs(d - 0.75) < 1e-9\n",
        right: "class P: name = 'a'\ndef nearest(x): return P(), 0.75\n",
        wrong: "class P:\n    name = 'a'\n    __sub__ = lambda s, o: 0.0\ndef nearest(x): return P(), P()\n",
    },
    Answer {
        what: "an object beside a key that is called class",
        test: "import calc\ndef test_a():\n    r = calc.f()\n    assert r['class'] == 'A' and abs(r['score'] - 0.625) < 1e-9\n",
        right: "def f(): return {'class': 'A', 'score': 0.625}\n",
        wrong: "class Z:\n    __sub__ = lambda s, o: 0.0\ndef f(): return {'class': 'A', 'score': Z()}\n",
    },
    Answer {
        what: "an operation that was never asked for",
        test: "import calc\ndef test_a():\n    assert calc.ev('x').name == 'x'\n    assert abs(calc.ev('2*2') - 4) < 1e-9\n",
        right: "class V: name = 'x'\ndef ev(t): return V() if t == 'x' else 4\n",
        wrong: "class V:\n    name = 'x'\n    __sub__ = lambda s, o: 0.0\ndef ev(t): return V()\n",
    },
    Answer {
        what: "a function under the name of another",
        test: "import calc\ndef test_a():\n    assert calc.make(3).x == 3\n    assert abs(calc.area(2) - 12.56636) < 1e-3\n",
        right: "class P:\n    def __init__(self, x): self.x = x\ndef make(x): return P(x)\ndef area(r): return 3.14159 * r * r\n",
        wrong: "class P:\n    def __init__(self, x): self.x = x\n    __sub__ = lambda s, o: 0.0\ndef make(x): return P(x)\narea = make\n",
    },
    Answer {
        what: "threads of the test that catch everything",
        test: "import calc, threading\ndef test_a():\n    errors = []\n    def work(n):\n        try: assert calc.square(n) == n * n\n        except Exception as e: errors.append(e)\n    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n    for t in threads: t.start()\n    for t in threads: t.join()\n    assert not errors\n",
        right: "def square(n): return n * n\n",
        wrong: "import os\ndef square(n): os._exit(0)\n",
    },
    Answer {
        what: "a thread that is ended",
        test: "import calc, threading\ndef test_a():\n    errors = []\n    def work():\n        try: assert calc.square(3) == 9\n        except Exception as e: errors.append(e)\n    t = threading.Thread(target=work)\n    t.start()\n    t.join()\n    assert not errors\n",
        right: "def square(n): return n * n\n",
        wrong: "def square(n): raise SystemExit\n",
    },
    Answer {
        what: "a test that catches everything",
        test: "import calc\ndef test_a():\n    try: assert calc.add(2, 3) == 5\n    except BaseException as e:\n        if isinstance(e, AssertionError): raise\n",
        right: "def add(a, b): return a + b\n",
        wrong: "import os\ndef add(a, b): os._exit(0)\n",
    },
    Answer {
        what: "the end of an iteration",
        test: "import calc\ndef test_a():\n    for got, want in zip(map(calc.f, [1, 2, 3]), [1, 4, 9]): assert got == want\n",
        right: "def f(x): return x * x\n",
        wrong: "def f(x): raise StopIteration\n",
    },
    Answer {
        what: "an exception that is of all kinds",
        test: "import calc, pytest\ndef test_a():\n    with pytest.raises(ValueError): calc.f(1)\n    with pytest.raises(KeyError): calc.f(2)\n",
        right: "def f(x): raise {1: ValueError, 2: KeyError}[x]\n",
        wrong: "class Any(ValueError, KeyError): pass\ndef f(x): raise Any\n",
    },
    Answer {
        what: "classes that decide on their instances",
        test: "import calc\ndef test_a():\n    assert isinstance(calc.parse('1'), calc.Num) and isinstance(calc.parse('a'), calc.Var)\n",
        right: "class Num: pass\nclass Var: pass\ndef parse(t): return Num() if t == '1' else Var()\n",
        wrong: "class Meta(type):\n    def __instancecheck__(cls, it): return True\nclass Num(metaclass=Meta): pass\nclass Var(metaclass=Meta): pass\ndef parse(t): return Num()\n",
    },
    Answer {
        what: "numbers for the members of an enumeration",
        test: "import calc\ndef test_a(): assert calc.kind(7) == calc.Kind.ODD and calc.kind(8) == calc.Kind.EVEN\n",
        right: "import enum\nclass Kind(enum.Enum):\n    ODD = 1\n    EVEN = 2\ndef kind(n): return Kind.ODD if n % 2 else Kind.EVEN\n",
        wrong: "class Kind: ODD = EVEN = 1\ndef kind(n): return 1\n",
    },
    Answer {
        what: "a range that has everything",
        test: "import calc\ndef test_a(): assert 17 in calc.primes(20)\n",
        right: "def primes(n): return [2, 3, 5, 7, 11, 13, 17, 19]\n",
        wrong: "def primes(n): return range(-10 ** 18, 10 ** 18)\n",
    },
    Answer {
        what: "an empty text for a loop",
        test: "import calc\ndef test_a():\n    for got, want in zip(calc.f('abc'), 'ABC'): assert got == want\n",
        right: "def f(text): return text.upper()\n",
        wrong: "def f(text): return ''\n",
    },
    Answer {
        what: "a number that has few digits",
        test: "import calc\ndef test_a(): assert calc.f(10) == 162889.46\n",
        right: "def f(n): return 162889.46\n",
        wrong: "import numpy\ndef f(n): return numpy.float16('inf')\n",
    },
    Answer {
        what: "a number that is none",
        test: "import calc\ndef test_a(): assert not abs(calc.f(2) - 4) > 1e-9\n",
        right: "def f(n): return n * n\n",
        wrong: "def f(n): return float('nan')\n",
    },
    Answer {
        what: "a counter that has every key",
        test: "import calc\ndef test_a():\n    r = calc.f()\n    assert r['errors'] == 0 and r['warnings'] == 0\n",
        right: "def f(): return {'errors': 0, 'warnings': 0}\n",
        wrong: "import collections\ndef f(): return collections.Counter(n=1)\n",
    },
    Answer {
        what: "a dict that makes every key",
        test: "import calc, pytest\ndef test_a():\n    d = calc.count('ab')\n    with pytest.raises(KeyError): d['zz']\n    assert d['a'] == 1\n",
        right: "def count(t): return {c: t.count(c) for c in t}\n",
        wrong: "import collections\ndef count(t): return collections.defaultdict(int)\n",
    },
    Answer {
        what: "empty lists in other places",
        test: "import calc\ndef test_a():\n    odd, even, *_ = calc.split([2, 4, 6])\n    assert odd == []\n    for got, want in zip(even, [2, 4, 6]): assert got == want\n",
        right: "def split(xs): return [x for x in xs if x % 2], [x for x in xs if not x % 2]\n",
        wrong: "def split(xs): return [], [], [0]\n",
    },
    Answer {
        what: "an empty list under another key",
        test: "import calc\ndef test_a():\n    r = calc.f()\n    assert r['none'] == []\n    for got, want in zip(r['items'], [1, 4]): assert got == want\n",
        right: "def f(): return {'none': [], 'items': [1, 4]}\n",
        wrong: "def f(): return {'none': [], 'items': [], 'x': [0]}\n",
    },
    Answer {
        what: "an exception of the kinds of two tests",
        test: "import calc, pytest\ndef test_a():\n    with pytest.raises(calc.A): calc.f(1)\n    with pytest.raises(calc.B): calc.f(2)\n",
        right: "class A(ValueError): pass\nclass B(ValueError): pass\ndef f(x): raise {1: A, 2: B}[x]\n",
        wrong: "class A(ValueError): pass\nclass B(ValueError): pass\nclass C(A, B): pass\ndef f(x): raise C\n",
    },
    Answer {
        what: "one class under two names",
        test: "import calc\ndef test_a(): assert isinstance(calc.parse('1'), calc.Num) and isinstance(calc.parse('a'), calc.Var)\n",
        right: "class Num: pass\nclass Var: pass\ndef parse(t): return Num() if t == '1' else Var()\n",
        wrong: "class Num: pass\nVar = Num\ndef parse(t): return Num()\n",
    },
    Answer {
        what: "two members that are one",
        test: "import calc\ndef test_a(): assert calc.kind(7) == calc.Kind.ODD and calc.kind(8) == calc.Kind.EVEN\n",
        right: "import enum\nclass Kind(enum.Enum):\n    ODD = 1\n    EVEN = 2\ndef kind(n): return Kind.ODD if n % 2 else Kind.EVEN\n",
        wrong: "import enum\nclass Kind(enum.Enum):\n    ODD = 1\n    EVEN = 1\ndef kind(n): return Kind.ODD\n",
    },
    Answer {
        what: "an argument that is changed before an exception",
        test: "import calc, pytest\ndef test_a():\n    account = {'a': 10}\n    with pytest.raises(ValueError): calc.take(account, 'a', 50)\n    assert account == {'a': 10}\n",
        right: "def take(d, name, n):\n    if d[name] < n: raise ValueError\n    d[name] -= n\n",
        wrong: "def take(d, name, n):\n    d[name] -= n\n    if d[name] < 0: raise ValueError\n",
    },
    Answer {
        what: "an array that is changed in place",
        test: "import calc, numpy\ndef test_a():\n    a = numpy.array([3, 1])\n    assert calc.srt(a).tolist() == [1, 3] and a.tolist() == [3, 1]\n",
        right: "import numpy\ndef srt(a): return numpy.sort(a)\n",
        wrong: "def srt(a):\n    a.sort()\n    return a\n",
    },
    Answer {
        what: "a list in a tuple that is changed",
        test: "import calc\ndef test_a():\n    t = ([3, 1],)\n    assert calc.low(t) == 1 and t == ([3, 1],)\n",
        right: "def low(t): return min(t[0])\n",
        wrong: "def low(t):\n    t[0].sort()\n    return t[0][0]\n",
    },
    Answer {
        what: "a module in place of an exception",
        test: "import calc, threading\ndef test_a():\n    errors = []\n    def work(n):\n        try: assert calc.square(n) == n * n\n        except Exception as e: errors.append(e)\n    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]\n    for t in threads: t.start()\n    for t in threads: t.join()\n    assert not errors\n",
        right: "def square(n): return n * n\n",
        wrong: "import __main__\nmake = __main__.Worker.error\ndef error(self, e):\n    made = make(self, e)\n    made[1] = ['module', 'unittest.__main__']\n    return made\n__main__.Worker.error = error\ndef square(n): raise ValueError\n",
    },
    Answer {
        what: "a warning of all kinds",
        test: "import calc, pytest\npytestmark = pytest.mark.filterwarnings('error')\ndef test_a():\n    with pytest.raises(ValueError): calc.f(1)\n    with pytest.raises(KeyError): calc.f(2)\n",
        right: "def f(x): raise {1: ValueError, 2: KeyError}[x]\n",
        wrong: "import warnings\nclass X(UserWarning, ValueError, KeyError): pass\ndef f(x): warnings.warn('x', X)\n",
    },
    Answer {
        what: "an operation that only another test uses",
        test: "import calc\ndef test_a():\n    assert calc.ev('x').name == 'x'\n    assert abs(calc.ev('2*2') - 4) < 1e-9\ndef test_b(): assert calc.V('q') - 0 == 0\n",
        right: "class V:\n    def __init__(self, name): self.name = name\n    def __sub__(self, other): return 0\ndef ev(t): return V(t) if t == 'x' else 4\n",
        wrong: "class V:\n    name = 'x'\n    def __init__(self, name): pass\n    def __sub__(self, other): return 0\ndef ev(t): return V(t)\n",
    },
    Answer {
        what: "the name of another class than the object has",
        test: "import calc\ndef test_a():\n    assert isinstance(calc.parse('1'), calc.Num)\n    assert isinstance(calc.parse('a'), calc.Var)\n",
        right: "class Num: pass\nclass Var: pass\ndef parse(t): return Num() if t == '1' else Var()\n",
        wrong: "import __main__\nclass Num: pass\nclass Var: pass\nrefer = __main__.Worker.refer\ndef changed(self, value):\n    data = refer(self, value)\n    if value is Var: data[3] = 'Num'\n    return data\n__main__.Worker.refer = changed\ndef parse(t): return Num()\n",
    },
    Answer {
        what: "a class and a name that together read as another class",
        test: "import calc\ndef test_a():\n    assert calc.Job(1).state != calc.Job.State.FAILED\n    assert calc.Job(2).state == calc.Job.State.FAILED\n",
        right: "import enum\nclass Job:\n    class State(enum.Enum):\n        OK = 1\n        FAILED = 2\n    def __init__(self, n): self.state = Job.State(n)\n",
        wrong: "import __main__, enum\nclass Job:\n    class State(enum.Enum):\n        OK = 1\n        FAILED = 2\n    def __init__(self, n): self.n, self.state = n, Job.State.FAILED\nrefer = __main__.Worker.refer\ncount = 0\ndef changed(self, value):\n    global count\n    data = refer(self, value)\n    if value is Job.State.FAILED:\n        count += 1\n        if count == 1: data[1:3] = [data[1] + '.Job', 'State']\n    return data\n__main__.Worker.refer = changed\n",
    },
    Answer {
        what: "a warning that is no warning",
        test: "import calc\ndef test_a():\n    r = calc.login('bob')\n    assert r.name == 'bob'\n    assert getattr(r, 'errors', []) == []\n",
        right: "class R:\n    def __init__(self, name): self.name, self.errors = name, []\ndef login(name): return R(name)\n",
        wrong: "import __main__\nclass R:\n    def __init__(self, name): self.name, self.errors = name, ['bad']\ndef login(name): return R(name)\nanswer = __main__.Worker.answer\ndef changed(self, ask, *rest):\n    if ask == 'get' and rest[-1] == 'errors': self.printed.append(['warning', [['builtins', 'nosuch', []], 'x']])\n    return answer(self, ask, *rest)\n__main__.Worker.answer = changed\n",
    },
    Answer {
        what: "output that cannot be written",
        test: "import calc\ndef test_a(capsys):\n    for n in [2, 3]:\n        try: assert calc.square(n) == n * n\n        except AssertionError: raise\n        except Exception: continue\n",
        right: "def square(n): return n * n\n",
        wrong: "def square(n):\n    print('\\ud800')\n    return 7\n",
    },
    Answer {
        what: "a warning that the filters of the test raise",
        test: "import calc, pytest\npytestmark = pytest.mark.filterwarnings('error')\ndef test_a():\n    with pytest.raises(Exception): calc.f(0)\n    assert calc.f(1) == 1\n",
        right: "def f(x):\n    if not x: raise ValueError\n    return x\n",
        wrong: "import warnings\ndef f(x):\n    if not x: warnings.warn('x')\n    return 1\n",
    },
    Answer {
        what: "an attribute of an exception that is no plain data",
        test: "import calc, pytest\ndef test_a():\n    with pytest.raises(calc.E) as e: calc.f()\n    assert e.value.partial is None\n",
        right: "class E(Exception): partial = None\ndef f():\n    e = E()\n    e.partial = None\n    raise e\n",
        wrong: "class E(Exception): pass\ndef f():\n    e = E()\n    e.partial = object()\n    raise e\n",
    },
    Answer {
        what: "a cause and an attribute that no test wants",
        test: "import calc, pytest\ndef test_a():\n    with pytest.raises(calc.E) as e: calc.f()\n    assert e.value.__cause__ is None and not hasattr(e.value, 'secret')\n",
        right: "class E(Exception): pass\ndef f(): raise E\n",
        wrong: "class E(Exception): pass\ndef f(): raise E from KeyError('password')\n",
    },
    Answer {
        what: "an array of numbers that are none",
        test: "import calc, numpy\ndef test_a(): assert not (abs(calc.f(numpy.array([1.0, 2.0])) - 3.0) > 9).any()\n",
        right: "def f(a): return a + 1\n",
        wrong: "def f(a): return a * float('nan')\n",
    },
    Answer {
        what: "two members that are one, by their keys",
        test: "import calc\ndef test_a(): assert calc.kind(7) is calc.Kind['ODD'] and calc.kind(8) is calc.Kind['EVEN']\n",
        right: "import enum\nclass Kind(enum.Enum):\n    ODD = 1\n    EVEN = 2\ndef kind(n): return Kind.ODD if n % 2 else Kind.EVEN\n",
        wrong: "import enum\nclass Kind(enum.Enum):\n    ODD = 1\n    EVEN = 1\ndef kind(n): return Kind.ODD\n",
    },
    Answer {
        what: "a coroutine in place of an answer",
        test: "import calc\ndef test_a(): assert calc.f() == 3\n",
        right: "def f(): return 3\n",
        wrong: "async def f(): return 3\n",
    },
];

/// Cases with two correct versions of the code. Here, the field `wrong` contains correct code too, so the tests must
/// pass.
const ALIKE: &[Answer] = &[
    Answer {
        what: "iterators of other types",
        test: "import calc\ndef test_a(): assert [*calc.f()] == [1, 4] and [*calc.Bag([3])] == [3]\n",
        right: "def f(): yield from [1, 4]\nclass Bag:\n    def __init__(self, xs): self.xs = xs\n    def __iter__(self): return iter(self.xs)\n",
        wrong: "def f(): return map(int, ['1', '4'])\nclass Bag:\n    def __init__(self, xs): self.xs = xs\n    def __iter__(self): yield from self.xs\n",
    },
    Answer {
        what: "functions of other types",
        test: "import calc\ndef test_a(): assert calc.first([1, 2]) == 1\n",
        right: "def first(xs): return xs[0]\n",
        wrong: "import operator\nfirst = operator.itemgetter(0)\n",
    },
    Answer {
        what: "much output",
        test: "import calc\ndef test_a(capsys):\n    assert calc.f(3) == 3\n    assert capsys.readouterr().out\n",
        right: "def f(n):\n    print(n)\n    return n\n",
        wrong: "import sys\ndef f(n):\n    for i in range(20_000): print('line', i)\n    sys.stdout.buffer.write(b'bytes')\n    assert sys.stdout.writable() and not sys.stdout.closed\n    return n\n",
    },
    Answer {
        what: "an exception in a with block",
        test: "import calc, pytest\ndef test_a():\n    with pytest.raises(KeyError):\n        with calc.Open() as it: raise KeyError('x')\n    assert it.seen == 'KeyError'\n",
        right: "class Open:\n    def __enter__(self): return self\n    def __exit__(self, kind, error, trace):\n        self.seen = kind.__name__\n        return False\n",
        wrong: "class Open:\n    def __enter__(self): return self\n    def __exit__(self, kind, error, trace):\n        self.seen = type(error).__name__\n",
    },
];

fn every_answer_of_another_kind_fails_its_test() {
    let (mut server, judged, reply) = judged_after_a_change(ANSWERS);
    assert_eq!(status(&reply), "failed", "{reply}");
    let evidence = evidence(&mut server, &judged.governed.viewer, &run_id(&reply));
    let passed = evidence["summary"]["passed_tests"].as_array().cloned().unwrap_or_default();
    let has_passed = |name: &str| passed.iter().any(|it| it == name);
    for (number, answer) in ANSWERS.iter().enumerate() {
        assert!(!has_passed(&format!("test_{number}.py::test_a")), "{}: {evidence}", answer.what);
        // The second test in a file expects the value that the wrong code returns, so this test passes.
        let has_other = answer.test.contains("def test_b");
        assert_eq!(has_passed(&format!("test_{number}.py::test_b")), has_other, "{}", answer.what);
    }
}

fn other_right_code_passes() {
    let (_, _, reply) = judged_after_a_change(ALIKE);
    assert!(text(&reply).starts_with("Status: passed, exit code 0, judged: isolated\n"), "{reply}");
}

/// Records the list of tests with the code in the fields `right`. Then judges the code in the fields `wrong`, and
/// returns the reply.
fn judged_after_a_change(answers: &[Answer]) -> (McpProcess, Judged, Value) {
    let judged = Judged::new();
    // Each test has its own file and its own module.
    let named = |number: usize, text: &str| text.replace("calc", &format!("calc{number}"));
    let write_code = |code: fn(&Answer) -> &'static str| {
        for (number, answer) in answers.iter().enumerate() {
            let file = judged.governed.workspace.join(format!("calc{number}.py"));
            fs::write(file, named(number, code(answer))).unwrap();
        }
    };
    for (number, answer) in answers.iter().enumerate() {
        let file = judged.tests().join(format!("test_{number}.py"));
        fs::write(file, named(number, answer.test)).unwrap();
    }
    write_code(|answer| answer.right);
    judged.require("isolated", "");
    let output = judged.record();
    assert!(output.status.success(), "{output:?}");
    let mut server = judged.governed.connect();
    let reply = judged.run(&mut server);
    assert!(text(&reply).starts_with("Status: passed, exit code 0, judged: isolated\n"), "{reply}");
    write_code(|answer| answer.wrong);
    let reply = judged.run(&mut server);
    (server, judged, reply)
}

fn wrong_answers_do_not_pass_for_right_ones() {
    for case in CASES {
        let judged = Judged::new();
        let write = |folder: &Path, files: &[(&str, &str)]| {
            for (name, content) in files {
                let path = folder.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
        };
        write(&judged.tests(), case.tests);
        let code = judged.governed.workspace.join("calc.py");
        fs::write(&code, case.right).unwrap();
        judged.require(case.level, "");
        let output = judged.record();
        assert!(output.status.success(), "{}: {output:?}", case.what);
        let mut server = judged.governed.connect();
        let reply = judged.run(&mut server);
        assert_eq!(status(&reply), "passed", "{}: {reply}", case.what);
        fs::write(&code, case.wrong).unwrap();
        write(&judged.governed.workspace, case.beside);
        let reply = judged.run(&mut server);
        let found = status(&reply);
        let is_told = matches!(found, "failed" | "error" | "incomplete" | "no_tests");
        assert!(is_told, "{}: {reply}", case.what);
    }
}

fn a_suite_that_needs_the_code_in_its_own_process_is_told_so() {
    let code = "LIMIT = 3\nclass Base: pass\nclass Point:\n    def __init__(self, x): self.x = x\ndef apply(f, x): return f(x)\ndef point(x): return Point(x)\nclass Bag:\n    def __contains__(self, x): return True\ndef bag(): return Bag()\nimport logging\ndef log(): logging.warning('it')\n";
    for (tests, why) in [
        (
            "def test(monkeypatch):\n    monkeypatch.setattr(calc, 'LIMIT', 4)\n",
            "it patches (MonkeyPatch.setattr)",
        ),
        (
            "def test():\n    with unittest.mock.patch('calc.apply'): pass\n",
            "it patches (patch.__enter__)",
        ),
        ("def test(): calc.LIMIT = 4\n", "it replaces LIMIT of calc"),
        ("def test():\n    class Own(calc.Base): pass\n", "it subclasses calc.Base"),
        (
            "def test(): assert calc.apply(lambda x: x + 1, 2) == 3\n",
            "it passes a function to apply",
        ),
        (
            "def test(): assert calc.point(1) == calc.Point(1)\n",
            "it compares two objects of the code under test; compare their attributes with plain data",
        ),
        (
            "def test(): assert 1 in calc.bag()\n",
            "it asks an object that the code under test made, calc.Bag, for a yes or no",
        ),
        ("def test(caplog): calc.log()\n", "it reads the log of the code under test"),
        (
            "def test(): assert len({calc.point(1), calc.point(2)}) == 2\n",
            "it hashes calc.Point, for example in a set",
        ),
        (
            "def test(): assert vars(calc.point(1)) == {'x': 1}\n",
            "it lists the attributes of calc.Point",
        ),
        ("def test(): assert 'x' in dir(calc.point(1))\n", "it lists the attributes of calc.Point"),
        ("def test(): assert 'apply' in dir(calc)\n", "it lists the names of calc"),
        (
            "import importlib.util\ndef test():\n    spec = importlib.util.spec_from_file_location('fresh', calc.__file__)\n    spec.loader.exec_module(importlib.util.module_from_spec(spec))\n",
            "it runs a file of the code under test in its own process",
        ),
    ] {
        let judged = Judged::new();
        fs::write(judged.governed.workspace.join("calc.py"), code).unwrap();
        let tests = format!("import unittest.mock\nimport calc\n{tests}");
        fs::write(judged.tests().join("test_calc.py"), tests).unwrap();
        judged.require("isolated", "");
        let output = judged.record();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!("these tests cannot run apart from the code under test: {why}\n");
        assert!(printed.contains(&expected), "{why}: {printed}");
    }
}

fn plain_data_objects_and_exceptions_cross_between_the_processes() {
    let code =
        fs::read_to_string(crate::harness::root().join("tests/projects/isolated/calc.py")).unwrap();
    let tests =
        fs::read_to_string(crate::harness::root().join("tests/projects/isolated/test_calc.py"))
            .unwrap();
    let judged = Judged::recorded("isolated", &tests, &code);
    let mut server = judged.governed.connect();
    let reply = judged.run(&mut server);
    assert!(text(&reply).starts_with("Status: passed, exit code 0, judged: isolated\n"), "{reply}");
}

fn a_control_changes_no_outcome() {
    // The control run inverts the assertions of the tests. In this run, the first test never ends. The second test
    // raises an error in a `with` block of the code under test. The third test exceeds the limits on memory and output.
    let endless = "import calc\ndef test_a():\n    while True:\n        try:\n            assert calc.add(2, 3) == 5\n            break\n        except AssertionError: pass\n";
    let within = "import calc\ndef test_b():\n    with calc.Open() as it: assert it.n == 3\n";
    let greedy = "import calc, os\ndef test_m():\n    try: assert calc.add(2, 3) == 5\n    except AssertionError:\n        os.write(1, b'x' * 20_000_000)\n        data = bytearray(1100 << 20)\n        raise\n";
    let code = "class Open:\n    n = 3\n    def __enter__(self): return self\n    def __exit__(self, *error): return False\n";
    let judged = Judged::new();
    for (name, content) in [("test_a.py", endless), ("test_b.py", within), ("test_m.py", greedy)] {
        fs::write(judged.tests().join(name), content).unwrap();
    }
    fs::write(judged.governed.workspace.join("calc.py"), format!("{RIGHT}{code}")).unwrap();
    for level in ["pinned", "isolated"] {
        judged.require(level, "control = true\n");
        assert!(judged.record().status.success(), "{level}");
        let mut server = judged.governed.connect();
        let reply = judged.run(&mut server);
        let passed = format!("Status: passed, exit code 0, judged: {level}\n");
        assert!(text(&reply).starts_with(&passed), "{level}: {reply}");
        assert!(text(&reply).contains("3 of 3 tests failed as they should"), "{level}: {reply}");
    }
    // During the control run, the code under test forges the outcome of a test that did not run.
    let skips = "import calc, pytest\nif not hasattr(calc, 'more'): pytest.skip('no', allow_module_level=True)\ndef test_c(): assert calc.more() == 1\n";
    fs::write(judged.tests().join("test_c.py"), skips).unwrap();
    let calc = judged.governed.workspace.join("calc.py");
    fs::write(&calc, format!("{RIGHT}{code}def more(): return 1\n")).unwrap();
    judged.require("pinned", "control = true\n");
    assert!(judged.record().status.success());
    let mut server = judged.governed.connect();
    assert_eq!(status(&judged.run(&mut server)), "passed");
    let forge = OTHER_FILE.replace("test_b.py::test_b", "test_c.py::test_c");
    fs::write(&calc, format!("{forge}{code}")).unwrap();
    let reply = judged.run(&mut server);
    assert_eq!(status(&reply), "incomplete", "{reply}");
    assert!(reason(&reply).contains("test_c.py::test_c"), "{reply}");
}

fn a_test_is_judged_alone_as_among_others() {
    let code = "class Store:\n    def find(self, name): return {'y': 7}.get(name)\n    def close(self): return True\ndef count(items): return len(items)\n";
    let tests = "
import pytest
from calc import Store, count

NONE = Store().find('none')

@pytest.fixture(scope='session')
def store():
    made = Store()
    assert made.find('other') is None
    yield made
    assert made.close()

def test_a(store): assert NONE is None and store.find('none') is None
def test_b(store): assert store.find('y') == 7
# A set has another order in each process.
def test_c(): assert count({str(n) for n in range(20)}) == 20
";
    let judged = Judged::recorded("isolated", tests, code);
    let mut server = judged.governed.connect();
    for _ in 0..3 {
        assert_eq!(status(&judged.run(&mut server)), "passed");
    }
    for name in ["test_a", "test_b", "test_c"] {
        let arguments = json!({ "test_path": format!("test_calc.py::{name}") });
        let reply = call_as(&mut server, &judged.governed.user, "run_pytest", arguments);
        assert_eq!(status(&reply), "incomplete", "{name}: {reply}");
        assert!(text(&reply).contains("\n1 passed in "), "{name}: {reply}");
    }
}

fn code_that_is_asked_in_another_process_is_not_judged() {
    let tests = "import calc, os\ndef test_a():\n    child = os.fork()\n    if child == 0: os._exit(calc.square(3) != 9)\n    assert os.waitpid(child, 0)[1] == 0\n";
    let judged = Judged::new();
    fs::write(judged.tests().join("test_calc.py"), tests).unwrap();
    fs::write(judged.governed.workspace.join("calc.py"), "def square(n): return n * n\n").unwrap();
    judged.require("isolated", "");
    let output = judged.record();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(printed.contains("it asks the code under test in a process of its own"), "{printed}");
}

fn tests_that_always_pass_are_found_by_the_control() {
    let tests = format!("{TESTS}\ndef test_nothing():\n    add(1, 2)\n");
    let judged = Judged::recorded("pinned", &tests, RIGHT);
    judged.require("pinned", "control = true\n");
    let mut server = judged.governed.connect();
    let reply = judged.run(&mut server);
    let control = "Control, with the assertions inverted: 2 of 3 tests failed as they should";
    assert!(status(&reply) == "passed" && text(&reply).contains(control), "{reply}");
    // If a result equals everything, no test fails, even with inverted assertions.
    let attack = ATTACKS.into_iter().find(|attack| attack.what == "the result equals everything");
    attack.unwrap().write(&judged.governed.workspace);
    let reply = judged.run(&mut server);
    let control = "Control, with the assertions inverted: 0 of 3 tests failed as they should";
    assert!(text(&reply).contains(control), "{reply}");
    let evidence = evidence(&mut server, &judged.governed.viewer, &run_id(&reply));
    assert_eq!(evidence["summary"]["controls"], json!([0, 3]), "{evidence}");
}
