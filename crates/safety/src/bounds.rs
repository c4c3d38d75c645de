//! Bounds the size and the nesting of a source before it is parsed. Never parses anything itself.
//!
//! The parser and every walk over its tree recurse, so a deeply nested source could overflow the stack. A stack
//! overflow aborts the process and cannot be caught. Therefore one linear pass over the tokens estimates the nesting
//! first. Depending on the estimate, the source is analysed on the caller's stack, analysed on a thread with a large
//! stack, or refused.

use std::{io, thread};

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};

/// The maximum size of a script that is analysed, in bytes.
pub const SOURCE_BYTES_MAX: usize = 1024 * 1024;

/// The maximum nesting of a source that is analysed, in levels of this module's estimate.
///
/// `CPython` has similar limits: 200 nested brackets, 100 nested indentations, and in its compiler about 3,000 levels
/// of operators and attributes.
pub const NESTING_MAX: usize = 3_000;

/// The maximum nesting that is analysed on the caller's stack, in levels. Such an analysis takes less than 1 MiB of
/// stack in a debug build, and a thread has 2 MiB by default.
pub(super) const NESTING_SHALLOW_MAX: usize = 100;

/// The stack size for nesting up to [`NESTING_MAX`], in bytes. It provides 43 KiB for each level; a debug build uses 9
/// KiB. Only the used pages of the stack take memory.
const LARGE_STACK_BYTES: usize = 128 * 1024 * 1024;

/// The stack that the analysis of a source needs, according to the source's nesting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nesting {
    /// The default stack of a thread is large enough for the analysis.
    Shallow,
    /// Only a thread with a large stack can run the analysis.
    Deep,
    /// The source nests too deeply to be parsed.
    TooDeep,
}

/// Estimates the depth of the syntax tree of `source`. The true depth may exceed the estimate by a small constant
/// factor. The stack sizes allow for this factor.
pub(super) fn nesting(source: &str) -> Nesting {
    if is_surely_within(source, NESTING_SHALLOW_MAX) {
        return Nesting::Shallow;
    }
    match deepest(source, NESTING_MAX) {
        0..=NESTING_SHALLOW_MAX => Nesting::Shallow,
        depth if depth <= NESTING_MAX => Nesting::Deep,
        _ => Nesting::TooDeep,
    }
}

/// Marks a letter, a digit or an underscore: a byte of a word that may be a keyword.
const WORD: u8 = 1;
/// Marks a byte that can only add an operator or an attribute to an expression, such as `+` or `.`.
const LINK: u8 = 2;
/// Marks a byte at which the scan stops if the byte is not in a string literal.
const OTHER: u8 = 4;
/// Marks a byte at which the scan stops if the byte is in a string literal.
const IN_TEXT: u8 = 8;
/// Marks a byte that ends a line.
const LINE: u8 = 16;

/// The marks of each byte value.
#[expect(clippy::indexing_slicing, clippy::as_conversions, reason = "a row for each byte")]
static KINDS: [u8; 256] = {
    let mut kinds = [LINK; 256];
    let mut byte = 0_u8;
    loop {
        kinds[byte as usize] = match byte {
            b' ' | b'\t' => 0,
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' => WORD,
            b'\n' | b'\r' => OTHER | IN_TEXT | LINE,
            b'"' | b'\'' | b'\\' | b'{' | b'}' => OTHER | IN_TEXT,
            b'\x0c' | b'#' | b',' | b';' | b'(' | b'[' | b')' | b']' => OTHER,
            _ => LINK,
        };
        if byte == u8::MAX {
            break kinds;
        }
        byte += 1;
    }
};

#[expect(clippy::indexing_slicing, reason = "the table has a row for each byte")]
fn is_kind(byte: u8, kind: u8) -> bool {
    KINDS[usize::from(byte)] & kind != 0
}

