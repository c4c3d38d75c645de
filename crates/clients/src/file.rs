//! Reads a client's file, and replaces it completely or not at all. It never writes into an existing file.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use chrono::Utc;
use tempfile::{Builder, NamedTempFile};
use thiserror::Error;

use super::attributes::Attributes;

/// The maximum size of a file that is edited, in bytes. The state file of Claude Code grows for years and can have
/// several MiB.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The maximum number of backups of a file in one second.
const BACKUPS_PER_SECOND_MAX: u32 = 100;

/// The mode of a backup. Only the owner may read it, because its content may be secret.
const PRIVATE: u32 = 0o600;
/// The mode of a new file that belongs to the user.
const OWNERS: u32 = 0o600;
/// The mode of a new file that belongs to a project, before the umask applies.
const SHARED: u32 = 0o666;

/// The reason why a file could not be read or replaced. The file stays unchanged.
#[derive(Debug, Error)]
pub enum FileError {
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// The path is a symlink to a file that does not exist. This program does not create that file, because the symlink
    /// may lead to an unexpected folder.
    #[error("{} is a broken symlink; create its target, or remove the link", .0.display())]
    Dangling(PathBuf),
    #[error("{} is larger than 16 MiB", .0.display())]
    TooLarge(PathBuf),
    /// The file's mode does not let its owner write.
    #[error("{} is read-only", .0.display())]
    ReadOnly(PathBuf),
    /// The file belongs to another user. Its replacement would belong to the current user.
    #[error("{} belongs to another user, and would belong to you after the change", .0.display())]
    OfOthers(PathBuf),
    /// Another program, probably the client, changed the file after it was read.
    #[error("{} was changed meanwhile by another program; run the command again", .0.display())]
    Changed(PathBuf),
    #[error("failed to {action} {}: {source}", .path.display())]
    System { action: &'static str, path: PathBuf, source: io::Error },
}

/// Whether a file is a configuration of the user or of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    User,
    Project,
}

/// The state of a file at the time when it was read.
#[derive(Debug)]
pub(super) struct Original {
    /// The canonical path of the file.
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
    /// Reads a file. If the file does not exist, records that it is missing.
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
                let path = with_real_folder(path)?;
                Ok(Self { path, content: None })
            }
            Err(error) => Err(failed("find")(error)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the canonical path of the file is below a folder.
    pub(super) fn is_within(&self, folder: &Path) -> Result<bool, FileError> {
        let real = folder.canonicalize().map_err(|source| {
            let path = folder.to_owned();
            FileError::System { action: "follow", path, source }
        })?;
        Ok(self.path.starts_with(real))
    }

    /// Returns whether the file is unchanged since it was read. A missing file must still be missing.
    pub(super) fn is_as_read(&self) -> bool {
        match &self.content {
            Some(content) => self.is_unchanged(content).is_ok(),
            None => self.path.symlink_metadata().is_err(),
        }
    }

    /// Returns whether the file's mode does not let its owner write.
    pub(super) fn is_read_only(&self) -> bool {
        self.content.as_ref().is_some_and(|content| content.mode & 0o200 == 0)
    }

    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        self.content.as_ref().map(|content| content.bytes.as_slice())
    }

    /// Replaces the content of the file. Keeps its mode, owner, group, access control list and attributes. Returns the
    /// path of the backup, or `None` if the file was empty or missing. At any moment, the path leads to the complete
    /// old file or to the complete new file.
    pub(crate) fn replace(&self, bytes: &[u8], scope: Scope) -> Result<Option<PathBuf>, FileError> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let Some(content) = &self.content else {
            fs::create_dir_all(folder).map_err(self.failed("create the folder of"))?;
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
        // Check the mode here, because renaming over a read-only file would succeed, although its owner wants no
        // changes.
        if self.is_read_only() {
            return Err(FileError::ReadOnly(self.path.clone()));
        }
        let new = self.temporary(folder, PRIVATE, bytes)?;
        self.take_over(content, new.as_file(), content.mode)?;
        let has_content = !content.bytes.is_empty();
        let backup = has_content.then(|| self.back_up(folder, content)).transpose()?;
        if let Err(error) = self.is_unchanged(content) {
            // The file was not replaced, so the backup is not needed.
            let _ = backup.map(fs::remove_file);
            return Err(error);
        }
        if let Err(error) = new.persist(&self.path) {
            let _ = backup.map(fs::remove_file);
            return Err(self.failed("replace")(error.error));
        }
        sync(folder);
        Ok(backup)
    }

    /// Copies the file to a backup in the same folder. Returns the path of the backup. Returns `None` if the file is
    /// empty or missing.
    pub(super) fn back_up_original(&self) -> Result<Option<PathBuf>, FileError> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let content = self.content.as_ref().filter(|content| !content.bytes.is_empty());
        content.map(|content| self.back_up(folder, content)).transpose()
    }

    /// Creates a temporary file in the folder of the original. Writes the content and syncs it to the disk.
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
            .map_err(self.failed("write next to"))?;
        let written = file.write_all(bytes).and_then(|()| file.as_file().sync_all());
        written.map_err(self.failed("write next to"))?;
        Ok(file)
    }

    /// Gives `file` the owner, the group and the attributes of the original, and sets its mode.
    fn take_over(&self, content: &Content, file: &File, mode: u32) -> Result<(), FileError> {
        let now = file.metadata().map_err(self.failed("inspect the copy of"))?;
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
        // Set the mode after the access control list, because the mode also sets the list's mask.
        let mode = fs::Permissions::from_mode(mode);
        file.set_permissions(mode).map_err(self.failed("keep the mode of"))?;
        file.sync_all().map_err(self.failed("write next to"))
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
        // Check the kind of file before opening it, because opening a pipe would wait for a writer.
        if !before.is_file() {
            return Err(FileError::NotAFile(path.to_owned()));
        }
        if before.len() > BYTES_MAX {
            return Err(FileError::TooLarge(path.to_owned()));
        }
        let file = File::open(path).map_err(failed("open"))?;
        let metadata = file.metadata().map_err(failed("inspect"))?;
        if (metadata.dev(), metadata.ino()) != (before.dev(), before.ino()) {
            return Err(FileError::Changed(path.to_owned()));
        }
        let attributes = Attributes::read(&file).map_err(failed("inspect"))?;
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

/// Returns the path of a missing file. Resolves symlinks in the parts of the path that exist.
fn with_real_folder(path: &Path) -> Result<PathBuf, FileError> {
    let mut folder = path.parent();
    while let Some(candidate) = folder {
        match candidate.canonicalize() {
            Ok(real) => {
                let rest = path.strip_prefix(candidate).unwrap_or(path);
                return Ok(real.join(rest));
            }
            // The folder is a symlink to a path that does not exist, so the folder cannot be created.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && candidate.symlink_metadata().is_ok() =>
            {
                return Err(FileError::Dangling(candidate.to_owned()));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => folder = candidate.parent(),
            Err(source) => {
                let path = candidate.to_owned();
                return Err(FileError::System { action: "find", path, source });
            }
        }
    }
    Ok(path.to_owned())
}

/// Syncs a folder to the disk, so that a renamed file keeps its new name after a crash. Ignores errors, because some
/// file systems cannot sync a folder, and the content of the file is already synced.
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
        // In each case, the file has changed since it was read: it was created, changed, replaced or removed.
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
        // Only the owner may have any right to the backup.
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
