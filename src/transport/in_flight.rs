//! The requests in flight: their number, their sizes and their ids. This module never carries out a request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    JsonRpcMessage, ProgressToken, RequestId, ServerJsonRpcMessage, ServerNotification,
};

use super::protocol_error::ProtocolError;
use crate::shares::Held;

/// The maximum number of requests in flight. Most clients have one or two requests in flight.
pub(super) const REQUESTS_MAX: usize = 256;

/// The maximum total size of the requests in flight, in bytes.
pub(super) const REQUEST_BYTES_MAX: usize = 32 * 1024 * 1024;

/// All requests in flight.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight {
    requests: Arc<Mutex<Requests>>,
}

#[derive(Debug, Default)]
struct Requests {
    by_id: HashMap<RequestId, Entry>,
    bytes: usize,
    admitted: u64,
}

/// A request in flight. A request is in flight until its handler has ended and its reply is sent or unwanted. Cancelled
/// requests with running handlers therefore still count towards the limits.
#[derive(Debug)]
struct Entry {
    /// The number of the request, which distinguishes it from earlier requests with the same id.
    number: u64,
    bytes: usize,
    progress: Option<ProgressToken>,
    is_handled: bool,
    is_answered: bool,
    /// The resources that are released when the request is no longer in flight.
    held: Vec<Held>,
}

/// The request that a message to the client is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    /// The message is the reply to a request. `number` is `None` if the request was cancelled and is no longer in
    /// flight.
    Reply { id: RequestId, number: Option<u64> },
    /// The message is about the progress of a request that is still running.
    Progress(ProgressToken),
    /// The message is about no request, or about a request that cannot be identified.
    Nothing,
}

/// The slot of a request in flight. The slot is stored in the extensions of the request. Dropping the last clone marks
/// the handler of the request as ended.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    guard: Arc<Guard>,
}

#[derive(Debug)]
struct Guard {
    in_flight: InFlight,
    id: RequestId,
}

/// The name of a request's connection. Only requests over HTTP have such a name. It is needed because a request's id
/// is unique only within its connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Connection(pub(crate) Arc<str>);

impl InFlight {
    /// Adds a request to the requests in flight, and returns its slot. Fails if a request with the same id is in
    /// flight, or if a limit is reached.
    pub(super) fn admit(
        &self,
        id: &RequestId,
        bytes: usize,
        progress: Option<ProgressToken>,
    ) -> Result<Slot, ProtocolError> {
        let mut requests = self.lock();
        if requests.by_id.contains_key(id) {
            let message = "Invalid Request: a request with this id is in flight";
            return Err(ProtocolError::invalid_request(Some(id.clone()), message));
        }
        if requests.by_id.len() >= REQUESTS_MAX || requests.bytes + bytes > REQUEST_BYTES_MAX {
            let message = format!(
                "Server busy: at most {REQUESTS_MAX} requests and {REQUEST_BYTES_MAX} bytes of \
                 them are in flight. Send this one again when others have been answered."
            );
            return Err(ProtocolError::busy(id.clone(), message));
        }
        requests.bytes += bytes;
        requests.admitted += 1;
        let entry = Entry {
            number: requests.admitted,
            bytes,
            progress,
            is_handled: false,
            is_answered: false,
            held: Vec::new(),
        };
        requests.by_id.insert(id.clone(), entry);
        let guard = Guard { in_flight: self.clone(), id: id.clone() };
        Ok(Slot { guard: Arc::new(guard) })
    }

    /// Records that the client no longer wants the reply or the progress of a request.
    pub(super) fn cancel(&self, id: &RequestId) {
        self.lock().change(id, |entry| entry.is_answered = true);
    }

