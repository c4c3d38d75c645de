//! Tests warm interpreters. A script ends as in a new interpreter, and leaves no state for the next script. After any
//! fault of the fork server, the server answers the next call.

use std::fs;
use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::Value;

use crate::harness::{
    BusyProcessors, FORK_SERVER_PROCESSES, McpProcess, SYNC_TIMEOUT, ServerBuilder,
    alive_with_marker, descendants, eventually, open_descriptors, ordinary_user, public_python,
    resident_kibibytes, root, status_of,
};

tests! {
    needs [Tier3ForUsers]:
        a_hostile_module_that_is_loaded_finds_no_way_to_the_machine;
    needs [Tier2, Tier3, PublicPython]:
        without_the_top_tier_or_when_it_is_switched_off_scripts_stay_cold;
    needs [Tier3]:
        a_script_ends_warm_as_it_does_cold,
        #[cfg(target_env = "gnu")]
        allocations_of_a_fork_are_contiguous,
        the_socket_of_a_run_is_of_no_use_to_the_script,
        limits_hold_and_the_next_call_is_warm_and_clean,
        a_fork_server_that_dies_is_replaced_and_no_call_is_lost,
        a_worn_fork_server_hands_over_without_a_cold_run,
        more_readable_folders_than_a_script_may_open_files_leave_it_warm,
        a_module_that_starts_a_thread_or_fails_leaves_scripts_cold_or_warm_but_right,
        children_that_fail_to_start_do_not_delay_calls,
        installed_packages_are_seen_by_the_next_call,
        an_idle_server_lets_the_fork_server_go_and_gets_it_back,
        one_thread_watches_all_runs,
        a_run_that_others_keep_from_the_processors_says_so,
        warm_interpreters_end_with_the_server_whatever_ends_it,
        four_thousand_calls_each_get_their_own_result,
        two_thousand_calls_with_faults_get_their_own_results;
    needs [Tier3, Packages]:
        nothing_passes_from_one_script_to_the_next,
        random_numbers_are_new_in_each_run,
        scripts_with_light_imports_have_an_interpreter_of_their_own,
        fork_servers_keep_no_libraries_mapped,
        honest_scripts_print_the_same_warm_and_cold,
        numbers_are_computed_as_in_a_new_interpreter;
}

/// The number of processes at rest: the processes of the fork server, its supervisor, and the supervisor's init
/// process.
const AT_REST: usize = FORK_SERVER_PROCESSES + 2;

fn cold() -> McpProcess {
    builder().connect()
}

fn warm(modules: &str) -> McpProcess {
    let mut server = builder().warm(modules).connect();
    server.wait_until_warm();
    server
}

fn builder() -> ServerBuilder {
    ServerBuilder::new().unchecked().variable(SYNC_TIMEOUT, "100000")
}

