//! Decides which waiting call may start its run next. A turn is the right to start a run now. The order of the turns is
//! fair to all users. The runs of one user start in the order of their calls.
//!
//! All runs of a process wait in one queue. A lane is a kind of run with its own limit on concurrent runs. The choice
//! of the next user in a lane depends on the number of runs that each user has in all lanes. This module never starts
//! or ends a run.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::config::Settings;
use crate::shares::{Held, ReplyRoom, Share};

/// The time for which a user counts as present after its last call or the end of its last run. While several users are
/// present, one user cannot take all turns.
const PRESENCE: Duration = Duration::from_secs(60);
/// The pause between two checks of a waiting call for turns that were reserved for users that are no longer present.
const PRESENCE_CHECK_PAUSE: Duration = Duration::from_secs(5);

/// The maximum number of concurrent background jobs. More jobs would only slow each other down.
pub(crate) const JOBS_AT_ONCE_MAX: usize = 5;

/// A kind of run with its own limit on concurrent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Scripts that a caller waits for.
    Calls,
    /// Background jobs that are stored in memory.
    Jobs,
    /// Background jobs that are stored in the database. They never wait in this queue, because they have already waited
    /// in the database.
    SharedJobs,
    /// Runs of the governed tools.
    Tests,
}

impl Lane {
    const COUNT: usize = 4;
}

/// One value for each lane.
#[derive(Debug, Default)]
struct PerLane<T>([T; Lane::COUNT]);

impl<T> PerLane<T> {
    fn of(&self, lane: Lane) -> &T {
        let Self([calls, jobs, shared_jobs, tests]) = self;
        match lane {
            Lane::Calls => calls,
            Lane::Jobs => jobs,
            Lane::SharedJobs => shared_jobs,
            Lane::Tests => tests,
        }
    }

    fn of_mut(&mut self, lane: Lane) -> &mut T {
        let Self([calls, jobs, shared_jobs, tests]) = self;
        match lane {
            Lane::Calls => calls,
            Lane::Jobs => jobs,
            Lane::SharedJobs => shared_jobs,
            Lane::Tests => tests,
        }
    }
}

/// The queue of all runs of a process. Each lane has a limit on concurrent runs. Runs above the limit wait.
///
/// The next turn of a lane goes to the user with the fewest runs in all lanes. Among users with equally many runs, the
/// turn goes to the user that has been without a new turn for the longest time. While no other user is present, a user
/// may have all turns of a lane. While other users are present, a user that already has its share of the turns gets
/// another turn only if at least one share stays free. This reserve is necessary, because running scripts are not
/// stopped for a new user.
#[derive(Debug)]
pub(crate) struct Turns {
    queue: Arc<Queue>,
    /// The number of runs that wait in each lane.
    waiting: PerLane<AtomicUsize>,
    /// The limit on the memory of replies that clients have not read yet.
    replies: ReplyRoom,
}

#[derive(Debug)]
struct Queue {
    /// The maximum number of concurrent runs in each lane.
    capacity: PerLane<usize>,
    share: Share,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: PerLane<usize>,
    /// A counter that increases with each new call, and each time that a user gets a turn. Its values show the order of
    /// these events.
    count: u64,
    /// The users with a run or a waiting call, now or within the last [`PRESENCE`]. All callers without a name count
    /// as one user.
    users: HashMap<Arc<str>, User>,
}

#[derive(Debug, Default)]
struct User {
    lanes: PerLane<Place>,
    /// The value of [`State::count`] when the user got its last turn, in any lane.
    last: u64,
}

/// The runs and the waiting calls of a user in a lane.
#[derive(Debug, Default)]
struct Place {
    running: usize,
    /// For each waiting call: the value of [`State::count`] when the call arrived, and the channel that receives the
    /// turn.
    waiting: VecDeque<(u64, oneshot::Sender<Turn>)>,
    seen: Option<Instant>,
}

/// The turn of a run. The turn ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    queue: Arc<Queue>,
    lane: Lane,
    user: Arc<str>,
}

impl Turns {
    /// Creates the queue for all runs of this process. `settings` contains the limits on concurrent runs.
    pub(crate) fn of(settings: &Settings) -> Self {
        let at_once = settings.sync_concurrency;
        Self::new([at_once, JOBS_AT_ONCE_MAX, at_once], settings.user_share)
    }

