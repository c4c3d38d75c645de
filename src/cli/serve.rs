//! `qwed-mcp serve`: defines the options for serving, and starts a server for a team over HTTP. If other machines can
//! reach the server, callers must have tokens.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{ArgGroup, Args};
use url::Url;

use crate::batch::Bounds;
use crate::bearer::Bearers;
use crate::config::Settings;
use crate::data_folder;
use crate::http;
use crate::ledger::Store;
use crate::logging;
use crate::oidc::{self, AccessTokens, KeySource};
use crate::server::Server;
use crate::shares::Share;

/// The maximum value of `--user-concurrency` and `--user-rate`. A higher value would not limit anything.
const USER_BOUND_MAX: i64 = 10_000;

pub(super) const ABOUT: &str =
    "Serve an MCP client on standard input and output (the default), or a team over HTTP";
pub(super) const EXAMPLES: &str = "\
Examples:
  qwed-mcp serve
  qwed-mcp serve --http localhost:8000
  qwed-mcp serve --http 0.0.0.0:8000 --require-token --allow-host mcp.example.org";

/// The options of `serve`.
#[derive(Debug, Clone, Default, Args)]
#[command(group(ArgGroup::new("known").multiple(true).requires("http")))]
pub(super) struct Options {
    /// Serve a team over HTTP on this address, such as 127.0.0.1:8000
    #[arg(long, value_name = "ADDR", value_parser = address)]
    http: Option<SocketAddr>,
    /// Refuse callers without a token of `qwed-mcp token`; this or `--oidc-issuer` is needed on any address but this
    /// machine's own
    #[arg(long, requires = "http", group = "known")]
    require_token: bool,
    /// Accept access tokens of this authorization server: its issuer, as its tokens name it
    #[arg(long, value_name = "URL", requires_all = ["oidc_audience", "oidc_jwks"], group = "known")]
    oidc_issuer: Option<String>,
    /// The URL by which clients reach this server, such as `https://mcp.example.org/mcp`; it must be the audience of
    /// access tokens
    #[arg(long, value_name = "URL", requires = "oidc_issuer", value_parser = oidc::parse_audience)]
    oidc_audience: Option<Url>,
    /// The public keys of the issuer: a file, or the URL in `jwks_uri` of its metadata
    #[arg(long, value_name = "FILE|URL", requires = "oidc_issuer")]
    oidc_jwks: Option<KeySource>,
    /// The claim of access tokens that names the user
    #[arg(long, value_name = "CLAIM", requires = "oidc_issuer", default_value = "sub")]
    oidc_user_claim: String,
    /// A name by which clients reach the server, in addition to the names of this machine; may be repeated
    #[arg(long, value_name = "NAME", requires = "http", value_parser = http::parse_host)]
    allow_host: Vec<String>,
    /// The origin of a page that may call the server from a browser, such as `https://tools.example.org`; may be
    /// repeated
    #[arg(long, value_name = "ORIGIN", requires = "http", value_parser = http::parse_origin)]
    allow_origin: Vec<String>,
    /// Keep no sessions of the older protocol, so that any replica can answer any request
    #[arg(long, requires = "http")]
    sessionless: bool,
    /// The percentage of places, turns, memory, jobs and results that one user may take
    #[arg(long, value_name = "PERCENT", requires = "known", default_value_t = 25, value_parser = clap::value_parser!(u8).range(1..=100))]
    user_share: u8,
    /// The most requests of one user in flight, instead of the user's share
    #[arg(long, value_name = "N", requires = "known", value_parser = clap::value_parser!(u32).range(1..=USER_BOUND_MAX))]
    user_concurrency: Option<u32>,
    /// The most requests of one user per second
    #[arg(long, value_name = "N", requires = "known", value_parser = clap::value_parser!(u32).range(1..=USER_BOUND_MAX))]
    user_rate: Option<u32>,
    /// Serve /metrics, /healthz and /readyz on this address
    #[arg(long, value_name = "ADDR", requires = "http", value_parser = address)]
    admin: Option<SocketAddr>,
    /// The seconds that a stopping server has to finish its requests
    #[arg(long, value_name = "SECONDS", requires = "http", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=3600))]
    drain: u16,
    /// The format of the log
    #[arg(long, value_enum, value_name = "FORM", default_value = "text")]
    log_format: LogFormat,
}

