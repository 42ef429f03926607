//! A gate at which an answer waits until the test opens it.

use std::sync::Arc;

use tokio::sync::watch;

/// A point in an answer that waits to be opened. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<watch::Sender<State>>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    arrived: usize,
    is_open: bool,
}

impl Gate {
    /// Creates a closed gate.
    #[must_use]
    pub fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(State::default())))
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        self.0.send_modify(|state| state.is_open = true);
    }

    /// Waits until an answer reaches the gate. Everything before the gate has been sent then.
    pub async fn reached(&self) {
        self.reached_by(1).await;
    }

    /// Waits until this many answers have reached the gate.
    pub async fn reached_by(&self, answers: usize) {
        self.wait(|state| state.arrived >= answers).await;
    }

    pub(crate) async fn pass(&self) {
        self.0.send_modify(|state| state.arrived += 1);
        self.wait(|state| state.is_open).await;
    }

    async fn wait(&self, is_so: impl Fn(&State) -> bool) {
        let mut states = self.0.subscribe();
        // The sender is in `self`, so that it cannot be closed.
        let _ = states.wait_for(is_so).await;
    }
}
