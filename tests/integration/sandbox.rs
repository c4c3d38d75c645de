//! Tests the sandbox: the scripts that work in it, the isolation of runs, and machines that lack a part of the sandbox.
//! The module `abuse` tests attacks.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{
    McpProcess, ServerBuilder, binary, descendants, eventually, is_root, ordinary_user,
    public_packages, public_python, python, root, status_of,
};

tests! {
    needs [Python]:
        the_canary_finds_every_way_open_without_a_sandbox;
    needs [Root]:
        folders_are_swept_with_the_rights_of_their_owner;
    needs [Root, Tier3ForUsers, PublicPython, Packages]:
        common_scripts_work_at_tier_3_for_an_ordinary_user;
    needs [Tier3ForUsers, PublicPython]:
        other_processes_of_its_user_cannot_inspect_the_server,
        a_server_with_a_low_pid_is_not_taken_for_a_process_of_the_run;
    needs [Tier3ForUsers, PublicPython, Packages]:
        common_scripts_work_in_warm_interpreters;
    needs [Root, Tier3, PublicPython]:
        mounts_below_a_readable_path_are_read_only_too;
    needs [Tier2, PublicPython]:
        deep_folders_are_cleared_up_where_the_scratch_folder_is_a_real_one;
    needs [Tier2, PublicPython, Packages]:
        common_scripts_work_at_tier_2;
    needs [Tier3, PublicPython]:
        a_run_that_uses_everything_up_ends_and_the_next_call_is_clean,
        a_launch_that_fails_leaves_no_process_and_the_next_one_succeeds,
        the_server_itself_is_not_confined,
        processes_of_a_run_have_no_capability_and_are_not_root;
    needs [Tier3, PublicPython, Packages]:
        common_scripts_work_at_tier_3;
    needs [Tier2, Tier3, PublicPython]:
        nothing_of_one_call_reaches_the_next,
        no_code_runs_without_the_required_sandbox,
        tools_are_closed_world_unless_the_sandbox_is_off,
        listed_paths_can_be_read_and_must_exist;
}

const MEMORY_LIMIT: &str = "Execution failed with return code -9\nThe memory limit of the sandbox \
                            ended it. Use less memory, or ask the admin to raise \
                            QWED_MCP_MEMORY_MB.";

/// Scripts that must work in the sandbox. Each has a name, its code, and a line that it must print.
const WORKLOADS: [(&str, &str, &str); 14] = [
    (
        "sympy",
        "from sympy import *\nx = symbols('x')\nprint(integrate(exp(-x**2), (x, -oo, oo)))",
        "sqrt(pi)",
    ),
    (
        "z3",
        "from z3 import *\nx = Real('x')\ns = Solver()\ns.add(x * x == 2)\nprint(s.check())",
        "sat",
    ),
    (
        "numpy",
        "import numpy as np\nprint(np.linalg.det(np.eye(200) * 2 ** 0.05).round(3))",
        "1024.0",
    ),
    (
        "asyncio",
        "import asyncio\nasync def f():\n    a = await asyncio.gather(*(asyncio.sleep(0, n) for n \
         in range(5)))\n    return a, await asyncio.to_thread(sum, [1, \
         2])\nprint(asyncio.run(f()))",
        "([0, 1, 2, 3, 4], 3)",
    ),
    (
        "threads",
        "import threading\nfound = []\nall = [threading.Thread(target=found.append, args=(n,)) for \
         n \
         in range(30)]\n[t.start() for t in all]\n[t.join() for t in all]\nprint(sum(found))",
        "435",
    ),
    (
        "thread pool",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(32) as \
         pool:\n    print(sum(pool.map(abs, range(-100, 0))))",
        "5050",
    ),
    (
        "sqlite3 in a file",
        "import sqlite3\nc = sqlite3.connect('x.db')\nc.execute('pragma \
         journal_mode=wal')\nc.execute('create table t(a)')\nc.executemany('insert into t values \
         (?)', [(n,) for n in range(1000)])\nc.commit()\nprint(c.execute('select sum(a) from \
         t').fetchone())",
        "(499500,)",
    ),
    (
        "tempfile",
        "import os, tempfile\nwith tempfile.NamedTemporaryFile() as f, \
         tempfile.TemporaryDirectory() as d:\n    f.write(b'x')\n    open(d + '/y', \
         'w').close()\n    print(os.path.dirname(d) == os.getcwd() == os.environ['HOME'])",
        "True",
    ),
    (
        "zoneinfo",
        "from datetime import datetime\nfrom zoneinfo import ZoneInfo\nprint(datetime(2026, 7, 1, \
         tzinfo=ZoneInfo('Europe/Paris')).utcoffset())",
        "2:00:00",
    ),
    (
        "decimal",
        "from decimal import *\ngetcontext().prec = 50\nprint(Decimal(2).sqrt())",
        "1.4142135623730950488016887242096980785696718753769",
    ),
    (
        "unittest",
        "import sys, unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        \
         self.assertEqual(1 + 1, 2)\nr = unittest.main(exit=False, \
         verbosity=0).result\nprint(r.testsRun, \
         r.wasSuccessful())",
        "1 True",
    ),
    (
        "uuid, secrets, random",
        "import random, secrets, uuid\nprint(len({uuid.uuid4(), uuid.uuid1()}), \
         len(secrets.token_hex(8)), random.random() < 1)",
        "2 16 True",
    ),
    (
        "matplotlib",
        "import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\nplt.plot([1, \
         4, 9])\nplt.title('x')\nplt.savefig('out.png')\nprint(open('out.png', 'rb').read(4))",
        "b'\\x89PNG'",
    ),
    (
        "signals and alarms",
        "import signal, time\ndef f(*_):\n    raise TimeoutError\nsignal.signal(signal.SIGALRM, \
         f)\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\ntry:\n    time.sleep(5)\nexcept \
         TimeoutError:\n    print('rang')",
        "rang",
    ),
];