/// Scripts that end in different ways or inspect themselves.
const SEMANTICS: &[&str] = &[
    "print('a'); import sys; sys.exit()",
    "import sys; sys.exit(3)",
    "import sys; sys.exit(256 + 7)",
    "import sys; sys.exit(-1)",
    "import sys; sys.exit(10 ** 30)",
    "import sys; sys.exit('a text')",
    "import sys; sys.exit([1])",
    "raise SystemExit",
    "exit(4)",
    "raise ValueError('x')",
    "def f(n):\n    return 1 / n\n\ntry:\n    f(0)\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e",
    "class E(Exception):\n    def __str__(self):\n        raise RuntimeError\nraise E",
    "raise KeyboardInterrupt",
    "print(1",
    "x = 1\n  y = 2",
    "print('\\d')",
    "import ast\nast.parse('(')",
    "import json\njson.loads('{')",
    "assert 1 == 2, 'numbers'",
    "def f():\n    return f()\nf()",
    "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])",
    "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\n1 / 0",
    "import atexit\natexit.register(print, 'last')\nprint('first')",
    "import atexit\natexit.register(lambda: 1 / 0)\nprint('first')",
    "import atexit, sys\natexit.register(lambda: sys.exit(5))",
    "class A:\n    def __del__(self):\n        print('deleted')\na = A()",
    "class A:\n    def __del__(self):\n        1 / 0\na = A()",
    "class A:\n    def __del__(self):\n        print('cycle')\na = A()\na.a = a",
    "import math\nclass A:\n    def __del__(self):\n        print(math.pi, helper())\na = A()\ndef helper():\n    return 'h'",
    "import sys\nclass A:\n    def __del__(self):\n        print('deleted')\ndef f():\n    a = A()\n    sys.exit(0)\nf()",
    "class A:\n    def __del__(self):\n        print('deleted')\ndef f():\n    a = A()\n    1 / 0\nf()",
    "import io, sys\nsys.stdout.write('hello')\nsys.stdout = io.StringIO()",
    "import sys\nsys.stdout.write('hello')\nsys.stdout = None",
    "import sys\nsys.stdout.write('hello')\ndel sys.stdout",
    "import gc\nprint('a')\ngc.collect = None",
    "import sys\nsys.setprofile(lambda *a: None)\nprint('a')",
    "from decimal import Decimal\nprint(Decimal(1) / 3, Decimal(2).sqrt())",
    "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()",
    "import threading, time\nthreading.Thread(target=lambda: time.sleep(9), daemon=True).start()",
    "import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start(); t.join()",
    "import threading\nprint(threading.current_thread(), threading.enumerate(), threading.main_thread())",
    "import os; print('lost'); os._exit(7)",
    "import os; os.abort()",
    "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "import signal; signal.alarm(1); signal.pause()",
    "import signal; print(signal.getsignal(signal.SIGCHLD), signal.getsignal(signal.SIGPIPE), \
     signal.getsignal(signal.SIGINT), signal.set_wakeup_fd(-1), signal.pthread_sigmask(signal.SIG_BLOCK, []))",
    "import ctypes; ctypes.string_at(0)",
    "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('child' if pid == 0 else 'parent')",
    "import os, sys\npid = os.fork()\nif pid == 0:\n    sys.exit(9)\nprint(os.waitpid(pid, 0)[1])\nsys.exit(2)",
    "import os, time\nif os.fork() == 0:\n    time.sleep(5)\n    print('never')",
    "import multiprocessing as m\nif __name__ == '__main__':\n    m.set_start_method('fork')\n    print(m.Pool(2).map(abs, [-1, -2]))",
    "from concurrent.futures import ThreadPoolExecutor as P\nprint(list(P(4).map(abs, range(-3, 0))))",
    "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 5\nprint(asyncio.run(f()))",
    "import sys\nsys.stdout.close()",
    "import sys\nsys.stdout.write('no line feed')",
    "import sys\nprint('to stderr', file=sys.stderr)\nprint('to stdout')",
    "import os\nos.close(1)\nprint('x' * 100)",
    "import os\nos.write(1, b'raw\\n')\nprint('cooked')",
    "print(input())",
    "import sys, os\nprint(repr(sys.stdin.read()), os.read(0, 1), os.fstat(0).st_mode)",
    "import sys\nprint(sys.argv, sys.path[0] == '', sys.flags, sys.executable, sys.getrecursionlimit())",
    "print(sorted(globals()), __name__, __builtins__, sorted(dir()))",
    "import os\nprint(os.getpid(), os.getppid(), os.getpgrp(), os.getsid(0), os.getcwd(), os.listdir())",
    "import os\nprint(sorted(os.environ.items()), os.getuid(), os.getgid(), os.getgroups())",
    "import os\nprint(oct(os.umask(0)), os.nice(0), os.get_terminal_size)",
    "import resource as r\nprint([r.getrlimit(n) for n in range(16) if n != r.RLIMIT_CPU])",
    "print(hash('a'), {'a', 'b', 'c', 'd', 'e'})",
    "import inspect\nprint([(f.filename, f.function) for f in inspect.stack()])",
    "import traceback\ndef f():\n    traceback.print_stack()\nf()",
    "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))",
    "def depth(n):\n    try:\n        return depth(n + 1)\n    except RecursionError:\n        return n\nprint(depth(0))",
    "import warnings\nwarnings.warn('careful')\nwarnings.warn('careful', DeprecationWarning)",
    "import warnings\nprint(len(warnings.filters))",
    "import decimal\nprint(decimal.getcontext())",
    "import locale\nprint(locale.getlocale(), locale.setlocale(locale.LC_ALL))",
    "import gc\nprint(gc.isenabled(), gc.get_threshold(), gc.get_debug())",
    "import logging\nlogging.warning('w')\nprint(logging.root.handlers)",
    "import tempfile, os\nwith tempfile.NamedTemporaryFile() as f:\n    print(os.path.dirname(f.name))",
    "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(1, 1)\nunittest.main(verbosity=0, argv=['x'], exit=False)\nprint('done')",
    "import sys\nsys.setrecursionlimit(50)\nprint('low')",
    "from __future__ import annotations\ndef f(x: unknown): pass\nprint(f.__annotations__)",
    "print(__file__)",
    "import __main__\nprint(__main__.__dict__ is globals())",
    "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))))",
    "\u{feff}print('byte order mark')",
    "# -*- coding: utf-8 -*-\nprint('é', '日本')",
];

