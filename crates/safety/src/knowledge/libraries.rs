//! Reads the generated table of the installed libraries. For each library, the table lists the functions that open a
//! file, and the members that are objects of the standard library. `tests/tables/generate` prints the table. Never
//! imports a library.

use std::sync::LazyLock;

use foldhash::{HashMap, HashSet};

use super::{before_dot, behind_dot, top};

/// The generated table. `tests/tables/generate` describes the format of its lines.
const TABLE: &str = include_str!("libraries.txt");

/// The maximum length, in bytes, of a qualified name in the tables and of a qualified name that the analysis follows.
pub(super) const PATH_BYTES_MAX: usize = 160;

static LIBRARIES: LazyLock<Libraries> = LazyLock::new(Libraries::new);

/// A group of functions in a module, or of methods in a whole library. Each function or method has a parameter that
/// names a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Functions {
    pub(super) module: &'static str,
    /// The index of the parameter that names a file, without counting `self`.
    pub(super) place: usize,
    pub(super) parameter: &'static str,
    /// The names, separated by spaces. Methods start with a dot.
    pub(super) names: &'static str,
}

#[derive(Debug, Default)]
struct Libraries {
    /// For each library, the members that share their name with a module of the standard library, but are not that
    /// module.
    own: HashMap<&'static str, HashSet<&'static str>>,
    /// For each path in a library that refers to an object of the standard library, the canonical path of the object.
    homes: HashMap<String, &'static str>,
}

impl Libraries {
    fn new() -> Self {
        let mut libraries = Self::default();
        for line in TABLE.lines() {
            let mut words = line.split(' ');
            match (words.next(), words.next()) {
                (Some(library), Some("own")) => {
                    libraries.own.insert(library, words.collect());
                }
                (Some(module), Some("holds")) => {
                    let homes = words.filter_map(|word| word.split_once('='));
                    let homes = homes.map(|(name, home)| (format!("{module}.{name}"), home));
                    libraries.homes.extend(homes);
                }
                _ => {}
            }
        }
        libraries
    }
}

/// Returns the functions of libraries that open a file.
pub(super) fn functions() -> impl Iterator<Item = Functions> {
    TABLE.lines().filter_map(|line| {
        let mut words = line.splitn(5, ' ');
        let module = words.next()?;
        words.next().filter(|kind| *kind == "file")?;
        let place = words.next()?.parse().ok()?;
        Some(Functions { module, place, parameter: words.next()?, names: words.next()? })
    })
}

/// Returns whether `name` is the topmost module of a library in the table.
pub(super) fn contains(name: &str) -> bool {
    LIBRARIES.own.contains_key(name)
}

/// Returns whether `member` of `library` only shares its name with a module of the standard library, but is not that
/// module.
pub(super) fn is_own(library: &str, member: &str) -> bool {
    LIBRARIES.own.get(library).is_some_and(|own| own.contains(member))
}

/// Returns the canonical path of an object of the standard library that a library also holds under `path`.
pub(super) fn home(path: &str) -> Option<&'static str> {
    let homes = &LIBRARIES.homes;
    if !contains(top(path)) {
        return None;
    }
    homes.get(path).or_else(|| homes.get(&shortened(path)?)).copied()
}

/// Returns a path without the modules between the topmost module and the last name: `z3.open_log` for `z3.z3.open_log`.
pub(super) fn shortened(path: &str) -> Option<String> {
    let (top, below) = before_dot(path).filter(|_| path.len() <= PATH_BYTES_MAX)?;
    behind_dot(below).map(|(_, member)| [top, ".", member].concat())
}
