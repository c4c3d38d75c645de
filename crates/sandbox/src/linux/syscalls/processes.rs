//! The rules for calls on processes and threads: start and end, signals, scheduling, identity.
//!
//! These rules never decide which processes a signal can reach. The PID namespace or Landlock's signal scope decides
//! that.

use nix::libc;

use super::PROGRAM_FD;
#[cfg(target_arch = "x86_64")]
use super::table::Rule::{AbsentForScripts, DenyInOneProcess};
use super::table::Rule::{Allow, Answer, ByRun, Deny, DenyIf};
use super::table::{
    Condition, Row, RunConditions, has_bit, is, is_not, is_not_program_path, lacks_bit, not_null,
    rows,
};

/// Matches the flags of `clone` that create namespaces, with one condition for each flag. Also matches `CLONE_PARENT`,
/// with which a new process would not be a child of the script. On `x86_64` and `aarch64` the flags are in the lower
/// half of the first argument. `CLONE_NEWTIME` is missing, because its bit is a part of the exit signal in the flags of
/// `clone`.
const FOREIGN_CHILD: &[Condition] = &[
    &[has_bit(0, libc::CLONE_NEWNS.cast_unsigned())],
    &[has_bit(0, libc::CLONE_NEWCGROUP.cast_unsigned())],
    &[has_bit(0, libc::CLONE_NEWUTS.cast_unsigned())],
    &[has_bit(0, libc::CLONE_NEWIPC.cast_unsigned())],
    &[has_bit(0, libc::CLONE_NEWUSER.cast_unsigned())],
    &[has_bit(0, libc::CLONE_NEWPID.cast_unsigned())],
    &[has_bit(0, libc::CLONE_NEWNET.cast_unsigned())],
    &[has_bit(0, libc::CLONE_PARENT.cast_unsigned())],
    // This condition matches a thread with its own table of descriptors. The memory watch does not count the
    // descriptors in such a table.
    &[
        has_bit(0, libc::CLONE_THREAD.cast_unsigned()),
        lacks_bit(0, libc::CLONE_FILES.cast_unsigned()),
    ],
];

/// The rules for `clone`. In a run without a PID namespace, a script must stay one process, which may have threads.
/// Then killing this process ends the run, and no fork can outrun the kill.
const CLONES: RunConditions = RunConditions {
    always: FOREIGN_CHILD,
    in_one_process: &[&[lacks_bit(0, libc::CLONE_THREAD.cast_unsigned())]],
    // Deny processes that share their memory: when one of them ends, the memory watch loses its page faults, but the
    // memory stays.
    for_scripts: &[&[
        has_bit(0, libc::CLONE_VM.cast_unsigned()),
        lacks_bit(0, libc::CLONE_THREAD.cast_unsigned()),
    ]],
    answered_for_scripts: &[],
};

/// Matches every `execveat` except for the launcher's own `execveat(PROGRAM_FD, "", …, AT_EMPTY_PATH)`. The launcher
/// has opened the interpreter as the descriptor `PROGRAM_FD`, close-on-exec. No later descriptor gets a number this
/// high, because `RLIMIT_NOFILE` is lower and cannot be changed (see [`OTHER_LIMIT`]). With an absolute path the kernel
/// would ignore the descriptor, so the conditions for the path and the flags are necessary (see `program_path`). The
/// descriptor and the flags are each an `int`.
const OTHER_PROGRAM: &[Condition] = &[
    &[is_not(0, PROGRAM_FD.cast_unsigned())],
    &[is_not_program_path(1)],
    &[is_not(4, libc::AT_EMPTY_PATH.cast_unsigned())],
];

