//! Servers without a protocol, for the tests of the servers that are in use.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use ikigai_protocol::Digest;
use serde_json::Map;
use tokio_util::sync::CancellationToken;

use super::{
    Answer, Attended, Auth, CallError, Connect, Connection, Remote, Server, ServerAnswer,
    ServerStreams, ServerTools, Target, ToolDescription,
};
use crate::exec::output::Sink;
use crate::exec::{Call, Stdin};
use crate::limits::{Deadline, Limits};
use crate::policy::Grant;

/// The request that a server never answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Stuck {
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
    pub(super) stuck: Stuck,
    pub(super) connections: AtomicUsize,
    /// Cancelled when a connection was closed.
    pub(super) closed: CancellationToken,
}

impl Connect for Fake {
    fn to_process(
        &self,
        _: ServerStreams,
        _: Option<String>,
    ) -> Answer<'static, Result<Arc<dyn Connection>, String>> {
        unreachable!("no server is a process here")
    }

    fn to_remote(
        &self,
        _: Remote,
        _: Option<String>,
    ) -> Answer<'static, Result<Arc<dyn Connection>, String>> {
        if self.stuck == Stuck::Opening {
            return Box::pin(std::future::pending());
        }
        self.connections.fetch_add(1, Ordering::Relaxed);
        let (has_listed, has_changed) = (AtomicBool::new(false), AtomicBool::new(false));
        let closed = self.closed.clone();
        let opened = Opened { stuck: self.stuck, has_listed, has_changed, closed };
        Box::pin(std::future::ready(Ok(Arc::new(opened) as Arc<dyn Connection>)))
    }
}

struct Opened {
    stuck: Stuck,
    has_listed: AtomicBool,
    has_changed: AtomicBool,
    closed: CancellationToken,
}

impl Connection for Opened {
    fn revision(&self) -> String {
        String::new()
    }

    fn tools(&self) -> Answer<'_, Result<ServerTools, String>> {
        let is_first = !self.has_listed.swap(true, Ordering::Relaxed);
        match self.stuck {
            Stuck::List => return Box::pin(std::future::pending()),
            Stuck::SecondList if !is_first => return Box::pin(std::future::pending()),
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
    ) -> Answer<'a, Result<ServerAnswer, CallError>> {
        unreachable!("nothing is called here")
    }

    fn changed(&self) -> Answer<'_, ()> {
        if self.stuck == Stuck::SecondList && !self.has_changed.swap(true, Ordering::Relaxed) {
            return Box::pin(std::future::ready(()));
        }
        Box::pin(std::future::pending())
    }

    fn close(&self) -> Answer<'_, ()> {
        self.closed.cancel();
        Box::pin(std::future::ready(()))
    }
}

/// Returns a server over HTTP.
pub(super) fn server() -> Server {
    let target = Target::Remote { url: "https://a.example".to_owned(), auth: Auth::None };
    Server { name: "peer".to_owned(), digest: Digest::from_bytes(b"peer"), target }
}

/// Returns a call for a principal.
pub(super) fn call_of(principal: Option<&str>) -> Call {
    Call {
        args: Vec::new(),
        stdin: Stdin::Bytes(Bytes::new()),
        stdout: Sink::Head,
        stderr: Sink::Tail(0),
        grant: Arc::new(Grant::default()),
        principal: principal.map(Arc::from),
        front_end: None,
        widening: None,
        assets: None,
        workspace: Path::new("/").into(),
        limits: Limits::default(),
        deadline: Deadline::default(),
        cancel: CancellationToken::new(),
    }
}