/// Scripts that need semaphores in shared memory. Only tier 3 has shared memory, in a run's private file tree.
const POOLS: [(&str, &str, &str); 2] = [
    (
        "multiprocessing.Pool",
        "from multiprocessing import Pool\nwith Pool(2) as pool:\n    print(pool.map(abs, [-1, \
         -2]))",
        "[1, 2]",
    ),
    (
        "process pool",
        "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(2) as \
         pool:\n    print(list(pool.map(abs, [-3, 4])))",
        "[3, 4]",
    ),
];

/// The modules that a warm interpreter loads by default.
const WARM_MODULES: &str = "asyncio,multiprocessing,unittest,numpy,sympy,z3,qwed_legal,qwed_finance,qwed_tax,qwed_ucp,qwed_new";

fn server(tier: &str, user: Option<u32>) -> McpProcess {
    let builder = ServerBuilder::new().unchecked();
    let builder = match tier {
        "T3" => builder.variable("QWED_MCP_SANDBOX", "strict"),
        "T2" => builder.variable("QWED_MCP_TEST_KERNEL_LACKS", "namespaces"),
        "warm" => builder.variable("QWED_MCP_SANDBOX", "strict").warm(WARM_MODULES),
        _ => builder.variable("QWED_MCP_SANDBOX", "off"),
    };
    let mut server = of_user(builder, user).connect();
    if tier == "warm" {
        server.wait_until_warm();
        return server;
    }
    let tier_of_run = server.execute("print(1)").execution()["sandbox"].clone();
    assert_eq!(tier_of_run, tier);
    server
}

pub(crate) fn of_user(builder: ServerBuilder, user: Option<u32>) -> ServerBuilder {
    let public = public_python().unwrap();
    let builder = match public_packages() {
        Some(packages) => builder.variable("PYTHONPATH", packages.to_str().unwrap()),
        None => builder,
    };
    let builder = builder.variable("QWED_MCP_PYTHON", public.to_str().unwrap());
    match user {
        Some(user) => builder.with_user(user),
        None => builder,
    }
}

fn assert_works(server: &mut McpProcess, workloads: &[(&str, &str, &str)]) {
    for (name, code, line) in workloads {
        let result = server.execute(code);
        let text = &result.texts[0];
        assert!(!result.is_error && text.lines().any(|l| l == *line), "{name}: {text}");
    }
}

fn common_scripts_work_at_tier_3() {
    let mut server = server("T3", None);
    assert_works(&mut server, &WORKLOADS);
    assert_works(&mut server, &POOLS);
    server.finish();
}

