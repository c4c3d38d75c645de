//! Reads the table of the installed libraries, which `tests/tables/generate` prints: which objects of the standard
//! library they hold, and which of their functions open a file. Never imports a library.

use std::sync::LazyLock;

use foldhash::{HashMap, HashSet};

use super::{before_dot, behind_dot, top};

/// `tests/tables/generate` describes the lines.
const TABLE: &str = include_str!("libraries.txt");

/// The longest path that the table may contain or that is followed, in bytes.
pub(super) const PATH_BYTES_MAX: usize = 160;

static LIBRARIES: LazyLock<Libraries> = LazyLock::new(Libraries::new);

/// Functions of a module, or methods in a whole library, with one parameter that names a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Functions {
    pub(super) module: &'static str,
    /// The index of the parameter. `self` does not count.
    pub(super) place: usize,
    pub(super) parameter: &'static str,
    /// The names, separated by spaces. Methods start with a dot.
    pub(super) names: &'static str,
}

#[derive(Debug, Default)]
struct Libraries {
    /// By library: its own members that have the name of a module of the standard library.
    own: HashMap<&'static str, HashSet<&'static str>>,
    /// By path: the canonical path of an object of the standard library that a library holds.
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

/// Returns the functions that open a file.
pub(super) fn functions() -> impl Iterator<Item = Functions> {
    TABLE.lines().filter_map(|line| {
        let mut words = line.splitn(5, ' ');
        let module = words.next()?;
        words.next().filter(|kind| *kind == "file")?;
        let place = words.next()?.parse().ok()?;
        Some(Functions { module, place, parameter: words.next()?, names: words.next()? })
    })
}

/// Returns whether this is the topmost module of a library in the table.
pub(super) fn contains(name: &str) -> bool {
    LIBRARIES.own.contains_key(name)
}

/// Returns whether the library itself defines a member with this name.
pub(super) fn is_own(library: &str, member: &str) -> bool {
    LIBRARIES.own.get(library).is_some_and(|own| own.contains(member))
}

/// Returns the canonical path of the object of the standard library that a library holds under this path.
pub(super) fn home(path: &str) -> Option<&'static str> {
    let homes = &LIBRARIES.homes;
    if !contains(top(path)) {
        return None;
    }
    homes.get(path).or_else(|| homes.get(&shortened(path)?)).copied()
}

/// Returns the path without the modules between the topmost one and the member.
pub(super) fn shortened(path: &str) -> Option<String> {
    let (top, below) = before_dot(path).filter(|_| path.len() <= PATH_BYTES_MAX)?;
    behind_dot(below).map(|(_, member)| [top, ".", member].concat())
}
