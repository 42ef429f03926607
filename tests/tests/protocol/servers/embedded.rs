//! Servers of a program that embeds the host and connects to them in its own way.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ikigai_host::audit::Requester;
use ikigai_host::exec::mcp::{
    Attended, Connect, McpConnection, Remote, ServerAnswer, ServerCallError, ServerFuture,
    ServerStreams, ServerTools, ToolDescription,
};
use ikigai_host::{CancellationToken, Digest, Host, Paths, Snapshot};
use ikigai_tests::mode::permit;
use ikigai_tests::{leftovers, paths};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::servers::text;

/// A connector that numbers the connections.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Counting {
    fn open(&self, streams: Option<ServerStreams>) -> Result<Arc<dyn McpConnection>, String> {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Arc::new(Numbered { number, _streams: Mutex::new(streams) }))
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Connect for Counting {
    fn to_process(
        &self,
        streams: ServerStreams,
        _: Option<String>,
    ) -> ServerFuture<'static, Result<Arc<dyn McpConnection>, String>> {
        Box::pin(std::future::ready(self.open(Some(streams))))
    }

    fn to_remote(
        &self,
        _: Remote,
        _: Option<String>,
    ) -> ServerFuture<'static, Result<Arc<dyn McpConnection>, String>> {
        Box::pin(std::future::ready(self.open(None)))
    }
}

/// A connection to a server whose only tool answers with the number of the connection.
struct Numbered {
    number: usize,
    /// Open until the end.
    _streams: Mutex<Option<ServerStreams>>,
}

fn tool() -> ToolDescription {
    ToolDescription {
        name: "tool".to_owned(),
        title: None,
        description: String::new(),
        parameters: Map::new(),
        returns: None,
        annotations: None,
    }
}

impl McpConnection for Numbered {
    fn revision(&self) -> String {
        String::new()
    }

    fn tools(&self) -> ServerFuture<'_, Result<ServerTools, String>> {
        let tools = ServerTools { tools: vec![tool()], skipped: Vec::new() };
        Box::pin(std::future::ready(Ok(tools)))
    }

    fn call<'a>(
        &'a self,
        _: &'a str,
        _: Bytes,
        _: CancellationToken,
        _: &'a Attended<'a>,
    ) -> ServerFuture<'a, Result<ServerAnswer, ServerCallError>> {
        let block = json!({ "type": "text", "text": self.number.to_string() });
        let answer = json!({ "content": [block] }).to_string();
        Box::pin(std::future::ready(Ok(ServerAnswer(answer.into()))))
    }

    fn changed(&self) -> ServerFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn close(&self) -> ServerFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A host with the server `peer`, whose tool is approved.
struct Rig {
    scratch: TempDir,
    connect: Arc<Counting>,
    host: Arc<Host>,
}

