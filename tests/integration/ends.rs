//! Tests how a run ends, at every tier and for every cause. Some scripts start processes that try to outlive the run.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::harness::{
    McpProcess, ServerBuilder, alive_with_marker, deadline, descendants, eventually, ordinary_user,
    public_python, succeeds_once,
};

tests! {
    needs [Tier2, Tier3, PublicPython]:
        a_bomb_that_goes_on_forking_ends_with_its_time,
        a_bomb_that_goes_on_forking_ends_with_its_cancellation,
        a_bomb_that_goes_on_forking_ends_with_its_client,
        a_bomb_that_goes_on_forking_ends_with_its_server,
        a_run_ends_with_its_supervisor,
        a_supervisor_that_is_stopped_is_let_go_on;
    needs [Tier2, PublicPython]:
        a_folder_with_many_others_is_removed_to_the_end,
        what_a_killed_server_left_is_removed_by_the_next_one,
        one_call_leaves_the_server_what_it_was,
        a_script_is_one_process_where_it_has_no_process_numbers;
    needs [Tier3, PublicPython]:
        the_server_answers_while_processes_share_much_memory,
        runs_have_no_huge_pages_and_are_ended_first;
}

/// A UID that no other test uses for servers. At some tiers, the limit on processes applies to all processes of a user
/// together.
const USER: u32 = 24_610;

/// The kinds of containment. Each has a name and the variables that select it.
const CONTAINMENTS: [(&str, &[(&str, &str)]); 6] = [
    ("T3", &[("QWED_MCP_SANDBOX", "strict")]),
    ("warm", &[("QWED_MCP_SANDBOX", "strict")]),
    ("T2", &[("QWED_MCP_TEST_KERNEL_LACKS", "namespaces")]),
    (
        "T1",
        &[("QWED_MCP_TEST_KERNEL_LACKS", "namespaces,landlock"), ("QWED_MCP_SANDBOX", "degraded")],
    ),
    ("off", &[("QWED_MCP_SANDBOX", "off")]),
    // Without Landlock, the kernel cannot restrict the signals of a run.
    ("old off", &[("QWED_MCP_SANDBOX", "off"), ("QWED_MCP_TEST_KERNEL_LACKS", "landlock")]),
];

/// A fork bomb. The bomb and its children fork as long as the kernel allows more processes. A process that may not fork
/// starts threads that do not end. An alarm ends each process after 90 seconds if nothing else does.
const BOMB: &str = "
import os, resource, signal, threading, time
signal.alarm(90)
def own_threads(pid):
    try:
        return len(os.listdir('/proc/%s/task' % pid)) * (os.stat('/proc/' + pid).st_uid == os.getuid())
    except OSError:
        return 0
try:
    # 60 more than its user has, where others of that user can be seen.
    most = 60 + sum(own_threads(pid) for pid in os.listdir('/proc') if pid.isdigit())
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
except (OSError, ValueError):
    pass
print('began', flush=True)
try:
    if os.fork() == 0:
        os.setsid()
except PermissionError:
    for _ in range(20):
        threading.Thread(target=time.sleep, args=(90,)).start()
while True:
    try:
        if os.fork() == 0:
            signal.alarm(90)
    except OSError:
        pass
";

fn builder(name: &str) -> ServerBuilder {
    let (_, variables) = CONTAINMENTS.iter().find(|(known, _)| *known == name).unwrap();
    let mut builder = ServerBuilder::new()
        .unchecked()
        .variable("QWED_MCP_PYTHON", public_python().unwrap().to_str().unwrap());
    for (variable, value) in *variables {
        builder = builder.variable(variable, value);
    }
    if name == "warm" {
        builder = builder.warm("json");
    }
    // At every tier, the kernel limits the processes of an ordinary user, but not of root.
    match ordinary_user(USER) {
        Some(user) => builder.with_user(user),
        None => builder,
    }
}

/// Starts a server and runs a script. Returns the server, and the number of script processes of an idle server.
fn server(builder: ServerBuilder, name: &str) -> (McpProcess, usize) {
    let mut server = builder.connect();
    if name == "warm" {
        server.wait_until_warm();
    }
    let expected = "STDOUT:\n42\n\nExecution completed successfully.";
    assert_eq!(server.execute("print(6 * 7)").text(), expected, "{name}");
    let at_rest = || alive_with_marker(server.scratch.path()).len();
    let most = Duration::from_secs(10);
    let wanted = if name == "warm" { crate::harness::FORK_SERVER_PROCESSES } else { 0 };
    assert!(eventually(most, || at_rest() == wanted).is_some(), "{name}: {}", at_rest());
    (server, wanted)
}

