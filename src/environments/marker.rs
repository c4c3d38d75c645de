//! The marker of a complete environment: what is in it. An environment without one does not exist.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::startup::{RECORD_FILE, Startup};

/// The file in the folder of an environment.
pub(super) const MARKER: &str = RECORD_FILE;

/// The version of what is in it.
const FORMAT: u32 = 1;

/// The largest marker: the QWED packages take some kilobytes.
const MARKER_BYTES_MAX: u64 = 1024 * 1024;

/// The account of a complete environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    format: u32,
    pub(crate) created: DateTime<Utc>,
    /// As `platform.python_version()` has it.
    pub(crate) python: String,
    /// The program that made it, and its version.
    pub(crate) tool: String,
    /// The version of this program.
    pub(crate) qwed_mcp: String,
    /// True if the packages are those that this program locks.
    pub(crate) is_sdk: bool,
    /// The hash of the lock.
    pub(crate) lock_sha256: String,
    /// The packages that were asked for besides, as they were.
    pub(crate) with: Vec<String>,
    /// All packages, by their names, with their versions.
    pub(crate) packages: BTreeMap<String, String>,
    /// The files that it started with before packages were installed.
    pub(super) startup: Startup,
}

/// The parts of a marker that its maker chose.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) python: String,
    pub(super) tool: String,
    pub(super) is_sdk: bool,
    pub(super) lock_sha256: String,
    pub(super) with: Vec<String>,
    pub(super) packages: BTreeMap<String, String>,
    pub(super) startup: Startup,
}

impl Marker {
    pub(super) fn new(made: Made) -> Self {
        let Made { python, tool, is_sdk, lock_sha256, with, packages, startup } = made;
        let (created, qwed_mcp) = (Utc::now(), env!("CARGO_PKG_VERSION").to_owned());
        Self {
            format: FORMAT,
            created,
            python,
            tool,
            qwed_mcp,
            is_sdk,
            lock_sha256,
            with,
            packages,
            startup,
        }
    }

    /// Reads a marker; anything else is an invalid input, also one of a later version.
    pub(super) fn read(file: &File) -> io::Result<Self> {
        let mut bytes = Vec::new();
        file.take(MARKER_BYTES_MAX).read_to_end(&mut bytes)?;
        let marker: Self = serde_json::from_slice(&bytes)?;
        let is_known = marker.format == FORMAT;
        is_known.then_some(marker).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}
