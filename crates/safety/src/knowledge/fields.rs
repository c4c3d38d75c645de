//! Texts that name attributes: the replacement fields of a format string, and paths of names.

use super::index::INDEX;
use super::objects::far_reaching;

/// Tells whether a replacement field of a format string (PEP 3101) takes one of the interpreter's
/// internals: `{0.attribute[key]}`, also within the specification of another field. All other
/// words are only printed.
pub(crate) fn format_names_internals(text: &str) -> bool {
    // Every name of an internal has an underscore in it.
    let mut rest = if text.contains('_') { text } else { "" };
    while let Some(start) = rest.find('{') {
        let field = rest.get(start + 1..).unwrap_or_default();
        if let Some(after) = field.strip_prefix('{') {
            rest = after;
            continue;
        }
        // Keys may hold anything but a bracket; what follows them belongs to the same field.
        let name = field.split(['!', ':', '}', '{']).next().unwrap_or_default();
        if name.split(['.', '[', ']']).skip(1).any(|part| INDEX.attribute(part).is_some()) {
            return true;
        }
        rest = field;
    }
    false
}

/// Tells whether a path of names, as `attrgetter` takes it, names internals, members of other
/// modules, or a method that no object may be asked for: `is_refused` tells of those.
pub(crate) fn path_names_internals(path: &str, mut is_refused: impl FnMut(&str) -> bool) -> bool {
    let is_long = path.contains('.');
    path.split(['.', '[', ']']).any(|part| {
        INDEX.attribute(part).is_some()
            || (is_long && far_reaching(part).is_some())
            || is_refused(part)
    })
}
