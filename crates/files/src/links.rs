//! Computes the symlink closure of a set of paths: the files, folders and symlinks that the sandbox must show so that
//! each path resolves to the same file as outside. This module never changes a file.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The maximum number of symlinks in the resolution of one path, the same as in the kernel (`path_resolution(7)`).
const LINKS_MAX: usize = 40;

/// The closure of a set of paths: the real files and folders, the symlinks that lead to them, and the folder before
/// each `..`. For example, the kernel visits `/a/b` when it resolves `/a/b/../c`.
#[derive(Debug, Default)]
pub struct LinkClosure {
    real: BTreeSet<PathBuf>,
    way: Way,
}

/// The symlinks and folders that the resolution of a path visits.
#[derive(Debug, Default)]
struct Way {
    /// The path of each symlink, with its target.
    links: BTreeMap<PathBuf, PathBuf>,
    /// The folder before each `..`. These folders must exist, because the kernel looks them up. All other visited
    /// folders are parents of a symlink or of the resolved path, so they exist anyway.
    folders: BTreeSet<PathBuf>,
    /// The last path that was looked up, even if nothing exists there.
    reached: PathBuf,
}

impl LinkClosure {
    /// Adds `path`, with everything that the resolution of `path` visits. Returns whether `path` exists.
    pub fn add(&mut self, path: &Path) -> bool {
        let mut way = Way::default();
        let Some(real) = resolve(path, &mut way) else { return false };
        self.real.insert(real);
        self.way.links.append(&mut way.links);
        self.way.folders.append(&mut way.folders);
        true
    }

    /// Returns the canonical paths of the added files and folders. Leaves out paths below another of these paths.
    pub fn real(&self) -> Vec<PathBuf> {
        // A `BTreeSet` is sorted, so a folder comes before its content.
        let mut kept: Vec<PathBuf> = Vec::new();
        for path in &self.real {
            if !kept.iter().any(|folder| path.starts_with(folder)) {
                kept.push(path.clone());
            }
        }
        kept
    }

    /// Returns each symlink with its target. Leaves out symlinks below a path from [`Self::real`].
    pub fn links(&self) -> Vec<(PathBuf, PathBuf)> {
        let links = self.way.links.iter().filter(|(link, _)| !self.is_covered(link));
        links.map(|(link, target)| (link.clone(), target.clone())).collect()
    }

    /// Returns the folder before each `..`. Leaves out folders below a path from [`Self::real`].
    pub fn folders(&self) -> Vec<PathBuf> {
        self.way.folders.iter().filter(|folder| !self.is_covered(folder)).cloned().collect()
    }

    fn is_covered(&self, path: &Path) -> bool {
        self.real.iter().any(|folder| path.starts_with(folder))
    }
}

/// Returns whether the resolution of `path` visits `folder` or anything below it. `folder` must be a canonical path. If
/// `path` does not resolve completely, only the visited part counts.
pub fn leads_through(path: &Path, folder: &Path) -> bool {
    let mut way = Way::default();
    resolve(path, &mut way);
    let mut places = way.links.keys().chain(&way.folders).chain([&way.reached]);
    places.any(|place| place.starts_with(folder))
}

/// Returns the paths that the resolution of `path` visits: each symlink, the folder before each `..`, and the canonical
/// path. `path` must be absolute. Returns `None` if `path` does not exist.
pub fn places_on_the_way(path: &Path) -> Option<Vec<PathBuf>> {
    let mut way = Way::default();
    let real = resolve(path, &mut way)?;
    Some(way.links.into_keys().chain(way.folders).chain([real]).collect())
}

/// Resolves `path` to its canonical path, and adds the visited symlinks and folders to `way`. `path` must be absolute.
fn resolve(path: &Path, way: &mut Way) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let mut real = PathBuf::from("/");
    let mut left: Vec<OsString> = names(path);
    let mut followed = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            // In the root folder, `..` is the root folder itself. Do not add the root folder, because it always exists.
            if real.parent().is_some() {
                way.folders.insert(real.clone());
                real.pop();
            }
            continue;
        }
        let here = real.join(&name);
        way.reached.clone_from(&here);
        let kind = fs::symlink_metadata(&here).ok()?.file_type();
        if !kind.is_symlink() {
            if !left.is_empty() && !kind.is_dir() {
                return None;
            }
            real = here;
            continue;
        }
        let target = fs::read_link(&here).ok()?;
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        left.extend(names(&target));
        way.links.insert(here, target);
        followed += 1;
        if followed > LINKS_MAX {
            return None;
        }
    }
    Some(real)
}