/// Matches a `prlimit64` on another process, or with a new limit for descriptors. If a script could raise this limit,
/// it could open a file as [`PROGRAM_FD`] and execute it. The process and the resource are each an `int`.
const OTHER_LIMIT: &[Condition] = &[&[is_not(0, 0)], &[is(1, RLIMIT_NOFILE), not_null(2)]];
/// Matches a `setrlimit` with a new limit for descriptors, for the same reason as in [`OTHER_LIMIT`].
#[cfg(target_arch = "x86_64")]
const DESCRIPTOR_LIMIT: &[Condition] = &[&[is(0, RLIMIT_NOFILE)]];
pub(super) const RLIMIT_NOFILE: u32 = 7;

/// Matches all options of `prctl`, except for options that set names or only read, and except for
/// `PR_SET_NO_NEW_PRIVS`. The launcher needs `PR_SET_NO_NEW_PRIVS` between the installations of two filters. The flag
/// is already set by then, so a script gains nothing from setting it. The option is an `int`.
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
    // malloc names its mappings with this option.
    is_not(0, PR_SET_VMA),
]];
/// The option that returns the vector length. Numeric libraries query it on `aarch64`.
const PR_SVE_GET_VL: u32 = 51;
const PR_SET_VMA: u32 = 0x5356_4D41;

/// Matches every argument of `personality` except for `u32::MAX`, which only queries the personality. Any other
/// argument would set a new personality. The argument is an `unsigned int`.
const NEW_PERSONALITY: &[Condition] = &[&[is_not(0, u32::MAX)]];

