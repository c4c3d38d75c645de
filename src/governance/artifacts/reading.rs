//! Reads the files of a run in chunks. Never returns the lock file or an incomplete file.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{ArtifactError, Artifacts, failed_to, is_internal, lock_shared};
use crate::folder::Folder;

/// The default length of a chunk, in bytes.
pub(crate) const READ_LIMIT_DEFAULT: usize = 64 * 1024;
/// The maximum length of a chunk, in bytes. The length is limited because each reply contains a whole chunk.
pub(crate) const READ_LIMIT_MAX: usize = 1024 * 1024;
const BUFFER_BYTES: usize = 64 * 1024;
const PATH_BYTES_MAX: usize = 1024;
const PATH_PARTS_MAX: usize = 32;
/// The maximum number of bytes that follow the first byte of a UTF-8 character.
const CONTINUATION_MAX: usize = 3;

/// The errors that the tests or the caller can cause when a file is opened, each with the text for the caller.
const OPEN_ERRORS: [(io::ErrorKind, &str); 3] = [
    (
        io::ErrorKind::InvalidInput,
        "is not a regular file, or is a symlink, or the file has several names",
    ),
    (io::ErrorKind::NotADirectory, "has a part that is a symlink or not a folder"),
    (io::ErrorKind::InvalidFilename, "has a name that is too long"),
];

/// The media types by file extension. All other files are `application/octet-stream`.
const MEDIA_TYPES: [(&str, &str); 21] = [
    ("txt", "text/plain"),
    ("log", "text/plain"),
    ("py", "text/x-python"),
    ("toml", "text/plain"),
    ("ini", "text/plain"),
    ("cfg", "text/plain"),
    ("md", "text/markdown"),
    ("csv", "text/csv"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("css", "text/css"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("xml", "application/xml"),
    ("pdf", "application/pdf"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("gif", "image/gif"),
];

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) content: Content,
    /// The media type for the file extension.
    pub(crate) media_type: &'static str,
    /// The length of the chunk, in bytes.
    pub(crate) bytes: usize,
    /// The length of the file, in bytes.
    pub(crate) total_bytes: u64,
    /// The offset of the next chunk; `None` for the last chunk.
    pub(crate) next_offset: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// UTF-8 text.
    Text(String),
    /// Bytes that are not UTF-8, in base64.
    Binary(String),
}

impl Artifacts {
    /// Reads up to `limit` bytes of a file, starting at `offset`. `path` is relative to the folder of the run.
    ///
    /// A chunk of a UTF-8 text never ends within a character. So every chunk is valid UTF-8 if each read starts at the
    /// `next_offset` of the previous chunk.
    pub(crate) fn read(
        &self,
        run_id: Uuid,
        path: &str,
        offset: u64,
        limit: Option<usize>,
    ) -> Result<Chunk, ArtifactError> {
        let opened = self.open(run_id, path, limit)?;
        let mut file = &opened.file;
        let failed = failed_to("read the file");
        let total_bytes = file.metadata().map_err(&failed)?.len();
        let mut bytes = Vec::new();
        if offset < total_bytes {
            let bytes_max = u64::try_from(opened.limit + CONTINUATION_MAX).unwrap_or(u64::MAX);
            file.seek(SeekFrom::Start(offset)).map_err(&failed)?;
            file.take(bytes_max).read_to_end(&mut bytes).map_err(failed)?;
        }
        Ok(opened.chunk(offset, bytes, total_bytes))
    }

    /// Reads the whole file to compute its SHA-256, and returns a chunk like [`Self::read`]. The SHA-256 is `None` if
    /// the file does not have the expected length `total_bytes`. One read produces the chunk and the SHA-256, so they
    /// match even if the file changes meanwhile.
    pub(crate) fn read_hashed(
        &self,
        run_id: Uuid,
        path: &str,
        offset: u64,
        limit: Option<usize>,
        total_bytes: u64,
    ) -> Result<(Chunk, Option<String>), ArtifactError> {
        let opened = self.open(run_id, path, limit)?;
        let mut window = Window::new(offset, opened.limit + CONTINUATION_MAX);
        let sha256 = hash(&opened.file, total_bytes, |part| window.push(part));
        let sha256 = sha256.map_err(failed_to("read the file"))?;
        Ok((opened.chunk(offset, window.bytes, total_bytes), sha256))
    }

    fn open(
        &self,
        run_id: Uuid,
        path: &str,
        limit: Option<usize>,
    ) -> Result<Opened, ArtifactError> {
        let path = relative(path)?;
        let limit = match limit.unwrap_or(READ_LIMIT_DEFAULT) {
            limit @ ..=READ_LIMIT_MAX => limit.max(1),
            _ => return Err(ArtifactError::TooLarge { max: READ_LIMIT_MAX }),
        };
        let folder = self.run(run_id)?;
        let lock = lock_shared(&folder);
        let file = open(&folder, &path)?;
        Ok(Opened { file, path, limit, _lock: lock })
    }
}

/// A file that was opened to read one chunk.
struct Opened {
    file: File,
    path: PathBuf,
    /// The maximum length of the chunk, in bytes.
    limit: usize,
    _lock: Option<File>,
}

impl Opened {
    /// Creates the chunk that starts at `offset`. `bytes` has the content of the file from `offset` on, and may be
    /// longer than the chunk.
    fn chunk(&self, offset: u64, mut bytes: Vec<u8>, total_bytes: u64) -> Chunk {
        bytes.truncate(end_of_character(&bytes, self.limit));
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let end = offset.saturating_add(len);
        Chunk {
            media_type: media_type(&self.path),
            bytes: bytes.len(),
            total_bytes,
            next_offset: (len > 0 && end < total_bytes).then_some(end),
            content: match String::from_utf8(bytes) {
                Ok(text) => Content::Text(text),
                Err(error) => Content::Binary(BASE64_STANDARD.encode(error.as_bytes())),
            },
        }
    }
}

/// Collects the bytes of one range from a stream that arrives in parts, and discards all other bytes.
pub(super) struct Window {
    /// The number of bytes in the stream from the current position to the start of the range.
    before: u64,
    pub(super) bytes: Vec<u8>,
    bytes_max: usize,
}

impl Window {
    pub(super) fn new(offset: u64, bytes_max: usize) -> Self {
        Self { before: offset, bytes: Vec::new(), bytes_max }
    }

    pub(super) fn push(&mut self, part: &[u8]) {
        let skipped = usize::try_from(self.before).unwrap_or(usize::MAX).min(part.len());
        self.before -= u64::try_from(skipped).unwrap_or(self.before);
        let wanted = self.bytes_max - self.bytes.len();
        self.bytes.extend(part.iter().skip(skipped).take(wanted));
    }
}

/// Reads a file in parts to compute its SHA-256, and passes each part to `consume`. Returns `None` if the length of the
/// file is not `total_bytes`.
pub(super) fn hash(
    file: impl io::Read,
    total_bytes: u64,
    mut consume: impl FnMut(&[u8]),
) -> io::Result<Option<String>> {
    let mut bounded = file.take(total_bytes.saturating_add(1));
    let mut hash = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut bytes_read = 0_u64;
    loop {
        let read = match bounded.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let Some(part) = buffer.get(..read).filter(|part| !part.is_empty()) else { break };
        hash.update(part);
        consume(part);
        bytes_read = bytes_read.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
    }
    Ok((bytes_read == total_bytes).then(|| hex::encode(hash.finalize())))
}

/// Returns whether [`Artifacts::read`] accepts a path.
pub(super) fn is_readable(path: &Path) -> bool {
    path.to_str().is_some_and(|path| relative(path).is_ok())
}

pub(super) fn media_type(path: &Path) -> &'static str {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    MEDIA_TYPES
        .iter()
        .find(|(known, _)| ending.eq_ignore_ascii_case(known))
        .map_or("application/octet-stream", |(_, media_type)| media_type)
}

