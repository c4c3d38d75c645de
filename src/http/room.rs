//! The bounds of all requests in flight together, as they are over stdio, and the share of them that one user has.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Duration, timeout};
use tokio_util::sync::CancellationToken;

use crate::ledger::UserName;
use crate::shares::{Held, NotTaken, Pool, Share};

use super::refusal::Refusal;

/// The most requests in flight.
const REQUESTS_MAX: usize = 256;
/// The most bytes of the bodies of all of them together, and of the lines of batches.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// The longest body: a script of 1 MiB, escaped.
pub(super) const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The least bytes of a user's share.
const USER_BYTES_MIN: usize = BODY_BYTES_MAX + 1024 * 1024;
/// The time for a body to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The most batches at once: each keeps workers busy for as long as it lasts.
const BATCHES_MAX: usize = 16;
/// The most connections of callers that are let in. With those of others they are below the 1,024 descriptors
/// that a process has by default, with room for the pipes of runs.
const CONNECTIONS_MAX: usize = 384;

/// The most connections that have not shown who they are. Beyond, the oldest of them is closed: whoever is let
/// in shows that as soon as it is connected, so a flood of others keeps nobody out.
const STRANGERS_MAX: usize = 128;

/// The places for requests, batches and connections, and for their bytes.
#[derive(Debug)]
pub(super) struct Room {
    requests: Pool,
    bytes: Pool,
    batches: Pool,
    connections: Pool,
    /// The requests in flight of one user, where the admin says how many.
    user_requests: Option<usize>,
}

impl Room {
    /// Creates the places, of which one user has a share; of those for requests as many as the admin says, if
    /// that is another number.
    pub(super) fn new(share: Share, user_requests: Option<usize>) -> Self {
        let requests = user_requests.unwrap_or(share.of(REQUESTS_MAX));
        let pool = |whole| Pool::new(whole, share.of(whole));
        Self {
            requests: Pool::new(REQUESTS_MAX, requests),
            // One body has room, however small a share is, and one line beside others that have just begun.
            bytes: Pool::new(BYTES_MAX, share.of(BYTES_MAX).max(USER_BYTES_MIN)),
            batches: pool(BATCHES_MAX),
            connections: pool(CONNECTIONS_MAX),
            user_requests,
        }
    }

    /// Takes a place of the user's share for a request that has begun.
    pub(super) fn begin(&self, user: Option<&UserName>) -> Result<Held, Refusal> {
        self.requests.take_share(user.map(UserName::as_str), 1).map_err(refusal)
    }

    /// Takes a place for a batch that has begun.
    pub(super) fn batch(&self, user: Option<&UserName>) -> Result<[Held; 2], Refusal> {
        let batch = self.batches.take(user.map(UserName::as_str), 1).map_err(refusal)?;
        Ok([self.requests.take_whole(1).map_err(refusal)?, batch])
    }

    /// Returns the most runs of one batch of one user.
    pub(super) fn workers_max(&self) -> usize {
        self.user_requests.unwrap_or(usize::MAX)
    }

    /// Takes a place for the connection of a caller that was let in.
    pub(super) fn connection(&self, user: Option<&UserName>) -> Result<Held, Refusal> {
        self.connections.take(user.map(UserName::as_str), 1).map_err(|_| Refusal::Connections)
    }

    /// Waits until there is room for so many bytes of a batch's lines.
    pub(super) async fn bytes(&self, user: Option<&UserName>, count: usize) -> Held {
        self.bytes.wait(user.map(UserName::as_str), count).await
    }

    /// Reads a body of a request that has begun, and takes a place for it and for its bytes: for these as they
    /// come, so that nobody holds room for what is not sent.
    pub(super) async fn read(
        &self,
        body: Incoming,
        user: Option<&UserName>,
    ) -> Result<(Vec<u8>, Vec<Held>), Refusal> {
        let is_too_large =
            |length: u64| usize::try_from(length).is_ok_and(|it| it > BODY_BYTES_MAX);
        if body.size_hint().lower() > u64::from(u32::MAX) || is_too_large(body.size_hint().lower())
        {
            return Err(Refusal::TooLarge);
        }
        let read = timeout(BODY_TIMEOUT, self.read_all(body, user)).await;
        let (bytes, held) = read.unwrap_or(Err(Refusal::Incomplete))?;
        // When it is there: who sends slowly takes no place from others.
        let place = self.requests.take_whole(1).map_err(refusal)?;
        Ok((bytes, vec![held, place]))
    }