fn common_scripts_work_at_tier_3_for_an_ordinary_user() {
    let mut server = server("T3", Some(24_602));
    assert_works(&mut server, &WORKLOADS);
    assert_works(&mut server, &POOLS);
    server.finish();
}

fn common_scripts_work_in_warm_interpreters() {
    let users = if is_root() { vec![None, Some(24_603)] } else { vec![None] };
    for user in users {
        let mut server = server("warm", user);
        assert_works(&mut server, &WORKLOADS);
        assert_works(&mut server, &POOLS);
        assert_eq!(server.execute("print(1)").execution()["warm"], true);
        server.finish();
    }
}

fn common_scripts_work_at_tier_2() {
    let mut server = server("T2", None);
    assert_works(&mut server, &WORKLOADS);
    server.finish();
}

fn nothing_of_one_call_reaches_the_next() {
    for tier in ["T3", "T2"] {
        let mut server = server(tier, None);
        let leave = "\
import os, sys, time
os.environ['LEFT'] = 'x'
open('left', 'w').write('x')
try:
    open('/dev/shm/left', 'w').write('x')
    print('shared memory')
except OSError:
    pass
os.umask(0)
try:
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
except PermissionError:
    # At tier 2 it is one process.
    import threading
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
import json
json.dumps = None
";
        let left = server.execute(leave);
        assert!(!left.is_error, "{:?}", left.texts);
        assert_eq!(left.text().contains("shared memory"), tier == "T3");
        let look = "\
import json, os
found = [name for name in os.listdir() if name != 'descriptors']
if os.path.exists('/dev/shm/left'):
    found.append('shared memory')
if 'LEFT' in os.environ:
    found.append('environment')
if os.umask(0) == 0:
    found.append('umask')
for number in range(3, 256):
    try:
        os.fstat(number)
        if number == 20:
            # The pipe for the run's own pictures.
            continue
        found.append(f'descriptor {number}')
    except OSError:
        pass
for number in range(2, 100):
    try:
        if number != os.getpid():
            os.kill(number, 0)
            found.append(f'process {number}')
    except OSError:
        pass
json.dumps({})
print(found)
";
        assert_eq!(
            server.execute(look).text(),
            "STDOUT:\n[]\n\nExecution completed successfully.",
            "{tier}"
        );
        server.finish();
    }
}

fn a_run_that_uses_everything_up_ends_and_the_next_call_is_clean() {
    let faults = [
        (
            "a full disk",
            "f = open('x', 'wb')\nwhile True: f.write(b'x' * 2 ** 20)",
            "File too large",
        ),
        (
            "a full scratch folder",
            "for n in range(9):\n    open(str(n), 'wb').write(b'x' * 2 ** 25)",
            "No space left on device",
        ),
        ("a million files", "for n in range(10 ** 6): open(str(n), 'w')", "Errno"),
        ("memory", "x = []\nwhile True: x.append(bytearray(2 ** 22))", MEMORY_LIMIT),
        (
            "memory of children",
            "import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n        x = \
             bytes(range(1, \
             101)) * 10 ** 6\n        time.sleep(30)\ntime.sleep(30)",
            MEMORY_LIMIT,
        ),
        ("a huge allocation", "x = bytearray(2 ** 40)", "MemoryError"),
        (
            "a fork bomb",
            "import os, time\ntry:\n    while True:\n        if os.fork() == 0: \
             time.sleep(60)\nexcept BlockingIOError:\n    print('no more')",
            "no more",
        ),
        ("signals to everyone", "import os\nos.kill(-1, 9)", "No such process"),
        ("its own end", "import os\nos.kill(os.getpid(), 9)", "return code -9"),
        ("a crash", "import ctypes\nctypes.string_at(0)", "return code -11"),
        ("an abort", "import os\nos.abort()", "return code -6"),
        (
            "folders without end",
            "import os\nfor _ in range(3000):\n    os.mkdir('d')\n    \
             os.chdir('d')\nprint('deep')",
            "deep",
        ),
    ];
    let mut server = of_user(ServerBuilder::new().unchecked(), None)
        .variable("QWED_MCP_SANDBOX", "strict")
        .variable("QWED_MCP_MEMORY_MB", "256")
        .connect();
    for (name, code, expected) in faults {
        let result = server.execute(code);
        assert!(result.texts[0].contains(expected), "{name}: {:?}", result.texts);
        let next = server.execute("print(open('mine', 'w').write('x'))");
        assert_eq!(next.text(), "STDOUT:\n1\n\nExecution completed successfully.", "{name}");
    }
    // The memory limit also ends a background job, with the same message.
    let job = server.place("x = []\nwhile True: x.append(bytearray(2 ** 22))");
    let text = server.wait_for_job(&job).text().to_owned();
    assert_eq!(text, format!("Status: failed\n\nResult:\n{MEMORY_LIMIT}"));
    assert!(server.scratch.entries().is_empty(), "{:?}", server.scratch.entries());
    server.finish();
}

