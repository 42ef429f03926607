//! Calls a tool of an installation, and prints its envelope.
//!
//! ```text
//! cargo run --example embed -- /usr glob '{"pattern": "*.md"}'
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]

use std::env;
use std::error::Error;

use ikigai_host::{CancellationToken, Host, Paths};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [prefix, tool, arguments] = &words[..] else {
        return Err("usage: embed PREFIX TOOL JSON".into());
    };
    // The workspace is the current directory. Policy, caches and the audit log are the user's.
    let host = Host::builder(".")
        .paths(Paths::of_installation(prefix))
        .progress(|event| eprintln!("{event:?}"))
        .build()?;
    let tools = host.refresh().await;
    let arguments = arguments.clone().into();
    let envelope = host.call(&tools, tool, arguments, CancellationToken::new()).await;
    println!("{envelope}");
    Ok(())
}
