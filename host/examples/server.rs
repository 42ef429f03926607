//! Serves many callers at once: each line on stdin is `TOOL JSON`. When a call ends, prints a line
//! on stdout with the number of the line that asked, and the envelope.
//!
//! ```text
//! printf 'glob {"pattern": "*.md"}\nglob {"pattern": "*.rs"}\n' \
//!     | cargo run --example server -- /usr
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]

use std::env;
use std::error::Error;
use std::sync::Arc;

use ikigai_host::{CancellationToken, Host, Paths, Reactor};
use tokio::io::{AsyncBufReadExt as _, BufReader, stdin};
use tokio::task::JoinSet;

fn main() -> Result<(), Box<dyn Error>> {
    // The host's threads poll the tasks of this runtime, so that a short call is not handed to
    // them.
    Reactor::new()?.block_on(serve())
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let prefix = env::args().nth(1).ok_or("usage: server PREFIX")?;
    // At most eight components run at once, in 1 GiB together; further calls wait. Calls to native
    // tools don't count.
    let host = Host::builder(".")
        .paths(Paths::of_installation(prefix))
        .components(8)
        .components_memory(1 << 30)
        .build()?;
    // A snapshot never changes. A long-lived server calls `refresh` again to see new tools; other
    // calls continue in the meantime.
    let tools = host.refresh().await;
    let mut calls = JoinSet::new();
    let mut lines = BufReader::new(stdin()).lines();
    let mut read = 0_u64;
    let mut at_end = false;
    while !(at_end && calls.is_empty()) {
        tokio::select! {
            line = lines.next_line(), if !at_end => {
                let Some(line) = line? else {
                    at_end = true;
                    continue;
                };
                read += 1;
                let number = read;
                let (tool, arguments) = line.split_once(' ').unwrap_or((&line, "{}"));
                let (tool, arguments) = (tool.to_owned(), arguments.to_owned().into());
                let (host, tools) = (Arc::clone(&host), Arc::clone(&tools));
                // A server keeps the token of each call, and cancels it when the caller
                // disconnects. The end of this process, by Ctrl-C for example, ends all calls as
                // well.
                let cancel = CancellationToken::new();
                calls.spawn(async move {
                    (number, host.call(&tools, &tool, arguments, cancel).await)
                });
            }
            Some(ended) = calls.join_next() => {
                let (number, envelope) = ended?;
                println!("{number} {envelope}");
            }
        }
    }
    Ok(())
}