fn a_script_ends_warm_as_it_does_cold() {
    let (mut cold, mut warm) = (cold(), warm("json,decimal"));
    let mut wrong = Vec::new();
    for script in SEMANTICS {
        compare(&mut cold, &mut warm, script, script, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n\n"));
    cold.finish();
    warm.finish();
}

/// If a corpus script contains one of these words, its output differs between any two runs.
const RANDOM: &[&str] = &["random", "uuid", "secrets", "time", "perf_counter", "id("];

fn honest_scripts_print_the_same_warm_and_cold() {
    let (mut cold, mut warm) = (cold(), warm("json,sympy,z3,numpy"));
    let mut wrong = Vec::new();
    let mut files: Vec<_> = fs::read_dir(root().join("tests/corpus/allowed"))
        .unwrap()
        .chain(fs::read_dir(root().join("examples")).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .collect();
    files.sort();
    assert!(files.len() > 150);
    for file in files {
        let script = fs::read_to_string(&file).unwrap();
        if RANDOM.iter().any(|word| script.contains(word)) {
            continue;
        }
        compare(&mut cold, &mut warm, &file.display().to_string(), &script, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n\n"));
    cold.finish();
    warm.finish();
}

fn compare(
    cold: &mut McpProcess,
    warm: &mut McpProcess,
    name: &str,
    script: &str,
    wrong: &mut Vec<String>,
) {
    let (one, other) = (cold.execute(script), warm.execute_warm(script));
    if comparable(&one.texts) != comparable(&other.texts) {
        wrong.push(format!("{name}\ncold {:?}\nwarm {:?}", one.texts, other.texts));
        return;
    }
    assert_eq!(other.execution()["warm"], true, "{name}");
    for field in ["exit_code", "timed_out", "sandbox", "stdout_truncated", "stderr_truncated"] {
        assert_eq!(one.execution()[field], other.execution()[field], "{name}: {field}");
    }
}

/// Removes the parts of the texts that differ between processes, such as addresses, durations, and the line number in
/// the bootstrap program.
fn comparable(texts: &[String]) -> String {
    let differing = [
        r"0x[0-9a-f]{6,}",
        r"(started|id=)\s*\d+",
        r" in \d+\.\d+s",
        r"<bootstrap>., line \d+",
        r"/tmp/\.tmp\w+",
    ];
    differing.iter().fold(texts.join("\n\n"), |text, pattern| {
        Regex::new(pattern).unwrap().replace_all(&text, "…").into_owned()
    })
}

fn nothing_passes_from_one_script_to_the_next() {
    let mut server = warm("json,decimal,random,numpy,numpy.random,logging,warnings,sympy");
    let leave = "
import builtins, decimal, json, locale, logging, os, signal, sys, warnings
mark = 'LEFT' + 'BEHIND'
builtins.left = json.left = os.environ['LEFT'] = mark
json.dumps = sys.stdout.write
decimal.getcontext().prec = 3
logging.basicConfig(level=logging.DEBUG)
warnings.simplefilter('error')
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.setrecursionlimit(200)
import sympy
sympy.pi = 3
os.umask(0)
open('left', 'w').write(mark)
open('/dev/shm/left', 'w').write(mark)
if os.fork() == 0:
    import time
    time.sleep(60)
";
    let look = "
import builtins, decimal, gc, json, logging, os, signal, sys, warnings, sympy
found = []
def look(name, is_there):
    if is_there:
        found.append(name)
look('builtins', hasattr(builtins, 'left'))
look('json', hasattr(json, 'left') or json.dumps(1) != '1')
look('environment', 'LEFT' in os.environ)
look('decimal', decimal.getcontext().prec != 28)
look('logging', logging.root.handlers)
look('signal', signal.getsignal(signal.SIGTERM) != signal.SIG_DFL)
look('recursion', sys.getrecursionlimit() != 1000)
look('sympy', sympy.pi == 3)
look('umask', os.umask(0) != 0o022)
look('files', os.listdir('.') + os.listdir('/dev/shm'))
# The other children, as the fork server knows them.
ending = sys._getframe(1).f_locals.get('ending')
look('no frame', ending is None)
import ctypes
forks = type(ending).kept.f_locals['forks']
look('children', any((ctypes.c_ubyte * (20 * 4096)).in_dll(forks, 'fork_server_children')))
# The run's control socket, and the pipe for its pictures, are its own.
for number in range(5, 256):
    try:
        os.fstat(number)
        look('descriptor %d' % number, True)
    except OSError:
        pass
for number in range(3, 100):
    try:
        os.kill(number, 0)
        look('process %d' % number, True)
    except OSError:
        pass
mark = 'BEHIND'
gc.unfreeze()
for thing in gc.get_objects():
    if isinstance(thing, dict):
        look('text', any(isinstance(v, str) and 'LEFT' + mark in v for v in list(thing.values())))
print(found)
";
    for _ in 0..4 {
        assert!(!server.execute(leave).is_error);
        let text = server.execute(look).text().to_owned();
        assert_eq!(text, "STDOUT:\n[]\n\nExecution completed successfully.");
    }
    // The control: the search finds the text if the text exists.
    let seen = server.execute(&format!("builtins_left = 'LEFT' + 'BEHIND'\n{look}"));
    assert!(seen.text().contains("'text'"), "{:?}", seen.texts);
    server.finish();
}

fn random_numbers_are_new_in_each_run() {
    let mut server = warm("random,numpy,numpy.random,uuid,secrets,tempfile,sympy");
    let draw = "
import numpy, os, random, secrets, tempfile, uuid, sympy.core.random
print(sympy.core.random.rng.random(), random.random(), numpy.random.random(), numpy.random.default_rng().random(), uuid.uuid4(),
      secrets.token_hex(8), os.urandom(4), next(tempfile._get_candidate_names()))";
    let draws: Vec<Vec<String>> = (0..6)
        .map(|_| {
            let result = server.execute(draw);
            result.text().split_ascii_whitespace().map(str::to_owned).collect()
        })
        .collect();
    for column in 1..9 {
        let mut values: Vec<_> = draws.iter().map(|row| row[column].clone()).collect();
        values.sort();
        values.dedup();
        assert_eq!(values.len(), draws.len(), "{draws:?}");
    }
    server.finish();
}

/// When a fork first writes to a page, the kernel copies this page. Loading modules leaves gaps on many pages, and
/// allocations in the gaps would copy these pages. Outside of the gaps, the allocations of this script fit on 102
/// pages.
#[cfg(target_env = "gnu")]
fn allocations_of_a_fork_are_contiguous() {
    let mut server = warm("ctypes,json,unittest,sympy,numpy");
    let result = server.execute(
        "
import ctypes
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
print(len({malloc(200) >> 12 for _ in range(2000)}))",
    );
    let pages = result.text().split_ascii_whitespace().find_map(|word| word.parse().ok());
    assert!(matches!(pages, Some(100_u32..=120)), "{}", result.text());
    server.finish();
}

/// A script may find the socket on which its process reports how the script ended. With this socket, the script can
/// only end itself.
fn the_socket_of_a_run_is_of_no_use_to_the_script() {
    let mut server = warm("json");
    for (script, expected) in [
        (
            "import os\nos.write(3, b'x' * 1000)\nprint('on')\nos._exit(5)",
            "STDOUT:\non\n\nExecution failed with return code 5",
        ),
        ("import os\nos.write(3, b'=7\\n')\nprint('on')", "Execution failed with return code 7"),
        ("import os\nos.close(3)\nprint('on')", "STDOUT:\non\n\nExecution completed successfully."),
        (
            "import os\nos.write(3, b'=999999999999\\n')\nprint('on')\nos._exit(0)",
            "STDOUT:\non\n\nExecution completed successfully.",
        ),
        (
            "import os, socket\nos.set_blocking(3, False)\nprint('on')\nos.read(3, 1)",
            "BlockingIOError",
        ),
    ] {
        let text = server.execute(script).text().to_owned();
        assert!(text.contains(expected) || script.contains("'=7"), "{script}\n{text}");
        assert_eq!(
            server.execute("print(2)").text(),
            "STDOUT:\n2\n\nExecution completed successfully."
        );
    }
    server.finish();
}

fn limits_hold_and_the_next_call_is_warm_and_clean() {
    let server = |timeout_ms: &str| {
        let server = ServerBuilder::new().unchecked().variable(SYNC_TIMEOUT, timeout_ms);
        let mut server = server.variable("QWED_MCP_MEMORY_MB", "256").warm("json").connect();
        server.wait_until_warm();
        server
    };
    let hold = |mut server: McpProcess, scripts: &[(&str, &str)]| {
        for (script, expected) in scripts {
            let result = server.execute(script);
            assert!(result.texts.join("\n").contains(expected), "{script}\n{:?}", result.texts);
            assert_eq!(result.execution()["warm"], true, "{script}");
            let next = server.execute("import os\nprint(os.listdir(), os.getpid())");
            let clean = "STDOUT:\n[] 2\n\nExecution completed successfully.";
            assert_eq!(next.text(), clean, "{script}");
        }
        let is_at_rest = || descendants(server.pid()).len() == AT_REST;
        assert!(eventually(Duration::from_secs(5), is_at_rest).is_some());
        server.finish();
    };
    hold(server("2000"), &[("while True:\n    pass", "Execution timed out after 2.0 seconds.")]);
    let others = [
        ("print('x' * 3_000_000)", "OUTPUT TRUNCATED"),
        (
            "b = [bytearray(1 << 24) for _ in range(40)]\nimport time\ntime.sleep(2)",
            "The memory limit",
        ),
        ("bytearray(1 << 34)", "MemoryError"),
        ("import os\nwhile True:\n    os.fork()", "BlockingIOError"),
        ("f = open('f', 'wb')\nwhile True:\n    f.write(bytes(1 << 20))", "OSError"),
        ("import os\nfor n in range(10000):\n    open(str(n), 'w').close()", "No space left"),
        ("import os, signal\nos.kill(-1, signal.SIGKILL)", "return code"),
    ];
    hold(server("30000"), &others);
}

fn a_fork_server_that_dies_is_replaced_and_no_call_is_lost() {
    let mut server = warm("json");
    for round in 0..6 {
        let id = server.start_execute("import time\ntime.sleep(0.4)\nprint('done')");
        std::thread::sleep(Duration::from_millis(100));
        // The first four descendants are the supervisor, its init process, the fork server's first process, and the
        // fork server.
        let processes = descendants(server.pid());
        kill(processes[round % processes.len().min(4)]);
        let reply = server.reply(id);
        let text = reply["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(text, "STDOUT:\ndone\n\nExecution completed successfully.", "{round}");
        server.wait_until_warm();
    }
    let is_at_rest = || descendants(server.pid()).len() == AT_REST;
    assert!(
        eventually(Duration::from_secs(5), is_at_rest).is_some(),
        "{:?}",
        descendants(server.pid())
    );
    server.finish();
}

fn kill(pid: u32) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
    let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
}

fn more_readable_folders_than_a_script_may_open_files_leave_it_warm() {
    let folder = tempfile::tempdir().unwrap();
    let folders = (0..300).map(|number| folder.path().join(format!("folder{number}")));
    let folders: Vec<_> = folders.inspect(|path| fs::create_dir(path).unwrap()).collect();
    let paths = std::env::join_paths(&folders).unwrap().into_string().unwrap();
    let mut server = builder().variable("QWED_MCP_READ_PATHS", &paths).warm("json").connect();
    server.wait_until_warm();
    let code = format!(
        "import os, resource\nprint(os.listdir('{}'), resource.getrlimit(resource.RLIMIT_NOFILE))\n\
         try:\n for number in range(300): os.open('/dev/null', 0)\nexcept OSError as error: print(error)",
        folders[299].display()
    );
    let reply = server.execute(&code);
    assert_eq!(reply.execution()["warm"], true);
    let printed = "[] (256, 256)\n[Errno 24] Too many open files: '/dev/null'";
    assert!(reply.text().contains(printed), "{}", reply.text());
    server.finish();
}

fn a_module_that_starts_a_thread_or_fails_leaves_scripts_cold_or_warm_but_right() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "threaded.py",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
    );
    write("failing.py", "1 / 0");
    write("exiting.py", "raise SystemExit(3)");
    let path = folder.path().to_str().unwrap();
    for (modules, is_warm) in
        [("threaded", false), ("failing,json", true), ("missing,json", true), ("exiting", false)]
    {
        let mut server = builder().variable("PYTHONPATH", path).warm(modules).connect();
        if is_warm {
            server.wait_until_warm();
        } else {
            std::thread::sleep(Duration::from_millis(600));
        }
        let result = server.execute("print(1)");
        assert_eq!(result.text(), "STDOUT:\n1\n\nExecution completed successfully.", "{modules}");
        assert_eq!(result.execution()["warm"], is_warm, "{modules}");
        server.finish();
    }
}

/// Some packages change global settings when they are imported. Scripts that do not import these packages must not be
/// affected.
fn numbers_are_computed_as_in_a_new_interpreter() {
    let (mut cold, mut warm) =
        (cold(), warm("decimal,sympy,qwed_legal,qwed_finance,qwed_tax,qwed_ucp,qwed_new"));
    let mut wrong = Vec::new();
    for script in [
        "from decimal import *\nprint(Decimal(1) / 3, getcontext())",
        "import mpmath\nprint(mpmath.mpf(1) / 3, mpmath.mp)",
        "import sympy\nx = sympy.Symbol('x')\nprint(sympy.nsolve(x ** 2 - 2, 1), sympy.N(sympy.pi))",
        "import qwed_finance\nfrom decimal import *\nprint(Decimal(1) / 3)",
        "from qwed_finance import FinanceVerifier\nimport mpmath\nprint(mpmath.mpf(1) / 3)",
    ] {
        compare(&mut cold, &mut warm, script, script, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    cold.finish();
    warm.finish();
}

/// Tries to reach the machine through every open file descriptor, and to reach one other process.
const HOSTILE_MODULE: &str = r#"
import os, signal, socket
found = []
def attempt(name, function):
    try:
        function()
        found.append(name)
    except Exception:
        pass
server = @SERVER@
for number in range(3, 2000):
    try:
        os.fstat(number)
    except OSError:
        continue
    for up in ("..", "../..", "self/../..", "thread-self/../../.."):
        attempt("list %d %s" % (number, up), lambda: os.open(up + "/etc", os.O_RDONLY, dir_fd=number))
    for name in ("environ", "root/etc", "cwd", "mem", "maps", "fd/0"):
        for pid in (1, server):
            attempt("open %s of %d" % (name, pid), lambda: os.open("%d/%s" % (pid, name), os.O_RDONLY, dir_fd=number))
    def leave():
        os.fchdir(number)
        os.chdir("..")
        os.stat("etc")
    attempt("leave", leave)
    os.chdir("/")
attempt("network", lambda: socket.create_connection(("127.0.0.1", 22), 1))
attempt("signal", lambda: os.kill(server, 0))
"#;

/// The fork server loads a module that tries to reach the machine. The server runs as an ordinary user. The module then
/// runs as the same user, so file permissions do not protect the server's files.
fn a_hostile_module_that_is_loaded_finds_no_way_to_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    fs::write(
        folder.path().join("ask.py"),
        "import os
print(os.getppid())",
    )
    .unwrap();
    let user = ordinary_user(24_604);
    let builder = || {
        let builder = builder()
            .variable("PYTHONPATH", folder.path().to_str().unwrap())
            .variable("QWED_MCP_PYTHON", public_python().unwrap().to_str().unwrap());
        match user {
            Some(user) => builder.with_user(user),
            None => builder,
        }
    };
    // The module tries to reach another process of the same user, so it needs a PID.
    let other = builder().warm("json").connect();
    let hostile = HOSTILE_MODULE.replace("@SERVER@", &other.pid().to_string());
    fs::write(folder.path().join("hostile.py"), &hostile).unwrap();
    let mut server = builder().warm("hostile").connect();
    server.wait_until_warm();
    let told = server.execute(
        "import sys
print(sys.modules['hostile'].found)",
    );
    assert_eq!(
        told.text(),
        "STDOUT:
[]

Execution completed successfully."
    );
    server.finish();
    // The positive control: outside of the sandbox, the module reaches the machine through /proc.
    let open = format!(
        "import os
os.open('/proc', os.O_RDONLY)
{hostile}
print(found)"
    );
    let output =
        std::process::Command::new(public_python().unwrap()).args(["-c", &open]).output().unwrap();
    let found = String::from_utf8(output.stdout).unwrap();
    // The number of the file descriptor depends on the descriptors that this process has inherited.
    assert!(found.contains("list ") && found.contains(" ..'"), "{found}");
    assert!(found.contains("environ of"), "{found}");
    other.finish();
}

fn children_that_fail_to_start_do_not_delay_calls() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let code = "import os
os.register_at_fork(after_in_child=lambda: os._exit(1))";
    fs::write(folder.path().join("ending.py"), code).unwrap();
    let path = folder.path().to_str().unwrap();
    let mut server = builder().variable("PYTHONPATH", path).warm("ending").connect();
    // Measures a server with cold runs at the same time, so that other processes delay both servers equally.
    let mut cold = cold();
    let mut took = [Duration::ZERO; 2];
    for _ in 0..30 {
        for (server, took) in [&mut server, &mut cold].into_iter().zip(&mut took) {
            let started = Instant::now();
            let result = server.execute("print(1)");
            *took += started.elapsed();
            assert_eq!(result.text(), "STDOUT:\n1\n\nExecution completed successfully.");
        }
    }
    // The ten seconds allow one call to wait for a fork that ended.
    assert!(took[0] < took[1] * 5 + Duration::from_secs(10), "{took:?}");
    server.finish();
    cold.finish();
}

fn installed_packages_are_seen_by_the_next_call() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    fs::write(folder.path().join("rates.py"), "VALUE = 1").unwrap();
    let path = folder.path().to_str().unwrap();
    let mut server = builder().variable("PYTHONPATH", path).warm("rates").connect();
    server.wait_until_warm();
    let ask = "import rates\nprint(rates.VALUE)";
    assert!(server.execute(ask).text().contains("\n1\n"));
    // Like an installer, replace the old file by a new one.
    fs::write(folder.path().join("new"), "VALUE = 2").unwrap();
    fs::rename(folder.path().join("new"), folder.path().join("rates.py")).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    assert!(server.execute(ask).text().contains("\n2\n"));
    server.wait_until_warm();
    assert!(server.execute(ask).text().contains("\n2\n"));
    server.finish();
}

fn an_idle_server_lets_the_fork_server_go_and_gets_it_back() {
    let mut server = builder().variable("QWED_MCP_WARM_IDLE_SECONDS", "1").warm("json").connect();
    server.wait_until_warm();
    let is_alone = || descendants(server.pid()).is_empty();
    assert!(
        eventually(Duration::from_secs(6), is_alone).is_some(),
        "{:?}",
        descendants(server.pid())
    );
    assert_eq!(server.execute("print(1)").execution()["warm"], false);
    server.wait_until_warm();
    server.finish();
}

fn warm_interpreters_end_with_the_server_whatever_ends_it() {
    for signal in ["", "TERM", "KILL"] {
        let mut server = warm("json");
        server.start_execute("import time\ntime.sleep(60)");
        std::thread::sleep(Duration::from_millis(50));
        if signal.is_empty() {
            server.close_input();
        } else {
            server.signal(signal);
        }
        server.wait_for_exit(Duration::from_secs(10));
        let marker = server.scratch.path().to_owned();
        let is_gone = || alive_with_marker(&marker).is_empty();
        assert!(eventually(Duration::from_secs(5), is_gone).is_some(), "{signal}");
    }
}

fn without_the_top_tier_or_when_it_is_switched_off_scripts_stay_cold() {
    for (name, value) in [
        ("QWED_MCP_TEST_KERNEL_LACKS", "namespaces"),
        ("QWED_MCP_SANDBOX", "off"),
        ("QWED_MCP_WARM", "off"),
    ] {
        let python = public_python().unwrap();
        let mut server = builder()
            .warm("json")
            .variable("QWED_MCP_PYTHON", python.to_str().unwrap())
            .variable(name, value)
            .connect();
        std::thread::sleep(Duration::from_millis(500));
        let result = server.execute("print(1)");
        assert_eq!(result.execution()["warm"], Value::Bool(false), "{name}");
        assert_eq!(descendants(server.pid()), [0; 0], "{name}");
        server.finish();
    }
}

fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().count()
}

fn one_thread_watches_all_runs() {
    const RUNS: usize = 8;
    let mut server = builder()
        .variable("QWED_MCP_SYNC_CONCURRENCY", "9")
        .variable("QWED_MCP_MEMORY_MB", "256")
        .warm("json")
        .connect();
    server.wait_until_warm();
    let before = threads(server.pid());
    let memory = "import time\nx = bytearray(1 << 20)\nprint('began', flush=True)\ntime.sleep(600)";
    let ids: Vec<_> = (0..RUNS).map(|_| server.start_execute(memory)).collect();
    let run = || descendants(server.pid()).len() >= AT_REST + RUNS;
    assert!(eventually(Duration::from_secs(60), run).is_some());
    // The server enforces the memory limit of this last run too, without a thread for each run.
    let greedy = server.execute("x = bytearray(300 << 20)\nimport time\ntime.sleep(600)");
    assert!(greedy.text().contains("The memory limit"), "{:?}", greedy.texts);
    let now = threads(server.pid());
    assert!(now < before + RUNS, "{now} threads instead of {before}");
    for id in ids {
        server.cancel(id);
    }
    server.finish();
}

fn a_run_that_others_keep_from_the_processors_says_so() {
    let mut server =
        ServerBuilder::new().unchecked().variable(SYNC_TIMEOUT, "4000").warm("json").connect();
    server.wait_until_warm();
    let _busy = BusyProcessors::start();
    for (script, starved) in [
        ("while True: pass", Value::Bool(true)),
        // The two processes of this run delay each other. Processes outside of the run delay them too, so the run
        // counts as starved.
        ("import os\nos.fork()\nwhile True: pass", Value::Bool(true)),
        ("import time\ntime.sleep(600)", Value::Null),
        ("print(1)", Value::Null),
    ] {
        let result = server.execute(script);
        assert_eq!(result.execution()["timed_out"], !script.contains("print"), "{script}");
        assert_eq!(result.execution()["starved"], starved, "{script}");
    }
    server.finish();
}

fn four_thousand_calls_each_get_their_own_result() {
    let mut server = ServerBuilder::new()
        .unchecked()
        .variable("QWED_MCP_SYNC_CONCURRENCY", "2")
        .warm("json")
        .connect();
    server.wait_until_warm();
    let mut settled = None;
    for call in 0..2_000 {
        if call == 500 {
            settled = Some((open_descriptors(server.pid()), resident_kibibytes(server.pid())));
        }
        let ids = [0, 1].map(|part| {
            (server.start_execute(&format!("print({call}, {part})")), format!("{call} {part}"))
        });
        for (id, printed) in ids {
            let reply = server.reply(id);
            let text = reply["result"]["content"][0]["text"].as_str().unwrap();
            assert_eq!(text, format!("STDOUT:\n{printed}\n\nExecution completed successfully."));
        }
    }
    let (descriptors, kibibytes) = settled.unwrap();
    let is_at_rest = || {
        descendants(server.pid()).len() == AT_REST
            && open_descriptors(server.pid()).abs_diff(descriptors) <= 12
    };
    assert!(
        eventually(Duration::from_secs(5), is_at_rest).is_some(),
        "{} processes, {} descriptors instead of {descriptors}",
        descendants(server.pid()).len(),
        open_descriptors(server.pid())
    );
    let grown = resident_kibibytes(server.pid()).saturating_sub(kibibytes);
    assert!(grown < 8 * 1024, "memory grew by {grown} KiB over {kibibytes}");
    server.finish();
}

fn two_thousand_calls_with_faults_get_their_own_results() {
    let mut server = ServerBuilder::new()
        .unchecked()
        .variable("QWED_MCP_SYNC_CONCURRENCY", "3")
        .variable(SYNC_TIMEOUT, "60000")
        .warm("json")
        .connect();
    server.wait_until_warm();
    for call in 0..2_000_usize {
        match call % 100 {
            // The fork server, or one of its processes, is killed while a script runs.
            17 | 67 => {
                let id =
                    server.start_execute(&format!("import time\ntime.sleep(0.05)\nprint({call})"));
                let processes = descendants(server.pid());
                if let Some(pid) = processes.get(call / 50 % processes.len().max(1)) {
                    kill(*pid);
                }
                let reply = server.reply(id);
                let text = reply["result"]["content"][0]["text"].as_str().unwrap_or_default();
                assert!(
                    text.contains(&format!("STDOUT:\n{call}\n"))
                        || text.contains("return code -9")
                        || text.contains("killed from outside"),
                    "{text}"
                );
            }
            23 => {
                let result =
                    server.execute("f = open('f', 'wb')\nwhile True:\n    f.write(bytes(1 << 20))");
                assert!(result.text().contains("OSError"), "{:?}", result.texts);
            }
            31 => {
                let result = server.execute("while True:\n    print('x' * 10000)");
                assert!(result.text().contains("OUTPUT TRUNCATED"), "{:?}", result.texts);
            }
            40..45 => {
                let ids: Vec<_> =
                    (0..4).map(|_| server.start_execute("import time\ntime.sleep(1)")).collect();
                for id in ids {
                    server.cancel(id);
                }
            }
            _ => {
                let result = server.execute(&format!("print({call})"));
                let expected = format!("STDOUT:\n{call}\n\nExecution completed successfully.");
                assert_eq!(result.text(), expected);
            }
        }
    }
    server.wait_until_warm();
    assert_at_rest(&server);
    server.finish();
}

/// A fork server that has reached its maximum number of runs continues until its successor is ready.
fn a_worn_fork_server_hands_over_without_a_cold_run() {
    let mut server =
        builder().variable("QWED_MCP_TEST_FORK_SERVER_RUNS", "60").warm("json").connect();
    server.wait_until_warm();
    let supervisor = |server: &McpProcess| descendants(server.pid()).first().copied();
    let first = supervisor(&server);
    let mut successors = std::collections::BTreeSet::new();
    let begun = Instant::now();
    // Pause after each call, so that an old fork server does not reach its maximum number of runs before its successor
    // is ready.
    let mut calls = 0;
    while successors.len() < 3 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{successors:?}");
        let result = server.execute(&format!("print({calls})"));
        assert_eq!(result.text(), format!("STDOUT:\n{calls}\n\nExecution completed successfully."));
        assert_eq!(result.execution()["warm"], true, "{calls}");
        calls += 1;
        std::thread::sleep(Duration::from_millis(10));
        successors.extend(supervisor(&server).filter(|pid| Some(*pid) != first));
    }
    assert_at_rest(&server);
    server.finish();
}

