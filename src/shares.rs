//! The shares of users: how much of what all of them use one user may hold.
//!
//! This module is a leaf and uses nothing else of the crate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

/// The users that are remembered at most while they hold nothing.
const IDLE_USERS_MAX: usize = 1024;

/// The part of anything that one user may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    percent: u8,
}

impl Default for Share {
    /// A quarter: three others have room, whatever one user does.
    fn default() -> Self {
        Self { percent: 25 }
    }
}

impl Share {
    pub(crate) fn new(percent: u8) -> Self {
        Self { percent }
    }

    /// Returns the share of `whole`, which is never less than 1.
    pub(crate) fn of(self, whole: usize) -> usize {
        (whole.saturating_mul(self.percent.into()) / 100).clamp(1, whole.max(1))
    }
}

/// A number of places or bytes for all, of which each user has a share. Callers that are not known as a user
/// have no share: they may take all of it.
#[derive(Debug)]
pub(crate) struct Pool {
    whole: Arc<Semaphore>,
    share: usize,
    /// What is left of the share of each user.
    users: Mutex<HashMap<Box<str>, Arc<Semaphore>>>,
}

/// The reason why nothing could be taken at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// The user has its share.
    Share,
    /// Users hold all of it together.
    Full,
}

/// What was taken of a pool, until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Of the whole, and of the user's share.
    permits: [Option<OwnedSemaphorePermit>; 2],
}

impl Pool {
    /// Creates a pool of `whole`, of which a user may hold `share`.
    pub(crate) fn new(whole: usize, share: usize) -> Self {
        Self { whole: Arc::new(Semaphore::new(whole)), share, users: Mutex::default() }
    }

    /// Takes some, if it is there.
    pub(crate) fn take(&self, user: Option<&str>, count: usize) -> Result<Held, NotTaken> {
        let mut held = self.take_share(user, count)?;
        held.merge(self.take_whole(count)?);
        Ok(held)
    }

    /// Takes some of a user's share alone.
    pub(crate) fn take_share(&self, user: Option<&str>, count: usize) -> Result<Held, NotTaken> {
        let share = user.map(|user| take(self.share_of(user), count)).transpose();
        share.map(|share| Held { permits: [None, share] }).map_err(|_| NotTaken::Share)
    }

    /// Takes some of the whole, where the share was taken before.
    pub(crate) fn take_whole(&self, count: usize) -> Result<Held, NotTaken> {
        let whole = take(Arc::clone(&self.whole), count).map_err(|_| NotTaken::Full)?;
        Ok(Held { permits: [Some(whole), None] })
    }

    /// Waits until there is some: first for the user's share, so that nobody waits for what one user holds.
    /// More than a share is taken as a share. Cancel-safe.
    pub(crate) async fn wait(&self, user: Option<&str>, count: usize) -> Held {
        let count = match user {
            Some(_) => count.min(self.share),
            None => count,
        };
        let number = u32::try_from(count).unwrap_or(u32::MAX);
        let share = match user {
            // No semaphore is ever closed.
            Some(user) => self.share_of(user).acquire_many_owned(number).await.ok(),
            None => None,
        };
        let whole = Arc::clone(&self.whole).acquire_many_owned(number).await.ok();
        Held { permits: [whole, share] }
    }

    fn share_of(&self, user: &str) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = users.get(user) {
            return Arc::clone(share);
        }
        if users.len() >= IDLE_USERS_MAX {
            // Whoever waits, or holds something, has a copy.
            users.retain(|_, share| Arc::strong_count(share) > 1);
        }
        let share = Arc::new(Semaphore::new(self.share));
        users.insert(user.into(), Arc::clone(&share));
        share
    }
}

impl From<OwnedSemaphorePermit> for Held {
    fn from(permit: OwnedSemaphorePermit) -> Self {
        Self { permits: [Some(permit), None] }
    }
}

impl Held {
    /// Adds what was taken of the same pool, for the same user.
    pub(crate) fn merge(&mut self, other: Self) {
        for (own, other) in self.permits.iter_mut().zip(other.permits) {
            match (own.as_mut(), other) {
                (Some(own), Some(other)) => own.merge(other),
                (None, Some(other)) => *own = Some(other),
                (_, None) => {}
            }
        }
    }

    /// Takes a part of it out.
    pub(crate) fn split(&mut self, count: usize) -> Self {
        let permits = self.permits.each_mut();
        Self { permits: permits.map(|permit| permit.as_mut().and_then(|it| it.split(count))) }
    }
}

/// Room for the output of scripts that waits to be written: a client that does not read makes the server wait, not
/// grow.
#[derive(Debug)]
pub(crate) struct ReplyRoom {
    kibibytes: Pool,
}

impl ReplyRoom {
    const KIBIBYTES: usize = 32 * 1024;
    /// Smaller replies do without: all that can be in flight are less than a few MiB together.
    pub(crate) const SMALL_BYTES: usize = 16 * 1024;

