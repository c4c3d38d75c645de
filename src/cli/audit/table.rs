//! Formats rows of the audit log as a table.

use serde_json::{Map, Value};

use crate::cli::table::{Table, WidthLimit, printable};
use crate::cli::token::seconds;
use crate::ledger::AuditRow;

/// The widths at which the table is wrapped. Lines have at most 120 characters, but the last column always gets at
/// least 24 characters.
const WIDTH: WidthLimit = WidthLimit { line: 120, last_column: 24 };

/// The name of each column except the last, and the maximum width of its cells in characters.
const COLUMNS: [(&str, usize); 6] =
    [("TIME", 20), ("SEQ", 12), ("EVENT", 14), ("USER", 16), ("TOOL", 20), ("RUN", 8)];

pub(super) fn of(rows: &[AuditRow]) -> String {
    let [time, seq, event, user, tool, run] = COLUMNS.map(|(name, _)| (name, 0));
    let columns = [time, seq, event, user, tool, run, ("OUTCOME", 0)];
    let mut table = Table::new(columns).wrapped(WIDTH);
    for row in rows {
        let user = row.user.as_deref().unwrap_or("-");
        let (when, seq) = (seconds(&row.time), row.seq.to_string());
        let cells = [&when, &seq, &row.event, user, &row.tool, &row.run_id];
        let mut widest = COLUMNS.iter().map(|(_, width)| *width);
        let cells =
            cells.map(|cell| shortened(&printable(cell), widest.next().unwrap_or_default()));
        let [time, seq, event, user, tool, run] = &cells;
        table.row([time, seq, event, user, tool, run, &outcome(row)]);
    }
    table.to_string()
}

/// Shortens a cell with more than `chars_max` characters. A shortened run id has no `…`, because its first characters
/// are enough to recognise the run. Every other shortened text ends in `…`.
fn shortened(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let is_run_id = text.get(8..9) == Some("-");
    let kept = if is_run_id { chars_max } else { chars_max - 1 };
    let start: String = text.chars().take(kept).collect();
    if is_run_id { start } else { format!("{start}…") }
}

/// Formats the outcome of a call, followed by the details that explain it.
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
        text("exceeded").map(|exceeded| format!("over {exceeded}")),
        text("reason").map(str::to_owned),
        text("read_run").map(|run| format!("run {run}")),
        text("path").map(str::to_owned),
    ];
    let mut facts: Vec<String> = facts.into_iter().flatten().collect();
    // If the name of the event ends with the outcome, omit the outcome, but never leave the cell empty.
    if facts.is_empty() || !row.event.ends_with(&row.outcome) {
        facts.insert(0, row.outcome.clone());
    }
    facts.join(", ")
}
