//! Lists, reads and removes folders while other processes may change them. The folders may have any content.
//!
//! Every name is looked up relative to the file descriptor of an open folder, and symlinks are not followed. So a
//! process cannot redirect this module by exchanging a folder between a check and its use. This module opens only
//! regular files and folders. It never waits for a process that writes to a pipe, and never decides which user may
//! read a file.

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
use nix::fcntl::{AtFlags, OFlag, open, openat, readlinkat, renameat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};
use uuid::Uuid;

/// The unit of `st_blocks`, in bytes.
const BLOCK_BYTES: u64 = 512;
/// The maximum number of names in one listing while a folder is emptied.
const BATCH: usize = 1024;

/// The maximum number of attempts to empty a folder. Another attempt is needed if another process adds entries
/// meanwhile.
const REMOVAL_ROUNDS_MAX: u32 = 16;

/// An open folder.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// The metadata of an entry in a folder. The metadata of a symlink describes the symlink itself, not its target.
#[derive(Debug, Clone, Copy)]
pub struct Stat {
    pub kind: Kind,
    /// Whether the owner of the entry may read, write and enter it.
    pub owner_has_all_rights: bool,
    /// Whether the file has more than one hard link.
    has_more_links: bool,
    pub bytes: u64,
    /// The number of bytes that the file occupies on the disk. A file with holes occupies fewer than `bytes`.
    pub disk_bytes: u64,
    pub modified: SystemTime,
    identity: Identity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    /// A symlink, a pipe, a socket or a device.
    Other,
}

/// The device and the inode of an entry. Together they identify the entry, and stay the same when the entry is renamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity(nix::libc::dev_t, nix::libc::ino_t);

impl Stat {
    /// Returns whether the entry is a regular file with a single hard link. A file with several hard links may also
    /// have a name in another folder, which may be private.
    pub fn is_plain_file(&self) -> bool {
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
            owner_has_all_rights: Mode::from_bits_truncate(stat.st_mode).contains(Mode::S_IRWXU),
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

impl From<File> for Folder {
    fn from(folder: File) -> Self {
        Self(folder.into())
    }
}

impl From<Folder> for File {
    fn from(folder: Folder) -> Self {
        folder.0.into()
    }
}

impl Folder {
    /// Opens a folder. `path` may be a symlink, because the admin chooses the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self(open(path, flags, Mode::empty())?))
    }

    /// Opens the folder `name` in this folder. Does not follow a symlink.
    pub fn folder(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        match openat(&self.0, name, flags, Mode::empty()) {
            // Some Unix systems return these errors for a symlink, instead of `ENOTDIR`. Return the same error on all
            // systems.
            Err(Errno::ELOOP | Errno::EMLINK) => Err(io::ErrorKind::NotADirectory.into()),
            opened => Ok(Self(opened?)),
        }
    }

    /// Opens a regular file with a single hard link in this folder for reading. Fails with `InvalidInput` for any other
    /// entry.
    pub fn file(&self, name: &OsStr) -> io::Result<File> {
        self.open_file(name, Stat::is_plain_file)
    }

    /// Opens a regular file in this folder for reading, even if it has other hard links.
    pub fn linked_file(&self, name: &OsStr) -> io::Result<File> {
        self.open_file(name, |stat| stat.kind == Kind::File)
    }

    fn open_file(&self, name: &OsStr, is_expected: fn(&Stat) -> bool) -> io::Result<File> {
        // Check the entry before opening it, because opening a device can already have an effect.
        if !is_expected(&self.stat(name)?) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // Do not block: the entry may have been exchanged for a pipe since the check, and opening a pipe waits for a
        // writer.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = openat(&self.0, name, flags | OFlag::O_CLOEXEC, Mode::empty());
        match file {
            Err(Errno::ELOOP | Errno::EMLINK | Errno::ENXIO) => {
                Err(io::ErrorKind::InvalidInput.into())
            }
            Ok(file) if !is_expected(&fstat(&file)?.into()) => {
                Err(io::ErrorKind::InvalidInput.into())
            }
            opened => Ok(File::from(opened?)),
        }
    }

    /// Returns the target of the symlink `name`.
    pub fn link(&self, name: &OsStr) -> io::Result<OsString> {
        Ok(readlinkat(&self.0, name)?)
    }

    /// Creates a file in this folder. Only the server's Unix user may read or write the file.
    pub fn create_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        Ok(File::from(openat(&self.0, name, flags | OFlag::O_CLOEXEC, mode)?))
    }

