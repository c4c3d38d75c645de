//! Formats canonical JSON: the text that Python's `json.dumps(value, sort_keys=True, separators=(",", ":"))` writes.
//! The hashes of bills of materials and of the audit log are computed over this text.
//!
//! This module uses no other module of the crate.

use std::fmt::Write as _;

use serde_json::Value;

/// Returns the canonical text of `value`. The keys are sorted by code point, no spaces separate the tokens, and all
/// characters except printable ASCII are escaped.
///
/// Numbers are written as in `serde_json`. Python writes integers in the same way, and the hashed values contain no
/// other numbers.
pub fn canonical_json(value: &Value) -> String {
    // Sort the members here, because `serde_json` keeps the order of insertion if another crate enables its feature
    // `preserve_order`. Sorting by UTF-8 bytes gives the same order as sorting by code points.
    let mut value = value.clone();
    value.sort_all_objects();
    let mut text = String::new();
    for character in value.to_string().chars() {
        if matches!(character, ' '..='~') {
            text.push(character);
            continue;
        }
        // Escape the character. It is inside a JSON string, because JSON contains only ASCII outside of strings.
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Ignore the result, because writing to a `String` cannot fail.
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_text_is_what_python_writes() {
        // The expected texts were generated with `json.dumps(…, sort_keys=True, separators=(",", ":"))`.
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
