//! The single writer of a replica. It writes the jobs of this process in the order of their submission.
//!
//! All waiting jobs are written as one group with one commit, because a commit waits for the database's disk. A group
//! is written completely or not at all. Advisory locks, held until the transaction ends, prevent replicas from changing
//! tokens, or counting a user's runs, at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;
use tokio_postgres::{IsolationLevel, Row, Statement, Transaction};
use tokio_util::sync::CancellationToken;

use super::records::{record, recorded};
use super::{Clock, NOW, hurried, is_lost_connection};
use crate::audit::AuditPlace;
use crate::audit::{AuditEntry, AuditEvent, AuditOutcome, AuditRow, NO_HASH, Quota, time_text};
use crate::postgres::{Database, DatabaseError, Session};
use crate::store::error::StoreError;
use crate::store::pending::Reply;
use crate::tokens::{NewToken, Replaced, Replacement, Revoked, TokenId, TokenRecord};

/// The maximum number of jobs in one transaction. It equals the maximum number of calls in flight.
const GROUP_MAX: usize = 256;
/// The time limit for writing a group. The timeouts of statements are shorter, so a group normally reaches this limit
/// only if the network drops packets.
const GROUP_TIMEOUT: Duration = Duration::from_secs(20);

/// The advisory lock for changes of tokens. Transactions take this lock first, then [`LOCK_USER`], then [`LOCK_CHAIN`].
/// The fixed order prevents deadlocks.
const LOCK_TOKENS: &str = "SELECT pg_advisory_xact_lock(hashtextextended('qwed_mcp tokens', 0))";
/// The advisory lock for counting a user's runs.
const LOCK_USER: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('qwed_mcp runs of ' || $1::text, 0))";
/// The advisory lock for appending to a chain.
const LOCK_CHAIN: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('qwed_mcp chain of ' || $1::text, 0))";

pub(super) const HEAD: &str = "SELECT seq, hash FROM qwed_mcp.audit_heads WHERE instance = $1";

const APPEND: &str = "INSERT INTO qwed_mcp.audit (instance, seq, time, run_id, event, user_name, tool, \
    arguments_hash, outcome, details, previous, hash) \
    SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], \
    $8::text[], $9::text[], $10::text[], $11::text[], $12::text[]) AS added (seq) ORDER BY seq";

pub(super) const RUNS_OF_DAY: &str = "SELECT count(*) FROM qwed_mcp.audit \
    WHERE event = 'MCP_TOOL_CALL' AND tool = 'run_pytest' AND outcome = 'ALLOWED' \
    AND user_name = $1 AND time >= $2";

const ADD_TOKEN: &str = "INSERT INTO qwed_mcp.tokens (hash, user_name, role, created, expires) \
    VALUES ($1, $2, $3, $4, $5) RETURNING id, user_name, role, created, expires, revoked, hash";

const TOKEN: &str = "SELECT id, user_name, role, created, expires, revoked, hash FROM qwed_mcp.tokens \
    WHERE id = $1";

const REVOKE: &str = "UPDATE qwed_mcp.tokens SET revoked = $2 WHERE id = $1 \
    RETURNING id, user_name, role, created, expires, revoked, hash";

/// A job for the writer, with the sender for its result.
#[derive(Debug)]
pub(super) enum Job {
    Append(Vec<AuditEntry>, Slot<AuditPlace>),
    #[cfg(test)]
    AppendAt(AuditEntry, String, Slot<AuditPlace>),
    AppendWithin(Vec<AuditEntry>, Quota, Slot<Option<AuditPlace>>),
    AddToken(NewToken, Slot<TokenRecord>),
    ReplaceToken(Replacement, Slot<Replaced>),
    RevokeToken(TokenId, Slot<Revoked>),
}

/// The result of a job, and the sender for this result. The result is sent after the commit.
#[derive(Debug)]
pub(super) struct Slot<T> {
    done: Option<T>,
    reply: Reply<T>,
}

impl<T> From<Reply<T>> for Slot<T> {
    fn from(reply: Reply<T>) -> Self {
        Self { done: None, reply }
    }
}

