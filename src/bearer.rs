//! Authenticates the callers of HTTP requests by their tokens.

use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::Secret;
use crate::ledger::{Caller, InvalidUserName, Proof, Role, Store, StoreError, Token};
use crate::logging::Causes;
use crate::oidc::{Access, AccessTokens, NotTaken, SCOPES};

/// The reason why a request is not authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotLetIn {
    /// The token is unknown, expired, revoked, or not for this server.
    Invalid,
    /// The access token has none of this server's scopes.
    NoScope,
    /// The token could not be checked, because the store or the keys of the issuer are unavailable.
    Unavailable,
}

/// The role that each scope grants, from the least to the most privileged.
const ROLES: [(&str, Role); 3] =
    [(SCOPES[0], Role::Viewer), (SCOPES[1], Role::User), (SCOPES[2], Role::Admin)];

/// The tokens that this server accepts: tokens in a store, and access tokens of an authorization server.
#[derive(Debug, Clone)]
pub(crate) struct Bearers {
    store: Option<Store>,
    access_tokens: Option<Arc<AccessTokens>>,
}

impl Bearers {
    pub(crate) fn new(store: Option<Store>, access_tokens: Option<Arc<AccessTokens>>) -> Self {
        Self { store, access_tokens }
    }

    /// Returns the store of tokens. `None` if the server accepts no tokens from a store.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Returns the validator of access tokens. `None` if the server does not accept access tokens.
    pub(crate) fn access_tokens(&self) -> Option<&AccessTokens> {
        self.access_tokens.as_deref()
    }

    /// Validates a token, and returns the caller that the token identifies.
    pub(crate) async fn caller(&self, token: &Secret) -> Result<Caller, NotLetIn> {
        match (Token::parse(token.reveal()), &self.store, &self.access_tokens) {
            (Some(token), Some(store), _) => {
                let store = store.clone();
                let found = spawn_blocking(move || store.authenticate(&token)).await;
                let found = found.map_err(|_| NotLetIn::Unavailable)?;
                found.map_err(|error| unavailable(&error))?.ok_or(NotLetIn::Invalid)
            }
            (None, _, Some(access_tokens)) => {
                let access = access_tokens.validate(token.reveal()).await;
                of_access(access.map_err(|reason| not_taken(&reason))?)
            }
            (Some(_), None, _) | (None, _, None) => Err(NotLetIn::Invalid),
        }
    }

    /// Returns whether tokens can be checked now.
    pub(crate) async fn is_available(&self) -> bool {
        let keys_are_there = match &self.access_tokens {
            Some(access_tokens) => access_tokens.is_available().await,
            None => true,
        };
        let Some(store) = self.store.clone() else { return keys_are_there };
        keys_are_there && spawn_blocking(move || store.tokens().is_ok()).await.unwrap_or(false)
    }
}

/// Returns the caller that a valid access token identifies. The caller gets the highest role that the token's scopes
/// grant.
fn of_access(access: Access) -> Result<Caller, NotLetIn> {
    let Access { user, scopes, expires } = access;
    let of_scope =
        |(scope, role): &(&str, Role)| scopes.iter().any(|own| own == scope).then_some(*role);
    let role = ROLES.iter().rev().find_map(of_scope).ok_or(NotLetIn::NoScope)?;
    let user = user.parse().map_err(|error: InvalidUserName| {
        tracing::warn!(%error, "the user name in an access token is not valid here; --oidc-user-claim can select another claim");
        NotLetIn::Invalid
    })?;
    Ok(Caller { user, role, proof: Proof::Access { expires } })
}

fn not_taken(reason: &NotTaken) -> NotLetIn {
    tracing::info!(%reason, "an access token is refused");
    match reason {
        NotTaken::Unavailable(_) => NotLetIn::Unavailable,
        NotTaken::Form(_) | NotTaken::Key | NotTaken::Claims(_) | NotTaken::User(_) => {
            NotLetIn::Invalid
        }
    }
}

fn unavailable(error: &StoreError) -> NotLetIn {
    tracing::error!(error = %Causes(error), "the store of tokens failed");
    NotLetIn::Unavailable
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::*;

    #[test]
    fn the_highest_scope_decides_and_none_lets_nobody_in() {
        let bearer = |user: &str, scopes: &[&str]| {
            let scopes = scopes.iter().map(ToString::to_string).collect();
            of_access(Access { user: user.to_owned(), scopes, expires: Utc::now() })
        };
        for (scopes, role) in [
            (&["qwed:viewer"][..], Role::Viewer),
            (&["openid", "qwed:user", "qwed:viewer"], Role::User),
            (&["qwed:viewer", "qwed:admin"], Role::Admin),
        ] {
            assert_eq!(bearer("ann", scopes).unwrap().role, role, "{scopes:?}");
        }
        for scopes in [&[][..], &["openid"], &["QWED:ADMIN"], &["qwed:adminx"], &["qwed:"]] {
            assert_eq!(bearer("ann", scopes), Err(NotLetIn::NoScope), "{scopes:?}");
        }
        for user in ["", "auth0|1", "an\nn", "ann "] {
            assert_eq!(bearer(user, &["qwed:user"]), Err(NotLetIn::Invalid), "{user:?}");
        }
    }
}
