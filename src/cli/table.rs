//! Formats tables for a terminal. Each column is as wide as its widest cell, up to a limit.

use std::fmt;

/// The number of spaces between two columns.
const GAP: usize = 2;

/// The width up to which cells widen their column, in characters. The caller of [`Table::new`] can request a wider
/// column.
const CELL_CHARS_MAX: usize = 60;

/// A table with `N` columns. Its first row contains the names of the columns.
pub(super) struct Table<const N: usize> {
    /// The width of each column so far, in characters.
    widths: [usize; N],
    rows: Vec<[String; N]>,
    /// The limits for wrapping the last column. `None` if the last column is not wrapped.
    width: Option<WidthLimit>,
}

/// The limits for wrapping the last column of a table.
#[derive(Clone, Copy)]
pub(super) struct WidthLimit {
    /// The maximum width of a line, in characters.
    pub(super) line: usize,
    /// The minimum width of the last column, in characters. This minimum has priority over the maximum width of a line.
    pub(super) last_column: usize,
}

impl<const N: usize> Table<N> {
    /// Creates a table. `columns` contains the name and the minimum width of each column.
    pub(super) fn new(columns: [(&str, usize); N]) -> Self {
        let widths = columns.map(|(_, width)| width);
        let mut table = Self { widths, rows: Vec::new(), width: None };
        table.row(columns.map(|(name, _)| name));
        table
    }

    /// Lets the table wrap the last column between words.
    pub(super) fn wrapped(self, width: WidthLimit) -> Self {
        Self { width: Some(width), ..self }
    }

    pub(super) fn row(&mut self, cells: [&str; N]) {
        let cells = cells.map(printable);
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            // A longer cell widens its column only up to the limit. It shifts the later cells of its own row.
            *width = cell.chars().count().min(CELL_CHARS_MAX).max(*width);
        }
        self.rows.push(cells);
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before: usize = self.widths.iter().take(N - 1).map(|width| width + GAP).sum();
        let room = |limit: WidthLimit| limit.line.saturating_sub(before).max(limit.last_column);
        let room = self.width.map_or(usize::MAX, room);
        for row in &self.rows {
            let Some((last, cells)) = row.split_last() else { continue };
            for (cell, width) in cells.iter().zip(self.widths) {
                write!(f, "{cell:<width$}{:GAP$}", "")?;
            }
            let pause = format!("\n{:before$}", "");
            writeln!(f, "{}", lines(last, room).join(&pause))?;
        }
        Ok(())
    }
}

/// Returns a text on one line, with control characters escaped. Escaping is necessary, because clients, tests, or
/// programs that write to the store can choose the text.
pub(super) fn printable(text: &str) -> String {
    let mut printable = String::new();
    for c in text.chars() {
        match c {
            '"' | '\'' | '\\' => printable.push(c),
            c => printable.extend(c.escape_debug()),
        }
    }
    printable
}

/// Splits a text between words into lines of at most `chars_max` characters. A longer word gets its own line.
fn lines(text: &str, chars_max: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= chars_max => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_grow_and_the_last_one_is_wrapped() {
        let mut table = Table::new([("ID", 4), ("NAME", 0), ("TEXT", 0)])
            .wrapped(WidthLimit { line: 20, last_column: 5 });
        table.row(["1", "longer", "one two three"]);
        table.row(["", "\u{1b}[m", "x"]);
        assert_eq!(
            table.to_string(),
            "ID    NAME      TEXT\n\
             1     longer    one\n                \
                             two\n                \
                             three\n      \
                   \\u{1b}[m  x\n"
        );
    }

    #[test]
    fn texts_do_nothing_to_a_terminal() {
        let text = "it's {\"a\": 1}\u{1b}[31m\n\u{202e}é";
        assert_eq!(printable(text), "it's {\"a\": 1}\\u{1b}[31m\\n\\u{202e}é");
    }
}
