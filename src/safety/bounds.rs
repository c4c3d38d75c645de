//! Bounds that no source text can cross.
//!
//! A stack overflow aborts the process and cannot be caught, and both the parser and every walk
//! over its tree recurse. So the source's nesting is estimated first, by one linear pass over the
//! tokens, and decides: analyse here, analyse on a thread with a large stack, or refuse.

use std::{io, thread};

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};
use ruff_python_stdlib::keyword;

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

/// The longest script that may be judged by its signs alone, in bytes.
const SHORT_BYTES_MAX: usize = 2048;

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
    if is_surely_shallow(source) {
        return Nesting::Shallow;
    }
    match deepest(source, NESTING_MAX) {
        0..=NESTING_SHALLOW_MAX => Nesting::Shallow,
        depth if depth <= NESTING_MAX => Nesting::Deep,
        _ => Nesting::TooDeep,
    }
}

/// Tells whether `source` is so short and has so few signs and keywords that the estimate cannot be
/// high: most scripts are, and need no pass over their tokens.
pub(super) fn is_surely_shallow(source: &str) -> bool {
    if source.len() > SHORT_BYTES_MAX {
        return false;
    }
    // An opening bracket or quote is a link of the chain around it and a level of its own; any
    // other sign or keyword is one of these at most.
    let signs: usize = source
        .bytes()
        .map(|byte| match byte {
            b'(' | b'[' | b'{' | b'"' | b'\'' => 2,
            b'_' => 0,
            byte if byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() => 0,
            _ => 1,
        })
        .sum();
    let words = source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let keywords = words.filter(|word| is_token(word)).count();
    // What the lexer adds by itself: the end of the last line, and of what is not closed.
    let added = 4;
    signs + keywords + added <= NESTING_SHALLOW_MAX
}

/// Tells whether the lexer makes a token of its own of this word.
fn is_token(word: &str) -> bool {
    keyword::is_keyword(word) || matches!(word, "case" | "lazy" | "match" | "type")
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
    deepest(source, max) <= max
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
        self.blocks + self.outer_sum + self.innermost.depth()
    }
}
