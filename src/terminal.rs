//! Formats text for a person's terminal. Uses colours only if the terminal supports them. Never passes on control
//! characters from other sources.

use std::fmt;
use std::io::Write as _;

use anstyle::{AnsiColor, Effects, Style};

use crate::plain_text::without_error_numbers;

/// The label at the start of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    Error,
    Warning,
    Note,
    /// The name of a log level: `info` or a more detailed level.
    Log(&'static str),
}

/// Dimmed text, for details that matter less than the text around them.
pub(crate) const DIM: Style = Style::new().effects(Effects::DIMMED);

/// Bold text, for the subject of a line.
pub(crate) const BOLD: Style = Style::new().bold();

impl Label {
    /// Returns the style in which the label is printed.
    pub(crate) fn style(self) -> Style {
        match self {
            Self::Error => AnsiColor::Red.on_default().bold(),
            Self::Warning => AnsiColor::Yellow.on_default().bold(),
            Self::Note => AnsiColor::Cyan.on_default().bold(),
            Self::Log(_) => DIM,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
            Self::Log(level) => level,
        }
    }

    /// Returns a line with the label and the text. Escapes control characters, so the text may come from any source.
    pub(crate) fn line(self, text: &str) -> String {
        let (style, word) = (self.style(), self.word());
        format!("{style}{word}:{style:#} {}\n", visible(&without_error_numbers(text)))
    }

    /// Prints a line with the label to standard error.
    pub(crate) fn say(self, text: impl fmt::Display) {
        // Ignore an error, because a lost line is harmless.
        let _ = anstream::stderr().write_all(self.line(&text.to_string()).as_bytes());
    }
}

/// Escapes the characters that control a terminal or reorder the text. These are bidirectional controls, and all
/// control characters except tab, line feed and carriage return.
pub(crate) fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) {
            visible.extend(c.escape_unicode());
        } else {
            visible.push(c);
        }
    }
    visible
}

/// Returns whether a character controls a terminal or reorders the text around it. Returns false for tab, line feed and
/// carriage return, which are part of ordinary text.
pub(crate) fn is_obeyed(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' => false,
        // These characters have the Unicode property Bidi_Control, so they reorder text.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            true
        }
        c => c.is_control(),
    }
}

/// A filter that turns a stream of bytes into [`visible`] text.
#[derive(Debug, Default)]
pub(crate) struct VisibleBytes {
    /// The first bytes of a character that is still incomplete.
    begun: Vec<u8>,
}

impl VisibleBytes {
    /// Adds bytes of the stream. Returns the text of the characters that are now complete.
    pub(crate) fn next(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut text = String::with_capacity(all.len());
        let mut chunks = all.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let is_begun = chunks.peek().is_none()
                && std::str::from_utf8(chunk.invalid()).is_err_and(|e| e.error_len().is_none());
            if is_begun {
                self.begun = chunk.invalid().to_vec();
            } else if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        visible(&text)
    }

    /// Ends the stream. Returns a replacement character if the stream ended within a character.
    pub(crate) fn end(&mut self) -> &'static str {
        if std::mem::take(&mut self.begun).is_empty() { "" } else { "\u{fffd}" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        for (text, expected) in [
            ("a\tb\r\nc é e\u{301} 日本", "a\tb\r\nc é e\u{301} 日本"),
            ("\x1b[31mred\x1b]0;title\x07", "\\u{1b}[31mred\\u{1b}]0;title\\u{7}"),
            ("\u{9b}2J\u{8}\u{7f}\u{0}", "\\u{9b}2J\\u{8}\\u{7f}\\u{0}"),
            ("\u{202e}\u{2066}\u{200f}", "\\u{202e}\\u{2066}\\u{200f}"),
        ] {
            assert_eq!(visible(text), expected);
            // The result must be the same for every split of the stream of bytes.
            for cut in 0..=text.len() {
                let (first, second) = text.as_bytes().split_at(cut);
                let mut bytes = VisibleBytes::default();
                let pieces = [bytes.next(first), bytes.next(second), bytes.end().to_owned()];
                assert_eq!(pieces.concat(), expected, "{cut}");
            }
        }
        let mut bytes = VisibleBytes::default();
        assert_eq!(bytes.next(b"a\xff\xc3"), "a\u{fffd}");
        assert_eq!(bytes.next(b"\xa9\xe2\x82"), "é");
        assert_eq!(bytes.next(b"x\xe2"), "\u{fffd}x");
        assert_eq!(bytes.end(), "\u{fffd}");
        assert_eq!(bytes.end(), "");
    }

    #[test]
    fn a_line_has_no_numbers_of_errors() {
        let line = |text: &str| anstream::adapter::strip_str(&Label::Error.line(text)).to_string();
        for (text, expected) in [
            ("no.py: No such file or directory (os error 2)", "no.py: No such file or directory"),
            ("a (os error 2): b (os error 13) c", "a: b c"),
            ("a (os error x) (os error ) (os error 2", "a (os error x) (os error ) (os error 2"),
            ("\x1b[2J.py: it is not there", "\\u{1b}[2J.py: it is not there"),
        ] {
            assert_eq!(line(text), format!("error: {expected}\n"));
        }
    }
}
