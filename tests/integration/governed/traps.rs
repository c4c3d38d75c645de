//! Tests that code in the workspace never runs outside of the sandbox.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest as _, Sha256};

use crate::harness::{ServerBuilder, binary, is_root, public_python, python};

use super::{Governed, assert_refused, call_as, counted, quoted, run_id, run_pytest, text};

tests! {
    needs [Sandbox, Packages]:
        an_interpreter_of_the_workspace_is_refused_before_it_is_asked_anything,
        an_environment_of_the_workspace_is_refused_before_it_is_asked_anything,
        an_environment_in_the_data_folder_is_for_tests_to_read,
        a_shim_does_not_look_into_the_workspace,
        a_workspace_of_traps_runs_inside_only;
    needs [Sandbox, PublicPython, Packages]:
        nothing_is_started_where_nothing_would_hold_it;
}

/// Writes a program that records its start and then executes Python.
fn tell_tale(path: &Path, marker: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = format!(
        "#!/bin/sh\necho \"$0\" >> {}\nexec {} \"$@\"\n",
        quoted(marker),
        python().display()
    );
    crate::harness::write_program(path, &text);
}

fn an_interpreter_of_the_workspace_is_refused_before_it_is_asked_anything() {
    let governed = Governed::new("ledger");
    let marker = governed.beside("escaped");
    let program = governed.workspace.join(".venv/bin/python3");
    tell_tale(&program, &marker);
    symlink("python3", program.with_file_name("python")).unwrap();
    symlink(governed.workspace.join(".venv"), governed.beside("link")).unwrap();
    fs::create_dir(governed.beside("bin")).unwrap();
    symlink(governed.beside("link/bin/python"), governed.beside("bin/python3")).unwrap();
    let script = governed.beside("script");
    crate::harness::write_program(&script, &format!("#!{}\n", program.display()));
    // The control: each of these programs runs code of the workspace.
    for start in
        [&program, &governed.beside("link/bin/python"), &governed.beside("bin/python3"), &script]
    {
        assert!(Command::new(start).args(["-c", "pass"]).status().unwrap().success());
        assert!(marker.exists(), "{}", start.display());
        fs::remove_file(&marker).unwrap();
    }

    let path = |folder: PathBuf| {
        let before = std::env::var("PATH").unwrap();
        format!("{}:{before}", folder.display())
    };
    let named = |path: &str| governed.beside(path).display().to_string();
    for variables in [
        vec![("QWED_MCP_PYTHON", program.display().to_string())],
        vec![("VIRTUAL_ENV", governed.workspace.join(".venv").display().to_string())],
        vec![("PATH", path(governed.workspace.join(".venv/bin")))],
        vec![("PATH", path(governed.beside("bin")))],
        vec![
            ("QWED_MCP_PYTHON", "python3".to_owned()),
            ("PATH", path(governed.workspace.join(".venv/bin"))),
        ],
        vec![("QWED_MCP_PYTHON", named("link/bin/python"))],
        vec![("QWED_MCP_PYTHON", named("workspace/../link/bin/python"))],
        vec![("QWED_MCP_PYTHON", named("script"))],
    ] {
        // If the admin gate is open, the server searches for the interpreter at its start.
        for gate in ["true", "false"] {
            let mut server = governed.server().warm("").without("QWED_MCP_PYTHON");
            for (name, value) in &variables {
                server = server.variable(name, value);
            }
            let mut server = server.variable("QWED_MCP_TRUSTED_CODE_EXECUTION", gate).connect();
            let reply = run_pytest(&mut server, &governed.admin, "tests");
            let message = "Sandbox violation: the interpreter is in the workspace";
            assert_refused(&reply, -32006, "SANDBOX_VIOLATION", message);
            let result = server.execute("print(1)");
            assert!(result.is_error, "{:?}", result.texts);
            server.finish();
            assert!(!marker.exists(), "{variables:?}: code of the workspace ran outside");
        }
    }
}

