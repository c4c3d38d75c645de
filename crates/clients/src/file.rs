//! Reads a file, and replaces it as a whole or not at all. It never writes into an existing file.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use chrono::Utc;
use tempfile::{Builder, NamedTempFile};
use thiserror::Error;

use super::attributes::Attributes;

/// The size limit of a file that is edited. The state of Claude Code, which grows for years, has some MiB.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The maximum number of backups in one second.
const BACKUPS_PER_SECOND_MAX: u32 = 100;

/// The mode of a backup, because its content may be secret.
const PRIVATE: u32 = 0o600;
/// The mode of a new file of the user.
const OWNERS: u32 = 0o600;
/// The mode of a new file of a project, before the umask applies.
const SHARED: u32 = 0o666;

/// An error that leaves a file unchanged.
#[derive(Debug, Error)]
pub enum FileError {
    /// The path is a folder, a pipe or a device.
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// Creating the target could put the file in an unexpected place.
    #[error("{} is a link that leads to no file; make the file, or remove the link", .0.display())]
    Dangling(PathBuf),
    /// No configuration of a client is that large.
    #[error("{} is larger than 16 MiB", .0.display())]
    TooLarge(PathBuf),
    /// The mode does not let the owner write.
    #[error("{} is read-only", .0.display())]
    ReadOnly(PathBuf),
    /// The new file would belong to the current user.
    #[error("{} belongs to another user, and would be yours afterwards", .0.display())]
    OfOthers(PathBuf),
    /// Another program, probably the client, changed the file.
    #[error("{} was changed meanwhile by another program; run the command again", .0.display())]
    Changed(PathBuf),
    /// A system call failed.
    #[error("failed to {action} {}: {source}", .path.display())]
    System { action: &'static str, path: PathBuf, source: io::Error },
}

/// Whether a file belongs to the user or to a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    User,
    Project,
}

/// The state of a file when it was read.
#[derive(Debug)]
pub(super) struct Original {
    /// The canonical path.
    path: PathBuf,
    content: Option<Content>,
}

#[derive(Debug, PartialEq, Eq)]
struct Content {
    bytes: Vec<u8>,
    device: u64,
    inode: u64,
    mode: u32,
    owner: u32,
    group: u32,
    attributes: Attributes,
}

impl Original {
    /// Reads a file, or records that it is missing.
    pub(crate) fn read(path: &Path) -> Result<Self, FileError> {
        let failed = |action| {
            let path = path.to_owned();
            move |source| FileError::System { action, path, source }
        };
        match path.symlink_metadata() {
            Ok(metadata) => {
                let real = path.canonicalize().map_err(|error| {
                    if metadata.is_symlink() && error.kind() == io::ErrorKind::NotFound {
                        return FileError::Dangling(path.to_owned());
                    }
                    failed("follow")(error)
                })?;
                let content = Some(Content::read(&real)?);
                Ok(Self { path: real, content })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = with_real_folder(path).map_err(failed("find"))?;
                Ok(Self { path, content: None })
            }
            Err(error) => Err(failed("find")(error)),
        }
    }

    /// Returns the canonical path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the canonical path is below a folder.
    pub(super) fn is_within(&self, folder: &Path) -> Result<bool, FileError> {
        let real = folder.canonicalize().map_err(|source| {
            let path = folder.to_owned();
            FileError::System { action: "follow", path, source }
        })?;
        Ok(self.path.starts_with(real))
    }

    /// Returns whether the file is unchanged since it was read.
    pub(super) fn is_as_read(&self) -> bool {
        match &self.content {
            Some(content) => self.is_unchanged(content).is_ok(),
            None => self.path.symlink_metadata().is_err(),
        }
    }

