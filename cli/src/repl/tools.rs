//! Discovery of tools in the background, and its result on the screen.

use std::future::Future;
use std::io;
use std::sync::Arc;

use super::out::Out;
use super::show::Show;
use ikigai_host::host::Host;
use ikigai_host::registry::{KnownServer, ScanDepth, ScanState, Snapshot};

/// The tools of the REPL.
pub(super) struct ReplTools {
    host: Arc<Host>,
    out: Out,
}

impl ReplTools {
    pub(super) fn new(host: Arc<Host>, out: Out) -> Self {
        Self { host, out }
    }

    /// Starts discovery in the background.
    pub(super) fn discover(&self) {
        let (host, out) = (Arc::clone(&self.host), self.out.clone());
        tokio::spawn(async move {
            let snapshot = host.registry().scan(ScanDepth::Remembered).await;
            // If the terminal is gone, the next read fails.
            let _ = out.line(&format_scan(&snapshot, ""));
            let mut changes = host.registry().server_changes();
            host.registry().ask_servers().await;
            while changes.changed().await.is_ok() {
                host.registry().scan(ScanDepth::Remembered).await;
            }
        });
    }

    /// Returns the tools once discovery has found them, and shows that ikigai waits for it. Does
    /// not wait for components that are being compiled: their tools are available for a later
    /// prompt.
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
                show.stop_waiting();
            }
            Some(host.registry().snapshot())
        }
    }

    /// Returns the tools once discovery has found all of them, including tools that had to be
    /// compiled.
    pub(super) fn found(&self) -> impl Future<Output = Arc<Snapshot>> + Send + use<> {
        let host = Arc::clone(&self.host);
        async move {
            let mut state = host.registry().state();
            // The registry lives as long as the host.
            let _ = state
                .wait_for(|state| matches!(state, ScanState::Complete | ScanState::Failed))
                .await;
            host.registry().snapshot()
        }
    }

    /// Runs discovery again, asks every tool for its schema, and shows the result.
    pub(super) async fn refresh(&self) -> io::Result<()> {
        let busy = self.out.screen().busy("looking for tools")?;
        let snapshot = self.host.registry().scan(ScanDepth::Everything).await;
        drop(busy);
        self.out.line(&format_scan(&snapshot, "Tools refreshed. "))
    }
}

/// Returns the result of a scan as text: its warnings, a line for each file that is not a tool,
/// and the number of tools.
fn format_scan(snapshot: &Snapshot, before: &str) -> String {
    let warnings = snapshot.warnings().iter().map(|warning| format!("warning: {warning}\n"));
    let skipped = snapshot.skipped().iter().map(|skipped| format!("{}\n", skipped.line()));
    let servers = snapshot.servers().iter().filter_map(KnownServer::complaint);
    let servers = servers.map(|line| format!("{line}\n"));
    let mut text: String = warnings.chain(skipped).chain(servers).collect();
    let count = snapshot.tools().len();
    let tools = if count == 1 { "tool" } else { "tools" };
    text.push_str(&format!("{before}{count} {tools} available."));
    text
}
