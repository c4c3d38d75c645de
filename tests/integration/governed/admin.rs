//! Tests the messages that an admin gets: about the policy, about a token in a file, and from `doctor`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Governed, assert_refused, quoted, run_pytest};
use crate::harness::{binary, is_root};

tests! {
    needs [Sandbox, Packages]:
        a_policy_that_cannot_be_read_is_named_to_the_admin_and_not_to_the_model,
        a_path_of_the_policy_that_cannot_be_opened_is_named,
        doctor_knows_what_tests_need,
        doctor_says_what_tests_lack,
        the_instructions_name_the_tools_that_there_are,
        a_token_in_a_file_is_the_servers;
    needs [Tier3, Packages]:
        the_object_of_doctor_has_these_members_and_no_others;
    needs []:
        policy_check_says_what_is_allowed,
        policy_check_warns_of_what_is_no_mistake_of_the_text,
        policy_check_says_all_that_is_wrong,
        a_token_file_that_is_not_private_ends_the_server;
}

fn check(folder: &Path, arguments: &[&str], policy: Option<&str>) -> Output {
    let mut command = Command::new(binary());
    command.args(["policy", "check"]).args(arguments).env_clear().current_dir(folder);
    command.envs(policy.map(|policy| ("QWED_MCP_POLICY", policy))).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn policy_check_says_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let policy = folder.join("policy.toml");
    let path = policy.to_str().unwrap();
    let root = folder.join("project");
    fs::create_dir(&root).unwrap();
    fs::write(
        &policy,
        format!(
            "[tools]\nallowlist = [\"run_pytest\"]\n[workspace]\nroot = {}\n\
             [budget]\nelapsed_ms_max = 5000\n[artifacts]\nretention_days = 30\n",
            quoted(&root)
        ),
    )
    .unwrap();
    let sha256 = hex::encode(Sha256::digest(fs::read(path).unwrap()));
    let expected = format!(
        "\
{path} can be used

tools             run_pytest
scripts           without a token
workspace         {}
also readable     -
variables         -
sandbox           on
time              300 s for a run, 5000 ms for a whole call
memory            1024 MiB
attempts          1
runs a day        -
output            8388608 bytes each of stdout and stderr
artifacts         67108864 bytes a run
judge             the tests of the workspace
checkpoints       -
kept              30 days
sha256            {}
",
        root.display(),
        sha256,
    );
    for (arguments, variable) in
        [([path].as_slice(), None), (&[], Some(path)), (&[path], Some("x"))]
    {
        let output = check(folder, arguments, variable);
        assert_eq!((output.status.code(), stdout(&output)), (Some(0), expected.as_str()));
        assert_eq!(stderr(&output), "");
    }
    let output = check(folder, &[path, "--format", "json"], None);
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    let expected = json!({
        "tools": ["run_pytest"], "scripts_need_token": false, "workspace_root": root, "allowed_paths": [], "env_whitelist": [],
        "sandbox_enabled": true, "timeout_s": 300, "memory_limit_mb": 1024, "elapsed_ms_max": 5000,
        "attempts_max": 1, "runs_per_day": null, "output_bytes_max": 8_388_608, "artifact_bytes_max": 67_108_864,
        "judge": { "tests": null, "list": null, "require": null, "control": false },
        "retention_days": 30, "total_mb_max": null, "checkpoint": null, "sha256": sha256,
    });
    assert_eq!((&report["policy"], &report["usable"]), (&expected, &json!(true)));
    assert_eq!((&report["mistakes"], &report["warnings"]), (&json!([]), &json!([])));
}

