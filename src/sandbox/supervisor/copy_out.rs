//! What a run has left in a file system of its own, copied to the machine's.
//!
//! Every process of the run is dead by then, and it could make plain files and folders only, so that
//! nothing changes meanwhile and nothing leads elsewhere. Even so no link is followed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use nix::dir::Dir;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmodat, fstat, mkdirat};

use super::super::{LeftFolder, Order, Tier};

/// Folders that are nested deeper than artifacts are ever read from are not copied.
const DEPTH_MAX: usize = 32;

/// What is to be copied where.
pub(super) struct Left {
    /// The folder of the machine.
    target: OwnedFd,
    /// The same path in the run's tree.
    source: PathBuf,
    bytes_max: u64,
}

impl Left {
    /// Opens the folder of the machine, while it can be. None where the run writes to it itself, or
    /// leaves nothing.
    pub(super) fn prepare(order: &Order) -> io::Result<Option<Self>> {
        let Some(LeftFolder { path, bytes_max, .. }) = &order.plan.left else { return Ok(None) };
        if order.plan.tier < Tier::T3 {
            return Ok(None);
        }
        let target = open(path, FOLDER, Mode::empty())?;
        Ok(Some(Self { target, source: path.clone(), bytes_max: *bytes_max }))
    }

    /// Copies what is there: best effort, because a run has ended however it ended. A file with
    /// holes says that it has more than it takes; what would be more than may be left is left out.
    pub(super) fn copy(&self) {
        let mut bytes_left = self.bytes_max;
        if let Ok(source) = open(&self.source, FOLDER, Mode::empty()) {
            let _ = copy_folder(source, &self.target, &mut bytes_left, DEPTH_MAX);
        }
    }
}

const FOLDER: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

fn copy_folder(
    source: OwnedFd,
    target: &OwnedFd,
    bytes_left: &mut u64,
    depth_left: usize,
) -> io::Result<()> {
    if depth_left == 0 {
        return Ok(());
    }
    let mut source = Dir::from_fd(source)?;
    let names: Result<Vec<_>, _> =
        source.iter().map(|entry| entry.map(|entry| entry.file_name().to_owned())).collect();
    for name in names? {
        let name = OsStr::from_bytes(name.to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        // One that cannot be copied does not keep the others back.
        let _ = copy_entry(&source, target, name, bytes_left, depth_left);
    }
    Ok(())
}

fn copy_entry(
    source: &Dir,
    target: &OwnedFd,
    name: &OsStr,
    bytes_left: &mut u64,
    depth_left: usize,
) -> io::Result<()> {
    // Tests may have closed it for themselves.
    let _ = fchmodat(source.as_fd(), name, Mode::S_IRWXU, FchmodatFlags::NoFollowSymlink);
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let from = openat(source.as_fd(), name, flags, Mode::empty())?;
    let about = fstat(&from)?;
    let kind = SFlag::from_bits_truncate(about.st_mode & SFlag::S_IFMT.bits());
    if kind == SFlag::S_IFDIR {
        mkdirat(target, name, Mode::S_IRWXU)?;
        let below = openat(target, name, FOLDER, Mode::empty())?;
        return copy_folder(from, &below, bytes_left, depth_left - 1);
    }
    let bytes = u64::try_from(about.st_size).unwrap_or(u64::MAX);
    if kind != SFlag::S_IFREG || bytes > *bytes_left {
        return Ok(());
    }
    *bytes_left -= bytes;
    // Whatever mode it had, nobody else reads it, and nobody executes it.
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let to = openat(target, name, flags | OFlag::O_CLOEXEC, mode)?;
    let to = File::from(to);
    if about.st_blocks == 0 {
        // Nothing but a hole.
        return to.set_len(bytes);
    }
    io::copy(&mut File::from(from).take(bytes), &mut &to)?;
    Ok(())
}