impl<T> Slot<T> {
    fn reply(self, group: Result<(), StoreError>) {
        let Self { done, reply } = self;
        // Sending fails if the caller no longer waits. Ignore this.
        drop(reply.send(group.and_then(|()| done.ok_or(StoreError::GivenUp))));
    }
}

impl Job {
    fn changes_tokens(&self) -> bool {
        match self {
            Self::AddToken(..) | Self::ReplaceToken(..) | Self::RevokeToken(..) => true,
            Self::Append(..) | Self::AppendWithin(..) => false,
            #[cfg(test)]
            Self::AppendAt(..) => false,
        }
    }

    /// If this job counts the runs of a user, returns the user.
    fn counted(&self) -> Option<&str> {
        match self {
            Self::AppendWithin(_, quota, _) => Some(quota.user.as_str()),
            Self::Append(..)
            | Self::AddToken(..)
            | Self::ReplaceToken(..)
            | Self::RevokeToken(..) => None,
            #[cfg(test)]
            Self::AppendAt(..) => None,
        }
    }

    /// Writes the job in the transaction of its group.
    async fn run(&mut self, chain: &mut Chain<'_>) -> Result<(), StoreError> {
        match self {
            Self::Append(entries, slot) => slot.done = Some(chain.append(entries)),
            #[cfg(test)]
            Self::AppendAt(entry, time, slot) => {
                chain.append_one(entry, time.clone());
                slot.done = Some(chain.place());
            }
            Self::AppendWithin(entries, quota, slot) => {
                let is_within = chain.runs_of_day(quota.user.as_str()).await? < quota.runs_max;
                slot.done = Some(is_within.then(|| chain.append(entries)));
            }
            Self::AddToken(token, slot) => slot.done = Some(chain.add_token(token).await?),
            Self::ReplaceToken(new, slot) => slot.done = Some(chain.replace_token(*new).await?),
            Self::RevokeToken(id, slot) => slot.done = Some(chain.revoke_token(*id).await?),
        }
        Ok(())
    }

    /// Sends the result of the job to the waiting caller. If the whole group failed, sends the group's error instead.
    pub(super) fn reply(self, group: Result<(), StoreError>) {
        match self {
            Self::Append(_, slot) => slot.reply(group),
            #[cfg(test)]
            Self::AppendAt(_, _, slot) => slot.reply(group),
            Self::AppendWithin(_, _, slot) => slot.reply(group),
            Self::AddToken(_, slot) => slot.reply(group),
            Self::ReplaceToken(_, slot) => slot.reply(group),
            Self::RevokeToken(_, slot) => slot.reply(group),
        }
    }
}

/// The chain of this replica, with the clock that each group sets to the database's time.
pub(super) struct OwnChain {
    pub(super) instance: String,
    pub(super) clock: Arc<Clock>,
}

/// Writes jobs in groups until the channel closes. After `hurry` is cancelled, each group must be written within two
/// seconds.
pub(super) async fn write_all(
    database: Database,
    own: OwnChain,
    mut waiting: Receiver<Job>,
    hurry: CancellationToken,
) {
    let mut group = Vec::new();
    while waiting.recv_many(&mut group, GROUP_MAX).await > 0 {
        let written = timeout(GROUP_TIMEOUT, write(&database, &own, &mut group));
        let written = match hurried(&hurry, written).await {
            Some(Ok(written)) => written,
            Some(Err(_)) | None => Err(DatabaseError::NoAnswer.into()),
        };
        for job in group.drain(..) {
            job.reply(written.clone());
        }
    }
}

/// Writes a group. After a temporary error before the commit, such as a lost connection, retries once, because nothing
/// was written. After an error during the commit, fails, because it is unknown whether the group was written.
async fn write(database: &Database, own: &OwnChain, group: &mut [Job]) -> Result<(), StoreError> {
    let written = match write_group(database, own, group).await {
        Err(NotWritten { error, commit_failed: false }) if is_lost_connection(&error) => {
            tracing::debug!(?error, "a group is written once more");
            write_group(database, own, group).await
        }
        written => written,
    };
    written.map_err(|not_written| not_written.error)
}

/// The reason why a group was not written, or may not have been written. `commit_failed` is `true` if the
/// commit itself failed.
struct NotWritten {
    error: StoreError,
    commit_failed: bool,
}