    /// Creates a subfolder. Only the server's Unix user may read, write or enter the subfolder.
    pub fn create_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(mkdirat(&self.0, name, Mode::S_IRWXU)?)
    }

    /// Returns the metadata of the entry `name`. Does not follow a symlink.
    pub fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW)?.into())
    }

    /// Returns the metadata of this folder.
    pub fn own_stat(&self) -> io::Result<Stat> {
        Ok(fstat(&self.0)?.into())
    }

    /// Returns the names of the entries in this folder, but at most `names_max`.
    pub fn names(&self, names_max: usize) -> io::Result<Vec<OsString>> {
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

    /// Calls `each` with the name of each entry in this folder, until `each` returns `Break`. The names are in no
    /// particular order.
    pub fn each_name(&self, mut each: impl FnMut(OsString) -> ControlFlow<()>) -> io::Result<()> {
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

    /// Locks this folder. Fails if the folder is already locked. Closing the returned file releases the lock.
    pub fn try_lock(&self) -> Result<File, TryLockError> {
        let folder = File::from(self.folder(OsStr::new(".")).map_err(TryLockError::Error)?);
        folder.try_lock()?;
        Ok(folder)
    }

    /// Moves an entry of this folder into the folder `to`, under the name `new_name`.
    pub fn rename(&self, name: &OsStr, to: &Self, new_name: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.0, name, &to.0, new_name)?)
    }

    /// Gives the owner of an entry all rights to it, because scripts may have removed some rights.
    pub fn grant_owner_all_rights(&self, name: &OsStr) -> io::Result<()> {
        Ok(fchmodat(&self.0, name, Mode::S_IRWXU, FchmodatFlags::NoFollowSymlink)?)
    }

    /// Removes an entry that is not a folder.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes an empty folder.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, UnlinkatFlags::RemoveDir)?)
    }

    /// Waits until all data in the file system of this folder is on the disk.
    pub fn sync_file_system(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        nix::unistd::syncfs(&self.0)?;
        #[cfg(not(target_os = "linux"))]
        nix::unistd::sync();
        Ok(())
    }

    /// Waits until the names in this folder are on the disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.0)?)
    }
}

/// The limits of a walk through a tree.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub entries_max: usize,
    pub depth_max: usize,
}

/// Whether a walk visited the whole tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    All,
    /// The walk visited only a part of the tree: it reached a limit, it could not read a folder, or another process
    /// moved a folder.
    Part,
}

/// A folder on the current path of a walk, with the names of its unvisited entries.
struct Level {
    identity: Identity,
    names: Vec<OsString>,
}

