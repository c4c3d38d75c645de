//! The layers, tables and process lists of Linux that several processes of a run use. It never decides which of them a
//! run gets.

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

/// True, because the server supports the kernel sandbox of this system.
pub const IS_SUPPORTED: bool = true;

/// False, because only macOS has Seatbelt.
pub const HAS_SEATBELT: bool = false;

/// Devices without state, and whether they are writable.
pub(super) const DEVICES: [(&str, bool); 3] =
    [("/dev/null", true), ("/dev/zero", false), ("/dev/urandom", false)];

/// The path of shared memory in a run's own file tree (`shm_overview(7)`).
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// Sent by init and by a launcher to the supervisor when they are ready.
pub(super) const READY: [u8; 1] = *b"\n";

/// Unescapes a path from the kernel, in which spaces and some other characters are three octal digits after a
/// backslash.
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
