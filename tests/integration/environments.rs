//! Tests environments for scripts: the commands `qwed-mcp env`, and the choice of the interpreter.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::harness::{ServerBuilder, binary, eventually, python, root, uv};

tests! {
    needs [Sandbox, Packages, Venv]:
        an_environment_is_made_with_uv,
        an_environment_is_made_with_venv_and_pip,
        the_real_packages_are_imported_and_used,
        an_environment_that_a_server_uses_stays_until_it_has_ended,
        packages_are_wheels_that_the_lock_has_and_that_can_be_imported,
        a_newer_version_than_the_locked_one_is_not_taken,
        settings_of_pip_and_uv_do_not_lead_packages_elsewhere,
        the_program_of_a_virtual_environment_takes_its_interpreter,
        the_newest_complete_environment_is_taken,
        an_environment_that_others_can_change_is_not_used,
        an_environment_that_starts_with_other_files_is_not_used,
        a_missing_module_is_answered_with_the_installed_packages,
        packages_that_a_script_lists_are_installed_if_the_admin_allows_them,
        packages_of_scripts_stay_for_servers_and_replays_until_they_are_removed,
        packages_of_scripts_that_cannot_be_installed_are_reported,
        a_server_keeps_eight_environments_for_packages_of_scripts;
    needs [Root, Tier3, Packages, Venv]:
        a_full_disk_leaves_no_environment,
        an_environment_that_cannot_be_removed_stops_no_command;
    needs [Packages, Venv]:
        interrupted_at_any_point_it_leaves_no_environment,
        killed_at_any_point_it_leaves_no_environment,
        one_process_at_a_time_makes_environments,
        what_cannot_be_made_is_told,
        a_process_that_a_step_leaves_is_killed,
        a_package_cannot_bring_what_the_environment_starts_with,
        a_package_that_is_needed_by_its_address_is_not_built,
        invalid_arguments_are_refused;
    needs []:
        the_lock_has_the_versions_that_the_tests_have;
}

/// A package that creates a file whenever an interpreter with this package starts.
const TELL_TALE: &str = "tell_tale";

const PATIENCE: Duration = Duration::from_secs(60);

/// The time that a server takes at most to remove an incomplete environment when it ends.
const GRACE_FOR_ENVIRONMENT: Duration = Duration::from_secs(5);

/// A home folder, a data folder, and wheels that replace the package index.
struct Fixture {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Fixture {
    fn with_uv() -> Self {
        let fixture = Self::with_pip();
        symlink(uv(), fixture.at("bin/uv")).unwrap();
        fixture
    }