impl Folder {
    /// Calls `visit` with the relative path and the metadata of everything below this folder. At any depth, at most two
    /// folders are open at the same time.
    pub fn walk(&self, bounds: Bounds, mut visit: impl FnMut(&Path, &Stat)) -> io::Result<Reach> {
        let mut reach = Reach::All;
        let mut entries_left = bounds.entries_max;
        let mut here = self.folder(OsStr::new("."))?;
        let mut path = PathBuf::new();
        let mut levels = vec![Level::list(&here, &mut entries_left, &mut reach)?];
        while let Some(last) = levels.last_mut() {
            let Some(name) = last.names.pop() else {
                levels.pop();
                let Some(parent) = levels.last() else { break };
                path.pop();
                here = here.folder(OsStr::new(".."))?;
                // Stop if the parent is a different folder. A process has then moved the folder, perhaps out of the
                // tree.
                if here.own_stat()?.identity != parent.identity {
                    return Ok(Reach::Part);
                }
                continue;
            };
            let Ok(stat) = here.stat(&name) else { continue };
            path.push(&name);
            visit(&path, &stat);
            let below = match stat.kind {
                Kind::Folder if levels.len() < bounds.depth_max => {
                    here.folder_to_read(&name).and_then(|below| {
                        Ok((Level::list(&below, &mut entries_left, &mut reach)?, below))
                    })
                }
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

    /// Opens a subfolder. If permission is denied, first gives the subfolder's owner all rights to it.
    pub fn folder_to_read(&self, name: &OsStr) -> io::Result<Self> {
        match self.folder(name) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.grant_owner_all_rights(name)?;
                self.folder(name)
            }
            opened => opened,
        }
    }

    /// Removes a subfolder with its content, or as much of the content as possible. Returns the error of the first
    /// removal that failed. A missing subfolder is not an error.
    pub fn remove_tree(&self, name: &OsStr) -> io::Result<()> {
        let Some(top) = self.folder_to_empty(name)? else { return Ok(()) };
        let mut rounds_left = REMOVAL_ROUNDS_MAX;
        loop {
            top.remove_contents()?;
            rounds_left -= 1;
            match absent_is_done(self.remove_folder(name)) {
                // Try again, because another process added entries while the folder was emptied.
                Err(error)
                    if error.kind() == io::ErrorKind::DirectoryNotEmpty && rounds_left > 0 => {}
                removed => return removed,
            }
        }
    }

    /// Removes the content of this folder, or as much of it as possible. Returns the error of the first removal that
    /// failed.
    ///
    /// Subfolders are moved up into this folder before they are emptied. So at any depth, at most two folders are
    /// open at the same time.
    pub fn remove_contents(&self) -> io::Result<()> {
        loop {
            let mut moved_up = 0;
            let emptied = self.empty(&mut |entry, _| {
                let Some(folder) = self.folder_to_empty(entry)? else { return Ok(()) };
                folder.empty(&mut |below, stat| {
                    // Moving a folder changes its `..` entry, which requires the right to write to the folder. Ignore
                    // an error here, because the move then fails too.
                    if !stat.owner_has_all_rights {
                        let _ = folder.grant_owner_all_rights(below);
                    }
                    let name = Uuid::new_v4().simple().to_string();
                    folder.rename(below, self, OsStr::new(&name))?;
                    moved_up += 1;
                    Ok(())
                })?;
                self.remove_folder(entry)
            });
            if moved_up == 0 {
                return emptied;
            }
        }
    }

    /// Removes the files in this folder, and passes its subfolders to `remove_folder`. Repeats this until nothing is
    /// left, or until nothing more can be removed. Returns the error of the first removal that failed.
    fn empty(
        &self,
        remove_folder: &mut dyn FnMut(&OsStr, &Stat) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut batch = BATCH;
        loop {
            let names = self.names(batch)?;
            let (count, mut removed, mut stays) = (names.len(), 0, Ok(()));
            for name in names {
                let gone = self.stat(&name).and_then(|stat| match stat.kind {
                    Kind::Folder => remove_folder(&name, &stat),
                    Kind::File | Kind::Other => self.remove_file(&name),
                });
                match absent_is_done(gone) {
                    Ok(()) => removed += 1,
                    Err(error) => stays = stays.and(Err(error)),
                }
            }
            if removed == 0 && count == batch {
                // None of the listed entries can be removed. List all entries next, because others may be removable.
                batch = usize::MAX;
            } else if removed == 0 || (removed == count && count < batch) {
                return stays;
            }
        }
    }

    /// Opens a subfolder, after giving its owner all rights to it if necessary. Returns `None` if the subfolder no
    /// longer exists.
    fn folder_to_empty(&self, name: &OsStr) -> io::Result<Option<Self>> {
        // Change the mode only if necessary, because the change costs as much disk access as the removal of a name.
        if !self.stat(name).is_ok_and(|stat| stat.owner_has_all_rights) {
            // Ignore an error here, because opening the folder then fails too.
            let _ = self.grant_owner_all_rights(name);
        }
        match self.folder(name) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Level {
    fn list(folder: &Folder, entries_left: &mut usize, reach: &mut Reach) -> io::Result<Self> {
        let identity = folder.own_stat()?.identity;
        // List one name more than the limit allows, to detect whether the folder has more entries.
        let mut names = folder.names(entries_left.saturating_add(1))?;
        if names.len() > *entries_left {
            names.truncate(*entries_left);
            *reach = Reach::Part;
        }
        *entries_left -= names.len();
        names.sort_unstable_by(|a, b| b.as_bytes().cmp(a.as_bytes()));
        Ok(Self { identity, names })
    }
}

/// Converts the error for a missing entry to `Ok`, because another process may have removed the same entry.
fn absent_is_done(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests;
