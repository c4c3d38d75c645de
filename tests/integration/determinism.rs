//! Deterministic runs: two runs of a script are the same, or the receipt names the cause of a difference.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::harness::{
    Scratch, ServerBuilder, binary, can_fix_addresses, public_python, write_program,
};
use crate::receipts::{Receipts, printed, replay, run};

tests! {
    needs [Tier3]:
        addresses_that_cannot_be_fixed_are_reported,
        a_replay_shows_differences_between_replays;
    needs [Tier3, Root]:
        a_run_has_one_processor_even_if_the_server_cannot_choose_it;
    needs [Tier3, Root, FixedAddresses, Packages]:
        addresses_do_not_depend_on_pids;
    needs [Tier3, Packages]:
        deterministic_runs_are_the_same_at_tier_3,
        runs_of_a_deterministic_server_are_warm_and_the_same,
        the_clock_of_a_deterministic_run_counts_waits,
        a_deterministic_run_starts_at_the_time_that_is_set,
        a_script_that_forges_its_report_changes_no_other_run,
        folders_are_listed_as_before_in_the_order_of_names,
        native_code_of_known_packages_is_no_cause,
        each_difference_is_fixed_or_named;
    needs [Tier2, PublicPython]:
        deterministic_runs_are_the_same_at_tier_2,
        a_clock_that_cannot_be_fixed_is_reported;
}

/// A script that prints random numbers of several kinds, and memory addresses.
const DIFFERENT: &str = "
import random, sys
print(random.random(), random.Random().random(), random.Random().random(), random.gauss(0, 1))
class A: pass
print(object(), [id(a) % 65536 for a in {A() for _ in range(9)}])
random.seed()
print(random.sample(range(1000), 9))
";

/// A script that prints random numbers of `NumPy`.
const DIFFERENT_IN_NUMPY: &str = "
import numpy
print(numpy.random.random(2), numpy.random.default_rng().random(2), numpy.random.default_rng().random(2))
print(numpy.random.RandomState().random_sample(2), hash(numpy.random))
";

/// A script that prints the clocks and random bits of the machine. The script reads them in Python code and in native
/// code.
const DIFFERENT_ON_THE_MACHINE: &str = "
import datetime, os, random, secrets, sqlite3, time, uuid
print(0.0, time.time(), time.monotonic_ns(), time.perf_counter(), time.process_time(), time.thread_time_ns())
print(0.0, datetime.datetime.now(), time.strftime('%c'), time.clock_gettime(time.CLOCK_BOOTTIME), os.times())
print(0.0, uuid.uuid4(), secrets.token_hex(), random.SystemRandom().random(), os.urandom(100).hex())
print(0.0, sqlite3.connect(':memory:').execute('select random(), julianday()').fetchone())
time.sleep(0.01)
print(0.0, time.time_ns())
";

/// A script that uses `SymPy` and `Z3`. A fork server has loaded these packages before it gets the seed of a run.
const DIFFERENT_IN_SYMPY: &str = "
import random, sympy, z3, time
from sympy.core.random import rng
print(0.0, rng.random(), sympy.randMatrix(2, 2), random.random(), time.time_ns())
print(object(), id(sympy.Symbol('a')), id(z3.Int('b')), [id(object()) for _ in range(3)], id(bytes(10 ** 6)))
class A: pass
print(object(), [id(a) % 65536 for a in {A() for _ in range(99)}])
print(z3.solve(z3.Int('x') ** 2 + z3.Int('y') > 7))
";

/// Returns a script that prints addresses of objects of all sizes. It is so large that the server sends it in parts.
fn large_script() -> String {
    let text = format!("{}\n", "z".repeat(999)).repeat(700);
    format!(
        "print(id(object()), id(bytearray(10000)), id(bytearray(500000)), id([0] * 100)) # object()
class A: pass
print(id(A), [id(A()) for _ in range(2)]) # object()
y = '''{text}'''
print(id(y)) # object()\n"
    )
}

/// Removes the lines that print addresses, for machines on which addresses cannot be fixed.
fn without_addresses(code: &str) -> String {
    code.split_inclusive('\n').filter(|line| !line.contains("object()")).collect()
}

