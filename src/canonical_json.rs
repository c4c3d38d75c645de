//! Canonical JSON: the text that Python's `json.dumps(value, sort_keys=True, separators=(",", ":"))`
//! writes. The hashes of bills of materials and of the audit log are taken of it.
//!
//! This module is a leaf and uses nothing else of the crate.

use std::fmt::Write as _;

use serde_json::Value;

/// Returns the canonical text of `value`: keys sorted by code point, nothing between the tokens, all
/// characters but printable ASCII escaped.
///
/// Numbers are written as `serde_json` writes them; what is hashed here has integers only.
pub(crate) fn canonical_json(value: &Value) -> String {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_text_is_what_python_writes() {
        // From `json.dumps(…, sort_keys=True, separators=(",", ":"))`.
        for (value, expected) in [
            (json!({ "b": [1, null, true], "a": {} }), r#"{"a":{},"b":[1,null,true]}"#),
            (
                json!("\"\\/\n\r\t\u{8}\u{c}\u{0}\u{1f}\u{7f}"),
                r#""\"\\/\n\r\t\b\f\u0000\u001f\u007f""#,
            ),
            (json!("ä\u{80}€\u{ffff}😀"), r#""\u00e4\u0080\u20ac\uffff\ud83d\ude00""#),
            (json!({ "\u{ffff}": 1, "😀": 2, "z": 3 }), r#"{"z":3,"\uffff":1,"\ud83d\ude00":2}"#),
            (json!([]), "[]"),
        ] {
            assert_eq!(canonical_json(&value), expected);
        }
    }
}
