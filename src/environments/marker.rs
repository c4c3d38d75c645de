//! The marker: a file that describes a complete environment, in the environment's folder. An environment without a
//! marker is never used.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::startup::{RECORD_FILE, Startup};

/// The name of the marker in the folder of an environment.
pub(super) const MARKER: &str = RECORD_FILE;

/// The version of the marker's format.
const FORMAT: u32 = 1;

/// The maximum size of a marker, in bytes. The marker of an environment with the QWED packages is a few kilobytes long.
const MARKER_BYTES_MAX: u64 = 1024 * 1024;

/// The description of a complete environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    format: u32,
    pub(crate) created: DateTime<Utc>,
    /// The version of Python, as in `platform.python_version()`.
    pub(crate) python: String,
    /// The program that made the environment, and its version.
    pub(crate) tool: String,
    /// The version of qwed-mcp that made the environment.
    pub(crate) qwed_mcp: String,
    /// Whether the packages are from the lock file that qwed-mcp contains.
    pub(crate) is_sdk: bool,
    pub(crate) lock_sha256: String,
    /// The packages that the admin added, in the admin's spelling.
    pub(crate) with: Vec<String>,
    /// The versions of all packages, by name.
    pub(crate) packages: BTreeMap<String, String>,
    /// The record of the files that the environment's interpreter can read at startup. The record was made before
    /// packages were installed.
    pub(super) startup: Startup,
}

/// The part of a marker that every version of the format has.
#[derive(Deserialize)]
struct Versioned {
    format: u32,
}

/// The part of a marker that the builder provides. [`Marker::new`] adds the other fields.
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

    /// Reads a marker. Returns an error if the content is not a marker, or has another version of the format.
    pub(super) fn read(file: &File) -> io::Result<Self> {
        let mut bytes = Vec::new();
        file.take(MARKER_BYTES_MAX).read_to_end(&mut bytes)?;
        let Versioned { format } = serde_json::from_slice(&bytes)?;
        if format != FORMAT {
            return Err(io::Error::other("another version of qwed-mcp wrote the file"));
        }
        Ok(serde_json::from_slice(&bytes)?)
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}
