//! Tests of the memory watch on real processes.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use super::*;

/// A Python process without transparent huge pages, as in a run. The script signals that it is ready, and then waits
/// for [`Script::go_on`].
struct Script {
    python: Child,
}

impl Script {
    fn start(script: &str) -> Self {
        let prelude = "
import ctypes, mmap, os, sys
assert ctypes.CDLL(None).prctl(41, 1, 0, 0, 0) == 0
libc = ctypes.CDLL(None)
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def ready():
    os.write(1, b'r')
    os.read(0, 1)
def fill(mebibytes):
    block = mmap.mmap(-1, mebibytes << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    assert libc.madvise(ctypes.addressof(ctypes.c_char.from_buffer(block)), mebibytes << 20, 23) == 0
    return block
";
        let mut python = Command::new("python3")
            .args(["-c", &format!("{prelude}{script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0];
        python.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        Self { python }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.python.id()).unwrap())
    }

    fn go_on(&mut self) {
        self.python.stdin.as_mut().unwrap().write_all(b".").unwrap();
        self.python.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        drop(self.python.stdin.take());
        let _ = self.python.kill();
        let _ = self.python.wait();
    }
}

/// Takes samples of a process until the result is known. Returns whether a limit is exceeded.
fn is_exceeded(watch: &mut MemoryWatch, pid: Pid) -> bool {
    loop {
        match watch.sample(pid, Some(pid)) {
            Look::Exceeded | Look::TooManyPipes => return true,
            Look::Within { next } if next.is_zero() => {}
            Look::Within { .. } => return false,
        }
    }
}

fn watch(mebibytes: u64) -> MemoryWatch {
    MemoryWatch::new(mebibytes << 20).unwrap()
}

#[test]
fn memory_of_children_counts_and_what_they_share_counts_once() {
    // Four processes share 60 MiB. Each process has about 10 MiB of its own.
    let script = "
block = fill(60)
for _ in range(3):
    if os.fork() == 0:
        os.read(0, 1)
        os._exit(0)
ready()
";
    let script = Script::start(script);
    let answers =
        [40, 58, 150, 400].map(|mebibytes| is_exceeded(&mut watch(mebibytes), script.pid()));
    assert_eq!(answers, [true, true, false, false]);
}

#[test]
fn a_copy_of_a_shared_page_counts() {
    // When a child writes to a shared page, the kernel copies the page. The copy takes memory, but does not change the
    // child's number of resident pages.
    let script = "
block = fill(60)
read, write = os.pipe()
ready()
if os.fork() == 0:
    os.read(read, 1)
    ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(block)), 1, 60 << 20)
    ready()
    os._exit(0)
ready()
os.write(write, b'.')
os.wait()
";
    let mut script = Script::start(script);
    let mut watch = watch(110);
    assert!(!is_exceeded(&mut watch, script.pid()));
    script.go_on();
    assert!(!is_exceeded(&mut watch, script.pid()), "shared");
    script.go_on();
    assert!(is_exceeded(&mut watch, script.pid()), "copied");
}

#[test]
fn pages_that_come_and_go_do_not_add_up() {
    let script = "
import time
block = fill(30)
if os.fork() == 0:
    # Not longer than its parent.
    libc.prctl(1, 9, 0, 0, 0)
    time.sleep(600)
for _ in range(20):
    fill(60).close()
    ready()
";
    let mut script = Script::start(script);
    // Both cheap upper bounds (80 MiB, and up to 1.2 GiB) exceed the limit of 70 MiB. So the watch counts the pages
    // exactly, and finds about 50 MiB.
    let mut watch = watch(70);
    for round in 0..19 {
        assert!(!is_exceeded(&mut watch, script.pid()), "{round}");
        script.go_on();
    }
}

