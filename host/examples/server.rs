//! Serves many callers at once: each line on stdin is `TOOL JSON`, each answer a line on stdout,
//! in the order in which calls end.
//!
//! ```text
//! printf 'glob {"pattern": "*.md"}\nglob {"pattern": "*.rs"}\n' | cargo run --example server -- /usr
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]

use std::env;
use std::error::Error;
use std::sync::Arc;

use ikigai_host::{CancellationToken, Host, Paths};
use tokio::io::{AsyncBufReadExt as _, BufReader, stdin};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let prefix = env::args().nth(1).ok_or("usage: server PREFIX")?;
    // At most eight components run at once, in 1 GiB together; further calls wait.
    let host =
        Host::builder(".").paths(Paths::of_installation(prefix)).components(8, 1 << 30).build()?;
    // A snapshot never changes. Who wants to see new tools refreshes, while calls go on.
    let tools = host.refresh().await;
    // Whoever ends this process by Ctrl-C ends what it started, too.
    let cancel = CancellationToken::new();
    let mut calls = JoinSet::new();
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let Some((tool, arguments)) = line.split_once(' ') else { continue };
        let (tool, arguments) = (tool.to_owned(), arguments.to_owned().into());
        let (host, tools, cancel) = (Arc::clone(&host), Arc::clone(&tools), cancel.child_token());
        calls.spawn(async move { host.call(&tools, &tool, arguments, cancel).await });
    }
    while let Some(envelope) = calls.join_next().await {
        println!("{}", envelope?);
    }
    Ok(())
}