fn deep_folders_are_cleared_up_where_the_scratch_folder_is_a_real_one() {
    let mut server = server("T2", None);
    let code =
        "import os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\nprint('deep')";
    assert!(server.execute(code).text().contains("deep"));
    // If the removal of the folders takes long, it continues after the reply.
    let is_empty = || server.scratch.entries().is_empty();
    assert!(eventually(Duration::from_secs(60), is_empty).is_some());
    server.finish();
}

/// A root server must not remove another user's files from an abandoned folder.
fn folders_are_swept_with_the_rights_of_their_owner() {
    const NOBODY: Option<u32> = Some(65534);

    let place = tempfile::tempdir().unwrap();
    let [removed, kept] =
        ["a", "b"].map(|digit| place.path().join(format!("qwed-mcp-{}", digit.repeat(32))));
    for folder in [&removed, &kept] {
        fs::create_dir_all(folder.join("own/below")).unwrap();
        fs::write(folder.join("own/file"), "").unwrap();
        for path in ["", "own", "own/below"] {
            chown(folder.join(path), NOBODY, NOBODY).unwrap();
        }
    }
    fs::set_permissions(&removed, fs::Permissions::from_mode(0o000)).unwrap();
    fs::create_dir(kept.join("roots")).unwrap();
    fs::write(kept.join("roots/file"), "").unwrap();

    let swept = Command::new(binary()).arg("__sweep").arg(place.path()).status().unwrap();
    assert!(swept.success() && !removed.exists());
    assert!(!kept.join("own").exists() && kept.join("roots/file").exists());
}

fn no_code_runs_without_the_required_sandbox() {
    for (mode, lacks, tier) in [
        ("required", "", Some("T3")),
        ("required", "namespaces", Some("T2")),
        ("required", "landlock", None),
        ("required", "namespaces,landlock", None),
        ("strict", "", Some("T3")),
        ("strict", "namespaces", None),
        ("degraded", "", Some("T3")),
        ("degraded", "namespaces,landlock", Some("T1")),
        ("off", "", Some("off")),
        ("no such word", "namespaces,landlock", None),
    ] {
        let mut server = of_user(ServerBuilder::new(), None)
            .variable("QWED_MCP_SANDBOX", mode)
            .variable("QWED_MCP_TEST_KERNEL_LACKS", lacks)
            .connect();
        let result = server.execute("print('ran')");
        let decision = &result.meta["qwed.ai/decision"];
        if let Some(tier) = tier {
            assert_eq!(result.execution()["sandbox"], tier, "{mode} {lacks}: {:?}", result.texts);
        } else {
            assert_eq!(decision["error_code"], "QWED-MCP-RISK-009", "{mode} {lacks}");
            assert_eq!(decision["status"], "BLOCKED_ADMIN_POLICY");
            assert_eq!(result.texts[1], "Error code: QWED-MCP-RISK-009");
            let text = &result.texts[0];
            assert!(text.starts_with("BLOCKED_ADMIN_POLICY: Scripts cannot run: "), "{text}");
            assert!(
                text.contains("; the admin can run `qwed-mcp doctor` for details. (ver"),
                "{text}"
            );
            assert_eq!(text.matches(". ").count(), 1, "one sentence: {text}");
            // The reply must not suggest to the model that the sandbox can be weakened.
            assert!(!text.contains("QWED_MCP_SANDBOX"), "{text}");
            assert_eq!(result.meta["qwed.ai/execution"], Value::Null);
            // A background job is refused too. Even without a sandbox, harmful code is refused because of its findings.
            let arguments = json!({ "code": "print(1)", "background": true });
            let job = server.call("execute_python_code", &arguments);
            assert_eq!(job.meta["qwed.ai/decision"]["error_code"], "QWED-MCP-RISK-009");
            let harmful = server.execute("eval('1')");
            assert_eq!(harmful.meta["qwed.ai/decision"]["error_code"], "QWED-MCP-RISK-005");
        }
        let log = server.finish();
        let warns = log.contains("with all rights of the server's user")
            || log.contains("scripts run without them");
        assert_eq!(warns, mode == "off" || mode == "degraded", "{mode}: {log}");
    }
}