fn deterministic(prepare: impl Fn(ServerBuilder) -> ServerBuilder, code: &str) {
    let receipts = Receipts::new();
    let server = || prepare(receipts.server());
    let code = &if can_fix_addresses() { code.to_owned() } else { without_addresses(code) };
    let (first, receipt) = run(&receipts, &server(), code, &["--deterministic"]);
    let (second, _) = run(&receipts, &server(), code, &["--deterministic"]);
    assert_eq!(first, second);
    let about = &receipts.statement(&receipt)["predicate"];
    let expected =
        json!({ "fixedAddresses": can_fix_addresses(), "clock": "2026-01-01T00:00:00Z" });
    assert_eq!(about["deterministic"], expected);
    assert!(about["environment"]["variables"]["OPENBLAS_CORETYPE"].is_string(), "{about}");
    let words = about.get("mayDifferBy").cloned().unwrap_or_default().to_string();
    for word in ["random", "time", "uuid", "secrets"] {
        assert!(!words.contains(word), "{word}: {words}");
    }
    // A replay uses the settings in the receipt.
    let script = receipts.path("script.py");
    let (said, exit) = replay(&receipts, &receipt, &script, &["--times", "3"], &prepare);
    assert_eq!((&said["verdict"], exit), (&json!("identical"), Some(0)), "{said}");
    assert_eq!(said["environment"], json!([]), "{said}");
    // Another script gets other random numbers.
    let (other, _) = run(&receipts, &server(), &format!("{code}\n"), &["--deterministic"]);
    assert_ne!(first, other);
    // The control: without the option two runs differ, and the receipt does not mention determinism.
    let (first, receipt) = run(&receipts, &server(), code, &[]);
    let (second, _) = run(&receipts, &server(), code, &[]);
    let differs = |line: &str| line.contains("0.") || line.contains("<object");
    for (first, second) in first.lines().zip(second.lines()).filter(|(it, _)| differs(it)) {
        assert_ne!(first, second);
    }
    assert_ne!(first, second);
    assert_eq!(receipts.statement(&receipt)["predicate"].get("deterministic"), None);
    // A replay ignores the settings of the environment, and uses those in the receipt.
    fs::write(&script, code).unwrap();
    let on = |builder: ServerBuilder| prepare(builder).variable("QWED_MCP_DETERMINISTIC", "on");
    let (said, exit) = replay(&receipts, &receipt, &script, &[], on);
    assert_eq!((&said["verdict"], exit), (&json!("not deterministic"), Some(4)), "{said}");
}

fn deterministic_runs_are_the_same_at_tier_3() {
    let at_tier_3 = |builder: ServerBuilder| builder.variable("QWED_MCP_SANDBOX", "strict");
    deterministic(at_tier_3, DIFFERENT);
    deterministic(at_tier_3, DIFFERENT_IN_NUMPY);
    deterministic(at_tier_3, DIFFERENT_ON_THE_MACHINE);
}

fn deterministic_runs_are_the_same_at_tier_2() {
    let python = public_python().unwrap();
    let at_tier_2 = |builder: ServerBuilder| {
        let builder = builder.variable("QWED_MCP_PYTHON", python.to_str().unwrap());
        builder.variable("QWED_MCP_TEST_KERNEL_LACKS", "namespaces")
    };
    deterministic(at_tier_2, DIFFERENT);
    deterministic(at_tier_2, DIFFERENT_ON_THE_MACHINE);
}

/// Each kind of wait must end, and must advance the clock by the requested time.
fn the_clock_of_a_deterministic_run_counts_waits() {
    let code = "
import asyncio, queue, select, threading, time
def taken(wait):
    before = time.monotonic(), time.time()
    wait()
    return [round(after - start, 2) for after, start in zip((time.monotonic(), time.time()), before)]
def empty():
    try:
        queue.Queue().get(timeout=0.2)
    except queue.Empty:
        pass
def locked():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=0.2)
print(taken(lambda: time.sleep(0.2)), taken(empty), taken(locked), taken(lambda: threading.Event().wait(0.2)),
      taken(lambda: asyncio.run(asyncio.sleep(0.2))), taken(lambda: select.select([], [], [], 0.2)))
