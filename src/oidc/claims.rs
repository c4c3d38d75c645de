//! Reads claims of an access token: its expiry and its scopes. This module never verifies a token.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

/// A claim that contains scopes.
struct ScopeClaim {
    name: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for who reads the table, and its test"))]
    source: &'static str,
}

/// The claims in which issuers put scopes. The value of a claim is a string with scopes that are separated by spaces,
/// or an array of scopes.
const SCOPE_CLAIMS: [ScopeClaim; 3] = [
    ScopeClaim { name: "scope", source: "RFC 9068, 2.2.3" },
    ScopeClaim { name: "scp", source: "Microsoft Entra ID and Okta" },
    ScopeClaim {
        name: "roles",
        source: "RFC 9068, 2.2.3.1, and roles of an application in Entra ID",
    },
];

/// Returns all scopes of a token, from all claims that contain scopes.
pub(super) fn scopes(claims: &Map<String, Value>) -> Vec<String> {
    let values = SCOPE_CLAIMS.iter().filter_map(|claim| claims.get(claim.name));
    values.flat_map(words).collect()
}

fn words(value: &Value) -> Vec<String> {
    let split = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    match value {
        Value::String(text) => split(text),
        // Each string of an array is one scope, even if the string contains a space.
        Value::Array(words) => words.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// Returns the expiry of a token (RFC 7519, 4.1.4), in whole seconds.
pub(super) fn expiry(claims: &Map<String, Value>) -> Option<DateTime<Utc>> {
    let expiry = claims.get("exp")?;
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        reason = "a number with a fraction; the cast ends at the bounds"
    )]
    let whole = |seconds: f64| seconds as i64;
    DateTime::from_timestamp(expiry.as_i64().or_else(|| expiry.as_f64().map(whole))?, 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scopes_are_read_as_issuers_write_them() {
        for (claims, expected) in [
            (json!({}), &[][..]),
            (json!({ "scope": "openid qwed:user" }), &["openid", "qwed:user"]),
            (json!({ "scp": ["qwed:admin", "a b"] }), &["qwed:admin", "a b"]),
            (
                json!({ "scp": "qwed:user", "roles": ["qwed:viewer"] }),
                &["qwed:user", "qwed:viewer"],
            ),
            (json!({ "scope": 1, "scp": { "qwed:admin": true }, "roles": [["qwed:admin"]] }), &[]),
        ] {
            assert_eq!(scopes(claims.as_object().unwrap()), expected, "{claims}");
        }
        assert!(SCOPE_CLAIMS.iter().all(|claim| !claim.source.is_empty()));
    }
}
