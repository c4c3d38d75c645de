//! The connection to a PostgreSQL database that replicas share, and the database's schema.
//!
//! `url` parses the setting, `tls` checks certificates as `sslmode` requires, `session` is one connection, `database`
//! reconnects after a loss, and `migrations` updates the schema. This module defines the tables, but does not use
//! them: `jobs` and other modules have their own statements.

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
