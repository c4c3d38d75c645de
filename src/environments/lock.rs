//! Lock files: exact versions of packages, and the hashes of the files that may be installed for them. Options, URLs
//! and paths are never accepted.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::package::{is_version, normalised};
use crate::config::is_package_name;

/// The lock of the QWED packages and all their dependencies, made by `tests/environments/lock`.
const SDK: &str = include_str!("requirements.lock");

/// Pairs of a module and the package in [`SDK`] that contains the module, if their names differ. The modules of
/// the verification libraries are in the table of `verification_package`, which callers search first.
const MODULES: [(&str, &str); 11] = [
    ("PIL", "pillow"),
    ("attr", "attrs"),
    ("dateutil", "python-dateutil"),
    ("dns", "dnspython"),
    ("dotenv", "python-dotenv"),
    ("jwt", "pyjwt"),
    ("mpl_toolkits", "matplotlib"),
    ("opentelemetry", "opentelemetry-api"),
    ("pylab", "matplotlib"),
    ("rpds", "rpds-py"),
    ("yaml", "pyyaml"),
];

/// The maximum size of a lock file, in bytes. The lock file of the QWED packages is a quarter of a megabyte long.
const LOCK_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The hash algorithms that pip accepts, with their numbers of hexadecimal digits.
const HASHES: [(&str, usize); 3] = [("sha256:", 64), ("sha384:", 96), ("sha512:", 128)];

/// The packages of an environment, as parsed from a lock file. `Lock::default()` contains no packages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lock {
    pins: Vec<Pin>,
    is_sdk: bool,
}

/// One version of a package, for the platforms that the PEP 508 marker `marker` selects.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pin {
    /// The package name, with extras if any, such as `pydantic[email]`.
    name: String,
    version: String,
    marker: Option<String>,
    hashes: Vec<String>,
}

/// The report that `pip install --dry-run` writes about the packages that pip would install.
#[derive(Deserialize)]
struct Report {
    install: Vec<Reported>,
}

#[derive(Deserialize)]
struct Reported {
    metadata: Metadata,
    download_info: DownloadInfo,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    version: String,
}

#[derive(Deserialize)]
struct DownloadInfo {
    archive_info: ArchiveInfo,
}

#[derive(Deserialize)]
struct ArchiveInfo {
    /// The name of the hash algorithm, `=`, and the hexadecimal digits of the hash.
    hash: String,
}

impl Reported {
    fn pin(self) -> Option<Pin> {
        let (name, version) = (self.metadata.name, self.metadata.version);
        let hash = self.download_info.archive_info.hash.replacen('=', ":", 1);
        Pin::parse(&format!("{name}=={version} --hash={hash}"))
    }
}

/// An error in a lock file.
#[derive(Debug, Error)]
pub(crate) enum LockError {
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    #[error("it is larger than {LOCK_BYTES_MAX} bytes")]
    TooLarge,
    #[error("it is not UTF-8")]
    NotText,
    #[error(
        "line {0}: expected NAME==VERSION and its hashes, as `uv pip compile --generate-hashes` \
         writes them; options, URLs and paths are not supported"
    )]
    Line(usize),
    #[error("it names no packages")]
    Empty,
}

impl Lock {
    /// Returns the lock of the QWED packages.
    pub(crate) fn sdk() -> Result<Self, LockError> {
        Ok(Self { is_sdk: true, ..Self::parse(SDK)? })
    }

