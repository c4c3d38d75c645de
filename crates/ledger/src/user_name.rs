//! User names.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

const USER_NAME_CHARS_MAX: usize = 64;

/// The name of a user: 1 to 64 ASCII letters, digits and `. _ - @`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct UserName(String);

/// A text that is not a user name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a user's name has 1 to 64 letters (a to z), digits and . _ - @")]
pub struct InvalidUserName;

impl UserName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for UserName {
    type Err = InvalidUserName;

    fn from_str(text: &str) -> Result<Self, InvalidUserName> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        let is_name = (1..=USER_NAME_CHARS_MAX).contains(&text.len());
        (is_name && text.chars().all(is_allowed))
            .then(|| Self(text.to_owned()))
            .ok_or(InvalidUserName)
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
