//! Runs take turns: users in turn, and those of one user in the order of their calls.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "http")]
use crate::meter::Meter;
use crate::meter::MeterPlace;
use crate::shares::{ReplyRoom, Share};

/// The time for which a user counts as present after its last run.
const PRESENCE: Duration = Duration::from_secs(60);

/// A queue that lets so many runs go on at once; the others wait.
///
/// The next turn is that of the user with the fewest runs, and among equals of the one whose last turn is
/// longest ago. One user may have all turns while nobody else is there. While others are, a user with its
/// share or more leaves a share free for them: a run cannot be taken back, so a turn has to be free when
/// another user comes.
#[derive(Debug)]
pub(crate) struct Turns {
    queue: Arc<Queue>,
    /// Runs that wait.
    waiting: AtomicUsize,
    /// Counts how long they do.
    meter: MeterPlace,
}

#[derive(Debug)]
struct Queue {
    share: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// Counts the calls that came, and the turns that were given.
    count: u64,
    /// Users that run something, wait, or did so a short time ago. Callers that are not known are one user.
    users: HashMap<Arc<str>, User>,
}

#[derive(Debug)]
struct User {
    running: usize,
    /// The number of each call that waits, and where its turn is sent.
    waiting: VecDeque<(u64, oneshot::Sender<Turn>)>,
    /// The number of the last turn.
    last: u64,
    seen: Instant,
}

/// A run's turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    queue: Arc<Queue>,
    user: Arc<str>,
}

impl Turns {
    /// Turns for `runs_max` runs at once, of which one user has a `share`.
    pub(crate) fn new(runs_max: usize, share: Share) -> Self {
        let state = State { free: runs_max, count: 0, users: HashMap::new() };
        Self {
            queue: Arc::new(Queue { share: share.of(runs_max), state: Mutex::new(state) }),
            waiting: AtomicUsize::new(0),
            meter: MeterPlace::default(),
        }
    }

    /// Returns a turn at once; `None` if that has to be waited for.
    pub(crate) fn take_at_once(&self, user: Option<&str>) -> Option<Turn> {
        self.queue.ask(user).ok()
    }

    /// Returns how many runs could begin at once.
    #[cfg(feature = "http")]
    pub(crate) fn free(&self) -> usize {
        self.queue.lock().free
    }

    /// Returns how many runs wait for their turn.
    #[cfg(feature = "http")]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Has waits counted from here on.
    #[cfg(feature = "http")]
    pub(crate) fn set_meter(&self, meter: Arc<dyn Meter>) {
        self.meter.set(meter);
    }

    /// Waits for a turn of `user`; `None` if `cancel` is cancelled before. `waits` is set as long as this goes
    /// on, and not when it is given up either.
    pub(crate) async fn take(
        &self,
        user: Option<&str>,
        waits: &AtomicBool,
        cancel: &CancellationToken,
    ) -> Option<Turn> {
        let _waiting = Waiting::new(waits, self);
        if cancel.is_cancelled() {
            return None;
        }
        match self.queue.ask(user) {
            Ok(turn) => Some(turn),
            // A turn that comes when nobody waits any more is dropped, and goes to the next.
            Err(turn) => cancel.run_until_cancelled(turn).await?.ok(),
        }
    }
}

impl Turns {
    /// Waits for a turn of `user` at which there is room for replies: while nobody reads those to a user, nothing
    /// more is run for this user. Otherwise the same as [`Self::take`].
    pub(crate) async fn take_with_room(
        &self,
        room: &ReplyRoom,
        user: Option<&str>,
        waits: &AtomicBool,
        cancel: &CancellationToken,
    ) -> Option<Turn> {
        loop {
            cancel.run_until_cancelled(room.opens(user)).await?;
            let turn = self.take(user, waits, cancel).await?;
            // Runs before it may have ended meanwhile.
            if room.is_open(user) {
                return Some(turn);
            }
        }
    }
}

impl Queue {
    /// Returns a turn, or where it will come.
    fn ask(self: &Arc<Self>, user: Option<&str>) -> Result<Turn, oneshot::Receiver<Turn>> {
        let (sender, mut receiver) = oneshot::channel();
        self.lock().add(user.unwrap_or_default(), sender);
        self.give();
        receiver.try_recv().map_err(|_| receiver)
    }