end = time.time() + 0.01
while time.time() < end: pass
import signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
# Python waits for the rest of the time after each signal.
time.sleep(0.5)
signal.setitimer(signal.ITIMER_REAL, 0)
before = time.monotonic()
while time.monotonic() - before < 0.3: signal.sigtimedwait([signal.SIGUSR1], 0.1)
before = time.monotonic()
while time.monotonic() - before < 2: sum(range(1000))
woken = []
thread = threading.Thread(target=lambda: (time.sleep(0.1), woken.append(1)))
thread.start()
thread.join(timeout=20)
print(woken, thread.is_alive())
import timeit
print(timeit.Timer('1').autorange()[0])
";
    for sandbox in ["strict", "off"] {
        // Without the sandbox, scripts could read the signing key, so the server writes no receipts.
        let server = ServerBuilder::new().variable("QWED_MCP_SANDBOX", sandbox);
        let server = server.variable("QWED_MCP_DETERMINISTIC", "on");
        let result = server.connect().execute(code);
        let waits = ["[0.2, 0.2]"; 6].join(" ");
        let expected = format!("{waits}\n[1] False\n1");
        assert!(result.text().contains(&expected), "{sandbox}: {}", result.text());
    }
}

/// The start of the clock can be set for a run or for the server. The receipt contains this time, and a replay uses the
/// same time.
fn a_deterministic_run_starts_at_the_time_that_is_set() {
    let receipts = Receipts::new();
    let code = "import datetime\nprint(datetime.datetime.now().replace(microsecond=0))";
    let at = ["--at", "2031-02-03T04:05:06+01:00"];
    let (text, receipt) = run(&receipts, &receipts.server(), code, &at);
    assert!(text.contains("2031-02-03 03:05:06"), "{text}");
    let about = &receipts.statement(&receipt)["predicate"];
    assert_eq!(about["deterministic"]["clock"], "2031-02-03T03:05:06Z");
    let script = receipts.path("script.py");
    let on = |builder: ServerBuilder| builder.variable("QWED_MCP_DETERMINISTIC", "on");
    let (said, exit) = replay(&receipts, &receipt, &script, &[], on);
    assert_eq!((&said["verdict"], exit), (&json!("identical"), Some(0)), "{said}");
    let set = |value| receipts.server().variable("QWED_MCP_DETERMINISTIC", value).connect();
    let mut server = set("2031-02-03T04:05:06Z");
    assert_eq!(printed(&server.execute(code)), "2031-02-03 04:05:06");
    let mut server = set("soon");
    assert!(!printed(&server.execute(code)).starts_with("2026-01-01"));
    assert!(server.finish().contains("neither on nor off nor a time such as"));
    for time in ["soon", "1999-12-31T23:59:59Z", "2200-01-01T00:00:00Z"] {
        let output = receipts.server().command().args(["run", "--at", time]).arg(&script).output();
        assert_eq!(output.unwrap().status.code(), Some(125), "{time}");
    }
}

fn a_clock_that_cannot_be_fixed_is_reported() {
    let receipts = Receipts::new();
    let (folder, python) = (tempfile::tempdir().unwrap(), public_python().unwrap());
    // `LD_PRELOAD` cannot contain a path with a space, so the dynamic loader does not find the library in this
    // folder.
    let place = folder.path().join("with a space");
    fs::create_dir(&place).unwrap();
    for folder in [folder.path(), &place] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let at_tier_2 = |builder: ServerBuilder| {
        let builder = builder.variable("QWED_MCP_PYTHON", python.to_str().unwrap());
        builder.variable("QWED_MCP_TEST_KERNEL_LACKS", "namespaces")
    };
    let elsewhere = at_tier_2(receipts.server()).variable("TMPDIR", place.to_str().unwrap());
    let code = "import os, random\nprint(os.urandom(8).hex())";
    let (first, receipt) = run(&receipts, &elsewhere, code, &["--deterministic"]);
    let (second, _) = run(&receipts, &elsewhere, code, &["--deterministic"]);
    assert_ne!(first, second);
    let about = &receipts.statement(&receipt)["predicate"];
    assert_eq!(about["deterministic"], json!({ "fixedAddresses": can_fix_addresses() }));
    assert!(about["mayDifferBy"].to_string().contains("secrets"), "{about}");
    let script = receipts.path("script.py");
    let mut command = elsewhere.command();
    let output = command.args(["run", "--deterministic"]).arg(script).output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("clocks and random bits differ between runs"), "{log}");
    // The control: in another folder, the same Python loads the library.
    let [first, second] = [(); 2]
        .map(|()| run(&receipts, &at_tier_2(receipts.server()), code, &["--deterministic"]).0);
    assert_eq!(first, second);
}

