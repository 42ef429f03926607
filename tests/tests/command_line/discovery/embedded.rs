//! A workspace's tools, which a program that embeds the host offers, and signatures of the found
//! files.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ikigai_host::policy::{Signatures, SignerRule, SignersInForce, ToolOrigin};
use ikigai_host::registry::ScanDepth;
use ikigai_host::{
    CancellationToken, CompileEvent, Digest, Host, HostBuilder, Paths, Snapshot, WorkspaceTool,
};
use ikigai_tests::component::{Ending, printing};
use ikigai_tests::host::{Host as Installation, schema};
use ikigai_tests::paths;

use super::shell_tool;

struct Rig {
    installation: Installation,
    approved: Arc<Mutex<Vec<WorkspaceTool>>>,
    compiled: Arc<AtomicUsize>,
}

impl Rig {
    fn new() -> Self {
        let installation = Installation::without_system_tools();
        Self { installation, approved: Arc::default(), compiled: Arc::default() }
    }

    /// Writes a tool into the directory of workspaces' tools, and returns its path and its digest.
    fn place(&self, extension: &str, content: impl AsRef<[u8]>) -> (PathBuf, Digest) {
        let digest = Digest::from_bytes(content.as_ref());
        let name = format!("data/tools/{digest}{extension}");
        (self.installation.write(name, content, 0o755), digest)
    }

    /// Writes a tool in the same way, and approves it under this name.
    fn approve(&self, name: &str, extension: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let (path, digest) = self.place(extension, content);
        self.add(name, path.clone(), digest);
        path
    }

    fn add(&self, name: &str, path: PathBuf, digest: Digest) {
        let tool = WorkspaceTool { name: name.to_owned(), path, digest };
        self.approved.lock().expect("no panic").push(tool);
    }

    fn builder(&self) -> HostBuilder {
        let scratch = self.installation.scratch();
        let paths = Paths {
            system_tools: Some(self.installation.system_tools()),
            user_tools: Some(self.installation.user_tools()),
            required: Vec::new(),
            system_cache: None,
            cache: Some(scratch.join("cache-of-embedder")),
            policy: Some(scratch.join("policy.toml")),
            ceiling: scratch.join("ceiling.toml"),
            home: None,
            state: Some(scratch.join("state")),
            config: None,
            data: Some(scratch.join("data")),
            supervisor: Some(paths::supervisor()),
            compiler: Some(paths::compiler()),
        };
        let (approved, compiled) = (Arc::clone(&self.approved), Arc::clone(&self.compiled));
        Host::builder(self.installation.workspace())
            .paths(paths)
            .workspace_tools(move || approved.lock().expect("no panic").clone())
            .progress(move |event| {
                let is_new = matches!(event, CompileEvent::Compiling(_));
                compiled.fetch_add(usize::from(is_new), Ordering::Relaxed);
            })
    }

    fn host(&self) -> Arc<Host> {
        self.builder().build().expect("a host")
    }

    fn policy(&self, text: &str) {
        self.installation.write("policy.toml", text, 0o600);
    }
}

fn component(name: &str) -> Vec<u8> {
    printing(schema(name), Ending::Well)
}

/// Returns the reason why a file was skipped, or an empty text if it was not.
fn reason(snapshot: &Snapshot, path: &std::path::Path) -> String {
    let skipped = snapshot.skipped().iter().find(|skipped| skipped.path == path);
    skipped.map_or_else(String::new, |skipped| skipped.reason.clone())
}

async fn call(host: &Arc<Host>, snapshot: &Snapshot, name: &str) -> serde_json::Value {
    let envelope = host.call(snapshot, name, "{}".into(), CancellationToken::new()).await;
    serde_json::from_str(&envelope.to_string()).expect("JSON")
}

