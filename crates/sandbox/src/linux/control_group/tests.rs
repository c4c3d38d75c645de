//! Tests of control groups. Tests that create groups are ignored by default, because they need a delegated group.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::group::ControlGroup;
use super::hierarchy::left_behind;
use super::*;

/// A UID that no other process runs as.
const USER: u32 = 24701;

/// The timeout of each wait in these tests. It is long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The start of each Python script. The script waits until [`release`] sends a line of input.
const WAIT: &str = "import os, sys, time\nsys.stdin.readline()\n";

const DESKTOP: &str = "\
23 29 0:22 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
34 23 0:29 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate
35 23 0:30 / /sys/fs/pstore rw - pstore pstore rw
";

const HYBRID: &str = "\
32 23 0:27 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
33 32 0:28 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw,nsdelegate
34 32 0:29 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,xattr,name=systemd
";

/// The mounts of a container that shares the machine's cgroup namespace.
const CONTAINER: &str = "\
500 490 0:29 /system.slice/docker-5f.scope /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate
";

#[test]
fn folder_of_the_own_group() {
    let session = "/user.slice/user-1000.slice/session-2.scope";
    let cases = [
        (DESKTOP, session, Some(format!("/sys/fs/cgroup{session}"))),
        (DESKTOP, "/", Some("/sys/fs/cgroup/".to_owned())),
        (HYBRID, session, Some(format!("/sys/fs/cgroup/unified{session}"))),
        (CONTAINER, "/system.slice/docker-5f.scope", Some("/sys/fs/cgroup/".to_owned())),
        (CONTAINER, "/system.slice/docker-5f.scope/a", Some("/sys/fs/cgroup/a".to_owned())),
        // These groups have no folder: the first is outside of the mounted part, the second is outside of the cgroup
        // namespace.
        (CONTAINER, "/system.slice/docker-60.scope", None),
        (DESKTOP, "/../sibling", None),
        // The mount was made before the cgroup namespace was entered, so the root of the mount is outside of the
        // namespace.
        ("34 23 0:29 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "/", None),
        // The kernel writes spaces as octal digits.
        ("1 1 0:1 / /a\\040b\\ rw - cgroup2 c rw\n", "/g", Some("/a b\\/g".to_owned())),
        // A later mount covers an earlier one.
        (
            "1 1 0:1 / /a rw - cgroup2 c rw\n2 1 0:1 / /b rw - cgroup2 c rw\n",
            "/",
            Some("/b/".into()),
        ),
    ];
    for (mountinfo, group, folder) in cases {
        let hierarchy = Hierarchy::find(mountinfo).unwrap();
        let found = hierarchy.folder(Path::new(group));
        assert_eq!(found, folder.map(PathBuf::from), "{group} in {mountinfo}");
    }
}

#[test]
fn machines_without_version_2() {
    let first = "36 32 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    // Here `cgroup2` is the name of the device, not the type of the file system.
    let named = "36 32 0:31 / /cgroup2 rw - tmpfs cgroup2 rw\n";
    for mountinfo in ["", first, named] {
        assert_eq!(Hierarchy::find(mountinfo), None, "{mountinfo}");
    }
    assert_eq!(own_group("4:memory:/a\n1:name=systemd:/b\n"), None);
}

#[test]
fn own_group_is_the_one_of_version_2() {
    let texts = [
        ("0::/user.slice/a b.scope\n", "/user.slice/a b.scope"),
        ("4:memory:/x\n1:name=systemd:/y\n0::/z\n", "/z"),
    ];
    for (text, group) in texts {
        assert_eq!(own_group(text), Some(PathBuf::from(group)));
    }
}

#[test]
fn ways_are_those_that_step_on_nobody() {
    let nothing = Facts {
        is_root_group: false,
        is_writable: false,
        is_owned: false,
        is_marked: false,
        has_systemd: false,
        is_alone: false,
    };
    let desktop = Facts { has_systemd: true, is_writable: true, is_owned: true, ..nothing };
    let delegated = Facts { is_marked: true, is_alone: true, ..desktop };
    let container = Facts { is_root_group: true, is_writable: true, is_alone: true, ..nothing };
    let given_to_user = Facts { is_writable: true, is_owned: true, is_alone: true, ..nothing };
    let cases = [
        (
            "a session of root's under systemd: writable, but systemd's",
            vec![Way::Scope],
            Facts { is_owned: false, ..desktop },
        ),
        (
            "a program of a desktop: its user owns the group, systemd manages it",
            vec![Way::Scope],
            desktop,
        ),
        (
            "the same, with nothing else in it",
            vec![Way::Scope],
            Facts { is_alone: true, ..desktop },
        ),
        (
            "a unit with Delegate=yes",
            vec![Way::OwnGroup, Way::Scope, Way::OwnGroupShared],
            delegated,
        ),
        (
            "the same, and the client is in it too",
            vec![Way::Scope, Way::OwnGroupShared],
            Facts { is_alone: false, ..delegated },
        ),
        ("marked for another user", vec![Way::Scope], Facts { is_writable: false, ..delegated }),
        ("a container of its own", vec![Way::OwnGroup, Way::OwnGroupShared], container),
        (
            "a container with other processes",
            vec![Way::OwnGroupShared],
            Facts { is_alone: false, ..container },
        ),
        ("a container that may only read", vec![], Facts { is_writable: false, ..container }),
        (
            "given to a user by an admin without systemd",
            vec![Way::OwnGroup, Way::OwnGroupShared],
            given_to_user,
        ),
        (
            "a group that root may write to and nobody gave away",
            vec![],
            Facts { is_owned: false, ..given_to_user },
        ),
    ];
    for (what, expected, facts) in cases {
        assert_eq!(ways(facts), expected, "{what}");
    }
}

#[test]
fn limits_that_a_scope_would_not_have() {
    let user = "/user.slice/user-1000.slice/user@1000.service";
    let check = |own: &str, manager: &str, left: &[&str]| {
        let left: Vec<_> = left.iter().map(PathBuf::from).collect();
        assert_eq!(left_behind(Path::new(own), Path::new(manager)), left, "{own}");
    };
    let app = format!("{user}/app.slice/app-editor.scope");
    check(&app, user, &[&app, &format!("{user}/app.slice")]);
    let session = "/user.slice/user-1000.slice/session-2.scope";
    check(session, user, &[session]);
    check("/system.slice/x.service", "/", &["/system.slice/x.service", "/system.slice"]);
    check("/", user, &[]);
}

#[test]
fn words_for_what_can_be_done() {
    let words = |memory, pids, kill| Controls { memory, pids, kill }.to_string();
    assert_eq!(words(true, true, true), "control group (memory, pids, kill)");
    assert_eq!(words(false, false, true), "control group (kill)");
    assert_eq!(words(false, true, false), "control group (pids, freeze)");
}

#[test]
fn names_tell_their_maker() {
    let maker = |pid, start| Some(Maker { namespace: 9, pid: Pid::from_raw(pid), start });
    let cases = [
        ("qwed-mcp-9-12-345-run-7", maker(12, 345)),
        ("qwed-mcp-9-12-345-server", maker(12, 345)),
        ("qwed-mcp-9-12-345", None),
        ("qwed-mcp-12.scope", None),
        ("qwed-mcp-9-x-345-a", None),
        ("init.scope", None),
    ];
    for (name, expected) in cases {
        assert_eq!(maker_of(name), expected, "{name}");
    }
    let own = start_of(Pid::this()).unwrap();
    assert!(own > 0 && start_of(Pid::from_raw(1)).unwrap() < own);
}

/// Tests both ways to kill a group, one after the other, because two fork bombs would share the limit for their user's
/// processes.
#[test]
#[ignore = "needs a place for control groups (version 2): run as root, or where one is delegated"]
fn a_fork_bomb_ends_with_one_kill() {
    ends_a_fork_bomb(ControlGroup::kill);
    // This is the way for kernels before 5.14.
    ends_a_fork_bomb(ControlGroup::freeze_and_kill);
}

fn ends_a_fork_bomb(kill: fn(&ControlGroup) -> io::Result<()>) {
    let groups = groups();
    // The script keeps about 200 processes running, many of them in new sessions. Processes fork and exit all the time,
    // so the set of PIDs changes.
    let bomb = "
import resource, signal
# What has ended does not count against the limit.
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
# Not from `random`, which would say the same in all of them.
often = lambda times: os.urandom(1)[0] < times
own, first, count = os.getuid(), os.getpid(), 0
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        if os.stat(f'/proc/{pid}').st_uid == own:
            count += len(os.listdir(f'/proc/{pid}/task'))
    except OSError:
        pass
resource.setrlimit(resource.RLIMIT_NPROC, (count + 200, count + 200))
while True:
    try:
        child = os.fork() == 0
    except OSError:
        # The limit is reached: a few make room.
        time.sleep(0.001)
        ends = often(2)
    else:
        if child and often(128):
            os.setsid()
        ends = not child and often(64)
    if ends and os.getpid() != first:
        os._exit(0)
";
    let mut group = ControlGroup::create(&groups.order(&GroupLimits::default())).unwrap();
    let mut python = start(bomb);
    group.add(pid_of(&python)).unwrap();
    release(&mut python);
    let grown = within(PATIENCE, || processes(&group).len() > 100);
    let first = processes(&group);
    // Before the kill, new processes must appear. Otherwise the bomb may have ended by itself.
    let is_new = || processes(&group).difference(&first).count() > 10;
    let goes_on = within(PATIENCE, is_new);
    let killed = kill(&group);
    let is_empty = is_empty(&group);
    python.wait().unwrap();

    assert!(grown, "{} processes", first.len());
    assert!(goes_on, "it ended by itself");
    killed.unwrap();
    assert!(is_empty && processes(&group).is_empty());
    std::thread::sleep(Duration::from_millis(100));
    assert!(!group.is_populated().unwrap());
    assert!(group.try_remove());
}

#[test]
#[ignore = "needs the memory and pids controllers of version 2, delegated"]
fn the_kernel_bounds_memory_and_ends_all_of_a_run() {
    // The child exceeds the limit. The parent uses little memory, and would survive if the kernel killed only the
    // child.
    let greedy = "
if os.fork() == 0:
    block = bytearray(400 << 20)
time.sleep(60)
";
    ends_what_takes_more(greedy, 100);
}

#[test]
#[ignore = "needs the memory and pids controllers of version 2, delegated"]
fn what_is_not_resident_counts_too() {
    // Reading unwritten memory maps a shared page of zeros, which is charged to no process. But each 2 MiB of addresses
    // needs its own page table, and page tables count against the limit.
    let tables = "
import mmap
size = 64 << 30
block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
block.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, size, 2 << 20):
    block[at]
time.sleep(60)
";
    ends_what_takes_more(tables, 64);
}

