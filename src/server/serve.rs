//! Serves a connection over stdio, from the client's first message until the processes that the server has started have
//! ended. This module never reads messages itself. The transport does.

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

use crate::transport::{ConnectionEvents, StdioTransport, hung_up, make_room};

use super::call::Server;
use super::handler::Handler;
use super::signature::Signed;

/// The time that calls in flight have to finish after the client has closed standard input. SDKs wait two seconds
/// before they send SIGTERM.
const GRACE_AFTER_INPUT: Duration = Duration::from_secs(1);
/// The time for killing runs and cleaning up, after the calls were cancelled.
pub(crate) const GRACE_AFTER_CANCEL: Duration = Duration::from_millis(400);
/// The time for recording governed runs completely. Copying and listing thousands of files takes as long as the disk
/// needs. A client that does not want to wait kills the server. A run that is not recorded in this time is listed as
/// unfinished.
const GRACE_FOR_GOVERNED: Duration = Duration::from_secs(30);
/// The time for looking up the versions that a bill of materials lists. It is short, because a client that does not
/// want to wait kills the server. Then no bill of materials is written.
const GRACE_FOR_VERSIONS: Duration = Duration::from_secs(2);
/// The time for removing an incomplete environment with thousands of files. A client that does not want to wait kills
/// the server.
const GRACE_FOR_ENVIRONMENT: Duration = Duration::from_secs(5);
/// The time for completing the line that is being written. On a busy machine, a client may read nothing for a while.
/// `GRACE_AFTER_INPUT`, `GRACE_AFTER_CANCEL` and this time together are shorter than the two seconds that SDKs wait.
const GRACE_FOR_LINE: Duration = Duration::from_millis(500);

#[derive(Debug, Error)]
pub(crate) enum ServeError {
    /// The server could not listen for the signals that end it.
    #[error("failed to listen for signals")]
    ListenForSignals(#[source] std::io::Error),
}

/// Serves the client on standard input and output, until the client is gone or a signal ends the server.
pub(crate) async fn serve(server: Arc<Server>) -> Result<(), ServeError> {
    let mut signals = EndingSignals::listen().map_err(ServeError::ListenForSignals)?;
    let events = ConnectionEvents::default();
    let cancel = CancellationToken::new();
    make_room(std::io::stdout());
    let (reader, writer) = stdio_pipes();
    let transport = StdioTransport::new(reader, writer, &events);

    // This tracker has only one task. A tracker is used because its end is awaited twice below.
    let connection = TaskTracker::new();
    let warm_up = Arc::clone(&server);
    let warm_up = tokio::spawn(async move { warm_up.warm_up().await });
    let handler = Handler::new(Arc::clone(&server), events.input_ended.clone());
    connection.spawn(connect(handler, transport, cancel.clone()));
    connection.close();
    tokio::select! {
        () = connection.wait() => {}
        () = input_ended(&events) => {
            tracing::info!("the client closed the connection before all calls were answered");
            events.abandoned.cancel();
        }
        name = signals.next() => tracing::info!(signal = name, "ending"),
        () = events.output_closed.cancelled() => tracing::info!("the client does not read replies any more"),
    }

    // Aborting the task drops its future, which kills the processes that the task has started.
    warm_up.abort();
    // This cancellation makes the handlers of calls kill their runs. `end_runs` ends the jobs.
    cancel.cancel();
    end_runs(&server, connection.wait()).await;
    // Complete the line that is being written. If the client does not read, the line stays incomplete.
    let _ = timeout(GRACE_FOR_LINE, events.finish_output()).await;
    remove_incomplete(&server).await;
    Ok(())
}

/// Waits until an incomplete environment is removed. The next process that makes an environment removes any remaining
/// files.
pub(crate) async fn remove_incomplete(server: &Server) {
    let _ = timeout(GRACE_FOR_ENVIRONMENT, server.scripts.remove_incomplete()).await;
}

/// Ends the runs of the server. The caller must have cancelled all connections. The future `connections` completes when
/// the connections have ended. Returns when all runs and connections have ended, or after a timeout.
pub(crate) async fn end_runs(server: &Server, connections: impl Future<Output = ()>) {
    let cleared = async { tokio::join!(connections, server.shut_down()) };
    let cleared = timeout(GRACE_AFTER_CANCEL, cleared).await;
    if let Some(governance) = &server.governance {
        // Wait until governed runs are recorded. If the start of a run is in the audit log, its end should also be
        // there.
        let _ = timeout(GRACE_FOR_GOVERNED, governance.settle()).await;
    }
    if server.session.is_some()
        && timeout(GRACE_FOR_VERSIONS, server.scripts.settle()).await.is_err()
    {
        tracing::warn!("the bill of materials is incomplete: versions were not known in time");
    }
    if cleared.is_err() {
        // The remaining processes end with this process, because their supervisors notice that their sockets are
        // closed.
        tracing::warn!("some processes did not end in time");
    }
}

/// Serves the connection until the last reply is written.
///
/// rmcp's own handshake is not used, because it chooses one era for the whole connection and ends on unexpected
/// messages. This server handles `initialize` like any other request, and the transport records whether `initialize`
/// has arrived.
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

/// Waits until the client has closed standard input, and then until the calls in flight have had time to finish. If the
/// client does not read replies, the transport stops reading before the end of the input. In this case, a hang-up of
/// the pipe shows that the client is gone.
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

    /// Returns the name of the next signal. Cancel-safe.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}
