//! Bounds that no source text can cross.
//!
//! A stack overflow aborts the process and cannot be caught, and both the parser and every walk
//! over its tree recurse. So the source's nesting is estimated first, by one linear pass over the
//! tokens, and decides: analyse here, analyse on a thread with a large stack, or refuse.

use std::{io, thread};

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};

/// The longest script that is analysed, in bytes.
pub const SOURCE_BYTES_MAX: usize = 1024 * 1024;

/// The deepest nesting that is analysed, in levels of the estimate below.
///
/// `CPython` itself gives up near here: 200 brackets, 100 indentations, and for chains of operators
/// and attributes about 3,000 levels in its compiler.
pub const NESTING_MAX: usize = 3_000;

/// The deepest nesting that is analysed on the caller's stack: it takes below 1 MiB in a debug
/// build, and a thread's default stack is 2 MiB.
pub(super) const NESTING_SHALLOW_MAX: usize = 100;

/// The stack for nesting up to [`NESTING_MAX`]: 42 KiB a level, where a debug build was seen to
/// need 9. Only the pages that are touched cost memory.
const LARGE_STACK_BYTES: usize = 128 * 1024 * 1024;

/// The depth of a source text's nesting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nesting {
    /// Any thread's stack holds the analysis.
    Shallow,
    /// Only a thread with a large stack holds it.
    Deep,
    /// No tree is built from this.
    TooDeep,
}

/// Estimates how deep the syntax tree of `source` will be: never too low by more than a small
/// constant factor, which the stack sizes above cover.
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

/// A byte of a word, which may be a keyword …
const WORD: u8 = 1;
/// … a sign that is no more than a link of a chain …
const LINK: u8 = 2;
/// … one outside of texts that has to be looked at …
const OTHER: u8 = 4;
/// … one in a text that has to be …
const IN_TEXT: u8 = 8;
/// … and one that ends a line.
const LINE: u8 = 16;

/// The kinds of each byte.
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

/// Tells by its bytes that `source` nests at most `max` levels, in a fraction of the time that the
/// lexer takes: by the same estimate, in which any word may be a keyword. False as well where only
/// the lexer can tell.
pub(super) fn is_surely_within(source: &str, max: usize) -> bool {
    let bytes = source.as_bytes();
    let mut depth = Depth { blocks: length_of(bytes, 0, is_blank), ..Depth::default() };
    // What the lexer adds by itself: the end of the last line, and of what is not closed.
    let added = 4;
    let find_lambda = |from: usize| {
        // Telling that there is none takes a fraction of the time.
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
                // Each block takes at least one column.
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

/// Returns the place behind the text whose first quote is at `start`, and how deep it nests at most.
/// `None` where the lexer has to tell: of an interpolated one whose expressions have more in them than
/// brackets and texts without any.
fn after_text(bytes: &[u8], start: usize, is_interpolated: bool) -> Option<(usize, usize)> {
    let rest = bytes.get(start..)?;
    let is_long = matches!(rest, [a, b, c, ..] if a == b && b == c);
    let quote = rest.get(..if is_long { 3 } else { 1 })?;
    let mut at = start + quote.len();
    // The text itself, and the first brace.
    let mut within = if is_interpolated { 4 } else { 0 };
    // The brackets that are open in an expression, with its brace, and the text that is.
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
        // A bracket is two levels, and any sign may have a keyword behind it.
        let counts = open > 0 && inner.is_none() && !byte.is_ascii_alphanumeric();
        within += usize::from(counts) * 3;
    }
}

/// Returns the number of bytes from this place on that are such.
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

/// Returns the estimate for `source`, which is read no further once `enough` is passed.
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

/// Tells whether `source` nests at most `max` levels, by the same estimate.
pub(super) fn is_nested_at_most(source: &str, max: usize) -> bool {
    is_surely_within(source, max) || deepest(source, max) <= max
}

/// Does `work` on a thread whose stack holds nesting up to [`NESTING_MAX`]. The inner result is
/// that of joining it.
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

/// The running estimate: blocks, plus open brackets, plus in each bracket the operators since the
/// last comma, since `a + b + c` and `a.b.c` nest to the left, a level for each operator.
#[derive(Debug, Default)]
struct Depth {
    /// Open indented blocks.
    blocks: usize,
    /// Open brackets and interpolated strings around the current one, innermost last.
    outer: Vec<Level>,
    /// The content of the innermost bracket, or of the statement if none is open.
    innermost: Level,
    /// The sum of `outer`, kept so that a token costs constant time.
    outer_sum: usize,
}

/// The nesting inside one pair of brackets.
#[derive(Debug, Default, Clone, Copy)]
struct Level {
    /// Operators, calls, attributes and the like since the last comma.
    chain: usize,
    /// `lambda`s. A comma does not end one: `lambda a, b: lambda c, d: 0`.
    lambdas: usize,
}

impl Level {
    fn depth(self) -> usize {
        1 + self.chain + self.lambdas
    }
}

impl Depth {
    /// Takes the next token and returns the estimate after it.
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
                // A call or a subscript is one more link of the chain it stands in.
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

    /// Takes the words, blanks and signs up to the next byte that has to be looked at, and returns how
    /// many bytes those are. Nothing branches on what they are.
    #[expect(clippy::indexing_slicing, reason = "the table has a row for each byte")]
    fn after_links(&mut self, bytes: &[u8]) -> usize {
        let (mut last, mut links, mut count) = (0, 0, 0);
        for byte in bytes {
            let kind = KINDS[usize::from(*byte)];
            if kind & OTHER != 0 {
                break;
            }
            // A word counts where it starts.
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