/// Returns the names in a path in reverse order, so that the next name can be popped.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut names: Vec<OsString> = names.collect();
    names.reverse();
    names
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_brings_its_links_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("versions/3/bin")).unwrap();
        fs::write(root.join("versions/3/bin/python3.11"), "").unwrap();
        symlink("python3.11", root.join("versions/3/bin/python")).unwrap();
        symlink(root.join("versions/3"), root.join("current")).unwrap();
        fs::create_dir_all(root.join("venv/bin")).unwrap();
        symlink("../../current/bin/python", root.join("venv/bin/python")).unwrap();

        let mut closure = LinkClosure::default();
        assert!(closure.add(&root.join("venv/bin/python")));
        assert!(!closure.add(&root.join("venv/bin/missing")));
        assert!(!closure.add(Path::new("relative")));
        assert_eq!(closure.real(), [root.join("versions/3/bin/python3.11")]);
        assert_eq!(
            closure.links(),
            [
                (root.join("current"), root.join("versions/3")),
                (root.join("venv/bin/python"), "../../current/bin/python".into()),
                (root.join("versions/3/bin/python"), "python3.11".into()),
            ]
        );

        // Symlinks below a real folder must not be listed separately.
        assert!(closure.add(&root.join("versions")));
        assert_eq!(closure.real(), [root.join("versions")]);
        assert_eq!(closure.links().len(), 2);
    }

    #[test]
    fn a_path_brings_the_folders_that_it_goes_through() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for empty in ["x", "a/b/c", "bin", "links"] {
            fs::create_dir_all(root.join(empty)).unwrap();
        }
        fs::write(root.join("bin/python"), "").unwrap();
        let up = "../".repeat(40);
        let from_root = root.strip_prefix("/").unwrap();
        let above_root = format!("{up}{}/x/../bin/python", from_root.display());
        for (name, target, through) in [
            ("plain", "../bin/python", &["links"][..]),
            ("relative", "../x/../bin/python", &["links", "x"]),
            ("several", "../a/b/c/../../../bin/python", &["a", "a/b", "a/b/c", "links"]),
            ("back", "../a/../a/b/../../bin/python", &["a", "a/b", "links"]),
            ("above the root", &above_root, &["links", "x"]),
        ] {
            let link = root.join("links").join(name);
            symlink(target, &link).unwrap();
            let mut closure = LinkClosure::default();
            assert!(closure.add(&link), "{name}");
            assert_eq!(closure.real(), [root.join("bin/python")], "{name}");
            // Compare only the folders below the test's folder, because the folders above it depend on the machine.
            let folders = closure.folders().into_iter();
            let below = folders.filter(|folder| *folder != root && folder.starts_with(&root));
            let through = through.iter().map(|folder| root.join(folder));
            assert_eq!(below.collect::<Vec<_>>(), through.collect::<Vec<_>>(), "{name}");
        }

        let mut closure = LinkClosure::default();
        assert!(closure.add(&root.join("x/../bin")));
        assert_eq!(
            (closure.real(), closure.folders()),
            (vec![root.join("bin")], vec![root.join("x")])
        );
        assert!(closure.add(&root.join("x")), "{closure:?}");
        assert_eq!(closure.folders(), Vec::<PathBuf>::new(), "it is there as a readable one");
        assert!(!LinkClosure::default().add(&root.join("missing/../bin")), "as the kernel has it");
        assert!(
            !LinkClosure::default().add(&root.join("bin/python/../python")),
            "as the kernel has it"
        );
    }

    #[test]
    fn links_in_a_circle_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        symlink("b", folder.path().join("a")).unwrap();
        symlink("a", folder.path().join("b")).unwrap();
        // A limit on distinct symlinks would never end the resolution, because the circle has only two.
        assert!(!LinkClosure::default().add(&folder.path().join("a")));
    }
}
