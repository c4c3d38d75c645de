//! Copies artifacts from a run's file system to the machine's file system. This module never follows a symlink.
//!
//! Every process of the run is dead before the copy begins, so nothing changes during the copy. The sandbox allowed
//! the run to create only regular files and folders.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use qwed_files::folder::{Folder, Kind};

use crate::{ArtifactFolder, Order, Tier};

/// The maximum depth of copied folders. Deeper folders are not copied, because artifacts are never read from them.
const DEPTH_MAX: usize = 32;

/// The artifact folder, which is copied at the end of a run.
pub(super) struct CopyOut {
    /// The folder of the machine, to which the artifacts are copied.
    target: Folder,
    /// The path of the same folder in the run's file tree, from which the artifacts are copied.
    source: PathBuf,
    bytes_max: u64,
}

impl CopyOut {
    /// Opens the machine's folder, which is reachable only before the launch. Returns `None` if the run writes to
    /// that folder directly, or has no artifacts.
    pub(super) fn prepare(order: &Order) -> io::Result<Option<Self>> {
        let Some(ArtifactFolder { path, bytes_max, .. }) = &order.plan.artifacts else {
            return Ok(None);
        };
        if order.plan.tier < Tier::T3 {
            return Ok(None);
        }
        let (source, bytes_max) = (path.clone(), *bytes_max);
        Ok(Some(Self { target: open(path)?, source, bytes_max }))
    }

    /// Copies the artifacts, at most `bytes_max` bytes. Skips a file that is larger than the remaining number of bytes.
    /// The size of a sparse file includes its holes. Ignores errors, because they cannot change how the run ended.
    pub(super) fn copy(&self) {
        let mut bytes_left = self.bytes_max;
        let _ = open(&self.source)
            .and_then(|source| copy_folder(&source, &self.target, &mut bytes_left, DEPTH_MAX));
    }
}

/// Opens the folder at `path`. Fails if it is a symlink.
fn open(path: &Path) -> io::Result<Folder> {
    let parent = Folder::open(path.parent().unwrap_or(path))?;
    parent.folder(path.file_name().unwrap_or_default())
}

fn copy_folder(
    source: &Folder,
    target: &Folder,
    bytes_left: &mut u64,
    depth_left: usize,
) -> io::Result<()> {
    if depth_left > 0 {
        for name in source.names(usize::MAX)? {
            // Ignore a failure: an entry that cannot be copied must not keep other entries from being copied.
            let _ = copy_entry(source, target, &name, bytes_left, depth_left);
        }
    }
    Ok(())
}

fn copy_entry(
    source: &Folder,
    target: &Folder,
    name: &OsStr,
    bytes_left: &mut u64,
    depth_left: usize,
) -> io::Result<()> {
    // Give the owner all rights first, because the run may have removed its own rights to the entry.
    let _ = source.grant_owner_all_rights(name);
    let stat = source.stat(name)?;
    match stat.kind {
        Kind::Folder => {
            let from = source.folder(name)?;
            target.create_folder(name)?;
            copy_folder(&from, &target.folder(name)?, bytes_left, depth_left - 1)
        }
        Kind::File if stat.bytes <= *bytes_left => {
            let from = source.linked_file(name)?;
            *bytes_left -= stat.bytes;
            let mut to = target.create_file(name)?;
            if stat.disk_bytes == 0 {
                // The whole file is a hole, so only its length is set.
                return to.set_len(stat.bytes);
            }
            io::copy(&mut from.take(stat.bytes), &mut to)?;
            Ok(())
        }
        Kind::File | Kind::Other => Ok(()),
    }
}
