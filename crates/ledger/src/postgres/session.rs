//! One connection to the database. This module never reconnects.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, NoTls, Row, Statement};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::tls;
use super::tls::TlsError;
use super::url::{DatabaseUrl, Security, UrlError};

/// The time after which the database aborts a statement.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time that a session waits for the database's reply to a statement. After this time, the session treats the
/// connection as lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(12);
/// The maximum number of notices that wait for the listener. Further notices are dropped. The loss is harmless, because
/// the listener also reads the tables regularly.
const NOTICES_MAX: usize = 1024;

/// Applies the settings of this program to a connection. If `synchronous_commit` is `off` or `local`, committed rows
/// could be lost, so this statement changes the setting to `on`. Also returns `fsync`, to warn the admin if it is off.
const SETUP: &str = "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') \
    WHEN 'off' THEN 'on' WHEN 'local' THEN 'on' ELSE current_setting('synchronous_commit') END, \
    false), \
    set_config('statement_timeout', '10s', false), set_config('lock_timeout', '5s', false), \
    set_config('idle_in_transaction_session_timeout', '10s', false), \
    set_config('search_path', 'qwed_mcp', false), set_config('client_min_messages', 'warning', \
    false), \
    current_setting('fsync')";

/// The reason why the database did not carry out a request.
#[derive(Debug, Error)]
pub enum DatabaseError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("failed to set up TLS to the database")]
    Tls(#[from] TlsError),
    #[error("failed to connect to {place}")]
    Connect { place: String, source: tokio_postgres::Error },
    /// The database did not respond in time. The string is the location of the database.
    #[error("{0} does not answer")]
    Silent(String),
    /// The database refused a statement, or the connection was lost while the statement ran. If the connection was
    /// lost, the statement may have been carried out.
    #[error("failed to execute a statement")]
    Statement(#[source] tokio_postgres::Error),
    /// The database did not reply to a statement in time. The statement may have been carried out.
    #[error("the database does not answer")]
    NoAnswer,
    /// The schema has a version that this program does not support, because a newer version of the program created it.
    #[error(
        "the database has schema version {found}, and this program supports up to {known}: install \
         the newer program on all servers, then start them again"
    )]
    Newer { found: i32, known: i32 },
    /// The database cannot store all texts. The string is its encoding.
    #[error(
        "the encoding of the database is {0}, not UTF8: create it with `createdb --encoding UTF8 \
         --template template0`"
    )]
    Encoding(String),
    #[error("failed to migrate the database's schema to version {version} ({name})")]
    Migrate { version: i32, name: &'static str, source: tokio_postgres::Error },
}

impl DatabaseError {
    /// Returns whether the statement may have been carried out in spite of the error.
    pub fn is_ambiguous(&self) -> bool {
        match self {
            Self::Statement(error) => error.as_db_error().is_none(),
            Self::NoAnswer => true,
            Self::Url(_)
            | Self::Tls(_)
            | Self::Connect { .. }
            | Self::Silent(_)
            | Self::Newer { .. }
            | Self::Encoding(_)
            | Self::Migrate { .. } => false,
        }
    }

    /// Returns whether the error may be temporary, for example while the server is unreachable or restarts.
    pub fn is_passing(&self) -> bool {
        let of_server = |error: &tokio_postgres::Error| {
            error.as_db_error().is_none_or(|error| {
                // Errors of these SQLSTATE classes may be temporary: connection errors, insufficient resources,
                // operator intervention, and serialization failures or deadlocks.
                let class = error.code().code();
                ["08", "53", "57", "40"].iter().any(|start| class.starts_with(start))
            })
        };
        match self {
            Self::Silent(_) | Self::NoAnswer => true,
            Self::Connect { source, .. } | Self::Statement(source) => of_server(source),
            Self::Url(_)
            | Self::Tls(_)
            | Self::Newer { .. }
            | Self::Encoding(_)
            | Self::Migrate { .. } => false,
        }
    }
}

/// A notification that the database sends to all listeners (`NOTIFY`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub channel: String,
    pub payload: String,
}

/// A connection. Several tasks can use it at once, because statements are pipelined. Each statement is a transaction of
/// its own.
pub struct Session {
    client: Client,
    /// The statements that this connection has prepared, by their SQL.
    statements: Mutex<HashMap<&'static str, Statement>>,
    is_lost: AtomicBool,
    /// Closes the connection when this session is dropped.
    _end: DropGuard,
}