fn relative(path: &str) -> Result<PathBuf, ArtifactError> {
    let invalid = |reason| Err(ArtifactError::InvalidPath { reason });
    if path.is_empty() {
        return invalid("is empty");
    }
    if path.len() > PATH_BYTES_MAX {
        return invalid("is longer than 1024 bytes");
    }
    if path.contains('\0') {
        return invalid("has a NUL byte");
    }
    // Check the text instead of `Path::components`, which parses `a//b` and `a/.` as `a/b` and `a`.
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return invalid("is not relative to the run, or has an empty part, . or .. in it");
    }
    if path.split('/').count() > PATH_PARTS_MAX {
        return invalid("has more than 32 parts");
    }
    let parsed = Path::new(path);
    if is_internal(parsed) {
        return Err(ArtifactError::FileNotFound);
    }
    Ok(parsed.to_owned())
}

/// Opens a file of a run. Opens each folder in the path separately, so that no symlink is followed.
pub(super) fn open(run: &Folder, path: &Path) -> Result<File, ArtifactError> {
    let opened = |error: io::Error| {
        let kind = error.kind();
        let row = OPEN_ERRORS.iter().find(|(known, _)| *known == kind);
        match row {
            _ if kind == io::ErrorKind::NotFound => ArtifactError::FileNotFound,
            Some((_, reason)) => ArtifactError::InvalidPath { reason },
            None => failed_to("open the file")(error),
        }
    };
    let mut folder = None;
    if let Some(parent) = path.parent() {
        for part in parent {
            folder = Some(folder.as_ref().unwrap_or(run).folder(part).map_err(opened)?);
        }
    }
    let name = path.file_name().unwrap_or_default();
    folder.as_ref().unwrap_or(run).file(name).map_err(opened)
}

/// Returns the length to which `bytes` must be cut: `limit`, or less if `limit` is within a character. If `limit` is
/// within the first character, returns the end of this character, so that no chunk is empty.
fn end_of_character(bytes: &[u8], limit: usize) -> usize {
    let continues = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    if !continues(limit) {
        return limit.min(bytes.len());
    }
    let earliest = limit.saturating_sub(CONTINUATION_MAX);
    match (earliest..limit).rev().find(|at| !continues(*at)) {
        Some(0) => (limit..limit + CONTINUATION_MAX)
            .find(|at| !continues(*at))
            .unwrap_or(limit + CONTINUATION_MAX)
            .min(bytes.len()),
        Some(start) => start,
        // The continuation bytes at `limit` do not belong to a valid character. So `bytes` is not UTF-8 and can be cut
        // anywhere.
        None => limit,
    }
}
