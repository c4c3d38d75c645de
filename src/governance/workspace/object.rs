//! Computes the ids of Git's trees, and reads the tree id of a commit. Never resolves deltas, so it does not support
//! commits that are stored as deltas.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use sha1::{Digest as _, Sha1};

use super::{Folder, Undetermined, parent, read_path};

/// The limit for a commit, in bytes, both for the compressed and for the decompressed content.
const COMMIT_BYTES_MAX: usize = 256 * 1024;
const PACKS_MAX: usize = 512;
/// The maximum depth of nested folders.
const DEPTH_MAX: usize = 100;

/// The header of a pack index in version 2: `gitformat-pack(5)`.
const PACK_INDEX: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];
const FANOUT_AT: u64 = 8;
const FANOUT: u64 = 256;
const ID_BYTES: u64 = 20;
/// The bit that marks an offset as an index into the table of large offsets.
const IS_LARGE: u32 = 1 << 31;
/// The type number of a pack entry with a whole commit.
const COMMIT_TYPE: u8 = 1;

/// The id of a Git object: the SHA-1 of its kind, its length and its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ObjectId(pub(super) [u8; 20]);

impl ObjectId {
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub(super) fn from_hex(text: &str) -> Option<Self> {
        Self::from_bytes(&hex::decode(text).ok()?)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Program,
    Link,
    Repository,
    Folder,
}

impl Kind {
    fn mode(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Program => "100755",
            Self::Link => "120000",
            Self::Repository => "160000",
            Self::Folder => "40000",
        }
    }
}

/// A file in a Git tree.
#[derive(Debug)]
pub(super) struct TreeItem {
    /// The path relative to the root of the tree.
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) id: ObjectId,
}

pub(super) fn id_of(kind: &str, content: &[u8]) -> ObjectId {
    let mut hash = Sha1::new();
    hash.update(format!("{kind} {}\0", content.len()));
    hash.update(content);
    ObjectId(hash.finalize().into())
}

/// Returns the id of the tree that has exactly these files.
pub(super) fn tree(items: Vec<TreeItem>) -> Result<ObjectId, Undetermined> {
    tree_at(items, DEPTH_MAX)
}

fn tree_at(items: Vec<TreeItem>, depth_left: usize) -> Result<ObjectId, Undetermined> {
    let depth_left = depth_left.checked_sub(1).ok_or(Undetermined::TooMuch)?;
    let mut folders: BTreeMap<Vec<u8>, Vec<TreeItem>> = BTreeMap::new();
    // Git sorts a folder as if its name ended with a slash.
    let mut entries: BTreeMap<Vec<u8>, (Vec<u8>, Kind, ObjectId)> = BTreeMap::new();
    for item in items {
        let slash = item.path.iter().position(|byte| *byte == b'/');
        let Some((name, rest)) = slash.and_then(|slash| item.path.split_at_checked(slash)) else {
            entries.insert(item.path.clone(), (item.path, item.kind, item.id));
            continue;
        };
        let path = rest.get(1..).unwrap_or_default().to_vec();
        folders.entry(name.to_vec()).or_default().push(TreeItem { path, ..item });
    }
    for (name, items) in folders {
        let id = tree_at(items, depth_left)?;
        entries.insert([&name[..], b"/"].concat(), (name, Kind::Folder, id));
    }
    let mut content = Vec::new();
    for (name, kind, id) in entries.into_values() {
        content.extend([kind.mode().as_bytes(), b" ", &name, b"\0", &id.0].concat());
    }
    Ok(id_of("tree", &content))
}

/// Returns the tree of a commit. Fails if the commit's content does not match its id.
pub(super) fn tree_of_commit(
    repository: &Folder,
    commit: ObjectId,
) -> Result<ObjectId, Undetermined> {
    let content = match loose(repository, commit)? {
        Some(content) => content,
        None => packed(repository, commit)?.ok_or(Undetermined::Commit)?,
    };
    if id_of("commit", &content) != commit {
        return Err(Undetermined::Damaged);
    }
    let line = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let tree = line.strip_prefix(b"tree ").and_then(|name| std::str::from_utf8(name).ok());
    tree.and_then(ObjectId::from_hex).ok_or(Undetermined::Damaged)
}

