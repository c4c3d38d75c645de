//! The requests that are being worked on: how many, of which size, under which ids.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;
use tokio::sync::OwnedSemaphorePermit;

use super::message::ProtocolError;

/// How many requests are in flight at most. Clients have one or two; a hundred is a test.
pub(super) const REQUESTS_MAX: usize = 256;

/// How many bytes the lines of these requests have together at most.
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
}

/// One request. It is in flight until its handler has ended, and its reply is written or will never
/// be: a client that cancels and cancels still has no more than its share of running handlers.
#[derive(Debug)]
struct Entry {
    bytes: usize,
    is_handled: bool,
    is_answered: bool,
    /// What is given back when the request is through.
    held: Vec<OwnedSemaphorePermit>,
}

/// A request's place. It travels with the request; the handler has ended when the last copy is
/// dropped.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    guard: Arc<Guard>,
}

#[derive(Debug)]
struct Guard {
    in_flight: InFlight,
    id: RequestId,
}

impl InFlight {
    /// A place for the request, unless its id is taken or there are too many.
    pub(super) fn admit(&self, id: &RequestId, bytes: usize) -> Result<Slot, ProtocolError> {
        let mut requests = self.lock();
        if requests.by_id.contains_key(id) {
            return Err(ProtocolError::duplicate_id(id.clone()));
        }
        if requests.by_id.len() >= REQUESTS_MAX || requests.bytes + bytes > REQUEST_BYTES_MAX {
            return Err(ProtocolError::busy(id.clone()));
        }
        requests.bytes += bytes;
        let entry = Entry { bytes, is_handled: false, is_answered: false, held: Vec::new() };
        requests.by_id.insert(id.clone(), entry);
        let guard = Guard { in_flight: self.clone(), id: id.clone() };
        Ok(Slot { guard: Arc::new(guard) })
    }

    /// The reply to the request is out.
    pub(super) fn answered(&self, id: &RequestId) {
        self.lock().change(id, |entry| entry.is_answered = true);
    }

    /// The client does not want the reply any more; rmcp will not send it.
    pub(super) fn cancel(&self, id: &RequestId) {
        self.answered(id);
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
    /// Keeps `permit` until the reply is out.
    pub(crate) fn hold(&self, permit: OwnedSemaphorePermit) {
        let mut requests = self.guard.in_flight.lock();
        if let Some(entry) = requests.by_id.get_mut(&self.guard.id) {
            entry.held.push(permit);
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
    use super::*;

    fn id(number: i64) -> RequestId {
        RequestId::Number(number)
    }

    #[test]
    fn a_place_is_free_when_the_handler_has_ended_and_the_reply_is_out() {
        for order in ["handled first", "answered first"] {
            let in_flight = InFlight::default();
            let slot = in_flight.admit(&id(1), 10).unwrap();
            assert_eq!(in_flight.admit(&id(1), 10).unwrap_err().code(), -32600, "{order}");
            if order == "handled first" {
                drop(slot);
                assert!(in_flight.admit(&id(1), 10).is_err(), "{order}");
                in_flight.answered(&id(1));
            } else {
                in_flight.cancel(&id(1));
                assert!(in_flight.admit(&id(1), 10).is_err(), "{order}");
                drop(slot);
            }
            assert!(in_flight.admit(&id(1), 10).is_ok(), "{order}");
        }
    }

    #[test]
    fn requests_and_their_bytes_are_bounded() {
        let in_flight = InFlight::default();
        let slots: Vec<_> = (0..).map_while(|n| in_flight.admit(&id(n), 1).ok()).collect();
        assert_eq!(slots.len(), REQUESTS_MAX);

        let in_flight = InFlight::default();
        let _first = in_flight.admit(&id(1), REQUEST_BYTES_MAX).unwrap();
        assert_eq!(in_flight.admit(&id(2), 1).unwrap_err().code(), -32603);
    }
}
