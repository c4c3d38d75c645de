//! A connection from its first line until the last process is dead.

use std::sync::Arc;
use std::time::Duration;

use rmcp::service::serve_directly_with_ct;
use rmcp::transport::stdio_pipes;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::transport::{ConnectionEvents, StdioTransport, hung_up};

use super::call::Server;
use super::handler::Handler;
use super::signature::Signed;

/// The time for calls in flight when the client has closed its side. The SDKs wait two seconds before
/// they send SIGTERM.
const GRACE_AFTER_INPUT: Duration = Duration::from_secs(1);
/// The time for killing and clearing up after that.
pub(crate) const GRACE_AFTER_CANCEL: Duration = Duration::from_millis(400);
/// The time for governed runs to be written down to their end: copying and listing thousands of files
/// takes as long as the disk does. A client that does not want to wait kills the server, and what is
/// not written down then is listed as unfinished.
const GRACE_FOR_GOVERNED: Duration = Duration::from_secs(30);
/// The time for the versions that a bill of materials lists to be looked up. Longer than that a client does not wait
/// before it kills the server, and then there is no bill at all.
const GRACE_FOR_VERSIONS: Duration = Duration::from_secs(2);
/// The time for the reply that is just being written to come to its end.
const GRACE_FOR_LINE: Duration = Duration::from_millis(50);

/// The reason why a connection could not be served.
#[derive(Debug, Error)]
pub(crate) enum ServeError {
    /// The signals that end the server could not be waited for.
    #[error("failed to listen for signals")]
    ListenForSignals(#[source] std::io::Error),
}

/// Serves the client on standard input and output until it is gone or a signal ends the server.
pub(crate) async fn serve(server: Arc<Server>) -> Result<(), ServeError> {
    let mut signals = EndingSignals::listen().map_err(ServeError::ListenForSignals)?;
    let events = ConnectionEvents::default();
    let cancel = CancellationToken::new();
    let (reader, writer) = stdio_pipes();
    let transport = StdioTransport::new(reader, writer, &events);

    // A tracker, because the end of its one task is waited for twice.
    let connection = TaskTracker::new();
    let warm_up = Arc::clone(&server);
    let warm_up = tokio::spawn(async move { warm_up.warm_up().await });
    let handler = Handler::new(Arc::clone(&server), events.input_ended.clone());
    connection.spawn(connect(handler, transport, cancel.clone()));
    connection.close();
    tokio::select! {
        () = connection.wait() => {}
        () = input_ended(&events) => {
            tracing::info!("the client has left calls behind");
            events.abandoned.cancel();
        }
        name = signals.next() => tracing::info!(signal = name, "ending"),
        () = events.output_closed.cancelled() => tracing::info!("nobody reads the replies"),
    }

    // Dropping it kills what it runs.
    warm_up.abort();
    // Handlers see this and kill what they run; so do the jobs.
    cancel.cancel();
    put_down(&server, connection.wait()).await;
    // A client that does not read gets no more of the line it is in.
    let _ = timeout(GRACE_FOR_LINE, events.finish_output()).await;
    Ok(())
}

/// Ends what the server runs, when its connections have been told to end, and returns when all of it is gone,
/// or had its time.
pub(crate) async fn put_down(server: &Server, connections: impl Future<Output = ()>) {
    let cleared = async { tokio::join!(connections, server.shut_down()) };
    let cleared = timeout(GRACE_AFTER_CANCEL, cleared).await;
    if let Some(governance) = &server.governance {
        // What is in the log as begun should be there as ended, too.
        let _ = timeout(GRACE_FOR_GOVERNED, governance.settle()).await;
    }
    if server.session.is_some()
        && timeout(GRACE_FOR_VERSIONS, server.scripts.settle()).await.is_err()
    {
        tracing::warn!("the bill of materials is incomplete: versions were not known in time");
    }
    if cleared.is_err() {
        // What is left ends with this process: supervisors see their sockets close.
        tracing::warn!("not everything ended in time");
    }
}

/// The connection itself, to the last reply.
///
/// Without rmcp's handshake, which chooses one era for the whole connection and ends on what it does
/// not expect. `initialize` is a request like any other, and the transport knows whether there was
/// one.
async fn connect<R, W>(handler: Handler, transport: StdioTransport<R, W>, cancel: CancellationToken)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let running = serve_directly_with_ct(Signed(handler), transport, None, cancel);
    if let Err(error) = running.waiting().await {
        tracing::error!(%error, "the connection stopped unexpectedly");
    }
}

/// Comes back when the client has closed its side, and its calls had their time. One that does not
/// read makes the transport wait before it has read to the end; then the hang-up tells.
async fn input_ended(events: &ConnectionEvents) {
    tokio::select! {
        () = events.input_ended.cancelled() => {}
        () = hung_up(std::io::stdin()) => {}
    }
    sleep(GRACE_AFTER_INPUT).await;
}

/// The signals that end the server.
pub(crate) struct EndingSignals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl EndingSignals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Returns the name of the next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}