#[tokio::test]
async fn a_tool_of_the_workspace_is_found_by_its_name_and_contents() {
    let rig = Rig::new();
    let path = rig.approve("weather", ".wasm", component("weather"));
    let script = rig.approve("tides", "", shell_tool("tides"));
    // The file's name is not the tool's name. The first scan for one tool compiles the file
    // nevertheless.
    let found = rig.host().look_up("weather").await;
    let tool = found.get("weather").unwrap_or_else(|| panic!("{:?}", found.skipped()));
    assert_eq!(
        (tool.source(), tool.origin, &tool.build.path),
        ("workspace", ToolOrigin::User, &path)
    );
    assert_eq!(rig.compiled.load(Ordering::Relaxed), 1);
    let host = rig.host();
    let all = host.refresh().await;
    assert_eq!(all.get("tides").map(|tool| &tool.build.path), Some(&script), "{:?}", all.skipped());
    assert_eq!(call(&host, &all, "weather").await["tool_success"], true);
    assert_eq!(rig.compiled.load(Ordering::Relaxed), 1, "the answer is remembered");
    // At the next scan, a tool that is no longer approved disappears.
    rig.approved.lock().expect("no panic").clear();
    let none = host.refresh().await;
    assert_eq!((none.tools().len(), none.skipped()), (0, &[][..]));
}

/// Returns the page faults of the children that this process has waited for (proc(5), `cminflt`).
/// The number grows once another child has run.
fn faults_of_children() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("/proc");
    let (_, fields) = stat.rsplit_once(')').expect("the name of the program");
    fields.split_whitespace().nth(8).and_then(|it| it.parse().ok()).expect("a number")
}

#[tokio::test]
async fn a_sandbox_that_held_is_not_tried_again_for_a_list() {
    let rig = Rig::new();
    let list = async || {
        let host = rig.host();
        host.registry().scan(ScanDepth::Failed).await;
        host.registry().is_confining().await
    };
    let before = faults_of_children();
    if !list().await {
        return ikigai_tests::impossible_here("no sandbox that holds");
    }
    assert!(faults_of_children() > before, "it is tried at first");
    // This process may have moved to another control group since then.
    assert!(list().await);
    let known = faults_of_children();
    assert!(list().await);
    assert_eq!(faults_of_children(), known, "something was started");
    rig.host().machine().await;
    assert!(faults_of_children() > known, "whoever wants to see it has it tried");
}

#[tokio::test]
async fn what_was_not_approved_is_skipped_with_its_reason() {
    let rig = Rig::new();
    let (changed, _) = rig.place(".wasm", component("changed"));
    rig.add("changed", changed.clone(), Digest::from_bytes(b"what was approved"));
    let renamed = rig.approve("weather", ".wasm", component("tides"));
    let server = rig.approve("peer", ".mcp.toml", "url = \"https://a.example/mcp\"\n");
    let broken = rig.approve("broken", ".wasm", "no component");
    let missing = rig.installation.scratch().join("data/tools/missing.wasm");
    rig.add("missing", missing.clone(), Digest::from_bytes(b""));
    let twice = rig.approve("twice", ".wasm", component("twice"));
    let again = rig.approve("twice", "", shell_tool("twice"));
    let snapshot = rig.host().refresh().await;
    let names: Vec<_> = snapshot.tools().map(|tool| tool.build.path.clone()).collect();
    assert_eq!(names, [twice], "{:?}", snapshot.skipped());
    for (path, part) in [
        (&changed, "is not the file that was approved for this workspace: its sha256 is"),
        (&renamed, "its schema has the name `tides`, and `weather` was approved"),
        (&server, "it defines a server"),
        (&broken, "does not compile"),
        (&missing, "No such file"),
        (&again, "the workspace has another tool named `twice`"),
    ] {
        let said = reason(&snapshot, path);
        assert!(said.contains(part), "{part}: {said:?}");
    }
}

