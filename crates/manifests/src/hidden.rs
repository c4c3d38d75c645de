//! Detects characters that programs read but people do not see, and characters that control a terminal.
//!
//! The table contains the characters with the Unicode property `Default_Ignorable_Code_Point` or `Bidi_Control`, and
//! the control characters of terminals. It leaves out the two joiners (U+200C, U+200D) and the first sixteen
//! variation selectors (U+FE00 to U+FE0F), because many writing systems and emoji need them. This module never
//! changes a text.

/// The ranges of hidden characters: the first character, the last character, and the reason.
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

/// Returns whether a character is hidden. Tabs and line feeds are not hidden.
pub fn is_hidden(c: char) -> bool {
    HIDDEN.iter().any(|(first, last, _)| (first..=last).contains(&&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_has_reasons() {
        for pair in HIDDEN.windows(2) {
            assert!(pair[0].0 <= pair[0].1 && pair[0].1 < pair[1].0);
        }
        assert!(HIDDEN.iter().all(|(_, _, why)| why.len() > 10));
    }
}
