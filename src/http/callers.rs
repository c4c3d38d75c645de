//! Who calls, and how much one user may have.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::batch::Asker;
use crate::governance::{Bearer, Bearers, NotLetIn, UserName};
use crate::oidc::SCOPES;
use crate::secret::Secret;

use super::refusal::Refusal;

/// Finds out who calls.
#[derive(Debug)]
pub(super) struct Callers {
    bearers: Option<Bearers>,
    bounds: UserBounds,
}

/// Whoever has sent a request.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// None where everybody may call.
    pub(super) bearer: Option<Bearer>,
    pub(super) token: Option<Secret>,
    /// The user's share, taken until the request is through.
    pub(super) share: Option<OwnedSemaphorePermit>,
}

impl Known {
    /// Returns who has scripts run.
    pub(super) fn asker(&self) -> Asker {
        let user = self.bearer.as_ref().map(|bearer| bearer.user.clone());
        Asker { token: self.token.clone(), user }
    }
}

impl Callers {
    pub(super) fn new(
        bearers: Option<Bearers>,
        concurrency: Option<usize>,
        rate: Option<u32>,
    ) -> Self {
        Self { bearers, bounds: UserBounds { concurrency, rate, users: Mutex::default() } }
    }

    /// Returns the most runs of one batch of one user.
    pub(super) fn workers_max(&self) -> usize {
        self.bounds.concurrency.unwrap_or(usize::MAX)
    }

    /// Returns what clients need to know to get an access token, if this is the path of that.
    pub(super) fn metadata(&self, path: &str) -> Option<Value> {
        let access_tokens = self.bearers.as_ref()?.access_tokens()?;
        access_tokens.is_metadata(path).then(|| access_tokens.metadata())
    }

    /// Returns what a client is told of the token that it needs (RFC 6750, 3; RFC 9728, 5.1).
    pub(super) fn challenge(&self, refusal: Refusal) -> Option<HeaderValue> {
        let error = match refusal {
            Refusal::Unauthorized => None,
            Refusal::InvalidToken => Some("invalid_token"),
            Refusal::NoScope | Refusal::Forbidden => Some("insufficient_scope"),
            Refusal::Host
            | Refusal::Origin
            | Refusal::Target
            | Refusal::NotFound
            | Refusal::Method(_)
            | Refusal::MediaType
            | Refusal::NotAcceptable
            | Refusal::TooLarge
            | Refusal::Incomplete
            | Refusal::UserBound(_)
            | Refusal::Full
            | Refusal::Draining
            | Refusal::Store
            | Refusal::SessionUnknown
            | Refusal::SessionMissing
            | Refusal::Invalid => return None,
        };
        let mut challenge = "Bearer realm=\"qwed-mcp\"".to_owned();
        if let Some(error) = error {
            let _ = write!(challenge, ", error=\"{error}\"");
        }
        if let Some(access_tokens) = self.bearers.as_ref().and_then(Bearers::access_tokens) {
            let (url, scope) = (access_tokens.metadata_url(), SCOPES[1]);
            let _ = write!(challenge, ", resource_metadata=\"{url}\", scope=\"{scope}\"");
        }
        HeaderValue::from_str(&challenge).ok()
    }

    /// Returns who has sent a request, if they may.
    pub(super) async fn identify(&self, headers: &HeaderMap) -> Result<Known, Refusal> {
        let token = token(headers);
        let Some(bearers) = &self.bearers else { return Ok(Known { token, ..Known::default() }) };
        let token = token.ok_or(Refusal::Unauthorized)?;
        let bearer = bearers.bearer(&token).await.map_err(|reason| match reason {
            NotLetIn::Invalid => Refusal::InvalidToken,
            NotLetIn::NoScope => Refusal::NoScope,
            NotLetIn::Unavailable => Refusal::Store,
        })?;
        let share = self.bounds.take(&bearer.user, Instant::now())?;
        // An access token is for this server alone: it goes no further.
        let token = Some(token).filter(|_| bearer.caller().is_none());
        Ok(Known { bearer: Some(bearer), token, share })
    }
}

/// Returns the token of a request; none if it has several.
fn token(headers: &HeaderMap) -> Option<Secret> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Secret::from(token.trim().to_owned()))
}

/// What each user may have.
#[derive(Debug)]
struct UserBounds {
    /// The most requests in flight.
    concurrency: Option<usize>,
    /// The most requests a second, over a second.
    rate: Option<u32>,
    /// There are no more than users with a token.
    users: Mutex<HashMap<UserName, UserState>>,
}

#[derive(Debug)]
struct UserState {
    places: Option<Arc<Semaphore>>,
    /// The time at which all requests so far would have come at the rate (GCRA).
    due: Instant,
}

impl UserBounds {
    fn take(&self, user: &UserName, now: Instant) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let state = users.entry(user.clone()).or_insert_with(|| UserState {
            places: self.concurrency.map(|places| Arc::new(Semaphore::new(places))),
            due: now,
        });
        let place = match &state.places {
            Some(places) => {
                let place = Arc::clone(places).try_acquire_owned();
                Some(place.map_err(|_| Refusal::UserBound(1))?)
            }
            None => None,
        };
        let Some(rate) = self.rate else { return Ok(place) };
        let (second, due) =
            (Duration::from_secs(1), state.due.max(now) + Duration::from_secs(1) / rate);
        let ahead = due.duration_since(now);
        if ahead > second {
            return Err(Refusal::UserBound(ahead.saturating_sub(second).as_secs() + 1));
        }
        state.due = due;
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_has_no_more_than_a_share_and_takes_none_from_another() {
        let bounds = UserBounds { concurrency: Some(2), rate: None, users: Mutex::default() };
        let (ann, bob): (UserName, UserName) = ("ann".parse().unwrap(), "bob".parse().unwrap());
        let take = |user| bounds.take(user, Instant::now());
        let (first, _second) = (take(&ann).unwrap(), take(&ann).unwrap());
        assert_eq!(take(&ann).unwrap_err(), Refusal::UserBound(1));
        assert!(take(&bob).is_ok());
        drop(first);
        assert!(take(&ann).is_ok());
    }

    #[test]
    fn a_rate_holds_over_a_second() {
        let bounds = UserBounds { concurrency: None, rate: Some(10), users: Mutex::default() };
        let (ann, start) = ("ann".parse().unwrap(), Instant::now());
        let taken = |milliseconds: u64| {
            let now = start + Duration::from_millis(milliseconds);
            (0..100).take_while(|_| bounds.take(&ann, now).is_ok()).count()
        };
        assert_eq!((taken(0), taken(50), taken(100), taken(1100)), (10, 0, 1, 10));
        let refused = bounds.take(&ann, start + Duration::from_millis(1100));
        assert_eq!(refused.unwrap_err(), Refusal::UserBound(1));
    }

    #[test]
    fn a_token_is_a_bearers_and_there_is_one() {
        let headers = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_static(value));
            }
            headers
        };
        let found = |values| token(&headers(values)).map(|token| token.reveal().to_owned());
        assert_eq!(found(&["Bearer abc"]).as_deref(), Some("abc"));
        assert_eq!(found(&["bearer  abc "]).as_deref(), Some("abc"));
        for values in [&[][..], &["Basic abc"], &["abc"], &["Bearer a", "Bearer b"]] {
            assert_eq!(found(values), None, "{values:?}");
        }
    }
}
