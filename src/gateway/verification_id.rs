//! The id of a decision: a hash of the call, the time and the server process.

use std::fmt;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::Arguments;

/// The id of this process. It is part of each decision's id, so that two servers never create the same id.
static PROCESS_INSTANCE: LazyLock<Uuid> = LazyLock::new(Uuid::new_v4);

/// The id of a decision: the SHA-256 in lower-case hexadecimal over the tool's name, the normalized arguments, a random
/// nonce, the wall-clock time and the id of the server process. No two decisions have the same id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct VerificationId(String);

impl VerificationId {
    /// Creates the id of a decision about a call of `tool`.
    pub(super) fn fresh(tool: &str, arguments: &Arguments) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let context = json!({
            "tool_name": tool,
            "arguments": arguments,
            "nonce": Uuid::new_v4().simple().to_string(),
            "timestamp": now.as_secs_f64(),
            "server_instance_id": PROCESS_INSTANCE.simple().to_string(),
        });
        let digest = Sha256::digest(context.to_string());
        Self(hex::encode(digest))
    }

    /// Parses the id of an earlier decision, possibly by another replica. Returns `None` if `digits` are not 64
    /// lower-case hexadecimal digits.
    pub(super) fn known(digits: String) -> Option<Self> {
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        (digits.len() == 64 && digits.chars().all(is_digit)).then_some(Self(digits))
    }

    /// Returns the 64 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VerificationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