/// Lets only one bomb run at a time, because the kernel counts the processes of all bombs together.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the bomb and waits until its processes run. This is the control, because it shows that the bomb works.
fn start_bomb(server: &mut McpProcess, name: &str, at_rest: usize) -> i64 {
    let id = server.start_execute(BOMB);
    let scratch = server.scratch.path().to_owned();
    let wanted = at_rest + if is_one_process(name) { 1 } else { 12 };
    let is_there = || alive_with_marker(&scratch).len() >= wanted;
    assert!(eventually(Duration::from_secs(10), is_there).is_some(), "{name}: no bomb");
    id
}

fn is_one_process(name: &str) -> bool {
    ["T2", "T1"].contains(&name)
}

/// Asserts that all processes of the run have ended within one second.
fn assert_ended(scratch: &Path, at_rest: usize, name: &str) {
    let left = || alive_with_marker(scratch).len();
    assert!(
        eventually(Duration::from_secs(1), || left() <= at_rest).is_some(),
        "{name}: {} of {at_rest}",
        left()
    );
}

fn assert_usable(server: &mut McpProcess, name: &str) {
    let next = server.execute("print(6 * 7)");
    assert_eq!(next.text(), "STDOUT:\n42\n\nExecution completed successfully.", "{name}");
}

fn a_bomb_that_goes_on_forking_ends_with_its_time() {
    let _alone = alone();
    for (name, _) in CONTAINMENTS {
        let builder = builder(name).variable("QWED_MCP_TEST_SYNC_TIMEOUT_MS", "4000");
        let (mut server, at_rest) = server(builder, name);
        let id = start_bomb(&mut server, name, at_rest);
        let reply = server.reply(id);
        let scratch = server.scratch.path().to_owned();
        if name != "warm" {
            // The server replies only after the processes have ended.
            assert_eq!(alive_with_marker(&scratch).len(), 0, "{name}");
        }
        assert_ended(&scratch, at_rest, name);
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(text, "Execution timed out after 4.0 seconds.", "{name}");
        assert_usable(&mut server, name);
        server.finish();
    }
}

fn a_bomb_that_goes_on_forking_ends_with_its_cancellation() {
    let _alone = alone();
    for (name, _) in CONTAINMENTS {
        let (mut server, at_rest) = server(builder(name), name);
        let id = start_bomb(&mut server, name, at_rest);
        server.cancel(id);
        assert_ended(server.scratch.path(), at_rest, name);
        assert_usable(&mut server, name);
        let is_empty = || server.scratch.entries().is_empty();
        assert!(eventually(Duration::from_secs(60), is_empty).is_some(), "{name}");
        server.finish();
    }
}

fn a_bomb_that_goes_on_forking_ends_with_its_client() {
    let _alone = alone();
    for (name, _) in CONTAINMENTS {
        let (mut server, at_rest) = server(builder(name), name);
        start_bomb(&mut server, name, at_rest);
        server.close_input();
        assert_eq!(server.wait_for_exit(Duration::from_secs(5)).code(), Some(0), "{name}");
        assert_nothing_left(&server, name);
    }
}

fn a_bomb_that_goes_on_forking_ends_with_its_server() {
    let _alone = alone();
    for (name, _) in CONTAINMENTS {
        let (mut server, at_rest) = server(builder(name), name);
        start_bomb(&mut server, name, at_rest);
        server.signal("KILL");
        server.wait_for_exit(Duration::from_secs(5));
        assert_nothing_left(&server, name);
    }
}

fn assert_nothing_left(server: &McpProcess, name: &str) {
    let scratch = server.scratch.path();
    assert_ended(scratch, 0, name);
    let is_empty = || server.scratch.entries().is_empty();
    let entries = server.scratch.entries();
    assert!(eventually(Duration::from_secs(60), is_empty).is_some(), "{name}: {entries:?}");
}

fn signal_supervisors(server: &McpProcess, signal: Signal) {
    for pid in descendants(server.pid()) {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&command).contains("__supervise") {
            kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
        }
    }
}

fn a_run_ends_with_its_supervisor() {
    // Without a sandbox, the server finds detached processes one by one.
    for name in ["T3", "T2", "T1", "off"] {
        let (mut server, _) = server(builder(name), name);
        let id = server.start_execute("import time\nprint('began', flush=True)\ntime.sleep(90)");
        let scratch = server.scratch.path().to_owned();
        let runs = || alive_with_marker(&scratch).len() == 1;
        assert!(eventually(Duration::from_secs(10), runs).is_some(), "{name}");
        signal_supervisors(&server, Signal::SIGKILL);
        let reply = server.reply(id);
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("was killed from outside"), "{name}: {text}");
        assert_ended(&scratch, 0, name);
        assert_usable(&mut server, name);
        let is_empty = || server.scratch.entries().is_empty();
        assert!(eventually(Duration::from_secs(60), is_empty).is_some(), "{name}");
        server.finish();
    }
}

