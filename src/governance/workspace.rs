//! Determines the state of the workspace before a run: its commit, and whether its files match this commit.
//!
//! The workspace is untrusted, including its `.git` folder, where hooks, filters and settings can start programs. So
//! this module does not run Git, never reads a setting and never follows a symlink. It reads a few files within limits.
//! Each part of the state that these files do not determine is reported as unknown.
//!
//! This module computes the id that Git would give to a tree of the tracked files in their current state. If the
//! commit's tree has the same id, the files match the commit, because the id is a digest of all content.
//!
//! This module does not use the crate gix, because gix reads the settings of the repository and has about a hundred
//! dependencies.

mod index;
mod object;

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha1::{Digest as _, Sha1};
use thiserror::Error;

use crate::folder::{Folder, Kind};
use index::Entry;
use object::{Kind as TreeKind, ObjectId, TreeItem};

/// The name of the folder with Git's own files.
const REPOSITORY: &str = ".git";

/// The maximum number of files that are hashed. A typical project has a few hundred files.
const FILES_MAX: usize = 20_000;
/// The maximum total size of the hashed files, in bytes. The size is limited, because a run starts after the hashing.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The time limit for hashing all files together. The time is limited, because a run starts after the hashing.
const TIME_MAX: Duration = Duration::from_secs(2);

/// The maximum length of the chain of references from `HEAD` to the commit.
const LINKS_MAX: u32 = 5;
/// The limit for a file with one Git reference, in bytes.
const NAME_BYTES_MAX: u64 = 4096;
/// The limit for the file `packed-refs`, in bytes.
const PACKED_NAMES_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The state of a workspace that is a Git repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkspaceState {
    /// The id of the commit that is checked out.
    pub(crate) commit: Option<String>,
    /// The id of the tree that the tracked files form in their current state.
    pub(crate) tree: Option<String>,
    /// Whether the tracked files differ from the commit. Untracked files do not count.
    pub(crate) dirty: Option<bool>,
    /// The reason why a part of the state is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) undetermined: Option<String>,
}

/// The reason why a part of the state is unknown. The text contains no path.
#[derive(Debug, Error)]
pub(super) enum Undetermined {
    #[error("the .git folder is outside of the workspace")]
    Elsewhere,
    #[error("there is no commit, or its format is not supported")]
    NoCommit,
    #[error("the repository uses SHA-256 object names")]
    Sha256,
    #[error("the format of git's index is not supported: {0}")]
    Index(&'static str),
    #[error("git's files are damaged")]
    Damaged,
    #[error("the repository is too large")]
    TooMuch,
    #[error("the format of the commit is not supported")]
    Commit,
    #[error("git changes files when they are committed (.gitattributes)")]
    Attributes,
    #[error("the files of a submodule are not compared with its commit")]
    Submodule,
    #[error("it cannot be read: {0}")]
    Read(io::ErrorKind),
}

impl From<io::Error> for Undetermined {
    fn from(error: io::Error) -> Self {
        Self::Read(error.kind())
    }
}

impl WorkspaceState {
    /// Determines the state of a workspace; `None` if the workspace is not a repository. Blocks the thread.
    pub(super) fn of(workspace: &Path) -> Option<Self> {
        let root = Folder::open(workspace).ok()?;
        root.stat(OsStr::new(REPOSITORY)).ok()?;
        let mut state = Self::default();
        if let Err(reason) = state.determine(&root) {
            state.undetermined = Some(reason.to_string());
        }
        Some(state)
    }

    fn determine(&mut self, root: &Folder) -> Result<(), Undetermined> {
        let folder = root.folder(OsStr::new(REPOSITORY));
        let repository = folder.map_err(|_| Undetermined::Elsewhere)?;
        let commit = head(&repository)?;
        self.commit = Some(commit.clone());
        let commit = ObjectId::from_hex(&commit).ok_or(Undetermined::Sha256)?;
        let entries = index::read(&repository)?;
        if entries.iter().any(|entry| entry.is_unmerged) {
            self.dirty = Some(true);
            return Ok(());
        }
        let mut files = Files::new(root);
        let tree = files.tree(&entries)?;
        let is_dirty = tree != object::tree_of_commit(&repository, commit)?;
        if files.has_submodule {
            self.dirty = is_dirty.then_some(true);
            return Err(Undetermined::Submodule);
        }
        self.tree = Some(tree.to_string());
        if is_dirty && entries.iter().any(Entry::is_attributes) {
            return Err(Undetermined::Attributes);
        }
        self.dirty = Some(is_dirty);
        Ok(())
    }
}

/// Returns the id of the commit that is checked out, in hexadecimal.
fn head(repository: &Folder) -> Result<String, Undetermined> {
    let mut name = "HEAD".to_owned();
    for _ in 0..LINKS_MAX {
        let text = match read_path(repository, name.as_bytes(), NAME_BYTES_MAX) {
            Ok(text) => String::from_utf8(text).map_err(|_| Undetermined::Damaged)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => packed(repository, &name)?,
            Err(error) => return Err(error.into()),
        };
        let text = text.trim_end();
        let Some(next) = text.strip_prefix("ref: ") else {
            let is_name = [40, 64].contains(&text.len())
                && text.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
            return is_name.then(|| text.to_owned()).ok_or(Undetermined::Damaged);
        };
        if !next.starts_with("refs/") {
            return Err(Undetermined::Damaged);
        }
        next.clone_into(&mut name);
    }
    Err(Undetermined::Damaged)
}

/// Looks up a reference in the file `packed-refs`, which contains the references that have no separate file.
fn packed(repository: &Folder, name: &str) -> Result<String, Undetermined> {
    let text = read_path(repository, b"packed-refs", PACKED_NAMES_BYTES_MAX);
    let text = text.map_err(|_| Undetermined::NoCommit)?;
    let text = String::from_utf8_lossy(&text);
    let found = text.lines().find_map(|line| line.split_once(' ').filter(|(_, it)| *it == name));
    found.map(|(commit, _)| commit.to_owned()).ok_or(Undetermined::NoCommit)
}

/// Opens the parent folder of `path`, without following symlinks. Returns the folder and the last component of `path`.
fn parent<'p>(folder: &Folder, path: &'p [u8]) -> io::Result<(Folder, &'p OsStr)> {
    let mut parts = path.split(|byte| *byte == b'/');
    let last = parts.next_back().unwrap_or_default();
    let mut parent = folder.folder(OsStr::new("."))?;
    for part in parts {
        require_name(part)?;
        parent = parent.folder(OsStr::from_bytes(part))?;
    }
    require_name(last)?;
    Ok((parent, OsStr::from_bytes(last)))
}

