//! Describes Python's values, strings, objects and modules, and looks up the rules about them. Never walks a syntax
//! tree.

pub(super) mod fields;
pub(super) mod index;
mod libraries;
pub(super) mod objects;
pub(crate) mod stdlib;
pub(super) mod texts;
pub(super) mod value;

/// Returns the part before the first dot.
pub(super) fn top(path: &str) -> &str {
    before_dot(path).map_or(path, |(top, _)| top)
}

/// Splits a path at its first dot. A plain byte search is faster here than the search for long strings.
fn before_dot(path: &str) -> Option<(&str, &str)> {
    let dot = path.bytes().position(|byte| byte == b'.')?;
    Some((path.get(..dot)?, path.get(dot + 1..)?))
}

/// Splits a path at its last dot.
fn behind_dot(path: &str) -> Option<(&str, &str)> {
    let dot = path.bytes().rposition(|byte| byte == b'.')?;
    Some((path.get(..dot)?, path.get(dot + 1..)?))
}
