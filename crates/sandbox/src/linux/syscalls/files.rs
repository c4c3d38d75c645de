//! The rules for calls on the content of files and pipes, and on directory entries.
//!
//! These rules never decide which files a call may reach; Landlock does.

use nix::libc;

use super::table::Rule::{AbsentForScripts, Allow, Answer, ByRun, Deny, DenyIf};
use super::table::{Condition, Row, RunConditions, has_bit, is, is_not, rows};

/// Matches all commands of `fcntl` that Python and its libraries do not use. Among them are `F_SETOWN` and `F_SETSIG`
/// (signals to a chosen process), `F_SETLEASE` and `F_NOTIFY` (delay and watch other processes) and `F_SETPIPE_SZ`
/// (pipe memory is counted per user, and the server has pipes too). The command is an `unsigned int`.
const OTHER_COMMAND: &[Condition] = &[&[
    is_not(1, libc::F_DUPFD.cast_unsigned()),
    is_not(1, libc::F_DUPFD_CLOEXEC.cast_unsigned()),
    is_not(1, libc::F_GETFD.cast_unsigned()),
    is_not(1, libc::F_SETFD.cast_unsigned()),
    is_not(1, libc::F_GETFL.cast_unsigned()),
    is_not(1, libc::F_SETFL.cast_unsigned()),
    is_not(1, libc::F_GETLK.cast_unsigned()),
    is_not(1, libc::F_SETLK.cast_unsigned()),
    is_not(1, libc::F_SETLKW.cast_unsigned()),
    is_not(1, libc::F_OFD_GETLK.cast_unsigned()),
    is_not(1, libc::F_OFD_SETLK.cast_unsigned()),
    is_not(1, libc::F_OFD_SETLKW.cast_unsigned()),
    is_not(1, libc::F_GETPIPE_SZ.cast_unsigned()),
    is_not(1, libc::F_GET_SEALS.cast_unsigned()),
]];

/// The rules for `fcntl`, especially for record locks (`fcntl_locking(2)`). A script's request for a lock succeeds, but
/// the kernel takes no lock, for three reasons. A lock takes memory that no limit bounds. A lock on a file that the
/// script may only read would block other programs that lock the file. And other runs could see the lock. A script of
/// one process notices no difference, because a process's own locks never block it, and no other process can open its
/// files. If a script has several processes, the locks have no effect between these processes. Open file description
/// locks (`F_OFD_SETLK`) would also exclude threads of one process, so a request for such a lock fails.
const COMMANDS: RunConditions = RunConditions {
    always: OTHER_COMMAND,
    in_one_process: &[],
    for_scripts: &[
        &[is(1, libc::F_OFD_SETLK.cast_unsigned())],
        &[is(1, libc::F_OFD_SETLKW.cast_unsigned())],
    ],
    answered_for_scripts: &[
        &[is(1, libc::F_SETLK.cast_unsigned())],
        &[is(1, libc::F_SETLKW.cast_unsigned())],
    ],
};

/// Matches `CLOSE_RANGE_UNSHARE`, which gives a thread its own table of descriptors. The memory watch does not count
/// the descriptors in such a table. The flags are an `unsigned int`.
const OWN_DESCRIPTORS: &[Condition] = &[&[has_bit(2, libc::CLOSE_RANGE_UNSHARE)]];

/// Matches all commands of `ioctl` that Python and its libraries do not use. The allowed commands read the properties
/// of a terminal (`isatty`, which uses `TCGETS2` since glibc 2.42), set the non-blocking and close-on-exec flags, and
/// read the number of bytes in a pipe. `FICLONE` is also allowed: Python 3.14's `pathlib` tries `FICLONE` first, and
/// falls back to a copy only after some errors. The command is an `unsigned int`. The values are written out, because
/// the constants in `libc` differ in type.
const OTHER_CONTROL: &[Condition] = &[&[
    is_not(1, TCGETS),
    is_not(1, TCGETS2),
    is_not(1, TIOCGWINSZ),
    is_not(1, FIONREAD),
    is_not(1, FIONBIO),
    is_not(1, FIOCLEX),
    is_not(1, FIONCLEX),
    is_not(1, FICLONE),
]];
pub(super) const TCGETS: u32 = 0x5401;
const TCGETS2: u32 = 0x802C_542A;
pub(super) const TIOCGWINSZ: u32 = 0x5413;
pub(super) const FIONREAD: u32 = 0x541B;
pub(super) const FIONBIO: u32 = 0x5421;
pub(super) const FIOCLEX: u32 = 0x5451;
pub(super) const FIONCLEX: u32 = 0x5450;
const FICLONE: u32 = 0x4004_9409;

/// The number of `renameat`. It is written out for `aarch64`, where glibc uses the call but `libc` does not define the
/// number.
#[cfg(target_arch = "x86_64")]
const SYS_RENAMEAT: i64 = libc::SYS_renameat;
#[cfg(not(target_arch = "x86_64"))]
const SYS_RENAMEAT: i64 = 38;