/// Parses an IP address with a port, such as 127.0.0.1:8000. The name `localhost` stands for 127.0.0.1.
fn address(text: &str) -> Result<SocketAddr, &'static str> {
    let port = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let local = port.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let address = local.or_else(|| text.parse().ok());
    address.ok_or("expected IP:PORT, such as 127.0.0.1:8000")
}

/// The format of a server's log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object on each line
    Json,
}

impl Options {
    /// Returns the kind of reader that the log is for.
    pub(super) fn reader(&self) -> logging::Reader {
        match self.log_format {
            LogFormat::Text => logging::Reader::Admin,
            LogFormat::Json => logging::Reader::Collector,
        }
    }

    /// Fails if users on other machines could run scripts without a token. Called before anything is started.
    fn check(&self) -> anyhow::Result<()> {
        let is_anybodys = !self.require_token && self.oidc_issuer.is_none();
        if let Some(address) = self.http.filter(|it| !it.ip().is_loopback() && is_anybodys) {
            anyhow::bail!(
                "{address} can be reached from other machines: use --require-token, with a token \
                 for each user from `qwed-mcp token create`, or --oidc-issuer"
            );
        }
        Ok(())
    }

    /// Returns the verifier of callers' tokens. It accepts tokens of `qwed-mcp token`, access tokens of the
    /// authorization server, or both. Returns `None` if callers need no token.
    async fn bearers(
        &self,
        server: &Server,
        settings: &Settings,
    ) -> anyhow::Result<Option<Bearers>> {
        let store = || match server.store() {
            Some(store) => Ok(store.clone()),
            None => store_of_tokens(settings),
        };
        let store = self.require_token.then(store).transpose()?;
        let access_tokens = match (&self.oidc_issuer, &self.oidc_audience, &self.oidc_jwks) {
            (Some(issuer), Some(audience), Some(keys)) => {
                let options = oidc::Options {
                    issuer: issuer.clone(),
                    audience: audience.clone(),
                    keys: keys.clone(),
                    user_claim: self.oidc_user_claim.clone(),
                };
                let access_tokens = AccessTokens::new(options).await;
                Some(Arc::new(access_tokens.context("no caller could be authenticated")?))
            }
            _ => None,
        };
        let is_anybodys = store.is_none() && access_tokens.is_none();
        Ok((!is_anybodys).then(|| Bearers::new(store, access_tokens)))
    }

    /// Returns the share of each resource that one user may take.
    fn user_share(&self) -> Share {
        Share::new(self.user_share)
    }

    async fn serve(
        self,
        server: Arc<Server>,
        settings: &Settings,
        address: SocketAddr,
    ) -> anyhow::Result<()> {
        let bearers = self.bearers(&server, settings).await?;
        let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        let options = http::Options {
            address,
            admin: self.admin,
            hosts: self.allow_host,
            origins: self.allow_origin,
            is_sessionless: self.sessionless,
            bearers,
            user_share: settings.user_share,
            user_concurrency: self.user_concurrency.map(count),
            user_rate: self.user_rate,
            drain: Duration::from_secs(self.drain.into()),
            bounds: Bounds { timeout: settings.sync_timeout, memory_mb: settings.memory_mb },
            workers: settings.sync_concurrency,
            turn_deadline: settings.turn_deadline,
        };
        Ok(http::serve(server, options).await?)
    }
}

/// Serves a client on standard input and output, or a team over HTTP.
pub(super) fn run(options: Options) -> anyhow::Result<ExitCode> {
    let Some(address) = options.http else { return super::serve_client() };
    options.check()?;
    let mut settings = super::settings();
    if settings.auth_token.take().is_some() || settings.auth_token_file.take().is_some() {
        tracing::warn!(
            "QWED_MCP_AUTH_TOKEN is not used over HTTP, because each caller sends a token"
        );
    }
    settings.user_share = options.user_share();
    super::serve_with(settings, |runtime, server, settings| {
        runtime.block_on(options.serve(server, settings, address))
    })
}

/// Opens the store that contains the tokens. Fails if the store is a local file that does not exist.
fn store_of_tokens(settings: &Settings) -> anyhow::Result<Store> {
    let folder = data_folder::data_folder(settings.data_dir.as_deref())?;
    settings.store_in(&folder).open_existing().context("no caller could be authenticated")
}
