//! Calls on the contents of files and on names in directories, pipes included.
//!
//! Which files they may reach is Landlock's decision; this group only says which calls exist.

use nix::libc;

use super::table::{
    ByRun, Condition, Row, absent_for_scripts, allow, answer, answer_done, by_run, deny, deny_if,
    has_bit, is, is_not,
};

/// Commands of `fcntl` that Python and its libraries use. Not among them: `F_SETOWN` and `F_SETSIG`
/// (signals to a chosen process), `F_SETLEASE` and `F_NOTIFY` (make others wait, watch them) and
/// `F_SETPIPE_SZ` (pipe memory is counted per user, and the server has pipes too). The command is
/// an `unsigned int`.
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

/// Record locks (`fcntl_locking(2)`). A lock takes memory that nothing bounds, also on a file that
/// can only be read, where it holds up whoever else locks the file and is seen by other runs. So a
/// script's locks are answered and not taken. In one process that is no difference: its own locks
/// never exclude it, and no other process can open its files. Between processes of one script they
/// do not exclude either. Locks that belong to an open file (`F_OFD_SETLK`) would exclude within a
/// process, and are refused.
const COMMANDS: ByRun = ByRun {
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

/// `CLOSE_RANGE_UNSHARE`, which gives a thread descriptors of its own, which nobody counts. The flags
/// are an `unsigned int`.
const OWN_DESCRIPTORS: &[Condition] = &[&[has_bit(2, libc::CLOSE_RANGE_UNSHARE)]];

/// Commands of `ioctl` that Python and its libraries use: what a terminal is (`isatty`, answered
/// from `TCGETS2` since glibc 2.42), non-blocking and close-on-exec flags, bytes waiting in a pipe,
/// and `FICLONE`, which `pathlib` tries first in 3.14 and only some errors make it go on. The
/// command is an `unsigned int`; written out, since the constants of `libc` differ in type.
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

/// On `aarch64` the number exists too, and glibc uses it there, but `libc` does not name it.
#[cfg(target_arch = "x86_64")]
const SYS_RENAMEAT: i64 = libc::SYS_renameat;
#[cfg(not(target_arch = "x86_64"))]
const SYS_RENAMEAT: i64 = 38;

pub(super) static ROWS: &[Row] = &[
    allow(libc::SYS_openat, "openat", "every open() and import"),
    allow(libc::SYS_close, "close", "every file"),
    deny_if(
        libc::SYS_close_range,
        "close_range",
        OWN_DESCRIPTORS,
        "subprocess closes descriptors; glibc 2.34",
    ),
    allow(libc::SYS_read, "read", "every file"),
    allow(libc::SYS_pread64, "pread64", "the dynamic linker; SQLite; os.pread"),
    allow(libc::SYS_readv, "readv", "musl's stdio; os.readv"),
    allow(libc::SYS_preadv, "preadv", "os.preadv"),
    allow(libc::SYS_preadv2, "preadv2", "os.preadv"),
    allow(libc::SYS_write, "write", "every file"),
    allow(libc::SYS_pwrite64, "pwrite64", "SQLite; os.pwrite"),
    allow(libc::SYS_writev, "writev", "musl's stdio; os.writev"),
    allow(libc::SYS_pwritev, "pwritev", "os.pwritev"),
    allow(libc::SYS_pwritev2, "pwritev2", "os.pwritev"),
    allow(libc::SYS_lseek, "lseek", "every file"),
    // What it sends to a socket or a pipe stays in memory as long as that is not read, a page for
    // each byte, and no limit counts it. The error is the one after which shutil.copyfile and pathlib
    // copy by themselves.
    answer(
        libc::SYS_sendfile,
        "sendfile",
        libc::ENOTSOCK,
        "pages held by sockets; copies do without",
    ),
    allow(libc::SYS_copy_file_range, "copy_file_range", "os.copy_file_range; pathlib's copy"),
    allow(libc::SYS_truncate, "truncate", "os.truncate; bounded by RLIMIT_FSIZE"),
    allow(libc::SYS_ftruncate, "ftruncate", "SQLite; shared memory; mmap"),
    allow(libc::SYS_fallocate, "fallocate", "posix_fallocate; numpy.memmap"),
    answer_done(
        libc::SYS_fadvise64,
        "fadvise64",
        "advice; drops what others have cached of a file",
    ),
    // Nothing of a run outlives it, so there is nothing to save; a shared file's disk is the machine's.
    answer_done(libc::SYS_fsync, "fsync", "SQLite's commits; on a library it stalls the disk"),
    answer_done(libc::SYS_fdatasync, "fdatasync", "SQLite's commits; as fsync"),
    absent_for_scripts(libc::SYS_flock, "flock", "lock files of projects; holds up other programs"),
    by_run(libc::SYS_fcntl, "fcntl", &COMMANDS, "descriptor flags; others signal strangers"),
    deny_if(
        libc::SYS_ioctl,
        "ioctl",
        OTHER_CONTROL,
        "isatty; TIOCSTI types for the user (CVE-2017-5226)",
    ),
    allow(libc::SYS_dup, "dup", "os.dup; redirection"),
    allow(libc::SYS_dup3, "dup3", "os.dup2 with inheritable=False"),
    allow(libc::SYS_pipe2, "pipe2", "os.pipe; multiprocessing"),
    allow(libc::SYS_newfstatat, "newfstatat", "os.stat on x86_64 and aarch64"),
    allow(libc::SYS_fstat, "fstat", "every open()"),
    allow(libc::SYS_statx, "statx", "Rust and newer C libraries' stat"),
    allow(libc::SYS_statfs, "statfs", "os.statvfs; glibc's shm_open"),
    allow(libc::SYS_fstatfs, "fstatfs", "os.fstatvfs; glibc's directory functions"),
    allow(libc::SYS_faccessat, "faccessat", "os.access"),
    allow(libc::SYS_faccessat2, "faccessat2", "os.access; glibc 2.33"),
    allow(libc::SYS_readlinkat, "readlinkat", "os.readlink; os.path.realpath"),
    allow(libc::SYS_getdents64, "getdents64", "os.listdir; imports"),
    allow(libc::SYS_getcwd, "getcwd", "os.getcwd"),
    allow(libc::SYS_chdir, "chdir", "os.chdir; a path beyond Landlock stays beyond it"),
    allow(libc::SYS_fchdir, "fchdir", "shutil.rmtree; os.fchdir"),
    allow(libc::SYS_mkdirat, "mkdirat", "os.mkdir"),
    allow(libc::SYS_unlinkat, "unlinkat", "os.unlink; shutil.rmtree"),
    allow(SYS_RENAMEAT, "renameat", "os.rename on aarch64, or with descriptors"),
    allow(libc::SYS_renameat2, "renameat2", "renaming without replacing"),
    allow(libc::SYS_linkat, "linkat", "os.link; glibc's sem_open"),
    allow(libc::SYS_symlinkat, "symlinkat", "os.symlink; Landlock judges what a link leads to"),
    allow(libc::SYS_umask, "umask", "os.umask"),
    deny(libc::SYS_mknodat, "mknodat", "a device node is a door to the device"),
    deny(libc::SYS_splice, "splice", "pipe pages that alias files (CVE-2022-0847)"),
    deny(libc::SYS_tee, "tee", "pipe pages that alias others'; nothing uses it"),
    deny(libc::SYS_vmsplice, "vmsplice", "maps user pages into pipes (CVE-2008-0600)"),
    deny(
        libc::SYS_memfd_create,
        "memfd_create",
        "a file to fill with code outside of Landlock's sight",
    ),
    deny(libc::SYS_sync, "sync", "stalls every disk of the machine"),
    deny(libc::SYS_syncfs, "syncfs", "stalls a whole disk"),
    deny(libc::SYS_quotactl_fd, "quotactl_fd", "reads and sets other users' disk quotas"),
    deny(
        libc::SYS_name_to_handle_at,
        "name_to_handle_at",
        "makes the handles that open_by_handle_at takes",
    ),
    deny(
        libc::SYS_open_by_handle_at,
        "open_by_handle_at",
        "opens files without a path (the Shocker exploit)",
    ),
    deny(libc::SYS_fanotify_init, "fanotify_init", "watches the files of the whole machine"),
    deny(libc::SYS_fanotify_mark, "fanotify_mark", "watches the files of the whole machine"),
];

/// Calls that only `x86_64` still has.
#[cfg(target_arch = "x86_64")]
pub(super) static LEGACY_ROWS: &[Row] = &[
    allow(libc::SYS_open, "open", "musl; code that predates openat"),
    allow(libc::SYS_creat, "creat", "code that predates open's flags"),
    allow(libc::SYS_stat, "stat", "glibc before 2.33; musl"),
    allow(libc::SYS_lstat, "lstat", "glibc before 2.33; musl"),
    allow(libc::SYS_access, "access", "the dynamic linker; os.access"),
    allow(libc::SYS_readlink, "readlink", "os.readlink; site"),
    allow(libc::SYS_getdents, "getdents", "code that predates getdents64"),
    allow(libc::SYS_dup2, "dup2", "os.dup2; redirection"),
    allow(libc::SYS_pipe, "pipe", "musl; code that predates pipe2"),
    allow(libc::SYS_mkdir, "mkdir", "os.mkdir"),
    allow(libc::SYS_rmdir, "rmdir", "os.rmdir"),
    allow(libc::SYS_unlink, "unlink", "os.unlink"),
    allow(libc::SYS_rename, "rename", "os.rename"),
    allow(libc::SYS_link, "link", "os.link; glibc's sem_open"),
    allow(libc::SYS_symlink, "symlink", "os.symlink"),
    deny(libc::SYS_mknod, "mknod", "a device node is a door to the device"),
];

/// Calls that only `x86_64` still has.
#[cfg(not(target_arch = "x86_64"))]
pub(super) static LEGACY_ROWS: &[Row] = &[];
