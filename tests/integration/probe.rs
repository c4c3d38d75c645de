//! Tests the inspection of an interpreter before any script runs. The inspection happens outside of the sandbox, so it
//! may run only code of the standard library.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::{ServerBuilder, public_python};

tests! {
    needs [Tier3, PublicPython]:
        no_code_beside_the_interpreter_runs_outside_of_the_sandbox,
        a_shared_library_in_the_home_folder_does_not_open_it,
        a_path_that_opens_the_home_folder_is_told,
        folders_that_pth_files_name_can_be_read,
        an_interpreter_that_cannot_be_used_is_told_as_what_it_is;
}

/// Modules of the standard library. The tests shadow these modules with files in a folder on Python's path.
const SHADOWS: [&str; 5] = ["json", "platform", "sysconfig", "_bz2", "_ssl"];

/// An interpreter, a home folder, and planted code that creates marker files when Python loads it.
struct Planted {
    folder: tempfile::TempDir,
    python: PathBuf,
}

impl Planted {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        open_to_all(folder.path());
        let at = |name: &str| folder.path().join(name);
        for name in ["marks", "home", "on_path"] {
            fs::create_dir(at(name)).unwrap();
        }
        let environment = at("environment");
        // Python loads `usercustomize` only in environments with the system's packages.
        let made = Command::new(public_python().unwrap().canonicalize().unwrap())
            .args(["-m", "venv", "--without-pip", "--system-site-packages"])
            .arg(&environment)
            .status();
        assert!(made.unwrap().success());
        let libraries = fs::read_dir(environment.join("lib")).unwrap();
        let library = libraries.map(|entry| entry.unwrap().path()).next().unwrap();
        let packages = library.join("site-packages");

        let mark = |name: &str| {
            let mark = at("marks").join(name).display().to_string();
            format!("try:\n    open({mark:?}, 'w').close()\nexcept OSError:\n    pass\n")
        };
        let on_path = at("on_path").display().to_string();
        for name in SHADOWS {
            // The planted module loads the real module, so that the script continues.
            let code = format!(
                "{}import sys\nbefore = sys.path[:]\nsys.path.remove({on_path:?})\ndel sys.modules[{name:?}]\n\
                 import {name}\nsys.path[:] = before\n",
                mark(name)
            );
            fs::write(at("on_path").join(format!("{name}.py")), code).unwrap();
        }
        fs::write(at("on_path/sitecustomize.py"), mark("sitecustomize")).unwrap();
        fs::write(packages.join("usercustomize.py"), mark("usercustomize")).unwrap();
        fs::write(packages.join("from_pth.py"), mark("pth")).unwrap();
        fs::write(packages.join("planted.pth"), "import from_pth\n").unwrap();
        Self { python: environment.join("bin/python3"), folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn marks(&self) -> BTreeSet<String> {
        let marks = fs::read_dir(self.path("marks")).unwrap();
        marks.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn server(&self) -> ServerBuilder {
        ServerBuilder::new()
            .unchecked()
            .variable("QWED_MCP_PYTHON", self.python.to_str().unwrap())
            .variable("PYTHONPATH", &self.path("on_path"))
            .variable("HOME", &self.path("home"))
    }
}

fn open_to_all(folder: &Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
}

fn no_code_beside_the_interpreter_runs_outside_of_the_sandbox() {
    let planted = Planted::new();
    let imports = SHADOWS.join(", ");

    let mut server = planted.server().connect();
    // Inside of the sandbox, the planted code runs, but it cannot create the marker files.
    let code = format!(
        "import {imports}, sys\nprint(sorted(set(sys.modules) & {{'from_pth', 'sitecustomize', \
         'usercustomize'}}))"
    );
    let result = server.execute(&code);
    assert_eq!(
        result.text(),
        "STDOUT:\n['from_pth', 'sitecustomize', 'usercustomize']\n\nExecution completed successfully."
    );
    assert_eq!(result.execution()["sandbox"], "T3");
    server.finish();
    let report = planted.server().command().arg("doctor").output().unwrap();
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stdout));
    assert_eq!(planted.marks(), BTreeSet::new());

    // The control: the planted code runs if Python starts without special options.
    let run = Command::new(&planted.python)
        .args(["-c", &format!("import {imports}")])
        .env_clear()
        .env("PYTHONPATH", planted.path("on_path"))
        .env("HOME", planted.path("home"))
        .status();
    assert!(run.unwrap().success());
    let all = SHADOWS.into_iter().chain(["pth", "sitecustomize", "usercustomize"]);
    assert_eq!(planted.marks(), all.map(str::to_owned).collect());
}

