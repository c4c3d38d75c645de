//! The shares of users: how much of a common resource one user may hold.
//!
//! This module is a leaf and uses nothing else of the crate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

/// The number of users at which those that hold nothing are forgotten.
const IDLE_USERS_MAX: usize = 1024;

/// The part of a resource that one user may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    percent: u8,
}

impl Default for Share {
    /// A quarter, so that three other users have room, regardless of one user's demand.
    fn default() -> Self {
        Self { percent: 25 }
    }
}

impl Share {
    pub(crate) fn new(percent: u8) -> Self {
        Self { percent }
    }

    /// Returns the share of `whole`, at least 1.
    pub(crate) fn of(self, whole: usize) -> usize {
        (whole.saturating_mul(self.percent.into()) / 100).clamp(1, whole.max(1))
    }
}

/// A common number of places or bytes, with a share for each user. A caller without a user has no share and may take
/// everything.
#[derive(Debug)]
pub(crate) struct Pool {
    whole: Arc<Semaphore>,
    share: usize,
    /// The rest of each user's share.
    users: Mutex<HashMap<Box<str>, Arc<Semaphore>>>,
}

/// The reason why nothing could be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// The user's share is used up.
    Share,
    /// All users together hold everything.
    Full,
}

/// An amount taken from a pool. Dropping it returns the amount.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Permits from the whole, and from the user's share.
    permits: [Option<OwnedSemaphorePermit>; 2],
}

impl Pool {
    /// Creates a pool of `whole`. One user may hold `share` of it.
    pub(crate) fn new(whole: usize, share: usize) -> Self {
        Self { whole: Arc::new(Semaphore::new(whole)), share, users: Mutex::default() }
    }

    /// Takes `count`, if it is free.
    pub(crate) fn take(&self, user: Option<&str>, count: usize) -> Result<Held, NotTaken> {
        let mut held = self.take_share(user, count)?;
        held.merge(self.take_whole(count)?);
        Ok(held)
    }

    /// Takes `count` from the user's share only.
    pub(crate) fn take_share(&self, user: Option<&str>, count: usize) -> Result<Held, NotTaken> {
        let share = user.map(|user| take(self.share_of(user), count)).transpose();
        share.map(|share| Held { permits: [None, share] }).map_err(|_| NotTaken::Share)
    }

    /// Takes `count` from the whole, after it was taken from the share.
    pub(crate) fn take_whole(&self, count: usize) -> Result<Held, NotTaken> {
        let whole = take(Arc::clone(&self.whole), count).map_err(|_| NotTaken::Full)?;
        Ok(Held { permits: [Some(whole), None] })
    }

    /// Waits until `count` is free, first in the user's share, so that a user without a free share does not block
    /// others. A `count` above the share is reduced to the share. Cancel-safe.
    pub(crate) async fn wait(&self, user: Option<&str>, count: usize) -> Held {
        let count = match user {
            Some(_) => count.min(self.share),
            None => count,
        };
        let number = u32::try_from(count).unwrap_or(u32::MAX);
        let share = match user {
            // The semaphores are never closed.
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
            // A user with a waiting call or a permit has a clone.
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
    /// Adds an amount that the same user took from the same pool.
    pub(crate) fn merge(&mut self, other: Self) {
        for (own, other) in self.permits.iter_mut().zip(other.permits) {
            match (own.as_mut(), other) {
                (Some(own), Some(other)) => own.merge(other),
                (None, Some(other)) => *own = Some(other),
                (_, None) => {}
            }
        }
    }

    /// Splits off a part.
    pub(crate) fn split(&mut self, count: usize) -> Self {
        let permits = self.permits.each_mut();
        Self { permits: permits.map(|permit| permit.as_mut().and_then(|it| it.split(count))) }
    }
}

/// Room for output of scripts that waits to be sent. If a client does not read, the server waits instead of using more
/// memory.
#[derive(Debug)]
pub(crate) struct ReplyRoom {
    kibibytes: Pool,
}

impl ReplyRoom {
    const KIBIBYTES: usize = 32 * 1024;
    /// Replies below this size need no room. All of them in flight take less than a few MiB together.
    pub(crate) const SMALL_BYTES: usize = 16 * 1024;

    pub(crate) fn new(share: Share) -> Self {
        Self { kibibytes: Pool::new(Self::KIBIBYTES, share.of(Self::KIBIBYTES)) }
    }

    /// Waits until a user has any room for replies. Called before a run.
    pub(crate) async fn opens(&self, user: Option<&str>) {
        drop(self.kibibytes.wait(user, 1).await);
    }

    /// Returns whether a user has any room for replies.
    pub(crate) fn is_open(&self, user: Option<&str>) -> bool {
        self.kibibytes.take(user, 1).is_ok()
    }

    /// Waits for room for a user's reply with `output_bytes` of output.
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
        // A refused take leaves nothing taken.
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
        // While waiting for the share, a user holds nothing of the whole.
        drop(pool.take(bob, 2).unwrap());
        drop(held);
        assert!(waiting.now_or_never().is_some());
        // A count above the share is reduced to the share.
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
        // A waiter is first in line, even for more than is free.
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
