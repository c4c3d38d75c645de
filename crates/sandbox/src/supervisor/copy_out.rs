//! The copying of artifacts out of a run's own file system to the machine's.
//!
//! Every process of the run is dead by then, and it could make plain files and folders only, so that
//! nothing changes meanwhile and nothing leads elsewhere. Even so no link is followed.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use qwed_files::folder::{Folder, Kind};

use crate::{ArtifactFolder, Order, Tier};

/// Folders that are nested deeper than artifacts are ever read from are not copied.
const DEPTH_MAX: usize = 32;

/// The folder to copy at the end of a run.
pub(super) struct CopyOut {
    /// The folder of the machine.
    target: Folder,
    /// The same path in the run's tree.
    source: PathBuf,
    bytes_max: u64,
}

impl CopyOut {
    /// Opens the folder of the machine, while it can be. `None` where the run writes to it itself, or
    /// leaves nothing.
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

    /// Copies the artifacts: best effort, because a run has ended however it ended. A file with holes
    /// claims more bytes than it takes; a file that exceeds the rest of the bound is left out.
    pub(super) fn copy(&self) {
        let mut bytes_left = self.bytes_max;
        let _ = open(&self.source)
            .and_then(|source| copy_folder(&source, &self.target, &mut bytes_left, DEPTH_MAX));
    }
}

/// Opens the folder at `path`, and no link in its place.
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
            // One that cannot be copied does not keep the others back.
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
    // Tests may have closed it for themselves.
    let _ = source.make_owners(name);
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
                // Nothing but a hole.
                return to.set_len(stat.bytes);
            }
            io::copy(&mut from.take(stat.bytes), &mut to)?;
            Ok(())
        }
        Kind::File | Kind::Other => Ok(()),
    }
}