fn policy_check_warns_of_what_is_no_mistake_of_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (policy, warning) in [
        ("", "tools.allowlist is empty: run_pytest is refused"),
        ("", "workspace.root is not set: run_pytest is refused"),
        ("[tools]\nallowlist = [\"get_evidence\"]", "tools.allowlist does not have run_pytest"),
        ("[sandbox]\nenabled = false", "sandbox.enabled is false: run_pytest is refused"),
        ("[budget]\nattempts_max = 0", "budget.attempts_max is 0: run_pytest is refused"),
        (
            "[workspace]\nroot = \"/nonexistent\"",
            "workspace.root /nonexistent: No such file or directory",
        ),
        ("[workspace]\nroot = \"/dev/null\"", "workspace.root /dev/null is not a folder"),
        ("[sandbox]\nallowed_paths = [\"/nonexistent\"]", "/nonexistent does not exist"),
        ("[sandbox]\nallowed_paths = [\"/\"]", ": / is never opened to tests"),
        ("[sandbox]\nallowed_paths = [\"/proc/self\"]", ": /proc/self is never opened to tests"),
    ] {
        fs::write(folder.join("other.toml"), policy).unwrap();
        let output = check(folder, &["other.toml"], None);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let told: Vec<_> = stdout(&output).lines().filter(|line| line.contains(warning)).collect();
        assert_eq!(told.len(), 1, "{warning}: {output:?}");
        assert!(told[0].starts_with("warning: "), "{told:?}");
        assert!(stdout(&output).contains("warning: the path is relative"), "{output:?}");
    }
    let own = folder.join("own.toml");
    fs::write(&own, format!("[workspace]\nroot = {}", quoted(folder))).unwrap();
    let output = check(folder, &[own.to_str().unwrap()], None);
    let told = "cannot be used\n\nthe policy file is in the workspace";
    assert!(stdout(&output).contains(told), "{output:?}");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

fn policy_check_says_all_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("policy.toml"), "[sandbox]\ntimeout_s = 0\n[tool]\n").unwrap();
    let path = folder.join("policy.toml");
    let path = path.to_str().unwrap();
    let output = check(folder, &[path], None);
    let expected = format!(
        "\
{path} cannot be used

line 2: sandbox.timeout_s must be a whole number from 1 to 3600
line 3: tool is not known; the sections are tools, sandbox, budget, workspace, judge, artifacts, audit
"
    );
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), expected.as_str()));
    let output = check(folder, &[path, "--format", "json"], None);
    let told: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!((output.status.code(), &told["usable"]), (Some(1), &json!(false)));
    assert_eq!((&told["mistakes"][1]["line"], &told["policy"]), (&json!(3), &json!(null)));

    fs::write(folder.join("large.toml"), " ".repeat(70_000)).unwrap();
    let output = check(folder, &["large.toml"], None);
    assert_eq!(output.status.code(), Some(1), "{output:?}");

    let cwd = fs::canonicalize(folder).unwrap();
    let looked = format!(
        "missing.toml: the policy file cannot be read: No such file or directory; the path is \
         relative to {}\n",
        cwd.display()
    );
    for (arguments, variable, told) in [
        (["missing.toml"].as_slice(), None, looked.as_str()),
        (&[], Some("missing.toml"), &looked),
        (
            &["~/policy.toml"],
            None,
            "~/policy.toml: the policy file cannot be read: No such file or directory; ~ is not \
             expanded; write an absolute path\n",
        ),
        (
            &["/nonexistent/p"],
            None,
            " /nonexistent/p: the policy file cannot be read: No such file or directory\n",
        ),
        (&["/dev/null"], None, " /dev/null: the policy file is not a regular file\n"),
        (&[], None, "give a policy file, or set QWED_MCP_POLICY\n"),
    ] {
        let output = check(folder, arguments, variable);
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{output:?}");
        assert!(stderr(&output).ends_with(told), "{output:?}");
    }
}

fn a_policy_that_cannot_be_read_is_named_to_the_admin_and_not_to_the_model() {
    let governed = Governed::new("ledger");
    let path = governed.policy.to_str().unwrap();
    fs::rename(&governed.policy, governed.beside("elsewhere")).unwrap();
    let mut server = governed.connect();
    let refused = |server: &mut _| {
        let reply = run_pytest(server, &governed.user, "tests");
        let message =
            "Tool blocked by policy: the policy file cannot be read: No such file or directory";
        assert_refused(&reply, -32004, "POLICY_BLOCKED", message);
        assert!(!reply.to_string().contains(path), "{reply}");
    };
    refused(&mut server);
    refused(&mut server);
    fs::rename(governed.beside("elsewhere"), &governed.policy).unwrap();
    let reply = run_pytest(&mut server, &governed.user, "tests/test_ledger.py::test_overdrawn");
    assert!(reply["result"].is_object(), "{reply}");
    fs::remove_file(&governed.policy).unwrap();
    refused(&mut server);
    let log = server.finish();
    let expected = format!(
        "governed calls are refused until the policy is fixed: {path}: the policy file cannot be \
         read: \
         No such file or directory"
    );
    // The error is logged at the start and when the policy disappears again, but not for each call.
    assert_eq!(log.matches(&expected).count(), 2, "{log}");
}