    /// Returns the content; `None` if the file does not exist.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        self.content.as_ref().map(|content| content.bytes.as_slice())
    }

    /// Replaces the file with this content, and keeps its mode, owner, group, access control list and attributes.
    /// Returns the backup of the old file, unless that was empty or missing. Even after an interruption, the path has
    /// either the complete old file or the complete new file.
    pub(crate) fn replace(&self, bytes: &[u8], scope: Scope) -> Result<Option<PathBuf>, FileError> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let Some(content) = &self.content else {
            fs::create_dir_all(folder).map_err(self.failed("make the folder of"))?;
            let mode = if scope == Scope::User { OWNERS } else { SHARED };
            let new = self.temporary(folder, mode, bytes)?;
            new.persist_noclobber(&self.path).map_err(|error| {
                if error.error.kind() == io::ErrorKind::AlreadyExists {
                    FileError::Changed(self.path.clone())
                } else {
                    self.failed("make")(error.error)
                }
            })?;
            sync(folder);
            return Ok(None);
        };
        // Renaming over a file needs no write permission on it. So check the mode, which states its owner's intention.
        if content.mode & 0o200 == 0 {
            return Err(FileError::ReadOnly(self.path.clone()));
        }
        let new = self.temporary(folder, PRIVATE, bytes)?;
        self.take_over(content, new.as_file(), content.mode)?;
        let has_content = !content.bytes.is_empty();
        let backup = has_content.then(|| self.back_up(folder, content)).transpose()?;
        if let Err(error) = self.is_unchanged(content) {
            // Nothing was replaced, so the backup is not needed.
            let _ = backup.map(fs::remove_file);
            return Err(error);
        }
        new.persist(&self.path).map_err(|error| self.failed("replace")(error.error))?;
        sync(folder);
        Ok(backup)
    }

    /// Copies the file to a backup next to it. Returns the path of the backup; `None` if the file is empty or missing.
    pub(super) fn keep_copy(&self) -> Result<Option<PathBuf>, FileError> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let content = self.content.as_ref().filter(|content| !content.bytes.is_empty());
        content.map(|content| self.back_up(folder, content)).transpose()
    }

    /// Creates a temporary file next to the original, with content that is synced to the disk.
    fn temporary(
        &self,
        folder: &Path,
        mode: u32,
        bytes: &[u8],
    ) -> Result<NamedTempFile, FileError> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let mut file = Builder::new()
            .prefix(&format!(".{name}.qwed-new-"))
            .permissions(fs::Permissions::from_mode(mode))
            .tempfile_in(folder)
            .map_err(self.failed("write beside"))?;
        let written = file.write_all(bytes).and_then(|()| file.as_file().sync_all());
        written.map_err(self.failed("write beside"))?;
        Ok(file)
    }

    /// Gives a file the original's owner, group and attributes, and a mode.
    fn take_over(&self, content: &Content, file: &File, mode: u32) -> Result<(), FileError> {
        let now = file.metadata().map_err(self.failed("look at the copy of"))?;
        let owner = (now.uid() != content.owner).then_some(content.owner);
        let group = (now.gid() != content.group).then_some(content.group);
        if owner.is_some() || group.is_some() {
            fchown(file, owner, group).map_err(|error| {
                if owner.is_some() && error.kind() == io::ErrorKind::PermissionDenied {
                    return FileError::OfOthers(self.path.clone());
                }
                self.failed("keep the group of")(error)
            })?;
        }
        let kept = content.attributes.put_on(file);
        kept.map_err(self.failed("keep the access control list and the attributes of"))?;
        // If the file has an access control list, this also sets the list's mask.
        let mode = fs::Permissions::from_mode(mode);
        file.set_permissions(mode).map_err(self.failed("keep the mode of"))?;
        file.sync_all().map_err(self.failed("write beside"))
    }

    fn back_up(&self, folder: &Path, content: &Content) -> Result<PathBuf, FileError> {
        let mut copy = self.temporary(folder, PRIVATE, &content.bytes)?;
        self.take_over(content, copy.as_file(), PRIVATE)?;
        let time = Utc::now().format("%Y%m%dT%H%M%SZ");
        let mut number = 1;
        loop {
            let mut name = self.path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".qwed-backup-{time}"));
            if number > 1 {
                name.push(format!("-{number}"));
            }
            let backup = folder.join(name);
            match copy.persist_noclobber(&backup) {
                Ok(_) => return Ok(backup),
                Err(error)
                    if error.error.kind() == io::ErrorKind::AlreadyExists
                        && number < BACKUPS_PER_SECOND_MAX =>
                {
                    number += 1;
                    copy = error.file;
                }
                Err(error) => return Err(self.failed("back up")(error.error)),
            }
        }
    }

    fn is_unchanged(&self, content: &Content) -> Result<(), FileError> {
        match Content::read(&self.path) {
            Ok(now) if now == *content => Ok(()),
            Ok(_) | Err(_) => Err(FileError::Changed(self.path.clone())),
        }
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> FileError + use<> {
        let path = self.path.clone();
        move |source| FileError::System { action, path: path.clone(), source }
    }
}

impl Content {
    fn read(path: &Path) -> Result<Self, FileError> {
        let failed = |action| {
            let path = path.to_owned();
            move |source| FileError::System { action, path, source }
        };
        let before = path.symlink_metadata().map_err(failed("find"))?;
        // Check before opening the file, because opening a pipe would wait for a writer.
        if !before.is_file() {
            return Err(FileError::NotAFile(path.to_owned()));
        }
        if before.len() > BYTES_MAX {
            return Err(FileError::TooLarge(path.to_owned()));
        }
        let file = File::open(path).map_err(failed("open"))?;
        let metadata = file.metadata().map_err(failed("look at"))?;
        if (metadata.dev(), metadata.ino()) != (before.dev(), before.ino()) {
            return Err(FileError::Changed(path.to_owned()));
        }
        let attributes = Attributes::read(&file).map_err(failed("look at"))?;
        let mut bytes = Vec::new();
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed("read"))?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length > BYTES_MAX) {
            return Err(FileError::TooLarge(path.to_owned()));
        }
        Ok(Self {
            bytes,
            device: metadata.dev(),
            inode: metadata.ino(),
            mode: metadata.mode() & 0o7777,
            owner: metadata.uid(),
            group: metadata.gid(),
            attributes,
        })
    }
}