impl<E: Into<StoreError>> From<E> for NotWritten {
    fn from(error: E) -> Self {
        Self { error: error.into(), commit_failed: false }
    }
}

async fn write_group(
    database: &Database,
    own: &OwnChain,
    group: &mut [Job],
) -> Result<(), NotWritten> {
    let mut exclusive = database.exclusive().await?;
    let session = exclusive.session().ok_or(StoreError::GivenUp)?;
    let statements = Statements::of(session).await?;
    // Use `ReadCommitted`, because a statement that runs after a wait for a lock must see the rows that were committed
    // meanwhile.
    let level = IsolationLevel::ReadCommitted;
    let begun = session.client_mut().build_transaction().isolation_level(level).start().await;
    let transaction = begun.map_err(DatabaseError::Statement)?;
    if group.iter().any(Job::changes_tokens) {
        transaction.query(LOCK_TOKENS, &[]).await.map_err(DatabaseError::Statement)?;
    }
    let users: BTreeSet<&str> = group.iter().filter_map(Job::counted).collect();
    for user in users {
        transaction.query(LOCK_USER, &[&user]).await.map_err(DatabaseError::Statement)?;
    }
    let mut chain = Chain::begin(&transaction, &statements, own).await?;
    for job in group {
        job.run(&mut chain).await?;
    }
    chain.flush().await?;
    drop(chain);
    transaction.commit().await.map_err(|source| NotWritten {
        // Do not retry, because the commit may have succeeded if the connection was lost.
        commit_failed: true,
        error: DatabaseError::Statement(source).into(),
    })
}

/// The prepared statements that each group needs.
struct Statements {
    lock: Statement,
    now: Statement,
    head: Statement,
    append: Statement,
}

impl Statements {
    async fn of(session: &Session) -> Result<Self, DatabaseError> {
        Ok(Self {
            lock: session.statement(LOCK_CHAIN).await?,
            now: session.statement(NOW).await?,
            head: session.statement(HEAD).await?,
            append: session.statement(APPEND).await?,
        })
    }
}

/// The chain of a replica, during a transaction that has the lock for appends to this chain.
struct Chain<'t> {
    transaction: &'t Transaction<'t>,
    statements: &'t Statements,
    instance: &'t str,
    /// The time of all rows in the group, by the database's clock.
    now: DateTime<Utc>,
    seq: i64,
    hash: String,
    /// The rows that are not inserted yet.
    rows: Vec<AuditRow>,
}

