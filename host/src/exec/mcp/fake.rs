//! Servers without a protocol, for the tests of the servers that are in use.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use ikigai_protocol::Digest;
use serde_json::Map;
use tokio_util::sync::CancellationToken;

use super::{
    Attended, Auth, Connect, DefinedServer, McpConnection, Remote, ServerAnswer, ServerCallError,
    ServerFuture, ServerStreams, ServerTarget, ServerTools, ToolDescription,
};
use crate::exec::Call;
use crate::exec::output::Sink;

/// The request that a server never answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum StuckRequest {
    #[default]
    Nothing,
    Opening,
    List,
    /// The second list, after it announced that the first one changed.
    SecondList,
}

/// Connects to servers over HTTP, each with one tool, which is never called.
#[derive(Default)]
pub(super) struct Fake {
    pub(super) stuck: StuckRequest,
    pub(super) connections: AtomicUsize,
    /// Cancelled when a connection was closed.
    pub(super) closed: CancellationToken,
}

impl Connect for Fake {
    fn to_process(
        &self,
        _: ServerStreams,
        _: Option<String>,
    ) -> ServerFuture<'static, Result<Arc<dyn McpConnection>, String>> {
        unreachable!("no server is a process here")
    }

    fn to_remote(
        &self,
        _: Remote,
        _: Option<String>,
    ) -> ServerFuture<'static, Result<Arc<dyn McpConnection>, String>> {
        if self.stuck == StuckRequest::Opening {
            return Box::pin(std::future::pending());
        }
        self.connections.fetch_add(1, Ordering::Relaxed);
        let (has_listed, has_changed) = (AtomicBool::new(false), AtomicBool::new(false));
        let closed = self.closed.clone();
        let opened = FakeConnection { stuck: self.stuck, has_listed, has_changed, closed };
        Box::pin(std::future::ready(Ok(Arc::new(opened) as Arc<dyn McpConnection>)))
    }
}

struct FakeConnection {
    stuck: StuckRequest,
    has_listed: AtomicBool,
    has_changed: AtomicBool,
    closed: CancellationToken,
}

impl McpConnection for FakeConnection {
    fn revision(&self) -> String {
        String::new()
    }

    fn tools(&self) -> ServerFuture<'_, Result<ServerTools, String>> {
        let is_first = !self.has_listed.swap(true, Ordering::Relaxed);
        match self.stuck {
            StuckRequest::List => return Box::pin(std::future::pending()),
            StuckRequest::SecondList if !is_first => return Box::pin(std::future::pending()),
            _ => {}
        }
        let tool = ToolDescription {
            name: "tool".to_owned(),
            title: None,
            description: String::new(),
            parameters: Map::new(),
            returns: None,
            annotations: None,
        };
        let tools = ServerTools { tools: vec![tool], skipped: Vec::new() };
        Box::pin(std::future::ready(Ok(tools)))
    }

    fn call<'a>(
        &'a self,
        _: &'a str,
        _: Bytes,
        _: CancellationToken,
        _: &'a Attended<'a>,
    ) -> ServerFuture<'a, Result<ServerAnswer, ServerCallError>> {
        unreachable!("nothing is called here")
    }

    fn changed(&self) -> ServerFuture<'_, ()> {
        if self.stuck == StuckRequest::SecondList && !self.has_changed.swap(true, Ordering::Relaxed)
        {
            return Box::pin(std::future::ready(()));
        }
        Box::pin(std::future::pending())
    }

    fn close(&self) -> ServerFuture<'_, ()> {
        self.closed.cancel();
        Box::pin(std::future::ready(()))
    }
}

/// Returns a server over HTTP.
pub(super) fn server() -> DefinedServer {
    let target = ServerTarget::Remote { url: "https://a.example".to_owned(), auth: Auth::None };
    DefinedServer { name: "peer".to_owned(), digest: Digest::from_bytes(b"peer"), target }
}

/// Returns a call for a principal.
pub(super) fn call_of(principal: Option<&str>) -> Call {
    Call { stderr: Sink::Tail(0), principal: principal.map(Arc::from), ..Call::new(Path::new("/")) }
}
