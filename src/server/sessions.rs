//! Sessions over HTTP, for protocol versions with a handshake (`initialize`). A session has a client, a user and the
//! requests in flight. This module never authenticates users: it compares users that the transport has authenticated.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, InitializeRequestParams, ProtocolVersion,
    RequestId,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::ledger::UserName;

/// The maximum number of sessions. A session takes less than 1 KiB. At this number, a new session replaces an old one:
/// among the sessions without requests in flight, the least recently used session of the user with the most sessions.
/// The client of the replaced session must begin a new session.
const SESSIONS_MAX: usize = 4096;

/// The time after which an unused session is removed, if the number of sessions is at its maximum.
const IDLE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The maximum number of characters of a client's name in a session. The same limit applies to the client's version.
const CLIENT_CHARS_MAX: usize = 100;

#[derive(Debug, Clone, Default)]
pub(super) struct Sessions {
    by_id: Arc<Mutex<HashMap<SessionId, Session>>>,
}

/// The id of a session. An id cannot be guessed.
pub(super) type SessionId = Arc<str>;

#[derive(Debug)]
struct Session {
    client: ClientConfig,
    user: Option<UserName>,
    used: Instant,
    calls: HashMap<RequestId, CancellationToken>,
}

/// A request in flight in a session. Dropping this value removes the request from the session.
#[derive(Debug)]
pub(crate) struct SessionCall {
    sessions: Sessions,
    session: SessionId,
    id: RequestId,
    has_ended: AtomicBool,
}

impl SessionCall {
    /// Removes the request from the session. After that, another request may have the same id.
    pub(super) fn end(&self) {
        let mut sessions = self.sessions.lock();
        if !self.has_ended.swap(true, Ordering::Relaxed)
            && let Some(session) = sessions.get_mut(&self.session)
        {
            session.calls.remove(&self.id);
        }
    }
}

/// The reason why a session does not accept a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// The session does not exist, or it belongs to another user.
    Unknown,
    /// A request with this id is already in flight in the session.
    Duplicate,
}

impl Sessions {
    /// Begins a session for a client, and for its user if requests have users.
    pub(super) fn begin(
        &self,
        client: &ClientConfig,
        version: ProtocolVersion,
        user: Option<UserName>,
    ) -> SessionId {
        let id: SessionId = Uuid::new_v4().to_string().into();
        let now = Instant::now();
        let session =
            Session { client: shortened(client, version), user, used: now, calls: HashMap::new() };
        let mut sessions = self.lock();
        if sessions.len() >= SESSIONS_MAX {
            sessions.retain(|_, session| {
                !session.calls.is_empty() || now.duration_since(session.used) < IDLE_MAX
            });
        }
        if sessions.len() >= SESSIONS_MAX {
            let mut of_user: HashMap<&Option<UserName>, usize> = HashMap::new();
            for session in sessions.values() {
                *of_user.entry(&session.user).or_default() += 1;
            }
            let idle = sessions.iter().filter(|(_, session)| session.calls.is_empty());
            let rank = |session: &Session| {
                let count = of_user.get(&session.user).copied().unwrap_or_default();
                (Reverse(count), session.used)
            };
            let oldest = idle.min_by_key(|(_, session)| rank(session));
            let oldest = oldest.map(|(id, _)| Arc::clone(id));
            if let Some(oldest) = oldest {
                sessions.remove(&oldest);
            }
        }
        sessions.insert(Arc::clone(&id), session);
        id
    }

    /// Adds a request to a session of `user`. Returns the session's id, the session's client, and a guard. Dropping the
    /// guard removes the request. While the guard exists, `Sessions::cancel` can cancel the request through the token
    /// `cancel`.
    pub(super) fn take(
        &self,
        session: &str,
        user: Option<&UserName>,
        id: &RequestId,
        cancel: CancellationToken,
    ) -> Result<(SessionId, ClientConfig, SessionCall), NotTaken> {
        let mut sessions = self.lock();
        let name = sessions.get_key_value(session).map(|(name, _)| Arc::clone(name));
        let name = name.ok_or(NotTaken::Unknown)?;
        let Some(known) = sessions.get_mut(session).filter(|known| known.user.as_ref() == user)
        else {
            return Err(NotTaken::Unknown);
        };
        known.used = Instant::now();
        if known.calls.contains_key(id) {
            return Err(NotTaken::Duplicate);
        }
        known.calls.insert(id.clone(), cancel);
        let client = known.client.clone();
        let call = SessionCall {
            sessions: self.clone(),
            session: Arc::clone(&name),
            id: id.clone(),
            has_ended: AtomicBool::new(false),
        };
        Ok((name, client, call))
    }

    /// Returns the session's id; `None` if `user` has no such session.
    pub(super) fn find(&self, session: &str, user: Option<&UserName>) -> Option<SessionId> {
        let sessions = self.lock();
        let found = sessions.get_key_value(session);
        found.filter(|(_, known)| known.user.as_ref() == user).map(|(name, _)| Arc::clone(name))
    }

