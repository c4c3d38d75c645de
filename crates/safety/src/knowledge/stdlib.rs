//! The modules of the standard library, and the builtins.

use std::ops::RangeInclusive;

use ruff_python_stdlib::builtins::python_builtins;
use ruff_python_stdlib::sys::is_known_standard_library;

/// The minor versions of Python 3 whose modules count: a module that was removed in one of them is
/// dangerous where it is still there.
const MINOR_VERSIONS: RangeInclusive<u8> = 10..=14;

/// Tells whether a module of this top-level name is in the standard library.
///
/// Slow for a look-up, a comparison with every name: ask for what is known otherwise first.
pub fn contains(name: &str) -> bool {
    name == "__future__"
        || MINOR_VERSIONS.into_iter().any(|minor| is_known_standard_library(minor, name))
}

/// Returns the builtins of the newest version, without those that are special.
pub(super) fn builtins() -> impl Iterator<Item = &'static str> {
    python_builtins(*MINOR_VERSIONS.end(), false).filter(|name| !name.starts_with("__"))
}