fn runs_of_a_deterministic_server_are_warm_and_the_same() {
    let receipts = Receipts::new();
    let connect = || {
        let builder = receipts.server().without("QWED_MCP_WARM");
        builder.variable("QWED_MCP_DETERMINISTIC", "on").connect()
    };
    let large = large_script();
    let codes =
        [DIFFERENT, DIFFERENT_IN_NUMPY, DIFFERENT_ON_THE_MACHINE, DIFFERENT_IN_SYMPY, &large];
    let codes = codes
        .map(|code| if can_fix_addresses() { code.to_owned() } else { without_addresses(code) });
    let mut results: Vec<Vec<_>> = Vec::new();
    for _server in 0..2 {
        let mut server = connect();
        for round in 0..4 {
            // The fork server may not be ready yet. The first call waits for it.
            let round_of_codes = codes.iter().map(|code| {
                let result = server.execute(code);
                assert_eq!(result.meta["qwed.ai/execution"]["warm"], true, "{round}");
                result.texts
            });
            results.push(round_of_codes.collect());
            // Other scripts, even concurrent ones, must not affect later runs.
            let others: Vec<_> = (0..6)
                .map(|n| {
                    server.start_execute(&format!(
                        "import random\nx = [{n}] * 10 ** 6\nprint(random.random())"
                    ))
                })
                .collect();
            for id in others {
                server.reply(id);
            }
        }
        // If a script sets its own seed, its random numbers are the same as in a run that is not deterministic.
        let chosen = "import random, numpy\nrandom.seed(7)\nnumpy.random.seed(7)\nprint(random.random(), numpy.random.random(), numpy.random.default_rng(7).random(), random.Random(7).random())";
        let mut plain = ServerBuilder::new().connect();
        assert_eq!(printed(&server.execute(chosen)), printed(&plain.execute(chosen)));
        // A replay uses a new interpreter, which must produce the same random numbers.
        let numbers = "import random, numpy\nprint(random.random(), numpy.random.random())";
        let mut cold = receipts.server().variable("QWED_MCP_DETERMINISTIC", "on").connect();
        assert_eq!(printed(&server.execute(numbers)), printed(&cold.execute(numbers)));
        let job = server.place(DIFFERENT);
        let of_job = server.wait_for_job(&job);
        let lines = |text: &str| text.lines().filter(|it| it.contains("0.")).collect::<String>();
        assert_eq!(lines(of_job.text()), lines(server.execute(DIFFERENT).text()));
    }
    for other in &results {
        assert_eq!(&results[0], other);
    }
}

/// Returns a program that starts the server through `command`.
fn started_through(folder: &Scratch, command: &str) -> PathBuf {
    let program = folder.path().join("server");
    let text = format!("#!/bin/sh\nexec {command} '{}' \"$@\"\n", binary().display());
    write_program(&program, &text);
    program
}

/// Without `CAP_SYS_NICE`, as in a container, root may not set the processor affinity of another user's process.
fn a_run_has_one_processor_even_if_the_server_cannot_choose_it() {
    let folder = Scratch::new();
    let program = started_through(&folder, "setpriv --bounding-set -sys_nice");
    let builder = ServerBuilder::new().warm("os").variable("QWED_MCP_DETERMINISTIC", "on");
    let mut server = builder.started_by(&program).connect();
    let result = server.execute_warm("import os\nprint(len(os.sched_getaffinity(0)))");
    assert_eq!((&result.execution()["warm"], printed(&result)), (&json!(true), "1"));
}