    /// Creates a queue with these maximum numbers of concurrent calls, jobs in memory and test runs. `share` is each
    /// user's share of these numbers.
    pub(crate) fn new([calls, jobs, tests]: [usize; 3], share: Share) -> Self {
        let capacity = PerLane([calls, jobs, usize::MAX, tests]);
        Self {
            queue: Arc::new(Queue { capacity, share, state: Mutex::default() }),
            waiting: PerLane::default(),
            replies: ReplyRoom::new(share),
        }
    }

    /// Waits until a reply with this many bytes of output fits into the memory for unread replies. Dropping the
    /// returned value releases the memory. The caller drops it when the reply is read.
    pub(crate) async fn room_for(&self, user: Option<&str>, bytes: usize) -> Option<Held> {
        self.replies.room_for(user, bytes).await
    }

    /// Returns a turn without waiting; `None` if no turn is free for the user now.
    pub(crate) fn take_at_once(&self, lane: Lane, user: Option<&str>) -> Option<Turn> {
        let turn = self.queue.ask(lane, user).ok()?;
        count_wait(lane, Duration::ZERO);
        Some(turn)
    }

    /// Returns the number of runs of a lane that could begin now.
    pub(crate) fn free(&self, lane: Lane) -> usize {
        self.queue.free(&self.queue.lock(), lane)
    }

    /// Returns the number of runs of a lane that wait for their turn.
    pub(crate) fn waiting(&self, lane: Lane) -> usize {
        self.waiting.of(lane).load(Ordering::Relaxed)
    }

    /// Waits until the limit on unread replies allows another reply to a user. [`Turns::take`] includes this wait.
    /// Callers use this function for a reply that needs no run.
    pub(crate) async fn room_opens(
        &self,
        lane: Lane,
        user: Option<&str>,
        cancel: &CancellationToken,
    ) -> Option<()> {
        if lane != Lane::Calls {
            return Some(());
        }
        cancel.run_until_cancelled(self.replies.opens(user)).await
    }

    /// Waits for a turn of `user`; `None` if `cancel` is cancelled first. `waits` is `true` during the wait, and
    /// `false` afterwards, even if the future is dropped.
    ///
    /// In the lane of calls, also waits until the limit on unread replies allows another reply to the user. So a user
    /// that does not read its replies gets no more runs. The results of the other lanes have their own limits.
    pub(crate) async fn take(
        &self,
        lane: Lane,
        user: Option<&str>,
        waits: &AtomicBool,
        cancel: &CancellationToken,
    ) -> Option<Turn> {
        let needs_room = lane == Lane::Calls;
        loop {
            self.room_opens(lane, user, cancel).await?;
            let _waiting = Waiting::new(waits, self, lane);
            if cancel.is_cancelled() {
                return None;
            }
            let turn = match self.queue.ask(lane, user) {
                Ok(turn) => turn,
                // If the wait is cancelled, a turn that arrives later is dropped. Dropping the turn gives it to the
                // next call.
                Err(turn) => cancel.run_until_cancelled(self.queue.given(lane, turn)).await??,
            };
            // Earlier runs may have ended during the wait for the turn. Then their replies may have reached the limit.
            if !needs_room || self.replies.is_open(user) {
                return Some(turn);
            }
        }
    }
}

/// Records the duration of a wait for a turn. Skips shared jobs, because they have waited in the database.
fn count_wait(lane: Lane, duration: Duration) {
    if lane != Lane::SharedJobs {
        metrics::histogram!("qwed_mcp_queue_seconds").record(duration);
    }
}

impl Queue {
    /// Returns a turn, or the channel that will receive it.
    fn ask(
        self: &Arc<Self>,
        lane: Lane,
        user: Option<&str>,
    ) -> Result<Turn, oneshot::Receiver<Turn>> {
        let (sender, mut receiver) = oneshot::channel();
        self.lock().add(lane, user.unwrap_or_default(), sender);
        self.give_turns(lane);
        receiver.try_recv().map_err(|_| receiver)
    }