    /// Returns the names of the packages in the lock of the QWED packages.
    pub(crate) fn sdk_names() -> &'static BTreeSet<String> {
        static NAMES: LazyLock<BTreeSet<String>> =
            LazyLock::new(|| Lock::sdk().map(|lock| lock.names()).unwrap_or_default());
        &NAMES
    }

    /// Returns the package that contains `module`, if it is in the lock of the QWED packages and has another name than
    /// the module.
    pub(crate) fn sdk_package(module: &str) -> Option<&'static str> {
        MODULES.into_iter().find_map(|(known, package)| (known == module).then_some(package))
    }

    /// Reads a lock file that the admin wrote.
    pub(crate) fn read(file: &Path) -> Result<Self, LockError> {
        let mut bytes = Vec::new();
        let opened = File::open(file).map_err(LockError::Read)?;
        opened.take(LOCK_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(LockError::Read)?;
        if u64::try_from(bytes.len()).is_ok_and(|count| count > LOCK_BYTES_MAX) {
            return Err(LockError::TooLarge);
        }
        Self::parse(&String::from_utf8(bytes).map_err(|_| LockError::NotText)?)
    }

    /// Returns whether this is the lock of [`Self::sdk`], possibly with packages that the admin added.
    pub(crate) fn is_sdk(&self) -> bool {
        self.is_sdk
    }

    /// Returns the names of the packages.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.pins.iter().map(Pin::package).collect()
    }

    /// Returns the names of the packages that the lock requires on every platform: the packages without a PEP 508
    /// marker. Every environment with this lock contains these packages.
    pub(super) fn unconditional_names(&self) -> BTreeSet<String> {
        self.pins.iter().filter(|pin| pin.marker.is_none()).map(Pin::package).collect()
    }

    /// Returns the lock in the format of a requirements file, for pip and uv. The text contains only parsed entries.
    pub(super) fn text(&self) -> String {
        self.lines(|pin| {
            let hashes = pin.hashes.iter().flat_map(|hash| [" --hash=", hash]);
            hashes.collect()
        })
    }

    /// Returns the packages with their versions, in the format of a constraints file: without hashes. The packages that
    /// the admin adds must fit these constraints.
    pub(super) fn constraints(&self) -> String {
        // Remove the extras, because pip rejects them in constraints.
        let bare = |pin: &Pin| {
            let name = pin.name.split('[').next().unwrap_or_default().to_owned();
            Pin { name, ..pin.clone() }
        };
        let pins = self.pins.iter().map(bare).collect();
        Self { pins, is_sdk: false }.lines(|_| String::new())
    }

    /// Returns this lock with the packages of `resolved` added. A resolved package replaces the package with the same
    /// name. If `known` contains a resolved package in the same version, the hashes in `known` are used.
    pub(super) fn with(&self, resolved: &Self, known: &Self) -> Self {
        let is_resolved = |pin: &Pin| resolved.pins.iter().any(|other| other.is_of(pin));
        let kept = self.pins.iter().filter(|pin| !is_resolved(pin)).cloned();
        let known = |pin: &Pin| {
            let same = known.pins.iter().find(|own| own.is_of(pin) && own.version == pin.version);
            same.map(|own| Pin { marker: None, ..own.clone() })
        };
        let added = resolved.pins.iter().map(|pin| known(pin).unwrap_or_else(|| pin.clone()));
        Self { pins: kept.chain(added).collect(), is_sdk: self.is_sdk }
    }

    /// Creates a lock from the report of `pip install --dry-run`.
    pub(super) fn of_report(report: &[u8]) -> Option<Self> {
        let report: Report = serde_json::from_slice(report).ok()?;
        let pins = report.install.into_iter().map(Reported::pin).collect::<Option<Vec<_>>>()?;
        Some(Self { pins, is_sdk: false })
    }

    /// Returns the SHA-256 of the text of the lock.
    pub(super) fn sha256(&self) -> String {
        hex::encode(Sha256::digest(self.text()))
    }

    fn lines(&self, end: impl Fn(&Pin) -> String) -> String {
        let mut text = String::new();
        for pin in &self.pins {
            let marker = pin.marker.as_ref().map(|marker| format!(" ; {marker}"));
            let (marker, end) = (marker.unwrap_or_default(), end(pin));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}=={}{marker}{end}", pin.name, pin.version);
        }
        text
    }

    fn parse(text: &str) -> Result<Self, LockError> {
        let mut pins = Vec::new();
        let mut entry = String::new();
        let mut start = 1;
        for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line)) {
            let line = without_comment(line).trim();
            if entry.is_empty() {
                start = number;
            }
            if let Some(begun) = line.strip_suffix('\\') {
                entry.push_str(begun);
                entry.push(' ');
                continue;
            }
            entry.push_str(line);
            if !entry.trim().is_empty() {
                pins.push(Pin::parse(entry.trim()).ok_or(LockError::Line(start))?);
            }
            entry.clear();
        }
        if !entry.trim().is_empty() {
            return Err(LockError::Line(start));
        }
        if pins.is_empty() {
            return Err(LockError::Empty);
        }
        Ok(Self { pins, is_sdk: false })
    }
}

