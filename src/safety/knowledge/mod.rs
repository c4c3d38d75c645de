//! Knowledge about Python: its values, texts, objects and modules, and the rules about them.

pub(super) mod fields;
pub(super) mod index;
mod libraries;
pub(super) mod objects;
pub(super) mod stdlib;
pub(super) mod texts;
pub(super) mod value;
