//! Clocks, random numbers and facts about the machine, and all by which one administers a machine.
//!
//! Most of the latter would fail for want of privilege too. They are denied here because in a user
//! namespace a process can have that privilege, and because their code is what kernel exploits use.

use nix::libc;

use super::table::{Row, allow, deny};

pub(super) static ROWS: &[Row] = &[
    allow(libc::SYS_clock_gettime, "clock_gettime", "time, where no shared page answers"),
    allow(libc::SYS_clock_getres, "clock_getres", "time.get_clock_info"),
    allow(libc::SYS_clock_nanosleep, "clock_nanosleep", "time.sleep"),
    allow(libc::SYS_nanosleep, "nanosleep", "musl's sleep; native libraries"),
    allow(libc::SYS_gettimeofday, "gettimeofday", "native libraries, where no shared page answers"),
    allow(libc::SYS_setitimer, "setitimer", "signal.setitimer"),
    allow(libc::SYS_getitimer, "getitimer", "signal.getitimer"),
    allow(libc::SYS_getrandom, "getrandom", "hash seeds, os.urandom, secrets"),
    allow(libc::SYS_uname, "uname", "platform; the start of glibc"),
    allow(libc::SYS_sysinfo, "sysinfo", "the memory's size; the load"),
    deny(libc::SYS_clock_settime, "clock_settime", "sets the machine's clock"),
    deny(libc::SYS_clock_adjtime, "clock_adjtime", "steers the machine's clock"),
    deny(libc::SYS_adjtimex, "adjtimex", "steers the machine's clock"),
    deny(libc::SYS_settimeofday, "settimeofday", "sets the machine's clock"),
    deny(libc::SYS_timer_create, "timer_create", "processor-time timers (CVE-2025-38352); unused"),
    deny(libc::SYS_sethostname, "sethostname", "renames the machine"),
    deny(libc::SYS_setdomainname, "setdomainname", "renames the machine's domain"),
    deny(libc::SYS_chroot, "chroot", "a new root confuses what paths mean"),
    deny(libc::SYS_pivot_root, "pivot_root", "a new root confuses what paths mean"),
    deny(libc::SYS_mount, "mount", "mounts over the files that others trust"),
    deny(libc::SYS_umount2, "umount2", "uncovers what a mount hides"),
    deny(libc::SYS_open_tree, "open_tree", "detaches a tree of mounts"),
    deny(libc::SYS_move_mount, "move_mount", "mounts over the files that others trust"),
    deny(libc::SYS_fsopen, "fsopen", "opens a file system to mount"),
    deny(libc::SYS_fsconfig, "fsconfig", "configures a file system (CVE-2022-0185)"),
    deny(libc::SYS_fsmount, "fsmount", "mounts a file system"),
    deny(libc::SYS_fspick, "fspick", "reconfigures a file system"),
    deny(libc::SYS_mount_setattr, "mount_setattr", "makes a read-only mount writable"),
    deny(libc::SYS_swapon, "swapon", "swaps to a chosen file"),
    deny(libc::SYS_swapoff, "swapoff", "stalls the machine"),
    deny(libc::SYS_reboot, "reboot", "stops the machine"),
    deny(libc::SYS_init_module, "init_module", "runs code in the kernel"),
    deny(libc::SYS_finit_module, "finit_module", "runs code in the kernel"),
    deny(libc::SYS_delete_module, "delete_module", "removes code from the kernel"),
    deny(libc::SYS_kexec_load, "kexec_load", "boots another kernel"),
    deny(libc::SYS_acct, "acct", "writes to a file about every process"),
    deny(libc::SYS_quotactl, "quotactl", "reads and sets other users' disk quotas"),
    deny(libc::SYS_syslog, "syslog", "tells kernel addresses"),
    deny(libc::SYS_vhangup, "vhangup", "hangs up the user's terminal"),
    deny(libc::SYS_lookup_dcookie, "lookup_dcookie", "tells paths of other processes' files"),
    deny(libc::SYS_nfsservctl, "nfsservctl", "steers a file server"),
    deny(libc::SYS_bpf, "bpf", "runs programs in the kernel (CVE-2021-3490)"),
    deny(libc::SYS_perf_event_open, "perf_event_open", "watches the kernel (CVE-2013-2094)"),
    deny(
        libc::SYS_io_uring_setup,
        "io_uring_setup",
        "does calls past this filter (CVE-2022-29582)",
    ),
    deny(
        libc::SYS_io_uring_enter,
        "io_uring_enter",
        "does calls past this filter (CVE-2022-29582)",
    ),
    deny(
        libc::SYS_io_uring_register,
        "io_uring_register",
        "does calls past this filter (CVE-2022-29582)",
    ),
    deny(libc::SYS_add_key, "add_key", "stores keys for others to find"),
    deny(libc::SYS_request_key, "request_key", "starts a helper program of the kernel"),
    deny(libc::SYS_keyctl, "keyctl", "reads keys of the user (CVE-2016-0728)"),
    deny(libc::SYS_shmget, "shmget", "memory shared with the user's other processes"),
    deny(libc::SYS_shmat, "shmat", "memory shared with the user's other processes"),
    deny(libc::SYS_shmctl, "shmctl", "removes memory that others share"),
    deny(libc::SYS_shmdt, "shmdt", "belongs to shmat"),
    deny(libc::SYS_semget, "semget", "semaphores of the user's other processes"),
    deny(libc::SYS_semop, "semop", "semaphores of the user's other processes"),
    deny(libc::SYS_semtimedop, "semtimedop", "semaphores of the user's other processes"),
    deny(libc::SYS_semctl, "semctl", "removes semaphores that others use"),
    deny(libc::SYS_msgget, "msgget", "messages of the user's other processes"),
    deny(libc::SYS_msgsnd, "msgsnd", "messages to the user's other processes"),
    deny(libc::SYS_msgrcv, "msgrcv", "takes messages meant for others"),
    deny(libc::SYS_msgctl, "msgctl", "removes queues that others use"),
    deny(libc::SYS_mq_open, "mq_open", "queues of the user's other processes"),
    deny(libc::SYS_mq_unlink, "mq_unlink", "removes queues that others use"),
    deny(libc::SYS_mq_timedsend, "mq_timedsend", "messages to the user's other processes"),
    deny(libc::SYS_mq_timedreceive, "mq_timedreceive", "takes messages meant for others"),
    deny(libc::SYS_mq_notify, "mq_notify", "a freed socket is used again (CVE-2017-11176)"),
    deny(libc::SYS_mq_getsetattr, "mq_getsetattr", "belongs to mq_open"),
];

/// Calls that only `x86_64` still has.
#[cfg(target_arch = "x86_64")]
pub(super) static LEGACY_ROWS: &[Row] = &[
    allow(libc::SYS_time, "time", "native libraries, where no shared page answers"),
    allow(libc::SYS_alarm, "alarm", "signal.alarm"),
    deny(libc::SYS_iopl, "iopl", "talks to the hardware"),
    deny(libc::SYS_ioperm, "ioperm", "talks to the hardware"),
    deny(libc::SYS_kexec_file_load, "kexec_file_load", "boots another kernel"),
];

/// Calls that only `x86_64` still has.
#[cfg(not(target_arch = "x86_64"))]
pub(super) static LEGACY_ROWS: &[Row] = &[];
