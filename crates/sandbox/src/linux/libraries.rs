//! Places the shared libraries that this crate contains where a run finds them. Both are compiled for the target's
//! architecture (`build.rs`), and need no particular C library. This module never decides what the libraries do.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::{Order, Role};

use super::fixed;

/// The library that answers clocks and random bits from fixed values (`fixed.c`).
const FIXED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fixed.so"));

/// The library with the main loop of a fork server (`forks.c`).
const FORKS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/forks.so"));

/// The path at which a fork server finds its library.
pub(crate) const FORKS_PATH: &str = "/.forks.so";

/// A library, and the path at which the run finds it.
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

    /// Writes the library to `path`, readable to every user.
    pub(crate) fn place(&self, path: &Path) -> io::Result<()> {
        let mut file = File::create_new(path)?;
        file.write_all(self.content)?;
        file.set_permissions(Permissions::from_mode(0o444))
    }
}
