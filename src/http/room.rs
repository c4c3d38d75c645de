//! Limits the requests in flight, their memory and the connections, for all users together and for each user. The
//! limits of requests and bytes for all users together are the same as over stdio.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Duration, timeout};
use tokio_util::sync::CancellationToken;

use crate::batch::LINE_BYTES_MAX;
use crate::ledger::UserName;
use crate::shares::{Held, NotTaken, Pool, Share};

use super::refusal::Refusal;

/// The maximum number of requests in flight, of all users together.
const REQUESTS_MAX: usize = 256;
/// The maximum total size of the request bodies and batch lines in memory, of all users together.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// The maximum size of a request's body, in bytes, except for `/run` and `/run_code`. A script of 1 MiB fits, even if
/// JSON escapes all quotes, line ends and non-ASCII characters of the script.
pub(super) const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The maximum number of bodies above [`BODY_BYTES_MAX`] in memory, of all users together. One user may have one such
/// body. A body needs about three times its size in memory until the script in the body has ended.
const LARGE_BODIES_MAX: usize = 4;
/// The maximum time that a large body waits for one of the `LARGE_BODIES_MAX` slots. The server does not refuse the
/// body at once. The refusal would arrive while the client is sending, and clients then often report a broken
/// connection instead.
const LARGE_BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// The minimum share of `BYTES_MAX` that each user has.
const USER_BYTES_MIN: usize = BODY_BYTES_MAX + 1024 * 1024;
/// The timeout for receiving a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of batches at once, of all users together. It is small, because each batch keeps workers busy
/// until it ends.
const BATCHES_MAX: usize = 16;
/// The maximum number of authenticated connections. Authenticated connections, unauthenticated connections and the
/// pipes of runs together need fewer file descriptors than the default limit of 1,024 per process.
const CONNECTIONS_MAX: usize = 384;

/// The maximum number of unauthenticated connections. A further connection closes the oldest unauthenticated
/// connection. A flood of connections does not lock out legitimate clients, because a legitimate client authenticates
/// at once.
const STRANGERS_MAX: usize = 128;

/// The limits for requests, batches, connections and bytes, and the current use of each limit.
#[derive(Debug)]
pub(super) struct Room {
    requests: Pool,
    bytes: Pool,
    large_bodies: Pool,
    batches: Pool,
    connections: Pool,
    /// The maximum number of requests in flight of one user, if the admin configured it.
    user_requests: Option<usize>,
}

impl Room {
    /// Creates the limits. One user may take `share` of each limit. For requests in flight, `user_requests` replaces
    /// the share.
    pub(super) fn new(share: Share, user_requests: Option<usize>) -> Self {
        let requests = user_requests.unwrap_or(share.of(REQUESTS_MAX));
        let pool = |whole| Pool::new(whole, share.of(whole));
        Self {
            requests: Pool::new(REQUESTS_MAX, requests),
            // Even the smallest share must fit one body, or one long line of a batch and the first bytes of other
            // lines.
            bytes: Pool::new(BYTES_MAX, share.of(BYTES_MAX).max(USER_BYTES_MIN)),
            large_bodies: Pool::new(LARGE_BODIES_MAX, 1),
            batches: pool(BATCHES_MAX),
            connections: pool(CONNECTIONS_MAX),
            user_requests,
        }
    }

    /// Takes a slot of the user's share of requests, for a request that has begun.
    pub(super) fn begin(&self, user: Option<&UserName>) -> Result<Held, Refusal> {
        self.requests.take_share(user.map(UserName::as_str), 1).map_err(refusal)
    }

    /// Takes a slot for a batch and a slot for a request, for a batch that has begun.
    pub(super) fn batch(&self, user: Option<&UserName>) -> Result<[Held; 2], Refusal> {
        let batch = self.batches.take(user.map(UserName::as_str), 1).map_err(refusal)?;
        Ok([self.requests.take_whole(1).map_err(refusal)?, batch])
    }

    /// Returns the maximum number of scripts of one user's batch that run at once.
    pub(super) fn workers_max(&self) -> usize {
        self.user_requests.unwrap_or(usize::MAX)
    }

    /// Takes a slot for the connection of an authenticated caller.
    pub(super) fn connection(&self, user: Option<&UserName>) -> Result<Held, Refusal> {
        self.connections.take(user.map(UserName::as_str), 1).map_err(|_| Refusal::Connections)
    }

    /// Waits until `count` bytes of a batch's lines fit into the limit of bytes. Then reserves the bytes.
    pub(super) async fn bytes(&self, user: Option<&UserName>, count: usize) -> Held {
        self.bytes.wait(user.map(UserName::as_str), count).await
    }

