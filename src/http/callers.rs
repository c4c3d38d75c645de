//! Identifies callers, and limits each user's rate of requests.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::Value;

use crate::Secret;
use crate::bearer::{Bearers, NotLetIn};
use crate::ledger::{Permission, Presented, Proof, UserName};
use crate::oidc::SCOPES;
use crate::shares::Held;

use super::refusal::Refusal;

/// Identifies the caller of each request.
#[derive(Debug)]
pub(super) struct Callers {
    bearers: Option<Bearers>,
    rate: UserRate,
}

/// The caller of a request. A caller has no user if the server requires no token.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) presented: Presented,
    /// The slot that the request takes from the user's share of requests in flight.
    pub(super) place: Held,
}

impl Known {
    /// Returns the user, if the server requires tokens.
    pub(super) fn user(&self) -> Option<&UserName> {
        self.presented.user()
    }

    /// Returns whether the caller's role has `permission`. Always `true` if the server requires no token.
    pub(super) fn has_permission(&self, permission: Permission) -> bool {
        self.presented.known.as_ref().is_none_or(|caller| caller.role.has(permission))
    }
}

impl Callers {
    pub(super) fn new(bearers: Option<Bearers>, rate: Option<u32>) -> Self {
        Self { bearers, rate: UserRate { rate, users: Mutex::default() } }
    }

    /// Returns the metadata that clients need to get an access token. `None` if `path` is not the path of the metadata.
    pub(super) fn metadata(&self, path: &str) -> Option<Value> {
        let access_tokens = self.bearers.as_ref()?.access_tokens()?;
        access_tokens.is_metadata(path).then(|| access_tokens.metadata())
    }

    /// Returns the `WWW-Authenticate` challenge for a refusal (RFC 6750, 3; RFC 9728, 5.1).
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
            | Refusal::ScriptTooLarge
            | Refusal::Incomplete
            | Refusal::UserBound(_)
            | Refusal::Full
            | Refusal::Connections
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

    /// Returns the caller of a request. Refuses the request if its token is missing or invalid.
    pub(super) async fn identify(&self, headers: &HeaderMap) -> Result<Known, Refusal> {
        let token = token(headers);
        let known = |presented| Known { presented, place: Held::default() };
        let Some(bearers) = &self.bearers else {
            return Ok(known(Presented { token, known: None }));
        };
        let token = token.ok_or(Refusal::Unauthorized)?;
        let caller = bearers.caller(&token).await.map_err(|reason| match reason {
            NotLetIn::Invalid => Refusal::InvalidToken,
            NotLetIn::NoScope => Refusal::NoScope,
            NotLetIn::Unavailable => Refusal::Store,
        })?;
        // Drop an access token after its validation, so that no other part of the server can forward it. The issuer
        // issued the token for this server only.
        let token = Some(token).filter(|_| !matches!(caller.proof, Proof::Access { .. }));
        Ok(known(Presented { token, known: Some(caller) }))
    }

    /// Counts a request of a user. Refuses the request if the user has reached the maximum rate.
    pub(super) fn count(&self, user: Option<&UserName>) -> Result<(), Refusal> {
        user.map_or(Ok(()), |user| self.rate.count(user, Instant::now()))
    }
}

/// Returns the token of a request. `None` if the request has no token, or has several `Authorization` headers.
fn token(headers: &HeaderMap) -> Option<Secret> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Secret::from(token.trim().to_owned()))
}

/// A limit on each user's rate of requests. The crate governor is not used, because this limit needs only ten lines of
/// code.
#[derive(Debug)]
struct UserRate {
    /// The maximum rate of one user in requests per second. A burst may contain as many requests as one second allows.
    rate: Option<u32>,
    /// For each user, the theoretical arrival time of the next request at exactly the maximum rate (algorithm GCRA).
    /// The map has at most one entry for each user with a token.
    users: Mutex<HashMap<UserName, Instant>>,
}

impl UserRate {
    fn count(&self, user: &UserName, now: Instant) -> Result<(), Refusal> {
        let Some(rate) = self.rate else { return Ok(()) };
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let second = Duration::from_secs(1);
        let due = users.entry(user.clone()).or_insert(now);
        let next = (*due).max(now) + second / rate;
        let ahead = next.duration_since(now);
        if ahead > second {
            return Err(Refusal::UserBound(ahead.saturating_sub(second).as_secs() + 1));
        }
        *due = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_holds_over_a_second() {
        let bounds = UserRate { rate: Some(10), users: Mutex::default() };
        let (ann, start) = ("ann".parse().unwrap(), Instant::now());
        let taken = |milliseconds: u64| {
            let now = start + Duration::from_millis(milliseconds);
            (0..100).take_while(|_| bounds.count(&ann, now).is_ok()).count()
        };
        assert_eq!((taken(0), taken(50), taken(100), taken(1100)), (10, 0, 1, 10));
        let refused = bounds.count(&ann, start + Duration::from_millis(1100));
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