/// Compares an ordinary server with a server in a new PID namespace, in which PIDs have one or two digits.
fn addresses_do_not_depend_on_pids() {
    let folder = Scratch::new();
    let with_short_pids =
        started_through(&folder, "unshare --pid --fork --kill-child --mount-proc");
    let code = "import numpy, sympy, z3
kept = [bytes(40 * n) for n in range(1, 60)]
print([id(it) for it in kept], id(sympy.Symbol('abc')))";
    let result = |program: &Path| {
        let builder = ServerBuilder::new().without("QWED_MCP_WARM").started_by(program);
        let mut server = builder.variable("QWED_MCP_DETERMINISTIC", "on").connect();
        server.execute_warm(code).text().to_owned()
    };
    assert_eq!(result(&binary()), result(&with_short_pids));
}

fn addresses_that_cannot_be_fixed_are_reported() {
    let receipts = Receipts::new();
    let lacking = || {
        let builder = receipts.server().variable("QWED_MCP_DETERMINISTIC", "on");
        builder.variable("QWED_MCP_TEST_KERNEL_LACKS", "fixed_addresses")
    };
    let mut server = lacking().connect();
    let result = server.execute("import random\nprint(random.random())\nprint(object())");
    let again = server.execute("import random\nprint(random.random())\nprint(object())");
    let log = server.finish();
    assert!(log.contains("memory addresses differ between runs"), "{log}");
    // The random numbers are still the same.
    assert_eq!(printed(&result), printed(&again));
    assert_ne!(result.text(), again.text());
    let receipt = receipts.file_of(&result);
    let about = &receipts.statement(&receipt)["predicate"];
    assert_eq!(about["deterministic"]["fixedAddresses"], false);
    if can_fix_addresses() {
        // This machine can fix addresses, so a replay here reports a different environment.
        let script = receipts.path("script.py");
        fs::write(&script, "import random\nprint(random.random())\nprint(object())").unwrap();
        let (said, exit) = replay(&receipts, &receipt, &script, &[], |builder| builder);
        assert_eq!(exit, Some(1), "{said}");
        let told = said["environment"].as_array().unwrap().last();
        assert_eq!(told, Some(&json!("addresses: random → the same each time")), "{said}");
    }
}

/// Scripts with output that differs between ordinary runs, for every known cause of a difference. Lines of three
/// hyphens separate the scripts.
const SCRIPTS: &str = include_str!("determinism/scripts.txt");

/// Two deterministic runs have the same output, or the receipt names a cause of the difference. This holds for warm and
/// new interpreters. The control shows that the output of most of these scripts differs without the option.
fn each_difference_is_fixed_or_named() {
    let receipts = Receipts::new();
    let server = || receipts.server().variable("QWED_MCP_SANDBOX", "strict");
    let scripts: Vec<&str> = SCRIPTS.split("\n---\n").collect();
    // In a new interpreter, each import of a large package takes a second.
    let is_small = |code: &&str| {
        !["pandas", "matplotlib", "sympy", "scipy", "z3"].iter().any(|name| code.contains(name))
    };
    let small: Vec<&str> = scripts.iter().copied().filter(is_small).collect();
    for (warm, scripts) in [("off", &small), ("on", &scripts)] {
        let on =
            || server().variable("QWED_MCP_DETERMINISTIC", "on").variable("QWED_MCP_WARM", warm);
        // The analysis refuses some of these scripts. The server `unchecked` runs only the refused scripts.
        let (mut unchecked, mut analysed) = (on().unchecked().connect(), on().connect());
        let (mut fixed, mut named) = (0, Vec::new());
        for code in scripts {
            let mut first = analysed.execute(code);
            let is_refused = first.texts[0].starts_with("BLOCKED");
            let words = if is_refused {
                first = unchecked.execute(code);
                json!(null)
            } else {
                let statement = receipts.statement(&receipts.file_of(&first));
                statement["predicate"]["mayDifferBy"].clone()
            };
            let second = if is_refused { &mut unchecked } else { &mut analysed }.execute(code);
            if first.text() == second.text() {
                fixed += 1;
            } else {
                assert_ne!(words, json!([]), "{code}: {} {}", first.text(), second.text());
                named.push(code);
            }
        }
        assert!(fixed >= scripts.len() - 7, "{warm}: {fixed} of {}: {named:#?}", scripts.len());
    }
    // The output of some scripts rarely differs, so only most of the scripts must show a difference.
    let mut plain = server().unchecked().variable("QWED_MCP_WARM", "off").connect();
    let differ =
        small.iter().filter(|code| plain.execute(code).text() != plain.execute(code).text());
    let differ = differ.count();
    assert!(differ > small.len() / 2, "{differ} of {} differ", small.len());
}

