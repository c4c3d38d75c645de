//! Reads strings that name attributes: replacement fields of format strings, and attribute paths. Never evaluates them.

use super::index::INDEX;
use super::objects::far_reaching;

/// Returns whether a replacement field of a format string (PEP 3101) reads one of the interpreter's internals:
/// `{0.__globals__[key]}`. Includes fields in the specification of another field. All other text is only printed, so it
/// is harmless.
pub(crate) fn format_names_internals(text: &str) -> bool {
    // Every name of an internal contains an underscore, so a string without underscores is treated as empty.
    let text = if text.contains('_') { text } else { "" };
    fields(text).any(|field| parts(field).skip(1).any(|part| INDEX.attribute(part).is_some()))
}

/// Returns the replacement fields of a format string. Each field ends before its conversion or specification.
///
/// A key in brackets may contain any character but `]`, so `{0[!].name}` reads the attribute `name` (PEP 3101). Outside
/// of fields, a bracket has no meaning. If the search for the closing bracket started at such a bracket, the search
/// could skip a real field. So the string is searched twice: once with keys in brackets, and once as if brackets had no
/// meaning.
pub(crate) fn fields(text: &str) -> impl Iterator<Item = &str> {
    let with_keys = text.contains('[').then(|| fields_until(text, end_after_keys));
    fields_until(text, first_end).chain(with_keys.into_iter().flatten())
}

/// Returns the replacement fields of a format string. `end` returns the length of the field at the start of a text.
fn fields_until(text: &str, end: fn(&str) -> usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let start = rest.find('{')?;
            let after = rest.get(start + 1..).unwrap_or_default();
            if let Some(after) = after.strip_prefix('{') {
                rest = after;
                continue;
            }
            // The next search starts at the specification of this field, because the specification may contain fields.
            let (field, specification) = after.split_at_checked(end(after)).unwrap_or((after, ""));
            rest = specification;
            return Some(field);
        }
    })
}

/// The characters that end the name of a field.
const ENDS: [char; 4] = ['!', ':', '}', '{'];

fn first_end(text: &str) -> usize {
    text.find(ENDS).unwrap_or(text.len())
}

fn end_after_keys(text: &str) -> usize {
    let mut is_key = false;
    let is_end = |(_, character): &(usize, char)| {
        match character {
            '[' => is_key = true,
            ']' => is_key = false,
            _ => {}
        }
        !is_key && ENDS.contains(character)
    };
    text.char_indices().find(is_end).map_or(text.len(), |(index, _)| index)
}

/// Returns the parts of an attribute path or a replacement field: the object first, then attributes and keys.
pub(crate) fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split(['.', '[', ']'])
}

/// Returns whether an attribute path, as in `attrgetter(path)`, contains the name of one of the interpreter's
/// internals, of another module, or of a method for which `is_refused` returns true. A path that is only the name of a
/// module is permitted here. The analysis judges such a path later, when the object with the attribute is known.
pub(crate) fn path_names_internals(path: &str, mut is_refused: impl FnMut(&str) -> bool) -> bool {
    let is_long = path.contains('.');
    parts(path).any(|part| {
        INDEX.attribute(part).is_some()
            || (is_long && far_reaching(part).is_some())
            || is_refused(part)
    })
}
