//! HTTP for teams: one address, both eras of the protocol, and scripts of pipelines.
//!
//! `listener` holds connections, within bounds; `front` has every request pass the same checks, in one
//! order: Host and Origin (`hosts`), who it is (`callers`), room (`room`), then what it asks for: messages
//! (`messages`) or scripts (`scripts`). `content` is what goes back. `admin` is the second listener, for
//! operators, with the metrics of `prometheus`. TLS is the proxy's in front.

mod admin;
mod callers;
mod complaints;
mod content;
mod front;
mod hosts;
mod listener;
mod messages;
mod prometheus;
mod refusal;
mod room;
mod scripts;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::batch::Bounds;
use crate::bearer::Bearers;
use crate::logging::ADDRESSES;
use crate::server::{EndingSignals, Endpoint, GRACE_AFTER_CANCEL, Server, put_down};
use crate::shares::Share;

use admin::Admin;
use callers::Callers;
use complaints::Complaints;
use front::Front;
use hosts::Hosts;
use listener::{Listener, Service};
use prometheus::Metrics;
use room::Room;
use scripts::Scripts;

pub(crate) use hosts::{parse_host, parse_origin};

/// The connections that the kernel keeps until they are accepted. Fewer are kept where `net.core.somaxconn` is
/// less (listen(2)). The usual 128 are full at once when one client opens connections without a pause, and then the
/// connections of others are dropped and tried again a second later.
const BACKLOG: u32 = 4096;
/// The time at the end for the responses of requests that were still in flight after everything was cancelled.
const GRACE_FOR_REFUSALS: Duration = Duration::from_secs(2);

/// How the server is reached over HTTP, and by whom.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) address: SocketAddr,
    /// The address of the listener for operators.
    pub(crate) admin: Option<SocketAddr>,
    /// The names by which it is reached, besides those of this machine.
    pub(crate) hosts: Vec<String>,
    /// The pages that may reach it from a browser.
    pub(crate) origins: Vec<String>,
    pub(crate) is_sessionless: bool,
    /// The tokens of those who may call; `None` lets everybody.
    pub(crate) bearers: Option<Bearers>,
    /// The part of places, bytes and connections that one user may hold.
    pub(crate) user_share: Share,
    /// The requests in flight of one user, where that is not a share.
    pub(crate) user_concurrency: Option<usize>,
    /// Requests a second.
    pub(crate) user_rate: Option<u32>,
    /// The time for requests in flight when the server ends.
    pub(crate) drain: Duration,
    /// The bounds of scripts of pipelines.
    pub(crate) bounds: Bounds,
    /// The runs at once.
    pub(crate) workers: usize,
    /// The wait for a turn of those who cannot take a call back, where a test wants another.
    pub(crate) turn_deadline: Option<Duration>,
}

/// The reason why nothing is served.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    /// The signals that end the server could not be waited for.
    #[error("failed to listen for signals")]
    Signals(#[source] io::Error),
    #[error("failed to listen on {address}")]
    Bind { address: SocketAddr, source: io::Error },
}

/// Serves over HTTP until a signal ends the server.
pub(crate) async fn serve(server: Arc<Server>, options: Options) -> Result<(), HttpError> {
    let mut signals = EndingSignals::listen().map_err(HttpError::Signals)?;
    let (listener, address) = bind(options.address)?;
    tracing::info!(target: ADDRESSES, clients = %format_args!("http://{address}/mcp"), "serving over HTTP");
    let admin = match options.admin {
        Some(address) => Some((bind_admin(address)?, Metrics::record())),
        None => None,
    };
    if let Some(store) = options.bearers.as_ref().and_then(Bearers::store) {
        server.set_tokens(store);
    }
    let draining = CancellationToken::new();
    let Options { hosts, origins, bearers, bounds, workers, .. } = options;
    let room = Arc::new(Room::new(options.user_share, options.user_concurrency));
    let scripts = Scripts::new(Arc::new(server.verifier()), bounds, workers);
    let names = hosts.clone();
    let front = Arc::new(Front {
        endpoint: Endpoint::new(Arc::clone(&server), options.is_sessionless, options.turn_deadline),
        hosts: Hosts::new(options.address, hosts, origins),
        callers: Callers::new(bearers.clone(), options.user_rate),
        room,
        scripts,
        complaints: Complaints::default(),
        held_back: Semaphore::new(front::HELD_BACK_MAX),
        draining: draining.clone(),
        ending: CancellationToken::new(),
    });

    let warm_up = Arc::clone(&server);
    let warm_up = tokio::spawn(async move { warm_up.warm_up().await });
    let main = Listener::start(listener, Service::Front(Arc::clone(&front)), draining.clone());
    // It ends last: probes see that the server is draining.
    let admin_stop = CancellationToken::new();
    let admin = admin.map(|(listener, metrics)| {
        let upkeep = AbortOnDropHandle::new(tokio::spawn(metrics.keep_up()));
        let admin = Admin {
            names,
            last_look: Mutex::default(),
            server: Arc::clone(&server),
            bearers,
            metrics,
            draining: draining.clone(),
        };
        let service = Service::Admin(Arc::new(admin));
        (Listener::start(listener, service, admin_stop.clone()), upkeep)
    });

    let name = signals.next().await;
    tracing::info!(signal = name, "draining");
    draining.cancel();
    tokio::select! {
        drained = timeout(options.drain, async { tokio::join!(main.drained(), server.drain()) }) => drop(drained),
        name = signals.next() => tracing::info!(signal = name, "ending at once"),
    }
    // Dropping it kills what it runs.
    warm_up.abort();
    end(&server, &front, &main, &mut signals).await;
    main.abort();
    admin_stop.cancel();
    if let Some((admin, _upkeep)) = admin {
        admin.abort();
    }
    Ok(())
}

/// Ends what is still in flight, and answers it.
async fn end(server: &Server, front: &Front, main: &Listener, signals: &mut EndingSignals) {
    front.endpoint.stop();
    front.scripts.stop();
    let ended = put_down(server, async {
        tokio::join!(front.endpoint.wait(), front.scripts.wait());
    });
    let answered = async {
        if timeout(GRACE_AFTER_CANCEL, main.drained()).await.is_err() {
            // What is left waits for something that does not come, such as the answer of a database.
            front.ending.cancel();
            tokio::select! {
                _ = timeout(GRACE_FOR_REFUSALS, main.drained()) => {}
                _ = signals.next() => {}
            }
        }
    };
    tokio::join!(ended, answered);
}

/// Listens on an address, which has to be free, and returns it with its port.
fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), HttpError> {
    let listener = listen(address).map_err(|source| HttpError::Bind { address, source })?;
    let address = listener.local_addr().unwrap_or(address);
    Ok((listener, address))
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A server that is started again listens although connections of the last one have not timed out.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Listens on the address of the second listener.
fn bind_admin(address: SocketAddr) -> Result<TcpListener, HttpError> {
    let (listener, address) = bind(address)?;
    tracing::info!(target: ADDRESSES, operators = %format_args!("http://{address}/metrics"), "serving over HTTP");
    if !address.ip().is_loopback() {
        tracing::warn!(
            "other machines can read the figures and probes of --admin, which needs no token; let only operators \
             reach it"
        );
    }
    Ok(listener)
}