pub(super) static ROWS: &[Row] = rows! {
    SYS_execve: Deny, "starts a program; nothing may after the launcher";
    SYS_execveat: DenyIf(OTHER_PROGRAM), "the launcher becomes Python; nothing starts after that";
    SYS_clone: ByRun(&CLONES), "threads and fork; namespaces open CVE-2022-0185";
    SYS_exit: Allow, "a thread's end";
    SYS_exit_group: Allow, "the process's end";
    SYS_wait4: Allow, "os.waitpid";
    SYS_waitid: Allow, "os.waitid; asyncio's child watchers";
    SYS_set_tid_address: Allow, "the start of every process";
    SYS_set_robust_list: Allow, "the start of every thread";
    SYS_rseq: Allow, "the start of every thread; glibc 2.35";
    SYS_futex: Allow, "locks, conditions, joining threads";
    SYS_getpid: Allow, "os.getpid; tempfile's names";
    SYS_getppid: Allow, "os.getppid; multiprocessing";
    SYS_gettid: Allow, "threading.get_native_id";
    SYS_getuid: Allow, "the start of Python";
    SYS_geteuid: Allow, "the start of Python; SQLite";
    SYS_getgid: Allow, "the start of Python";
    SYS_getegid: Allow, "the start of Python";
    SYS_getresuid: Allow, "os.getresuid";
    SYS_getresgid: Allow, "os.getresgid";
    SYS_getgroups: Allow, "os.getgroups";
    SYS_getpgid: Allow, "os.getpgid";
    SYS_getsid: Allow, "os.getsid";
    SYS_setpgid: Allow, "os.setpgid; subprocess";
    SYS_setsid: Answer(0), "os.setsid; each session has a share of the processors";
    SYS_kill: Allow, "os.kill; multiprocessing ends its workers";
    SYS_tkill: Allow, "raise() on musl";
    SYS_tgkill: Allow, "raise(), abort(), pthread_kill";
    SYS_rt_sigaction: Allow, "signal.signal; the start of Python";
    SYS_rt_sigprocmask: Allow, "signal.pthread_sigmask; every thread's start";
    SYS_rt_sigreturn: Allow, "the return from every signal handler";
    SYS_rt_sigpending: Allow, "signal.sigpending";
    SYS_rt_sigsuspend: Allow, "signal.pause on aarch64; sigsuspend";
    SYS_rt_sigtimedwait: Allow, "signal.sigwait";
    SYS_sigaltstack: Allow, "faulthandler";
    SYS_rt_sigqueueinfo: Deny, "signals that pretend another sender";
    SYS_rt_tgsigqueueinfo: Deny, "signals that pretend another sender";
    SYS_restart_syscall: Allow, "the kernel itself, after a stopped sleep";
    SYS_sched_yield: Allow, "time.sleep(0); spinning locks";
    SYS_sched_getaffinity: Allow, "os.process_cpu_count; thread pools";
    SYS_sched_getscheduler: Allow, "os.sched_getscheduler";
    SYS_sched_getparam: Allow, "os.sched_getparam";
    SYS_sched_getattr: Allow, "newer C libraries' sched_getscheduler";
    SYS_sched_get_priority_max: Allow, "os.sched_get_priority_max";
    SYS_sched_get_priority_min: Allow, "os.sched_get_priority_min";
    SYS_sched_rr_get_interval: Allow, "os.sched_rr_get_interval";
    SYS_sched_setaffinity: Deny, "leaves the processors it was given";
    SYS_sched_setscheduler: Deny, "takes the processor ahead of the server";
    SYS_sched_setparam: Deny, "takes the processor ahead of the server";
    SYS_sched_setattr: Deny, "takes the processor ahead of the server";
    SYS_getpriority: Allow, "os.getpriority";
    SYS_setpriority: Deny, "changes the priority of the user's processes";
    SYS_ioprio_set: Deny, "takes the disk ahead of the server";
    SYS_getcpu: Allow, "C libraries where no shared page answers";
    SYS_getrusage: Allow, "resource.getrusage";
    SYS_times: Allow, "os.times";
    SYS_prlimit64: DenyIf(OTHER_LIMIT), "resource; another process's limits are not its own";
    SYS_prctl: DenyIf(OTHER_OPTION), "names of threads; others undo what the launcher set";
    SYS_personality: DenyIf(NEW_PERSONALITY), "reads it; a new one undoes random addresses";
    SYS_capget: Allow, "os and psutil-like libraries ask for capabilities";
    SYS_capset: Deny, "changes capabilities; the launcher dropped them";
    SYS_setuid: Deny, "becomes another user";
    SYS_setgid: Deny, "becomes another group";
    SYS_setreuid: Deny, "becomes another user";
    SYS_setregid: Deny, "becomes another group";
    SYS_setresuid: Deny, "becomes another user";
    SYS_setresgid: Deny, "becomes another group";
    SYS_setfsuid: Deny, "opens files as another user";
    SYS_setfsgid: Deny, "opens files as another group";
    SYS_setgroups: Deny, "drops a group that a file denies access to";
    SYS_unshare: Deny, "new namespaces open CVE-2022-0185, CVE-2024-1086";
    SYS_setns: Deny, "enters another process's namespaces";
    SYS_ptrace: Deny, "rewrites another process (CVE-2019-13272)";
    SYS_kcmp: Deny, "compares kernel objects of processes";
    SYS_pidfd_open: Deny, "a handle on another process; asyncio does without";
    SYS_pidfd_getfd: Deny, "takes a descriptor out of another process";
    SYS_pidfd_send_signal: Deny, "signals across namespaces by a handle";
};

/// The rules for calls that only programs for `x86_64` make. `getrlimit` and `setrlimit` exist on `aarch64` too, but
/// have no rule there. So they fail with `ENOSYS`, and libraries use `prlimit64`.
#[cfg(target_arch = "x86_64")]
pub(super) static LEGACY_ROWS: &[Row] = rows! {
    SYS_arch_prctl: Allow, "every thread's start sets its base register";
    SYS_fork: DenyInOneProcess, "musl's fork";
    SYS_vfork: AbsentForScripts, "subprocess of projects; shares memory, see clone";
    SYS_getpgrp: Allow, "os.getpgrp";
    SYS_pause: Allow, "signal.pause";
    SYS_getrlimit: Allow, "code that predates prlimit64";
    SYS_setrlimit: DenyIf(DESCRIPTOR_LIMIT), "code that predates prlimit64";
    SYS_modify_ldt: Deny, "16-bit segments, a rarely tested part of the kernel";
    SYS_uselib: Deny, "loads a library as the kernel did in 1995";
};