impl Rig {
    /// Creates a host with this definition of a server, which uses HTTP or runs this program.
    fn new(scratch: TempDir, definition: &str, program: Option<&Path>) -> Self {
        let base = scratch.path().canonicalize().expect("there");
        for dir in ["tools", "work", "state", "cache"] {
            fs::create_dir(base.join(dir)).expect("a directory of the test");
        }
        fs::write(base.join("tools/peer.mcp.toml"), definition).expect("written");
        let program = program.map(|path| Digest::from_bytes(&fs::read(path).expect("read")));
        let contents = [Some(Digest::from_bytes(definition.as_bytes())), program];
        let contents = contents.into_iter().flatten().map(|it| it.to_string());
        let policy = format!(
            "[servers.peer]\nsha256 = {:?}\n[servers.peer.tools]\ntool = \"{}\"\n",
            contents.collect::<Vec<_>>(),
            tool().digest()
        );
        fs::write(base.join("policy.toml"), policy).expect("written");
        permit(base.join("policy.toml"), 0o600);
        let paths = Paths {
            system_tools: None,
            user_tools: Some(base.join("tools")),
            required: Vec::new(),
            system_cache: None,
            cache: Some(base.join("cache")),
            policy: Some(base.join("policy.toml")),
            ceiling: base.join("ceiling.toml"),
            home: None,
            state: Some(base.join("state")),
            config: None,
            data: None,
            supervisor: Some(paths::supervisor()),
            compiler: None,
        };
        let connect = Arc::new(Counting::default());
        let builder = Host::builder(base.join("work")).paths(paths);
        let host = builder.servers(Arc::clone(&connect) as Arc<dyn Connect>).build();
        Self { scratch, connect, host: host.expect("a host") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Returns the tools, after the server was asked for its list.
    async fn tools(&self) -> Arc<Snapshot> {
        self.host.refresh().await;
        self.host.registry().ask_servers().await;
        self.host.refresh().await
    }

    async fn call(&self, tools: &Snapshot, principal: Option<&str>) -> Value {
        let principal = principal.map(str::to_owned);
        let requester = Requester { principal, ..Requester::default() };
        let (arguments, cancel) = (Bytes::from_static(b"{}"), CancellationToken::new());
        let call = self.host.call_for(&requester, tools, "peer__tool", arguments, cancel, None);
        serde_json::from_str(&call.await.to_string()).expect("JSON")
    }
}

#[tokio::test]
async fn each_principal_has_a_connection_of_its_own() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let rig = Rig::new(scratch, "url = \"https://a.example/mcp\"\n", None);
    let tools = rig.tools().await;
    assert_eq!(rig.connect.count(), 1);
    for _ in 0..2 {
        // The user gets the connection on which the server was asked for its tools.
        for (principal, expected) in [(None, "1"), (Some("ada"), "2"), (Some("bob"), "3")] {
            let envelope = rig.call(&tools, principal).await;
            assert_eq!(text(&envelope), expected, "{principal:?}");
        }
    }
    assert_eq!(rig.connect.count(), 3);
}

#[tokio::test]
async fn no_call_reaches_a_server_whose_definition_is_another_one_by_now() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let definition = "url = \"https://a.example/mcp\"\n";
    let rig = Rig::new(scratch, definition, None);
    let tools = rig.tools().await;
    assert_eq!(text(&rig.call(&tools, None).await), "1");
    fs::write(rig.path("tools/peer.mcp.toml"), format!("{definition}# more\n")).expect("written");
    let refused = rig.call(&tools, None).await;
    assert_eq!(refused["error_code"], "PERMISSION_DENIED", "{refused}");
    fs::write(rig.path("tools/peer.mcp.toml"), definition).expect("written");
    assert_eq!(text(&rig.call(&tools, None).await), "1", "nobody has scanned meanwhile");
    fs::remove_file(rig.path("tools/peer.mcp.toml")).expect("removed");
    let refused = rig.call(&tools, None).await;
    assert_eq!(refused["tool_success"], false, "{refused}");
    // A scan notices that the file is gone.
    rig.host.refresh().await;
    fs::write(rig.path("tools/peer.mcp.toml"), definition).expect("written");
    assert_eq!(text(&rig.call(&tools, None).await), "2");
}

#[tokio::test]
async fn no_call_reaches_a_process_whose_program_is_another_one_by_now() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let program = scratch.path().canonicalize().expect("there").join("server");
    let install = |bytes: &[u8]| {
        // A running program's file cannot be written to, so it is replaced.
        let _ = fs::remove_file(&program);
        fs::write(&program, bytes).expect("written");
        permit(&program, 0o755);
    };
    // The program waits for the end of its stdin.
    let bytes = fs::read("/bin/cat").expect("read");
    install(&bytes);
    let rig = Rig::new(scratch, &format!("command = {program:?}\n"), Some(&program));
    let tools = rig.tools().await;
    assert_eq!(text(&rig.call(&tools, None).await), "1");
    install(&[&bytes[..], b"\0"].concat());
    let refused = rig.call(&tools, None).await;
    assert_eq!(refused["error_code"], "PERMISSION_DENIED", "{refused}");
    install(&bytes);
    assert_eq!(text(&rig.call(&tools, None).await), "1", "it runs on");
    let Rig { scratch, connect, host } = rig;
    assert_eq!(connect.count(), 1);
    drop((tools, host));
    let look = tokio::task::spawn_blocking(move || leftovers::assert_none(scratch.path()));
    look.await.expect("nothing is left");
}
