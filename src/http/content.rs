//! Bodies of responses: a whole text, server-sent events, or lines. Until a body is written, its request counts towards
//! the limits of requests and bytes.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::unfold;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::batch::AnswerLine;
use crate::server;
use crate::shares::Held;

/// The maximum size of a frame of a body. hyper takes the next frame only when its write buffer has free space. If a
/// client does not read, most of a large body therefore stays here, and its request still counts towards the limits.
const FRAME_BYTES: usize = 64 * 1024;

/// The interval of keep-alive comments on an idle stream. It is short, because proxies close a stream that is idle for
/// a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The body of a response.
pub(super) enum Content {
    Whole {
        rest: Bytes,
        /// The resources that are released when the text is written.
        _until_written: Box<dyn Send>,
    },
    Parts(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole { rest, .. } => {
                let length = rest.len().min(FRAME_BYTES);
                let frame = (length > 0).then(|| Ok(Frame::data(rest.split_to(length))));
                Poll::Ready(frame)
            }
            Self::Parts(parts) => {
                parts.as_mut().poll_next(context).map(|part| part.map(|part| Ok(Frame::data(part))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole { rest, .. } => rest.is_empty(),
            Self::Parts(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole { rest, .. } => {
                SizeHint::with_exact(u64::try_from(rest.len()).unwrap_or(u64::MAX))
            }
            Self::Parts(_) => SizeHint::default(),
        }
    }
}

/// Creates a response without a body.
pub(super) fn empty_response(status: StatusCode) -> Response<Content> {
    let content = Content::Whole { rest: Bytes::new(), _until_written: Box::new(()) };
    let mut response = Response::new(content);
    *response.status_mut() = status;
    response
}

/// Creates a response with JSON. `until_written` holds resources, which are released when the body is written.
pub(super) fn json_response(
    status: StatusCode,
    json: Vec<u8>,
    until_written: impl Send + 'static,
) -> Response<Content> {
    text_response(status, json, "application/json", until_written)
}

/// Creates a response with a text. `until_written` holds resources, which are released when the body is written.
pub(super) fn text_response(
    status: StatusCode,
    text: Vec<u8>,
    media_type: &'static str,
    until_written: impl Send + 'static,
) -> Response<Content> {
    let mut response = empty_response(status);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    *response.body_mut() =
        Content::Whole { rest: text.into(), _until_written: Box::new(until_written) };
    response
}

/// Creates a response of server-sent events, with one event for each message.
pub(super) fn event_response(messages: server::Stream) -> Response<Content> {
    let events = unfold(messages, |mut messages| async move {
        match timeout(KEEP_ALIVE, messages.next()).await {
            Ok(Some(json)) => {
                let mut event = b"event: message\ndata: ".to_vec();
                event.extend_from_slice(&json);
                event.extend_from_slice(b"\n\n");
                Some((Bytes::from(event), messages))
            }
            Ok(None) => None,
            Err(_silent) => Some((Bytes::from_static(b":\n\n"), messages)),
        }
    });
    parts_response("text/event-stream", events)
}

/// Creates a response that sends lines as they arrive. `until_read` is dropped after the last line, or when the client
/// disconnects.
pub(super) fn line_response(
    lines: mpsc::Receiver<AnswerLine>,
    until_read: impl Send + 'static,
) -> Response<Content> {
    // The connection requests a line only after it has written the previous line. So release the memory that is
    // reserved for the previous line.
    let lines = unfold((lines, until_read, None), |(mut lines, until_read, before)| async move {
        drop::<Option<Held>>(before);
        let AnswerLine { bytes, room } = lines.recv().await?;
        Some((Bytes::from(bytes), (lines, until_read, room)))
    });
    parts_response("application/x-ndjson", lines)
}

fn parts_response(
    media_type: &'static str,
    parts: impl Stream<Item = Bytes> + Send + 'static,
) -> Response<Content> {
    let mut response = Response::new(Content::Parts(Box::pin(parts)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Without this header, nginx buffers the stream.
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}
