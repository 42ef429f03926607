//! The end of the tasks that a guest has started on the runtime of its thread and has dropped.
//!
//! A task that is dropped is aborted. It takes memory, and may hold a socket open, until the
//! runtime comes to it. While the guest computes, the runtime never does. So a lookup and an HTTP
//! request are dropped by waiting for the end of their task. The host cannot name the tasks that
//! wasmtime starts: [`finish_aborted`] is called before wasmtime starts the next of them. So a
//! guest has no more tasks than it has handles.

use tokio::runtime::Handle;
use tokio::task::yield_now;

/// Gives the current runtime turns until its aborted tasks are gone.
///
/// Tasks that wait for an event stay.
pub(super) async fn finish_aborted() {
    let metrics = Handle::current().metrics();
    let mut alive = metrics.num_alive_tasks();
    while alive > 0 {
        // A turn is for 61 tasks, and for the drivers.
        yield_now().await;
        let left = metrics.num_alive_tasks();
        if left >= alive {
            return;
        }
        alive = left;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use wasmtime_wasi::runtime::spawn;

    use super::*;

    #[tokio::test]
    async fn aborted_tasks_are_gone_and_one_that_waits_stays() {
        let waits = spawn(pending::<()>());
        drop((0..1_000).map(|_| spawn(pending::<()>())).collect::<Vec<_>>());
        let metrics = Handle::current().metrics();
        assert_eq!(metrics.num_alive_tasks(), 1_001);
        finish_aborted().await;
        assert_eq!(metrics.num_alive_tasks(), 1);
        drop(waits);
    }
}
