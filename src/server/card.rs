//! The HTML page that hosts show next to a call (MCP Apps, `io.modelcontextprotocol/ui`, SEP-1865).
//!
//! The page is one file without dependencies. It shows all texts about a call as plain text, never as HTML. It never
//! uses the network and never calls a tool, because only the model may call tools.

use rmcp::model::{
    ExtensionCapabilities, Icon, JsonObject, MetaObject, Resource, ResourceContents,
};
use serde_json::{Value, json};

const EXTENSION_ID: &str = "io.modelcontextprotocol/ui";
pub(super) const URI: &str = "ui://qwed-mcp/verification.html";
const MIME_TYPE: &str = "text/html;profile=mcp-app";
const TITLE: &str = "Verification";
const PAGE: &str = include_str!("card.html");

/// Returns the capability with which the server declares the extension MCP Apps. This capability has no settings.
pub(super) fn extension() -> ExtensionCapabilities {
    ExtensionCapabilities::from([(EXTENSION_ID.to_owned(), JsonObject::new())])
}

/// Returns the `_meta` of a tool. It contains the page's URI, and states that only the model may call the tool.
pub(super) fn tool_meta() -> MetaObject {
    let ui = json!({ "resourceUri": URI, "visibility": ["model"] });
    // Hosts that are older than the extension read the key `ui/resourceUri`.
    meta([("ui", ui), ("ui/resourceUri", json!(URI))])
}

/// Returns the entry with which `resources/list` lists the page.
pub(super) fn resource(icons: Vec<Icon>) -> Resource {
    Resource::new(URI, "verification")
        .with_title(TITLE)
        .with_description("What a verification came to: verdict, findings, output and script.")
        .with_mime_type(MIME_TYPE)
        .with_size(PAGE.len().try_into().unwrap_or(u64::MAX))
        .with_icons(icons)
}

/// Returns the page, with the content security policy that hosts must apply to it. The policy allows no network access.
pub(super) fn contents() -> ResourceContents {
    let csp = json!({
        "connectDomains": [], "resourceDomains": [], "frameDomains": [], "baseUriDomains": [],
    });
    let ui = json!({ "csp": csp, "prefersBorder": true });
    ResourceContents::text(PAGE, URI).with_mime_type(MIME_TYPE).with_meta(meta([("ui", ui)]))
}

fn meta<const N: usize>(entries: [(&str, Value); N]) -> MetaObject {
    let mut meta = MetaObject::new();
    for (key, value) in entries {
        meta.insert(key.to_owned(), value);
    }
    meta
}

#[cfg(test)]
mod tests {
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn the_pages_policy_names_its_own_script_and_no_other() {
        let (_, behind) = PAGE.split_once("<script>").unwrap();
        let (script, end) = behind.split_once("</script>").unwrap();
        assert_eq!(end, "\n");
        let hash = BASE64_STANDARD.encode(Sha256::digest(script));
        let policy = format!(
            "content=\"default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline'; \
             img-src data:; base-uri 'none'; form-action 'none'\""
        );
        assert!(PAGE.contains(&policy), "the head of the page has to have {policy}");
        assert_eq!(PAGE.matches("Content-Security-Policy").count(), 1);
    }

    #[test]
    fn the_page_is_small_and_asks_for_nothing_and_shows_text_only() {
        assert!(PAGE.len() < 18 * 1024, "{} bytes", PAGE.len());
        for (word, why) in [
            ("innerHTML", "makes elements of text"),
            ("outerHTML", "makes elements of text"),
            ("insertAdjacent", "makes elements of text"),
            ("document.write", "makes elements of text"),
            ("srcdoc", "makes elements of text"),
            ("DOMParser", "makes elements of text"),
            ("createContextualFragment", "makes elements of text"),
            ("eval(", "runs text"),
            ("Function(", "runs text"),
            ("fetch(", "asks the network"),
            ("XMLHttpRequest", "asks the network"),
            ("WebSocket", "asks the network"),
            ("sendBeacon", "asks the network"),
            ("http:", "names another host"),
            ("https:", "names another host"),
            ("@import", "asks for a style"),
            ("<link", "asks for a file"),
            ("<iframe", "asks for a page"),
            ("tools/call", "calls a tool"),
            ("localStorage", "keeps something"),
        ] {
            assert!(!PAGE.contains(word), "{word} {why}");
        }
    }
}
