//! Knowledge about Python: its values, texts, objects and modules, and the rules about them.

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

/// Takes a path apart at its first dot. A search that is made for long texts takes longer.
fn before_dot(path: &str) -> Option<(&str, &str)> {
    let dot = path.bytes().position(|byte| byte == b'.')?;
    Some((path.get(..dot)?, path.get(dot + 1..)?))
}

/// Takes a path apart at its last dot.
fn behind_dot(path: &str) -> Option<(&str, &str)> {
    let dot = path.bytes().rposition(|byte| byte == b'.')?;
    Some((path.get(..dot)?, path.get(dot + 1..)?))
}
