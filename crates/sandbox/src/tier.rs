//! The tiers of the sandbox.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The first Landlock ABI that keeps signals within a domain (Linux 6.12).
pub const SIGNAL_SCOPE_ABI: u8 = 6;

/// The layers that a run is held by. Ordered: more is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tier {
    /// No sandbox: the script runs with the rights of the server's user.
    #[serde(rename = "off")]
    Off,
    /// rlimits, no capabilities, seccomp. Files are open to the script.
    T1,
    /// macOS: Seatbelt, and limits. One process, that cannot fork.
    #[serde(rename = "seatbelt")]
    Seatbelt,
    /// As [`Self::T1`], and Landlock with its scopes (ABI 6, Linux 6.12).
    T2,
    /// As [`Self::T2`] with Landlock of any ABI, and namespaces: a file tree, process numbers,
    /// network and users of the run's own.
    T3,
}

impl Tier {
    /// Returns the oldest Landlock ABI that a tier can do with; 0 is none.
    ///
    /// Without namespaces everything hangs on Landlock: ABI 6 is the first that keeps signals and
    /// abstract sockets in. With namespaces that is done already, and any ABI is a second wall
    /// around the files.
    pub fn landlock_abi_min(self) -> u8 {
        match self {
            Self::Off | Self::T1 | Self::Seatbelt => 0,
            Self::T2 => SIGNAL_SCOPE_ABI,
            Self::T3 => 1,
        }
    }

    /// Returns the name in `_meta`, logs and `doctor`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::T1 => "T1",
            Self::Seatbelt => "seatbelt",
            Self::T2 => "T2",
            Self::T3 => "T3",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
