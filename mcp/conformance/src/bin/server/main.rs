//! `mcp-conformance-server`: a server over HTTP with the tools and resources that the protocol's
//! conformance suite expects of a server.
//!
//! It prints its URL on stdout. It ends when its stdin is closed, so that a killed test leaves
//! nothing behind. The server is the shipped one, with a different offer.

mod forms;
mod offer;
mod tools;

use std::io::Write as _;
use std::sync::Arc;

use anyhow::Context as _;
use ikigai_mcp::{ClientAccess, HttpSettings, ServerIdentity, serve_http};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::offer::Fixtures;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("no port is free")?;
    let address = listener.local_addr()?;
    writeln!(std::io::stdout(), "http://{address}/mcp")?;

    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let parent = tokio::spawn(async move {
        let mut rest = Vec::new();
        let read = tokio::io::stdin().read_to_end(&mut rest).await;
        stop.cancel();
        read
    });
    let fixtures = Arc::new(Fixtures::default());
    let server = ServerIdentity {
        name: "mcp-conformance-server".to_owned(),
        title: "Fixtures".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: "Tools for the conformance suite.".to_owned(),
    };
    let settings = HttpSettings::new(ClientAccess::Anyone);
    serve_http(listener, move |_| Arc::clone(&fixtures), server, settings, cancel).await?;
    parent.await?.context("stdin cannot be read")?;
    Ok(())
}