    pub(crate) fn new(share: Share) -> Self {
        Self { kibibytes: Pool::new(Self::KIBIBYTES, share.of(Self::KIBIBYTES)) }
    }

    /// Waits until there is some room at all for replies to a user: before something is run.
    pub(crate) async fn opens(&self, user: Option<&str>) {
        drop(self.kibibytes.wait(user, 1).await);
    }

    /// Returns whether there is some room at all for replies to a user.
    pub(crate) fn is_open(&self, user: Option<&str>) -> bool {
        self.kibibytes.take(user, 1).is_ok()
    }

    /// Waits for room for a reply to a user with so many bytes of output.
    pub(crate) async fn room_for(&self, user: Option<&str>, output_bytes: usize) -> Option<Held> {
        if output_bytes < Self::SMALL_BYTES {
            return None;
        }
        let kibibytes = (output_bytes / 1024).min(Self::KIBIBYTES);
        Some(self.kibibytes.wait(user, kibibytes).await)
    }
}

fn take(of: Arc<Semaphore>, count: usize) -> Result<OwnedSemaphorePermit, TryAcquireError> {
    let count = u32::try_from(count).map_err(|_| TryAcquireError::NoPermits)?;
    of.try_acquire_many_owned(count)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_share_is_a_part_and_never_nothing() {
        for (percent, whole, expected) in
            [(25, 256, 64), (25, 16, 4), (25, 1, 1), (25, 3, 1), (100, 7, 7), (1, 0, 1)]
        {
            assert_eq!(Share::new(percent).of(whole), expected, "{percent} % of {whole}");
        }
    }

    #[test]
    fn one_user_has_a_share_and_takes_none_of_another() {
        let pool = Pool::new(4, 2);
        let [ann, bob, carl] = [Some("ann"), Some("bob"), Some("carl")];
        let mut held = pool.take(ann, 2).unwrap();
        assert_eq!(pool.take(ann, 1).unwrap_err(), NotTaken::Share);
        let of_bob = pool.take(bob, 2).unwrap();
        assert_eq!(pool.take(carl, 1).unwrap_err(), NotTaken::Full);
        // What is refused takes nothing.
        drop(of_bob);
        let part = held.split(1);
        drop(held);
        assert_eq!(pool.take(ann, 2).unwrap_err(), NotTaken::Share);
        drop(part);
        assert!(pool.take(ann, 2).is_ok());
    }

    #[test]
    fn who_is_not_known_has_all() {
        let pool = Pool::new(4, 1);
        let _all = pool.take(None, 4).unwrap();
        assert_eq!(pool.take(None, 1).unwrap_err(), NotTaken::Full);
    }

    #[test]
    fn a_user_waits_for_its_own_share_before_it_waits_for_others() {
        let pool = Pool::new(4, 2);
        let [ann, bob] = [Some("ann"), Some("bob")];
        let held = pool.take(ann, 2).unwrap();
        let mut waiting = Box::pin(pool.wait(ann, 2));
        assert!((&mut waiting).now_or_never().is_none());
        // Nothing of the whole is kept for who waits for its share.
        drop(pool.take(bob, 2).unwrap());
        drop(held);
        assert!(waiting.now_or_never().is_some());
        // More than a share could ever be is a share.
        assert!(pool.wait(ann, 100).now_or_never().is_some());
    }

    #[test]
    fn replies_that_a_user_does_not_read_hold_up_this_user_alone() {
        let room = ReplyRoom::new(Share::default());
        let [ann, bob] = [Some("ann"), Some("bob")];
        let of = |user| room.room_for(user, 4 * 1024 * 1024).now_or_never().flatten();
        let opens = |user| room.opens(user).now_or_never().is_some();
        let held = [of(ann).unwrap(), of(ann).unwrap()];
        assert!(of(ann).is_none() && !opens(ann) && !room.is_open(ann));
        assert!(of(bob).is_some() && opens(bob) && room.is_open(bob));
        // Small replies need no room.
        assert!(room.room_for(ann, 100).now_or_never().is_some());
        drop(held);
        // Who waits for more than is free comes first.
        let _one = of(ann).unwrap();
        let mut waiting = Box::pin(room.room_for(ann, 8 * 1024 * 1024));
        assert!((&mut waiting).now_or_never().is_none() && !room.is_open(ann));
        drop(waiting);
        assert!(opens(ann) && room.is_open(ann));
    }

    #[test]
    fn users_who_hold_nothing_are_forgotten() {
        let pool = Pool::new(4, 2);
        let _held = pool.take(Some("ann"), 2).unwrap();
        for number in 0..3 * IDLE_USERS_MAX {
            drop(pool.take(Some(&number.to_string()), 1).unwrap());
        }
        assert!(pool.users.lock().unwrap().len() <= IDLE_USERS_MAX);
        assert_eq!(pool.take(Some("ann"), 1).unwrap_err(), NotTaken::Share);
    }
}
