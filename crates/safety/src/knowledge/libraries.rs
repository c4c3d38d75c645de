//! The installed libraries, by the table that `tests/tables/generate` prints: what they hold under
//! other names, and which of their functions open a file.

use std::sync::LazyLock;

use foldhash::{HashMap, HashSet};

use super::{before_dot, behind_dot, top};

/// The lines are described where they are printed.
const TABLE: &str = include_str!("libraries.txt");

/// The longest path that may name a member in it, or is followed, in bytes.
pub(super) const PATH_BYTES_MAX: usize = 160;

static LIBRARIES: LazyLock<Libraries> = LazyLock::new(Libraries::new);

/// Functions of a module, or of a whole library, of which one parameter names a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Functions {
    pub(super) module: &'static str,
    /// The place of the parameter, the object of a method not counted.
    pub(super) place: usize,
    pub(super) parameter: &'static str,
    /// Their names, those of methods behind a dot.
    pub(super) names: &'static str,
}

#[derive(Debug, Default)]
struct Libraries {
    /// By library: its own members that are called as a module of the standard library is.
    own: HashMap<&'static str, HashSet<&'static str>>,
    /// By path: the place where an object that a library holds is at home.
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

/// Tells whether this is the topmost module of a library in the table.
pub(super) fn contains(name: &str) -> bool {
    LIBRARIES.own.contains_key(name)
}

/// Tells whether the library has a member of its own of this name.
pub(super) fn is_own(library: &str, member: &str) -> bool {
    LIBRARIES.own.get(library).is_some_and(|own| own.contains(member))
}

/// Returns the place where the object that a library holds under this path is at home.
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
