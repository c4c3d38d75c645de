//! Contains the Linux code that several processes of a run share, such as filters, control groups and process lists.
//! This module never decides which limits a run gets.

pub(super) mod addresses;
pub(super) mod capabilities;
mod control_group;
pub(super) mod fixed;
pub(super) mod identity;
pub(super) mod libraries;
pub(super) mod memory;
pub mod process_tree;
pub(super) mod processor;
pub(super) mod signal_scope;
pub(super) mod syscalls;

pub use addresses::can_fix_addresses;
pub use control_group::{ControlGroup, ControlGroups};
pub use identity::script_user;
pub use memory::{Look, MemoryWatch, WATCH_INTERVAL};
pub use processor::{OnlyProcessor, ProcessorTime, lower_cpu_weight, pin_to_least_used_processor};
pub(crate) use signal_scope::SignalScope;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use super::error::{OrFail, OsError};
use super::{LaunchError, NOBODY, Plan, Tier};

/// True, because the server supports the kernel sandbox of this system.
pub const IS_SUPPORTED: bool = true;

/// False, because only macOS has Seatbelt.
pub const HAS_SEATBELT: bool = false;

/// The devices that a run may use. The flag is true if the run may also write. These devices store no data, so a run
/// cannot pass data to another run through them.
pub(super) const DEVICES: [(&str, bool); 3] =
    [("/dev/null", true), ("/dev/zero", false), ("/dev/urandom", false)];

/// The folder for POSIX shared memory in a run's own file tree (`shm_overview(7)`).
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// The message that init and the launcher send to the supervisor when they are ready.
pub(super) const READY: [u8; 1] = *b"\n";

/// Decodes a path from `/proc`, in which the kernel writes special characters as a backslash and three octal digits.
pub(super) fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, behind @ ..] = rest {
        let digits = behind.get(..3).filter(|_| *first == b'\\');
        let code =
            digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { behind.get(3..).unwrap_or_default() } else { behind };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

impl From<rustix::io::Errno> for OsError {
    fn from(error: rustix::io::Errno) -> Self {
        std::io::Error::from(error).into()
    }
}