    /// Cancels a request of a session, if the request is in flight.
    pub(super) fn cancel(&self, session: &SessionId, id: &RequestId) {
        if let Some(call) = self.lock().get(session).and_then(|known| known.calls.get(id)) {
            call.cancel();
        }
    }

    /// Ends a session and cancels its requests in flight. Returns whether `user` had this session.
    pub(super) fn end(&self, session: &str, user: Option<&UserName>) -> bool {
        let mut sessions = self.lock();
        if sessions.get(session).is_none_or(|known| known.user.as_ref() != user) {
            return false;
        }
        let ended = sessions.remove(session);
        for call in ended.iter().flat_map(|session| session.calls.values()) {
            call.cancel();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Session>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SessionCall {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the data about a client that a session stores: the shortened name and version of the client, and the agreed
/// protocol version.
fn shortened(client: &ClientConfig, version: ProtocolVersion) -> ClientConfig {
    let short = |text: &str| text.chars().take(CLIENT_CHARS_MAX).collect::<String>();
    let Implementation { name, version: of_client, .. } = &client.client_info;
    let about = Implementation::new(short(name), short(of_client));
    // Capabilities are not stored, because no answer of the handshake era depends on them.
    InitializeRequestParams::new(ClientCapabilities::default(), about)
        .with_protocol_version(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(sessions: &Sessions, user: Option<&str>) -> SessionId {
        let user = user.map(|user| user.parse().unwrap());
        sessions.begin(&ClientConfig::default(), ProtocolVersion::V_2025_06_18, user)
    }

    #[test]
    fn a_session_is_its_users_only() {
        let sessions = Sessions::default();
        let (ann, bob): (UserName, UserName) = ("ann".parse().unwrap(), "bob".parse().unwrap());
        let session = begin(&sessions, Some("ann"));
        let (id, cancel) = (RequestId::Number(1), CancellationToken::new());
        let take = |user| sessions.take(&session, user, &id, cancel.clone());
        assert_eq!(take(Some(&bob)).unwrap_err(), NotTaken::Unknown);
        assert_eq!(take(None).unwrap_err(), NotTaken::Unknown);
        let (_, _, call) = take(Some(&ann)).unwrap();
        assert_eq!(take(Some(&ann)).unwrap_err(), NotTaken::Duplicate);
        assert_eq!(sessions.find(&session, Some(&bob)), None);
        assert!(!sessions.end(&session, Some(&bob)) && !cancel.is_cancelled());
        assert_eq!(sessions.find(&session, Some(&ann)).as_ref(), Some(&session));
        sessions.cancel(&session, &id);
        assert!(cancel.is_cancelled());
        // After the end of a request, its id is free. The end of the first request does not end the second.
        call.end();
        let second = take(Some(&ann)).unwrap();
        drop(call);
        assert_eq!(take(Some(&ann)).unwrap_err(), NotTaken::Duplicate);
        drop(second);
        assert!(take(Some(&ann)).is_ok());
        assert!(sessions.end(&session, Some(&ann)));
        assert_eq!(take(Some(&ann)).unwrap_err(), NotTaken::Unknown);
    }

    #[test]
    fn sessions_are_bounded_and_the_one_that_is_used_stays() {
        let sessions = Sessions::default();
        let first = begin(&sessions, None);
        let busy = begin(&sessions, None);
        let (id, cancel) = (RequestId::Number(1), CancellationToken::new());
        let _call = sessions.take(&busy, None, &id, cancel.clone()).unwrap();
        for _ in 0..SESSIONS_MAX + 10 {
            begin(&sessions, None);
        }
        assert_eq!(sessions.lock().len(), SESSIONS_MAX);
        assert!(sessions.find(&first, None).is_none());
        assert!(sessions.find(&busy, None).is_some());
    }

    #[test]
    fn who_has_the_most_sessions_loses_one() {
        let sessions = Sessions::default();
        let of_ann = begin(&sessions, Some("ann"));
        let oldest_of_vic = begin(&sessions, Some("vic"));
        for _ in 0..SESSIONS_MAX + 10 {
            begin(&sessions, Some("vic"));
        }
        assert_eq!(sessions.lock().len(), SESSIONS_MAX);
        let (ann, vic): (UserName, UserName) = ("ann".parse().unwrap(), "vic".parse().unwrap());
        assert!(sessions.find(&of_ann, Some(&ann)).is_some());
        assert!(sessions.find(&oldest_of_vic, Some(&vic)).is_none());
    }

    #[test]
    fn little_is_kept_of_a_client() {
        let mut client = ClientConfig::default();
        client.client_info = Implementation::new("x".repeat(50_000), "1");
        let kept = shortened(&client, ProtocolVersion::V_2025_06_18);
        assert_eq!(kept.client_info.name.len(), CLIENT_CHARS_MAX);
        assert_eq!(kept.protocol_version, ProtocolVersion::V_2025_06_18);
    }
}
