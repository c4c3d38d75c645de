//! Which files and links of the machine have to be there for a path to lead where it leads.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The most links on the way to one path, as in the kernel (`path_resolution(7)`).
const LINKS_MAX: usize = 40;

/// A part of the machine's file tree: real files and folders, and the links that lead to them.
#[derive(Debug, Default)]
pub(super) struct View {
    real: BTreeSet<PathBuf>,
    links: BTreeMap<PathBuf, PathBuf>,
}

impl View {
    /// Takes `path` in, and every link on its way. False if there is nothing at `path`.
    pub(super) fn add(&mut self, path: &Path) -> bool {
        let mut links = BTreeMap::new();
        let Some(real) = resolve(path, &mut links) else { return false };
        self.real.insert(real);
        self.links.append(&mut links);
        true
    }

    /// The real paths, none below another.
    pub(super) fn real(&self) -> Vec<PathBuf> {
        // Sorted, so that a folder comes before what is below it.
        let mut kept: Vec<PathBuf> = Vec::new();
        for path in &self.real {
            if !kept.iter().any(|folder| path.starts_with(folder)) {
                kept.push(path.clone());
            }
        }
        kept
    }

    /// The links that are not below a real path already: where each is, and what it says.
    pub(super) fn links(&self) -> Vec<(PathBuf, PathBuf)> {
        let is_covered = |link: &Path| self.real.iter().any(|folder| link.starts_with(folder));
        let links = self.links.iter().filter(|(link, _)| !is_covered(link));
        links.map(|(link, target)| (link.clone(), target.clone())).collect()
    }
}

/// The real path of `path`, which has to be absolute; the links on the way go into `links`.
fn resolve(path: &Path, links: &mut BTreeMap<PathBuf, PathBuf>) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let mut real = PathBuf::from("/");
    let mut left: Vec<OsString> = names(path);
    let mut followed = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            real.pop();
            continue;
        }
        let here = real.join(&name);
        if !fs::symlink_metadata(&here).ok()?.is_symlink() {
            real = here;
            continue;
        }
        let target = fs::read_link(&here).ok()?;
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        left.extend(names(&target));
        links.insert(here, target);
        followed += 1;
        if followed > LINKS_MAX {
            return None;
        }
    }
    Some(real)
}

/// The names of a path, last one first.
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

        let mut view = View::default();
        assert!(view.add(&root.join("venv/bin/python")));
        assert!(!view.add(&root.join("venv/bin/missing")));
        assert!(!view.add(Path::new("relative")));
        assert_eq!(view.real(), [root.join("versions/3/bin/python3.11")]);
        assert_eq!(
            view.links(),
            [
                (root.join("current"), root.join("versions/3")),
                (root.join("venv/bin/python"), "../../current/bin/python".into()),
                (root.join("versions/3/bin/python"), "python3.11".into()),
            ]
        );

        // What is below a folder that is there needs nothing of its own.
        assert!(view.add(&root.join("versions")));
        assert_eq!(view.real(), [root.join("versions")]);
        assert_eq!(view.links().len(), 2);
    }

    #[test]
    fn links_in_a_circle_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        symlink("b", folder.path().join("a")).unwrap();
        symlink("a", folder.path().join("b")).unwrap();
        // The circle is two links long, so their number alone would never end it.
        assert!(!View::default().add(&folder.path().join("a")));
    }
}
