//! Reads strings that name attributes: replacement fields of format strings, and paths of names. Never evaluates them.

use super::index::INDEX;
use super::objects::far_reaching;

/// Returns whether a replacement field of a format string (PEP 3101) reads one of the interpreter's internals:
/// `{0.attribute[key]}`. Includes fields in the specification of another field. All other words are only printed.
pub(crate) fn format_names_internals(text: &str) -> bool {
    // Every name of an internal contains an underscore.
    let text = if text.contains('_') { text } else { "" };
    fields(text).any(|field| parts(field).skip(1).any(|part| INDEX.attribute(part).is_some()))
}

/// Returns the replacement fields of a format string, each up to its conversion or specification.
pub(crate) fn fields(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let start = rest.find('{')?;
            let field = rest.get(start + 1..).unwrap_or_default();
            if let Some(after) = field.strip_prefix('{') {
                rest = after;
                continue;
            }
            // The specification may contain fields.
            rest = field;
            // Keys may contain any character but a bracket. The text after a key belongs to the same field.
            return field.split(['!', ':', '}', '{']).next();
        }
    })
}

/// Returns the parts of a path of names: the object first, then attributes and keys.
pub(crate) fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split(['.', '[', ']'])
}

/// Returns whether a path of names, as `attrgetter` accepts it, names internals, members of other modules, or a method
/// for which `is_refused` returns true. A single name may be the name of a module: it is judged later, with its object.
pub(crate) fn path_names_internals(path: &str, mut is_refused: impl FnMut(&str) -> bool) -> bool {
    let is_long = path.contains('.');
    parts(path).any(|part| {
        INDEX.attribute(part).is_some()
            || (is_long && far_reaching(part).is_some())
            || is_refused(part)
    })
}