    /// Returns the request that `message` is about. Call this when the message is created, because a later request may
    /// have the same id.
    pub(super) fn subject(&self, message: &ServerJsonRpcMessage) -> Subject {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Notification(message) => {
                let ServerNotification::ProgressNotification(progress) = &message.notification
                else {
                    return Subject::Nothing;
                };
                return Subject::Progress(progress.params.progress_token.clone());
            }
            JsonRpcMessage::Request(_) => None,
        };
        let Some(id) = id else { return Subject::Nothing };
        let number = self.lock().by_id.get(id).map(|entry| entry.number);
        Subject::Reply { id: id.clone(), number }
    }

    /// Returns whether the client still wants a message. Call this immediately before the message is sent. If the
    /// message is a reply, marks its request as answered. The client can use the id again as soon as it receives the
    /// reply.
    pub(super) fn wants(&self, subject: &Subject) -> bool {
        let mut requests = self.lock();
        match subject {
            Subject::Reply { id, number } => {
                let entry = requests.by_id.get(id);
                let is_wanted =
                    entry.is_some_and(|entry| Some(entry.number) == *number && !entry.is_answered);
                if is_wanted {
                    requests.change(id, |entry| entry.is_answered = true);
                }
                is_wanted
            }
            Subject::Progress(token) => requests
                .by_id
                .values()
                .any(|entry| !entry.is_answered && entry.progress.as_ref() == Some(token)),
            Subject::Nothing => true,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Requests {
    fn change(&mut self, id: &RequestId, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.by_id.get_mut(id) else { return };
        change(entry);
        if entry.is_handled && entry.is_answered {
            self.bytes -= entry.bytes;
            self.by_id.remove(id);
        }
    }
}

impl Slot {
    /// Keeps `held` until the request is no longer in flight.
    pub(crate) fn hold(&self, held: impl Into<Held>) {
        let mut requests = self.guard.in_flight.lock();
        if let Some(entry) = requests.by_id.get_mut(&self.guard.id) {
            entry.held.push(held.into());
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.in_flight.lock().change(&self.id, |entry| entry.is_handled = true);
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ProgressNotification, ProgressNotificationParam, ServerResult};

    use super::*;

    fn id(number: i64) -> RequestId {
        RequestId::Number(number)
    }

    fn admit(in_flight: &InFlight, number: i64, bytes: usize) -> Result<Slot, ProtocolError> {
        in_flight.admit(&id(number), bytes, None)
    }

    fn reply(in_flight: &InFlight, number: i64) -> Subject {
        in_flight.subject(&JsonRpcMessage::response(ServerResult::empty(()), id(number)))
    }

    fn progress(in_flight: &InFlight, number: i64) -> Subject {
        let params = ProgressNotificationParam::new(ProgressToken(id(number)), 1.0);
        let notification = ProgressNotification::new(params);
        in_flight.subject(&JsonRpcMessage::notification(notification.into()))
    }

    #[test]
    fn a_place_is_free_when_the_handler_has_ended_and_the_reply_goes_out() {
        for order in ["handled first", "answered first"] {
            let in_flight = InFlight::default();
            let slot = admit(&in_flight, 1, 10).unwrap();
            assert_eq!(admit(&in_flight, 1, 10).unwrap_err().code(), -32600, "{order}");
            if order == "handled first" {
                drop(slot);
                assert!(admit(&in_flight, 1, 10).is_err(), "{order}");
                assert!(in_flight.wants(&reply(&in_flight, 1)), "{order}");
            } else {
                in_flight.cancel(&id(1));
                assert!(admit(&in_flight, 1, 10).is_err(), "{order}");
                drop(slot);
            }
            assert!(admit(&in_flight, 1, 10).is_ok(), "{order}");
        }
    }

    #[test]
    fn a_reply_is_its_own_requests_only() {
        let in_flight = InFlight::default();
        drop(admit(&in_flight, 1, 10).unwrap());
        let first = reply(&in_flight, 1);
        // The client cancels the first request while its reply is queued, and then uses the id again.
        in_flight.cancel(&id(1));
        assert!(!in_flight.wants(&first));
        assert!(!in_flight.wants(&reply(&in_flight, 1)));
        let _slot = admit(&in_flight, 1, 10).unwrap();
        assert!(!in_flight.wants(&first));
        assert!(in_flight.wants(&reply(&in_flight, 1)));
        assert!(!in_flight.wants(&reply(&in_flight, 1)));
    }

    #[test]
    fn progress_is_wanted_until_the_reply_or_the_cancellation() {
        let in_flight = InFlight::default();
        let token = |number| Some(ProgressToken(id(number)));
        let _slots: Vec<_> =
            (1..=3).map(|n| in_flight.admit(&id(n), 1, token(10 * n)).unwrap()).collect();
        in_flight.cancel(&id(1));
        assert!(in_flight.wants(&reply(&in_flight, 2)));
        let wanted: Vec<_> =
            (0..=50).filter(|n| in_flight.wants(&progress(&in_flight, *n))).collect();
        assert_eq!(wanted, [30]);
    }

    #[test]
    fn requests_and_their_bytes_are_bounded() {
        let in_flight = InFlight::default();
        let slots: Vec<_> = (0..1000).map_while(|n| admit(&in_flight, n, 1).ok()).collect();
        assert_eq!(slots.len(), REQUESTS_MAX);

        let in_flight = InFlight::default();
        let _first = admit(&in_flight, 1, REQUEST_BYTES_MAX).unwrap();
        assert_eq!(admit(&in_flight, 2, 1).unwrap_err().code(), -32603);
    }

    #[test]
    fn the_bytes_of_a_request_are_free_when_it_is_through() {
        let in_flight = InFlight::default();
        for number in 1..=3 {
            let slot = admit(&in_flight, number, REQUEST_BYTES_MAX).unwrap();
            assert_eq!(admit(&in_flight, 9, 1).unwrap_err().code(), -32603);
            drop(slot);
            assert_eq!(admit(&in_flight, 9, 1).unwrap_err().code(), -32603);
            assert!(in_flight.wants(&reply(&in_flight, number)));
        }
        // The maximum size is for all requests together.
        let _half = admit(&in_flight, 1, REQUEST_BYTES_MAX - 1).unwrap();
        assert!(admit(&in_flight, 2, 2).is_err());
        assert!(admit(&in_flight, 2, 1).is_ok());
    }

    #[test]
    fn what_is_about_no_request_is_wanted() {
        assert!(InFlight::default().wants(&Subject::Nothing));
    }
}