impl Session {
    /// Tries once to connect, and applies the settings of [`SETUP`]. The returned channel receives the notices of this
    /// connection.
    pub(super) async fn connect(
        url: &DatabaseUrl,
    ) -> Result<(Self, mpsc::Receiver<Notice>), DatabaseError> {
        let mut config = url.config.clone();
        if config.get_application_name().is_none() {
            config.application_name("qwed-mcp");
        }
        let place = url.to_string();
        let limit = config.get_connect_timeout().copied().unwrap_or(STATEMENT_TIMEOUT);
        let connected = timeout(limit * 2, async {
            let (notices, heard) = mpsc::channel(NOTICES_MAX);
            let end = CancellationToken::new();
            let client = match &url.security {
                Security::Plain => {
                    let (client, connection) =
                        config.connect(NoTls).await.map_err(Failed::Connect)?;
                    tokio::spawn(drive(connection, notices, end.clone()));
                    client
                }
                security @ (Security::Unchecked | Security::Authority(_) | Security::Name(_)) => {
                    let tls = tls::connector(security).map_err(Failed::Tls)?;
                    let (client, connection) =
                        config.connect(tls).await.map_err(Failed::Connect)?;
                    tokio::spawn(drive(connection, notices, end.clone()));
                    client
                }
            };
            let setup = client.query_one(SETUP, &[]).await.map_err(Failed::Connect)?;
            if setup.try_get::<_, &str>(6).is_ok_and(|fsync| fsync == "off") {
                tracing::warn!(
                    "fsync is off in the database: committed data can be lost in a crash"
                );
            }
            let statements = Mutex::default();
            let (is_lost, end) = (AtomicBool::new(false), end.drop_guard());
            Ok((Self { client, statements, is_lost, _end: end }, heard))
        });
        match connected.await {
            Ok(Ok(session)) => Ok(session),
            Ok(Err(Failed::Connect(source))) => Err(DatabaseError::Connect { place, source }),
            Ok(Err(Failed::Tls(error))) => Err(error.into()),
            Err(_elapsed) => Err(DatabaseError::Silent(place)),
        }
    }

    /// Returns whether the connection can no longer be used.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed) || self.client.is_closed()
    }

    /// Executes one statement and returns its rows. Prepares the statement at its first use.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if the database refuses the statement or does not reply.
    pub async fn query(
        &self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, DatabaseError> {
        let answer = self.answered(async {
            let statement = self.prepared(sql).await?;
            self.client.query(&statement, parameters).await
        });
        answer.await
    }

    /// Executes one statement and returns the number of rows that it has changed.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if the database refuses the statement or does not reply.
    pub async fn execute(
        &self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, DatabaseError> {
        let answer = self.answered(async {
            let statement = self.prepared(sql).await?;
            self.client.execute(&statement, parameters).await
        });
        answer.await
    }

    /// Executes several statements without parameters, in order.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if the database refuses a statement or does not reply.
    pub async fn batch(&self, sql: &str) -> Result<(), DatabaseError> {
        self.answered(self.client.batch_execute(sql)).await
    }

    /// Returns the client, which can begin transactions. Requires exclusive use of the session.
    pub fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Returns a prepared statement for use in a transaction.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if the database refuses the statement or does not reply.
    pub async fn statement(&self, sql: &'static str) -> Result<Statement, DatabaseError> {
        self.answered(self.prepared(sql)).await
    }

    async fn prepared(&self, sql: &'static str) -> Result<Statement, tokio_postgres::Error> {
        let known = || self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        let statement = known().get(sql).cloned();
        if let Some(statement) = statement {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        known().insert(sql, statement.clone());
        Ok(statement)
    }

    async fn answered<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, DatabaseError> {
        match timeout(ANSWER_TIMEOUT, answer).await {
            Ok(answer) => answer.map_err(DatabaseError::Statement),
            Err(_elapsed) => {
                self.is_lost.store(true, Ordering::Relaxed);
                Err(DatabaseError::NoAnswer)
            }
        }
    }
}

enum Failed {
    Connect(tokio_postgres::Error),
    Tls(TlsError),
}

/// Drives the connection until it is lost, or until its session is dropped.
async fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    notices: mpsc::Sender<Notice>,
    end: CancellationToken,
) where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    loop {
        let message = tokio::select! {
            message = poll_fn(|context| connection.poll_message(context)) => message,
            () = end.cancelled() => return,
        };
        match message {
            Some(Ok(AsyncMessage::Notification(notice))) => {
                let channel = notice.channel().to_owned();
                // If the channel is full, drop the notice. See [`NOTICES_MAX`].
                let _ = notices.try_send(Notice { channel, payload: notice.payload().to_owned() });
            }
            Some(Ok(message)) => tracing::debug!(?message, "the database says"),
            Some(Err(error)) => {
                tracing::debug!(%error, "the connection to the database is lost");
                return;
            }
            None => return,
        }
    }
}
