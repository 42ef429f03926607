//! The tools: found beside everything else, and told of when they are.

use std::future::Future;
use std::io;
use std::sync::Arc;

use super::out::Out;
use super::show::Show;
use ikigai_host::host::Host;
use ikigai_host::registry::{Depth, ScanState, Snapshot};

/// Discovery, and what it has to say.
pub(super) struct Tools {
    host: Arc<Host>,
    out: Out,
}

impl Tools {
    pub(super) fn new(host: Arc<Host>, out: Out) -> Self {
        Self { host, out }
    }

    /// Looks for tools, beside whatever goes on.
    pub(super) fn discover(&self) {
        let (host, out) = (Arc::clone(&self.host), self.out.clone());
        tokio::spawn(async move {
            let snapshot = host.registry().scan(Depth::Remembered).await;
            // A terminal that is gone is found out where something is read from it.
            let _ = out.line(&format_scan(&snapshot, ""));
        });
    }

    /// The tools, when they are known; shows that they are waited for. A component that is
    /// being compiled is not: its tool is there for a later prompt.
    pub(super) fn ready(
        &self,
        show: &Show,
    ) -> impl Future<Output = Option<Arc<Snapshot>>> + Send + use<> {
        let (host, show) = (Arc::clone(&self.host), show.clone());
        async move {
            let mut state = host.registry().state();
            let is_known = |state: &ScanState| {
                matches!(state, ScanState::Compiling | ScanState::Complete | ScanState::Failed)
            };
            if !is_known(&state.borrow()) {
                show.wait_for("looking for tools");
                // The registry lives as long as the host.
                let _ = state.wait_for(is_known).await;
                show.wait_no_longer();
            }
            Some(host.registry().snapshot())
        }
    }

    /// Looks again, asks every tool, and says what there is.
    pub(super) async fn refresh(&self) -> io::Result<()> {
        let busy = self.out.screen().busy("looking for tools")?;
        let snapshot = self.host.registry().scan(Depth::Everything).await;
        drop(busy);
        self.out.line(&format_scan(&snapshot, "Tools refreshed. "))
    }
}

/// What a scan found: warnings, a line for each file that is no tool, and how many there
/// are.
fn format_scan(snapshot: &Snapshot, before: &str) -> String {
    let warnings = snapshot.warnings().iter().map(|warning| format!("warning: {warning}\n"));
    let skipped = snapshot.skipped().iter().map(|skipped| format!("{}\n", skipped.line()));
    let mut text: String = warnings.chain(skipped).collect();
    let count = snapshot.tools().len();
    let tools = if count == 1 { "tool" } else { "tools" };
    text.push_str(&format!("{before}{count} {tools} available."));
    text
}
