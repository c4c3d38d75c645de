//! The database as its users see it: a connection when they need one, made again when it is lost.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};
use tokio::time::{sleep, timeout};

use super::migrations::{self, MIGRATIONS};
use super::session::{DatabaseError, Notice, Session};
use super::url::DatabaseUrl;

/// The time for which a caller waits for a connection.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The pauses between two attempts to connect: each is twice the one before.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The database. Cheap to clone; all clones share the connection.
#[derive(Clone)]
pub(crate) struct Database {
    url: Arc<DatabaseUrl>,
    /// The connection for statements that are a transaction each, and for what is told.
    shared: Arc<Mutex<Option<Shared>>>,
    /// The connection for transactions of several statements, one at a time.
    exclusive: Arc<Mutex<Option<Session>>>,
}

/// The connection that all tasks share.
struct Shared {
    session: Arc<Session>,
    /// What is told on it, until somebody hears that.
    notices: Option<mpsc::Receiver<Notice>>,
}

/// Rights of the database's user that no server needs: with them it can change whatever other servers rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Excess {
    #[error("it is a superuser of the database")]
    Superuser,
    #[error("it owns the tables")]
    Owner,
}

/// By the catalogue alone: there may be no tables yet.
const EXCESS: &str = "SELECT rolsuper, EXISTS (SELECT FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace \
    WHERE nspname = 'qwed_mcp' AND relkind = 'r' AND pg_has_role(current_user, relowner, 'MEMBER')) \
    FROM pg_roles WHERE rolname = current_user";

/// The connection for transactions, until it is dropped.
pub(crate) struct Exclusive(OwnedMutexGuard<Option<Session>>);

impl Exclusive {
    /// Returns the session, where there still is one.
    pub(crate) fn session(&mut self) -> Option<&mut Session> {
        self.0.as_mut()
    }
}

impl Database {
    /// Returns the database at a URL, as it is. It is connected when it is asked for something.
    pub(crate) fn at(url: DatabaseUrl) -> Self {
        Self { url: Arc::new(url), shared: Arc::default(), exclusive: Arc::default() }
    }

    /// Returns the rights of the database's user that a server should not have.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if it cannot be asked.
    pub(crate) async fn excess(&self) -> Result<Option<Excess>, DatabaseError> {
        let rows = self.session().await?.query(EXCESS, &[]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let has = |column: usize| row.try_get::<_, bool>(column).map_err(DatabaseError::Statement);
        Ok(match (has(0)?, has(1)?) {
            (true, _) => Some(Excess::Superuser),
            (false, true) => Some(Excess::Owner),
            (false, false) => None,
        })
    }

    /// Connects, brings the schema to what this program knows, and gives up the connection that took.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if it cannot be used.
    pub(crate) async fn open(url: DatabaseUrl) -> Result<Self, DatabaseError> {
        let place = url.to_string();
        let database = Self::at(url);
        let mut exclusive = database.exclusive().await?;
        // There is one: it was just connected.
        if let Some(session) = exclusive.session() {
            migrations::migrate(session.client_mut(), MIGRATIONS).await?;
        }
        drop(exclusive.0.take());
        tracing::info!(%place, "the database is ready");
        Ok(database)
    }

    /// Returns the connection that all tasks share, made again if it was lost. Waits a few seconds at most.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if there is none.
    pub(crate) async fn session(&self) -> Result<Arc<Session>, DatabaseError> {
        let waited = self.waited(async {
            let mut shared = self.shared.lock().await;
            Ok(Arc::clone(&self.usable(&mut shared, |_| true).await?.session))
        });
        waited.await
    }

    /// Returns the shared connection, made again if it was lost or is not as it `is_wanted`.
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

    /// Returns the connection for transactions of several statements, when nobody else has it.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if there is none.
    pub(crate) async fn exclusive(&self) -> Result<Exclusive, DatabaseError> {
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

    /// Returns what is told on `channel`, over the connection that all tasks share. Whoever has missed something looks at
    /// the tables: after a loss the receiver ends.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if there is no connection.
    pub(crate) async fn listen(
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

    /// Connects, again and again as long as the reason may pass.
    async fn connected(&self) -> Result<(Session, mpsc::Receiver<Notice>), DatabaseError> {
        let mut pause = PAUSE_MIN;
        loop {
            // On the heap: it is in the middle of everything that asks the database.
            match Box::pin(Session::connect(&self.url)).await {
                Err(error) if error.is_passing() => {
                    tracing::debug!(%error, "the database is away");
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                connected => return connected,
            }
        }
    }
}