    /// Reads the body of a message. See [`Room::read_up_to`].
    pub(super) async fn read(
        &self,
        body: Incoming,
        user: Option<&UserName>,
    ) -> Result<(Vec<u8>, Vec<Held>), Refusal> {
        self.read_up_to(BODY_BYTES_MAX, body, user).await
    }

    /// Reads a body with one script of a pipeline. The inputs of the script may be large. See [`Room::read_up_to`].
    pub(super) async fn read_script(
        &self,
        body: Incoming,
        user: Option<&UserName>,
    ) -> Result<(Vec<u8>, Vec<Held>), Refusal> {
        let read = self.read_up_to(LINE_BYTES_MAX, body, user).await;
        read.map_err(
            |refusal| {
                if refusal == Refusal::TooLarge { Refusal::ScriptTooLarge } else { refusal }
            },
        )
    }

    /// Reads the body of a request that has begun. If the declared size is large, first waits for one of the slots for
    /// large bodies. For any other body, counts bytes towards the limit of bytes only when they arrive, so that a
    /// client cannot reserve memory for bytes that it does not send. After the last byte, takes one of the slots for
    /// requests that all users share.
    async fn read_up_to(
        &self,
        bytes_max: usize,
        body: Incoming,
        user: Option<&UserName>,
    ) -> Result<(Vec<u8>, Vec<Held>), Refusal> {
        let user = user.map(UserName::as_str);
        let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if declared > bytes_max {
            return Err(Refusal::TooLarge);
        }
        let is_large = declared > BODY_BYTES_MAX;
        let large = if is_large {
            let place = timeout(LARGE_BODY_TIMEOUT, self.large_bodies.wait(user, 1)).await;
            Some(place.map_err(|_| Refusal::Full)?)
        } else {
            None
        };
        let bytes = (!is_large).then_some(&self.bytes);
        let read = timeout(BODY_TIMEOUT, read_all(body, declared.max(BODY_BYTES_MAX), bytes, user));
        let (body, held) = read.await.unwrap_or(Err(Refusal::Incomplete))?;
        // Take the slot only after the body has arrived, so that a client that sends slowly blocks no other request.
        let place = self.requests.take_whole(1).map_err(refusal)?;
        Ok((body, [held, place].into_iter().chain(large).collect()))
    }
}

/// Reads a body of at most `bytes_max` bytes. Reserves bytes in `pool` as the body arrives.
async fn read_all(
    mut body: Incoming,
    bytes_max: usize,
    pool: Option<&Pool>,
    user: Option<&str>,
) -> Result<(Vec<u8>, Held), Refusal> {
    let (mut bytes, mut held) = (Vec::new(), Held::default());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Refusal::Incomplete)?.into_data() else { continue };
        if bytes.len() + data.len() > bytes_max {
            return Err(Refusal::TooLarge);
        }
        if let Some(pool) = pool {
            held.merge(pool.take(user, data.len()).map_err(refusal)?);
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, held))
}

/// The unauthenticated connections of a listener. Their number is limited.
#[derive(Debug, Default)]
pub(super) struct Lobby {
    strangers: Mutex<Strangers>,
}

#[derive(Debug, Default)]
struct Strangers {
    count: u64,
    /// The silent connections: no request is authenticated, and no token is being checked. The oldest connection has
    /// the smallest key. Cancelling the value closes the connection.
    silent: BTreeMap<u64, CancellationToken>,
    /// The number of connections with a token that is being checked.
    asking: usize,
}

/// The slot of one connection. The connection counts as unauthenticated until one of its requests is authenticated.
/// Then the connection counts towards the share of one user. This is always the user of the latest request, because a
/// proxy may send the requests of several users over one connection.
#[derive(Debug)]
pub(super) struct Seat {
    lobby: Arc<Lobby>,
    ended: CancellationToken,
    state: Mutex<SeatState>,
}

#[derive(Debug)]
enum SeatState {
    /// No request of the connection is authenticated, and no token is being checked. The number is the key in
    /// `Strangers::silent`.
    Silent(u64),
    Asking,
    Taken {
        user: Option<UserName>,
        _place: Held,
    },
    /// A user was authenticated, but the connection limit of the user or of all users was reached.
    Left,
}

impl Seat {
    /// Takes a slot in the lobby for a new connection. If the lobby is full, closes the connection that has been silent
    /// for the longest time. Returns `None` if the lobby is full and no connection is silent.
    pub(super) fn new(lobby: &Arc<Lobby>) -> Option<Self> {
        let ended = CancellationToken::new();
        let mut strangers = lobby.lock();
        if strangers.silent.len() + strangers.asking >= STRANGERS_MAX {
            strangers.silent.pop_first()?.1.cancel();
        }
        let state = Mutex::new(SeatState::Silent(strangers.add(ended.clone())));
        Some(Self { lobby: Arc::clone(lobby), ended, state })
    }

