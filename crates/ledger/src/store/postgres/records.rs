//! Parses rows of the table of tokens.

use std::str::FromStr;

use tokio_postgres::Row;

use super::value;
use crate::audit::RecordedToken;
use crate::store::error::StoreError;
use crate::tokens::{TokenId, TokenRecord};

pub(super) const ALL_TOKENS: &str = "SELECT id, user_name, role, created, expires, revoked, hash \
    FROM qwed_mcp.tokens ORDER BY id";

pub(super) fn record(row: &Row) -> Result<TokenRecord, StoreError> {
    let optional = |column| {
        let text: Option<&str> = value(row, column)?;
        text.map(parsed).transpose()
    };
    Ok(TokenRecord {
        id: TokenId(value(row, 0)?),
        user: parsed(value(row, 1)?)?,
        role: parsed(value(row, 2)?)?,
        created: parsed(value(row, 3)?)?,
        expires: optional(4)?,
        revoked: optional(5)?,
    })
}

fn parsed<T: FromStr>(text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|_| StoreError::Unreadable("tokens"))
}

/// Reads a token from a row of the table of tokens. Returns the token in the same form as in the audit log.
pub(super) fn recorded(row: &Row) -> Result<RecordedToken, StoreError> {
    Ok(RecordedToken {
        token: value::<i64>(row, 0)?.to_string(),
        user: value(row, 1)?,
        role: value(row, 2)?,
        created: value(row, 3)?,
        expires: value(row, 4)?,
        revoked: value(row, 5)?,
        sha256: hex::encode(value::<&[u8]>(row, 6)?),
    })
}