/// A script without heavy imports runs in a warm interpreter without heavy modules. A second fork server loads the
/// heavy modules. Until it is ready, scripts import these modules themselves.
fn scripts_with_light_imports_have_an_interpreter_of_their_own() {
    let warm = |builder: ServerBuilder| {
        builder.without("QWED_MCP_PRELOAD").variable("QWED_MCP_WARM", "on").connect()
    };
    let mut server = warm(ServerBuilder::new());
    server.wait_until_warm();
    // Loading the module takes some tenths of a second of processor time. Importing a loaded module takes almost
    // none.
    let heavy = "import time\nbegan = time.process_time()\nimport sympy\n\
                 print(time.process_time() - began < 0.05, sympy.prime(4))";
    let server = std::cell::RefCell::new(server);
    let is_loaded = || {
        let result = server.borrow_mut().execute(heavy);
        assert_eq!(result.execution()["warm"], true);
        let told = result.text();
        assert!(told.contains("\nFalse 7\n") || told.contains("\nTrue 7\n"), "{told}");
        told.contains("True")
    };
    assert!(eventually(Duration::from_secs(60), is_loaded).is_some());
    server.into_inner().finish();

    // Without the analysis, the server does not know the imports of a script.
    let mut server = warm(builder());
    server.wait_until_warm();
    let hidden = "import sys\nprint('numpy' in sys.modules, 'json' in sys.modules)\n\
                  import numpy, sympy\nprint(numpy.arange(3).sum(), sympy.prime(4))";
    let result = server.execute(hidden);
    assert_eq!(result.text(), "STDOUT:\nFalse True\n3 7\n\nExecution completed successfully.");
    assert_eq!(result.execution()["warm"], true);
    server.finish();
}

/// Loading the packages maps more than 25 MiB of their libraries. The fork server must release this memory.
fn fork_servers_keep_no_libraries_mapped() {
    let server = warm("numpy,sympy,z3");
    let mapped_kibibytes = |pid| {
        let mapped = status_of(pid, "RssFile").unwrap_or_default();
        mapped.trim_end_matches(" kB").parse().unwrap_or(0)
    };
    let most: u64 = descendants(server.pid()).into_iter().map(mapped_kibibytes).max().unwrap();
    assert!((1_000..16_000).contains(&most), "{most}");
}

/// Waits until only the processes of warm interpreters are left.
fn assert_at_rest(server: &McpProcess) {
    let is_at_rest = || descendants(server.pid()).len() == AT_REST;
    assert!(
        eventually(Duration::from_secs(10), is_at_rest).is_some(),
        "{:?}",
        descendants(server.pid())
    );
}