pub(super) static ROWS: &[Row] = rows! {
    SYS_openat: Allow, "every open() and import";
    SYS_close: Allow, "every file";
    SYS_close_range: DenyIf(OWN_DESCRIPTORS), "subprocess closes descriptors; glibc 2.34";
    SYS_read: Allow, "every file";
    SYS_pread64: Allow, "the dynamic linker; SQLite; os.pread";
    SYS_readv: Allow, "musl's stdio; os.readv";
    SYS_preadv: Allow, "os.preadv";
    SYS_preadv2: Allow, "os.preadv";
    SYS_write: Allow, "every file";
    SYS_pwrite64: Allow, "SQLite; os.pwrite";
    SYS_writev: Allow, "musl's stdio; os.writev";
    SYS_pwritev: Allow, "os.pwritev";
    SYS_pwritev2: Allow, "os.pwritev";
    SYS_lseek: Allow, "every file";
    // Data that sendfile sends to a socket or a pipe stays in memory until it is read. Each byte can occupy a whole
    // page, and no limit counts these pages. If sendfile fails with ENOTSOCK, shutil.copyfile and pathlib copy the data
    // themselves.
    SYS_sendfile: Answer(libc::ENOTSOCK), "pages held by sockets; copies do without";
    SYS_copy_file_range: Allow, "os.copy_file_range; pathlib's copy";
    SYS_truncate: Allow, "os.truncate; bounded by RLIMIT_FSIZE";
    SYS_ftruncate: Allow, "SQLite; shared memory; mmap";
    SYS_fallocate: Allow, "posix_fallocate; numpy.memmap";
    SYS_fadvise64: Answer(0), "advice; drops what others have cached of a file";
    // Do nothing, because no file of a script outlives its run. If the call ran, a script could sync a file that it
    // shares with other programs, and stall their disk.
    SYS_fsync: Answer(0), "SQLite's commits; on a library it stalls the disk";
    SYS_fdatasync: Answer(0), "SQLite's commits; as fsync";
    SYS_flock: AbsentForScripts, "lock files of projects; holds up other programs";
    SYS_fcntl: ByRun(&COMMANDS), "descriptor flags; others signal strangers";
    SYS_ioctl: DenyIf(OTHER_CONTROL), "isatty; TIOCSTI types for the user (CVE-2017-5226)";
    SYS_dup: Allow, "os.dup; redirection";
    SYS_dup3: Allow, "os.dup2 with inheritable=False";
    SYS_pipe2: Allow, "os.pipe; multiprocessing";
    SYS_newfstatat: Allow, "os.stat on x86_64 and aarch64";
    SYS_fstat: Allow, "every open()";
    SYS_statx: Allow, "Rust and newer C libraries' stat";
    SYS_statfs: Allow, "os.statvfs; glibc's shm_open";
    SYS_fstatfs: Allow, "os.fstatvfs; glibc's directory functions";
    SYS_faccessat: Allow, "os.access";
    SYS_faccessat2: Allow, "os.access; glibc 2.33";
    SYS_readlinkat: Allow, "os.readlink; os.path.realpath";
    SYS_getdents64: Allow, "os.listdir; imports";
    SYS_getcwd: Allow, "os.getcwd";
    SYS_chdir: Allow, "os.chdir; a path beyond Landlock stays beyond it";
    SYS_fchdir: Allow, "shutil.rmtree; os.fchdir";
    SYS_mkdirat: Allow, "os.mkdir";
    SYS_unlinkat: Allow, "os.unlink; shutil.rmtree";
    SYS_renameat = SYS_RENAMEAT: Allow, "os.rename on aarch64, or with descriptors";
    SYS_renameat2: Allow, "renaming without replacing";
    SYS_linkat: Allow, "os.link; glibc's sem_open";
    SYS_symlinkat: Allow, "os.symlink; Landlock judges what a link leads to";
    SYS_umask: Allow, "os.umask";
    SYS_mknodat: Deny, "a device node is a door to the device";
    SYS_splice: Deny, "pipe pages that alias files (CVE-2022-0847)";
    SYS_tee: Deny, "pipe pages that alias others'; nothing uses it";
    SYS_vmsplice: Deny, "maps user pages into pipes (CVE-2008-0600)";
    SYS_memfd_create: Deny, "a file to fill with code outside of Landlock's sight";
    SYS_sync: Deny, "stalls every disk of the machine";
    SYS_syncfs: Deny, "stalls a whole disk";
    SYS_quotactl_fd: Deny, "reads and sets other users' disk quotas";
    SYS_name_to_handle_at: Deny, "makes the handles that open_by_handle_at takes";
    SYS_open_by_handle_at: Deny, "opens files without a path (the Shocker exploit)";
    SYS_fanotify_init: Deny, "watches the files of the whole machine";
    SYS_fanotify_mark: Deny, "watches the files of the whole machine";
};

/// The rules for calls that only `x86_64` still has.
#[cfg(target_arch = "x86_64")]
pub(super) static LEGACY_ROWS: &[Row] = rows! {
    SYS_open: Allow, "musl; code that predates openat";
    SYS_creat: Allow, "code that predates open's flags";
    SYS_stat: Allow, "glibc before 2.33; musl";
    SYS_lstat: Allow, "glibc before 2.33; musl";
    SYS_access: Allow, "the dynamic linker; os.access";
    SYS_readlink: Allow, "os.readlink; site";
    SYS_getdents: Allow, "code that predates getdents64";
    SYS_dup2: Allow, "os.dup2; redirection";
    SYS_pipe: Allow, "musl; code that predates pipe2";
    SYS_mkdir: Allow, "os.mkdir";
    SYS_rmdir: Allow, "os.rmdir";
    SYS_unlink: Allow, "os.unlink";
    SYS_rename: Allow, "os.rename";
    SYS_link: Allow, "os.link; glibc's sem_open";
    SYS_symlink: Allow, "os.symlink";
    SYS_mknod: Deny, "a device node is a door to the device";
};
