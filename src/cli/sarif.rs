//! The Static Analysis Results Interchange Format (SARIF 2.1.0, OASIS standard of 2020-03-27).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The characters that are percent-encoded in a path within a URI.
const RESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Builds a SARIF log of this program. Its only `run` contains all results.
pub(super) fn log(rules: &[Value], results: &[Value]) -> Value {
    let driver = json!({
        "name": env!("CARGO_PKG_NAME"),
        "semanticVersion": env!("CARGO_PKG_VERSION"),
        "rules": rules,
    });
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": driver },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

/// Returns the location of a result. Without a region, the result is about the whole file.
pub(super) fn location(file: &str, region: Option<Value>) -> Value {
    let location = match region {
        Some(region) => json!({ "artifactLocation": { "uri": uri(file) }, "region": region }),
        None => json!({ "artifactLocation": { "uri": uri(file) } }),
    };
    json!({ "physicalLocation": location })
}

/// Returns a file name as a relative or absolute URI reference (RFC 3986).
fn uri(file: &str) -> String {
    let scheme = if file.starts_with('/') { "file://" } else { "" };
    format!("{scheme}{}", utf8_percent_encode(file, RESERVED))
}
