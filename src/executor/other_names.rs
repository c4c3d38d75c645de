//! Finds the other paths of a file: paths through other mounts of its file system, and hard links.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::is_same_file;

/// A mount: its device, the mounted folder or file on that device, and the mount point.
struct Mount {
    device: String,
    root: PathBuf,
    point: PathBuf,
}

/// Returns a path of `file` below one of `folders`; `None` if no such path exists. All arguments are canonical paths.
pub(super) fn name_below(folders: &[PathBuf], file: &Path) -> Option<PathBuf> {
    let own = fs::metadata(file).ok().filter(Metadata::is_file)?;
    let is_it = |found: &Metadata| is_same_file(found, &own);
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let mut by_mounts = names_by_mounts(&mounts(&table), file).into_iter();
    let found = by_mounts.find(|name| {
        folders.iter().any(|folder| name.starts_with(folder))
            // Another mount may hide the file at the path `name`. So this condition checks that `name` leads to the
            // same file.
            && fs::metadata(name).is_ok_and(|found| is_it(&found))
    });
    // All other paths are hard links. No table lists hard links, so the folders are searched.
    found
        .or_else(|| if own.nlink() > 1 { hard_link_below(folders, own.ino(), is_it) } else { None })
}

/// Parses the table of mounts (`proc_pid_mountinfo(5)`).
fn mounts(table: &[u8]) -> Vec<Mount> {
    let mount = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let device = String::from_utf8_lossy(fields.next()?).into_owned();
        Some(Mount { device, root: unescaped(fields.next()?), point: unescaped(fields.next()?) })
    };
    table.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

/// Decodes a path from the table of mounts. In such a path, a backslash and three octal digits stand for one byte.
fn unescaped(mut field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    while let Some((first, rest)) = field.split_first() {
        let digits = rest.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            field = rest.get(3..).unwrap_or_default();
        } else {
            bytes.push(*first);
            field = rest;
        }
    }
    OsString::from_vec(bytes).into()
}

/// Returns all paths at which `file` can be reached through `mounts`, including `file` itself.
fn names_by_mounts(mounts: &[Mount], file: &Path) -> Vec<PathBuf> {
    let above = mounts.iter().filter(|mount| file.starts_with(&mount.point));
    // `max_by_key` returns the last maximum. Of several mounts at one mount point, the last mount hides the others.
    let Some(own) = above.max_by_key(|mount| mount.point.as_os_str().len()) else {
        return Vec::new();
    };
    let Some(inner) = moved(file, &own.point, &own.root) else { return Vec::new() };
    let same = mounts.iter().filter(|mount| mount.device == own.device);
    same.filter_map(|mount| moved(&inner, &mount.root, &mount.point)).collect()
}

/// Replaces the prefix `from` of a path by `to`. `None` if the path is neither at nor below `from`.
fn moved(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(from).ok()?;
    Some(if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) })
}

/// Searches `folders` and their subfolders for a hard link to the file. `number` is the file's inode number. `is_it`
/// confirms a match, because other file systems use the same inode numbers.
fn hard_link_below(
    folders: &[PathBuf],
    number: u64,
    is_it: impl Fn(&Metadata) -> bool,
) -> Option<PathBuf> {
    let mut left = folders.to_vec();
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                left.push(entry.path());
            } else if entry.ino() == number && entry.metadata().is_ok_and(|found| is_it(&found)) {
                return Some(entry.path());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_give_names() {
        let table = b"21 1 8:1 / / rw - ext4 /dev/a rw\n\
            30 21 0:5 / /proc rw - proc proc rw\n\
            31 21 8:1 /data /srv/project/my\\040data rw - ext4 /dev/a rw\n\
            32 21 8:1 /data/one.jsonl /srv/one.jsonl rw - ext4 /dev/a rw\n\
            33 21 8:2 / /data/other rw - ext4 /dev/b rw\n\n";
        let mounts = mounts(table);
        for (file, expected) in [
            (
                "/data/one.jsonl",
                &["/data/one.jsonl", "/srv/project/my data/one.jsonl", "/srv/one.jsonl"][..],
            ),
            (
                "/srv/project/my data/one.jsonl",
                &["/data/one.jsonl", "/srv/project/my data/one.jsonl", "/srv/one.jsonl"],
            ),
            ("/data/other/x", &["/data/other/x"]),
            ("/etc/x", &["/etc/x"]),
        ] {
            let names = names_by_mounts(&mounts, Path::new(file));
            assert_eq!(names, expected.iter().map(PathBuf::from).collect::<Vec<_>>(), "{file}");
        }
    }

    #[test]
    fn a_hard_link_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("readable/deep")).unwrap();
        let readable = [at("readable")];
        fs::write(at("answers"), "").unwrap();
        fs::write(at("readable/deep/other"), "").unwrap();
        assert_eq!(name_below(&readable, &at("answers")), None);
        fs::hard_link(at("answers"), at("elsewhere")).unwrap();
        assert_eq!(name_below(&readable, &at("answers")), None);
        fs::hard_link(at("answers"), at("readable/deep/link")).unwrap();
        assert_eq!(name_below(&readable, &at("answers")), Some(at("readable/deep/link")));
    }
}