fn a_supervisor_that_is_stopped_is_let_go_on() {
    for name in ["T3", "T2", "off"] {
        let builder = builder(name).variable("QWED_MCP_TEST_SYNC_TIMEOUT_MS", "2000");
        let (mut server, _) = server(builder, name);
        let id = server.start_execute("import time\ntime.sleep(90)");
        let scratch = server.scratch.path().to_owned();
        let runs = || alive_with_marker(&scratch).len() == 1;
        assert!(eventually(Duration::from_secs(10), runs).is_some(), "{name}");
        signal_supervisors(&server, Signal::SIGSTOP);
        let reply = server.reply(id);
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(text, "Execution timed out after 2.0 seconds.", "{name}");
        assert_ended(&scratch, 0, name);
        server.finish();
    }
}

fn a_folder_with_many_others_is_removed_to_the_end() {
    for name in ["T2", "off"] {
        let (mut server, _) = server(builder(name), name);
        let code = "
import os
for number in range(60000):
    os.mkdir(str(number))
print('made')
";
        let result = server.execute(code);
        let expected = "STDOUT:\nmade\n\nExecution completed successfully.";
        let is_timeout = result.texts[0].starts_with("Execution timed out");
        assert!(is_timeout || result.texts == [expected], "{name}: {:?}", result.texts);
        // The server runs other scripts while it removes the scratch folder of this run.
        assert_usable(&mut server, name);
        let is_empty = || server.scratch.entries().is_empty();
        assert!(eventually(Duration::from_secs(60), is_empty).is_some(), "{name}");
        let log = server.finish();
        assert!(!log.contains("ERROR"), "{name}: {log}");
    }
}

fn what_a_killed_server_left_is_removed_by_the_next_one() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join(format!("qwed-mcp-{}", "a".repeat(32)));
    fs::create_dir_all(folder.join("deep/er")).unwrap();
    let canary = place.path().join(format!("qwed-mcp-canary-{}", "b".repeat(32)));
    fs::create_dir(&canary).unwrap();
    fs::create_dir(place.path().join("qwed-mcp-notes")).unwrap();
    // The lock stands for a run of another server, whose folder must not be removed.
    let locked = place.path().join(format!("qwed-mcp-{}", "c".repeat(32)));
    fs::create_dir(&locked).unwrap();
    let lock = fs::File::open(&locked).unwrap();
    lock.try_lock().unwrap();
    let script = place.path().join("script.py");
    fs::write(&script, "print(1)").unwrap();
    let run = ServerBuilder::new()
        .variable("TMPDIR", place.path().to_str().unwrap())
        .command()
        .args([OsStr::new("run"), script.as_os_str()])
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    fs::remove_file(&script).unwrap();
    let left = || {
        let mut names: Vec<_> =
            fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let expected = [locked.file_name().unwrap(), "qwed-mcp-notes".as_ref()];
    let is_swept = || left() == expected;
    assert!(eventually(Duration::from_secs(5), is_swept).is_some(), "{:?}", left());
    drop(lock);
}

fn one_call_leaves_the_server_what_it_was() {
    // At tier 2, scripts of a root server run as another user. To remove their files, the server must not switch to
    // this user.
    let name = "T2";
    let builder = ServerBuilder::new()
        .unchecked()
        .variable("QWED_MCP_PYTHON", public_python().unwrap().to_str().unwrap())
        .variable("QWED_MCP_TEST_KERNEL_LACKS", "namespaces")
        .variable("QWED_MCP_SYNC_CONCURRENCY", "4");
    let (mut server, _) = server(builder, name);
    let user = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line =
            |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        (line("Uid:"), line("Gid:"))
    };
    let before = user(server.pid());
    let code = "import os, time\nfor n in range(3000): os.makedirs(f'{n}/a')\ntime.sleep(90)";
    let ids: Vec<_> = (0..3).map(|_| server.start_execute(code)).collect();
    let scratch = server.scratch.path().to_owned();
    let run = || alive_with_marker(&scratch).len() == 3;
    assert!(eventually(Duration::from_secs(10), run).is_some());
    signal_supervisors(&server, Signal::SIGKILL);
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(1) {
        assert_eq!(user(server.pid()), before);
    }
    for id in ids {
        server.reply(id);
    }
    assert_usable(&mut server, name);
    let is_empty = || server.scratch.entries().is_empty();
    assert!(eventually(Duration::from_secs(60), is_empty).is_some());
    server.finish();
}