    fn with_pip() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "bin", "wheels", "marks"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let variables = [
            ("HOME", at("home")),
            ("XDG_DATA_HOME", at("data")),
            ("PATH", format!("{}:/usr/bin:/bin", at("bin"))),
            ("UV_FIND_LINKS", at("wheels")),
            ("UV_PYTHON_DOWNLOADS", "never".to_owned()),
            ("PIP_FIND_LINKS", at("wheels")),
            ("QWED_MCP_LOG", "warn".to_owned()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
        let fixture = Self { folder, variables };
        symlink(python().canonicalize().unwrap(), fixture.at("bin/python3")).unwrap();
        fixture.wheel("tiny_one", "1.0", "", &[("tiny_one/__init__.py", "value = 42\n")]);
        let mark = fixture.at("marks/mark").display().to_string();
        let code = format!("try:\n    open({mark:?}, 'w').close()\nexcept OSError:\n    pass\n");
        let files = [("tell_tale.py", code.as_str()), ("tell_tale.pth", "import tell_tale\n")];
        fixture.wheel(TELL_TALE, "1.0", "", &files);
        fixture.wheel("tiny_two", "2.0", "tiny-one<2", &[("tiny_two/__init__.py", "value = 7\n")]);
        fixture.write_lock(&["tiny_one-1.0", "tell_tale-1.0"]);
        fixture
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn environments(&self) -> PathBuf {
        self.at("data/qwed-mcp/environments")
    }

    /// Returns the names of all environments, complete or not.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.environments()).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names
    }

    fn wheel(&self, name: &str, version: &str, requires: &str, files: &[(&str, &str)]) {
        let program = "\
import base64, hashlib, json, sys, zipfile
folder, name, version, requires, files = json.load(sys.stdin)
info = f'{name}-{version}.dist-info'
metadata = f'Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n'
metadata += f'Requires-Dist: {requires}\\n' if requires else ''
files.append([f'{info}/METADATA', metadata])
files.append([f'{info}/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n'])
record = ''
with zipfile.ZipFile(f'{folder}/{name}-{version}-py3-none-any.whl', 'w') as wheel:
    for path, text in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip('=')
        record += f'{path},sha256={digest},{len(text.encode())}\\n'
        entry = zipfile.ZipInfo(path)
        entry.external_attr = 0o100755 << 16
        wheel.writestr(entry, text)
    wheel.writestr(f'{info}/RECORD', record + f'{info}/RECORD,,\\n')
";
        let order = json!([self.at("wheels"), name, version, requires, files]).to_string();
        let mut command = Command::new(python());
        let mut child = command.args(["-I", "-c", program]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(order.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }

    fn write_lock(&self, wheels: &[&str]) {
        let program = "\
import hashlib, sys
for wheel in sys.argv[2:]:
    name, version = wheel.split('-')
    data = open(f'{sys.argv[1]}/{wheel}-py3-none-any.whl', 'rb').read()
    print(f'{name}=={version} \\\\\\n    --hash=sha256:{hashlib.sha256(data).hexdigest()}')
";
        let mut command = Command::new(python());
        command.args(["-I", "-c", program]).arg(self.at("wheels")).args(wheels);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        fs::write(self.at("lock"), output.stdout).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.env_clear().args(arguments).stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn create(&self) -> Vec<String> {
        let lock = self.at("lock").to_str().unwrap().to_owned();
        ["env", "create", "--offline", "--lock", &lock].map(str::to_owned).into()
    }

    /// Creates an environment. Returns its folder and the messages of the command.
    #[track_caller]
    fn created(&self, more: &[&str]) -> (PathBuf, String) {
        let arguments = self.create();
        let arguments: Vec<&str> =
            arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let output = self.run(&arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{stderr}");
        let folder = String::from_utf8(output.stdout).unwrap();
        (PathBuf::from(folder.trim_end()), stderr)
    }

    /// Runs `env create`, which must fail. Returns the messages of the command.
    #[track_caller]
    fn not_created(&self, more: &[&str]) -> String {
        let before = self.listed();
        let arguments = self.create();
        let arguments: Vec<&str> =
            arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let output = self.run(&arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "");
        assert!(
            stderr.contains("the environment was not created, and nothing was changed: "),
            "{stderr}"
        );
        assert_eq!(self.listed(), before);
        assert_eq!(self.names().len(), before.len(), "{stderr}");
        stderr
    }

    fn listed(&self) -> Vec<Value> {
        let output = self.run(&["env", "list", "--format", "json"]);
        assert!(output.status.success(), "{output:?}");
        let list: Value = serde_json::from_slice(&output.stdout).unwrap();
        list["environments"].as_array().unwrap().clone()
    }

    fn server(&self) -> ServerBuilder {
        let server = ServerBuilder::new().without("QWED_MCP_PYTHON");
        let variables = self.variables.iter().filter(|(name, _)| name != "QWED_MCP_LOG");
        variables.fold(server, |server, (name, value)| server.variable(name, value))
    }

    /// Returns the interpreter that `doctor` reports.
    fn interpreter(&self) -> Value {
        let output = self.server().command().args(["doctor", "--format", "json"]).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["interpreter"].clone()
    }

    fn prepend(&mut self, name: &str, value: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Writes a program to the first folder on `PATH`.
    fn program(&self, name: &str, text: &str) {
        let path = self.at("bin").join(name);
        let _ = fs::remove_file(&path);
        crate::harness::write_program(&path, &format!("#!/bin/sh\n{text}\n"));
    }

    /// Replaces uv by a script that blocks at commands with this argument.
    fn stop_uv_at(&self, word: &str) {
        self.stop_uv_after(word, ":");
    }

    /// Like `stop_uv_at`, but first runs a shell command.
    fn stop_uv_after(&self, word: &str, command: &str) {
        let stop = format!(
            "case \"$*\" in *' {word} '*) {command}; echo $$ > {0}/reached; exec sleep 600;; esac\nexec {1} \
             \"$@\"",
            self.folder.path().display(),
            uv().display()
        );
        self.program("uv", &stop);
    }

    /// Waits until uv blocks, and returns its PID.
    fn reached(&self) -> Pid {
        let file = self.at("reached");
        let read = || fs::read_to_string(&file).unwrap_or_default().trim().parse().ok();
        eventually(PATIENCE, || read().is_some()).expect("uv runs and blocks");
        let uv = read().unwrap();
        fs::remove_file(file).unwrap();
        Pid::from_raw(uv)
    }

    fn start(&self) -> Child {
        let mut command = self.command(&[]);
        command.args(self.create()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }
}

fn is_alive(process: Pid) -> bool {
    kill(process, None).is_ok()
}

fn is_made_and_used(fixture: &Fixture, tool: &str) {
    let (folder, said) = fixture.created(&["--with", "tiny-two>=2"]);
    assert_eq!(folder, fixture.environments().join("env-1"));
    assert!(said.contains("Making env-1 with ") && said.contains("Made env-1 in "), "{said}");
    assert!(!said.contains('\r') && !said.contains('\u{1b}'), "a pipe gets plain lines: {said}");
    assert!(!fixture.at("marks/mark").exists(), "code of a package ran outside of the sandbox");
    let output = fixture.run(&["env", "path"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n", folder.display()));

    let listed = &fixture.listed()[0];
    assert!(listed["tool"].as_str().unwrap().starts_with(tool), "{listed}");
    assert_eq!(listed["with"], json!(["tiny-two>=2"]));
    assert_eq!((&listed["in_use"], &listed["sdk"]), (&json!(false), &json!(false)));
    let packages = listed["packages"].as_object().unwrap();
    let versions = ["tiny-one", "tiny-two", "tell-tale"].map(|name| packages[name].clone());
    assert_eq!(versions, ["1.0", "2.0", "1.0"].map(Value::from));
    let table = fixture.run(&["env", "list"]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.starts_with("NAME ") && table.contains("\nenv-1   not in use  "), "{table}");

    // The environment takes precedence over `VIRTUAL_ENV` and `PATH`.
    let other = python().parent().unwrap().parent().unwrap().to_str().unwrap();
    let mut server = fixture.server().variable("VIRTUAL_ENV", other).connect();
    let code = "import sys, tiny_one, tiny_two\nprint(tiny_one.value, tiny_two.value, sys.executable, tiny_one.__cached__)";
    let result = server.execute(code);
    let python = folder.join("bin/python");
    let start = format!("STDOUT:\n42 7 {} ", python.display());
    assert!(result.text().starts_with(&start), "{}", result.text());
    server.finish();
    let report = fixture.server().command().arg("doctor").output().unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    for line in [
        "\nfound by          env-1, the newest environment of `qwed-mcp env create`; \
         QWED_MCP_PYTHON is not set\n",
        "sympy, z3-solver. Remedy: run `qwed-mcp env create`\n",
    ] {
        assert!(report.contains(line), "{report}");
    }
    let interpreter = fixture.interpreter();
    assert_eq!(interpreter["source"], "environment");
    assert_eq!(interpreter["program"], python.to_str().unwrap());
    assert!(!fixture.at("marks/mark").exists(), "code of a package ran outside of the sandbox");
    // `env create` has compiled the modules that scripts import.
    let library = fs::read_dir(folder.join("lib")).unwrap().next().unwrap().unwrap().path();
    let compiled = fs::read_dir(library.join("site-packages/tiny_one/__pycache__")).unwrap();
    assert_eq!(compiled.count(), 1);

    // The control: the package's code runs if the interpreter starts without special options.
    assert!(Command::new(&python).args(["-c", "pass"]).status().unwrap().success());
    assert!(fixture.at("marks/mark").exists());

    let output = fixture.run(&["env", "remove", "env-2"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no environment env-2"));
    assert!(fixture.run(&["env", "remove"]).status.success());
    assert_eq!(fixture.names(), Vec::<String>::new());
    assert_eq!(fixture.run(&["env", "path"]).status.code(), Some(1));
}

fn an_environment_is_made_with_uv() {
    is_made_and_used(&Fixture::with_uv(), "uv ");
}

fn an_environment_is_made_with_venv_and_pip() {
    is_made_and_used(&Fixture::with_pip(), "venv of Python 3.");
}

fn a_newer_version_than_the_locked_one_is_not_taken() {
    for fixture in [Fixture::with_pip(), Fixture::with_uv()] {
        // pip resolves a package with an extra separately from the package itself.
        fixture.wheel("tiny_two", "2.1", "tiny-one[more]", &[("tiny_two/__init__.py", "")]);
        fixture.wheel("tiny_one", "1.1", "", &[("tiny_one/__init__.py", "")]);
        fixture.write_lock(&["tiny_one-1.0", "tiny_two-2.1"]);
        fixture.created(&[]);
        let packages = fixture.listed()[0]["packages"].clone();
        assert_eq!((&packages["tiny-one"], &packages["tiny-two"]), (&json!("1.0"), &json!("2.1")));
    }
}

/// Installs packages from PyPI according to the lock file of the program, and uses them.
fn the_real_packages_are_imported_and_used() {
    let mut fixture = Fixture::with_uv();
    fixture.variables.retain(|(name, _)| !name.ends_with("FIND_LINKS"));
    fixture.prepend("UV_CACHE_DIR", root().join("target/uv-cache").to_str().unwrap());
    for (name, value) in std::env::vars() {
        // Some machines need these settings to reach PyPI.
        if ["SSL_", "UV_", "HTTP_", "HTTPS_", "http", "NO_PROXY"]
            .iter()
            .any(|it| name.starts_with(it))
        {
            fixture.prepend(&name, &value);
        }
    }
    let lock = fs::read_to_string(root().join("src/environments/requirements.lock")).unwrap();
    let entries = lock.split('\n').fold(Vec::<String>::new(), |mut entries, line| {
        match entries.last_mut() {
            Some(entry) if line.starts_with(' ') => *entry = format!("{entry}\n{line}"),
            _ => entries.push(line.to_owned()),
        }
        entries
    });
    let wanted = ["sympy==", "mpmath==", "z3-solver=="];
    let chosen = entries.into_iter().filter(|it| wanted.iter().any(|name| it.starts_with(name)));
    let chosen: Vec<String> = chosen.collect();
    assert_eq!(chosen.len(), 3);
    fs::write(fixture.at("lock"), chosen.join("\n")).unwrap();
    let lock = fixture.at("lock");
    let output = fixture.run(&["env", "create", "--lock", lock.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut server = fixture.server().connect();
    let code = "import sympy, z3\nprint(sympy.integrate(sympy.Symbol('x')), z3.simplify(z3.IntVal(6) * 7))";
    assert_eq!(
        server.execute(code).text(),
        "STDOUT:\nx**2/2 42\n\nExecution completed successfully."
    );
    server.finish();
}

fn an_environment_that_a_server_uses_stays_until_it_has_ended() {
    let fixture = Fixture::with_uv();
    let (first, _) = fixture.created(&["--with", "tiny-two"]);
    let mut server = fixture.server().connect();
    let code = "import sys, tiny_one\nprint(sys.prefix, tiny_one.value)";
    let expected = |folder: &Path| {
        format!("STDOUT:\n{} 42\n\nExecution completed successfully.", folder.display())
    };
    assert_eq!(server.execute(code).text(), expected(&first));
    assert_eq!(fixture.listed()[0]["in_use"], true);

    let (second, said) = fixture.created(&[]);
    assert!(
        said.contains("env-1 is in use by a server that runs, and stays until it has ended"),
        "{said}"
    );
    assert!(
        said.contains("tiny-two was in the environment before; --with tiny-two adds it"),
        "{said}"
    );
    assert_eq!(fixture.names(), ["env-1", "env-2"]);
    assert_eq!(server.execute(code).text(), expected(&first));
    let mut other = fixture.server().connect();
    assert_eq!(other.execute(code).text(), expected(&second));
    other.finish();
    let output = fixture.run(&["env", "remove", "env-1"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("env-1 is in use by a running server; stop the server first"), "{said}");
    assert_eq!(server.execute(code).text(), expected(&first));
    server.finish();
    assert_eq!(fixture.listed().len(), 1);
    assert_eq!(fixture.names(), ["env-2"]);

    // If a server uses an environment by its path, the environment is not removed either.
    let python = second.join("bin/python").to_str().unwrap().to_owned();
    let mut server = fixture.server().variable("QWED_MCP_PYTHON", &python).connect();
    assert_eq!(server.execute(code).text(), expected(&second));
    assert_eq!(fixture.run(&["env", "remove"]).status.code(), Some(1));
    server.finish();
    fixture.created(&[]);
    assert_eq!(fixture.names(), ["env-3"]);
}

fn packages_are_wheels_that_the_lock_has_and_that_can_be_imported() {
    for fixture in [Fixture::with_uv(), Fixture::with_pip()] {
        fixture.created(&[]);
        // The installation of this package would run the package's own code.
        let source = fixture.at("source_only-1.0");
        fs::create_dir(&source).unwrap();
        let ran = fixture.at("marks/setup");
        // The package is its own build system, so it needs no other package for the build.
        let backend = format!("open({:?}, 'w').close()\n", ran.display().to_string());
        let project =
            "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n";
        let metadata = "Metadata-Version: 2.1\nName: source_only\nVersion: 1.0\n";
        for (file, text) in
            [("backend.py", &*backend), ("pyproject.toml", project), ("PKG-INFO", metadata)]
        {
            fs::write(source.join(file), text).unwrap();
        }
        let packed = Command::new("tar")
            .args(["-czf"])
            .arg(fixture.at("wheels/source_only-1.0.tar.gz"))
            .args(["-C", fixture.folder.path().to_str().unwrap(), "source_only-1.0"])
            .status();
        assert!(packed.unwrap().success());
        let said = fixture.not_created(&["--with", "source_only"]);
        assert!(said.contains("failed to resolve the added packages: "), "{said}");
        assert!(!ran.exists(), "{said}");

        // The digest of the wheel does not match the lock.
        let lock = fs::read_to_string(fixture.at("lock")).unwrap();
        let (start, digits) = lock.split_once("sha256:").unwrap();
        let other = format!("{start}sha256:{}{}", "0".repeat(8), &digits[8..]);
        fs::write(fixture.at("lock"), other).unwrap();
        let said = fixture.not_created(&[]);
        assert!(
            said.contains("the packages cannot be installed: ") && said.contains("It wrote:"),
            "{said}"
        );

        // The package cannot be imported.
        fixture.wheel("sympy", "1.0", "", &[("sympy.py", "raise RuntimeError('broken sympy')\n")]);
        fixture.write_lock(&["tiny_one-1.0", "sympy-1.0"]);
        let said = fixture.not_created(&[]);
        assert!(
            said.contains("its packages cannot be imported: RuntimeError: broken sympy"),
            "{said}"
        );
        assert_eq!(fixture.names(), ["env-1"]);
    }
}

fn the_program_of_a_virtual_environment_takes_its_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["own", "other"] {
        let made =
            Command::new(python()).args(["-m", "venv", "--without-pip"]).arg(at(name)).status();
        assert!(made.unwrap().success());
    }
    crate::harness::copy_program(binary(), at("own/bin/qwed-mcp"));
    fs::create_dir_all(at("usr/bin")).unwrap();
    fs::create_dir(at("elsewhere")).unwrap();
    crate::harness::copy_program(binary(), at("usr/bin/qwed-mcp"));
    // This Python is next to `qwed-mcp`, but not in a virtual environment. On a real machine, `/usr/bin` is such a
    // folder.
    let marked = format!("#!/bin/sh\ntouch {}\n", at("mark").display());
    crate::harness::write_program(at("usr/bin/python"), &marked);
    symlink(at("own/bin/qwed-mcp"), at("elsewhere/link")).unwrap();
    symlink("link", at("elsewhere/qwed-mcp")).unwrap();

    let run = |program: &str, variables: &[(&str, &str)]| {
        let mut command = Command::new(at(program));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("XDG_DATA_HOME", at("data"));
        command.envs(variables.iter().copied()).args(["doctor", "--format", "json"]);
        let output = command.output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["interpreter"].clone()
    };
    let other = at("other").to_str().unwrap().to_owned();
    for program in ["own/bin/qwed-mcp", "elsewhere/qwed-mcp"] {
        for variables in [&[][..], &[("VIRTUAL_ENV", other.as_str())]] {
            let found = run(program, variables);
            let expected = at("own/bin/python").canonicalize().unwrap();
            let program = Path::new(found["program"].as_str().unwrap());
            assert_eq!(
                program,
                folder.path().canonicalize().unwrap().join("own/bin/python"),
                "{found}"
            );
            assert_eq!(program.canonicalize().unwrap(), expected);
            assert_eq!(found["source"], "beside_program", "{found}");
        }
        // QWED_MCP_PYTHON takes precedence.
        let configured = at("other/bin/python").to_str().unwrap().to_owned();
        let found = run(program, &[("QWED_MCP_PYTHON", &configured)]);
        assert_eq!(
            (&found["program"], &found["source"]),
            (&json!(configured), &json!("configured"))
        );
    }
    let found = run("usr/bin/qwed-mcp", &[("VIRTUAL_ENV", &other)]);
    assert_eq!(found["source"], "virtual_env", "{found}");
    assert!(!at("mark").exists());

    // A missing interpreter is skipped. The report mentions it.
    fs::remove_file(at("own/bin/python")).unwrap();
    let found = run("own/bin/qwed-mcp", &[("VIRTUAL_ENV", &other)]);
    assert_eq!(found["source"], "virtual_env", "{found}");
    assert!(found["passed_over"][0]["why"].as_str().unwrap().contains("does not start"), "{found}");
}

fn the_newest_complete_environment_is_taken() {
    let fixture = Fixture::with_uv();
    let (first, _) = fixture.created(&[]);
    let expect = |folder: &Path| {
        let found = fixture.interpreter();
        assert_eq!(found["program"], folder.join("bin/python").to_str().unwrap(), "{found}");
        assert_eq!(found["source"], "environment");
    };
    // Copies of the first environment work, because they use the same interpreter.
    let copy = |name: &str| {
        let to = fixture.environments().join(name);
        let copied = Command::new("cp").arg("-a").args([&first, &to]).status();
        assert!(copied.unwrap().success());
        to
    };
    let tenth = copy("env-10");
    expect(&tenth);
    let marker = |name: &str| fixture.environments().join(name).join("qwed-env.json");
    for (name, marked) in [
        ("env-11", None),
        ("env-12", Some("")),
        ("env-13", Some("{}")),
        ("env-14", Some("{\"format\": 2}")),
        ("env-x", Some("{}")),
        ("env-015", None),
        // The marker file exists, but a package could have created it. The file `.env-16.begun` shows that the
        // installation is not complete.
        ("env-16", None),
    ] {
        copy(name);
        match marked {
            None if name == "env-015" => {}
            None if name == "env-16" => {
                fs::write(fixture.environments().join(".env-16.begun"), "").unwrap();
            }
            None => fs::remove_file(marker(name)).unwrap(),
            Some(text) => fs::write(marker(name), text).unwrap(),
        }
    }
    copy("env-20");
    fs::remove_file(marker("env-20")).unwrap();
    symlink(marker("env-10"), marker("env-20")).unwrap();
    symlink(&tenth, fixture.environments().join("env-21")).unwrap();
    expect(&tenth);
    // A copy that consists of hard links does not make an environment unusable.
    let linked = Command::new("cp").arg("-al").arg(&tenth).arg(fixture.at("backup")).status();
    assert!(linked.unwrap().success());
    expect(&tenth);
    // Incomplete environments are removed. Symlinks, folders with other names, and environments with an unreadable
    // marker are not removed: a newer version of this program may have made them.
    let others = ["env-015", "env-10", "env-12", "env-13", "env-14", "env-20", "env-21", "env-x"];
    assert_eq!(fixture.listed().len(), 1);
    assert_eq!(fixture.names(), others);
    assert!(!fixture.environments().join(".env-16.begun").exists());
    assert!(tenth.join("bin/python").exists());
    // The name of an environment with an unreadable marker leads to its folder.
    let unreadable = fixture.run(&["env", "remove", "env-14"]);
    let said = String::from_utf8_lossy(&unreadable.stderr).into_owned();
    assert_eq!(unreadable.status.code(), Some(1), "{said}");
    assert!(
        said.contains("env-14 cannot be read, so it was not removed; delete the folder "),
        "{said}"
    );
    let missing = fixture.run(&["env", "remove", "scripts/env-7"]);
    assert!(
        String::from_utf8_lossy(&missing.stderr).contains("there is no environment scripts/env-7")
    );
    // A name that does not exist changes nothing. An older environment is found by its name.
    let ninth = fixture.environments().join("env-9");
    let copied = Command::new("cp").arg("-a").args([&tenth, &ninth]).status();
    assert!(copied.unwrap().success());
    assert_eq!(fixture.run(&["env", "remove", "env-8"]).status.code(), Some(1));
    assert!(ninth.exists());
    let removed = fixture.run(&["env", "remove", "env-9"]);
    assert_eq!(String::from_utf8_lossy(&removed.stdout), "env-9 is removed\n");
    assert_eq!(fixture.names(), others);
}

fn an_environment_that_others_can_change_is_not_used() {
    let fixture = Fixture::with_uv();
    let (folder, _) = fixture.created(&[]);
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for path in [&folder, &fixture.environments()] {
        mode(path, 0o777);
        let mut server = fixture.server().connect();
        let result = server.execute("print(1)");
        assert_eq!(
            result.text(),
            "Execution error: the environment of `qwed-mcp env create` can be changed by other \
             users, so it is not used; ask the admin to look at the server's log."
        );
        let log = server.finish();
        assert!(log.contains("mode 0777") && log.contains(path.to_str().unwrap()), "{log}");
        let found = fixture.interpreter();
        assert!(found["tried"][0]["why"].as_str().unwrap().contains("mode 0777"), "{found}");
        assert_eq!(fixture.run(&["env", "path"]).status.code(), Some(1));
        mode(path, 0o700);
    }
    mode(&fixture.environments(), 0o770);
    let output = fixture.command(&[]).args(fixture.create()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("has mode 0770") && stderr.contains("chmod go-w"), "{stderr}");
    assert_eq!(fixture.names(), ["env-1"]);
}

/// Returns a program that creates a file and then runs this interpreter.
fn marking(mark: &Path, python: &Path) -> String {
    format!("#!/bin/sh\ntouch {}\nexec {} \"$@\"\n", mark.display(), python.display())
}

fn an_environment_that_starts_with_other_files_is_not_used() {
    let fixture = Fixture::with_uv();
    let (folder, _) = fixture.created(&[]);
    let used = "STDOUT:\n1\n\nExecution completed successfully.";
    let refused = "Execution error: the environment of `qwed-mcp env create` was changed after it \
                   was made, so it is not used; ask the admin to look at the server's log.";
    let mark = fixture.at("marks/started");
    let interpreter = folder.join("bin/python");
    let base = interpreter.canonicalize().unwrap();
    let other = |path: &Path| {
        crate::harness::write_program(path, &marking(&mark, &base));
    };
    let run = |configured: Option<&Path>, expected: &str| {
        let mut server = fixture.server();
        if let Some(configured) = configured {
            server = server.variable("QWED_MCP_PYTHON", configured.to_str().unwrap());
        }
        let mut server = server.connect();
        assert_eq!(server.execute("print(1)").text(), expected);
        server.finish()
    };
    run(None, used);
    for name in ["bin/python", "pyvenv.cfg", "bin/pyvenv.cfg", "lib/python3.99"] {
        let path = folder.join(name);
        let saved = folder.parent().unwrap().join("saved");
        let was_there = fs::rename(&path, &saved).is_ok();
        other(&path);
        let change = if was_there { "changed" } else { "added" };
        let expected = format!("{} was {change} after the environment was made", path.display());
        for configured in [None, Some(interpreter.as_path())] {
            let log = run(configured, refused);
            assert!(log.contains(&expected), "{log}");
        }
        let found = fixture.interpreter();
        assert!(found["tried"][0]["why"].as_str().unwrap().contains(&expected), "{found}");
        let output = fixture.run(&["env", "path"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains(&expected), "{output:?}");
        fs::remove_file(&path).unwrap();
        if was_there {
            fs::rename(&saved, &path).unwrap();
        }
    }
    assert!(!mark.exists(), "what replaced a file of the environment was started");
    // The control: the program that replaced the files creates the marker file when it starts.
    let program = fixture.at("bin/marking");
    other(&program);
    assert!(Command::new(&program).args(["-c", "pass"]).status().unwrap().success());
    assert!(mark.exists());
    run(None, used);
}

fn a_missing_module_is_answered_with_the_installed_packages() {
    let fixture = Fixture::with_uv();
    fixture.created(&[]);
    let mut server = fixture.server().connect();
    let there = "Besides the standard library, scripts can import: tell_tale, tiny_one.";
    let plain = format!(
        "polars is not installed for scripts. {there} The admin can add the package that contains \
         it: `qwed-mcp env create --with PACKAGE`."
    );
    let header =
        "# /// script\n# dependencies = [\"polars>=1\", \"tiny-one\"]\n# ///\nimport polars";
    let with_header = format!(
        "polars is not installed for scripts. {there} The script's header asks for polars>=1; the \
         admin \
         can add that: `qwed-mcp env create --with 'polars>=1'`."
    );
    for (code, advice) in [
        ("import polars", plain.as_str()),
        (header, &with_header),
        (
            "import tiny_one.three",
            "tiny_one is installed for scripts, and has no module tiny_one.three.",
        ),
    ] {
        let result = server.execute(code);
        assert!(!result.is_error && result.execution()["exit_code"] == 1, "{result:?}");
        assert!(result.texts[0].ends_with("\n\nExecution failed with return code 1"), "{result:?}");
        assert_eq!(result.texts[1..], [advice], "{result:?}");
        let job = server.place(code);
        let result = server.wait_for_job(&job);
        assert!(result.texts[0].starts_with("Status: failed\n\nResult:\nSTDERR:\n"), "{result:?}");
        assert_eq!(result.texts[1..], [advice], "{result:?}");
    }
    let caught =
        server.execute("try:\n    import polars\nexcept ImportError:\n    print('without')");
    assert_eq!(caught.text(), "STDOUT:\nwithout\n\nExecution completed successfully.");
    server.finish();
}

/// Returns a script whose header lists these packages.
fn listing(packages: &[&str], code: &str) -> String {
    format!("# /// script\n# dependencies = {packages:?}\n# ///\n{code}")
}

/// Returns the environments for the packages of scripts.
fn of_scripts(fixture: &Fixture) -> Vec<Value> {
    let is_of_scripts = |it: &Value| it["name"].as_str().unwrap().starts_with("scripts/");
    fixture.listed().into_iter().filter(is_of_scripts).collect()
}

/// Returns a fixture with an environment. Its servers install packages from the fixture's wheels.
fn installing(with_uv: bool) -> Fixture {
    let mut fixture = if with_uv { Fixture::with_uv() } else { Fixture::with_pip() };
    fixture.prepend("PIP_NO_INDEX", "1");
    fixture.prepend("UV_OFFLINE", "1");
    fixture.created(&[]);
    fixture
}

const USES_TINY_TWO: &str =
    "import tiny_two, tiny_one\nassert tiny_two.value == 7\nprint(tiny_two)";

fn packages_that_a_script_lists_are_installed_if_the_admin_allows_them() {
    let fixture = installing(true);
    let script = listing(&["tiny-two>=2"], USES_TINY_TWO);
    // If the admin allows no packages, nothing is installed.
    let mut server = fixture.server().connect();
    let result = server.execute(&script);
    assert!(result.texts[1].contains("`qwed-mcp env create --with 'tiny-two>=2'`"), "{result:?}");
    server.finish();
    assert_eq!(of_scripts(&fixture).len(), 0);

    let allowing = fixture.server().variable("QWED_MCP_ENV_ALLOW", "Tiny_Two, tiny.one,other");
    let mut server = allowing.connect();
    let plain = server.execute("import tiny_one\nprint(tiny_one.value)");
    assert_eq!(plain.text(), "STDOUT:\n42\n\nExecution completed successfully.");
    let without = server.execute("import tiny_two");
    let remedy = "This server may install other, tiny-one, tiny-two, and the packages of \
                  `qwed-mcp env create`, if the script begins with the lines `# /// script`, `# dependencies = [\"NAME\"]` and `# ///`.";
    assert!(without.texts[1].ends_with(remedy), "{without:?}");
    // Lists with the same packages and versions share an environment, even if they are written differently.
    let other = listing(&["TINY_two >=2", "tiny-two>=2"], USES_TINY_TWO);
    for script in [&script, &script, &other] {
        let result = server.execute(script);
        assert!(result.text().contains("environments/scripts/env-1/lib"), "{result:?}");
        assert_eq!(result.meta["qwed.ai/verification"]["outcome"], "verified");
    }
    let absent = server.execute(&listing(&["tiny-two>=2"], "import absent"));
    let remedy = "This server may install other, tiny-one, tiny-two, and the packages of \
                  `qwed-mcp env create`.";
    assert!(absent.texts[1].ends_with(remedy), "{absent:?}");
    let job = server.place(&script);
    assert!(server.wait_for_job(&job).texts[0].contains("scripts/env-1"));
    // Run the script from the documents with other packages. The server's environment already has one of these
    // packages.
    let page = fs::read_to_string(root().join("docs/CONFIGURATION.md")).unwrap();
    let sample = page.split("```").find_map(|block| block.strip_prefix("python\n")).unwrap();
    let sample = sample.replace("networkx>=3", "tiny-two").replace("numpy", "tiny-one");
    let result = server.execute(&sample.replace("networkx", "tiny_two"));
    assert_eq!(result.text(), "Execution completed successfully.", "{sample}");
    // Other packages need the admin's permission, even if the server's environment has them.
    for other in ["tell-tale-two", "tell-tale"] {
        let refused = server.execute(&listing(&["tiny-two", other], "import tiny_two"));
        assert!(refused.texts[1].contains("qwed-mcp env create --with tiny-two"), "{refused:?}");
    }
    let made = of_scripts(&fixture);
    let facts = |it: &Value| (it["name"].clone(), it["with"].clone(), it["in_use"].clone());
    let both = [facts(&made[0]), facts(&made[1])];
    let expected = [
        (json!("scripts/env-2"), json!(["tiny-one", "tiny-two"]), json!(true)),
        (json!("scripts/env-1"), json!(["tiny-two>=2"]), json!(true)),
    ];
    assert_eq!((both, made.len()), (expected, 2));
    server.finish();
}

fn packages_of_scripts_stay_for_servers_and_replays_until_they_are_removed() {
    for with_uv in [true, false] {
        let fixture = installing(with_uv);
        let script = listing(&["tiny-two>=2"], USES_TINY_TWO);
        assert!(fixture.run(&["receipt", "keygen"]).status.success());
        let receipts = fixture.at("receipts");
        let allowing = fixture
            .server()
            .variable("QWED_MCP_ENV_ALLOW", "tiny-two")
            .variable("QWED_MCP_RECEIPTS", receipts.to_str().unwrap());
        let mut receipt = Value::Null;
        for _ in 0..2 {
            let mut server = allowing.clone().connect();
            let mut result = server.execute(&script);
            assert!(result.text().contains("scripts/env-1"), "{result:?}");
            receipt = result.meta["qwed.ai/receipt"]["path"].take();
            server.finish();
        }
        let file = fixture.at("script.py");
        fs::write(&file, &script).unwrap();
        let replay = |builder: ServerBuilder| -> Value {
            let mut command = builder.command();
            command.args(["replay", "--format", "json", "--script"]).arg(&file);
            let output = command.arg(receipts.join(receipt.as_str().unwrap())).output().unwrap();
            serde_json::from_slice(&output.stdout).unwrap()
        };
        let is_without = |replayed: &Value| {
            let differences = replayed["environment"].as_array().unwrap();
            differences.contains(&json!("package tiny-two: 2.0 → none"))
        };
        let replayed = replay(allowing.clone());
        assert!(!is_without(&replayed) && replayed["verdict"] == "identical", "{replayed}");
        let replayed = replay(allowing.clone().without("QWED_MCP_ENV_ALLOW"));
        assert!(is_without(&replayed) && replayed["verdict"] == "differs", "{replayed}");
        if !with_uv {
            // pip takes seconds for an environment, and what follows does not depend on the tool.
            assert!(!fixture.at("marks/mark").exists());
            continue;
        }
        // A server must not use an environment for scripts' packages as its own newest environment.
        let newest = fixture.interpreter()["program"].as_str().unwrap().to_owned();
        assert!(!newest.contains("scripts"), "{newest}");
        let removed = fixture.run(&["env", "remove", "scripts/env-1"]);
        assert_eq!(String::from_utf8_lossy(&removed.stdout), "scripts/env-1 is removed\n");
        assert!(!fixture.environments().join("scripts/env-1").exists());
        // A replay installs nothing. A server installs the packages again if the environment is removed while the
        // server runs.
        assert!(is_without(&replay(allowing.clone())));
        let mut server = allowing.clone().connect();
        assert!(server.execute(&script).text().contains("scripts/env-1"));
        fs::remove_dir_all(fixture.environments().join("scripts/env-1")).unwrap();
        assert!(server.execute(&script).text().contains("scripts/env-1"));
        server.finish();
        // An environment is not used if a file that its interpreter reads at its start was changed.
        let changed = fixture.environments().join("scripts/env-1/pyvenv.cfg");
        fs::write(&changed, fs::read_to_string(&changed).unwrap() + "\n").unwrap();
        let mut server = allowing.connect();
        assert!(server.execute(&script).text().contains("scripts/env-2"));
        server.finish();
        let removed = fixture.run(&["env", "remove"]);
        let stdout = String::from_utf8_lossy(&removed.stdout).into_owned();
        assert_eq!(
            stdout,
            "env-1 is removed\nscripts/env-2 is removed\nscripts/env-1 is removed\n"
        );
        let mark = fixture.at("marks/mark");
        assert!(!mark.exists(), "no code of a package runs outside of the sandbox");
    }
}

fn packages_of_scripts_that_cannot_be_installed_are_reported() {
    let mut fixture = Fixture::with_uv();
    fixture.prepend("UV_OFFLINE", "1");
    fixture.created(&[]);
    // A wheel must match the hashes in the program's lock file, even if its name and version are right.
    fixture.wheel("et_xmlfile", "2.0.0", "", &[("et_xmlfile/__init__.py", "")]);
    // This package changes a file that the interpreter reads at its start.
    fixture.wheel("hostile", "1.0", "", &[("hostile-1.0.data/data/pyvenv.cfg", "home = /")]);
    let allowing = fixture.server().variable("QWED_MCP_ENV_ALLOW", "missing,hostile,tiny-two");
    let lines = fixture.at("lines.jsonl");
    let line = json!({ "id": "a", "code": listing(&["missing"], "import missing") });
    fs::write(&lines, line.to_string()).unwrap();
    let output = allowing.command().args(["run", "--batch"]).arg(&lines).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let error = "the packages in the script's header could not be installed";
    assert_eq!((&answer["status"], &answer["error"]), (&json!("infra_error"), &json!(error)));
    let mut server = allowing.connect();
    for (package, module) in [
        ("missing", "missing"),
        ("hostile", "hostile"),
        ("tiny-two>=3", "tiny_two"),
        ("et-xmlfile", "et_xmlfile"),
    ] {
        for _ in 0..2 {
            let result = server.execute(&listing(&[package], &format!("import {module}")));
            let remedy = "The packages in the script's header could not be installed; the admin finds \
                          the reason in the server's log.";
            assert!(result.texts[1].ends_with(remedy), "{result:?}");
        }
    }
    assert_eq!(of_scripts(&fixture).len(), 0);
    // The server names the part of a header that it does not understand.
    let with_condition = listing(&["tiny-two", "tiny-one; os_name == 'x'"], "import absent");
    let result = server.execute(&with_condition);
    assert!(result.texts[1].contains("A part of the script's header was not read"), "{result:?}");
    // Cancel a call during an installation, and then end the server. No files may remain, even if their removal takes
    // long.
    let folder = fixture.environments().join("scripts/env-2/many");
    let many = format!("mkdir {0} && cd {0} && seq 60000 | xargs touch", folder.display());
    fixture.stop_uv_after("install", &many);
    let call = server.start_execute(&listing(&["tiny-two>=1"], "import tiny_two"));
    fixture.reached();
    server.cancel(call);
    assert!(server.execute("print(1)").text().starts_with("STDOUT:\n1\n"));
    let closed = Instant::now();
    server.finish();
    let has_ended_early = closed.elapsed() < GRACE_FOR_ENVIRONMENT;
    let left = || fs::read_dir(fixture.environments().join("scripts")).unwrap().flatten();
    let names: Vec<_> = left().map(|entry| entry.file_name().into_string().unwrap()).collect();
    let is_removed = names.iter().all(|name| name == ".lock" || name == "env-1");
    assert!(is_removed || !has_ended_early, "{names:?}");
}

fn a_server_keeps_eight_environments_for_packages_of_scripts() {
    let mut fixture = Fixture::with_uv();
    fixture.prepend("UV_OFFLINE", "1");
    fixture.created(&[]);
    let mut server = fixture.server().variable("QWED_MCP_ENV_ALLOW", "tiny-two").connect();
    for number in 1..=10 {
        let script =
            listing(&[&format!("tiny-two>=0.{number}")], "import tiny_two\nprint(tiny_two)");
        let result = server.execute(&script);
        assert!(result.text().contains(&format!("scripts/env-{number}/lib")), "{result:?}");
    }
    let names: Vec<_> = of_scripts(&fixture).iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names.len(), 8);
    assert!(names.contains(&json!("scripts/env-10")) && !names.contains(&json!("scripts/env-1")));
    // The first of these calls is cancelled while uv runs. The other calls are cancelled while they wait. Later calls
    // are not affected.
    fixture.program("uv", &format!("sleep 0.5\nexec {} \"$@\"", uv().display()));
    let calls: Vec<i64> = (1..=9)
        .map(|number| {
            let script = listing(&[&format!("tiny-two>=1.{number}")], "import tiny_two");
            server.start_execute(&script)
        })
        .collect();
    assert!(server.execute("print(1)").text().starts_with("STDOUT:\n1\n"));
    for call in calls {
        server.cancel(call);
    }
    let script = listing(&["tiny-two>=1.10"], "import tiny_two\nprint(tiny_two)");
    let result = server.execute(&script);
    let log = server.finish();
    assert!(result.texts[0].contains("scripts/env-12/lib"), "{result:?} {log}");
    // If a policy is set, nothing is installed.
    let policy = fixture.at("policy.toml");
    fs::write(&policy, "").unwrap();
    let allowing = fixture.server().variable("QWED_MCP_ENV_ALLOW", "tiny-two");
    let mut server = allowing.variable("QWED_MCP_POLICY", policy.to_str().unwrap()).connect();
    let result = server.execute(&listing(&["tiny-two>=0.1"], "import tiny_two"));
    assert!(result.texts[1].contains("`qwed-mcp env create --with 'tiny-two>=0.1'`"), "{result:?}");
    assert_eq!(of_scripts(&fixture).len(), 8);
    assert!(server.finish().contains("QWED_MCP_ENV_ALLOW is not used"));
}

fn a_full_disk_leaves_no_environment() {
    for (fixture, size) in [(Fixture::with_uv(), "4m"), (Fixture::with_pip(), "40m")] {
        let filler = "x".repeat(32 << 20);
        fixture.wheel("large", "1.0", "", &[("large.py", &format!("text = '{filler}'\n"))]);
        fixture.write_lock(&["large-1.0"]);
        fs::create_dir(fixture.at("data")).unwrap();
        // The command gets its own disk in a mount namespace. The disk disappears with the namespace.
        let script = "mount -t tmpfs -o size=$1,mode=700 none \"$2\" || exit 99\ndata=$2\nshift 2\n\
                      \"$@\"\necho code=$?\nls -A \"$data/qwed-mcp/environments\"";
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", size]);
        command.arg(fixture.at("data")).arg(binary()).args(fixture.create()).env_clear();
        command.envs(fixture.variables.iter().map(|(name, value)| (name, value)));
        let output = command.stdin(Stdio::null()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "code=1\n.lock\n", "{stderr}");
        assert!(stderr.contains("No space left on device"), "{stderr}");
        assert!(
            stderr.contains("the environment was not created, and nothing was changed: "),
            "{stderr}"
        );
    }
}

fn an_environment_that_cannot_be_removed_stops_no_command() {
    let fixture = Fixture::with_uv();
    let half_made = fixture.environments().join("env-7/x");
    fs::create_dir_all(&half_made).unwrap();
    // A folder that is a mount point cannot be removed.
    let script = "mount -t tmpfs none \"$1\" || exit 99\nshift\n\"$@\" || exit 98\n\
                  \"$0\" env list || exit 97\n\"$0\" env remove env-8";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(binary());
    command.arg(&half_made).arg(binary()).args(fixture.create()).env_clear();
    command.envs(fixture.variables.iter().map(|(name, value)| (name, value)));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("env-8 ") && printed.contains("env-8 is removed"), "{printed}");
    assert!(
        stderr.contains("older environments were not removed") && stderr.contains("busy"),
        "{stderr}"
    );
}

fn interrupted_at_any_point_it_leaves_no_environment() {
    let fixture = Fixture::with_uv();
    fixture.created(&[]);
    for (word, signal) in
        [("venv", Signal::SIGINT), ("install", Signal::SIGTERM), ("install", Signal::SIGHUP)]
    {
        fixture.stop_uv_at(word);
        let child = fixture.start();
        let uv = fixture.reached();
        assert_eq!(
            fixture.names(),
            ["env-1", "env-2"],
            "the incomplete environment is next to the old one"
        );
        let output = fixture.run(&["env", "path"]);
        assert!(String::from_utf8_lossy(&output.stdout).ends_with("env-1\n"));
        kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(130), "{stderr}");
        assert!(stderr.contains("interrupted: nothing was changed"), "{stderr}");
        assert_eq!(fixture.names(), ["env-1"]);
        eventually(PATIENCE, || !is_alive(uv)).expect("uv is killed");
    }
}

fn killed_at_any_point_it_leaves_no_environment() {
    let fixture = Fixture::with_uv();
    fixture.created(&[]);
    for word in ["venv", "install"] {
        fixture.stop_uv_at(word);
        let mut child = fixture.start();
        let uv = fixture.reached();
        child.kill().unwrap();
        child.wait().unwrap();
        // The killed command's uv still runs and holds the lock. Until it ends, no command creates or removes
        // environments. The blocking uv is replaced first, so that a command that wrongly ignores the lock does not
        // block.
        fs::remove_file(fixture.at("bin/uv")).unwrap();
        let output = fixture.command(&[]).args(fixture.create()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains("another process is making or removing environments"), "{stderr}");
        assert_eq!(fixture.listed().len(), 1);
        assert_eq!(fixture.names(), ["env-1", "env-2"]);
        kill(uv, Signal::SIGKILL).unwrap();
        let is_removed = || fixture.listed().len() == 1 && fixture.names() == ["env-1"];
        eventually(PATIENCE, is_removed).expect("the lock is free");
    }
    // Kill the command at other moments too. The newest environment must always be complete.
    symlink(uv(), fixture.at("bin/real")).unwrap();
    fs::rename(fixture.at("bin/real"), fixture.at("bin/uv")).unwrap();
    let mut wait = Duration::from_millis(20);
    loop {
        let mut child = fixture.start();
        std::thread::sleep(wait);
        let _ = child.kill();
        let is_complete = child.wait().unwrap().success();
        let output = fixture.run(&["env", "path"]);
        let newest = String::from_utf8(output.stdout).unwrap();
        let python = Path::new(newest.trim_end()).join("bin/python");
        let used = Command::new(&python).args(["-I", "-c", "import tiny_one"]).status();
        assert!(used.unwrap().success(), "{newest}");
        if is_complete {
            break;
        }
        wait = wait * 8 / 5;
    }
    let is_removed = || fixture.listed().len() == 1 && fixture.names().len() == 1;
    eventually(PATIENCE, is_removed).expect("the remains are removed");
}

fn settings_of_pip_and_uv_do_not_lead_packages_elsewhere() {
    let (elsewhere, pip, uv) = ("elsewhere", Fixture::with_pip(), Fixture::with_uv());
    let target = |fixture: &Fixture| fixture.at(elsewhere).display().to_string();
    let other = pip.at("other");
    let made = Command::new(python()).args(["-m", "venv", "--without-pip"]).arg(&other).status();
    assert!(made.unwrap().success());
    let requirement = pip.at("requirement");
    fs::write(&requirement, "tiny-two==2.0\n").unwrap();
    let of_uv = format!("[pip]\ntarget = {:?}\n", target(&uv));
    // The configuration of a project in a parent folder is not used.
    fs::write(uv.at("uv.toml"), &of_uv).unwrap();
    let of_project = uv.at("project");
    fs::create_dir(&of_project).unwrap();
    fs::write(of_project.join("uv.toml"), &of_uv).unwrap();
    for (mut fixture, settings) in [
        (
            pip,
            vec![
                ("PIP_PYTHON", other.join("bin/python")),
                ("PIP_DRY_RUN", "1".into()),
                ("PIP_NO_DEPS", "1".into()),
                ("PIP_REQUIREMENT", requirement),
            ],
        ),
        (
            uv,
            vec![
                ("UV_PROJECT", of_project.clone()),
                ("UV_WORKING_DIR", of_project),
                ("UV_COMPILE_BYTECODE", "1".into()),
                ("UV_LINK_MODE", "symlink".into()),
            ],
        ),
    ] {
        for (name, value) in settings {
            fixture.prepend(name, value.to_str().unwrap());
        }
        let (folder, _) = fixture.created(&["--with", "tiny-two"]);
        let packages = fixture.listed()[0]["packages"].clone();
        let versions = ["tiny-one", "tiny-two", "tell-tale"].map(|name| packages[name].clone());
        assert_eq!(versions, ["1.0", "2.0", "1.0"].map(Value::from));
        let library = fs::read_dir(folder.join("lib")).unwrap().next().unwrap().unwrap().path();
        let module = library.join("site-packages/tiny_one/__init__.py");
        assert!(module.symlink_metadata().unwrap().is_file());

        // The command uses the user's own configuration. If this configuration installs packages elsewhere, the command
        // reports the packages as missing.
        let of_pip = format!("[install]\ntarget = {}\n", target(&fixture));
        let of_uv = format!("[pip]\ntarget = {:?}\n", target(&fixture));
        for (file, text) in
            [("home/.config/pip/pip.conf", of_pip), ("home/.config/uv/uv.toml", of_uv)]
        {
            let file = fixture.at(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let said = fixture.not_created(&[]);
        assert!(
            said.contains(
                "these packages are missing after their installation: tell-tale, tiny-one; "
            ),
            "{said}"
        );
    }
}

fn one_process_at_a_time_makes_environments() {
    let fixture = Fixture::with_uv();
    fixture.stop_uv_at("install");
    let child = fixture.start();
    let uv = fixture.reached();
    for arguments in [fixture.create(), ["env", "remove"].map(str::to_owned).into()] {
        let output = fixture.command(&[]).args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        let folder = fixture.environments().display().to_string();
        let expected =
            format!("another process is making or removing environments in {folder}; try again");
        assert!(stderr.contains(&expected), "{stderr}");
    }
    assert_eq!(fixture.listed().len(), 0);
    assert_eq!(fixture.names(), ["env-1"]);
    kill(uv, Signal::SIGKILL).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        stderr.contains("the packages cannot be installed: ") && stderr.contains("signal: 9"),
        "{stderr}"
    );
    assert_eq!(fixture.names(), Vec::<String>::new());
}

/// The process would hold the lock of the turn, because the lock's file is the standard input of each step.
fn a_process_that_a_step_leaves_is_killed() {
    let fixture = Fixture::with_uv();
    let file = fixture.at("left");
    let leave = format!(
        "case \"$*\" in *' install '*) sleep 600 <&0 & echo $! > {}; exit 3;; esac\nexec {} \"$@\"",
        file.display(),
        uv().display()
    );
    fixture.program("uv", &leave);
    fixture.not_created(&[]);
    let left = Pid::from_raw(fs::read_to_string(&file).unwrap().trim().parse().unwrap());
    assert!(eventually(PATIENCE, || !is_alive(left)).is_some());
    assert_eq!(fixture.run(&["env", "remove"]).status.code(), Some(0));
}

fn what_cannot_be_made_is_told() {
    // The lock lists packages that do not exist.
    for mut fixture in [Fixture::with_uv(), Fixture::with_pip()] {
        let empty = fixture.at("empty").to_str().unwrap().to_owned();
        fs::create_dir(&empty).unwrap();
        fixture.prepend("UV_FIND_LINKS", &empty);
        fixture.prepend("PIP_FIND_LINKS", &empty);
        let said = fixture.not_created(&[]);
        assert!(
            said.contains("the packages cannot be installed: ") && said.contains("tiny"),
            "{said}"
        );
        // In addition, the package index does not respond.
        for (name, value) in [
            ("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple"),
            ("UV_HTTP_RETRIES", "0"),
            ("PIP_INDEX_URL", "http://127.0.0.1:9/simple"),
            ("PIP_RETRIES", "0"),
        ] {
            fixture.prepend(name, value);
        }
        let lock = fixture.at("lock");
        let output = fixture.run(&["env", "create", "--lock", lock.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("127.0.0.1:9"), "{said}");
        assert_eq!(fixture.names(), Vec::<String>::new());
    }

    let fixture = Fixture::with_pip();
    let python3 = python().canonicalize().unwrap();
    let debian = format!(
        "case \"$*\" in *'-m venv'*) echo 'The virtual environment was not created successfully \
         because \
         ensurepip is not available.'; exit 1;; esac\nexec {} \"$@\"",
        python3.display()
    );
    fixture.program("python3", &debian);
    let said = fixture.not_created(&[]);
    assert!(said.contains("apt install python3.") && said.contains("-venv"), "{said}");

    fixture.program("python3", "echo Python 3.9.2");
    let said = fixture.not_created(&["--python", "3.99"]);
    assert!(said.contains("neither uv nor Python 3.99 on PATH was found"), "{said}");
}

fn a_package_that_is_needed_by_its_address_is_not_built() {
    for fixture in [Fixture::with_pip(), Fixture::with_uv()] {
        let mark = fixture.at("marks/mark");
        let code = format!("open({:?}, 'w').close()\n", mark.display().to_string());
        let backend =
            "[build-system]\nrequires = []\nbuild-backend = 'own'\nbackend-path = ['.']\n";
        for (name, files) in [
            ("by_setup", vec![("setup.py", code.as_str())]),
            ("by_backend", vec![("pyproject.toml", backend), ("own.py", code.as_str())]),
        ] {
            let folder = fixture.at(name).join(format!("{name}-1.0"));
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in files {
                fs::write(folder.join(file), text).unwrap();
            }
            let source = fixture.at(&format!("{name}-1.0.tar.gz"));
            let mut pack = Command::new("tar");
            pack.arg("-C")
                .arg(fixture.at(name))
                .arg("-czf")
                .arg(&source)
                .arg(format!("{name}-1.0"));
            assert!(pack.status().unwrap().success());
            let wheel = format!("needs_{name}");
            let requires = format!("{name} @ file://{}", source.display());
            fixture.wheel(&wheel, "1.0", &requires, &[(&format!("{wheel}.py"), "")]);
            let said = fixture.not_created(&["--with", &wheel]);
            assert!(!mark.exists(), "code of a package ran outside of the sandbox: {said}");
        }
    }
}

fn a_package_cannot_bring_what_the_environment_starts_with() {
    for (fixture, is_uv) in [(Fixture::with_uv(), true), (Fixture::with_pip(), false)] {
        let (folder, _) = fixture.created(&[]);
        let library = fs::read_dir(folder.join("lib")).unwrap().next().unwrap().unwrap();
        let library = library.file_name().into_string().unwrap();
        let mark = fixture.at("marks/started");
        let program = marking(&mark, &folder.join("bin/python").canonicalize().unwrap());
        let own = fixture.at("evil").display().to_string();
        let home = format!("home = {own}\ninclude-system-site-packages = false\n");
        let in_library = format!("data/lib/{library}/os.py");
        let cases = [
            ("scripts/python", &*program, "bin/python was changed"),
            (&in_library, "", "/os.py was added"),
            ("data/bin/python", &program, "bin/python was changed"),
            ("data/pyvenv.cfg", &home, "pyvenv.cfg was changed"),
            ("data/evil/bin/python3", &program, "evil was added"),
        ];
        // pip takes seconds for an environment, and the check does not depend on the tool.
        let count = if is_uv { cases.len() } else { 2 };
        for (name, text, expected) in cases.into_iter().take(count) {
            let file = format!("evil-1.0.data/{name}");
            fixture.wheel("evil", "1.0", "", &[("evil.py", ""), (&file, text)]);
            fixture.write_lock(&["evil-1.0"]);
            let said = fixture.not_created(&[]);
            // uv itself refuses some of these file names.
            let of_uv = "the packages cannot be installed: ";
            let of_ours = "a package changes files that run when the interpreter starts, so none of its code was run: ";
            assert!(
                (said.contains(of_ours) && said.contains(expected))
                    || (is_uv && name.ends_with("python") && said.contains(of_uv)),
                "{name}: {said}"
            );
            assert!(!mark.exists(), "{name}: code of a package ran outside of the sandbox");
        }
        // A package may add other files.
        let files = [
            ("evil.py", ""),
            ("evil-1.0.data/scripts/evil", "#!python\n"),
            ("evil-1.0.data/data/share/man/man1/evil.1", ""),
            ("evil-1.0.data/data/lib/libevil.so.1", ""),
            ("evil-1.0.data/data/qwed-env.json", "{}"),
        ];
        fixture.wheel("evil", "1.0", "", &files);
        fixture.write_lock(&["evil-1.0"]);
        let (folder, _) = fixture.created(&[]);
        assert!(folder.join("share/man/man1/evil.1").exists());
        assert_eq!(fixture.listed()[0]["packages"]["evil"], "1.0");
    }
}

fn invalid_arguments_are_refused() {
    let fixture = Fixture::with_uv();
    let lock = fixture.at("lock");
    let text = fs::read_to_string(&lock).unwrap();
    fs::write(&lock, format!("{text}--index-url https://example.org\n")).unwrap();
    let output = fixture.command(&[]).args(fixture.create()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("is not a lock file that can be used: line 5: expected NAME==VERSION"),
        "{stderr}"
    );
    for arguments in [
        ["--with", "https://example.org/x.whl"],
        ["--with=-r", "x"],
        ["--with", "./x"],
        ["--python", "3.9"],
        ["--python", "python3"],
    ] {
        let output = fixture.command(&["env", "create"]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    assert!(!fixture.environments().exists());
}

fn the_lock_has_the_versions_that_the_tests_have() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let lock = read("src/environments/requirements.lock");
    let pins: Vec<&str> = lock.lines().filter_map(|line| line.split([' ', '\\']).next()).collect();
    let has_name = |name: &str| pins.iter().any(|pin| pin.split("==").next() == Some(name));
    let mut shared = 0;
    for line in read("tests/requirements.txt").lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['=', '[']).next().unwrap();
        if has_name(name) {
            shared += 1;
            assert!(
                pins.contains(&line),
                "{line}: run tests/environments/lock, or take a version of it"
            );
        }
    }
    assert!(shared >= 8, "{shared}");
    for name in
        read("src/environments/requirements.in").lines().filter(|line| !line.starts_with('#'))
    {
        assert!(has_name(name), "{name}: run tests/environments/lock");
    }
}