#[tokio::test]
async fn a_tool_of_the_workspace_takes_no_name_of_the_installation() {
    let rig = Rig::new();
    let mut refused = vec![rig.approve("installed", ".wasm", component("installed"))];
    rig.installation.write("system-tools/installed", shell_tool("installed"), 0o755);
    // A failed tool keeps its name as well. If a user's tool replaces it, the name does not become
    // free.
    rig.installation.write("system-tools/out-of-order.wasm", "damaged", 0o644);
    refused.push(rig.approve("out_of_order", "", shell_tool("out_of_order")));
    rig.installation.write("system-tools/other-name", shell_tool("replaced"), 0o755);
    rig.installation.script("replaced", "echo '{}'");
    refused.push(rig.approve("replaced", "", shell_tool("replaced")));
    // No tool is installed under this name, but it is a built-in tool's name.
    refused.push(rig.approve("file_write", "", shell_tool("file_write")));
    for snapshot in [rig.host().refresh().await, rig.host().look_up("installed").await] {
        for path in &refused {
            let said = reason(&snapshot, path);
            assert!(said.contains("is the name of an installed tool"), "{path:?}: {said:?}");
        }
        assert!(snapshot.tools().all(|tool| tool.source() != "workspace"));
    }
    let snapshot = rig.host().refresh().await;
    assert_eq!(snapshot.get("installed").map(ikigai_host::Tool::source), Some("system"));
    assert_eq!(snapshot.get("replaced").map(ikigai_host::Tool::source), Some("user"));
}

#[tokio::test]
async fn a_tool_of_the_workspace_goes_before_the_users() {
    let rig = Rig::new();
    let users = rig.installation.script("weather", "echo '{}'");
    let path = rig.approve("weather", "", shell_tool("weather"));
    for snapshot in [rig.host().refresh().await, rig.host().look_up("weather").await] {
        assert_eq!(snapshot.get("weather").map(|tool| &tool.build.path), Some(&path));
        let said = reason(&snapshot, &users);
        assert!(said.contains("of the workspace with the same name replaces it"), "{said:?}");
    }
    rig.policy("[tools.weather]\nbackend = \"wasm\"\n");
    let snapshot = rig.host().refresh().await;
    let said = reason(&snapshot, &path);
    assert!(said.contains("its only build is native, and the backend is set to wasm"), "{said:?}");
}

/// Admits only these contents.
#[derive(Default)]
struct Admitted(BTreeSet<Digest>);

impl Signatures for Admitted {
    fn check(&self, _: &SignerRule) -> Result<(), String> {
        Ok(())
    }

    fn admit(
        &self,
        tool: &str,
        contents: &[Digest],
        _: &Arc<SignersInForce>,
    ) -> Result<(), String> {
        let is_signed = contents.iter().all(|digest| self.0.contains(digest));
        if is_signed { Ok(()) } else { Err(format!("`{tool}` is not signed")) }
    }
}

#[tokio::test]
async fn the_build_that_runs_is_the_one_that_is_signed() {
    let rig = Rig::new();
    let wasm = component("two");
    let (native, component_digest) = (shell_tool("two"), Digest::from_bytes(&wasm));
    rig.installation.program("two.wasm", &wasm);
    let script = rig.installation.write("user-tools/two", &native, 0o755);
    rig.approve("weather", ".wasm", component("weather"));
    let signed = |digests: &[Digest]| {
        let admitted = Arc::new(Admitted(digests.iter().copied().collect()));
        rig.builder().signatures(admitted).build().expect("a host")
    };
    let denied = async |host: &Arc<Host>, name: &str| {
        let snapshot = host.refresh().await;
        let envelope = call(host, &snapshot, name).await;
        let is_denied = envelope["error_code"] == "PERMISSION_DENIED";
        assert!(is_denied || envelope["tool_success"] == true, "{envelope}");
        is_denied
    };
    rig.policy("require_signed = true\n");
    let host = signed(&[component_digest]);
    assert!(!denied(&host, "two").await);
    // A workspace's tools are its user's tools.
    assert!(denied(&host, "weather").await);
    assert!(denied(&signed(&[Digest::from_bytes(native.as_bytes())]), "two").await);
    rig.policy("require_signed = true\n[tools.two]\nbackend = \"native\"\n");
    assert!(denied(&host, "two").await, "its native build is not signed");
    let host = signed(&[Digest::from_bytes(native.as_bytes())]);
    assert!(!denied(&host, "two").await);
    // The contents at the time of the call count, even if no scan saw them.
    let snapshot = host.refresh().await;
    fs::write(&script, format!("{native}# changed\n")).expect("written");
    let envelope = call(&host, &snapshot, "two").await;
    assert_eq!(envelope["error_code"], "PERMISSION_DENIED", "{envelope}");
}