    /// Gives turns to those that wait, as long as some are free for them.
    fn give(self: &Arc<Self>) {
        loop {
            let next = self.lock().next(self.share);
            let Some((user, sender)) = next else { return };
            // Where nobody waits any more it comes back at once.
            drop(sender.send(Turn { queue: Arc::clone(self), user }));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds a call of a user, who is present from now on.
    fn add(&mut self, name: &str, sender: oneshot::Sender<Turn>) {
        let now = Instant::now();
        self.users.retain(|_, user| user.is_present(now));
        let user = self.users.entry(name.into()).or_insert_with(|| User {
            running: 0,
            waiting: VecDeque::new(),
            last: 0,
            seen: now,
        });
        user.seen = now;
        self.count += 1;
        user.waiting.push_back((self.count, sender));
    }

    /// Takes the turn that is next, and returns whose it is.
    fn next(&mut self, share: usize) -> Option<(Arc<str>, oneshot::Sender<Turn>)> {
        let now = Instant::now();
        for user in self.users.values_mut() {
            user.waiting.retain(|(_, sender)| !sender.is_closed());
        }
        let present = self.users.values().filter(|user| user.is_present(now)).count();
        let may_take = |user: &User| {
            // The user itself is one of them.
            let is_alone = present <= 1;
            self.free > 0 && (user.running < share || is_alone || self.free > share)
        };
        let waiting = self.users.iter().filter_map(|(name, user)| {
            let (arrival, _) = user.waiting.front().filter(|_| may_take(user))?;
            Some(((user.running, user.last, *arrival), name))
        });
        let name = Arc::clone(waiting.min_by_key(|(rank, _)| *rank)?.1);
        let user = self.users.get_mut(&name)?;
        let (_, sender) = user.waiting.pop_front()?;
        self.free -= 1;
        self.count += 1;
        user.running += 1;
        user.last = self.count;
        Some((name, sender))
    }
}

impl User {
    fn is_present(&self, now: Instant) -> bool {
        self.running > 0
            || self.waiting.iter().any(|(_, sender)| !sender.is_closed())
            || now.duration_since(self.seen) < PRESENCE
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        {
            let mut state = self.queue.lock();
            state.free += 1;
            if let Some(user) = state.users.get_mut(&self.user) {
                user.running -= 1;
                user.seen = Instant::now();
            }
        }
        self.queue.give();
    }
}

/// Marks a call as waiting, until it is dropped.
struct Waiting<'a> {
    waits: &'a AtomicBool,
    turns: &'a Turns,
    since: Instant,
}

impl<'a> Waiting<'a> {
    fn new(waits: &'a AtomicBool, turns: &'a Turns) -> Self {
        waits.store(true, Ordering::Relaxed);
        turns.waiting.fetch_add(1, Ordering::Relaxed);
        Self { waits, turns, since: Instant::now() }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waits.store(false, Ordering::Relaxed);
        self.turns.waiting.fetch_sub(1, Ordering::Relaxed);
        if let Some(meter) = self.turns.meter.get() {
            meter.waited(self.since.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::time::advance;

    use super::*;

    fn turns(runs_max: usize) -> Turns {
        Turns::new(runs_max, Share::default())
    }

    #[tokio::test]
    async fn a_call_says_that_it_waits_until_it_has_a_turn_or_gives_up() {
        let (turns, cancel) = (turns(1), CancellationToken::new());
        let waits = AtomicBool::new(false);
        let is_waiting = || waits.load(Ordering::Relaxed);
        let turn = turns.take(None, &waits, &cancel).await;
        assert!(turn.is_some() && !is_waiting());

        let mut second = Box::pin(turns.take(None, &waits, &cancel));
        assert!((&mut second).now_or_never().is_none() && is_waiting());
        drop(second);
        assert!(!is_waiting(), "given up");

        let mut third = Box::pin(turns.take(None, &waits, &cancel));
        assert!((&mut third).now_or_never().is_none() && is_waiting());
        drop(turn);
        assert!(third.await.is_some() && !is_waiting());

        cancel.cancel();
        assert!(turns.take(None, &waits, &cancel).await.is_none() && !is_waiting());
    }

    #[tokio::test]
    async fn of_one_user_who_came_first_is_first() {
        let (turns, cancel) = (turns(1), CancellationToken::new());
        let waits = [const { AtomicBool::new(false) }; 2];
        let [first_waits, second_waits] = &waits;
        let turn = turns.take_at_once(None);
        let mut first = Box::pin(turns.take(None, first_waits, &cancel));
        let mut second = Box::pin(turns.take(None, second_waits, &cancel));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        drop(turn);
        // Nobody goes before those who wait.
        assert!(turns.take_at_once(None).is_none());
        assert!((&mut second).now_or_never().is_none());
        let turn = first.now_or_never().flatten();
        assert!(turn.is_some() && (&mut second).now_or_never().is_none());
        drop(turn);
        assert!(second.await.is_some());
    }

    /// Gives the names of those whose turns come, each ended before the next.
    fn order(waiting: &[&'static str]) -> String {
        let (turns, cancel) = (turns(1), CancellationToken::new());
        let first = turns.take_at_once(Some("ann"));
        let waits = AtomicBool::default();
        let mut all: Vec<_> = waiting
            .iter()
            .map(|user| (*user, Box::pin(turns.take(Some(user), &waits, &cancel))))
            .collect();
        for (_, turn) in &mut all {
            assert!(turn.now_or_never().is_none());
        }
        drop(first);
        let mut names = String::new();
        while !all.is_empty() {
            let next = all.iter_mut().position(|(_, turn)| turn.now_or_never().is_some());
            names += all.remove(next.expect("a turn is lost")).0.get(..1).unwrap_or_default();
        }
        names
    }

    #[test]
    fn users_take_turns() {
        assert_eq!(order(&["ann", "ann", "ann", "bob", "carl", "bob"]), "bcabaa");
    }

    #[tokio::test(start_paused = true)]
    async fn one_user_has_all_turns_alone_and_leaves_a_share_to_others_who_are_there() {
        let turns = turns(4);
        let take = |user: &'static str| turns.take_at_once(Some(user));
        let all: Vec<_> = (0..4).map(|_| take("ann").expect("nobody else is there")).collect();
        assert!(take("bob").is_none());
        // Bob is known from then on.
        drop(all);
        let mut held: Vec<_> = (0..3).map(|_| take("ann").unwrap()).collect();
        assert!(take("ann").is_none(), "one is left for others");
        let of_bob = take("bob").expect("it is left for bob");
        assert!(take("carl").is_none());
        drop(of_bob);
        advance(PRESENCE).await;
        held.pop();
        held.push(take("ann").unwrap());
        held.push(take("ann").expect("the others have gone"));
        assert_eq!(held.len(), 4);
    }

    #[tokio::test]
    async fn a_turn_is_given_where_there_is_room_for_replies() {
        let (turns, room) = (turns(1), ReplyRoom::new(Share::default()));
        let (waits, cancel) = (AtomicBool::default(), CancellationToken::new());
        let [ann, bob] = [Some("ann"), Some("bob")];
        let before = turns.take_at_once(ann);
        let mut of_ann = Box::pin(turns.take_with_room(&room, ann, &waits, &cancel));
        assert!((&mut of_ann).now_or_never().is_none());
        // The one before has ended, and nobody reads what it has printed.
        let unread = room.room_for(ann, 8 * 1024 * 1024).await;
        drop(before);
        assert!((&mut of_ann).now_or_never().is_none());
        drop(turns.take_with_room(&room, bob, &waits, &cancel).now_or_never().flatten().unwrap());
        drop(unread);
        assert!(of_ann.now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn a_turn_is_not_lost_with_whom_it_was_given_to() {
        let (turns, cancel) = (turns(1), CancellationToken::new());
        let waits = AtomicBool::default();
        let turn = turns.take_at_once(None);
        let mut first = Box::pin(turns.take(None, &waits, &cancel));
        let mut second = Box::pin(turns.take(None, &waits, &cancel));
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        // It is the first one's, who does not look any more.
        drop(turn);
        drop(first);
        assert!(second.now_or_never().flatten().is_some());
        assert!(turns.take_at_once(None).is_some());
    }
}
