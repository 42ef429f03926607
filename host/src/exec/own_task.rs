//! The task of a call. Another thread may poll a call in place of its task, until the call asks its
//! front end.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

use crate::front_end::AnswerFuture;

thread_local! {
    static IS_ELSEWHERE: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread polls a call in place of its task.
pub(super) fn is_elsewhere() -> bool {
    IS_ELSEWHERE.get()
}

/// Calls `poll`, which polls a call in place of its task and does not panic.
pub(super) fn poll_elsewhere<T>(poll: impl FnOnce() -> T) -> T {
    IS_ELSEWHERE.set(true);
    let polled = poll();
    IS_ELSEWHERE.set(false);
    polled
}

/// Has a call go back to its task.
pub(super) async fn leave() {
    poll_fn(|_| if is_elsewhere() { Poll::Pending } else { Poll::Ready(()) }).await;
}

/// Asks the front end of a call on the call's own task. The answer may take minutes, and the front
/// end may depend on the task.
pub(crate) async fn put_question<'a, T>(ask: impl FnOnce() -> AnswerFuture<'a, T>) -> T {
    leave().await;
    ask().await
}