fn tools_are_closed_world_unless_the_sandbox_is_off() {
    for (mode, is_open) in
        [("required", false), ("strict", false), ("degraded", false), ("off", true)]
    {
        let mut server = ServerBuilder::new().variable("QWED_MCP_SANDBOX", mode).connect();
        let tools = server.request("tools/list", &json!({}));
        let annotations = |tool: usize| &tools["result"]["tools"][tool]["annotations"];
        assert_eq!(annotations(0)["openWorldHint"], is_open, "{mode}");
        assert_eq!(annotations(1)["openWorldHint"], false, "{mode}");
        // The annotation of the tool must match the behaviour.
        let socket = "import socket\nsocket.socket()\nprint('open')";
        let mut server = of_user(ServerBuilder::new().unchecked(), None)
            .variable("QWED_MCP_SANDBOX", mode)
            .connect();
        assert_eq!(server.execute(socket).texts[0].contains("open\n"), is_open, "{mode}");
        server.finish();
    }
}

fn listed_paths_can_be_read_and_must_exist() {
    let data = tempfile::tempdir().unwrap();
    fs::set_permissions(data.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(data.path().join("rates.csv"), "0.075").unwrap();
    fs::write(data.path().join("other"), "").unwrap();
    std::os::unix::fs::symlink(data.path().join("rates.csv"), data.path().join("link")).unwrap();
    let code = format!("print(open('{}/link').read())", data.path().display());
    let run = |paths: &str, lacks: &str| {
        let mut server = of_user(ServerBuilder::new().unchecked(), None)
            .variable("QWED_MCP_READ_PATHS", paths)
            .variable("QWED_MCP_TEST_KERNEL_LACKS", lacks)
            .connect();
        let text = server.execute(&code).texts[0].clone();
        let listing = format!("import os\nprint(os.listdir('{}'))", data.path().display());
        let listing = server.execute(&listing).texts[0].clone();
        let write = server.execute(&code.replace("').read()", "', 'a')")).texts[0].clone();
        assert!(
            ["Read-only", "Permission denied", "No such file", "BLOCKED"]
                .iter()
                .any(|reason| write.contains(reason)),
            "{write}"
        );
        server.finish();
        (text, listing)
    };
    for lacks in ["", "namespaces"] {
        let (text, _) = run("", lacks);
        assert!(text.contains("Error: ") && !text.contains("0.075"), "{text}");
        let (text, listing) = run(data.path().to_str().unwrap(), lacks);
        assert!(text.starts_with("STDOUT:\n0.075"), "{text}");
        assert!(listing.contains("other"), "{listing}");
        // The entry is a symlink to one file. The script can read this file, but not its folder.
        let (text, listing) = run(data.path().join("link").to_str().unwrap(), lacks);
        assert!(text.starts_with("STDOUT:\n0.075"), "{text}");
        assert!(!listing.contains("other"), "{listing}");
        for (path, reason, remedy) in [
            ("/no/such/folder", "does not exist", "correct or remove it"),
            ("/proc", "must not be readable to scripts", "list folders below / that are not in"),
            // This path exists in the current folder, but entries must be absolute.
            ("tests", "is not an absolute path", "write an absolute path"),
        ] {
            let (text, _) = run(path, lacks);
            let expected = format!("run: an entry of QWED_MCP_READ_PATHS {reason}; {remedy}");
            assert_eq!(text.matches(&expected).count(), 1, "{text}");
            assert!(!text.contains(path) || path == "/proc", "{text}");
        }
    }
}

/// A readable path disappears, so the launch fails after the init process and the launcher have started.
fn a_launch_that_fails_leaves_no_process_and_the_next_one_succeeds() {
    let data = tempfile::tempdir().unwrap();
    let listed = data.path().join("listed");
    fs::write(&listed, "").unwrap();
    let mut server = of_user(ServerBuilder::new().unchecked(), None)
        .variable("QWED_MCP_READ_PATHS", listed.to_str().unwrap())
        .connect();
    assert_eq!(server.execute("print(1)").execution()["sandbox"], "T3");
    fs::remove_file(&listed).unwrap();
    let failed = server.execute("print(1)");
    assert_eq!(
        failed.text(),
        "Execution error: Python could not be started: a readable path could not be mounted: No \
         such file or directory (os error 2)."
    );
    assert_eq!(descendants(server.pid()), Vec::<u32>::new());
    fs::write(&listed, "").unwrap();
    assert_eq!(server.execute("print(1)").execution()["sandbox"], "T3");
    server.finish();
}

/// Mounts require root. The shell has its own mount namespace.
fn mounts_below_a_readable_path_are_read_only_too() {
    let data = tempfile::tempdir().unwrap();
    let script = data.path().join("script.py");
    let code = "
import errno, os
os.chdir('@')
def tell(name, function):
    try:
        function()
        print(name, 'harm')
    except OSError as error:
        print(name, errno.errorcode[error.errno])
tell('read', lambda: open('usb/file').read())
tell('write', lambda: open('usb/file', 'w'))
tell('utime', lambda: os.utime('usb/file', (1, 1)))
tell('chmod', lambda: os.chmod('usb/file', 0o777))
tell('create', lambda: open('usb/new', 'w'))
print(os.listdir(os.environ.get('HOME', 'usb')))
";
    fs::write(&script, code.replace('@', data.path().to_str().unwrap())).unwrap();
    // One mount has a name that is not valid UTF-8. It must not hide the other mounts.
    let mounts = r#"
cd "$1"
mkdir usb "$(printf 'bad\377')"
mount -t tmpfs -o mode=1777 none usb
mount -t tmpfs none "$(printf 'bad\377')"
echo content > usb/file
chown 65534:65534 usb/file
exec "$2" run "$3"
"#;
    let run = |mode: &str| {
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-e", "-c", mounts, "sh"])
            .args([data.path(), &binary(), &script])
            .env("QWED_MCP_TRUSTED_CODE_EXECUTION", "true")
            .env("QWED_MCP_TEST_UNCHECKED_CODE", "1")
            .env("QWED_MCP_PYTHON", public_python().unwrap())
            .env("QWED_MCP_SANDBOX", mode)
            .env("QWED_MCP_READ_PATHS", data.path())
            .output()
            .unwrap();
        for name in fs::read_dir(data.path()).unwrap() {
            let _ = fs::remove_dir(name.unwrap().path());
        }
        String::from_utf8(output.stdout).unwrap()
    };
    let denied = "read harm\nwrite EROFS\nutime EROFS\nchmod EROFS\ncreate EROFS\n[]\n";
    let text = run("strict");
    assert!(text.contains(denied), "{text}");
    let text = run("off");
    assert!(text.contains("write harm\nutime harm\nchmod harm\ncreate harm\n"), "{text}");
}

/// In a container, the server has PID 1 or 2. A run's PID namespace has processes with the same PIDs.
fn a_server_with_a_low_pid_is_not_taken_for_a_process_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.py");
    fs::write(&script, "print(6 * 7)").unwrap();
    for start in ["exec \"$1\" run \"$2\"", "\"$1\" run \"$2\"; exit $?"] {
        let output = Command::new("unshare")
            .args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["sh", "-c", start, "sh"])
            .args([&binary(), &script])
            .env("QWED_MCP_TRUSTED_CODE_EXECUTION", "true")
            .env("QWED_MCP_PYTHON", public_python().unwrap())
            .env("QWED_MCP_SANDBOX", "strict")
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "42\n", "{start}: {stderr}");
    }
}

