//! Lists the names of the standard library's modules and of the builtins. Never imports them.

use std::ops::RangeInclusive;

use ruff_python_stdlib::builtins::python_builtins;
use ruff_python_stdlib::sys::is_known_standard_library;

/// The minor versions of Python 3 that are searched for modules. Several versions are searched, because a module that a
/// newer version removes is still dangerous in older versions.
const MINOR_VERSIONS: RangeInclusive<u8> = 10..=14;

/// Returns whether a module with this top-level name is in the standard library.
///
/// This function is slow, because it compares `name` with every module name. Try faster checks first.
pub fn contains(name: &str) -> bool {
    name == "__future__"
        || MINOR_VERSIONS.into_iter().any(|minor| is_known_standard_library(minor, name))
}

/// Returns the builtins of the newest version, except names that start with two underscores.
pub(super) fn builtins() -> impl Iterator<Item = &'static str> {
    python_builtins(*MINOR_VERSIONS.end(), false).filter(|name| !name.starts_with("__"))
}
