//! A point at which an answer stops until the test lets it go on.

use std::sync::Arc;

use tokio::sync::watch;

/// Where an answer waits. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<watch::Sender<State>>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    arrived: usize,
    is_open: bool,
}

impl Gate {
    /// A gate that nothing passes yet.
    #[must_use]
    pub fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(State::default())))
    }

    /// Lets everything pass, now and later.
    pub fn open(&self) {
        self.0.send_modify(|state| state.is_open = true);
    }

    /// Waits until an answer has come this far: everything before the gate is sent.
    pub async fn reached(&self) {
        self.reached_by(1).await;
    }

    /// Waits until so many answers have come this far.
    pub async fn reached_by(&self, answers: usize) {
        self.wait(|state| state.arrived >= answers).await;
    }

    pub(crate) async fn pass(&self) {
        self.0.send_modify(|state| state.arrived += 1);
        self.wait(|state| state.is_open).await;
    }

    async fn wait(&self, is_so: impl Fn(&State) -> bool) {
        let mut states = self.0.subscribe();
        // The sender lives in `self`, so that it cannot be gone.
        let _ = states.wait_for(is_so).await;
    }
}