fn a_shared_library_in_the_home_folder_does_not_open_it() {
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let (home, prefix) = (folder.path().join("home"), folder.path().join("prefix"));
    fs::create_dir(&home).unwrap();
    fs::write(home.join("secret"), "s3cr3t").unwrap();

    // This interpreter consists of symlinks to another interpreter. One library is a copy in the home folder, and the
    // interpreter finds this copy through two symlinks.
    let real = public_python().unwrap().canonicalize().unwrap();
    let ask =
        "import _lzma, os, sys; print(os.path.dirname(os.__file__), _lzma.__file__, sep='\\n')";
    let answer = Command::new(&real).args(["-I", "-S", "-c", ask]).output().unwrap();
    let answer = String::from_utf8(answer.stdout).unwrap();
    let [stdlib, library] =
        answer.lines().map(PathBuf::from).collect::<Vec<_>>().try_into().unwrap();
    let of_prefix = prefix.join("lib").join(stdlib.file_name().unwrap());
    let dynamic = library.parent().unwrap().file_name().unwrap();
    fs::create_dir_all(of_prefix.join(dynamic)).unwrap();
    link_all(&stdlib, &of_prefix);
    link_all(library.parent().unwrap(), &of_prefix.join(dynamic));
    fs::copy(&library, home.join("library.so.1.0")).unwrap();
    symlink("library.so.1.0", home.join("library.so.1")).unwrap();
    let link = of_prefix.join(dynamic).join(library.file_name().unwrap());
    fs::remove_file(&link).unwrap();
    symlink(home.join("library.so.1"), &link).unwrap();
    fs::create_dir(prefix.join("bin")).unwrap();
    let python = prefix.join("bin").join(real.file_name().unwrap());
    crate::harness::copy_program(&real, &python);

    let told = home.display().to_string();
    for lacks in ["", "namespaces"] {
        let mut server = ServerBuilder::new()
            .unchecked()
            .variable("QWED_MCP_PYTHON", python.to_str().unwrap())
            .variable("QWED_MCP_TEST_KERNEL_LACKS", lacks)
            .variable("HOME", home.to_str().unwrap())
            // The symlinks lead to the machine's Python, which scripts may read.
            .variable("QWED_MCP_READ_PATHS", stdlib.to_str().unwrap())
            .connect();
        let code = format!(
            "import lzma, os, sys\nprint(lzma.decompress(lzma.compress(b'packed')), sys.prefix)\n\
             for read in (lambda: open({told:?} + '/secret').read(), lambda: os.listdir({told:?})):\n    \
             try:\n        print('READ', read())\n    except OSError as error:\n        \
             print(type(error).__name__)"
        );
        let result = server.execute(&code);
        let text = result.text();
        assert!(text.contains(&format!("b'packed' {}", prefix.display())), "{text}");
        assert!(!text.contains("READ") && text.matches("Error").count() == 2, "{lacks}: {text}");
        server.finish();
    }
}

/// Creates symlinks in `to` to all entries of `from`. Skips existing names.
fn link_all(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let link = to.join(entry.file_name());
        if !link.exists() {
            symlink(entry.path(), link).unwrap();
        }
    }
}

fn a_path_that_opens_the_home_folder_is_told() {
    let planted = Planted::new();
    let packages = planted.python.parent().unwrap().parent().unwrap().join("lib");
    let packages = fs::read_dir(packages).unwrap().next().unwrap().unwrap().path();
    let pth = packages.join("site-packages/planted.pth");
    let (home, above) = (planted.path("home"), planted.folder.path().to_str().unwrap().to_owned());
    fs::create_dir(planted.folder.path().join("home/project")).unwrap();
    let project = planted.path("home/project");
    for (python_path, in_pth, told) in [
        (home.as_str(), "", Some(format!("PYTHONPATH names {home}"))),
        (&above, "", Some(format!("PYTHONPATH names {above}"))),
        (&project, &home, Some(format!("a .pth file names {home}"))),
        (&project, &project, None),
        // Relative paths refer to the script's own folder. A line of a `.pth` file that begins with `import` is not a
        // path.
        ("home::.", &format!("import sys; sys.path.append({home:?})"), None),
    ] {
        fs::write(&pth, format!("{in_pth}\n")).unwrap();
        let builder = planted.server().variable("PYTHONPATH", python_path);
        let report = builder.command().arg("doctor").output().unwrap();
        let report = String::from_utf8(report.stdout).unwrap();
        let mut server = builder.connect();
        let code = format!("import os\nprint(os.path.exists({home:?} + '/project'))");
        let result = server.execute(&code);
        assert_eq!(result.execution()["sandbox"], "T3", "{:?}", result.texts);
        let log = server.finish();
        let Some(told) = told else {
            assert!(!report.contains("home folder"), "{report}");
            assert_eq!(log, "");
            continue;
        };
        let row = format!("home folder       READABLE by scripts: {told}\n");
        assert!(report.contains(&row), "{report}");
        let line = format!("scripts can read the home folder: {told}");
        assert!(log.contains("WARN") && log.matches(&line).count() == 1, "{log}");
        assert!(result.text().starts_with("STDOUT:\nTrue"), "{}", result.text());
    }
}