    async fn read_all(
        &self,
        mut body: Incoming,
        user: Option<&UserName>,
    ) -> Result<(Vec<u8>, Held), Refusal> {
        let (mut bytes, mut held) = (Vec::new(), Held::default());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| Refusal::Incomplete)?.into_data() else { continue };
            if bytes.len() + data.len() > BODY_BYTES_MAX {
                return Err(Refusal::TooLarge);
            }
            let room = self.bytes.take(user.map(UserName::as_str), data.len());
            held.merge(room.map_err(refusal)?);
            bytes.extend_from_slice(&data);
        }
        Ok((bytes, held))
    }
}

/// The connections that have not shown who they are.
#[derive(Debug, Default)]
pub(super) struct Lobby {
    strangers: Mutex<Strangers>,
}

#[derive(Debug, Default)]
struct Strangers {
    count: u64,
    /// Those that have sent no request, the oldest first, and what ends each.
    silent: BTreeMap<u64, CancellationToken>,
    /// Those whose token is being looked up.
    asking: usize,
}

/// The place of a connection: in the lobby, until one of its requests is let in; from then on in the share of the
/// user of the last request. A proxy has the requests of several users go over one.
#[derive(Debug)]
pub(super) struct Seat {
    lobby: Arc<Lobby>,
    ended: CancellationToken,
    state: Mutex<SeatState>,
}

#[derive(Debug)]
enum SeatState {
    /// The number among those that are silent.
    Silent(u64),
    Asking,
    Taken {
        user: Option<UserName>,
        _place: Held,
    },
    /// A user was let in, and there was no place.
    Left,
}

impl Seat {
    /// Takes a place in the lobby. If that is full, the oldest connection that is silent makes room; returns
    /// `None` if there is none of these.
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

    /// Returns what is cancelled when another connection takes this place.
    pub(super) fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// Notes that a request has come: nobody takes the place while its token is looked up.
    pub(super) fn ask(&self) {
        let mut state = self.lock();
        if let SeatState::Silent(number) = *state {
            let mut strangers = self.lobby.lock();
            strangers.silent.remove(&number);
            strangers.asking += 1;
            *state = SeatState::Asking;
        }
    }

    /// Notes that nobody was let in by that request.
    pub(super) fn stay(&self) {
        let mut state = self.lock();
        if matches!(*state, SeatState::Asking) {
            let mut strangers = self.lobby.lock();
            strangers.asking -= 1;
            *state = SeatState::Silent(strangers.add(self.ended.clone()));
        }
    }

    /// Returns whether no request was let in, and none is being looked at.
    pub(super) fn is_stranger(&self) -> bool {
        matches!(*self.lock(), SeatState::Silent(_))
    }

    /// Moves the connection to the share of a user who was let in.
    pub(super) fn take(&self, room: &Room, user: Option<&UserName>) -> Result<(), Refusal> {
        let mut state = self.lock();
        if matches!(&*state, SeatState::Taken { user: holder, .. } if holder.as_ref() == user) {
            return Ok(());
        }
        // The one before gives its place back first. A connection without a place is closed.
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
        // One has asked, one was let in, and one was not.
        seats[0].ask();
        seats[1].ask();
        seats[1].take(&room, Some(&ann)).unwrap();
        seats[2].ask();
        seats[2].stay();
        // The place of who was let in is free, and the next one costs the oldest.
        let new = [Seat::new(&lobby).unwrap(), Seat::new(&lobby).unwrap()];
        let ended = |seats: &[Seat]| -> Vec<usize> {
            (0..seats.len()).filter(|it| seats[*it].ended.is_cancelled()).collect()
        };
        assert_eq!(ended(&seats), [3]);
        // Whose token is being looked up keeps its place, so there may be none.
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
