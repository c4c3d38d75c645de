//! Texts that tests wrote, as a model, a person or a terminal may get them.
//!
//! The table is Unicode's `Default_Ignorable_Code_Point` and `Bidi_Control`, and what terminals obey,
//! but for what people write with: the two joiners (U+200C, U+200D) and the first sixteen selectors
//! of variants (U+FE00 to U+FE0F), without which many scripts and emoji are others.

/// Characters that are obeyed instead of shown, or seen by a program and not by a person: the first
/// and the last of each range, and why it is hidden.
const HIDDEN: [(char, char, &str); 20] = [
    ('\0', '\u{8}', "control characters: BEL, backspace"),
    ('\u{b}', '\u{1f}', "control characters: ESC starts what a terminal obeys, CR writes over"),
    ('\u{7f}', '\u{9f}', "DEL, and the control characters of ISO 6429 in one byte (CSI)"),
    ('\u{ad}', '\u{ad}', "the soft hyphen is not seen within a line"),
    ('\u{34f}', '\u{34f}', "the joiner of graphemes is not seen"),
    ('\u{61c}', '\u{61c}', "the Arabic mark of direction is not seen"),
    ('\u{115f}', '\u{1160}', "fillers of Hangul are not seen"),
    ('\u{17b4}', '\u{17b5}', "inherent vowels of Khmer are not seen"),
    ('\u{180b}', '\u{180f}', "selectors of Mongolian variants are not seen"),
    ('\u{200b}', '\u{200b}', "the space without width is not seen"),
    ('\u{200e}', '\u{200f}', "marks of direction are not seen"),
    (
        '\u{2028}',
        '\u{202e}',
        "ends of lines for some readers only; embeddings and overrides of the direction of text \
         (Trojan Source, CVE-2021-42574)",
    ),
    ('\u{2060}', '\u{206f}', "joiners, operators and isolates of direction are not seen"),
    ('\u{3164}', '\u{3164}', "the filler of Hangul is not seen"),
    ('\u{feff}', '\u{feff}', "the byte order mark is not seen"),
    ('\u{ffa0}', '\u{ffa0}', "the narrow filler of Hangul is not seen"),
    ('\u{fff0}', '\u{fffb}', "annotations, and what is not assigned, are not seen"),
    ('\u{1bca0}', '\u{1bca3}', "formats of shorthand are not seen"),
    ('\u{1d173}', '\u{1d17a}', "formats of music are not seen"),
    (
        '\u{e0000}',
        '\u{e0fff}',
        "tags, which are ASCII that no person sees and every model reads; selectors of variants by \
         which bytes are hidden in a text",
    ),
];

/// Tells whether a character is not passed on. Tabs and ends of lines are.
pub(super) fn is_hidden(c: char) -> bool {
    HIDDEN.iter().any(|(first, last, _)| (first..=last).contains(&&c))
}

/// Replaces every character that is not passed on.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(shown).collect()
}

/// Replaces ends of lines and tabs too.
pub(super) fn plain_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { shown(c) })
        .collect()
}

fn shown(c: char) -> char {
    if is_hidden(c) { char::REPLACEMENT_CHARACTER } else { c }
}

/// Escapes the characters of a JSON document that are not passed on: it means the same.
pub(super) fn plain_json(document: &str) -> String {
    let mut plain = String::with_capacity(document.len());
    for c in document.chars() {
        if is_hidden(c) {
            let mut units = [0; 2];
            plain.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_replaced_and_what_people_write_is_not() {
        let written =
            "a\tb\nΓειά, שלום, سلام, 你好, नमस्ते, e\u{301}, 👩\u{200d}🚀, ✔\u{fe0f}, 5\u{a0}€";
        assert_eq!(plain(written), written);
        for c in [
            '\0',
            '\u{7}',
            '\u{8}',
            '\r',
            '\u{1b}',
            '\u{7f}',
            '\u{9b}',
            '\u{200b}',
            '\u{2028}',
            '\u{202e}',
            '\u{2066}',
            '\u{2069}',
            '\u{feff}',
            '\u{e0041}',
            '\u{e007f}',
            '\u{e0100}',
        ] {
            assert_eq!(plain(&format!("a{c}b")), "a\u{fffd}b", "{c:?}");
        }
        // Every control character but the two.
        let obeyed = (0..0x11_0000).filter_map(char::from_u32).filter(|c| c.is_control());
        assert!(obeyed.into_iter().all(|c| is_hidden(c) != "\t\n".contains(c)));
        assert_eq!(plain_line("a\tb\nc"), "a\u{fffd}b\u{fffd}c");
    }

    #[test]
    fn json_means_the_same_afterwards() {
        let value = serde_json::json!({ "a\u{202e}": "\u{1b}[0m\u{e0041}\u{9b}é\n" });
        let text = plain_json(&format!("{value:#}"));
        assert!(!text.chars().any(is_hidden), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn the_table_is_in_order_and_has_reasons() {
        for pair in HIDDEN.windows(2) {
            assert!(pair[0].0 <= pair[0].1 && pair[0].1 < pair[1].0);
        }
        assert!(HIDDEN.iter().all(|(_, _, why)| why.len() > 10));
    }
}
