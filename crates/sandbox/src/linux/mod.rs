//! Linux, as several processes of a run use it: its layers and tables, and its lists of processes.

pub(super) mod addresses;
pub(super) mod capabilities;
mod control_group;
pub(super) mod identity;
pub(super) mod memory;
pub mod process_tree;
pub(super) mod processor;
pub(super) mod signal_scope;
pub(super) mod syscalls;

pub use addresses::can_fix_addresses;
pub use control_group::{ControlGroup, ControlGroups};
pub use identity::script_user;
pub use memory::{Look, MemoryWatch, WATCH_INTERVAL};
pub use processor::{ProcessorTime, lower_beside};
pub(crate) use signal_scope::SignalScope;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use super::error::{OrFail, OsError};
use super::{LaunchError, NOBODY, Plan, Tier};

/// Tells that this system has a kernel sandbox that the server knows.
pub const IS_SUPPORTED: bool = true;

/// Tells that this system has no Seatbelt, which is that of macOS.
pub const HAS_SEATBELT: bool = false;

/// Devices without state, and whether they may be written.
pub(super) const DEVICES: [(&str, bool); 3] =
    [("/dev/null", true), ("/dev/zero", false), ("/dev/urandom", false)];

/// The place of shared memory in a run's own file tree (`shm_overview(7)`).
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// Written by an init and a launcher to the supervisor when they are ready.
pub(super) const READY: [u8; 1] = *b"\n";

/// Unescapes a path as the kernel writes it, with spaces and the like as three octal digits.
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
