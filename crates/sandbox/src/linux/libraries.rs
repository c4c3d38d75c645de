//! Writes the shared libraries of this crate to files that a run can load. `build.rs` compiles the libraries. They work
//! with any C library. This module never decides which functions a library has.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::{Order, Role};

use super::fixed;

/// The library that replaces clocks and random bits by fixed values (`fixed.c`).
const FIXED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fixed.so"));

/// The library with the main loop of a fork server (`forks.c`).
const FORKS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/forks.so"));

/// The path of [`FORKS`] in the file tree of a fork server.
pub(crate) const FORKS_PATH: &str = "/.forks.so";

/// A shared library of this crate, and the path from which a run loads the library.
pub(crate) struct Library {
    pub(crate) path: PathBuf,
    content: &'static [u8],
}

impl Library {
    /// Returns the libraries of the run or fork server that `order` describes.
    pub(crate) fn of(order: &Order) -> Vec<Self> {
        let fixed = fixed::library(order).map(|path| Self { path, content: FIXED });
        let forks = (order.role == Role::ForkServer)
            .then(|| Self { path: FORKS_PATH.into(), content: FORKS });
        fixed.into_iter().chain(forks).collect()
    }

    /// Writes the library to a new file at `path` that every user can read.
    pub(crate) fn place(&self, path: &Path) -> io::Result<()> {
        let mut file = File::create_new(path)?;
        file.write_all(self.content)?;
        file.set_permissions(Permissions::from_mode(0o444))
    }
}