#[test]
fn a_process_that_ends_during_an_exact_count_does_not_lower_it() {
    let script = "
import signal
def child():
    if pid := os.fork():
        return pid
    # Not longer than its parent.
    libc.prctl(1, 9, 0, 0, 0)
    signal.pause()
child()
block = fill(60)
while True:
    same = child()
    for _ in range(3):
        fill(60).close()
    ready()
    os.kill(same, signal.SIGKILL)
    os.waitpid(same, 0)
    ready()
";
    let mut script = Script::start(script);
    for _ in 0..20 {
        let mut watch = watch(60);
        let children = watch.table.children(script.pid()).unwrap();
        let started = |pid: &Pid| (watch.table.stat(*pid).map(|stat| stat.started), *pid);
        let same = children.into_iter().max_by_key(started).unwrap();
        // Take samples until the exact count has counted every process except for the child that shares the block.
        let is_between = loop {
            let look = watch.sample(script.pid(), Some(script.pid()));
            let counting = watch.counting.as_ref();
            if counting.is_some_and(|it| it.left == [same] && it.counted_bytes > 0) {
                break true;
            }
            if !matches!(look, Look::Within { next } if next.is_zero()) {
                break false;
            }
        };
        script.go_on();
        if is_between {
            // The parent alone exceeds the limit of 60 MiB: it has a block of 60 MiB and the pages of the interpreter.
            assert!(is_exceeded(&mut watch, script.pid()));
            return;
        }
        script.go_on();
    }
    panic!("the count never began with the parent");
}

#[test]
fn page_tables_count() {
    // The script maps one shared page of zeros in each GiB, so only the page tables take memory.
    let script = "
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
for i in range(16000):
    at = libc.mmap(0x100000000000 + (i << 30), 4096, 1, 0x100022, -1, 0)
    ctypes.c_char.from_address(at).value
ready()
";
    let script = Script::start(script);
    assert!(is_exceeded(&mut watch(100), script.pid()));
    assert!(!is_exceeded(&mut watch(250), script.pid()));
}

