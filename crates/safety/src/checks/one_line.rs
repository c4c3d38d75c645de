//! Writes an expression or a statement of a script on one line.

#![expect(clippy::wildcard_enum_match_arm, reason = "few tokens are parts of string literals")]

use std::fmt::Write as _;

use ruff_python_ast::StringFlags as _;
use ruff_python_ast::token::{TokenKind, Tokens};
use ruff_text_size::{Ranged as _, TextRange};

/// Returns an expression or a statement on one line, with the same meaning in Python.
///
/// White space and comments between two tokens become one space. In a string literal, a line break becomes `\n`. A
/// line break after a backslash is left out, because Python ignores it. A raw literal with line breaks becomes an
/// ordinary literal with the same value, because `\n` has another meaning in a raw literal.
pub(super) fn one_line(source: &str, tokens: &Tokens, range: TextRange) -> String {
    let text_of = |range: TextRange| source.get(range.to_std_range()).unwrap_or_default();
    let has_breaks = |text: &str| text.contains(['\n', '\r']);
    let is_broken = has_breaks(text_of(range));
    let first = tokens.partition_point(|token| token.start() < range.start());
    let tokens = tokens.iter().skip(first).take_while(|token| token.end() <= range.end());
    let mut line = String::with_capacity(range.len().into());
    let mut end = range.start();
    for token in tokens {
        if token.kind().is_trivia() {
            continue;
        }
        if end < token.start() {
            line.push(' ');
        }
        end = token.end();
        let text = text_of(token.range());
        let Some(flags) = token.string_flags().filter(|_| is_broken) else {
            line.push_str(text);
            continue;
        };
        // An f-string consists of several tokens. Only the first token has the prefix.
        let (opener, content, closer) = match token.kind() {
            TokenKind::String if has_breaks(text) => {
                let (opener, rest) = text.split_at(flags.opener_len().into());
                let (content, closer) = rest.split_at(rest.len() - usize::from(flags.closer_len()));
                (opener, content, closer)
            }
            TokenKind::FStringStart | TokenKind::TStringStart => (text, "", ""),
            TokenKind::FStringMiddle | TokenKind::TStringMiddle => ("", text, ""),
            _ => {
                line.push_str(text);
                continue;
            }
        };
        let is_raw = flags.is_raw_string();
        line.extend(opener.chars().filter(|c| !(is_raw && matches!(c, 'r' | 'R'))));
        push_content(&mut line, content, is_raw);
        line.push_str(closer);
    }
    line
}

/// Appends the content of a string literal. The content of a raw literal is escaped.
fn push_content(line: &mut String, content: &str, is_raw: bool) {
    let mut chars = content.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' | '\n' => {
                if c == '\r' {
                    chars.next_if_eq(&'\n');
                }
                line.push_str("\\n");
            }
            '\\' | '"' | '\'' if is_raw => line.extend(['\\', c]),
            '\\' => {
                let Some(escaped) = chars.next() else { return };
                if !matches!(escaped, '\r' | '\n') {
                    line.extend(['\\', escaped]);
                    continue;
                }
                if escaped == '\r' {
                    chars.next_if_eq(&'\n');
                }
                // The line break is left out, so the next character follows the previous character directly. Escape a
                // quotation mark, which could end the literal, and a digit, which could continue an octal escape.
                if let Some(c) = chars.next_if(|c| matches!(c, '"' | '\'' | '0'..='7')) {
                    // Writing to a string never fails.
                    let _ = write!(line, "\\x{:02x}", u32::from(c));
                }
            }
            c => line.push(c),
        }
    }
}
