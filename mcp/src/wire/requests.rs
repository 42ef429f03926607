//! The requests of a client that are in flight, by their ids.

use std::collections::{HashSet, VecDeque};

use parking_lot::Mutex;
use rmcp::model::{ErrorData, RequestId};

/// The number of cancelled requests that are remembered. Their answers may still be on their way
/// inside the program, and must not be sent for other requests with the same ids.
const CANCELLED_REMEMBERED: usize = 1024;

/// The most requests of a connection in flight. More than the calls that may run and wait.
const IN_FLIGHT: usize = 2048;

/// The ids of one connection.
#[derive(Debug, Default)]
pub(crate) struct RequestIds(Mutex<InFlightRequests>);

#[derive(Debug, Default)]
struct InFlightRequests {
    in_flight: HashSet<RequestId>,
    cancelled: VecDeque<RequestId>,
}

impl InFlightRequests {
    fn taken(&self, id: &RequestId) -> Option<ErrorData> {
        let reason = if self.cancelled.contains(id) {
            "belonged to a request that was cancelled"
        } else if self.in_flight.contains(id) {
            "belongs to a request in flight"
        } else {
            return None;
        };
        let message = format!("the id {id} {reason}; use each id once");
        Some(ErrorData::invalid_request(message, None))
    }
}

/// The result of starting a request.
#[derive(Debug, PartialEq)]
pub(crate) enum RequestAdmission {
    /// Its id was free.
    Begun,
    /// Too many requests are in flight.
    Busy(RequestId, ErrorData),
    /// Its id is in use. The error is sent without an id, because the client would take it for the
    /// answer to the other request.
    Refused(ErrorData),
}

impl RequestIds {
    /// Records the start of a request.
    pub(crate) fn begin(&self, id: RequestId) -> RequestAdmission {
        let mut state = self.0.lock();
        if let Some(error) = state.taken(&id) {
            return RequestAdmission::Refused(error);
        }
        if state.in_flight.len() >= IN_FLIGHT {
            let error = ErrorData::internal_error("too many requests are in flight", None);
            return RequestAdmission::Busy(id, error);
        }
        state.in_flight.insert(id);
        RequestAdmission::Begun
    }

    /// Returns an error for a request with this id, if the client would take its answer for the
    /// answer to another request.
    pub(crate) fn taken(&self, id: &RequestId) -> Option<ErrorData> {
        self.0.lock().taken(id)
    }

    /// Records that a request was answered.
    pub(crate) fn end(&self, id: &RequestId) {
        self.0.lock().in_flight.remove(id);
    }

    /// Records that the client no longer wants the answer to a request.
    pub(crate) fn cancel(&self, id: RequestId) {
        let mut state = self.0.lock();
        if state.in_flight.remove(&id) {
            if state.cancelled.len() == CANCELLED_REMEMBERED {
                state.cancelled.pop_front();
            }
            state.cancelled.push_back(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_beyond_the_bound_is_answered_that_there_is_no_room() {
        let requests = RequestIds::default();
        let id = |number: usize| RequestId::Number(i64::try_from(number).expect("a small number"));
        for number in 0..IN_FLIGHT {
            assert_eq!(requests.begin(id(number)), RequestAdmission::Begun);
        }
        let beyond = requests.begin(id(IN_FLIGHT));
        assert!(matches!(&beyond, RequestAdmission::Busy(refused, _) if *refused == id(IN_FLIGHT)));
        // An answer and a cancellation make room. A refused request takes none.
        requests.end(&id(0));
        assert_eq!(requests.begin(id(IN_FLIGHT)), RequestAdmission::Begun);
        requests.cancel(id(1));
        assert_eq!(requests.begin(id(IN_FLIGHT + 1)), RequestAdmission::Begun);
        assert!(matches!(requests.begin(id(IN_FLIGHT + 2)), RequestAdmission::Busy(..)));
    }

    #[test]
    fn an_id_is_free_again_after_an_answer_and_not_after_a_cancellation() {
        let requests = RequestIds::default();
        let id = || RequestId::Number(1);
        let refused = |admission| matches!(admission, RequestAdmission::Refused(_));
        assert_eq!(requests.begin(id()), RequestAdmission::Begun);
        assert!(refused(requests.begin(id())));
        requests.end(&id());
        assert_eq!(requests.begin(id()), RequestAdmission::Begun);
        requests.cancel(id());
        assert!(refused(requests.begin(id())));
        // A request that has ended cannot be cancelled.
        assert_eq!(requests.begin(RequestId::Number(2)), RequestAdmission::Begun);
        requests.end(&RequestId::Number(2));
        requests.cancel(RequestId::Number(2));
        assert_eq!(requests.begin(RequestId::Number(2)), RequestAdmission::Begun);
    }
}
