//! Parses versions 2 and 3 of Git's index, the list of tracked files: `gitformat-index(5)`. Never reads the tracked
//! files.

use super::object::{Kind, ObjectId};
use super::{Folder, Undetermined, read_path};

const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The limit for a path, in bytes.
const PATH_BYTES_MAX: usize = 4096;

const HEADER_BYTES: usize = 12;
/// The length of an index entry without its path, in bytes.
const FIXED_BYTES: usize = 62;
/// The length of an object id, and of the digest at the end of the index, in bytes.
const DIGEST_BYTES: usize = 20;
const MODE_AT: usize = 24;
const ID_AT: usize = 40;
const FLAGS_AT: usize = 60;

/// The flag that is set if an index entry also has extended flags.
const EXTENDED: u16 = 0x4000;
/// The bits of an entry's flags that contain the merge stage. The stage is not zero during an unfinished merge.
const STAGES: u16 = 0x3000;
/// The extended flag of files that are deliberately not checked out.
const SKIP_WORKTREE: u16 = 0x4000;

/// The extensions that change the meaning of the index, each with the reason why the index is not supported.
const REQUIRED: [(&[u8; 4], &str); 2] =
    [(b"link", "it is split in two"), (b"sdir", "it has folders, of a sparse checkout")];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    /// The id of the file's content when the file was added to the index.
    pub(super) id: ObjectId,
    /// Whether the file is deliberately not checked out.
    pub(super) is_left_out: bool,
    /// Whether a merge has left several versions of the file.
    pub(super) is_unmerged: bool,
}

impl Entry {
    /// Returns whether this file can make Git convert other files (`.gitattributes`).
    pub(super) fn is_attributes(&self) -> bool {
        self.path.split(|byte| *byte == b'/').next_back() == Some(b".gitattributes")
    }
}

pub(super) fn read(repository: &Folder) -> Result<Vec<Entry>, Undetermined> {
    parse(&read_path(repository, b"index", BYTES_MAX)?)
}

fn parse(bytes: &[u8]) -> Result<Vec<Entry>, Undetermined> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES).ok_or(Undetermined::Damaged)?;
    if header.get(..4) != Some(b"DIRC") {
        return Err(Undetermined::Damaged);
    }
    match number(header, 4)? {
        2 | 3 => {}
        _ => return Err(Undetermined::Index("its version is not supported")),
    }
    let count = number(header, 8)?;
    let mut rest = rest;
    let mut entries = Vec::new();
    for _ in 0..count {
        let (entry, behind) = entry(rest)?;
        entries.push(entry);
        rest = behind;
    }
    require_known_extensions(rest)?;
    Ok(entries)
}

/// Parses the first entry in `bytes`. Returns the entry and the remaining bytes.
fn entry(bytes: &[u8]) -> Result<(Entry, &[u8]), Undetermined> {
    let flags = short(bytes, FLAGS_AT)?;
    let is_extended = flags & EXTENDED != 0;
    let more = if is_extended { short(bytes, FIXED_BYTES)? } else { 0 };
    let name_at = FIXED_BYTES + if is_extended { 2 } else { 0 };
    let name = bytes.get(name_at..).ok_or(Undetermined::Damaged)?;
    let length = name.iter().take(PATH_BYTES_MAX).position(|byte| *byte == 0);
    let length = length.ok_or(Undetermined::Damaged)?;
    let id = bytes.get(ID_AT..ID_AT + DIGEST_BYTES).and_then(ObjectId::from_bytes);
    let kind = match number(bytes, MODE_AT)? {
        0o100_644 => Kind::File,
        0o100_755 => Kind::Program,
        0o120_000 => Kind::Link,
        0o160_000 => Kind::Repository,
        _ => return Err(Undetermined::Index("it has an entry of an unknown kind")),
    };
    let entry = Entry {
        path: name.get(..length).unwrap_or_default().to_vec(),
        kind,
        id: id.ok_or(Undetermined::Damaged)?,
        is_left_out: more & SKIP_WORKTREE != 0,
        is_unmerged: flags & STAGES != 0,
    };
    // One to eight NUL bytes pad the length of an entry to a multiple of eight.
    let whole = (name_at + length + 8) / 8 * 8;
    Ok((entry, bytes.get(whole..).ok_or(Undetermined::Damaged)?))
}

fn require_known_extensions(mut bytes: &[u8]) -> Result<(), Undetermined> {
    while bytes.len() > DIGEST_BYTES {
        let name = bytes.get(..4).unwrap_or_default();
        if let Some((_, what)) = REQUIRED.iter().find(|(known, _)| known.as_slice() == name) {
            return Err(Undetermined::Index(what));
        }
        let length = usize::try_from(number(bytes, 4)?).map_err(|_| Undetermined::Damaged)?;
        bytes = bytes.get(8 + length..).ok_or(Undetermined::Damaged)?;
    }
    Ok(())
}

fn number(bytes: &[u8], at: usize) -> Result<u32, Undetermined> {
    let number = bytes.get(at..at + 4).and_then(|it| it.try_into().ok());
    number.map(u32::from_be_bytes).ok_or(Undetermined::Damaged)
}

fn short(bytes: &[u8], at: usize) -> Result<u16, Undetermined> {
    let number = bytes.get(at..at + 2).and_then(|it| it.try_into().ok());
    number.map(u16::from_be_bytes).ok_or(Undetermined::Damaged)
}