    /// Returns whether the lobby is full.
    pub(super) fn is_last(&self) -> bool {
        let strangers = self.lobby.lock();
        strangers.silent.len() + strangers.asking >= STRANGERS_MAX
    }

    /// Returns a token that is cancelled when another connection takes the slot of this connection.
    pub(super) fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// Marks the connection as one with a token that is being checked. No other connection can take its slot during the
    /// check.
    pub(super) fn ask(&self) {
        let mut state = self.lock();
        if let SeatState::Silent(number) = *state {
            let mut strangers = self.lobby.lock();
            strangers.silent.remove(&number);
            strangers.asking += 1;
            *state = SeatState::Asking;
        }
    }

    /// Marks the connection as silent again, after a request that was not authenticated.
    pub(super) fn stay(&self) {
        let mut state = self.lock();
        if matches!(*state, SeatState::Asking) {
            let mut strangers = self.lobby.lock();
            strangers.asking -= 1;
            *state = SeatState::Silent(strangers.add(self.ended.clone()));
        }
    }

    /// Returns whether the connection is silent: none of its requests is authenticated, and no token is being checked.
    pub(super) fn is_stranger(&self) -> bool {
        matches!(*self.lock(), SeatState::Silent(_))
    }

    /// Moves the connection from the lobby, or from the share of another user, to the share of `user`.
    pub(super) fn take(&self, room: &Room, user: Option<&UserName>) -> Result<(), Refusal> {
        let mut state = self.lock();
        if matches!(&*state, SeatState::Taken { user: holder, .. } if holder.as_ref() == user) {
            return Ok(());
        }
        // Release the slot of the previous user first. If `user` has no free slot, the connection has no slot and is
        // closed.
        self.leave(&mut state);
        let place = room.connection(user)?;
        *state = SeatState::Taken { user: user.cloned(), _place: place };
        Ok(())
    }

    fn leave(&self, state: &mut SeatState) {
        match std::mem::replace(state, SeatState::Left) {
            SeatState::Silent(number) => drop(self.lobby.lock().silent.remove(&number)),
            SeatState::Asking => self.lobby.lock().asking -= 1,
            SeatState::Taken { .. } | SeatState::Left => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, SeatState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave(&mut self.lock());
    }
}

impl Lobby {
    fn lock(&self) -> MutexGuard<'_, Strangers> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Strangers {
    fn add(&mut self, ended: CancellationToken) -> u64 {
        self.count += 1;
        self.silent.insert(self.count, ended);
        self.count
    }
}

fn refusal(reason: NotTaken) -> Refusal {
    match reason {
        NotTaken::Share => Refusal::UserBound(1),
        NotTaken::Full => Refusal::Full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_connection_that_is_silent_makes_room() {
        let lobby = Arc::new(Lobby::default());
        let room = Room::new(Share::default(), None);
        let ann = "ann".parse().unwrap();
        let mut seats: Vec<_> = (0..STRANGERS_MAX).map(|_| Seat::new(&lobby).unwrap()).collect();
        // The first connection is being checked, the second is authenticated, and a request of the third was rejected.
        seats[0].ask();
        seats[1].ask();
        seats[1].take(&room, Some(&ann)).unwrap();
        seats[2].ask();
        seats[2].stay();
        // The first new connection takes the slot that the authenticated connection left. The second new connection
        // closes the oldest silent connection.
        let new = [Seat::new(&lobby).unwrap(), Seat::new(&lobby).unwrap()];
        let ended = |seats: &[Seat]| -> Vec<usize> {
            (0..seats.len()).filter(|it| seats[*it].ended.is_cancelled()).collect()
        };
        assert_eq!(ended(&seats), [3]);
        // A connection that is being checked keeps its slot. If all connections are being checked, a new connection
        // gets no slot.
        for seat in &seats[4..] {
            seat.ask();
        }
        seats[2].ask();
        new[0].ask();
        new[1].ask();
        assert!(Seat::new(&lobby).is_none());
        seats.remove(3);
        seats.remove(0);
        assert!(Seat::new(&lobby).is_some());
        drop((seats, new));
        let strangers = lobby.lock();
        assert_eq!((strangers.silent.len(), strangers.asking), (0, 0));
        assert!(room.connection(Some(&ann)).is_ok());
    }
}
