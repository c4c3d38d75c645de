//! Tests the environment variables of the server and of the scripts.

use std::fs;
use std::time::Duration;

use serde_json::json;

use crate::harness::{ServerBuilder, python};

tests! {
    needs [Tier3]:
        logs_are_quiet_by_default_and_never_show_code_above_debug;
    needs [Sandbox]:
        the_background_timeout_is_read_clamped_and_defaulted,
        a_script_sees_path_and_pythonpath_and_no_secret,
        a_failing_skill_manifest_ends_the_server_before_it_answers;
    needs [Sandbox, Packages]:
        the_interpreter_is_found_in_the_documented_order_and_shims_are_resolved;
}

fn the_background_timeout_is_read_clamped_and_defaulted() {
    for (value, seconds, warns) in
        [("2", "2", false), ("0.6", "1", false), ("nonsense", "120", true), ("-1", "120", true)]
    {
        let mut server =
            ServerBuilder::new().variable("QWED_MCP_BACKGROUND_TIMEOUT", value).connect();
        if !warns {
            let job_id = server.place("import time\ntime.sleep(60)");
            let result = server.wait_for_job(&job_id);
            let text = format!("timed out after {seconds} seconds.");
            assert!(result.texts[0].contains(&text), "{:?}", result.texts);
        }
        let log = server.finish();
        assert_eq!(log.contains("QWED_MCP_BACKGROUND_TIMEOUT"), warns, "{value}: {log}");
    }
}

fn a_script_sees_path_and_pythonpath_and_no_secret() {
    let library = tempfile::tempdir().unwrap();
    fs::write(library.path().join("from_pythonpath.py"), "value = 42\n").unwrap();
    let mut server = ServerBuilder::new()
        .variable("PYTHONPATH", library.path().to_str().unwrap())
        .variable("SECRET_API_KEY", "s3cr3t")
        .variable("HOME", "/home/nobody")
        .connect();
    let code = "\
import os, from_pythonpath
print(from_pythonpath.value, 's3cr3t' in str(os.environ), sorted(os.environ))
";
    let result = server.execute(code);
    let text = result.text();
    assert!(text.starts_with("STDOUT:\n42 False ["), "{text}");
    let names: Vec<_> = text
        .lines()
        .nth(1)
        .unwrap()
        .split('\'')
        .filter(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_') && !name.is_empty())
        .collect();
    // Python sets `LC_CTYPE` itself (PEP 538). `HOME` and `TMPDIR` are the scratch folder.
    let expected = [
        "HOME",
        "LC_CTYPE",
        "MKL_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "PATH",
        "PYTHONHASHSEED",
        "PYTHONPATH",
        "TMPDIR",
    ];
    assert_eq!(names, expected, "{text}");
    server.finish();
}

fn the_interpreter_is_found_in_the_documented_order_and_shims_are_resolved() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    // A slow shell script that starts the real Python, like the shims of version managers.
    let shim = folder.path().join("python3");
    let script =
        format!("#!/bin/sh\necho x >> {}\nexec {} \"$@\"\n", count.display(), python().display());
    crate::harness::write_program(&shim, &script);
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let executable = "import sys\nprint(sys.executable)";
    let expected = format!("STDOUT:\n{}\n\nExecution completed successfully.", python().display());

    let server = ServerBuilder::new().without("QWED_MCP_PYTHON").variable("PATH", &path);
    let data = folder.path().join("data");
    let mut server = server.variable("XDG_DATA_HOME", data.to_str().unwrap()).connect();
    for _ in 0..3 {
        assert_eq!(server.execute(executable).text(), expected);
    }
    server.finish();
    assert_eq!(fs::read_to_string(&count).unwrap(), "x\n", "the shim is asked once");

    // `VIRTUAL_ENV` takes precedence over `PATH`. `QWED_MCP_PYTHON` takes precedence over both, and may be a program
    // name.
    let environment = python().parent().unwrap().parent().unwrap();
    let server = ServerBuilder::new().without("QWED_MCP_PYTHON").variable("PATH", &path);
    let server = server.variable("XDG_DATA_HOME", data.to_str().unwrap());
    let mut server = server.variable("VIRTUAL_ENV", environment.to_str().unwrap()).connect();
    assert_eq!(server.execute(executable).text(), expected);
    server.finish();
    assert_eq!(fs::read_to_string(&count).unwrap(), "x\n");

    let server =
        ServerBuilder::new().variable("QWED_MCP_PYTHON", "python3").variable("PATH", &path);
    let mut server = server.variable("VIRTUAL_ENV", "/nonexistent").connect();
    assert_eq!(server.execute(executable).text(), expected);
    server.finish();
    assert_eq!(fs::read_to_string(&count).unwrap(), "x\nx\n");
}

fn a_failing_skill_manifest_ends_the_server_before_it_answers() {
    let folder = tempfile::tempdir().unwrap();
    let trusted = json!({
        "name": "my-skill",
        "version": "1.0.0",
        "source_url": "https://github.com/org/skill",
        "registry": "github.com",
        "digest": format!("sha256:{}", "0123456789abcdef".repeat(4)),
        "download_count": 151
    });
    let mut poisoned = trusted.clone();
    poisoned["registry"] = json!("clawdhub.com");
    for (name, content, is_trusted) in [
        ("trusted.json", trusted.to_string(), true),
        ("poisoned.json", poisoned.to_string(), false),
        ("array.json", "[1]".to_owned(), false),
        ("scalar.json", "7".to_owned(), false),
        ("broken.json", "{".to_owned(), false),
        ("missing.json", String::new(), false),
    ] {
        let path = folder.path().join(name);
        if name != "missing.json" {
            fs::write(&path, content).unwrap();
        }
        let path = path.to_str().unwrap();
        let mut server = ServerBuilder::new().variable("QWED_SKILL_MANIFEST", path).start();
        if is_trusted {
            server.initialize("2025-11-25");
            server.finish();
            continue;
        }
        let status = server.wait_for_exit(Duration::from_secs(5));
        assert_eq!(status.code(), Some(1), "{name}");
        assert_eq!(server.next_message(Duration::from_millis(100)), None, "{name}");
        let log = server.log();
        assert!(log.contains("ERROR") && log.contains("skill manifest"), "{name}: {log}");
    }
}

fn logs_are_quiet_by_default_and_never_show_code_above_debug() {
    let code = "marker_in_the_code = 1\nprint('marker_in_the_output')\neval('1')";
    for (filter, is_empty) in [(None, true), (Some("info"), false), (Some("qwed_mcp=info"), false)]
    {
        let mut builder = ServerBuilder::new();
        if let Some(filter) = filter {
            builder = builder.variable("QWED_MCP_LOG", filter);
        }
        let mut server = builder.connect();
        server.execute(code);
        server.execute(&code.replace("eval('1')", ""));
        let job_id = server.place(&code.replace("eval('1')", ""));
        server.wait_for_job(&job_id);
        let log = server.finish();
        assert_eq!(log.is_empty(), is_empty, "{filter:?}: {log}");
        assert!(!log.contains("marker_in"), "{filter:?}: {log}");
    }
    let mut server = ServerBuilder::new().variable("QWED_MCP_LOG", "qwed_mcp=loud").connect();
    server.assert_alive();
    assert!(server.finish().contains("QWED_MCP_LOG does not parse"));
    // A filter for another module does not turn warnings off.
    let server = ServerBuilder::new().variable("QWED_MCP_LOG", "other=info");
    let server = server.variable("QWED_MCP_BACKGROUND_TIMEOUT", "x").connect();
    assert!(server.finish().contains("WARN"));
}
