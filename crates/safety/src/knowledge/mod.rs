//! Describes Python's values, strings, objects and modules, and looks up the rules about them. Never walks a syntax
//! tree.

pub(super) mod fields;
pub(super) mod index;
mod libraries;
pub(super) mod objects;
pub(crate) mod stdlib;
pub(super) mod texts;
pub(super) mod value;

/// Returns the part of a path before its first dot, or the whole path if it has no dot.
pub(super) fn top(path: &str) -> &str {
    before_dot(path).map_or(path, |(top, _)| top)
}

/// Splits a path at its first dot. For short paths, a plain byte search is faster than the search of `str`.
fn before_dot(path: &str) -> Option<(&str, &str)> {
    let dot = path.bytes().position(|byte| byte == b'.')?;
    Some((path.get(..dot)?, path.get(dot + 1..)?))
}

/// Splits a path at its last dot.
fn behind_dot(path: &str) -> Option<(&str, &str)> {
    let dot = path.bytes().rposition(|byte| byte == b'.')?;
    Some((path.get(..dot)?, path.get(dot + 1..)?))
}