/// Checks that all processes of a group are killed if `code` exceeds the memory limit.
fn ends_what_takes_more(code: &str, mebibytes: u64) {
    let groups = groups();
    assert!(groups.controls.memory, "not delegated here");
    let limits = GroupLimits { memory_bytes: Some(mebibytes << 20), pids: None };
    let mut group = ControlGroup::create(&groups.order(&limits)).unwrap();
    let mut python = start(code);
    group.add(pid_of(&python)).unwrap();
    assert!(!group.was_out_of_memory());
    release(&mut python);
    assert!(is_empty(&group));
    assert_eq!(python.wait().unwrap().signal(), Some(9));
    assert!(group.was_out_of_memory());
    assert!(within(PATIENCE, || group.try_remove()));
}

#[test]
#[ignore = "needs the memory and pids controllers of version 2, delegated"]
fn the_kernel_bounds_the_number_of_processes() {
    let groups = groups();
    assert!(groups.controls.pids, "not delegated here");
    let forks = "
count = 1
try:
    while count < 50:
        if os.fork() == 0:
            time.sleep(60)
        count += 1
except BlockingIOError:
    pass
os._exit(count)
";
    let mut group =
        ControlGroup::create(&groups.order(&GroupLimits { memory_bytes: None, pids: Some(7) }))
            .unwrap();
    let mut python = start(forks);
    group.add(pid_of(&python)).unwrap();
    release(&mut python);
    assert_eq!(python.wait().unwrap().code(), Some(7));
    assert!(group.is_populated().unwrap());
    group.kill().unwrap();
    assert!(within(PATIENCE, || group.try_remove()));
}

