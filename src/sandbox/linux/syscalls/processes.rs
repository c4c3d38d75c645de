//! Calls on processes and threads: starting and ending them, signals, scheduling, identity.
//!
//! Which processes a signal can reach is for the process namespace or Landlock's scope to say.

use nix::libc;

use super::PROGRAM_FD;
use super::table::{
    ByRun, Condition, Row, absent_for_scripts, allow, by_run, deny, deny_if, deny_in_one_process,
    has_bit, is, is_not, is_not_program_path, lacks_bit, not_null,
};

/// New namespaces, one condition a bit, and `CLONE_PARENT`, with which a child would not be the
/// script's. The flags are the first argument on both architectures and all in its lower half.
/// `CLONE_NEWTIME` is missing because to `clone` its bit is a part of the exit signal.
const FOREIGN_CHILD: &[Condition] = &[
    &[has_bit(0, libc::CLONE_NEWNS.cast_unsigned())],
    &[has_bit(0, libc::CLONE_NEWCGROUP.cast_unsigned())],
    &[has_bit(0, libc::CLONE_NEWUTS.cast_unsigned())],
    &[has_bit(0, libc::CLONE_NEWIPC.cast_unsigned())],
    &[has_bit(0, libc::CLONE_NEWUSER.cast_unsigned())],
    &[has_bit(0, libc::CLONE_NEWPID.cast_unsigned())],
    &[has_bit(0, libc::CLONE_NEWNET.cast_unsigned())],
    &[has_bit(0, libc::CLONE_PARENT.cast_unsigned())],
    // A thread with descriptors of its own, which nobody counts.
    &[
        has_bit(0, libc::CLONE_THREAD.cast_unsigned()),
        lacks_bit(0, libc::CLONE_FILES.cast_unsigned()),
    ],
];

/// The rules for `clone`. In a run without process numbers of its own, a script is one process with
/// threads: to kill that one is to end the run, and nothing can fork faster than it is killed.
const CLONES: ByRun = ByRun {
    always: FOREIGN_CHILD,
    in_one_process: &[&[lacks_bit(0, libc::CLONE_THREAD.cast_unsigned())]],
    // A process that shares its memory with another one: its page faults, by which the memory is
    // watched, would go with it.
    for_scripts: &[&[
        has_bit(0, libc::CLONE_VM.cast_unsigned()),
        lacks_bit(0, libc::CLONE_THREAD.cast_unsigned()),
    ]],
    answered_for_scripts: &[],
};

/// Anything but the launcher's own `execveat(PROGRAM_FD, "", …, AT_EMPTY_PATH)`. The launcher has
/// the interpreter open as that descriptor, close-on-exec, and no later descriptor gets as high,
/// since `RLIMIT_NOFILE` is lower and cannot be changed (see `prlimit64`). An absolute path would
/// make the kernel ignore the descriptor: hence the two other conditions (see `program_path`).
/// Descriptor and flags are an `int`.
const OTHER_PROGRAM: &[Condition] = &[
    &[is_not(0, PROGRAM_FD.cast_unsigned())],
    &[is_not_program_path(1)],
    &[is_not(4, libc::AT_EMPTY_PATH.cast_unsigned())],
];

/// A limit of another process, or a new one for descriptors: with the right to raise it, the
/// script could reopen [`PROGRAM_FD`]. Process and resource are an `int`.
const OTHER_LIMIT: &[Condition] = &[&[is_not(0, 0)], &[is(1, RLIMIT_NOFILE), not_null(2)]];
#[cfg(target_arch = "x86_64")]
const DESCRIPTOR_LIMIT: &[Condition] = &[&[is(0, RLIMIT_NOFILE)]];
pub(super) const RLIMIT_NOFILE: u32 = 7;

/// Options of `prctl` that name things or only read, and `PR_SET_NO_NEW_PRIVS`, which the launcher
/// needs between both filters and which is set by then. The option is an `int`.
const OTHER_OPTION: &[Condition] = &[&[
    is_not(0, libc::PR_SET_NAME.cast_unsigned()),
    is_not(0, libc::PR_GET_NAME.cast_unsigned()),
    is_not(0, libc::PR_GET_DUMPABLE.cast_unsigned()),
    is_not(0, libc::PR_GET_NO_NEW_PRIVS.cast_unsigned()),
    is_not(0, libc::PR_SET_NO_NEW_PRIVS.cast_unsigned()),
    is_not(0, libc::PR_GET_SECCOMP.cast_unsigned()),
    is_not(0, libc::PR_CAPBSET_READ.cast_unsigned()),
    is_not(0, libc::PR_GET_TIMERSLACK.cast_unsigned()),
    is_not(0, libc::PR_GET_THP_DISABLE.cast_unsigned()),
    is_not(0, PR_SVE_GET_VL),
    // malloc names its mappings with it.
    is_not(0, PR_SET_VMA),
]];
/// The length of vectors, which numeric libraries ask for on `aarch64`.
const PR_SVE_GET_VL: u32 = 51;
const PR_SET_VMA: u32 = 0x5356_4D41;

