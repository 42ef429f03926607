//! The tools of a host as a catalog.

use std::sync::Arc;
use std::time::Duration;

use ikigai_agent::about_bash;
use ikigai_host::Host;
use ikigai_host::nearest::nearest;
use ikigai_host::policy::{Backend, Decision, Effects};
use ikigai_host::registry::{ScanState, Snapshot, Tool};
use ikigai_mcp::{Catalog, ToolEntry, ToolHints};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::decision::without_sandbox;

/// Keywords that some clients refuse at the root of a schema, and then drop every tool of the
/// server. The list omits them; the host still checks them.
const NOT_AT_THE_ROOT: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// The longest time that a list waits for the first compilation of components. Clients wait some
/// ten seconds or more for a server, and many never ask again.
const COMPILING: Duration = Duration::from_secs(5);

/// The offered tools of a host.
pub(super) struct HostTools {
    pub(super) host: Arc<Host>,
    /// The names of the offered tools; if empty, all tools.
    names: Vec<String>,
    /// The most characters of a result.
    result_characters: usize,
    /// The catalog that was listed last.
    last: Mutex<Option<Arc<Catalog>>>,
}

impl HostTools {
    pub(super) fn new(host: Arc<Host>, names: Vec<String>, result_characters: usize) -> Self {
        Self { host, names, result_characters, last: Mutex::default() }
    }

    /// Returns whether a tool of this name is offered, if there is one.
    pub(super) fn is_offered(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|it| it == name)
    }

    /// Returns the catalog of the tools that are offered now.
    pub(super) async fn catalog(&self) -> Arc<Catalog> {
        let host = &self.host;
        // A list without the tools that are still compiling is better than no list. The client is
        // notified when they are ready.
        let snapshot = self.complete().await.unwrap_or_else(|| host.registry().snapshot());
        let offered = snapshot.tools().filter(|tool| self.is_offered(tool.name()));
        let entry = |tool| entry(host, tool, self.result_characters);
        let catalog = Catalog::new(offered.filter_map(entry).collect());
        let mut last = self.last.lock();
        match &*last {
            Some(last) if last.revision() == catalog.revision() => Arc::clone(last),
            _ => Arc::clone(last.insert(Arc::new(catalog))),
        }
    }

    /// Returns all tools, unless they take too long to compile.
    async fn complete(&self) -> Option<Arc<Snapshot>> {
        let mut state = self.host.registry().state();
        let is_complete =
            |state: &ScanState| matches!(state, ScanState::Complete | ScanState::Failed);
        let complete = async { state.wait_for(is_complete).await.is_ok() };
        tokio::time::timeout(COMPILING, complete).await.ok()?;
        Some(self.host.refresh().await)
    }

    /// Returns an error for the first name that no tool has. Does not wait for tools that take too
    /// long to compile.
    pub(super) async fn check_names(&self) -> Result<(), String> {
        if self.names.is_empty() {
            return Ok(());
        }
        let Some(snapshot) = self.complete().await else { return Ok(()) };
        match self.names.iter().find(|name| snapshot.get(name).is_none()) {
            None => Ok(()),
            Some(name) => {
                let nearest = nearest(name, snapshot.tools().map(Tool::name));
                let nearest =
                    nearest.map(|it| format!("; did you mean `{it}`?")).unwrap_or_default();
                Err(format!("there is no tool `{}` to offer{nearest}", name.escape_debug()))
            }
        }
    }

    /// Returns the revision of the catalog that was listed last, if there is one.
    pub(super) fn revision(&self) -> Option<u64> {
        let last = self.last.lock();
        last.as_ref().map(|catalog| catalog.revision())
    }

    /// Returns the snapshot with the tool of this name, which may have been installed just now.
    pub(super) async fn snapshot_with(&self, name: &str) -> Arc<Snapshot> {
        let snapshot = self.first_snapshot().await;
        if snapshot.get(name).is_some() { snapshot } else { self.host.refresh().await }
    }

    /// Returns the first snapshot, and waits until there is one.
    async fn first_snapshot(&self) -> Arc<Snapshot> {
        let host = &self.host;
        let mut state = host.registry().state();
        // The registry lives as long as the host.
        let _ = state
            .wait_for(|state| match state {
                ScanState::Compiling | ScanState::Complete | ScanState::Failed => true,
                ScanState::InProgress => host.registry().snapshot().tools().len() > 0,
                ScanState::NotStarted => false,
            })
            .await;
        host.registry().snapshot()
    }
}

/// Returns the entry of a tool; `None` for a tool that the policy denies with `deny = true`.
fn entry(host: &Host, tool: &Tool, result_characters: usize) -> Option<ToolEntry> {
    let schema = &tool.schema;
    let decided = host.decide(tool.into());
    if decided.as_ref().is_err_and(|denial| denial.is_by_deny) {
        return None;
    }
    let outside = decided.as_ref().ok().and_then(|decision| without_sandbox(tool, decision));
    let shell = decided.as_ref().ok().zip(about_bash(host, tool, false));
    let description = match (outside, shell) {
        (Some(outside), _) => format!("{}\n\n{outside}", schema.description),
        // Qwen Code shows the model only the first line until the model asks for the rest.
        (None, Some((decision, about))) => {
            format!("{}, {}\n\n{about}", schema.description, where_bash_runs(tool, decision))
        }
        (None, None) => schema.description.clone(),
    };
    let mut input = schema.parameters.as_object().cloned().unwrap_or_default();
    input.retain(|keyword, _| !NOT_AT_THE_ROOT.contains(&keyword.as_str()));
    Some(ToolEntry {
        name: schema.name.clone(),
        description,
        input: Arc::new(input),
        output: output(tool).cloned().map(Arc::new),
        result_characters,
        hints: match decided {
            Ok(decision) => {
                let Effects { writes, connects } = decision.effects(tool.build.backend());
                ToolHints { read_only: !writes && !connects, open_world: connects }
            }
            // The tool may be granted anything after this list was sent.
            Err(_) => ToolHints { read_only: false, open_world: true },
        },
    })
}

/// Returns the place in which `bash` runs commands, as the end of a sentence.
fn where_bash_runs(tool: &Tool, decision: &Decision) -> &'static str {
    // The component has no network, whatever is granted.
    if tool.build.backend() == Backend::Wasm || decision.grant.net.is_none() {
        "in a sandbox without a network"
    } else {
        "in a sandbox"
    }
}

/// Returns the schema of the tool's results, if they are objects.
pub(super) fn output(tool: &Tool) -> Option<&Map<String, Value>> {
    let returns = tool.schema.returns.as_ref()?.as_object()?;
    (returns.get("type").and_then(Value::as_str) == Some("object")).then_some(returns)
}
