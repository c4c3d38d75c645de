//! Queries of the table of tokens. The module `writer` changes the table.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::records::{ALL_TOKENS, record};
use super::writer::{Job, Slot};
use super::{PostgresStore, value};
use crate::store::backend::TokenStore;
use crate::store::error::StoreError;
use crate::store::pending::Pending;
use crate::tokens::{NewToken, Replaced, Replacement, Revoked, TokenHash, TokenId, TokenRecord};

const BY_HASH: &str = "SELECT id, user_name, role, created, expires, revoked, hash, clock_timestamp() \
    FROM qwed_mcp.tokens WHERE hash = $1";

const BY_ID: &str = "SELECT id, user_name, role, created, expires, revoked \
    FROM qwed_mcp.tokens WHERE id = $1";

// The details are canonical JSON, which escapes quotation marks within texts. So the pattern matches only a key.
const LAST_USES: &str = "SELECT token, max(time) FROM ( \
        SELECT substring(details from '\"token\":\"([0-9]+)\"') AS token, time \
        FROM qwed_mcp.audit WHERE event = 'MCP_TOOL_CALL') AS uses \
    WHERE token IS NOT NULL GROUP BY token";

impl TokenStore for PostgresStore {
    fn record_older_tokens(&self) -> Result<(), StoreError> {
        // Do nothing, because every token in this database has rows in the audit log.
        Ok(())
    }

    fn add_token(&self, token: NewToken) -> Result<TokenRecord, StoreError> {
        self.written(|slot| Job::AddToken(token, slot))
    }

    fn replace_token(&self, new: Replacement) -> Result<Replaced, StoreError> {
        self.written(|slot| Job::ReplaceToken(new, slot))
    }

    fn revoke(&self, id: TokenId) -> Result<Revoked, StoreError> {
        self.written(|slot| Job::RevokeToken(id, slot))
    }

    fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        self.ask(async |session| session.query(ALL_TOKENS, &[]).await?.iter().map(record).collect())
    }

    fn token_of(&self, hash: TokenHash) -> Result<Option<(TokenRecord, TokenHash)>, StoreError> {
        let clock = Arc::clone(&self.clock);
        self.ask(move |session| {
            let clock = Arc::clone(&clock);
            async move {
                let rows = session.query(BY_HASH, &[&hash.as_slice()]).await?;
                let Some(row) = rows.first() else { return Ok(None) };
                let known: &[u8] = value(row, 6)?;
                let known =
                    TokenHash::try_from(known).map_err(|_| StoreError::Unreadable("tokens"))?;
                clock.set(value(row, 7)?);
                Ok(Some((record(row)?, known)))
            }
        })
    }

    fn token(&self, id: TokenId) -> Result<Option<TokenRecord>, StoreError> {
        self.ask(move |session| async move {
            session.query(BY_ID, &[&id.0]).await?.first().map(record).transpose()
        })
    }

    fn last_uses(&self) -> Result<BTreeMap<String, String>, StoreError> {
        self.ask(async |session| {
            let rows = session.query(LAST_USES, &[]).await?;
            rows.iter().map(|row| Ok((value(row, 0)?, value(row, 1)?))).collect()
        })
    }
}

impl PostgresStore {
    /// Submits a job to the writer, and waits for its result.
    fn written<T>(&self, job: impl FnOnce(Slot<T>) -> Job) -> Result<T, StoreError> {
        let (reply, pending) = Pending::new();
        self.submit(job(reply.into()));
        pending.wait()
    }
}