/// Removes the comment at the end of a line. A comment begins with a `#` at the start of the line or after a space.
fn without_comment(line: &str) -> &str {
    let is_comment = |(at, _): &(usize, &str)| {
        *at == 0 || line.get(..*at).is_some_and(|before| before.ends_with([' ', '\t']))
    };
    let comment = line.match_indices('#').find(is_comment);
    comment.and_then(|(at, _)| line.get(..at)).unwrap_or(line)
}

impl Pin {
    /// Returns the normalised name, without extras.
    fn package(&self) -> String {
        normalised(self.name.split('[').next().unwrap_or(&self.name))
    }

    fn is_of(&self, other: &Self) -> bool {
        self.package() == other.package()
    }

    fn parse(entry: &str) -> Option<Self> {
        let (requirement, hashes) = entry.split_once(" --hash=")?;
        let hashes: Vec<String> =
            hashes.split(" --hash=").map(|hash| hash.trim().to_owned()).collect();
        let (pinned, marker) = match requirement.split_once(';') {
            Some((pinned, marker)) => (pinned, Some(marker.trim().to_owned())),
            None => (requirement, None),
        };
        let (name, version) = pinned.split_once("==")?;
        let (name, version) = (name.trim(), version.trim());
        let is_marked = marker.as_deref().is_none_or(is_marker);
        let is_pinned = is_name_with_extras(name) && is_version(version) && !version.contains('*');
        let is_sound = is_pinned && is_marked && hashes.iter().all(|hash| is_hash(hash));
        is_sound.then(|| Self {
            name: name.to_owned(),
            version: version.to_owned(),
            marker,
            hashes,
        })
    }
}

fn is_name_with_extras(text: &str) -> bool {
    match text.split_once('[') {
        None => is_package_name(text),
        Some((name, extras)) => {
            let extras = extras.strip_suffix(']').unwrap_or_default();
            is_package_name(name) && extras.split(',').all(|extra| is_package_name(extra.trim()))
        }
    }
}

/// Returns whether a text can be a marker (PEP 508): words, strings, comparisons, parentheses.
fn is_marker(text: &str) -> bool {
    let is_of_marker = |c: char| c.is_ascii_alphanumeric() || " _.'\"=<>!~()*,+-".contains(c);
    !text.is_empty() && text.chars().all(is_of_marker) && !text.contains("--")
}

