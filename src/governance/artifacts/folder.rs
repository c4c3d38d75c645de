//! A folder by its descriptor: every name is looked up in it, and none leads out of it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};

/// How a disk counts what a file takes.
const BLOCK_BYTES: u64 = 512;

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

/// What a name stands for, itself: where it is a link, the link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stat {
    pub(super) kind: Kind,
    /// Whether its owner may read, write and enter it.
    pub(super) is_owners: bool,
    /// Whether another name stands for it too.
    has_more_links: bool,
    pub(super) bytes: u64,
    /// Not what a file with holes says that it has.
    pub(super) disk_bytes: u64,
    pub(super) modified: SystemTime,
    identity: Identity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    /// A link, a pipe, a socket, a device.
    Other,
}

/// The device and the inode: a folder keeps them when it is renamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity(nix::libc::dev_t, nix::libc::ino_t);

impl Stat {
    /// A regular file that has no other name. The other name of one that has could be anywhere: the
    /// file would be one that its owner never meant to show.
    pub(super) fn is_plain_file(&self) -> bool {
        self.kind == Kind::File && !self.has_more_links
    }
}

impl From<FileStat> for Stat {
    fn from(stat: FileStat) -> Self {
        let format = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        let kind = if format == SFlag::S_IFREG {
            Kind::File
        } else if format == SFlag::S_IFDIR {
            Kind::Folder
        } else {
            Kind::Other
        };
        let since_epoch = Duration::new(
            u64::try_from(stat.st_mtime).unwrap_or_default(),
            u32::try_from(stat.st_mtime_nsec).unwrap_or_default(),
        );
        Self {
            kind,
            is_owners: Mode::from_bits_truncate(stat.st_mode).contains(Mode::S_IRWXU),
            has_more_links: stat.st_nlink != 1,
            bytes: u64::try_from(stat.st_size).unwrap_or_default(),
            disk_bytes: u64::try_from(stat.st_blocks).unwrap_or_default() * BLOCK_BYTES,
            modified: SystemTime::UNIX_EPOCH
                .checked_add(since_epoch)
                .unwrap_or(SystemTime::UNIX_EPOCH),
            identity: Identity(stat.st_dev, stat.st_ino),
        }
    }
}

impl Folder {
    /// Opens the folder that a path of the admin's names; this one may be a link.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self(open(path, flags, Mode::empty())?))
    }

    /// Opens a folder in this one.
    pub(super) fn folder(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        match openat(&self.0, name, flags, Mode::empty()) {
            // Not every Unix says of a link that it is no folder.
            Err(Errno::ELOOP | Errno::EMLINK) => Err(io::ErrorKind::NotADirectory.into()),
            opened => Ok(Self(opened?)),
        }
    }

    /// Opens a plain file in this folder to read it; everything else is an invalid input.
    pub(super) fn file(&self, name: &OsStr) -> io::Result<File> {
        // Opening a device can already do something.
        if !self.stat(name)?.is_plain_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // Not blocking: it may have become a pipe by now, which would wait for a writer.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = openat(&self.0, name, flags | OFlag::O_CLOEXEC, Mode::empty());
        match file {
            Err(Errno::ELOOP | Errno::EMLINK | Errno::ENXIO) => {
                Err(io::ErrorKind::InvalidInput.into())
            }
            Ok(file) if !Stat::from(fstat(&file)?).is_plain_file() => {
                Err(io::ErrorKind::InvalidInput.into())
            }
            opened => Ok(File::from(opened?)),
        }
    }

    /// Creates a file that only the server's user may read.
    pub(super) fn create_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        Ok(File::from(openat(&self.0, name, flags | OFlag::O_CLOEXEC, mode)?))
    }

    /// Creates a folder that only the server's user may enter.
    pub(super) fn create_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(mkdirat(&self.0, name, Mode::S_IRWXU)?)
    }

    /// Looks at what the name stands for.
    pub(super) fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW)?.into())
    }

    /// Looks at this folder.
    pub(super) fn own_stat(&self) -> io::Result<Stat> {
        Ok(fstat(&self.0)?.into())
    }

    /// The names in this folder, but no more than so many.
    pub(super) fn names(&self, names_max: usize) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        self.each_name(|name| {
            if names.len() == names_max {
                return ControlFlow::Break(());
            }
            names.push(name);
            ControlFlow::Continue(())
        })?;
        Ok(names)
    }

    /// Hands over the names in this folder, in no order, until `each` has enough of them.
    pub(super) fn each_name(
        &self,
        mut each: impl FnMut(OsString) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut folder = Dir::openat(&self.0, ".", flags, Mode::empty())?;
        for entry in folder.iter() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if each(OsString::from_vec(name.to_vec())).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Locks the folder, if nobody else has. The lock is given back when the file is closed.
    pub(super) fn try_lock(&self) -> Result<File, TryLockError> {
        let folder = self.folder(OsStr::new(".")).map_err(TryLockError::Error)?;
        let folder = File::from(folder.0);
        folder.try_lock()?;
        Ok(folder)
    }

    /// Moves what `name` stands for into the folder `to`.
    pub(super) fn rename(&self, name: &OsStr, to: &Self, new_name: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.0, name, &to.0, new_name)?)
    }

    /// Makes a folder in this one, that tests may have closed for everybody, open for its owner.
    pub(super) fn unlock(&self, name: &OsStr) -> io::Result<()> {
        Ok(fchmodat(&self.0, name, Mode::S_IRWXU, FchmodatFlags::NoFollowSymlink)?)
    }

    /// Removes a name that is no folder's.
    pub(super) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes an empty folder.
    pub(super) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, UnlinkatFlags::RemoveDir)?)
    }

    /// Waits until the names in this folder are on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.0)?)
    }
}

