//! What is known about Python's values, objects and modules, and what the rules say of them.

pub(super) mod index;
pub(super) mod objects;
pub(super) mod stdlib;
pub(super) mod texts;
pub(super) mod value;