fn the_canary_finds_every_way_open_without_a_sandbox() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let targets = json!({
        "file": file, "server": std::process::id(), "program": python(),
    });
    let attempts = fs::read_to_string(root().join("src/executor/python/canary.py")).unwrap();
    let code = format!("TARGETS = {targets}\n{attempts}");
    let output =
        Command::new(python()).args(["-c", &code]).current_dir(folder.path()).output().unwrap();
    let opened: Vec<String> = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<_> = attempts
        .lines()
        .filter_map(|line| line.strip_prefix("    \"")?.split_once("\": ").map(|(name, _)| name))
        .collect();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        let needs_root = ["make_device", "become_root"].contains(&name);
        assert!(opened.iter().any(|way| way == name) || (needs_root && !is_root()), "{name}");
    }
}

fn the_server_itself_is_not_confined() {
    let mut server = server("T3", None);
    for _ in 0..20 {
        assert!(!server.execute("print(1)").is_error);
    }
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    assert!(status.contains("\nSeccomp:\t0\n"), "{status}");
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).unwrap();
    assert_eq!(namespace(&server.pid().to_string()), namespace("self"));
    server.finish();
}

fn other_processes_of_its_user_cannot_inspect_the_server() {
    let user = ordinary_user(4_322);
    let look = |pid: u32, file: &str| {
        let mut command = Command::new("cat");
        command.arg(format!("/proc/{pid}/{file}"));
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        command.output().unwrap()
    };
    for (is_open, tier) in [(true, "T3"), (false, "T3"), (false, "T2")] {
        let builder = ServerBuilder::new().without("QWED_MCP_TEST_DUMPABLE");
        let mut builder = of_user(builder, user).variable("QWED_MCP_AUTH_TOKEN", "the token");
        if is_open {
            builder = builder.variable("QWED_MCP_TEST_DUMPABLE", "1");
        }
        if tier == "T2" {
            builder = builder.variable("QWED_MCP_TEST_KERNEL_LACKS", "namespaces");
        } else {
            builder = builder.warm("math");
        }
        let mut server = builder.connect();
        if tier == "T3" {
            server.wait_until_warm();
        }
        let ran = server.execute("import math\nprint(math.tau)");
        assert_eq!((ran.is_error, &ran.execution()["sandbox"]), (false, &json!(tier)));
        for file in ["environ", "maps"] {
            let found = look(server.pid(), file);
            let stderr = String::from_utf8_lossy(&found.stderr).into_owned();
            let is_refused = stderr.contains("Permission denied");
            assert_eq!(is_refused, !is_open, "{file} at {tier}: {stderr}");
        }
        let found = look(server.pid(), "environ");
        let environment = String::from_utf8_lossy(&found.stdout).into_owned();
        assert_eq!(environment.contains("the token"), is_open, "{tier}");
        let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        assert!(is_open || core.split_whitespace().nth(4) == Some("0"), "{limits}");
        server.finish();
    }
}