/// Returns whether a quick scan of the bytes proves that `source` nests at most `max` levels. The scan takes a fraction
/// of the time of [`deepest`]. The scan computes an upper bound of the estimate of [`deepest`], because the scan counts
/// every word as a keyword. Returns false if only the lexer can decide.
pub(super) fn is_surely_within(source: &str, max: usize) -> bool {
    let bytes = source.as_bytes();
    let mut depth = Depth { blocks: length_of(bytes, 0, is_blank), ..Depth::default() };
    // Reserves levels for the tokens that the lexer adds at the end of the last line and of unclosed constructs.
    let added = 4;
    let find_lambda = |from: usize| {
        // If the source has no `lambda`, `contains` returns in a fraction of the time that `find` takes.
        let rest = source.get(from..).filter(|rest| rest.contains("lambda"))?;
        Some(from + rest.find("lambda")?)
    };
    let from_here = |lambda: Option<usize>, at| match lambda {
        Some(place) if place < at => find_lambda(at),
        _ => lambda,
    };
    let mut lambda = find_lambda(0);
    let mut at = 0;
    loop {
        at += depth.after_links(bytes.get(at..).unwrap_or_default());
        while let Some(place) = lambda.filter(|place| *place < at) {
            depth.innermost.lambdas += 1;
            lambda = find_lambda(place + 1);
        }
        let start = at;
        at += 1;
        let mut within = 0;
        let before = depth.estimate();
        let kind = match bytes.get(start) {
            Some(b'#') => {
                at += length_of(bytes, at, |byte| !is_kind(byte, LINE));
                lambda = from_here(lambda, at);
                continue;
            }
            Some(b'\n' | b'\r') if !depth.outer.is_empty() => continue,
            Some(b'\n' | b'\r') => {
                // Each block is indented by at least one column. So a line is in at most as many blocks as it has
                // blanks at its start.
                depth.blocks = length_of(bytes, at, is_blank);
                TokenKind::Newline
            }
            Some(b'\\') if bytes.get(at) == Some(&b'\n') => {
                at += 1;
                depth.blocks = depth.blocks.max(length_of(bytes, at, is_blank));
                continue;
            }
            Some(b'"' | b'\'') => {
                let before = bytes.get(start.saturating_sub(2)..start).unwrap_or_default();
                let prefix = before.iter().rev().take_while(|byte| is_word(**byte));
                let is_interpolated = prefix.into_iter().any(|byte| b"fFtT".contains(byte));
                let Some(text) = after_text(bytes, start, is_interpolated) else { return false };
                (at, within) = text;
                lambda = from_here(lambda, at);
                TokenKind::Plus
            }
            Some(b'(' | b'[' | b'{') => TokenKind::Lpar,
            Some(b')' | b']' | b'}') => TokenKind::Rpar,
            Some(b',') => TokenKind::Comma,
            Some(b';') => TokenKind::Semi,
            Some(_) => return false,
            None => return before + added <= max,
        };
        if before.max(depth.after(kind)) + within + added > max {
            return false;
        }
    }
}

/// Returns the index after the string literal with its first quote at `start`, and an upper bound of the nesting inside
/// of the literal. Returns `None` if only the lexer can decide, for example if an expression in an interpolated string
/// contains a brace.
fn after_text(bytes: &[u8], start: usize, is_interpolated: bool) -> Option<(usize, usize)> {
    let rest = bytes.get(start..)?;
    let is_long = matches!(rest, [a, b, c, ..] if a == b && b == c);
    let quote = rest.get(..if is_long { 3 } else { 1 })?;
    let mut at = start + quote.len();
    // An interpolated string counts two levels for the string itself, and two for its first brace.
    let mut within = if is_interpolated { 4 } else { 0 };
    // `open` counts the open brackets in an expression, including the brace around the expression. `inner` is the quote
    // of the string that is open in the expression.
    let mut open = 0_usize;
    let mut inner = None;
    loop {
        if open == 0 {
            at += length_of(bytes, at, |byte| !is_kind(byte, IN_TEXT));
        }
        let rest = bytes.get(at..)?;
        let byte = rest.first()?;
        if open == 0 && quote.contains(byte) && rest.starts_with(quote) {
            return Some((at + quote.len(), within));
        }
        at += 1;
        match byte {
            b'\n' | b'\r' if !is_long || open > 0 => return None,
            b'\\' if is_interpolated && (open > 0 || b"{}N".contains(rest.get(1)?)) => return None,
            b'\\' => at += 1,
            _ if !is_interpolated => {}
            b'{' | b'}' if open == 0 && rest.get(1) == Some(byte) => at += 1,
            b'{' if open == 0 => open = 1,
            b'}' if open != 1 || inner.is_some() => return None,
            b'}' => open = 0,
            _ if open == 0 => {}
            b'"' | b'\'' if quote.contains(byte) || inner.is_some_and(|of| of != byte) => {
                return None;
            }
            b'"' | b'\'' => inner = if inner.is_some() { None } else { Some(byte) },
            b'{' | b'#' => return None,
            b'(' | b')' | b'[' | b']' if inner.is_some() => return None,
            b'(' | b'[' => open += 1,
            b')' | b']' if open == 1 => return None,
            b')' | b']' => open -= 1,
            _ => {}
        }
        // Each byte that is not a letter or digit counts three levels: two because it may be a bracket, and one for a
        // keyword that may follow it.
        let counts = open > 0 && inner.is_none() && !byte.is_ascii_alphanumeric();
        within += usize::from(counts) * 3;
    }
}

