//! Knowledge about Python: its values, texts, objects and modules, and the rules about them.

pub(super) mod fields;
pub(super) mod index;
mod libraries;
pub(super) mod objects;
pub(super) mod stdlib;
pub(super) mod texts;
pub(super) mod value;

/// Returns the part before the first dot.
pub(super) fn top(path: &str) -> &str {
    path.split_once('.').map_or(path, |(top, _)| top)
}