/// Returns the path of a missing file, with symlinks resolved in the folders that exist.
fn with_real_folder(path: &Path) -> io::Result<PathBuf> {
    let mut folder = path.parent();
    while let Some(candidate) = folder {
        match candidate.canonicalize() {
            Ok(real) => {
                let rest = path.strip_prefix(candidate).unwrap_or(path);
                return Ok(real.join(rest));
            }
            // A dangling symlink is not a folder that can be created.
            Err(error) if candidate.symlink_metadata().is_ok() => return Err(error),
            Err(error) if error.kind() == io::ErrorKind::NotFound => folder = candidate.parent(),
            Err(error) => return Err(error),
        }
    }
    Ok(path.to_owned())
}

/// Syncs the names in a folder to the disk. Errors are ignored: some file systems cannot do it, and the file is
/// complete without it.
fn sync(folder: &Path) {
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        // The file appears, changes, is replaced and vanishes.
        let absent = Original::read(&path).unwrap();
        fs::write(&path, "theirs").unwrap();
        assert!(matches!(absent.replace(b"ours", Scope::User), Err(FileError::Changed(_))));
        let changed = Original::read(&path).unwrap();
        fs::write(&path, "longer").unwrap();
        assert!(matches!(changed.replace(b"ours", Scope::User), Err(FileError::Changed(_))));
        let replaced = Original::read(&path).unwrap();
        fs::write(folder.path().join("y"), "longer").unwrap();
        fs::rename(folder.path().join("y"), &path).unwrap();
        assert!(matches!(replaced.replace(b"ours", Scope::User), Err(FileError::Changed(_))));
        assert_eq!(fs::read(&path).unwrap(), b"longer");
        assert_eq!(names(), 1);
        let gone = Original::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(matches!(gone.replace(b"ours", Scope::User), Err(FileError::Changed(_))));
        assert_eq!(names(), 0);
    }

    /// Returns an access control list in the kernel's format, for the owner, user 24601, the group, the mask and
    /// others.
    #[cfg(all(target_os = "linux", not(qwed_portable)))]
    fn access_list(rights: u8) -> Vec<u8> {
        let entries = [(1_u16, 6, u32::MAX), (2, rights, 24_601), (4, 0, u32::MAX)];
        let entries = entries.into_iter().chain([(16, rights, u32::MAX), (32, 0, u32::MAX)]);
        let bytes = entries.flat_map(|(tag, rights, id)| {
            [&tag.to_le_bytes()[..], &[rights, 0], &id.to_le_bytes()].concat()
        });
        2_u32.to_le_bytes().into_iter().chain(bytes).collect()
    }

    #[test]
    #[cfg(all(target_os = "linux", not(qwed_portable)))]
    fn the_access_control_list_and_attributes_stay_and_none_is_inherited() {
        use rustix::fs::{XattrFlags, fgetxattr, setxattr};
        use rustix::io::Errno;

        const LIST: &str = "system.posix_acl_access";
        const INHERITED: &str = "system.posix_acl_default";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        fs::write(&path, "old").unwrap();
        let set = |path: &Path, name: &str, value: &[u8]| {
            setxattr(path, name, value, XattrFlags::empty()).unwrap();
        };
        let value = |path: &Path, name: &str| {
            let mut bytes = [0; 100];
            let length = fgetxattr(File::open(path).unwrap(), name, &mut bytes[..])?;
            Ok::<_, Errno>(bytes[..length].to_vec())
        };
        set(&path, "user.note", b"kept");
        set(&path, LIST, &access_list(4));
        let replace = || {
            let original = Original::read(&path).unwrap();
            original.replace(b"new", Scope::User).unwrap().unwrap()
        };
        let backup = replace();
        assert_eq!(value(&path, LIST), Ok(access_list(4)));
        assert_eq!(value(&path, "user.note"), Ok(b"kept".to_vec()));
        // Only the owner has any right to the backup.
        assert_eq!(backup.metadata().unwrap().mode() & 0o7777, PRIVATE);

        set(folder.path(), INHERITED, &access_list(6));
        rustix::fs::removexattr(&path, LIST).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace();
        assert_eq!(value(&path, LIST), Err(Errno::NODATA));
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o640);
    }

    #[test]
    fn backups_of_one_second_have_numbers_and_nobody_else_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        fs::write(&path, "0").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let mut backups = Vec::new();
        for number in 1..=5 {
            let original = Original::read(&path).unwrap();
            let backup = original.replace(number.to_string().as_bytes(), Scope::User).unwrap();
            backups.push(backup.unwrap());
        }
        for (number, backup) in backups.iter().enumerate() {
            assert_eq!(fs::read_to_string(backup).unwrap(), number.to_string());
            assert_eq!(backup.metadata().unwrap().mode() & 0o7777, PRIVATE);
        }
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 6);
    }
}
