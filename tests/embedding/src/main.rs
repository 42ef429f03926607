//! Finds a native tool and a component below a prefix, calls both under limits, and prints two
//! envelopes.

#![allow(clippy::print_stdout, reason = "what it prints is read by its test")]

use std::time::Duration;

use ikigai_host::{CancellationToken, Host, Paths};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(prefix), Some(workspace)) = (words.next(), words.next()) else {
        return Err("usage: embedding PREFIX WORKSPACE".into());
    };
    let host = Host::builder(workspace)
        .paths(Paths::of_installation(prefix))
        .timeout(Duration::from_secs(20))
        .memory(256 << 20)
        .build()?;
    let tools = host.refresh().await;
    for tool in ["bash", "glob"] {
        let arguments = match tool {
            "bash" => r#"{"command": "ulimit -d"}"#,
            _ => r#"{"pattern": "*"}"#,
        };
        let envelope = host.call(&tools, tool, arguments.into(), CancellationToken::new()).await;
        println!("{envelope}");
    }
    Ok(())
}