/// Asks for the personality; every other argument sets one. The argument is an `unsigned int`.
const NEW_PERSONALITY: &[Condition] = &[&[is_not(0, u32::MAX)]];

pub(super) static ROWS: &[Row] = &[
    deny(libc::SYS_execve, "execve", "starts a program; nothing may after the launcher"),
    deny_if(
        libc::SYS_execveat,
        "execveat",
        OTHER_PROGRAM,
        "the launcher becomes Python; nothing starts after that",
    ),
    by_run(libc::SYS_clone, "clone", &CLONES, "threads and fork; namespaces open CVE-2022-0185"),
    allow(libc::SYS_exit, "exit", "a thread's end"),
    allow(libc::SYS_exit_group, "exit_group", "the process's end"),
    allow(libc::SYS_wait4, "wait4", "os.waitpid"),
    allow(libc::SYS_waitid, "waitid", "os.waitid; asyncio's child watchers"),
    allow(libc::SYS_set_tid_address, "set_tid_address", "the start of every process"),
    allow(libc::SYS_set_robust_list, "set_robust_list", "the start of every thread"),
    allow(libc::SYS_rseq, "rseq", "the start of every thread; glibc 2.35"),
    allow(libc::SYS_futex, "futex", "locks, conditions, joining threads"),
    allow(libc::SYS_getpid, "getpid", "os.getpid; tempfile's names"),
    allow(libc::SYS_getppid, "getppid", "os.getppid; multiprocessing"),
    allow(libc::SYS_gettid, "gettid", "threading.get_native_id"),
    allow(libc::SYS_getuid, "getuid", "the start of Python"),
    allow(libc::SYS_geteuid, "geteuid", "the start of Python; SQLite"),
    allow(libc::SYS_getgid, "getgid", "the start of Python"),
    allow(libc::SYS_getegid, "getegid", "the start of Python"),
    allow(libc::SYS_getresuid, "getresuid", "os.getresuid"),
    allow(libc::SYS_getresgid, "getresgid", "os.getresgid"),
    allow(libc::SYS_getgroups, "getgroups", "os.getgroups"),
    allow(libc::SYS_getpgid, "getpgid", "os.getpgid"),
    allow(libc::SYS_getsid, "getsid", "os.getsid"),
    allow(libc::SYS_setpgid, "setpgid", "os.setpgid; subprocess"),
    allow(libc::SYS_setsid, "setsid", "os.setsid; subprocess"),
    allow(libc::SYS_kill, "kill", "os.kill; multiprocessing ends its workers"),
    allow(libc::SYS_tkill, "tkill", "raise() on musl"),
    allow(libc::SYS_tgkill, "tgkill", "raise(), abort(), pthread_kill"),
    allow(libc::SYS_rt_sigaction, "rt_sigaction", "signal.signal; the start of Python"),
    allow(
        libc::SYS_rt_sigprocmask,
        "rt_sigprocmask",
        "signal.pthread_sigmask; every thread's start",
    ),
    allow(libc::SYS_rt_sigreturn, "rt_sigreturn", "the return from every signal handler"),
    allow(libc::SYS_rt_sigpending, "rt_sigpending", "signal.sigpending"),
    allow(libc::SYS_rt_sigsuspend, "rt_sigsuspend", "signal.pause on aarch64; sigsuspend"),
    allow(libc::SYS_rt_sigtimedwait, "rt_sigtimedwait", "signal.sigwait"),
    allow(libc::SYS_sigaltstack, "sigaltstack", "faulthandler"),
    deny(libc::SYS_rt_sigqueueinfo, "rt_sigqueueinfo", "signals that pretend another sender"),
    deny(libc::SYS_rt_tgsigqueueinfo, "rt_tgsigqueueinfo", "signals that pretend another sender"),
    allow(libc::SYS_restart_syscall, "restart_syscall", "the kernel itself, after a stopped sleep"),
    allow(libc::SYS_sched_yield, "sched_yield", "time.sleep(0); spinning locks"),
    allow(libc::SYS_sched_getaffinity, "sched_getaffinity", "os.process_cpu_count; thread pools"),
    allow(libc::SYS_sched_getscheduler, "sched_getscheduler", "os.sched_getscheduler"),
    allow(libc::SYS_sched_getparam, "sched_getparam", "os.sched_getparam"),
    allow(libc::SYS_sched_getattr, "sched_getattr", "newer C libraries' sched_getscheduler"),
    allow(libc::SYS_sched_get_priority_max, "sched_get_priority_max", "os.sched_get_priority_max"),
    allow(libc::SYS_sched_get_priority_min, "sched_get_priority_min", "os.sched_get_priority_min"),
    allow(libc::SYS_sched_rr_get_interval, "sched_rr_get_interval", "os.sched_rr_get_interval"),
    deny(libc::SYS_sched_setaffinity, "sched_setaffinity", "leaves the processors it was given"),
    deny(
        libc::SYS_sched_setscheduler,
        "sched_setscheduler",
        "takes the processor ahead of the server",
    ),
    deny(libc::SYS_sched_setparam, "sched_setparam", "takes the processor ahead of the server"),
    deny(libc::SYS_sched_setattr, "sched_setattr", "takes the processor ahead of the server"),
    allow(libc::SYS_getpriority, "getpriority", "os.getpriority"),
    deny(libc::SYS_setpriority, "setpriority", "changes the priority of the user's processes"),
    deny(libc::SYS_ioprio_set, "ioprio_set", "takes the disk ahead of the server"),
    allow(libc::SYS_getcpu, "getcpu", "C libraries where no shared page answers"),
    allow(libc::SYS_getrusage, "getrusage", "resource.getrusage"),
    allow(libc::SYS_times, "times", "os.times"),
    deny_if(
        libc::SYS_prlimit64,
        "prlimit64",
        OTHER_LIMIT,
        "resource; another process's limits are not its own",
    ),
    deny_if(
        libc::SYS_prctl,
        "prctl",
        OTHER_OPTION,
        "names of threads; others undo what the launcher set",
    ),
    deny_if(
        libc::SYS_personality,
        "personality",
        NEW_PERSONALITY,
        "reads it; a new one undoes random addresses",
    ),
    allow(libc::SYS_capget, "capget", "os and psutil-like libraries ask for capabilities"),
    deny(libc::SYS_capset, "capset", "changes capabilities; the launcher dropped them"),
    deny(libc::SYS_setuid, "setuid", "becomes another user"),
    deny(libc::SYS_setgid, "setgid", "becomes another group"),
    deny(libc::SYS_setreuid, "setreuid", "becomes another user"),
    deny(libc::SYS_setregid, "setregid", "becomes another group"),
    deny(libc::SYS_setresuid, "setresuid", "becomes another user"),
    deny(libc::SYS_setresgid, "setresgid", "becomes another group"),
    deny(libc::SYS_setfsuid, "setfsuid", "opens files as another user"),
    deny(libc::SYS_setfsgid, "setfsgid", "opens files as another group"),
    deny(libc::SYS_setgroups, "setgroups", "drops a group that a file denies access to"),
    deny(libc::SYS_unshare, "unshare", "new namespaces open CVE-2022-0185, CVE-2024-1086"),
    deny(libc::SYS_setns, "setns", "enters another process's namespaces"),
    deny(libc::SYS_ptrace, "ptrace", "rewrites another process (CVE-2019-13272)"),
    deny(libc::SYS_kcmp, "kcmp", "compares kernel objects of processes"),
    deny(libc::SYS_pidfd_open, "pidfd_open", "a handle on another process; asyncio does without"),
    deny(libc::SYS_pidfd_getfd, "pidfd_getfd", "takes a descriptor out of another process"),
    deny(libc::SYS_pidfd_send_signal, "pidfd_send_signal", "signals across namespaces by a handle"),
];

/// Calls that only `x86_64` still has.
#[cfg(target_arch = "x86_64")]
pub(super) static LEGACY_ROWS: &[Row] = &[
    allow(libc::SYS_arch_prctl, "arch_prctl", "every thread's start sets its base register"),
    deny_in_one_process(libc::SYS_fork, "fork", "musl's fork"),
    absent_for_scripts(
        libc::SYS_vfork,
        "vfork",
        "subprocess of projects; shares memory, see clone",
    ),
    allow(libc::SYS_getpgrp, "getpgrp", "os.getpgrp"),
    allow(libc::SYS_pause, "pause", "signal.pause"),
    allow(libc::SYS_getrlimit, "getrlimit", "code that predates prlimit64"),
    deny_if(libc::SYS_setrlimit, "setrlimit", DESCRIPTOR_LIMIT, "code that predates prlimit64"),
    deny(libc::SYS_modify_ldt, "modify_ldt", "16-bit segments, a rarely tested part of the kernel"),
    deny(libc::SYS_uselib, "uselib", "loads a library as the kernel did in 1995"),
];

/// Calls that only `x86_64` still has.
#[cfg(not(target_arch = "x86_64"))]
pub(super) static LEGACY_ROWS: &[Row] = &[];
