//! Compares the file of a skill with the digest in the skill's manifest. It opens a file outside of the manifest's
//! folder only if the caller names the file.

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};

use super::checks::wrong_type;
use super::digest::Digest;
use super::finding::{Finding, excerpt, is_unseen};

/// The file to which the digest of a manifest applies.
#[derive(Debug)]
pub(super) struct Artifact {
    /// The name of the file, as findings show it.
    name: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// The caller named this path.
    Anywhere(PathBuf),
    /// The manifest named this path. The file must be below the manifest's folder, because a manifest must not make
    /// this program read other files.
    Within { folder: PathBuf, path: PathBuf },
}

impl Artifact {
    /// Creates an artifact from the path that the caller names.
    pub(super) fn named_by_caller(path: &Path) -> Self {
        Self { name: path.display().to_string(), place: Place::Anywhere(path.to_owned()) }
    }

    /// Reads the field `artifact` of the manifest, which is a path relative to the manifest's folder. Returns `None` if
    /// the manifest has no such field.
    pub(super) fn named_by_manifest(
        manifest: &Map<String, Value>,
        folder: &Path,
    ) -> Result<Option<Self>, Finding> {
        let name = match manifest.get("artifact") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(name)) => name.clone(),
            other => return Err(wrong_type("artifact", other)),
        };
        let path = PathBuf::from(&name);
        let is_beside = path.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_beside || name.trim().is_empty() || name.contains('\0') {
            let shown = excerpt(&name);
            let reason = "is not a relative path below the manifest's folder";
            return Err(Finding::high(format!("Artifact '{shown}' {reason}")));
        }
        if name.contains(is_unseen) {
            let shown = excerpt(&name);
            let reason = "contains invisible or control characters";
            return Err(Finding::high(format!("Artifact '{shown}' {reason}")));
        }
        Ok(Some(Self { name, place: Place::Within { folder: folder.to_owned(), path } }))
    }

    /// Compares the file with the digest in the manifest. Returns a finding if they differ, or if the file cannot be
    /// read.
    pub(super) fn compare(&self, digest: &Digest) -> Option<Finding> {
        let name = excerpt(&self.name);
        let found = self.open().and_then(|file| {
            digest.of_same_kind(file).map_err(|_| "it cannot be read to its end".to_owned())
        });
        match found {
            Ok(found) if found.matches(digest) => None,
            Ok(found) => Some(Finding::high(format!(
                "Artifact '{name}' does not match the digest: it has {found}"
            ))),
            Err(reason) => {
                Some(Finding::high(format!("Artifact '{name}' cannot be verified: {reason}")))
            }
        }
    }

    /// Returns the finding for a manifest that names a file but has no digest.
    pub(super) fn without_digest(&self) -> Finding {
        let name = excerpt(&self.name);
        Finding::high(format!("Artifact '{name}' cannot be verified: the manifest has no digest"))
    }

    fn open(&self) -> Result<File, String> {
        let reason = |error: std::io::Error| error.to_string();
        let path = match &self.place {
            Place::Anywhere(path) => path.clone(),
            Place::Within { folder, path } => {
                let folder = folder.canonicalize().map_err(reason)?;
                let path = folder.join(path).canonicalize().map_err(reason)?;
                if !path.starts_with(&folder) {
                    return Err("it is a link that leads out of the manifest's folder".to_owned());
                }
                path
            }
        };
        // Check the file type before opening the file, because opening a pipe would wait for a writer.
        if !path.metadata().map_err(reason)?.is_file() {
            return Err("it is not a regular file".to_owned());
        }
        File::open(path).map_err(reason)
    }
}