#[test]
#[ignore = "needs a place for control groups (version 2): run as root, or where one is delegated"]
fn groups_go_with_their_values_and_their_servers() {
    let groups = groups();
    let order = groups.order(&GroupLimits::default());
    let folder = order.place.join(&order.name);
    let group = ControlGroup::create(&order).unwrap();
    assert!(folder.exists());
    drop(group);
    assert!(!folder.exists());

    // The name of the folder `left` contains this server's PID, but another start time, so the server that created the
    // folder has ended. The group of `order` belongs to this server, which still runs, so this group must stay.
    let order = groups.order(&GroupLimits::default());
    let _own = ControlGroup::create(&order).unwrap();
    let namespace = pid_namespace_inode().unwrap();
    let folder = |namespace: u64| {
        let left = format!("{NAME_PREFIX}{namespace}-{}-1-run", Pid::this());
        let left = groups.path.join(left);
        fs::create_dir(&left).unwrap();
        left
    };
    let (left, elsewhere) = (folder(namespace), folder(namespace + 1));
    Place::open(groups.path.clone()).unwrap().remove_leftovers();
    assert!(!left.exists());
    // The name of the folder `elsewhere` contains the PID of a server in another PID namespace. It is unknown whether
    // the server still runs, so the folder must stay.
    assert!(elsewhere.exists());
    fs::remove_dir(elsewhere).unwrap();
    assert!(order.place.join(order.name).exists());
}

