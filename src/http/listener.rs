//! Connections: accepted within a bound, and ended where nothing comes or nobody reads.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admin::Admin;
use super::content::Content;
use super::front::Front;

/// The most connections. Below the 1,024 descriptors that a process has by default, with room for the pipes
/// of runs.
const CONNECTIONS_MAX: usize = 512;
/// The time for the head of a request, and the time for which a connection is kept between two of them.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for which a client may not read what is written to it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of one connection that wait to be read or written.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 64;
/// The pause where no connection can be accepted, because there are no descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What answers the requests of a listener.
#[derive(Clone)]
pub(super) enum Service {
    Front(Arc<Front>),
    Admin(Arc<Admin>),
}

/// A listener and its connections.
pub(super) struct Listener {
    connections: TaskTracker,
    /// Ends connections at once.
    abort: CancellationToken,
}

impl Listener {
    /// Accepts connections until `draining` is cancelled; then those that there are end with the request that
    /// they are in.
    pub(super) fn start(
        listener: TcpListener,
        service: Service,
        draining: CancellationToken,
    ) -> Self {
        let (connections, abort) = (TaskTracker::new(), CancellationToken::new());
        let (tracker, ends) = (connections.clone(), abort.clone());
        connections.spawn(async move {
            accept(listener, service, &tracker, &draining, &ends).await;
        });
        Self { connections, abort }
    }

    /// Returns when all connections have ended.
    pub(super) async fn drained(&self) {
        self.connections.close();
        self.connections.wait().await;
    }

    /// Ends all connections.
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
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            biased;
            () = draining.cancelled() => return,
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
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            service.complain();
            continue;
        };
        let (service, draining, abort) = (service.clone(), draining.clone(), abort.clone());
        connections.spawn(async move {
            abort.run_until_cancelled(converse(stream, service, &draining)).await;
            drop(place);
        });
    }
}

/// Serves a connection to its end.
async fn converse(stream: TcpStream, service: Service, draining: &CancellationToken) {
    // Answers are short, and waited for.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIMEOUT));
    let mut stream = Box::pin(stream);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(
            TokioIo::new(&mut stream),
            service_fn(|request| {
                let service = service.clone();
                async move { Ok::<_, Infallible>(service.answer(request).await) }
            }),
        );
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = draining.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

impl Service {
    async fn answer(&self, request: Request<Incoming>) -> Response<Content> {
        match self {
            Self::Front(front) => front.answer(request).await,
            Self::Admin(admin) => admin.answer(&request).await,
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