/// Writes the marker file of a complete environment, with a record of the files that its interpreter reads at its
/// start.
fn mark_as_complete(environment: &Path) {
    let mut startup = BTreeMap::new();
    record_startup(environment, Path::new(""), &mut startup);
    let marker = serde_json::json!({
        "format": 1, "created": "2026-11-22T21:00:00Z", "python": "3.13.0", "tool": "uv", "qwed_mcp": "0.3.0",
        "is_sdk": false, "lock_sha256": "", "with": [], "packages": {}, "startup": startup,
    });
    fs::write(environment.join("qwed-env.json"), marker.to_string()).unwrap();
}

/// Adds the start-up files below `folder` to `record`: symlinks, the program, `pyvenv.cfg`, and the folders of the
/// library.
fn record_startup(environment: &Path, folder: &Path, record: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(environment.join(folder)).unwrap().map(Result::unwrap) {
        let name = folder.join(entry.file_name());
        let (kind, text) = (entry.file_type().unwrap(), name.to_str().unwrap().to_owned());
        let is_of_packages = name.ends_with("site-packages");
        if kind.is_symlink() {
            let target = fs::read_link(entry.path()).unwrap();
            record.insert(text, format!("link {}", target.display()));
        } else if kind.is_dir() {
            if text.starts_with("lib/python") {
                record.insert(text, "folder".to_owned());
            }
            if !is_of_packages {
                record_startup(environment, &name, record);
            }
        } else if text == "pyvenv.cfg" || text == "bin/python" {
            let digest = Sha256::digest(fs::read(entry.path()).unwrap());
            record.insert(text, format!("file {}", hex::encode(digest)));
        }
    }
}

/// The ways in which an interpreter outside of the workspace can run code of the workspace.
#[derive(Clone, Copy)]
enum Way {
    Link,
    Script,
    Home,
}

impl Way {
    const ALL: [Self; 3] = [Self::Link, Self::Script, Self::Home];

    /// Creates an environment that leads to an interpreter in the workspace.
    fn plant(self, environment: &Path, of_workspace: &Path, marker: &Path) {
        let python = environment.join("bin/python");
        fs::create_dir_all(environment.join("bin")).unwrap();
        let mut home = Path::new("/usr/bin");
        match self {
            Self::Link => symlink(of_workspace, &python).unwrap(),
            Self::Script => {
                crate::harness::write_program(&python, &format!("#!{}\n", of_workspace.display()));
            }
            Self::Home => {
                tell_tale(&python, marker);
                home = of_workspace.parent().unwrap();
            }
        }
        let settings = format!("home = {}\n", home.display());
        fs::write(environment.join("pyvenv.cfg"), settings).unwrap();
        // The control: this program creates the marker file.
        assert!(Command::new(&python).args(["-c", "pass"]).status().unwrap().success());
        assert!(marker.exists(), "{}", python.display());
        fs::remove_file(marker).unwrap();
    }
}

