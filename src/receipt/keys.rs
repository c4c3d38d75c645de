//! The keys of receipts: the key that signs, and the public keys of all keys that have ever signed. A private key never
//! appears in a receipt, a message or the log.
//!
//! One folder contains all keys: `signing.key` (PKCS #8, readable only by the server's user), `signing.pub` (its
//! public key, for other programs), and `keys.json` (every public key so far, and its period of use). To verify
//! receipts, another user needs this folder without `signing.key`.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use chrono::{DateTime, SecondsFormat, Utc};
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{
    DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _,
    KeypairBytes,
};
use ed25519_dalek::{Signature, Signer as _, VerifyingKey};
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use rand::TryRng as _;
use rand::rngs::{SysError, SysRng};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{read_at_most, sha256};
use crate::strict_modes::{Unprotected, require_protected};

/// The name of the folder of keys, in the data folder.
pub(crate) const KEY_FOLDER: &str = "keys";

const SIGNING_KEY: &str = "signing.key";
const PUBLIC_KEY: &str = "signing.pub";
const RECORDS: &str = "keys.json";
/// The name of the file that is locked while a key is generated.
const LOCK: &str = ".lock";
/// The extension of files with a public key.
const PUBLIC_ENDING: &str = "pub";

/// The maximum size of a file with a key, in bytes.
const KEY_BYTES_MAX: u64 = 16 * 1024;
/// The maximum size of the file of key records, in bytes. The records of a thousand keys fit.
const RECORDS_BYTES_MAX: u64 = 1024 * 1024;

/// The permission bits of the group and of other users.
const OPEN_TO_OTHERS: u32 = 0o077;

/// The reason why keys cannot be used, for the admin. It contains paths, but never any part of a private key.
#[derive(Debug, Error)]
pub(crate) enum KeyError {
    #[error("failed to read {file}")]
    Read { file: PathBuf, source: io::Error },
    #[error("failed to write {file}")]
    Write { file: PathBuf, source: io::Error },
    #[error("{file} is not a regular file")]
    NotAFile { file: PathBuf },
    #[error("{file} has mode {mode:04o}, which lets others read it; run chmod 600")]
    Open { file: PathBuf, mode: u32 },
    #[error("{file} belongs to user {owner}, and must belong to this user")]
    Owner { file: PathBuf, owner: u32 },
    #[error(transparent)]
    Unprotected(#[from] Unprotected),
    #[error("{file} is not an Ed25519 private key in PKCS #8 (PEM)")]
    NotAPrivateKey { file: PathBuf },
    #[error("{file} is not an Ed25519 public key (PEM)")]
    NotAPublicKey { file: PathBuf },
    #[error("{file} has no list of keys as `qwed-mcp receipt keygen` writes it: {reason}")]
    Records { file: PathBuf, reason: String },
    #[error("{file}: the key id {keyid} does not match its public key")]
    KeyId { file: PathBuf, keyid: String },
    #[error("there is no key in {0}; `qwed-mcp receipt keygen` makes one")]
    None(PathBuf),
    #[error(
        "there is a key already: {0}. `qwed-mcp receipt keygen --rotate` replaces it, and keeps \
         its public key to verify earlier receipts"
    )]
    Exists(PathBuf),
    #[error("the operating system returned no random bits")]
    Random(#[from] SysError),
    #[error("the key cannot be encoded")]
    Encode,
}

/// The private key that signs receipts. Its `Debug` shows only the id of the public key.
pub(crate) struct SigningKey {
    key: ed25519_dalek::SigningKey,
    id: String,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.id)
    }
}

impl SigningKey {
    pub(super) fn of(secret: [u8; 32]) -> Self {
        let key = ed25519_dalek::SigningKey::from_bytes(&secret);
        Self { id: key_id(&key.verifying_key()), key }
    }

    fn random() -> Result<Self, KeyError> {
        let mut secret = [0; 32];
        SysRng.try_fill_bytes(&mut secret)?;
        Ok(Self::of(secret))
    }

    /// Reads the private key from a file. Fails if the file belongs to another user, or if another user (except root)
    /// can read or replace the file.
    pub(crate) fn load(file: &Path) -> Result<Self, KeyError> {
        let named = || file.to_owned();
        let failed = |source| KeyError::Read { file: named(), source };
        let opened = open_at_once(file).map_err(failed)?;
        let metadata = opened.metadata().map_err(failed)?;
        let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
        if !metadata.is_file() {
            return Err(KeyError::NotAFile { file: named() });
        }
        if owner != geteuid().as_raw() {
            return Err(KeyError::Owner { file: named(), owner });
        }
        if mode & OPEN_TO_OTHERS != 0 {
            return Err(KeyError::Open { file: named(), mode });
        }
        require_protected(file)?;
        let mut text = String::new();
        let read = opened.take(KEY_BYTES_MAX).read_to_string(&mut text);
        let not_a_key = || KeyError::NotAPrivateKey { file: named() };
        read.map_err(|_| not_a_key())?;
        let key = ed25519_dalek::SigningKey::from_pkcs8_pem(&text).map_err(|_| not_a_key())?;
        Ok(Self { id: key_id(&key.verifying_key()), key })
    }