    /// Waits for the turn that `receiver` will receive.
    async fn given(
        self: &Arc<Self>,
        lane: Lane,
        mut receiver: oneshot::Receiver<Turn>,
    ) -> Option<Turn> {
        loop {
            match timeout(PRESENCE_CHECK_PAUSE, &mut receiver).await {
                Ok(turn) => return turn.ok(),
                // If a user is no longer present, a turn may be free although no run has ended.
                Err(_elapsed) => self.give_turns(lane),
            }
        }
    }

    /// Gives the free turns of a lane to waiting calls, until no waiting call may get a turn.
    fn give_turns(self: &Arc<Self>, lane: Lane) {
        loop {
            let next = self.next(lane);
            let Some((user, sender)) = next else { return };
            // If the receiver is gone, `send` returns the turn. Dropping the turn makes it free again.
            drop(sender.send(Turn { queue: Arc::clone(self), lane, user }));
        }
    }

    /// Takes the next free turn of a lane. Returns the user and the channel that receive it.
    fn next(&self, lane: Lane) -> Option<(Arc<str>, oneshot::Sender<Turn>)> {
        let mut state = self.lock();
        let free = self.free(&state, lane);
        state.next(lane, free, self.share.of(*self.capacity.of(lane)))
    }

    fn free(&self, state: &State, lane: Lane) -> usize {
        self.capacity.of(lane).saturating_sub(*state.running.of(lane))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds a call of a user. The user is present in the lane from now on.
    fn add(&mut self, lane: Lane, name: &str, sender: oneshot::Sender<Turn>) {
        let now = Instant::now();
        self.users.retain(|_, user| user.lanes.0.iter().any(|place| place.is_present(now)));
        self.count += 1;
        let place = self.users.entry(name.into()).or_default().lanes.of_mut(lane);
        place.seen = Some(now);
        place.waiting.push_back((self.count, sender));
    }

    /// Chooses the waiting call that gets the next turn of a lane, and counts the call's run. `free` is the number of
    /// free turns of the lane, and `share` is the number of turns in a user's share. Returns the call's user, and the
    /// channel that receives the turn.
    fn next(
        &mut self,
        lane: Lane,
        free: usize,
        share: usize,
    ) -> Option<(Arc<str>, oneshot::Sender<Turn>)> {
        let now = Instant::now();
        for user in self.users.values_mut() {
            user.lanes.of_mut(lane).waiting.retain(|(_, sender)| !sender.is_closed());
        }
        let places = self.users.values().map(|user| user.lanes.of(lane));
        // The user of the waiting call is counted as present too. So if the count is 1, no other user is present.
        let is_alone = places.filter(|place| place.is_present(now)).count() <= 1;
        let may_take =
            |place: &Place| free > 0 && (place.running < share || is_alone || free > share);
        let waiting = self.users.iter().filter_map(|(name, user)| {
            let place = user.lanes.of(lane);
            let (arrival, _) = place.waiting.front().filter(|_| may_take(place))?;
            Some(((user.running(), user.last, *arrival), name))
        });
        let name = Arc::clone(waiting.min_by_key(|(rank, _)| *rank)?.1);
        let user = self.users.get_mut(&name)?;
        let (_, sender) = user.lanes.of_mut(lane).waiting.pop_front()?;
        self.count += 1;
        user.last = self.count;
        user.lanes.of_mut(lane).running += 1;
        *self.running.of_mut(lane) += 1;
        Some((name, sender))
    }
}

impl User {
    /// Returns the number of the user's runs in all lanes.
    fn running(&self) -> usize {
        self.lanes.0.iter().map(|place| place.running).sum()
    }
}

impl Place {
    fn is_present(&self, now: Instant) -> bool {
        self.running > 0
            || self.waiting.iter().any(|(_, sender)| !sender.is_closed())
            || self.seen.is_some_and(|seen| now.duration_since(seen) < PRESENCE)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        {
            let mut state = self.queue.lock();
            *state.running.of_mut(self.lane) -= 1;
            if let Some(user) = state.users.get_mut(&self.user) {
                let place = user.lanes.of_mut(self.lane);
                place.running -= 1;
                place.seen = Some(Instant::now());
            }
        }
        self.queue.give_turns(self.lane);
    }
}

/// Marks a call as waiting until this value is dropped.
struct Waiting<'a> {
    waits: &'a AtomicBool,
    turns: &'a Turns,
    lane: Lane,
    since: Instant,
}

