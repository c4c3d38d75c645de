//! Connections: accepted within a bound, and ended where nothing comes or nobody reads.

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

/// The time for the head of a request, and the time for which a connection is kept between two of them.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The time in which a first request that was sent before the drain is read.
const FIRST_REQUEST_GRACE: Duration = Duration::from_millis(100);
/// Half the time in which a client that was not let in reads its last answer during the drain.
const STRANGER_GRACE: Duration = Duration::from_millis(500);
/// The time for which a client may not read what is written to it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of one connection that wait to be read or written.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 64;
/// The pause where no connection can be accepted, because there are no descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The pause where the tokens of as many connections are being looked up as there are places for strangers.
const SEAT_PAUSE: Duration = Duration::from_millis(5);

/// What answers the requests of a listener.
#[derive(Clone)]
pub(super) enum Service {
    Front(Arc<Front>),
    Admin(Arc<Admin>),
}

/// A listener and its connections.
pub(super) struct Listener {
    /// Those that were accepted before the drain.
    connections: TaskTracker,
    /// Ends connections at once.
    abort: CancellationToken,
}

impl Listener {
    /// Accepts connections until `abort` is called. Once `draining` is cancelled, existing connections end with
    /// the request that they are in, and new ones are served for one request: balancers that have not yet
    /// noticed the drain get an answer (503) instead of a refused connection.
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

    /// Returns when all connections have ended that were accepted before the drain.
    pub(super) async fn drained(&self) {
        self.connections.close();
        self.connections.wait().await;
    }

    /// Ends all connections, and accepts no more.
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
            // The drain does not wait for it: a client that sends nothing must not hold up the end.
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
        // So that what it has sent is read before the next one comes.
        yield_now().await;
    }
}

/// Serves a connection to its end: until the drain, or one request if there is a drain already.
async fn converse(
    stream: TcpStream,
    service: Service,
    seat: &Seat,
    draining: Option<&CancellationToken>,
) {
    // Answers are short, and waited for.
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
            // Whoever has sent no whole request yet may take seconds for it, and holds up nothing.
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

/// Returns when nobody was let in over a connection for a while: a client that sends requests without a token, and does
/// not read the answers, must not hold up the end.
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

    /// Notes a connection for which there is no room.
    fn complain(&self) {
        match self {
            Self::Front(front) => front.complaints.note("as many connections as there can be"),
            Self::Admin(_) => {}
        }
    }
}
