//! A handle to a database. It connects on demand, and reconnects after the connection is lost.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};
use tokio::time::{sleep, timeout};

use super::migrations::{self, MIGRATIONS};
use super::session::{DatabaseError, Notice, Session};
use super::url::DatabaseUrl;

/// The maximum time that a caller waits for a connection.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The first pause between two attempts to connect. Each further pause is twice as long, up to `PAUSE_MAX`.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A handle to a database. All clones of the handle share its connections.
#[derive(Clone)]
pub struct Database {
    url: Arc<DatabaseUrl>,
    /// The connection for notices (`NOTIFY`) and for single statements, which are transactions of their own.
    shared: Arc<Mutex<Option<Shared>>>,
    /// The connection for transactions of several statements. One transaction uses it at a time.
    exclusive: Arc<Mutex<Option<Session>>>,
}

/// The connection that all tasks share.
struct Shared {
    session: Arc<Session>,
    /// The notices that arrive on the connection. `None` after a listener has taken the receiver.
    notices: Option<mpsc::Receiver<Notice>>,
}

/// An excessive right of a server's database role. No server needs this right. A server with this right could remove
/// the triggers and grants that protect the data of other servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Excess {
    #[error("it is a superuser of the database")]
    Superuser,
    #[error("it owns the tables")]
    Owner,
}

/// Finds excessive rights of the database role. Queries only the catalog, because the tables may not exist yet.
const EXCESS: &str = "SELECT rolsuper, EXISTS (SELECT FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace \
    WHERE nspname = 'qwed_mcp' AND relkind = 'r' AND pg_has_role(current_user, relowner, 'MEMBER')) \
    FROM pg_roles WHERE rolname = current_user";

/// The exclusive right to use the connection that is reserved for transactions. Dropping this value ends the right.
pub struct Exclusive(OwnedMutexGuard<Option<Session>>);

impl Exclusive {
    /// Returns the session, if the connection still exists.
    pub fn session(&mut self) -> Option<&mut Session> {
        self.0.as_mut()
    }
}

impl Database {
    /// Returns a handle to the database at `url`, without migrating its schema. The handle connects to the database at
    /// its first use.
    pub fn at(url: DatabaseUrl) -> Self {
        Self { url: Arc::new(url), shared: Arc::default(), exclusive: Arc::default() }
    }

    /// Returns an excessive right of the database role, or `None` if the role has no such right.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if the database cannot be queried.
    pub async fn excess(&self) -> Result<Option<Excess>, DatabaseError> {
        let rows = self.session().await?.query(EXCESS, &[]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let has = |column: usize| row.try_get::<_, bool>(column).map_err(DatabaseError::Statement);
        Ok(match (has(0)?, has(1)?) {
            (true, _) => Some(Excess::Superuser),
            (false, true) => Some(Excess::Owner),
            (false, false) => None,
        })
    }

    /// Connects, migrates the schema, and closes the connection that the migration used.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if the database cannot be reached or migrated.
    pub async fn open(url: DatabaseUrl) -> Result<Self, DatabaseError> {
        let place = url.to_string();
        let database = Self::at(url);
        let mut exclusive = database.exclusive().await?;
        // This condition is always true, because `Self::exclusive` has just connected to the database.
        if let Some(session) = exclusive.session() {
            migrations::migrate(session.client_mut(), MIGRATIONS).await?;
        }
        drop(exclusive.0.take());
        tracing::info!(%place, "the database is ready");
        Ok(database)
    }

    /// Returns the shared connection. Reconnects if the connection was lost. Waits at most five seconds.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if the connection failed.
    pub async fn session(&self) -> Result<Arc<Session>, DatabaseError> {
        let waited = self.waited(async {
            let mut shared = self.shared.lock().await;
            Ok(Arc::clone(&self.usable(&mut shared, |_| true).await?.session))
        });
        waited.await
    }

    /// Returns the shared connection. Reconnects if the connection was lost, or if `is_wanted` returns `false` for the
    /// connection.
    async fn usable<'a>(
        &self,
        shared: &'a mut Option<Shared>,
        is_wanted: impl Fn(&Shared) -> bool,
    ) -> Result<&'a mut Shared, DatabaseError> {
        if shared.as_ref().is_none_or(|it| it.session.is_lost() || !is_wanted(it)) {
            let (session, notices) = self.connected().await?;
            *shared = Some(Shared { session: Arc::new(session), notices: Some(notices) });
        }
        shared.as_mut().ok_or_else(|| DatabaseError::Silent(self.url.to_string()))
    }

    /// Returns the connection for transactions, when no other task uses it. Waits at most five seconds.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if the connection failed.
    pub async fn exclusive(&self) -> Result<Exclusive, DatabaseError> {
        let waited = self.waited(async {
            let mut exclusive = Arc::clone(&self.exclusive).lock_owned().await;
            if exclusive.as_ref().is_none_or(Session::is_lost) {
                let (session, _) = self.connected().await?;
                *exclusive = Some(session);
            }
            Ok(Exclusive(exclusive))
        });
        waited.await
    }

    /// Listens on `channel` over the shared connection. The returned channel closes when the connection is lost. The
    /// caller may then have missed notices, so the caller must read the tables.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if the connection failed.
    pub async fn listen(
        &self,
        channel: &'static str,
    ) -> Result<mpsc::Receiver<Notice>, DatabaseError> {
        let waited = self.waited(async {
            let mut shared = self.shared.lock().await;
            let shared = self.usable(&mut shared, |shared| shared.notices.is_some()).await?;
            Ok((Arc::clone(&shared.session), shared.notices.take()))
        });
        let (session, notices) = waited.await?;
        session.batch(&format!("LISTEN {channel}")).await?;
        notices.ok_or_else(|| DatabaseError::Silent(self.url.to_string()))
    }

    async fn waited<T>(
        &self,
        work: impl Future<Output = Result<T, DatabaseError>>,
    ) -> Result<T, DatabaseError> {
        match timeout(WAIT_MAX, work).await {
            Ok(done) => done,
            Err(_elapsed) => Err(DatabaseError::Silent(self.url.to_string())),
        }
    }

    /// Connects. Retries while the error may be temporary.
    async fn connected(&self) -> Result<(Session, mpsc::Receiver<Notice>), DatabaseError> {
        let mut pause = PAUSE_MIN;
        loop {
            // The future of `connect` is large. Without the box, every future that queries the database would also be
            // large.
            match Box::pin(Session::connect(&self.url)).await {
                Err(error) if error.is_passing() => {
                    tracing::debug!(%error, "the database cannot be reached");
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                connected => return connected,
            }
        }
    }
}
