//! Connects to a PostgreSQL database that replicas share, and creates the tables in the database.
//!
//! `url` parses `QWED_MCP_STORE`, `tls` checks certificates as `sslmode` requires, `session` is one connection,
//! `database` reconnects after a loss, and `migrations` updates the schema. This module queries only the table of
//! migrations. `jobs` and other modules query the other tables.

mod database;
mod migrations;
#[cfg(test)]
#[path = "../../../../tests/integration/harness/postgres.rs"]
pub(crate) mod scratch;
mod session;
#[cfg(test)]
mod tests;
mod tls;
mod url;

pub use database::{Database, Excess};
pub use session::{DatabaseError, Notice, Session};
pub use url::DatabaseUrl;