impl<'a> Waiting<'a> {
    fn new(waits: &'a AtomicBool, turns: &'a Turns, lane: Lane) -> Self {
        waits.store(true, Ordering::Relaxed);
        turns.waiting.of(lane).fetch_add(1, Ordering::Relaxed);
        Self { waits, turns, lane, since: Instant::now() }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waits.store(false, Ordering::Relaxed);
        self.turns.waiting.of(self.lane).fetch_sub(1, Ordering::Relaxed);
        count_wait(self.lane, self.since.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use metrics_exporter_prometheus::PrometheusBuilder;
    use tokio::time::advance;

    use super::*;

    fn turns(runs_max: usize) -> Turns {
        Turns::new([runs_max, runs_max, 1], Share::default())
    }

    #[tokio::test]
    async fn a_call_says_that_it_waits_until_it_has_a_turn_or_gives_up() {
        let (turns, cancel) = (turns(1), CancellationToken::new());
        let waits = AtomicBool::new(false);
        let is_waiting = || waits.load(Ordering::Relaxed);
        let turn = turns.take(Lane::Calls, None, &waits, &cancel).await;
        assert!(turn.is_some() && !is_waiting());

        let mut second = Box::pin(turns.take(Lane::Calls, None, &waits, &cancel));
        assert!((&mut second).now_or_never().is_none() && is_waiting());
        drop(second);
        assert!(!is_waiting(), "given up");

        let mut third = Box::pin(turns.take(Lane::Calls, None, &waits, &cancel));
        assert!((&mut third).now_or_never().is_none() && is_waiting());
        drop(turn);
        assert!(third.await.is_some() && !is_waiting());

        cancel.cancel();
        assert!(turns.take(Lane::Calls, None, &waits, &cancel).await.is_none() && !is_waiting());
    }

    #[tokio::test]
    async fn of_one_user_who_came_first_is_first() {
        let (turns, cancel) = (turns(1), CancellationToken::new());
        let waits = [const { AtomicBool::new(false) }; 2];
        let [first_waits, second_waits] = &waits;
        let turn = turns.take_at_once(Lane::Calls, None);
        let mut first = Box::pin(turns.take(Lane::Calls, None, first_waits, &cancel));
        let mut second = Box::pin(turns.take(Lane::Calls, None, second_waits, &cancel));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        drop(turn);
        // A new call does not overtake waiting calls.
        assert!(turns.take_at_once(Lane::Calls, None).is_none());
        assert!((&mut second).now_or_never().is_none());
        let turn = first.now_or_never().flatten();
        assert!(turn.is_some() && (&mut second).now_or_never().is_none());
        drop(turn);
        assert!(second.await.is_some());
    }

    /// Returns the initials of the users in the order of their turns. Each turn ends before the next.
    fn order(waiting: &[&'static str]) -> String {
        let (turns, cancel) = (turns(1), CancellationToken::new());
        let first = turns.take_at_once(Lane::Calls, Some("ann"));
        let waits = AtomicBool::default();
        let mut all: Vec<_> = waiting
            .iter()
            .map(|user| (*user, Box::pin(turns.take(Lane::Calls, Some(user), &waits, &cancel))))
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

    #[tokio::test]
    async fn users_take_turns() {
        assert_eq!(order(&["ann", "ann", "ann", "bob", "carl", "bob"]), "bcabaa");
    }

    #[tokio::test(start_paused = true)]
    async fn one_user_has_all_turns_alone_and_leaves_a_share_to_others_who_are_there() {
        let turns = turns(4);
        let take = |user: &'static str| turns.take_at_once(Lane::Calls, Some(user));
        let all: Vec<_> = (0..4).map(|_| take("ann").expect("nobody else is there")).collect();
        assert!(take("bob").is_none());
        // Bob's call makes Bob present from now on, although Bob got no turn.
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

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waits_gets_the_turn_of_a_user_who_has_gone() {
        let (turns, cancel) = (turns(4), CancellationToken::new());
        let (waits, ann) = (AtomicBool::default(), Some("ann"));
        drop(turns.take_at_once(Lane::Calls, Some("bob")).unwrap());
        let _held: Vec<_> = (0..3).map(|_| turns.take_at_once(Lane::Calls, ann).unwrap()).collect();
        let mut waiting = Box::pin(turns.take(Lane::Calls, ann, &waits, &cancel));
        assert!(timeout(PRESENCE / 2, &mut waiting).await.is_err(), "one is left for bob");
        // No call arrives and no run ends during this wait.
        let turn = timeout(PRESENCE, waiting).await.expect("bob has gone");
        assert!(turn.is_some());
    }

    #[tokio::test]
    async fn a_turn_is_given_where_there_is_room_for_replies() {
        let turns = turns(1);
        let (waits, cancel) = (AtomicBool::default(), CancellationToken::new());
        let [ann, bob] = [Some("ann"), Some("bob")];
        let before = turns.take_at_once(Lane::Calls, ann);
        let mut of_ann = Box::pin(turns.take(Lane::Calls, ann, &waits, &cancel));
        assert!((&mut of_ann).now_or_never().is_none());
        // The earlier run has ended. Its output fills the user's share of the memory, because no client reads it.
        let unread = turns.room_for(ann, 8 * 1024 * 1024).await;
        drop(before);
        assert!((&mut of_ann).now_or_never().is_none());
        drop(turns.take(Lane::Calls, bob, &waits, &cancel).now_or_never().flatten().unwrap());
        drop(unread);
        assert!(of_ann.now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn a_turn_is_not_lost_with_whom_it_was_given_to() {
        let (turns, cancel) = (turns(1), CancellationToken::new());
        let waits = AtomicBool::default();
        let turn = turns.take_at_once(Lane::Calls, None);
        let mut first = Box::pin(turns.take(Lane::Calls, None, &waits, &cancel));
        let mut second = Box::pin(turns.take(Lane::Calls, None, &waits, &cancel));
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        // The turn is given to the first call. The first call is dropped before it receives the turn.
        drop(turn);
        drop(first);
        assert!(second.now_or_never().flatten().is_some());
        assert!(turns.take_at_once(Lane::Calls, None).is_some());
    }

    #[tokio::test]
    async fn runs_of_a_user_count_in_all_lanes() {
        let (turns, waits) = (turns(1), AtomicBool::default());
        let (ann, bob) = (Some("ann"), Some("bob"));
        let cancel = CancellationToken::new();
        let before = turns.take_at_once(Lane::Calls, None);
        let job = turns.take_at_once(Lane::Jobs, ann).expect("each lane has its own turns");
        let mut of_ann = Box::pin(turns.take(Lane::Calls, ann, &waits, &cancel));
        let mut of_bob = Box::pin(turns.take(Lane::Calls, bob, &waits, &cancel));
        assert!((&mut of_ann).now_or_never().is_none() && (&mut of_bob).now_or_never().is_none());
        drop(before);
        // Ann's call came first, but Ann already has a run, so the turn is Bob's.
        assert!((&mut of_ann).now_or_never().is_none());
        drop(of_bob.now_or_never().flatten().expect("it is bob's"));
        assert!(of_ann.now_or_never().flatten().is_some());
        drop(job);
    }

    #[tokio::test]
    async fn what_the_database_has_handed_out_never_waits() {
        let turns = turns(1);
        let held: Vec<_> =
            (0..20).map(|_| turns.take_at_once(Lane::SharedJobs, Some("ann")).unwrap()).collect();
        assert!(turns.take_at_once(Lane::SharedJobs, Some("bob")).is_some());
        drop(held);
    }

    #[tokio::test]
    async fn waits_of_all_lanes_are_counted() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let _recording = metrics::set_default_local_recorder(&recorder);
        let turns = turns(1);
        let (waits, cancel) = (AtomicBool::default(), CancellationToken::new());
        for lane in [Lane::Calls, Lane::Jobs, Lane::Tests] {
            drop(turns.take(lane, None, &waits, &cancel).await.unwrap());
            drop(turns.take_at_once(lane, None).unwrap());
        }
        let metrics = recorder.handle().render();
        assert!(metrics.contains("qwed_mcp_queue_seconds_count 6"), "{metrics}");
    }
}
