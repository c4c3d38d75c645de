//! Calls on what is written about a file: its mode, owner, times and extended attributes.
//!
//! Landlock does not control them. Reading is harmless; writing is left to tier 3, where a mount
//! namespace keeps other files out of reach, and denied at tier 2.

use nix::libc;

use super::table::{Row, allow, deny_at_tier_2};

/// The same number on both architectures; `libc` names it on one of them only.
const SYS_FCHMODAT2: i64 = 452;

pub(super) static ROWS: &[Row] = &[
    deny_at_tier_2(
        libc::SYS_fchmod,
        "fchmod",
        "SQLite's journals; a readable file's mode at tier 2",
    ),
    deny_at_tier_2(libc::SYS_fchmodat, "fchmodat", "os.chmod; any file's mode at tier 2"),
    deny_at_tier_2(SYS_FCHMODAT2, "fchmodat2", "os.chmod since glibc 2.39; any mode at tier 2"),
    deny_at_tier_2(libc::SYS_fchown, "fchown", "SQLite, which ignores a failure; owners at tier 2"),
    deny_at_tier_2(
        libc::SYS_fchownat,
        "fchownat",
        "shutil.chown, tarfile; any file's owner at tier 2",
    ),
    deny_at_tier_2(libc::SYS_utimensat, "utimensat", "shutil.copystat; hides changes at tier 2"),
    deny_at_tier_2(libc::SYS_setxattr, "setxattr", "shutil.copystat; marks any file at tier 2"),
    deny_at_tier_2(libc::SYS_lsetxattr, "lsetxattr", "shutil.copystat; marks any file at tier 2"),
    deny_at_tier_2(
        libc::SYS_fsetxattr,
        "fsetxattr",
        "os.setxattr; marks a readable file at tier 2",
    ),
    deny_at_tier_2(
        libc::SYS_removexattr,
        "removexattr",
        "os.removexattr; unmarks any file at tier 2",
    ),
    deny_at_tier_2(
        libc::SYS_lremovexattr,
        "lremovexattr",
        "os.removexattr; unmarks any file at tier 2",
    ),
    deny_at_tier_2(
        libc::SYS_fremovexattr,
        "fremovexattr",
        "os.removexattr; unmarks a readable file at tier 2",
    ),
    allow(libc::SYS_getxattr, "getxattr", "shutil.copystat"),
    allow(libc::SYS_lgetxattr, "lgetxattr", "shutil.copystat"),
    allow(libc::SYS_fgetxattr, "fgetxattr", "os.getxattr"),
    allow(libc::SYS_listxattr, "listxattr", "shutil.copystat"),
    allow(libc::SYS_llistxattr, "llistxattr", "shutil.copystat"),
    allow(libc::SYS_flistxattr, "flistxattr", "os.listxattr"),
];

/// Calls that only `x86_64` still has.
#[cfg(target_arch = "x86_64")]
pub(super) static LEGACY_ROWS: &[Row] = &[
    deny_at_tier_2(libc::SYS_chmod, "chmod", "os.chmod; any file's mode at tier 2"),
    deny_at_tier_2(libc::SYS_chown, "chown", "shutil.chown, tarfile; any file's owner at tier 2"),
    deny_at_tier_2(libc::SYS_lchown, "lchown", "tarfile; any link's owner at tier 2"),
    deny_at_tier_2(libc::SYS_utime, "utime", "code that predates utimensat; times at tier 2"),
    deny_at_tier_2(libc::SYS_utimes, "utimes", "musl; hides changes at tier 2"),
    deny_at_tier_2(
        libc::SYS_futimesat,
        "futimesat",
        "code that predates utimensat; times at tier 2",
    ),
];

/// Calls that only `x86_64` still has.
#[cfg(not(target_arch = "x86_64"))]
pub(super) static LEGACY_ROWS: &[Row] = &[];