#[test]
#[ignore = "needs a place for control groups (version 2): run as root, or where one is delegated"]
fn names_stay_in_their_place() {
    let groups = groups();
    for name in ["", "..", "a/b", "../x", "a b"] {
        let order = groups.order(&GroupLimits::default());
        let made = ControlGroup::create(&GroupOrder { name: name.to_owned(), ..order });
        assert_eq!(made.unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
    }
}

/// Prints the median time of each operation. Run it by hand: `cargo test --lib costs_of_a_group -- --ignored
/// --nocapture`.
#[test]
#[ignore = "measures, and says nothing about right or wrong"]
#[expect(clippy::print_stdout, reason = "that is what it is for")]
fn costs_of_a_group() {
    let began = Instant::now();
    let groups = groups();
    println!("found in {:?}", began.elapsed());
    println!("{} below {}", groups.controls, groups.path.display());
    let limits = GroupLimits { memory_bytes: Some(512 << 20), pids: Some(64) };
    for pause in [0, 5, 50].map(Duration::from_millis) {
        let mut times = [const { Vec::new() }; 4];
        for _ in 0..200 {
            let mut child = Command::new("sleep").arg("60").spawn().unwrap();
            std::thread::sleep(pause);
            let mut at = Instant::now();
            let mut take = |step: usize| {
                times[step].push(at.elapsed());
                at = Instant::now();
            };
            let mut group = ControlGroup::create(&groups.order(&limits)).unwrap();
            take(0);
            group.add(pid_of(&child)).unwrap();
            take(1);
            group.kill().unwrap();
            take(2);
            child.wait().unwrap();
            at = Instant::now();
            assert!(within(PATIENCE, || group.try_remove()));
            times[3].push(at.elapsed());
        }
        let medians = times.map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2].as_micros()
        });
        println!("{pause:?} between: create, add, kill, remove in µs: {medians:?}");
    }
}

/// Returns the control groups that all tests of this process share.
fn groups() -> &'static ControlGroups {
    static GROUPS: OnceLock<ControlGroups> = OnceLock::new();
    GROUPS.get_or_init(|| ControlGroups::find().unwrap())
}

/// Starts a Python process that runs `code` after [`release`]. The process runs as another user if the tests run as
/// root.
fn start(code: &str) -> Child {
    let mut python = Command::new("python3");
    python.args(["-c", &format!("{WAIT}{code}")]).stdin(Stdio::piped()).current_dir("/");
    if geteuid().is_root() {
        python.uid(USER).gid(USER);
    }
    python.spawn().unwrap()
}

fn release(python: &mut Child) {
    python.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

fn processes(group: &ControlGroup) -> BTreeSet<u32> {
    group.processes().unwrap().lines().map(|pid| pid.parse().unwrap()).collect()
}

fn is_empty(group: &ControlGroup) -> bool {
    within(PATIENCE, || !group.is_populated().unwrap())
}

fn within(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}