/// The report of a replay lists the causes that the current rules find, even if the receipt lists no cause.
fn a_replay_shows_differences_between_replays() {
    let receipts = Receipts::new();
    let code = "import time\nprint('same')\nprint(time.time_ns())";
    let (_, receipt) = run(&receipts, &receipts.server(), code, &[]);
    let script = receipts.path("script.py");
    let (said, exit) = replay(&receipts, &receipt, &script, &[], |builder| builder);
    assert_eq!((&said["verdict"], exit), (&json!("not deterministic"), Some(4)), "{said}");
    let between = said["between_replays"][0].as_str().unwrap();
    assert!(between.starts_with("stdout, line 2: "), "{said}");
    assert_eq!(said["may_differ_by"], json!(["time"]));
}

/// The native code of these packages is known to cause no difference. `SciPy` registers native modules under names
/// outside of its own package, and the QWED packages load native code of other packages.
fn native_code_of_known_packages_is_no_cause() {
    let receipts = Receipts::new();
    let code = "import pandas, qwed_finance, qwed_ucp, scipy.stats, time\nprint(time.time())";
    let (_, receipt) = run(&receipts, &receipts.server(), code, &["--deterministic"]);
    assert_eq!(receipts.statement(&receipt)["predicate"]["mayDifferBy"], json!([]));
}

fn a_script_that_forges_its_report_changes_no_other_run() {
    let receipts = Receipts::new();
    let mut server = receipts.server().variable("QWED_MCP_DETERMINISTIC", "on").connect();
    let code = "import os, time\nprint(time.time(), os.urandom(4))";
    let first = server.execute(code);
    for forged in [
        "import time\ndef f(clock): raise OSError\ntime.clock_gettime_ns = f",
        "import sys\nsys.modules['x'] = 1",
        "import os, time\nos._exit(0)",
    ] {
        server.execute(forged);
    }
    let second = server.execute(code);
    assert_eq!(first.texts, second.texts);
    let about = &receipts.statement(&receipts.file_of(&second))["predicate"];
    assert_eq!(about["mayDifferBy"], json!([]));
}

/// The functions that list folders sort the names. In all other respects, they behave like the originals, for example
/// as attributes of a class and in `os.supports_fd`.
fn folders_are_listed_as_before_in_the_order_of_names() {
    let code = "
import os, pathlib, shutil
for name in 'zyxabc':
    os.mkdir(name)
class Lists:
    listdir, scandir = os.listdir, os.scandir
print(os.listdir(), Lists().listdir('.'), [entry.name for entry in Lists().scandir('.')])
print([path.name for path in pathlib.Path('.').iterdir()], os.listdir(b'.')[0])
with os.scandir(os.open('.', os.O_RDONLY)) as entries:
    print(next(entries).name)
print(os.listdir in os.supports_fd, os.scandir in os.supports_fd, shutil.rmtree.avoids_symlink_attacks)
shutil.rmtree('z')
import stat
print(stat.S_ISCHR(os.fstat(os.open('/dev/urandom', os.O_PATH)).st_mode))
print(next(os.walk('.'))[1], len(open('/dev/urandom', 'rb').read(100_000)))
";
    let server = ServerBuilder::new().unchecked().variable("QWED_MCP_DETERMINISTIC", "on");
    let result = server.connect().execute(code);
    let names = "['a', 'b', 'c', 'x', 'y', 'z']";
    let expected = format!(
        "{names} {names} {names}\n{names} b'a'\na\nTrue True True\nTrue\n['a', 'b', 'c', 'x', 'y'] 100000"
    );
    assert!(result.text().contains(&expected), "{}", result.text());
}