/// Fails if `part` cannot be the name of a file or folder.
fn require_name(part: &[u8]) -> io::Result<()> {
    if [&b""[..], b".", b".."].contains(&part) || part.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(())
}

/// Reads a file of at most `bytes_max` bytes below `folder`.
fn read_path(folder: &Folder, path: &[u8], bytes_max: u64) -> io::Result<Vec<u8>> {
    let (parent, name) = parent(folder, path)?;
    let mut bytes = Vec::new();
    parent.linked_file(name)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Hashes files of the workspace within limits.
struct Files<'f> {
    root: &'f Folder,
    bytes_left: u64,
    until: Instant,
    /// Whether a submodule has files. The files of submodules are not hashed.
    has_submodule: bool,
}

impl<'f> Files<'f> {
    fn new(root: &'f Folder) -> Self {
        Self { root, bytes_left: BYTES_MAX, until: Instant::now() + TIME_MAX, has_submodule: false }
    }

    /// Returns the id of the tree that the files in `entries` form in their current state. Omits missing files.
    fn tree(&mut self, entries: &[Entry]) -> Result<ObjectId, Undetermined> {
        if entries.len() > FILES_MAX {
            return Err(Undetermined::TooMuch);
        }
        let mut items = Vec::new();
        for entry in entries {
            if Instant::now() > self.until {
                return Err(Undetermined::TooMuch);
            }
            if let Some(item) = self.item(entry)? {
                items.push(item);
            }
        }
        object::tree(items)
    }

    /// Returns the tree entry of a file; `None` if the file does not exist.
    fn item(&mut self, entry: &Entry) -> Result<Option<TreeItem>, Undetermined> {
        let found = parent(self.root, &entry.path).and_then(|(parent, name)| {
            let stat = parent.stat(name)?;
            Ok((parent, name, stat))
        });
        let item = |kind, id| Ok(Some(TreeItem { path: entry.path.clone(), kind, id }));
        let (parent, name, stat) = match found {
            Ok(found) => found,
            // The file is missing because of its flag `skip-worktree`.
            Err(error) if entry.is_left_out && error.kind() == io::ErrorKind::NotFound => {
                return item(entry.kind, entry.id);
            }
            Err(_) => return Ok(None),
        };
        let (kind, id) = match stat.kind {
            Kind::File => self.file(&parent, name)?,
            Kind::Other => match parent.link(name) {
                Ok(target) => (TreeKind::Link, object::id_of("blob", target.as_bytes())),
                Err(_) => return Ok(None),
            },
            Kind::Folder if entry.kind == TreeKind::Repository => {
                // The folder of a submodule that is not checked out is empty.
                self.has_submodule |= !parent.folder(name)?.names(1)?.is_empty();
                (entry.kind, entry.id)
            }
            Kind::Folder => return Ok(None),
        };
        item(kind, id)
    }

    fn file(
        &mut self,
        parent: &Folder,
        name: &OsStr,
    ) -> Result<(TreeKind, ObjectId), Undetermined> {
        let mut file = parent.linked_file(name)?;
        let metadata = file.metadata()?;
        let length = metadata.len();
        self.bytes_left = self.bytes_left.checked_sub(length).ok_or(Undetermined::TooMuch)?;
        let mut hash = Sha1::new();
        hash.update(format!("blob {length}\0"));
        let mut source = file.by_ref().take(length);
        let mut block = vec![0; 64 * 1024];
        loop {
            let read = source.read(&mut block)?;
            let Some(read) = block.get(..read).filter(|read| !read.is_empty()) else { break };
            hash.update(read);
        }
        let is_program = metadata.permissions().mode() & 0o100 != 0;
        let kind = if is_program { TreeKind::Program } else { TreeKind::File };
        Ok((kind, ObjectId(hash.finalize().into())))
    }
}

#[cfg(test)]
mod tests;