impl<'t> Chain<'t> {
    async fn begin(
        transaction: &'t Transaction<'t>,
        statements: &'t Statements,
        own: &'t OwnChain,
    ) -> Result<Self, StoreError> {
        let instance = own.instance.as_str();
        // These queries are pipelined. The database runs them in order, so the later queries see the rows that were
        // committed while the first query waited for the lock.
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&instance];
        let (_, now, head) = futures_util::future::try_join3(
            transaction.query(&statements.lock, &parameters),
            transaction.query_one(&statements.now, &[]),
            transaction.query_opt(&statements.head, &parameters),
        )
        .await
        .map_err(DatabaseError::Statement)?;
        let now = super::value(&now, 0)?;
        own.clock.set(now);
        let (seq, hash) = match head {
            Some(head) => (super::value(&head, 0)?, super::value(&head, 1)?),
            None => (0, NO_HASH.to_owned()),
        };
        Ok(Self { transaction, statements, instance, now, seq, hash, rows: Vec::new() })
    }

    fn append(&mut self, entries: &[AuditEntry]) -> AuditPlace {
        for entry in entries {
            self.append_one(entry, time_text(self.now));
        }
        self.place()
    }

    fn append_one(&mut self, entry: &AuditEntry, time: String) {
        self.seq += 1;
        // A client may choose a tool name with NUL characters. Replace them, because PostgreSQL does not store them.
        let tool = entry.tool.replace('\0', "\u{FFFD}");
        let entry = AuditEntry { tool, ..entry.clone() };
        let row =
            AuditRow::of(&entry, self.seq, time, self.hash.clone()).of_instance(self.instance);
        self.hash.clone_from(&row.hash);
        self.rows.push(row);
    }

    fn place(&self) -> AuditPlace {
        AuditPlace { seq: self.seq, hash: self.hash.clone() }
    }

    /// Inserts the rows that are not inserted yet.
    async fn flush(&mut self) -> Result<(), StoreError> {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(());
        }
        let seq: Vec<i64> = rows.iter().map(|row| row.seq).collect();
        let text = |of: fn(&AuditRow) -> &str| rows.iter().map(of).collect::<Vec<&str>>();
        let optional = |of: fn(&AuditRow) -> &Option<String>| {
            rows.iter().map(|row| of(row).as_deref()).collect::<Vec<Option<&str>>>()
        };
        let inserted = self
            .transaction
            .execute(
                &self.statements.append,
                &[
                    &self.instance,
                    &seq,
                    &text(|row| &row.time),
                    &text(|row| &row.run_id),
                    &text(|row| &row.event),
                    &optional(|row| &row.user),
                    &text(|row| &row.tool),
                    &optional(|row| &row.arguments_hash),
                    &text(|row| &row.outcome),
                    &text(|row| &row.details),
                    &text(|row| &row.previous),
                    &text(|row| &row.hash),
                ],
            )
            .await;
        inserted.map_err(DatabaseError::Statement)?;
        Ok(())
    }

    async fn runs_of_day(&mut self, user: &str) -> Result<u64, StoreError> {
        self.flush().await?;
        let time = time_text(self.now);
        let day = time.get(..10).unwrap_or_default();
        let row = self.transaction.query_one(RUNS_OF_DAY, &[&user, &day]).await;
        let count: i64 = super::value(&row.map_err(DatabaseError::Statement)?, 0)?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    async fn token(&self, id: TokenId) -> Result<Option<TokenRecord>, StoreError> {
        let row = self.transaction.query_opt(TOKEN, &[&id.0]).await;
        row.map_err(DatabaseError::Statement)?.as_ref().map(record).transpose()
    }

    async fn add_token(&mut self, token: &NewToken) -> Result<TokenRecord, StoreError> {
        let row = self
            .transaction
            .query_one(
                ADD_TOKEN,
                &[
                    &token.hash.as_slice(),
                    &token.user.as_str(),
                    &token.role.as_str(),
                    &time_text(token.created),
                    &token.expires.map(time_text),
                ],
            )
            .await;
        let row = row.map_err(DatabaseError::Statement)?;
        self.append_token(&row, AuditEvent::TokenCreated, AuditOutcome::CREATED)?;
        record(&row)
    }

    async fn replace_token(&mut self, new: Replacement) -> Result<Replaced, StoreError> {
        let Some(old) = self.token(new.id).await? else { return Ok(Replaced::Unknown) };
        if old.revoked.is_some() {
            return Ok(Replaced::Revoked);
        }
        let record = self.add_token(&new.of(&old)).await?;
        self.revoke(old.id).await?;
        Ok(Replaced::Now(Box::new(record)))
    }

    async fn revoke_token(&mut self, id: TokenId) -> Result<Revoked, StoreError> {
        match self.token(id).await? {
            None => Ok(Revoked::Unknown),
            Some(TokenRecord { revoked: Some(_), .. }) => Ok(Revoked::Before),
            Some(TokenRecord { revoked: None, .. }) => {
                self.revoke(id).await?;
                Ok(Revoked::Now)
            }
        }
    }

    /// Revokes a token that is not revoked yet, and appends the row about it.
    async fn revoke(&mut self, id: TokenId) -> Result<(), StoreError> {
        let row = self.transaction.query_one(REVOKE, &[&id.0, &time_text(self.now)]).await;
        let row = row.map_err(DatabaseError::Statement)?;
        self.append_token(&row, AuditEvent::TokenRevoked, AuditOutcome::REVOKED)
    }

    fn append_token(
        &mut self,
        token: &Row,
        event: AuditEvent,
        outcome: AuditOutcome,
    ) -> Result<(), StoreError> {
        let entry = recorded(token)?.entry(event, outcome);
        self.append(&[entry]);
        Ok(())
    }
}