fn folders_that_pth_files_name_can_be_read() {
    let planted = Planted::new();
    let packages = planted.python.parent().unwrap().parent().unwrap().join("lib");
    let packages = fs::read_dir(packages).unwrap().next().unwrap().unwrap().path();
    let editable = planted.folder.path().join("editable/src");
    fs::create_dir_all(&editable).unwrap();
    fs::write(editable.join("of_project.py"), "value = 42\n").unwrap();
    let pth = format!("# a comment\n\nimport sys\n{}\nmissing\n", editable.display());
    fs::write(packages.join("site-packages/editable.pth"), pth).unwrap();
    let mut server = planted.server().connect();
    let result = server.execute("import of_project\nprint(of_project.value)");
    assert_eq!(result.text(), "STDOUT:\n42\n\nExecution completed successfully.");
    server.finish();
}

fn an_interpreter_that_cannot_be_used_is_told_as_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    symlink(at("missing"), at("broken")).unwrap();
    let library = "error while loading shared libraries: libpython3.13.so.1.0: cannot open shared \
                   object file: No such file or directory";
    for (name, lines) in [
        ("without_library", format!("echo \"$0: {library}\" >&2\nexit 127")),
        ("damaged", "echo 'ModuleNotFoundError: No module named encodings' >&2\nexit 1".to_owned()),
        ("other", "echo I am something else".to_owned()),
    ] {
        crate::harness::write_program(at(name), &format!("#!/bin/sh\n{lines}\n"));
    }
    let relative = "environment/bin/python3".to_owned();
    for (python, told, stderr) in [
        (at("broken"), "it does not start: No such file or directory (os error 2)", ""),
        (at("without_library"), "a shared library that it needs is missing", library),
        (
            at("damaged"),
            "it is not Python, or is damaged: it ended with exit status: 1",
            "No module named encodings",
        ),
        (at("other"), "it is not Python", ""),
        (relative, "it is a relative path", ""),
    ] {
        let builder = ServerBuilder::new().variable("QWED_MCP_PYTHON", &python);
        let mut server = builder.connect();
        let result = server.execute("print(1)");
        assert!(result.is_error);
        let message = format!(
            "Execution error: the interpreter that QWED_MCP_PYTHON names could not be used: {told}. \
             Set QWED_MCP_PYTHON to the absolute path of a Python 3.8 or later, or to a name that is \
             on PATH; ~ and variables are not expanded."
        );
        assert_eq!(result.text(), message);
        let log = server.finish();
        assert!(log.contains(&format!("{python}: {told}")) && log.contains(stderr), "{log}");

        let doctor = |arguments: &[&str]| {
            let builder = ServerBuilder::new().variable("QWED_MCP_PYTHON", &python);
            let output = builder.command().arg("doctor").args(arguments).output().unwrap();
            assert_eq!(output.status.code(), Some(1));
            String::from_utf8(output.stdout).unwrap()
        };
        let report = doctor(&[]);
        assert!(report.contains(&format!("{python}: {told}")), "{report}");
        assert!(report.contains(stderr) && report.contains("\nCode cannot run: the"), "{report}");
        assert!(
            !report.contains("MISSING") && report.matches("not tried").count() == 1,
            "{report}"
        );
        let report: Value = serde_json::from_str(&doctor(&["--format", "json"])).unwrap();
        let tried = &report["interpreter"]["tried"][0];
        assert_eq!(
            (tried["program"].as_str(), tried["why"].as_str()),
            (Some(&*python), Some(told))
        );
        assert!(tried["stderr"].as_str().unwrap().contains(stderr), "{report}");
        let layer = &report["sandbox"]["layers"][0];
        assert_eq!(layer["state"], "not_tried", "{report}");
    }
}