fn a_path_of_the_policy_that_cannot_be_opened_is_named() {
    let governed = Governed::new("ledger");
    let missing = governed.beside("missing");
    for (path, message, told) in [
        (
            missing.as_path(),
            "Sandbox violation: a path that the policy lets tests read does not exist",
            format!(
                "sandbox.allowed_paths of the policy names {}, which does not exist",
                missing.display()
            ),
        ),
        (
            Path::new("/proc"),
            "Sandbox violation: the policy lets tests read a path that no test may read",
            "sandbox.allowed_paths of the policy names /proc, which no test may read".to_owned(),
        ),
        (
            Path::new("/"),
            "Sandbox violation: the policy lets tests read a path that no test may read",
            "sandbox.allowed_paths of the policy names /, which no test may read".to_owned(),
        ),
    ] {
        governed.write_policy(&format!("[sandbox]\nallowed_paths = [{}]\n", quoted(path)));
        let mut server = governed.connect();
        let reply = run_pytest(&mut server, &governed.user, "tests");
        assert_refused(&reply, -32006, "SANDBOX_VIOLATION", message);
        assert!(!reply.to_string().contains(missing.to_str().unwrap()), "{reply}");
        let log = server.finish();
        assert!(log.contains(&told) && !log.contains("READ_PATHS"), "{log}");
    }
}

fn doctor_knows_what_tests_need() {
    let governed = Governed::new("ledger");
    let doctor = |gate: &str, arguments: &[&str]| {
        let server = governed.server().variable("QWED_MCP_TRUSTED_CODE_EXECUTION", gate);
        server.command().arg("doctor").args(arguments).output().unwrap()
    };
    // If the policy permits test runs, a closed admin gate is a choice of the admin, and not an error.
    for gate in ["true", "false"] {
        let output = doctor(gate, &[]);
        let report = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{report}");
        for told in [
            format!("policy            {}: can be used\n", governed.policy.display()),
            format!("workspace         {}\n", governed.workspace.display()),
            "pytest            ".to_owned(),
            ", imported inside of the sandbox\n".to_owned(),
            "tokens            3 active of 3\n".to_owned(),
            format!("data folder       {}, mode 0700, owner ", governed.data.display()),
            "\nTests can run (run_pytest), whether or not the admin gate is open.\n".to_owned(),
        ] {
            assert!(report.contains(&told), "{told} in {report}");
        }
        assert_eq!(report.contains("\nCode can run.\n"), gate == "true", "{report}");
    }
}

fn the_object_of_doctor_has_these_members_and_no_others() {
    let governed = Governed::new("ledger");
    let server = governed.server().variable("QWED_MCP_TRUSTED_CODE_EXECUTION", "false");
    let output = server.command().args(["doctor", "--format", "json"]).output().unwrap();
    let mut report: Value = serde_json::from_str(stdout(&output)).unwrap();
    redact_the_machine(&mut report);
    let layers = [
        "namespaces",
        "file_tree",
        "identity",
        "resource_limits",
        "capabilities",
        "landlock",
        "seccomp",
    ];
    let expected = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "can_run": false,
        "refusal": null,
        "admin_gate": "closed",
        "interpreter": {
            "program": "…", "version": "…", "source": "configured", "passed_over": [],
        },
        "can_start": true,
        "skill_manifest": null,
        "aibom": null,
        "token_unused": false,
        "unknown_variables": [],
        "script_user": { "id": "…", "name": "…" },
        "home_readable_by": [],
        "packages": "…",
        "packages_remedy": null,
        "sandbox": {
            "mode": "required", "tier": "T3", "step_down": [], "landlock_abi": "…",
            "layers": layers.map(|layer| json!({ "layer": layer, "state": "enforced" })),
        },
        "governance": {
            "can_run": true,
            "reasons": [],
            "policy": {
                "file": governed.policy, "usable": true, "mistakes": [], "warnings": [],
                "workspace_root": governed.workspace,
            },
            "pytest": { "version": "…" },
            "tokens": { "active": 3, "all": 3 },
            "data_folder": {
                "path": governed.data, "mode": "0700", "owner": "…", "private": true,
            },
        },
        "limits": {
            "memory_bytes": 1_u64 << 30, "address_space_bytes": 4_u64 << 30, "processes": 64,
            "open_files": 256, "file_bytes": 64 << 20, "scratch_bytes": 128 << 20,
            "scratch_inodes": 4096, "shared_memory_bytes": 64 << 20,
        },
        "control_groups": "…",
        "database": null,
    });
    assert_eq!(report, expected);
}