/// Returns the number of consecutive bytes, starting at index `from`, for which `is_such` holds.
#[inline]
fn length_of(bytes: &[u8], from: usize, is_such: impl Fn(u8) -> bool) -> usize {
    bytes.iter().skip(from).take_while(|byte| is_such(**byte)).count()
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the estimated nesting of `source`, in levels. Stops reading as soon as the estimate exceeds `enough`.
pub(super) fn deepest(source: &str, enough: usize) -> usize {
    let mut lexer = lexer::lex(source, Mode::Module);
    let mut depth = Depth::default();
    let mut deepest = 0;
    while deepest <= enough {
        let kind = lexer.next_token();
        if kind == TokenKind::EndOfFile {
            break;
        }
        deepest = deepest.max(depth.after(kind));
    }
    deepest
}

/// Returns whether the estimated nesting of `source` is at most `max` levels.
pub(super) fn is_nested_at_most(source: &str, max: usize) -> bool {
    is_surely_within(source, max) || deepest(source, max) <= max
}

/// Runs `work` on a thread with a stack that is large enough for nesting up to [`NESTING_MAX`]. The outer result is an
/// error if the thread did not start. The inner result is an error if `work` panicked.
pub(super) fn with_large_stack<T: Send>(
    work: impl FnOnce() -> T + Send,
) -> io::Result<thread::Result<T>> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("safety".to_owned())
            .stack_size(LARGE_STACK_BYTES)
            .spawn_scoped(scope, work)?;
        Ok(thread.join())
    })
}

/// The running estimate of the nesting. It counts the open blocks, the open brackets, and in each bracket the operators
/// since the last comma. An operator counts as one level, because `a + b + c` and `a.b.c` nest to the left.
#[derive(Debug, Default)]
struct Depth {
    /// The number of open indented blocks.
    blocks: usize,
    /// All open levels except the innermost level, from the outside in.
    outer: Vec<Level>,
    /// The level of the innermost bracket, or of the statement if no bracket is open.
    innermost: Level,
    /// The sum of the depths of the levels in `outer`. It is stored so that each token takes constant time.
    outer_sum: usize,
}

/// The nesting directly inside one pair of brackets, or in a statement outside of brackets.
#[derive(Debug, Default, Clone, Copy)]
struct Level {
    /// The number of operators, calls, attributes and similar links in the chain since the last comma.
    chain: usize,
    /// The number of `lambda`s. They are counted separately from the chain, because a comma does not end a `lambda`:
    /// `lambda a, b: lambda c, d: 0`.
    lambdas: usize,
}

impl Level {
    fn depth(self) -> usize {
        1 + self.chain + self.lambdas
    }
}

impl Depth {
    /// Consumes the next token, and returns the estimated nesting after it.
    fn after(&mut self, kind: TokenKind) -> usize {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the enum is the lexer's; a token that is not named here only adds a level"
        )]
        match kind {
            TokenKind::Lpar
            | TokenKind::Lsqb
            | TokenKind::Lbrace
            | TokenKind::FStringStart
            | TokenKind::TStringStart => {
                // A bracket may start a call or a subscript, which adds a link to the chain before the bracket.
                self.innermost.chain += 1;
                self.outer_sum += self.innermost.depth();
                self.outer.push(std::mem::take(&mut self.innermost));
            }
            TokenKind::Rpar
            | TokenKind::Rsqb
            | TokenKind::Rbrace
            | TokenKind::FStringEnd
            | TokenKind::TStringEnd => {
                if let Some(level) = self.outer.pop() {
                    self.outer_sum -= level.depth();
                    self.innermost = level;
                }
            }
            TokenKind::Comma => self.innermost.chain = 0,
            TokenKind::Newline | TokenKind::Semi if self.outer.is_empty() => {
                self.innermost = Level::default();
            }
            TokenKind::Indent => self.blocks += 1,
            TokenKind::Dedent => self.blocks = self.blocks.saturating_sub(1),
            TokenKind::Lambda => self.innermost.lambdas += 1,
            TokenKind::Name
            | TokenKind::Int
            | TokenKind::Float
            | TokenKind::Complex
            | TokenKind::String
            | TokenKind::FStringMiddle
            | TokenKind::TStringMiddle
            | TokenKind::Comment
            | TokenKind::NonLogicalNewline
            | TokenKind::Colon => {}
            _ => self.innermost.chain += 1,
        }
        self.estimate()
    }

    /// Consumes the bytes before the next byte of kind `OTHER`, and returns the number of these bytes. For speed, the
    /// test for `OTHER` is the only branch in the loop.
    #[expect(clippy::indexing_slicing, reason = "the table has a row for each byte")]
    fn after_links(&mut self, bytes: &[u8]) -> usize {
        let (mut last, mut links, mut count) = (0, 0, 0);
        for byte in bytes {
            let kind = KINDS[usize::from(*byte)];
            if kind & OTHER != 0 {
                break;
            }
            // A word counts as one link, at its first byte.
            links += usize::from((kind & LINK) / LINK + (kind & !last & WORD));
            last = kind;
            count += 1;
        }
        self.innermost.chain += links;
        count
    }

    fn estimate(&self) -> usize {
        self.blocks + self.outer_sum + self.innermost.depth()
    }
}
