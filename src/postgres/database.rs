//! The database as its users see it: a connection when they need one, made again when it is lost.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::migrations::{self, MIGRATIONS};
use super::session::{DatabaseError, Notice, Session};
use super::url::DatabaseUrl;

/// The time for which a caller waits for a connection.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The pauses between two attempts to connect: each is twice the one before.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The database. Cheap to clone; all clones share the connections.
#[derive(Clone)]
pub(crate) struct Database {
    url: Arc<DatabaseUrl>,
    /// Drives the connections, whichever runtime asks for one: that of the asker may be blocked until there is an
    /// answer.
    runtime: Handle,
    /// The connection for statements that are a transaction each.
    shared: Arc<Mutex<Option<Arc<Session>>>>,
    /// The connection for transactions of several statements, one at a time.
    exclusive: Arc<Mutex<Option<Session>>>,
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
    /// Returns the database at a URL, as it is. It is connected when it is asked for something, in the runtime of the
    /// caller.
    pub(crate) fn at(url: DatabaseUrl) -> Self {
        let (shared, exclusive) = (Arc::default(), Arc::default());
        Self { url: Arc::new(url), runtime: Handle::current(), shared, exclusive }
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

    /// Connects, and brings the schema to what this program knows.
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
            match &*shared {
                Some(session) if !session.is_lost() => Ok(Arc::clone(session)),
                Some(_) | None => {
                    let (session, _) = self.connected().await?;
                    Ok(Arc::clone(shared.insert(Arc::new(session))))
                }
            }
        });
        waited.await
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

    /// Connects once more, to hear what is told on `channel`. Whoever has missed something looks at the tables:
    /// after a loss the receiver ends.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if there is no connection.
    pub(crate) async fn listen(
        &self,
        channel: &'static str,
    ) -> Result<(Session, mpsc::Receiver<Notice>), DatabaseError> {
        let (session, notices) = self.waited(self.connected()).await?;
        session.batch(&format!("LISTEN {channel}")).await?;
        Ok((session, notices))
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
            let url = Arc::clone(&self.url);
            let connecting = self.runtime.spawn(async move { Session::connect(&url).await });
            let connected = AbortOnDropHandle::new(connecting).await;
            // If its runtime has ended, nobody answers any more.
            match connected.unwrap_or_else(|_| Err(DatabaseError::Silent(self.url.to_string()))) {
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