fn processes_of_a_run_have_no_capability_and_are_not_root() {
    let mut server = server("T3", None);
    let scratch = server.scratch.path().to_owned();
    let id = server.start_execute("import time\ntime.sleep(60)");
    let mut found = Vec::new();
    let runs = || !crate::harness::alive_with_marker(&scratch).is_empty();
    assert!(eventually(std::time::Duration::from_secs(5), runs).is_some());
    // Wait until the launcher has installed its seccomp filters, because they are the last part of the sandbox.
    let pids = || crate::harness::alive_with_marker(&scratch);
    let is_confined = |pid: u32| status_of(pid, "Seccomp").is_some_and(|mode| mode == "2");
    let are_confined = || !pids().is_empty() && pids().into_iter().all(is_confined);
    assert!(eventually(std::time::Duration::from_secs(5), are_confined).is_some());
    for pid in pids() {
        found.push(fs::read_to_string(format!("/proc/{pid}/status")).unwrap());
    }
    server.cancel(id);
    assert_eq!(found.len(), 1);
    let fields =
        |name: &str| found[0].lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(fields(set), "0000000000000000", "{set}");
    }
    assert_eq!((fields("NoNewPrivs:"), fields("Seccomp:")), ("1", "2"));
    assert!(!fields("Uid:").starts_with("0\t"), "{}", fields("Uid:"));
    server.finish();
}
