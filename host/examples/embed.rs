//! Calls a tool of an installation in the current directory, and prints its envelope. If no tool
//! has the name, prints the names of the tools that exist.
//!
//! ```text
//! cargo run --example embed -- /usr glob '{"pattern": "*.md"}'
//! ```
//!
//! `/usr` is the prefix of an ikigai installation, which `cargo xtask install --prefix DIR`
//! creates.

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
    // Tools work in the current directory. Policy, caches and the audit log are the user's.
    let host = Host::builder(".")
        .paths(Paths::of_installation(prefix))
        // A component is compiled before its first call, which may take seconds.
        .progress(|event| eprintln!("{event:?}"))
        .build()?;
    let tools = host.refresh().await;
    if tools.get(tool).is_none() {
        for tool in tools.tools() {
            eprintln!("there is {}: {}", tool.name(), tool.build.path.display());
        }
        for skipped in tools.skipped() {
            eprintln!("not used is {}: {}", skipped.path.display(), skipped.reason);
        }
    }
    // The call is answered and recorded even if no tool has the name.
    let arguments = arguments.clone().into();
    let envelope = host.call(&tools, tool, arguments, CancellationToken::new()).await;
    println!("{envelope}");
    Ok(())
}
