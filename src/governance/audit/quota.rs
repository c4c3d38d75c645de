//! The runs of a user on one day, counted in the audit log.

use chrono::{DateTime, Utc};
use rusqlite::Transaction;

use super::rows::text;
use super::{AuditEntry, AuditEvent, AuditOutcome, append};
use crate::governance::roles::GovernedTool;
use crate::governance::store::{Pending, Store, StoreError, time_text};
use crate::governance::user_name::UserName;
use crate::receipt::AuditPlace;

/// A number of runs that a user may have on the day of this moment (UTC).
#[derive(Debug, Clone)]
pub(crate) struct Quota {
    pub(crate) user: UserName,
    pub(crate) runs_max: u64,
    pub(crate) now: DateTime<Utc>,
}

impl Store {
    /// Appends entries if the user has a run left on that day, after what was submitted before; none of them
    /// otherwise. Nothing comes between the count and the rows, not of another process either.
    pub(crate) fn submit_within(
        &self,
        entries: Vec<AuditEntry>,
        quota: Quota,
    ) -> Pending<Option<AuditPlace>> {
        self.submit(move |transaction| {
            if runs_of_day(transaction, &quota.user, quota.now)? >= quota.runs_max {
                return Ok(None);
            }
            append(transaction, &entries).map(Some)
        })
    }

    /// Returns how many runs a user has had on the day of this moment.
    pub(crate) fn runs_of_day(
        &self,
        user: &UserName,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        self.read(|transaction| runs_of_day(transaction, user, now))
    }
}

fn runs_of_day(
    transaction: &Transaction<'_>,
    user: &UserName,
    now: DateTime<Utc>,
) -> rusqlite::Result<u64> {
    let time = time_text(now);
    let day = time.get(..10).unwrap_or_default();
    // From the last one on: the day is at the end of the log, however long that is.
    let mut select = transaction
        .prepare("SELECT time, event, user, tool, outcome FROM audit ORDER BY seq DESC")?;
    let mut rows = select.query([])?;
    let (tool, event) = (GovernedTool::RunPytest.name(), AuditEvent::McpToolCall.as_str());
    let mut count = 0;
    while let Some(row) = rows.next()? {
        if *text(row, 0)? < *day {
            break;
        }
        let is_theirs = row.get::<_, Option<String>>(2)?.as_deref() == Some(user.as_str());
        let is_run = text(row, 1)? == event
            && text(row, 3)? == tool
            && text(row, 4)? == AuditOutcome::Allowed.as_str();
        count += u64::from(is_theirs && is_run);
    }
    Ok(count)
}