fn a_script_is_one_process_where_it_has_no_process_numbers() {
    let code = "
import ctypes, os, threading
def tell(name, function):
    try:
        function()
        print(name, 'works')
    except OSError as error:
        print(name, error.errno)
libc = ctypes.CDLL(None, use_errno=True)
def called(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), '')
tell('fork', os.fork)
tell('vfork', lambda: called(58))
tell('clone', lambda: called(56, 17, 0, 0, 0, 0))
tell('clone with memory', lambda: called(56, 0x100 | 17, 0, 0, 0, 0))
tell('clone3', lambda: called(435, 0, 0))
tell('spawn', lambda: os.posix_spawn('/bin/true', ['true'], {}))
found = []
threads = [threading.Thread(target=found.append, args=(n,)) for n in range(20)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(found))
";
    for name in ["T2", "T1"] {
        let (mut server, _) = server(builder(name), name);
        let expected = "STDOUT:\nfork 1\nvfork 38\nclone 1\nclone with memory 1\nclone3 38\nspawn 1\n20\n\n\
                        Execution completed successfully.";
        assert_eq!(server.execute(code).text(), expected, "{name}");
        server.finish();
    }
}

/// Many processes share much memory. The kernel needs seconds to count this memory exactly.
fn the_server_answers_while_processes_share_much_memory() {
    let code = "
import ctypes, mmap, os, time
block = mmap.mmap(-1, 120 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
libc = ctypes.CDLL(None)
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.madvise(ctypes.addressof(ctypes.c_char.from_buffer(block)), 120 << 20, 23)
for number in range(40):
    if os.fork() == 0:
        time.sleep(60)
print('shared', flush=True)
time.sleep(1)
for number in range(2):
    if os.fork() == 0:
        more = mmap.mmap(-1, 400 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        libc.madvise(ctypes.addressof(ctypes.c_char.from_buffer(more)), 400 << 20, 23)
        print('grown', flush=True)
        time.sleep(60)
time.sleep(60)
";
    for name in ["T3", "warm"] {
        let mut told = Vec::new();
        // If other programs use the processors, the server measures the memory late. So try again.
        let is_in_time = succeeds_once(|| {
            let builder = builder(name).variable("QWED_MCP_MEMORY_MB", "256");
            let (mut server, _) = server(builder, name);
            let id = server.start_execute(code);
            let mut slowest = Duration::ZERO;
            let started = Instant::now();
            let reply = loop {
                let asked = Instant::now();
                let ping = server.start_request("ping", &json!({}));
                server.reply(ping);
                slowest = slowest.max(asked.elapsed());
                if let Some(reply) = server.unclaimed_reply(id) {
                    break reply;
                }
                assert!(started.elapsed() < deadline(Duration::from_secs(60)), "{name}");
                std::thread::sleep(Duration::from_millis(10));
            };
            server.finish();
            let text = reply["result"]["content"][0]["text"].as_str().unwrap();
            // Shared memory counts once, so all 40 processes exist before the run exceeds its limit.
            assert!(text.contains("shared"), "{name}: {text}");
            assert!(text.contains("The memory limit of the sandbox ended it."), "{name}: {text}");
            told.push(format!("{slowest:?}: {text}"));
            // The server must end the run before a process prints `grown`. An exact measurement would block the
            // server's thread for seconds.
            !text.contains("grown") && slowest < Duration::from_millis(200)
        });
        assert!(is_in_time, "{name}: {told:?}");
    }
}

fn runs_have_no_huge_pages_and_are_ended_first() {
    for name in ["T3", "warm", "T2"] {
        let (mut server, at_rest) = server(builder(name), name);
        let before = alive_with_marker(server.scratch.path());
        let id = server.start_execute("import time\nx = bytearray(64 << 20)\ntime.sleep(60)");
        let scratch = server.scratch.path().to_owned();
        let resident = |pid: &u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
            line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        let grown =
            || alive_with_marker(&scratch).into_iter().find(|pid| resident(pid) > 60 * 1024);
        assert!(eventually(Duration::from_secs(10), || grown().is_some()).is_some(), "{name}");
        let pid = grown().unwrap();
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
        assert_eq!(read("oom_score_adj").trim(), "1000", "{name}");
        let status = read("status");
        let huge = status.lines().find_map(|line| line.strip_prefix("THP_enabled:")).unwrap();
        assert_eq!(huge.trim(), "0", "{name} {before:?} {at_rest}");
        server.cancel(id);
        server.finish();
    }
}