    /// Returns the id of the key, which is the SHA-256 of the public key's 32 bytes.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.key.sign(message).to_bytes()
    }

    /// Returns whether `signature` is this key's signature of `message`.
    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        let signature = Signature::from_bytes(signature);
        self.key.verifying_key().verify_strict(message, &signature).is_ok()
    }

    pub(super) fn public_pem(&self) -> Result<String, KeyError> {
        let pem = self.key.verifying_key().to_public_key_pem(LineEnding::LF);
        pem.map_err(|_| KeyError::Encode)
    }
}

fn key_id(key: &VerifyingKey) -> String {
    format!("sha256:{}", sha256(key.as_bytes()))
}

/// A public key in `keys.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct KeyRecord {
    pub(crate) keyid: String,
    pub(crate) public_key: String,
    /// The earliest time at which the key may have signed a receipt.
    pub(crate) valid_from: DateTime<Utc>,
    /// The latest time at which the key may have signed a receipt. `None` for the key that is in use.
    pub(crate) valid_until: Option<DateTime<Utc>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyRecords {
    keys: Vec<KeyRecord>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyState {
    InUse,
    NotYet,
    NotAnyMore,
}

/// A public key, and its period of use.
#[derive(Debug, Clone)]
pub(crate) struct PublicKey {
    key: VerifyingKey,
    /// The times at which the use of the key began and ended. The second time is `None` while the key is in use. If the
    /// key comes from a file without records, both times are unknown, and `times` is `None`.
    times: Option<(DateTime<Utc>, Option<DateTime<Utc>>)>,
}

impl PublicKey {
    /// Returns whether `signature` is this key's signature of `message`.
    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.key.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }

    pub(super) fn state_at(&self, time: DateTime<Utc>) -> KeyState {
        match self.times {
            Some((from, _)) if time < from => KeyState::NotYet,
            Some((_, Some(until))) if time > until => KeyState::NotAnyMore,
            Some(_) | None => KeyState::InUse,
        }
    }
}

/// The public keys with which receipts are verified, by their ids.
#[derive(Debug, Clone, Default)]
pub(crate) struct PublicKeys(BTreeMap<String, PublicKey>);

impl PublicKeys {
    /// Reads all public keys of a folder, or the public key in a file.
    pub(crate) fn read(path: &Path) -> Result<Self, KeyError> {
        let mut keys = Self::default();
        if path.is_file() {
            keys.add_file(path)?;
            return Ok(keys);
        }
        let failed = |source| KeyError::Read { file: path.to_owned(), source };
        let mut files = Vec::new();
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(KeyError::None(path.to_owned()));
            }
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            files.push(entry.map_err(failed)?.path());
        }
        files.retain(|file| file.extension().is_some_and(|ending| ending == PUBLIC_ENDING));
        files.sort();
        for file in files {
            keys.add_file(&file)?;
        }
        // If a key is in a file and in the records, use the record, because it contains the key's period of use.
        for record in records(&path.join(RECORDS))?.keys {
            let file = path.join(RECORDS);
            let key = VerifyingKey::from_public_key_pem(&record.public_key)
                .map_err(|_| KeyError::NotAPublicKey { file: file.clone() })?;
            if key_id(&key) != record.keyid {
                return Err(KeyError::KeyId { file, keyid: record.keyid });
            }
            let times = Some((record.valid_from, record.valid_until));
            keys.0.insert(record.keyid, PublicKey { key, times });
        }
        if keys.0.is_empty() { Err(KeyError::None(path.to_owned())) } else { Ok(keys) }
    }

    fn add_file(&mut self, file: &Path) -> Result<(), KeyError> {
        let failed = |source| KeyError::Read { file: file.to_owned(), source };
        let Some(pem) = read_regular(file, KEY_BYTES_MAX).map_err(failed)? else {
            return Err(KeyError::NotAFile { file: file.to_owned() });
        };
        let pem = String::from_utf8(pem).unwrap_or_default();
        let key = VerifyingKey::from_public_key_pem(&pem)
            .map_err(|_| KeyError::NotAPublicKey { file: file.to_owned() })?;
        self.0.insert(key_id(&key), PublicKey { key, times: None });
        Ok(())
    }

    pub(super) fn get(&self, keyid: &str) -> Option<&PublicKey> {
        self.0.get(keyid)
    }
}

