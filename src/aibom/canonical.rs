//! JSON as Python's `json.dumps(value, sort_keys=True, separators=(",", ":"))` writes it, of which
//! a manifest's hash is taken, and a hash of the audit log.

use std::fmt::Write as _;

use serde_json::Value;

/// The text of `value`: keys sorted by code point, nothing between the tokens, all characters but
/// printable ASCII escaped.
///
/// Numbers are written as `serde_json` does; what is hashed of ours has whole ones at most.
pub(crate) fn text(value: &Value) -> String {
    let mut text = String::new();
    write_value(value, &mut text);
    text
}

fn write_value(value: &Value, into: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => into.push_str(&value.to_string()),
        Value::String(string) => write_string(string, into),
        Value::Array(items) => {
            into.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    into.push(',');
                }
                write_value(item, into);
            }
            into.push(']');
        }
        Value::Object(members) => {
            // UTF-8 sorts as the code points do. The map may keep its members as they came, if
            // another crate asks serde for that.
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            into.push('{');
            for (index, (name, member)) in members.into_iter().enumerate() {
                if index > 0 {
                    into.push(',');
                }
                write_string(name, into);
                into.push(':');
                write_value(member, into);
            }
            into.push('}');
        }
    }
}

fn write_string(string: &str, into: &mut String) {
    into.push('"');
    for character in string.chars() {
        match character {
            '"' => into.push_str("\\\""),
            '\\' => into.push_str("\\\\"),
            '\n' => into.push_str("\\n"),
            '\r' => into.push_str("\\r"),
            '\t' => into.push_str("\\t"),
            '\u{8}' => into.push_str("\\b"),
            '\u{c}' => into.push_str("\\f"),
            ' '..='~' => into.push(character),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    // Writing to a text does not fail.
                    let _ = write!(into, "\\u{unit:04x}");
                }
            }
        }
    }
    into.push('"');
}
