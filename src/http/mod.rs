//! Serves MCP messages over HTTP, for protocol versions with and without a handshake. Also serves the scripts that
//! pipelines (programs without MCP) send.
//!
//! `listener` accepts a limited number of connections. `front` applies the same checks to every request in a fixed
//! order: Host and Origin (`hosts`), the caller (`callers`), limits (`room`). Then `front` passes the request to
//! `messages` or `scripts`. `content` builds the responses. `admin` is a second listener for admins, with the metrics
//! of `prometheus`. TLS is the task of a reverse proxy.

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
use crate::server::{
    EndingSignals, Endpoint, GRACE_AFTER_CANCEL, Server, end_runs, remove_incomplete,
};
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

/// The length of the kernel's queue of connections that are not accepted yet. `net.core.somaxconn` may lower this
/// length (listen(2)). A queue with the usual length of 128 is too short, because one client that opens connections
/// without a pause fills it at once. The kernel would then drop connections of other clients, which retry only after a
/// second.
const BACKLOG: u32 = 4096;
/// The time at shutdown for sending refusals to requests that did not end after they were cancelled.
const GRACE_FOR_REFUSALS: Duration = Duration::from_secs(2);

/// The options of the HTTP server.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) address: SocketAddr,
    /// The address of the listener for admins.
    pub(crate) admin: Option<SocketAddr>,
    /// The host names by which clients reach the server, in addition to the names of this machine.
    pub(crate) hosts: Vec<String>,
    /// The origins of the web pages that may reach the server from a browser.
    pub(crate) origins: Vec<String>,
    pub(crate) is_sessionless: bool,
    /// The tokens that the server accepts. `None` accepts every caller.
    pub(crate) bearers: Option<Bearers>,
    /// The share of each limit (requests, bytes and connections) that one user may take.
    pub(crate) user_share: Share,
    /// The maximum number of requests in flight of one user. `None` if the maximum is the user's share (`user_share`).
    pub(crate) user_concurrency: Option<usize>,
    /// The maximum number of requests per second of one user.
    pub(crate) user_rate: Option<u32>,
    /// The time that requests in flight have to finish when the server drains.
    pub(crate) drain: Duration,
    /// The limits for scripts of pipelines.
    pub(crate) bounds: Bounds,
    /// The maximum number of scripts of one batch that run at once.
    pub(crate) workers: usize,
    /// The maximum time that a call waits for the start of its run, if its client cannot cancel the call. Only tests
    /// set this time.
    pub(crate) turn_deadline: Option<Duration>,
}

/// The reason why the server cannot start.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    /// The signal handlers could not be installed.
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
    server.start_jobs();
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
    // The admin listener stops after the main listener, so that probes can notice the drain.
    let admin_stop = CancellationToken::new();
    let admin = admin.map(|(listener, metrics)| {
        let upkeep = AbortOnDropHandle::new(tokio::spawn(metrics.run_upkeep()));
        let admin = Admin {
            names,
            last_readiness: Mutex::default(),
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
        name = signals.next() => tracing::info!(signal = name, "ending immediately"),
    }
    // Aborting the task drops its future, which kills the processes that the task has started.
    warm_up.abort();
    end(&server, &front, &main, &mut signals).await;
    main.abort();
    admin_stop.cancel();
    if let Some((admin, _upkeep)) = admin {
        admin.abort();
    }
    Ok(())
}

/// Cancels the requests that are still in flight, and sends their responses.
async fn end(server: &Server, front: &Front, main: &Listener, signals: &mut EndingSignals) {
    front.endpoint.stop();
    front.scripts.stop();
    let ended = end_runs(server, async {
        tokio::join!(front.endpoint.wait(), front.scripts.wait());
    });
    let answered = async {
        if timeout(GRACE_AFTER_CANCEL, main.drained()).await.is_err() {
            // Refuse the remaining requests, because they may wait forever, for example for a reply of a database.
            front.ending.cancel();
            tokio::select! {
                _ = timeout(GRACE_FOR_REFUSALS, main.drained()) => {}
                _ = signals.next() => {}
            }
        }
    };
    tokio::join!(ended, answered);
    remove_incomplete(server).await;
}

/// Listens on an address. Returns the listener, and the address with the port that the kernel assigned.
fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), HttpError> {
    let listener = listen(address).map_err(|source| HttpError::Bind { address, source })?;
    let address = listener.local_addr().unwrap_or(address);
    Ok((listener, address))
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Let a restarted server listen while connections of the previous server are still in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Listens on the address for admins. Warns if other machines can reach the address.
fn bind_admin(address: SocketAddr) -> Result<TcpListener, HttpError> {
    let (listener, address) = bind(address)?;
    tracing::info!(target: ADDRESSES, operators = %format_args!("http://{address}/metrics"), "serving over HTTP");
    if !address.ip().is_loopback() {
        tracing::warn!(
            "other machines can reach --admin, which needs no token; let only admins reach it"
        );
    }
    Ok(listener)
}