/// Reads the file of key records. Returns no records if the file does not exist.
fn records(file: &Path) -> Result<KeyRecords, KeyError> {
    let bytes = match read_regular(file, RECORDS_BYTES_MAX) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Err(KeyError::NotAFile { file: file.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(KeyRecords::default()),
        Err(source) => return Err(KeyError::Read { file: file.to_owned(), source }),
    };
    serde_json::from_slice(&bytes)
        .map_err(|error| KeyError::Records { file: file.to_owned(), reason: error.to_string() })
}

/// Opens a file for reading. If the file is a named pipe, does not wait for a writer.
fn open_at_once(file: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(file)
}

/// Reads a file of up to `bytes_max` bytes. `None` if it is not a regular file. A symlink to a regular file is
/// followed, because Kubernetes mounts folders with such symlinks.
fn read_regular(file: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let opened = open_at_once(file)?;
    opened.metadata()?.is_file().then(|| read_at_most(opened, bytes_max)).transpose()
}

/// The folder of this server's keys.
#[derive(Debug)]
pub(crate) struct KeyStore {
    folder: PathBuf,
}

impl KeyStore {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(crate) fn signing_key(&self) -> PathBuf {
        self.folder.join(SIGNING_KEY)
    }

    pub(crate) fn public_key(&self) -> PathBuf {
        self.folder.join(PUBLIC_KEY)
    }

    /// Generates a key. If a key exists, replaces this key if `rotates` is `true`, and fails otherwise. Waits while
    /// another process generates a key in this folder.
    ///
    /// The public key is written to the disk before the private key, so that every signature can be verified.
    pub(crate) fn generate(&self, rotates: bool) -> Result<SigningKey, KeyError> {
        if !rotates {
            self.require_no_key()?;
        }
        let failed = |source| KeyError::Write { file: self.folder.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(failed)?;
        require_protected(&self.folder)?;
        let _lock = self.lock()?;
        // Another process may have generated a key since the first check.
        if !rotates {
            self.require_no_key()?;
        }
        let key = SigningKey::random()?;
        let now = to_milliseconds(Utc::now());
        let mut records = records(&self.folder.join(RECORDS))?;
        for record in records.keys.iter_mut().filter(|record| record.valid_until.is_none()) {
            record.valid_until = Some(now);
        }
        records.keys.push(KeyRecord {
            keyid: key.id.clone(),
            public_key: key.public_pem()?,
            valid_from: now,
            valid_until: None,
        });
        let text = serde_json::to_string_pretty(&records).map_err(|_| KeyError::Encode)?;
        // Write version 1 of PKCS #8, without the public key, because older programs read no other version.
        let pair = KeypairBytes { secret_key: key.key.to_bytes(), public_key: None };
        let private = pair.to_pkcs8_pem(LineEnding::LF).map_err(|_| KeyError::Encode)?;
        self.write(RECORDS, format!("{text}\n").as_bytes(), 0o644)?;
        self.write(PUBLIC_KEY, key.public_pem()?.as_bytes(), 0o644)?;
        self.write(SIGNING_KEY, private.as_bytes(), 0o600)?;
        Ok(key)
    }

    fn require_no_key(&self) -> Result<(), KeyError> {
        let file = self.signing_key();
        if file.symlink_metadata().is_ok() { Err(KeyError::Exists(file)) } else { Ok(()) }
    }

    /// Waits for the lock of the folder. Closing the returned file releases the lock.
    fn lock(&self) -> Result<File, KeyError> {
        let file = self.folder.join(LOCK);
        let mut options = OpenOptions::new();
        // Open the file for writing, because network file systems grant exclusive locks only to writers.
        options.write(true).create(true).truncate(false).mode(0o600);
        let locked = options.open(&file).and_then(|lock| match lock.lock() {
            // Some file systems have no locks.
            Err(error) if error.kind() != io::ErrorKind::Unsupported => Err(error),
            Ok(()) | Err(_) => Ok(lock),
        });
        locked.map_err(|source| KeyError::Write { file, source })
    }

    /// Returns the signing key. Generates a key if none exists.
    pub(crate) fn signing_key_or_new(&self) -> Result<SigningKey, KeyError> {
        match self.generate(false) {
            Ok(key) => Ok(key),
            Err(KeyError::Exists(file)) => SigningKey::load(&file),
            Err(error) => Err(error),
        }
    }

    /// Writes a file of the folder, either completely or not at all. The file is on the disk when this function
    /// returns.
    fn write(&self, name: &str, content: &[u8], mode: u32) -> Result<(), KeyError> {
        let file = self.folder.join(name);
        let written = || {
            let mut draft = tempfile::Builder::new()
                .prefix(".new-")
                .permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))
                .tempfile_in(&self.folder)?;
            draft.write_all(content)?;
            draft.as_file().sync_all()?;
            draft.persist(&file)?;
            File::open(&self.folder)?.sync_all()
        };
        written().map_err(|source| KeyError::Write { file: file.clone(), source })
    }
}

/// Rounds a time down to milliseconds, the precision of receipts. If key records had a higher precision, a receipt from
/// the same millisecond as its key would seem older than the key.
pub(super) fn to_milliseconds(time: DateTime<Utc>) -> DateTime<Utc> {
    let text = time_text(time);
    text.parse().unwrap_or(time)
}

/// Returns a time as text in the format of receipts.
pub(super) fn time_text(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}
