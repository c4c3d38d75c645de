//! The rules for calls on the metadata of a file: mode, owner, times and extended attributes.
//!
//! Landlock does not control metadata. Reading metadata is harmless. Writing is allowed at tier 3, where a mount
//! namespace hides other files, and denied at tier 2. These rules never depend on the path.

use super::table::Rule::{Allow, DenyAtTier2};
use super::table::{Row, rows};

/// The number of `fchmodat2`. It is the same on `x86_64` and `aarch64`, but `libc` defines it for only one of them.
const SYS_FCHMODAT2: i64 = 452;

pub(super) static ROWS: &[Row] = rows! {
    SYS_fchmod: DenyAtTier2, "SQLite's journals; a readable file's mode at tier 2";
    SYS_fchmodat: DenyAtTier2, "os.chmod; any file's mode at tier 2";
    SYS_fchmodat2 = SYS_FCHMODAT2: DenyAtTier2, "os.chmod since glibc 2.39; any mode at tier 2";
    SYS_fchown: DenyAtTier2, "SQLite, which ignores a failure; owners at tier 2";
    SYS_fchownat: DenyAtTier2, "shutil.chown, tarfile; any file's owner at tier 2";
    SYS_utimensat: DenyAtTier2, "shutil.copystat; hides changes at tier 2";
    SYS_setxattr: DenyAtTier2, "shutil.copystat; marks any file at tier 2";
    SYS_lsetxattr: DenyAtTier2, "shutil.copystat; marks any file at tier 2";
    SYS_fsetxattr: DenyAtTier2, "os.setxattr; marks a readable file at tier 2";
    SYS_removexattr: DenyAtTier2, "os.removexattr; unmarks any file at tier 2";
    SYS_lremovexattr: DenyAtTier2, "os.removexattr; unmarks any file at tier 2";
    SYS_fremovexattr: DenyAtTier2, "os.removexattr; unmarks a readable file at tier 2";
    SYS_getxattr: Allow, "shutil.copystat";
    SYS_lgetxattr: Allow, "shutil.copystat";
    SYS_fgetxattr: Allow, "os.getxattr";
    SYS_listxattr: Allow, "shutil.copystat";
    SYS_llistxattr: Allow, "shutil.copystat";
    SYS_flistxattr: Allow, "os.listxattr";
};

/// The rules for calls that only `x86_64` still has.
#[cfg(target_arch = "x86_64")]
pub(super) static LEGACY_ROWS: &[Row] = rows! {
    SYS_chmod: DenyAtTier2, "os.chmod; any file's mode at tier 2";
    SYS_chown: DenyAtTier2, "shutil.chown, tarfile; any file's owner at tier 2";
    SYS_lchown: DenyAtTier2, "tarfile; any link's owner at tier 2";
    SYS_utime: DenyAtTier2, "code that predates utimensat; times at tier 2";
    SYS_utimes: DenyAtTier2, "musl; hides changes at tier 2";
    SYS_futimesat: DenyAtTier2, "code that predates utimensat; times at tier 2";
};