/// How far a walk goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) entries_max: usize,
    pub(super) depth_max: usize,
}

/// Whether a walk saw everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    All,
    /// A bound ended it, or a folder that could not be read, or was moved meanwhile.
    Part,
}

struct Level {
    identity: Identity,
    names: Vec<OsString>,
}

/// Shows `visit` everything below the folder by its relative path. However deep it is, two folders
/// are open at a time.
pub(super) fn walk(
    folder: &Folder,
    bounds: Bounds,
    mut visit: impl FnMut(&Path, &Stat),
) -> io::Result<Reach> {
    let mut reach = Reach::All;
    let mut entries_left = bounds.entries_max;
    let mut here = folder.folder(OsStr::new("."))?;
    let mut path = PathBuf::new();
    let mut levels = vec![level(&here, &mut entries_left, &mut reach)?];
    while let Some(last) = levels.last_mut() {
        let Some(name) = last.names.pop() else {
            levels.pop();
            let Some(parent) = levels.last() else { break };
            path.pop();
            here = here.folder(OsStr::new(".."))?;
            // Tests that still run may have moved the folder: its parent is no longer ours.
            if here.own_stat()?.identity != parent.identity {
                return Ok(Reach::Part);
            }
            continue;
        };
        let Ok(stat) = here.stat(&name) else { continue };
        path.push(&name);
        visit(&path, &stat);
        let below = match stat.kind {
            Kind::Folder if levels.len() < bounds.depth_max => opened(&here, &name)
                .and_then(|below| Ok((level(&below, &mut entries_left, &mut reach)?, below))),
            Kind::Folder => Err(io::ErrorKind::InvalidInput.into()),
            Kind::File | Kind::Other => {
                path.pop();
                continue;
            }
        };
        if let Ok((names, below)) = below {
            levels.push(names);
            here = below;
        } else {
            reach = Reach::Part;
            path.pop();
        }
    }
    Ok(reach)
}

/// Opens a folder, also one that the tests have closed for everybody.
fn opened(here: &Folder, name: &OsStr) -> io::Result<Folder> {
    match here.folder(name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            here.unlock(name)?;
            here.folder(name)
        }
        opened => opened,
    }
}

fn level(folder: &Folder, entries_left: &mut usize, reach: &mut Reach) -> io::Result<Level> {
    let identity = folder.own_stat()?.identity;
    // One more than may be walked, to know whether there is more.
    let mut names = folder.names(entries_left.saturating_add(1))?;
    if names.len() > *entries_left {
        names.truncate(*entries_left);
        *reach = Reach::Part;
    }
    *entries_left -= names.len();
    names.sort_unstable_by(|a, b| b.as_bytes().cmp(a.as_bytes()));
    Ok(Level { identity, names })
}
