//! The rules for calls about clocks, random numbers and facts about the machine, and for all calls that administer a
//! machine.
//!
//! Most calls that administer a machine would fail without privilege anyway. They are denied here for two reasons: in a
//! user namespace a process can have the privilege, and kernel exploits use the code of these calls. The rules in this
//! module never depend on the tier.

use super::table::Rule::{Allow, Deny};
use super::table::{Row, rows};

/// The number of `kexec_file_load`. It is written out for `aarch64`, because `libc` does not define it for musl on
/// `aarch64`.
#[cfg(target_arch = "x86_64")]
const SYS_KEXEC_FILE_LOAD: i64 = nix::libc::SYS_kexec_file_load;
#[cfg(not(target_arch = "x86_64"))]
const SYS_KEXEC_FILE_LOAD: i64 = 294;

pub(super) static ROWS: &[Row] = rows! {
    SYS_clock_gettime: Allow, "time, where no shared page answers";
    SYS_clock_getres: Allow, "time.get_clock_info";
    SYS_clock_nanosleep: Allow, "time.sleep";
    SYS_nanosleep: Allow, "musl's sleep; native libraries";
    SYS_gettimeofday: Allow, "native libraries, where no shared page answers";
    SYS_setitimer: Allow, "signal.setitimer";
    SYS_getitimer: Allow, "signal.getitimer";
    SYS_getrandom: Allow, "hash seeds, os.urandom, secrets";
    SYS_uname: Allow, "platform; the start of glibc";
    SYS_sysinfo: Allow, "the memory's size; the load";
    SYS_clock_settime: Deny, "sets the machine's clock";
    SYS_clock_adjtime: Deny, "steers the machine's clock";
    SYS_adjtimex: Deny, "steers the machine's clock";
    SYS_settimeofday: Deny, "sets the machine's clock";
    SYS_timer_create: Deny, "processor-time timers (CVE-2025-38352); unused";
    SYS_sethostname: Deny, "renames the machine";
    SYS_setdomainname: Deny, "renames the machine's domain";
    SYS_chroot: Deny, "a new root confuses what paths mean";
    SYS_pivot_root: Deny, "a new root confuses what paths mean";
    SYS_mount: Deny, "mounts over the files that others trust";
    SYS_umount2: Deny, "uncovers what a mount hides";
    SYS_open_tree: Deny, "detaches a tree of mounts";
    SYS_move_mount: Deny, "mounts over the files that others trust";
    SYS_fsopen: Deny, "opens a file system to mount";
    SYS_fsconfig: Deny, "configures a file system (CVE-2022-0185)";
    SYS_fsmount: Deny, "mounts a file system";
    SYS_fspick: Deny, "reconfigures a file system";
    SYS_mount_setattr: Deny, "makes a read-only mount writable";
    SYS_swapon: Deny, "swaps to a chosen file";
    SYS_swapoff: Deny, "stalls the machine";
    SYS_reboot: Deny, "stops the machine";
    SYS_init_module: Deny, "runs code in the kernel";
    SYS_finit_module: Deny, "runs code in the kernel";
    SYS_delete_module: Deny, "removes code from the kernel";
    SYS_kexec_load: Deny, "boots another kernel";
    SYS_kexec_file_load = SYS_KEXEC_FILE_LOAD: Deny, "boots another kernel";
    SYS_acct: Deny, "writes to a file about every process";
    SYS_quotactl: Deny, "reads and sets other users' disk quotas";
    SYS_syslog: Deny, "tells kernel addresses";
    SYS_vhangup: Deny, "hangs up the user's terminal";
    SYS_lookup_dcookie: Deny, "tells paths of other processes' files";
    SYS_nfsservctl: Deny, "steers a file server";
    SYS_bpf: Deny, "runs programs in the kernel (CVE-2021-3490)";
    SYS_perf_event_open: Deny, "watches the kernel (CVE-2013-2094)";
    SYS_io_uring_setup: Deny, "does calls past this filter (CVE-2022-29582)";
    SYS_io_uring_enter: Deny, "does calls past this filter (CVE-2022-29582)";
    SYS_io_uring_register: Deny, "does calls past this filter (CVE-2022-29582)";
    SYS_add_key: Deny, "stores keys for others to find";
    SYS_request_key: Deny, "starts a helper program of the kernel";
    SYS_keyctl: Deny, "reads keys of the user (CVE-2016-0728)";
    SYS_shmget: Deny, "memory shared with the user's other processes";
    SYS_shmat: Deny, "memory shared with the user's other processes";
    SYS_shmctl: Deny, "removes memory that others share";
    SYS_shmdt: Deny, "belongs to shmat";
    SYS_semget: Deny, "semaphores of the user's other processes";
    SYS_semop: Deny, "semaphores of the user's other processes";
    SYS_semtimedop: Deny, "semaphores of the user's other processes";
    SYS_semctl: Deny, "removes semaphores that others use";
    SYS_msgget: Deny, "messages of the user's other processes";
    SYS_msgsnd: Deny, "messages to the user's other processes";
    SYS_msgrcv: Deny, "takes messages meant for others";
    SYS_msgctl: Deny, "removes queues that others use";
    SYS_mq_open: Deny, "queues of the user's other processes";
    SYS_mq_unlink: Deny, "removes queues that others use";
    SYS_mq_timedsend: Deny, "messages to the user's other processes";
    SYS_mq_timedreceive: Deny, "takes messages meant for others";
    SYS_mq_notify: Deny, "a freed socket is used again (CVE-2017-11176)";
    SYS_mq_getsetattr: Deny, "belongs to mq_open";
};

/// The rules for calls that only `x86_64` still has.
#[cfg(target_arch = "x86_64")]
pub(super) static LEGACY_ROWS: &[Row] = rows! {
    SYS_time: Allow, "native libraries, where no shared page answers";
    SYS_alarm: Allow, "signal.alarm";
    SYS_iopl: Deny, "talks to the hardware";
    SYS_ioperm: Deny, "talks to the hardware";
};