/// Covers virtual environments with the server's program, and environments from `env create`.
fn an_environment_of_the_workspace_is_refused_before_it_is_asked_anything() {
    let governed = Governed::new("ledger");
    let marker = governed.beside("escaped");
    let of_workspace = governed.workspace.join(".venv/bin/python");
    tell_tale(&of_workspace, &marker);
    let refused = |server: &dyn Fn() -> ServerBuilder, what: &str| {
        for gate in ["true", "false"] {
            let server = server().variable("QWED_MCP_TRUSTED_CODE_EXECUTION", gate);
            let mut server = server.warm("").without("QWED_MCP_PYTHON").connect();
            let reply = run_pytest(&mut server, &governed.admin, "tests");
            let message = "Sandbox violation: the interpreter is in the workspace";
            assert_refused(&reply, -32006, "SANDBOX_VIOLATION", message);
            let result = server.execute("print(1)");
            assert!(result.is_error, "{what}: {:?}", result.texts);
            server.finish();
            assert!(!marker.exists(), "{what}: code of the workspace ran outside");
        }
    };
    // The server's program is in an environment of the workspace. A symlink outside of the workspace leads to this
    // program.
    fs::write(governed.workspace.join(".venv/pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    let program = governed.workspace.join(".venv/bin/qwed-mcp");
    crate::harness::copy_program(binary(), &program);
    symlink(&program, governed.beside("qwed-mcp")).unwrap();
    for program in [program, governed.beside("qwed-mcp")] {
        refused(&|| governed.server().started_by(&program), &program.display().to_string());
    }
    for (number, way) in (1..).zip(Way::ALL) {
        let beside = governed.beside("elsewhere").join(number.to_string());
        way.plant(&beside, &of_workspace, &marker);
        let program = beside.join("bin/qwed-mcp");
        crate::harness::copy_program(binary(), &program);
        refused(&|| governed.server().started_by(&program), &program.display().to_string());
    }
    for (number, way) in (1..).zip(Way::ALL) {
        // The server uses the newest environment.
        let made = governed.data.join(format!("environments/env-{number}"));
        way.plant(&made, &of_workspace, &marker);
        mark_as_complete(&made);
        refused(&|| governed.server(), &made.display().to_string());
    }
    // The data folder is in the workspace.
    let inside = governed.workspace.join(".data");
    let copied = Command::new("cp").arg("-R").args([&governed.data, &inside]).status();
    assert!(copied.unwrap().success());
    let newest = inside.join("environments/env-3");
    fs::write(newest.join("pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    mark_as_complete(&newest);
    let data = inside.to_str().unwrap();
    refused(&|| governed.server().variable("QWED_MCP_DATA_DIR", data), data);
}

fn an_environment_in_the_data_folder_is_for_tests_to_read() {
    let governed = Governed::new("ledger");
    let made = governed.data.join("environments/env-1");
    let interpreter = environment(&made, &governed.beside("nothing"));
    mark_as_complete(&made);
    let tests = format!(
        "import sys, pytest\n\ndef test_where():\n    assert sys.executable == {}\n\n\
         def test_store():\n    for name in ('governance.db', 'artifacts/x', 'governance.lock'):\n        \
         with pytest.raises(OSError):\n            open({} + '/' + name)\n\n\
         def test_write():\n    with pytest.raises(OSError):\n        open({} + '/x', 'w')\n",
        quoted(&interpreter),
        quoted(&governed.data),
        quoted(&made),
    );
    fs::write(governed.workspace.join("tests/test_where.py"), tests).unwrap();
    for lacks in ["", "namespaces"] {
        let server = governed.server().without("QWED_MCP_PYTHON");
        let mut server = server.variable("QWED_MCP_TEST_KERNEL_LACKS", lacks).connect();
        let reply = run_pytest(&mut server, &governed.user, "tests/test_where.py");
        // At tier 2, scripts of a root server run as another user. This user cannot open root's folders.
        if lacks.is_empty() || !is_root() {
            assert!(counted(&reply).starts_with("3 passed in "), "{lacks}: {reply}");
        }
        server.finish();
    }
}

/// The shim of a version manager searches `PATH` for programs, and the current folder for a file that selects a
/// version. Neither may lead to code of the workspace.
fn a_shim_does_not_look_into_the_workspace() {
    let governed = Governed::new("ledger");
    let marker = governed.beside("escaped");
    tell_tale(&governed.workspace.join("bin/real-python"), &marker);
    crate::harness::copy_program(
        governed.workspace.join("bin/real-python"),
        governed.workspace.join("real-python"),
    );
    let elsewhere = governed.beside("versions");
    fs::create_dir(&elsewhere).unwrap();
    let real = elsewhere.join("real-python");
    crate::harness::write_program(
        &real,
        &format!("#!/bin/sh\nexec {} \"$@\"\n", python().display()),
    );
    let shim = governed.beside("python3");
    let text = "#!/bin/sh\n[ -x ./real-python ] && ./real-python -c pass\n\
                [ -n \"$SHIM_START\" ] && $SHIM_START\nexec real-python \"$@\"\n";
    crate::harness::write_program(&shim, text);
    let path = format!(
        "{}::{}:{}",
        governed.workspace.join("bin").display(),
        elsewhere.display(),
        std::env::var("PATH").unwrap()
    );
    let start = governed.workspace.join("real-python");
    // The control: the shim runs code of the workspace.
    let status = Command::new(&shim)
        .args(["-c", "pass"])
        .env("PATH", &path)
        .env("SHIM_START", &start)
        .current_dir(&governed.workspace)
        .status();
    assert!(status.unwrap().success());
    assert_eq!(fs::read_to_string(&marker).unwrap().lines().count(), 3);
    fs::remove_file(&marker).unwrap();

    let server = governed.server().variable("QWED_MCP_PYTHON", shim.to_str().unwrap());
    let server = server.variable("PATH", &path).variable("SHIM_START", start.to_str().unwrap());
    let mut server = server.in_folder(&governed.workspace).connect();
    let reply = run_pytest(&mut server, &governed.user, "tests/test_ledger.py::test_overdrawn");
    assert!(counted(&reply).starts_with("1 passed in "), "{reply}");
    server.finish();
    assert!(!marker.exists(), "{}", fs::read_to_string(&marker).unwrap());
}

/// Creates an environment with the packages of the tests' environment. `source` is installed as with `pip install
/// --editable`.
fn environment(folder: &Path, source: &Path) -> PathBuf {
    let made = Command::new(python()).args(["-m", "venv", "--without-pip"]).arg(folder).status();
    assert!(made.unwrap().success());
    let libraries = |folder: &Path| {
        let version = fs::read_dir(folder.join("lib")).unwrap().next().unwrap().unwrap().path();
        version.join("site-packages")
    };
    let packages = libraries(python().parent().unwrap().parent().unwrap());
    let lines = format!("{}\n{}\n", packages.display(), source.display());
    fs::write(libraries(folder).join("project.pth"), lines).unwrap();
    folder.join("bin/python")
}

fn a_workspace_of_traps_runs_inside_only() {
    let governed = Governed::new("ledger");
    let marker = governed.beside("escaped");
    fs::write(&marker, "").unwrap();
    fs::set_permissions(&marker, fs::Permissions::from_mode(0o666)).unwrap();
    let source = governed.workspace.join("src");
    fs::create_dir_all(&source).unwrap();
    let trap = format!("open({}, 'a').write(__name__ + ' ')\n", quoted(&marker));
    // Inside of the sandbox, this file cannot be opened.
    let trap = format!("try:\n    {trap}except OSError:\n    pass\n");
    let names = ["json", "numpy", "sympy", "platform", "pytest", "sitecustomize", "usercustomize"];
    for name in names {
        fs::write(source.join(name).with_extension("py"), &trap).unwrap();
        fs::write(governed.workspace.join(name).with_extension("py"), &trap).unwrap();
    }
    fs::write(source.join("shop.py"), "PRICE = 7\n").unwrap();
    tell_tale(&governed.workspace.join(".venv/bin/python3"), &marker);
    let tests = governed.workspace.join("tests/test_traps.py");
    let text_of_tests = "
import json, shop

def test_price():
    assert shop.PRICE == 7 and json.loads('[1]') == [1]

def test_wrong():
    assert shop.PRICE == 8
";
    fs::write(&tests, text_of_tests).unwrap();
    let interpreter = environment(&governed.beside("venv"), &source);
    // The control: starting this interpreter runs the trap.
    let status = Command::new(&interpreter)
        .args(["-c", "import json, pytest"])
        .env("PYTHONPATH", &source)
        .current_dir(&governed.workspace)
        .status();
    assert!(status.unwrap().success());
    assert!(!fs::read_to_string(&marker).unwrap().is_empty());
    fs::write(&marker, "").unwrap();

    for python_path in [source.to_str(), Some("src"), None] {
        let server = governed.server().warm("numpy,sympy,json");
        let server = server.variable("QWED_MCP_PYTHON", interpreter.to_str().unwrap());
        let server = server.variable("QWED_MCP_LOG", "info").in_folder(&governed.workspace);
        let server = match python_path {
            Some(python_path) => server.variable("PYTHONPATH", python_path),
            None => server,
        };
        let mut server = server.connect();
        let reply = run_pytest(&mut server, &governed.user, "tests/test_traps.py");
        assert!(counted(&reply).starts_with("1 passed, 1 failed in "), "{python_path:?}: {reply}");
        assert!(
            text(&reply).starts_with("Status: failed, exit code 1, judged: in-process\n"),
            "{reply}"
        );
        let id = serde_json::json!({ "run_id": run_id(&reply) });
        call_as(&mut server, &governed.viewer, "get_evidence", id);
        // If scripts can read the workspace, the server starts no fork server.
        let result = server.execute("print(6 * 7)");
        assert!(result.text().contains("42") || python_path.is_some(), "{:?}", result.texts);
        let log = server.finish();
        assert!(log.contains("its code must not run in a fork server"), "{log}");
        let escaped = fs::read_to_string(&marker).unwrap();
        assert!(escaped.is_empty(), "{python_path:?}: outside of the sandbox ran: {escaped}");
    }
}

/// Refused calls, the test of the sandbox, and `doctor` must not start Python without protection.
fn nothing_is_started_where_nothing_would_hold_it() {
    let governed = Governed::new("ledger");
    // Scripts of a root server run as `nobody`, so other users must be able to open these files.
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    open(&governed.beside(""), 0o755);
    let marker = governed.beside("escaped");
    fs::write(&marker, "").unwrap();
    open(&marker, 0o666);
    let source = governed.workspace.join("src");
    fs::create_dir(&source).unwrap();
    let trap = format!("open({}, 'a').write('it')\n", quoted(&marker));
    fs::write(source.join("sitecustomize.py"), trap).unwrap();
    let interpreter = public_python().unwrap();
    // The control: without protection, the interpreter runs the trap.
    let mut control = Command::new(&interpreter);
    control.args(["-c", "pass"]).env("PYTHONPATH", &source);
    assert!(control.status().unwrap().success());
    assert_eq!(fs::read_to_string(&marker).unwrap(), "it");
    fs::write(&marker, "").unwrap();

    for (sandbox, lacks) in [("off", ""), ("degraded", "namespaces,landlock")] {
        let server = governed.server().without("QWED_MCP_TRUSTED_CODE_EXECUTION");
        let server = server.variable("QWED_MCP_PYTHON", interpreter.to_str().unwrap());
        let server = server.variable("PYTHONPATH", source.to_str().unwrap());
        let server = server.variable("QWED_MCP_SANDBOX", sandbox);
        let server = server.variable("QWED_MCP_TEST_KERNEL_LACKS", lacks);
        let doctor = server.command().arg("doctor").output().unwrap();
        let stdout = String::from_utf8(doctor.stdout).unwrap();
        assert!(stdout.contains("does not confine a project to its files"), "{stdout}");
        let mut server = server.connect();
        let reply = run_pytest(&mut server, &governed.user, "tests");
        let message = "Sandbox violation: tier ";
        assert_refused(&reply, -32006, "SANDBOX_VIOLATION", message);
        server.finish();
        let escaped = fs::read_to_string(&marker).unwrap();
        assert_eq!(escaped, "", "{sandbox}: code of the workspace ran, and nothing held it");
        let rows = governed.audit_rows();
        assert!(rows.iter().all(|row| row["event"] != "TOOL_STARTED"), "{rows:?}");
    }
}
