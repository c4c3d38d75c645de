//! The server's name, version and icon. Also determines whether a request uses the stateless protocol. This module has
//! no state.

use rmcp::RoleServer;
use rmcp::model::{Icon, Implementation, ProtocolVersion};
use rmcp::service::RequestContext;

/// The server's name. Clients show this name.
const NAME: &str = "qwed-mcp";
const TITLE: &str = "QWED verification";
const WEBSITE: &str = env!("CARGO_PKG_HOMEPAGE");

/// The icon of the server, as `packaging/mcpb/draw-icon` draws it. A data URL needs no network access. Every client
/// that shows icons supports PNG.
const ICON: &str = concat!("data:image/png;base64,", include_str!("icon.base64"));
const ICON_SIZE: &str = "48x48";

/// Returns the full description of the server, for handshakes and discovery.
pub(super) fn implementation() -> Implementation {
    brief()
        .with_description(env!("CARGO_PKG_DESCRIPTION"))
        .with_website_url(WEBSITE)
        .with_icons(icons())
}

/// Returns the icon. It exists in one size only.
pub(super) fn icons() -> Vec<Icon> {
    let icon = Icon::new(ICON).with_mime_type("image/png").with_sizes(vec![ICON_SIZE.to_owned()]);
    vec![icon]
}

/// Returns the title, name and version of the server. Every result of the stateless protocol contains them.
pub(super) fn brief() -> Implementation {
    Implementation::new(NAME, env!("CARGO_PKG_VERSION")).with_title(TITLE)
}

/// Returns whether a request uses the stateless protocol, which has no handshake.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}
