//! Accepts a limited number of connections. Closes a connection if its client sends nothing or does not read.
//!
//! `axum::serve` is not used, because it has no settings for these limits: the number of unauthenticated connections,
//! the size of buffers, and the timeouts of reads, writes and the drain. Layers of tower-http cannot add them, because
//! they receive a request only after its head was read.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tokio::time::sleep;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admin::Admin;
use super::content::Content;
use super::front::Front;
use super::room::{Lobby, Seat};

/// The timeout for receiving a request's head. A connection that is idle for this time is also closed.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for which a connection without a request stays open when the drain starts. In this time, the server can
/// read a first request that the client has already sent.
const FIRST_REQUEST_GRACE: Duration = Duration::from_millis(100);
/// The interval at which the drain checks whether a connection is authenticated. A connection that is unauthenticated
/// at two checks in a row is closed.
const STRANGER_GRACE: Duration = Duration::from_millis(500);
/// The timeout of a write to a client that does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a connection's read buffer, and of its write buffer.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 64;
/// The pause after a connection could not be accepted, for example because file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The pause between two attempts to find a slot for a new connection. All slots are taken if the number of
/// unauthenticated connections is at its maximum and the server is checking a token for each of them.
const SEAT_PAUSE: Duration = Duration::from_millis(5);

/// The handler of a listener's requests.
#[derive(Clone)]
pub(super) enum Service {
    Front(Arc<Front>),
    Admin(Arc<Admin>),
}

/// A listener and its connections.
pub(super) struct Listener {
    /// The connections that were accepted before the drain. The drain waits for these connections.
    connections: TaskTracker,
    /// Cancelled when all connections must close at once.
    abort: CancellationToken,
}

impl Listener {
    /// Accepts connections until `abort` is called. After `draining` is cancelled, existing connections close after
    /// their current request. New connections are still accepted, and each is served for one request. Load balancers
    /// that have not noticed the drain therefore receive a response (503) instead of a refused connection.
    pub(super) fn start(
        listener: TcpListener,
        service: Service,
        draining: CancellationToken,
    ) -> Self {
        let (connections, abort) = (TaskTracker::new(), CancellationToken::new());
        let (tracker, ends) = (connections.clone(), abort.clone());
        tokio::spawn(async move {
            accept(listener, service, &tracker, &draining, &ends).await;
        });
        Self { connections, abort }
    }

    /// Returns when all connections that were accepted before the drain have ended.
    pub(super) async fn drained(&self) {
        self.connections.close();
        self.connections.wait().await;
    }

    /// Closes all connections, and stops accepting.
    pub(super) fn abort(&self) {
        self.abort.cancel();
    }
}

async fn accept(
    listener: TcpListener,
    service: Service,
    connections: &TaskTracker,
    draining: &CancellationToken,
    abort: &CancellationToken,
) {
    let lobby = Arc::new(Lobby::default());
    loop {
        let accepted = tokio::select! {
            biased;
            () = abort.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection cannot be accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let seat = loop {
            if let Some(seat) = Seat::new(&lobby) {
                break seat;
            }
            sleep(SEAT_PAUSE).await;
        };
        if seat.is_last() {
            service.complain();
        }
        let (service, abort) = (service.clone(), abort.clone());
        if draining.is_cancelled() {
            // The drain does not wait for this connection. A client that sends nothing therefore cannot delay the
            // shutdown.
            tokio::spawn(async move {
                let conversation = converse(stream, service, &seat, None);
                abort.run_until_cancelled(seat.ended().run_until_cancelled(conversation)).await;
            });
            continue;
        }
        let draining = draining.clone();
        connections.spawn(async move {
            let conversation = converse(stream, service, &seat, Some(&draining));
            abort.run_until_cancelled(seat.ended().run_until_cancelled(conversation)).await;
        });
        // Let the task of this connection read its request before the next connection is accepted. Otherwise, in a
        // flood of new connections, this connection could become the oldest unauthenticated one and be closed.
        yield_now().await;
    }
}

/// Serves a connection until the drain. `draining` is `None` if the drain has already begun. The connection then gets a
/// response to only one request.
async fn converse(
    stream: TcpStream,
    service: Service,
    seat: &Seat,
    draining: Option<&CancellationToken>,
) {
    // Disable Nagle's algorithm, because clients wait for the short responses.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIMEOUT));
    let mut stream = Box::pin(stream);
    let has_request = AtomicBool::new(false);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(draining.is_some())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(
            TokioIo::new(&mut stream),
            service_fn(|request| {
                has_request.store(true, Ordering::Relaxed);
                let service = service.clone();
                async move { Ok::<_, Infallible>(service.answer(request, seat).await) }
            }),
        );
    let mut connection = pin!(connection);
    let drained = async {
        match draining {
            Some(draining) => draining.cancelled().await,
            None => std::future::pending().await,
        }
        if !has_request.load(Ordering::Relaxed) {
            sleep(FIRST_REQUEST_GRACE).await;
        }
    };
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = drained => {
            connection.as_mut().graceful_shutdown();
            // A client that has sent only a part of a request may need seconds for the rest. Do not delay the shutdown
            // for such a client.
            if !has_request.load(Ordering::Relaxed) {
                return;
            }
            tokio::select! {
                biased;
                ended = connection.as_mut() => ended,
                () = remains_stranger(seat) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Returns when a connection has stayed unauthenticated for a while. The connection is then closed, so that a client
/// without a valid token cannot delay the shutdown by not reading its responses.
async fn remains_stranger(seat: &Seat) {
    let mut was_stranger = false;
    loop {
        sleep(STRANGER_GRACE).await;
        let is_stranger = seat.is_stranger();
        if was_stranger && is_stranger {
            return;
        }
        was_stranger = is_stranger;
    }
}

impl Service {
    async fn answer(&self, request: Request<Incoming>, seat: &Seat) -> Response<Content> {
        match self {
            Self::Front(front) => front.answer(request, seat).await,
            Self::Admin(admin) => {
                seat.ask();
                let response = admin.answer(&request).await;
                seat.stay();
                response
            }
        }
    }

    /// Logs that the limit of connections is reached.
    fn complain(&self) {
        match self {
            Self::Front(front) => front.complaints.note("all connections are in use"),
            Self::Admin(_) => {}
        }
    }
}
