//! Rows of the audit log as a table that fits a terminal.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::cli::token::seconds;
use crate::governance::AuditRow;

/// How wide the table is, as long as what came of a call has some room.
const WIDTH: usize = 120;
const OUTCOME_WIDTH_MIN: usize = 24;

/// The columns but the last one: their names, and how wide they get at most.
const COLUMNS: [(&str, usize); 6] =
    [("TIME", 20), ("SEQ", 12), ("EVENT", 14), ("USER", 16), ("TOOL", 20), ("RUN", 8)];
const OUTCOME: &str = "OUTCOME";
/// Between two columns.
const GAP: &str = "  ";

/// The rows, the oldest first.
pub(super) fn of(rows: &[AuditRow]) -> String {
    let names = COLUMNS.map(|(name, _)| name.to_owned());
    let mut lines = vec![(names, OUTCOME.to_owned())];
    lines.extend(rows.iter().map(|row| (cells(row), outcome(row))));
    let mut widths = [0; COLUMNS.len()];
    for (cells, _) in &lines {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = cell.chars().count().max(*width);
        }
    }
    let before: usize = widths.iter().map(|width| width + GAP.len()).sum();
    let room = WIDTH.saturating_sub(before).max(OUTCOME_WIDTH_MIN);
    let mut table = String::new();
    for (cells, outcome) in lines {
        for (cell, width) in cells.iter().zip(widths) {
            // Writing to a text does not fail.
            let _ = write!(table, "{cell:<width$}{GAP}");
        }
        let pause = format!("\n{:before$}", "");
        table.push_str(&wrapped(&outcome, room).join(&pause));
        table.push('\n');
    }
    table
}

/// The cells of a row but the last one. Clients choose names, and a terminal obeys control characters.
fn cells(row: &AuditRow) -> [String; COLUMNS.len()] {
    let user = row.user.as_deref().unwrap_or("-");
    let time = seconds(&row.time);
    let cells = [&time, &row.seq.to_string(), &row.event, user, &row.tool, &row.run_id];
    let mut widest = COLUMNS.iter().map(|(_, width)| *width);
    cells.map(|cell| shortened(&shown(cell), widest.next().unwrap_or(WIDTH)))
}

fn shown(text: &str) -> String {
    text.escape_debug().to_string()
}

/// A run id is known by its beginning; of everything else it is told that there was more.
fn shortened(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let is_run_id = text.get(8..9) == Some("-");
    let kept = if is_run_id { chars_max } else { chars_max - 1 };
    let start: String = text.chars().take(kept).collect();
    if is_run_id { start } else { format!("{start}…") }
}

/// What came of it, and what the details tell of that.
fn outcome(row: &AuditRow) -> String {
    let details: Map<String, Value> = serde_json::from_str(&row.details).unwrap_or_default();
    let text = |key: &str| details.get(key).and_then(Value::as_str);
    let number = |key: &str| details.get(key).and_then(Value::as_i64);
    let facts = [
        text("token").map(|token| format!("token {token}")),
        text("role").map(|role| format!("role {role}")),
        text("expires").map(|time| format!("until {time}")),
        number("exit_code").map(|code| format!("exit code {code}")),
        number("duration_ms").map(|duration| format!("{duration} ms")),
        text("tier").map(str::to_owned),
        text("error_code").map(str::to_owned),
        text("blocked_reason").map(str::to_owned),
        text("reason").map(str::to_owned),
        text("read_run").map(|run| format!("run {run}")),
        text("path").map(str::to_owned),
    ];
    let mut facts: Vec<String> = facts.into_iter().flatten().collect();
    // What the event says already is not said again.
    if facts.is_empty() || !row.event.ends_with(&row.outcome) {
        facts.insert(0, row.outcome.clone());
    }
    shown(&facts.join(", "))
}

/// The text in lines of at most so many characters, if its words are no longer.
fn wrapped(text: &str, chars_max: usize) -> Vec<String> {
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