#[test]
fn mappings_count_and_a_process_has_not_too_many() {
    let script = "
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def split(pages):
    block = mmap.mmap(-1, pages << 12, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    at = ctypes.addressof(ctypes.c_char.from_buffer(block))
    for page in range(1, pages, 2):
        assert libc.mprotect(at + (page << 12), 4096, 1) == 0
    return block
few = split(8000)
ready()
many = split(12000)
ready()
";
    let mut script = Script::start(script);
    let mut watch = watch(1024);
    let settle = |watch: &mut MemoryWatch| {
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(600) {
            if watch.sample(script.pid(), Some(script.pid())) == Look::Exceeded {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    };
    assert!(!settle(&mut watch));
    assert!(watch.seen.values().any(|seen| seen.mappings > 7900), "{:?}", watch.seen);
    script.go_on();
    let settle = |watch: &mut MemoryWatch| {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(20) {
            if watch.sample(script.pid(), Some(script.pid())) == Look::Exceeded {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    };
    assert!(settle(&mut watch));
}

#[test]
fn a_process_that_has_ended_and_that_nobody_has_taken_has_nothing() {
    // The killed process stays a zombie, because this test does not wait for it. The loop below takes samples for
    // longer than the kernel needs to end the process, even on a busy machine.
    let mut script = Script::start("ready()");
    let mut watch = watch(100);
    script.python.kill().unwrap();
    for _ in 0..=2 * INCOMPLETE_MAX {
        assert!(!is_exceeded(&mut watch, script.pid()));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_process_whose_last_thread_takes_long_to_end_exceeds_nothing() {
    // Process 1 of a PID namespace cannot end before every other process of the namespace is reaped. In this test, one
    // other process is never reaped by its tracer. So process 1 is ending, but never ends.
    let script = "
import threading, time
assert libc.unshare(0x10000000 | 0x20000000) == 0
first = os.fork()
if first == 0:
    if os.fork() == 0:
        time.sleep(600)
    block = fill(60)
    def end_last():
        os.read(0, 1)
        os._exit(0)
    threading.Thread(target=end_last).start()
    libc.pthread_exit(None)
def children_of(process):
    # When the first thread has ended, the children belong to another one.
    threads = os.listdir(f'/proc/{process}/task')
    return [child for thread in threads for child in open(f'/proc/{process}/task/{thread}/children').read().split()]
while not (children := children_of(first)):
    time.sleep(0.01)
assert libc.ptrace(0x4206, int(children[0]), None, None) == 0
while open(f'/proc/{first}/stat').read().rpartition(')')[2].split()[0] != 'Z':
    time.sleep(0.01)
os.write(1, b'r')
time.sleep(600)
";
    let mut script = Script::start(script);
    let mut watch = watch(100);
    let first = watch.table.children(script.pid()).unwrap()[0];
    assert!(!is_exceeded(&mut watch, first));
    assert!(!watch.table.has_only_ending_threads(first));
    script.python.stdin.as_mut().unwrap().write_all(b".").unwrap();
    let began = Instant::now();
    while !watch.table.has_only_ending_threads(first) {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..=2 * INCOMPLETE_MAX {
        assert!(!is_exceeded(&mut watch, first));
        std::thread::sleep(Duration::from_millis(1));
    }
    let threads = watch.table.tasks(first).unwrap().len();
    assert!(threads == 2 && watch.table.has_only_ending_threads(first), "{threads}");
}

#[test]
fn a_process_that_is_gone_exceeds_nothing() {
    // The watch must accept a process that no longer exists, because the server may notice the end of a run late.
    let mut script = Script::start("block = fill(8)\nready()");
    let mut watch = watch(64);
    assert!(matches!(watch.sample(script.pid(), Some(script.pid())), Look::Within { .. }));
    script.python.kill().unwrap();
    script.python.wait().unwrap();
    for _ in 0..=2 * INCOMPLETE_MAX {
        assert!(matches!(watch.sample(script.pid(), Some(script.pid())), Look::Within { .. }));
    }
}

#[test]
fn what_threads_have_counts_when_the_first_one_has_ended() {
    let script = "
import threading
def hold():
    block = fill(60)
    ready()
    os.read(0, 1)
threading.Thread(target=hold).start()
libc.pthread_exit(None)
";
    let script = Script::start(script);
    std::thread::sleep(Duration::from_millis(50));
    assert!(is_exceeded(&mut watch(40), script.pid()));
}

#[test]
fn what_sockets_can_hold_counts() {
    let script = "
import socket
pairs = [socket.socketpair() for _ in range(150)]
ready()
";
    let script = Script::start(script);
    // The watch charges 60 MiB for the sockets alone, and any interpreter takes 5 to 15 MiB.
    assert!(is_exceeded(&mut watch(55), script.pid()));
    assert!(!is_exceeded(&mut watch(90), script.pid()));
}

#[test]
fn waits_for_a_processor_delay_the_next_look_but_not_for_long() {
    for (ran, waited, expected) in
        [(0, 0, 0), (1, 0, 4), (1, 4, 20), (1, 1000, 100), (30, 0, 120), (30, 1000, 120)]
    {
        let times = [ran, waited, expected].map(Duration::from_millis);
        assert_eq!(pause_after(times[0], times[1]), times[2], "{ran} {waited}");
    }
}

#[test]
fn the_next_look_comes_before_what_is_left_can_be_gone() {
    let mut watch = watch(1024);
    watch.growth_rate = 4 << 30;
    assert_eq!(watch.next(1 << 30), WATCH_INTERVAL);
    assert_eq!(watch.next(40 << 20), Duration::from_micros(9765));
    assert_eq!(watch.next(0), WATCH_INTERVAL_MIN);
}

#[test]
fn a_run_has_its_part_of_the_pipes_of_its_user() {
    // Each pipe is open in two processes, but counts once.
    let script = "
pipes = [os.pipe() for _ in range(50)]
if os.fork() == 0:
    os.read(0, 1)
    os._exit(0)
ready()
";
    let script = Script::start(script);
    for (most, expected) in [(1, false), (9, false), (11, true), (1000, true)] {
        let mut watch = watch(1024).beside(Neighbours { now: 1, most });
        watch.pipe_pages = Some(16 * 1024);
        assert_eq!(is_exceeded(&mut watch, script.pid()), expected, "{most}");
        watch.pipe_pages = None;
        assert!(!is_exceeded(&mut watch, script.pid()), "nothing bounds them");
    }
}

#[test]
fn threads_count_where_the_kernel_counts_those_of_others_too() {
    let script = "
import threading, time
for _ in range(20):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
ready()
";
    let script = Script::start(script);
    let exceeds = |most| is_exceeded(&mut watch(1024).with_threads_max(most), script.pid());
    assert_eq!([None, Some(21), Some(20)].map(exceeds), [false, false, true]);
}
