//! Limits the part of a common resource that one user may hold.
//!
//! This module uses no other module of the crate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

/// When this number of users is in memory, users that hold no permits are removed before another user is added.
const IDLE_USERS_MAX: usize = 1024;

/// The percentage of a resource that one user may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    percent: u8,
}

impl Default for Share {
    /// Returns a quarter of the resource. So if one user takes its full share, three other users can still get their
    /// full shares.
    fn default() -> Self {
        Self { percent: 25 }
    }
}

impl Share {
    pub(crate) fn new(percent: u8) -> Self {
        Self { percent }
    }

    /// Returns this share of the amount `whole`, but at least 1.
    pub(crate) fn of(self, whole: usize) -> usize {
        (whole.saturating_mul(self.percent.into()) / 100).clamp(1, whole.max(1))
    }
}

/// The permits of a resource that all users have in common. A permit stands for a slot, a byte or a KiB. Each user
/// may hold only a share of the permits. A caller without a user may take all permits.
#[derive(Debug)]
pub(crate) struct Pool {
    whole: Arc<Semaphore>,
    share: usize,
    /// The permits that are left in the share of each user.
    users: Mutex<HashMap<Box<str>, Arc<Semaphore>>>,
}

/// The reason why a permit could not be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// The user's share does not have enough permits left.
    Share,
    /// The pool does not have enough permits left, because all users together hold too many.
    Full,
}

/// Permits that were taken from a pool. Dropping this value returns the permits to the pool.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// The permits from the whole pool, and the permits from the user's share.
    permits: [Option<OwnedSemaphorePermit>; 2],
}

impl Pool {
    /// Creates a pool of `whole` permits. One user may hold at most `share` permits.
    pub(crate) fn new(whole: usize, share: usize) -> Self {
        Self { whole: Arc::new(Semaphore::new(whole)), share, users: Mutex::default() }
    }

    /// Takes `count` permits from the user's share and from the whole pool. Takes nothing if the share or the pool
    /// does not have enough permits.
    pub(crate) fn take(&self, user: Option<&str>, count: usize) -> Result<Held, NotTaken> {
        let mut held = self.take_share(user, count)?;
        held.merge(self.take_whole(count)?);
        Ok(held)
    }

    /// Takes `count` permits from the user's share only. The caller later takes as many permits from the whole pool,
    /// with [`Pool::take_whole`].
    pub(crate) fn take_share(&self, user: Option<&str>, count: usize) -> Result<Held, NotTaken> {
        let share = user.map(|user| take(self.share_of(user), count)).transpose();
        share.map(|share| Held { permits: [None, share] }).map_err(|_| NotTaken::Share)
    }

    /// Takes `count` permits from the whole pool. Called after [`Pool::take_share`].
    pub(crate) fn take_whole(&self, count: usize) -> Result<Held, NotTaken> {
        let whole = take(Arc::clone(&self.whole), count).map_err(|_| NotTaken::Full)?;
        Ok(Held { permits: [Some(whole), None] })
    }

    /// Waits for `count` permits, first in the user's share and then in the whole pool. In this order, a user that
    /// waits for its own share holds no permits that other users need. A `count` above the share is reduced to the
    /// share. Cancel-safe.
    pub(crate) async fn wait(&self, user: Option<&str>, count: usize) -> Held {
        let count = match user {
            Some(_) => count.min(self.share),
            None => count,
        };
        let number = u32::try_from(count).unwrap_or(u32::MAX);
        let share = match user {
            // `acquire_many_owned` cannot fail, because the semaphores are never closed.
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
            // While a user waits or holds a permit, a clone of the semaphore exists. So keep only users with clones.
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
    /// Adds the permits in `other`. The same user must have taken these permits from the same pool.
    pub(crate) fn merge(&mut self, other: Self) {
        for (own, other) in self.permits.iter_mut().zip(other.permits) {
            match (own.as_mut(), other) {
                (Some(own), Some(other)) => own.merge(other),
                (None, Some(other)) => *own = Some(other),
                (_, None) => {}
            }
        }
    }

    /// Splits off `count` permits.
    pub(crate) fn split(&mut self, count: usize) -> Self {
        let permits = self.permits.each_mut();
        Self { permits: permits.map(|permit| permit.as_mut().and_then(|it| it.split(count))) }
    }
}

/// A limit for script output that is in memory until clients read it. If a client does not read, the server waits
/// instead of using more memory.
#[derive(Debug)]
pub(crate) struct ReplyRoom {
    kibibytes: Pool,
}

impl ReplyRoom {
    const KIBIBYTES: usize = 32 * 1024;
    /// The size below which a reply does not count towards the limit, in bytes. All such replies in flight together
    /// take at most a few MiB.
    pub(crate) const SMALL_BYTES: usize = 16 * 1024;

    pub(crate) fn new(share: Share) -> Self {
        Self { kibibytes: Pool::new(Self::KIBIBYTES, share.of(Self::KIBIBYTES)) }
    }

    /// Waits until the limit leaves at least 1 KiB for the user's replies. Called before a run.
    pub(crate) async fn opens(&self, user: Option<&str>) {
        drop(self.kibibytes.wait(user, 1).await);
    }

    /// Returns whether the limit leaves at least 1 KiB for the user's replies.
    pub(crate) fn is_open(&self, user: Option<&str>) -> bool {
        self.kibibytes.take(user, 1).is_ok()
    }

    /// Waits until the limit leaves enough for a reply to the user with `output_bytes` of output. Returns `None` for a
    /// small reply, which does not count.
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
        // A call of `take` that fails must take no permits. So Ann can take 2 again as soon as she has returned all of
        // her permits.
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
        // Ann waits for her share, and meanwhile must hold nothing of the whole pool. So Bob can take 2.
        drop(pool.take(bob, 2).unwrap());
        drop(held);
        assert!(waiting.now_or_never().is_some());
        // A count above the share must be reduced to the share.
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
        // A small reply must not wait.
        assert!(room.room_for(ann, 100).now_or_never().is_some());
        drop(held);
        // Ann now waits for more than is free. While she waits, her later requests must wait too.
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
