//! Defines the tiers of the sandbox. This module never decides which tier a run gets.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The first Landlock ABI that can restrict signals to the processes of a Landlock domain (Linux 6.12).
pub const SIGNAL_SCOPE_ABI: u8 = 6;

/// The set of layers that confine a run. A tier with more layers is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tier {
    /// No sandbox: the script runs with the rights of the server's user.
    #[serde(rename = "off")]
    Off,
    /// The run has rlimits, no capabilities and a seccomp filter. Files are not restricted.
    T1,
    /// macOS: Seatbelt and limits. The run is one process, which cannot fork.
    #[serde(rename = "seatbelt")]
    Seatbelt,
    /// The layers of [`Self::T1`], and Landlock for files, signals and abstract sockets (ABI 6, Linux 6.12).
    T2,
    /// The layers of [`Self::T1`], Landlock with any ABI, and namespaces. The run has its own file tree, PIDs, network
    /// and users.
    T3,
}

impl Tier {
    /// Returns the oldest Landlock ABI that is enough for this tier, or 0 if the tier does not use Landlock.
    ///
    /// Without namespaces, Landlock is the only barrier for files, signals and abstract sockets. ABI 6 is the first ABI
    /// that restricts signals and abstract sockets. Namespaces restrict signals and abstract sockets too. Landlock is
    /// then only a second barrier for files, so any ABI is enough.
    pub fn landlock_abi_min(self) -> u8 {
        match self {
            Self::Off | Self::T1 | Self::Seatbelt => 0,
            Self::T2 => SIGNAL_SCOPE_ABI,
            Self::T3 => 1,
        }
    }

    /// Returns whether this tier prevents scripts from reading files of the server's user outside of the readable
    /// paths.
    pub fn hides_files(self) -> bool {
        match self {
            Self::Off | Self::T1 => false,
            Self::Seatbelt | Self::T2 | Self::T3 => true,
        }
    }

    /// Returns the name used in `_meta`, logs and `doctor`.
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
