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
pub fn canonical_json(value: &Value) -> String {
    // The map may keep its members as they came, if another crate asks serde for that. UTF-8 sorts
    // as the code points do.
    let mut value = value.clone();
    value.sort_all_objects();
    let mut text = String::new();
    for character in value.to_string().chars() {
        if matches!(character, ' '..='~') {
            text.push(character);
            continue;
        }
        // It stands in a string: there is nothing between the tokens.
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a text does not fail.
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
