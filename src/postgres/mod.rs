//! PostgreSQL, which replicas share: where it is, the connection, and the schema.
//!
//! `url` reads the setting, `tls` holds the connection to what its `sslmode` says, `database` makes the
//! connection again where it is lost, and `migrations` brings the schema up to what this program knows. What the
//! tables mean is their users' own: `jobs` has its statements, and so have others.

mod database;
mod migrations;
#[cfg(test)]
#[path = "../../tests/integration/harness/postgres.rs"]
pub(crate) mod scratch;
mod session;
#[cfg(test)]
pub(crate) mod tests;
mod tls;
mod url;

pub(crate) use database::{Database, Excess};
pub(crate) use session::{DatabaseError, Notice, Session};
pub(crate) use url::DatabaseUrl;