/// Replaces values that differ between machines by `…`, after it has checked their type.
fn redact_the_machine(told: &mut Value) {
    let version = |value: &Value| {
        value.as_str().is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit()))
    };
    let packages = |value: &Value| {
        let packages = value.as_object().unwrap();
        packages.len() == 8 && packages.values().all(|value| value.is_null() || version(value))
    };
    let controls = |value: &Value| {
        *value == json!({ "used": true, "controls": value["controls"].as_str() })
            || *value == json!({ "used": false, "why": value["why"].as_str() })
    };
    let fits = |pointer: &str, value: &Value| match pointer {
        "/interpreter/program" => value.as_str().is_some_and(|text| text.starts_with('/')),
        "/interpreter/version" | "/governance/pytest/version" => version(value),
        "/packages" => packages(value),
        "/control_groups" => controls(value),
        "/script_user/name" => value.is_string() || value.is_null(),
        _ => value.is_u64(),
    };
    for pointer in [
        "/interpreter/program",
        "/interpreter/version",
        "/packages",
        "/sandbox/landlock_abi",
        "/control_groups",
        "/script_user/id",
        "/script_user/name",
        "/governance/pytest/version",
        "/governance/data_folder/owner",
    ] {
        let value = told.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}"));
        assert!(fits(pointer, value), "{pointer}: {value}");
        *value = json!("…");
    }
}

fn doctor_says_what_tests_lack() {
    let governed = Governed::new("ledger");
    let doctor = |gate: &str, arguments: &[&str]| {
        let server = governed.server().variable("QWED_MCP_TRUSTED_CODE_EXECUTION", gate);
        server.command().arg("doctor").args(arguments).output().unwrap()
    };
    let object = |output: &Output| -> Value { serde_json::from_str(stdout(output)).unwrap() };
    fs::set_permissions(&governed.data, fs::Permissions::from_mode(0o755)).unwrap();
    let output = doctor("false", &[]);
    assert!(stdout(&output).contains("mode 0755, owner "), "{output:?}");
    assert!(stdout(&output).contains(": OTHER USERS MAY HAVE ACCESS\n"), "{output:?}");
    fs::set_permissions(&governed.data, fs::Permissions::from_mode(0o700)).unwrap();
    let packages = governed.beside("packages");
    fs::create_dir(&packages).unwrap();
    fs::write(packages.join("pytest.py"), "raise ImportError('it lacks something')").unwrap();
    let server = governed.server().variable("PYTHONPATH", packages.to_str().unwrap());
    let output = server.command().arg("doctor").output().unwrap();
    let report = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{report}");
    let told = "pytest            MISSING inside of the sandbox: ImportError: it lacks something\n";
    assert!(report.contains(told), "{report}");
    assert!(report.ends_with(": pytest cannot be imported in the interpreter.\n"), "{report}");
    for id in ["1", "2", "3"] {
        assert!(governed.command(&["token", "revoke", id]).status.success());
    }
    governed.write_policy("[tools]\nallowlist = []\n");
    let output = doctor("true", &[]);
    let report = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{report}");
    for told in [
        "                  ! tools.allowlist is empty: run_pytest is refused\n",
        "tokens            0 active of 3\n",
        "Tests cannot run (run_pytest): the policy refuses it, see above; no token is active.\n",
        "\nCode can run.\n",
    ] {
        assert!(report.contains(told), "{told} in {report}");
    }
    fs::write(&governed.policy, "[tools]\nallowlist = [\"x\"]\n[nonsense]\n").unwrap();
    let output = doctor("true", &[]);
    let report = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{report}");
    for told in [
        ": CANNOT BE USED: line 2: tools.allowlist must name",
        "\n                  line 3: nonsense is not known",
        "Tests cannot run (run_pytest): the policy refuses it, see above; ",
        "; no token is active.\n",
    ] {
        assert!(report.contains(told), "{told} in {report}");
    }
    assert!(!report.contains(".;") && !report.contains(".."), "{report}");
    fs::remove_file(&governed.policy).unwrap();
    fs::remove_dir_all(&governed.data).unwrap();
    let output = doctor("false", &["--format", "json"]);
    let told = object(&output)["governance"].clone();
    assert_eq!((output.status.code(), &told["can_run"]), (Some(1), &json!(false)));
    assert!(told["policy"]["error"].as_str().unwrap().contains("policy.toml"), "{told}");
    assert!(told["tokens"]["error"].as_str().unwrap().contains("token create"), "{told}");
    assert!(told["data_folder"]["error"].is_string(), "{told}");
    assert!(!governed.data.exists(), "it is only looked at");

    // Without a policy, the report has no section about governance.
    let plain = governed.server().without("QWED_MCP_POLICY");
    let output = plain.command().args(["doctor", "--format", "json"]).output().unwrap();
    assert_eq!((output.status.code(), &object(&output)["governance"]), (Some(0), &json!(null)));
}