/// Reads a commit that is stored as a loose object: a separate file. Returns `None` if the file does not exist.
fn loose(repository: &Folder, commit: ObjectId) -> Result<Option<Vec<u8>>, Undetermined> {
    let name = commit.to_string();
    let (folder, file) = name.split_at_checked(2).ok_or(Undetermined::Damaged)?;
    let path = format!("objects/{folder}/{file}");
    let bytes_max = u64::try_from(COMMIT_BYTES_MAX).unwrap_or(u64::MAX);
    let bytes = match read_path(repository, path.as_bytes(), bytes_max) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let whole = decompress_to_vec_zlib_with_limit(&bytes, COMMIT_BYTES_MAX);
    let whole = whole.map_err(|_| Undetermined::Damaged)?;
    let end = whole.iter().position(|byte| *byte == 0).ok_or(Undetermined::Damaged)?;
    Ok(whole.get(end + 1..).map(<[u8]>::to_vec))
}

/// Reads a commit from a pack. Returns `None` if no pack contains the commit, or if the commit is stored as a delta.
fn packed(repository: &Folder, commit: ObjectId) -> Result<Option<Vec<u8>>, Undetermined> {
    let Ok((objects, name)) = parent(repository, b"objects/pack") else { return Ok(None) };
    let Ok(folder) = objects.folder(name) else { return Ok(None) };
    for name in folder.names(2 * PACKS_MAX)? {
        let Some(stem) = name.as_bytes().strip_suffix(b".idx") else { continue };
        let index = folder.linked_file(&name)?;
        let Some(offset) = offset_in_pack(&index, commit)? else { continue };
        let pack = [stem, b".pack"].concat();
        let pack = folder.linked_file(OsStr::from_bytes(&pack))?;
        return whole_commit(&pack, offset);
    }
    Ok(None)
}

/// Looks up the offset of an object in the index of a pack.
fn offset_in_pack(index: &File, id: ObjectId) -> Result<Option<u64>, Undetermined> {
    let mut start = [0; 8];
    index.read_exact_at(&mut start, 0)?;
    if start != PACK_INDEX {
        return Ok(None);
    }
    let short = |at: u64| -> Result<u32, Undetermined> {
        let mut bytes = [0; 4];
        index.read_exact_at(&mut bytes, at)?;
        Ok(u32::from_be_bytes(bytes))
    };
    let fanout = |byte: u64| short(FANOUT_AT + 4 * byte).map(u64::from);
    let first = u64::from(id.0.first().copied().unwrap_or_default());
    let count = fanout(FANOUT - 1)?;
    let mut low = if first == 0 { 0 } else { fanout(first - 1)? };
    let mut high = fanout(first)?;
    let ids_at = FANOUT_AT + 4 * FANOUT;
    while low < high {
        let middle = low.midpoint(high);
        let mut found = [0; 20];
        index.read_exact_at(&mut found, ids_at + ID_BYTES * middle)?;
        match found.cmp(&id.0) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
            std::cmp::Ordering::Equal => {
                // After the ids, the index has three tables: the checksum of each object, the offset of each object,
                // and the large offsets.
                let offsets_at = ids_at + (ID_BYTES + 4) * count;
                let offset = short(offsets_at + 4 * middle)?;
                if offset & IS_LARGE == 0 {
                    return Ok(Some(offset.into()));
                }
                let mut bytes = [0; 8];
                let number = u64::from(offset & !IS_LARGE);
                index.read_exact_at(&mut bytes, offsets_at + 4 * count + 8 * number)?;
                return Ok(Some(u64::from_be_bytes(bytes)));
            }
        }
    }
    Ok(None)
}

/// Reads the commit at this offset in a pack. Returns `None` if the commit is stored as a delta.
fn whole_commit(pack: &File, offset: u64) -> Result<Option<Vec<u8>>, Undetermined> {
    let mut bytes = vec![0; COMMIT_BYTES_MAX];
    let mut length = 0;
    while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
        let at = offset.checked_add(u64::try_from(length).unwrap_or(u64::MAX));
        match pack.read_at(rest, at.ok_or(Undetermined::Damaged)?)? {
            0 => break,
            read => length += read,
        }
    }
    let bytes = bytes.get(..length).unwrap_or_default();
    // The header of an entry has the type and the length. The last byte of the header is the first byte in which the
    // highest bit is 0.
    let first = bytes.first().copied().ok_or(Undetermined::Damaged)?;
    if first >> 4 & 7 != COMMIT_TYPE {
        return Ok(None);
    }
    let start = bytes.iter().position(|byte| byte & 0x80 == 0).map_or(bytes.len(), |at| at + 1);
    let content = bytes.get(start..).unwrap_or_default();
    let content = decompress_to_vec_zlib_with_limit(content, COMMIT_BYTES_MAX);
    content.map(Some).map_err(|_| Undetermined::Damaged)
}