fn is_hash(text: &str) -> bool {
    HASHES.iter().any(|(algorithm, digits)| {
        text.strip_prefix(algorithm).is_some_and(|hash| {
            hash.len() == *digits && hash.chars().all(|c| c.is_ascii_hexdigit())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn what_was_understood_is_what_is_installed() {
        let text = format!(
            "# made by uv\n\nNumPy==2.4.6 ; python_version >= '3.11' \\\n    --hash={HASH} \\\n    \
             --hash={HASH}\n    # via qwed\nqwed[all]==8.0.0 --hash={HASH}  # why\n"
        );
        let lock = Lock::parse(&text).unwrap();
        assert_eq!(
            lock.text(),
            format!(
                "NumPy==2.4.6 ; python_version >= '3.11' --hash={HASH} --hash={HASH}\n\
                 qwed[all]==8.0.0 --hash={HASH}\n"
            )
        );
        assert_eq!(lock.constraints(), "NumPy==2.4.6 ; python_version >= '3.11'\nqwed==8.0.0\n");
        assert_eq!(lock.names(), BTreeSet::from(["numpy".to_owned(), "qwed".to_owned()]));
        assert_eq!(Lock::parse(&lock.text()).unwrap(), lock);
        assert!(!lock.is_sdk());
    }

    #[test]
    fn a_line_that_is_anything_else_is_refused() {
        let good = format!("a==1 --hash={HASH}");
        for (text, line) in [
            ("a==1".to_owned(), 1),
            (format!("{good}\n-r other.txt"), 2),
            (format!("{good}\n\n--index-url https://example.org/simple"), 3),
            (format!("-e . --hash={HASH}"), 1),
            (format!("./a==1 --hash={HASH}"), 1),
            (format!("a @ https://example.org/a.whl --hash={HASH}"), 1),
            (format!("a>=1 --hash={HASH}"), 1),
            (format!("a==1.* --hash={HASH}"), 1),
            ("a==1 --hash=md5:0123".to_owned(), 1),
            (format!("a==1 --hash={HASH}0"), 1),
            (format!("a==1 --hash={HASH} --no-binary=a"), 1),
            (format!("a==1 ; os_name == 'posix' --config-settings=x --hash={HASH}"), 1),
            (format!("a==1 \\\n --hash={HASH} \\"), 1),
        ] {
            assert!(matches!(Lock::parse(&text), Err(LockError::Line(n)) if n == line), "{text}");
        }
        assert!(matches!(Lock::parse("# nothing\n"), Err(LockError::Empty)));
    }

    #[test]
    fn what_is_added_keeps_the_hashes_of_the_lock() {
        let other = HASH.replace('0', "f");
        let lock = Lock::parse(&format!(
            "a==1 ; os_name == 'nt' --hash={HASH}\nb_x==2 ; os_name == 'posix' --hash={HASH}\nc==3 \
             --hash={HASH}\n"
        ))
        .unwrap();
        let resolved = Lock::parse(&format!(
            "a==9 --hash={other}\nB.x==2 --hash={other}\nd==4 --hash={other}\n"
        ));
        assert_eq!(
            lock.with(&resolved.unwrap(), &lock).text(),
            format!(
                "c==3 --hash={HASH}\na==9 --hash={other}\nb_x==2 --hash={HASH}\nd==4 \
                 --hash={other}\n"
            )
        );
    }

    #[test]
    fn the_report_of_pip_is_a_lock() {
        let report = |hash: &str| {
            let package = serde_json::json!({
                "metadata": { "name": "a", "version": "1.0" },
                "download_info": { "url": "file:///a.whl", "archive_info": { "hash": hash } },
            });
            serde_json::json!({ "version": "1", "install": [package] }).to_string()
        };
        let hash = HASH.replace(':', "=");
        let lock = Lock::of_report(report(&hash).as_bytes()).unwrap();
        assert_eq!(lock.text(), format!("a==1.0 --hash={HASH}\n"));
        assert_eq!(Lock::of_report(report("sha256=0").as_bytes()), None);
        assert_eq!(Lock::of_report(b"{}"), None);
    }

    #[test]
    fn packages_of_modules_are_in_the_lock() {
        let names = Lock::sdk().unwrap().names();
        for (module, package) in MODULES {
            assert!(names.contains(package), "{module}: {package}");
            assert_ne!(normalised(module), package, "{module}");
        }
        assert_eq!(Lock::sdk_package("yaml"), Some("pyyaml"));
        assert_eq!(Lock::sdk_package("pyyaml"), None);
    }

    #[test]
    fn the_lock_of_the_program_has_what_scripts_import() {
        let lock = Lock::sdk().unwrap();
        assert!(lock.is_sdk() && lock.sha256().len() == 64);
        let names = lock.names();
        for line in include_str!("requirements.in").lines().filter(|line| !line.starts_with('#')) {
            assert!(names.contains(line), "{line}");
        }
    }
}