fn the_instructions_name_the_tools_that_there_are() {
    let governed = Governed::new("ledger");
    for (builder, is_governed) in
        [(governed.server(), true), (governed.server().without("QWED_MCP_POLICY"), false)]
    {
        let mut server = builder.start();
        let result = server.initialize("2025-11-25");
        let told = result["instructions"].as_str().unwrap();
        for tool in ["run_pytest", "get_evidence", "list_artifacts", "get_artifact_content"] {
            assert_eq!(told.contains(tool), is_governed, "{told}");
        }
        assert!(told.contains("execute_python_code") && told.chars().count() < 800, "{told}");
        server.finish();
    }
}

fn a_token_in_a_file_is_the_servers() {
    let governed = Governed::new("ledger");
    let file = governed.beside("token");
    fs::write(&file, format!("{}\n", governed.viewer)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    // Orchestrators mount secrets as symlinks.
    let link = governed.beside("link");
    symlink(&file, &link).unwrap();
    for path in [file, link] {
        let builder =
            governed.server().variable("QWED_MCP_AUTH_TOKEN_FILE", path.to_str().unwrap());
        let mut server = builder.connect();
        let params = json!({ "name": "list_artifacts", "arguments": {} });
        let reply = server.request("tools/call", &params);
        assert!(reply["result"].is_object(), "{reply}");
        let params = json!({ "name": "run_pytest", "arguments": { "test_path": "tests" } });
        let reply = server.request("tools/call", &params);
        assert_refused(&reply, -32003, "PERMISSION_DENIED", "Permission denied");
        let log = server.finish();
        assert!(!log.contains(&governed.viewer[8..]), "{log}");
    }
}

fn a_token_file_that_is_not_private_ends_the_server() {
    let governed = Governed::new("ledger");
    let file = governed.beside("token");
    let write = |content: &str, mode: u32| {
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    };
    let ended = |told: &str, both: bool, path: &Path| {
        let builder =
            governed.server().variable("QWED_MCP_AUTH_TOKEN_FILE", path.to_str().unwrap());
        let builder =
            if both { builder.variable("QWED_MCP_AUTH_TOKEN", &governed.user) } else { builder };
        let mut server = builder.start();
        let status = server.wait_for_exit(Duration::from_secs(5));
        let log = server.log();
        assert_eq!(status.code(), Some(1), "{told}: {log}");
        assert!(log.contains(told) && !log.contains(&governed.user[8..]), "{told}: {log}");
    };
    write(&governed.user, 0o600);
    ended("are both set", true, &file);
    for mode in [0o604, 0o602, 0o620, 0o644] {
        write(&governed.user, mode);
        ended(&format!("has mode {mode:04o}, which lets others read it"), false, &file);
    }
    for content in ["", "nonsense", &format!("{0}\n{0}", governed.user), &"x".repeat(100_000)] {
        write(content, 0o600);
        ended("must have one token", false, &file);
    }
    ended("failed to read", false, &governed.beside("missing"));
    ended("is not a regular file", false, &governed.data);
    // Tests could read this token, because it is in the workspace.
    let inside = governed.workspace.join("token");
    fs::write(&inside, &governed.user).unwrap();
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o600)).unwrap();
    ended("which tests can read; keep it elsewhere", false, &inside);
    std::os::unix::fs::symlink(&inside, governed.beside("linked")).unwrap();
    ended("which tests can read; keep it elsewhere", false, &governed.beside("linked"));
    let pipe = governed.beside("pipe");
    assert!(Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status().unwrap().success());
    ended("is not a regular file", false, &pipe);
    if is_root() {
        write(&governed.user, 0o600);
        chown(&file, Some(4321), None).unwrap();
        ended("belongs to user 4321", false, &file);
    }

    // Without a policy, the server does not read the token file.
    let plain = governed.server().without("QWED_MCP_POLICY");
    plain.variable("QWED_MCP_AUTH_TOKEN_FILE", "/nonexistent").connect().finish();
}
