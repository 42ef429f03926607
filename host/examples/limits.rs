//! Ends two shell calls that would each sleep for a minute: the first by a limit, the second by its
//! token.
//!
//! ```text
//! cargo run --example limits -- /usr
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]

use std::env;
use std::error::Error;
use std::time::Duration;

use ikigai_host::{CancellationToken, Envelope, Host, Limit, Paths};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let prefix = env::args().nth(1).ok_or("usage: limits PREFIX")?;
    // These limits apply to every call of this host, unless a ceiling, the workspace or the table
    // `[tools."*"]` of a policy allows less.
    let host = Host::builder(".")
        .paths(Paths::of_installation(prefix))
        .timeout(Duration::from_secs(1))
        .memory(256 << 20)
        .build()?;
    let tools = host.refresh().await;
    let sleep = || r#"{"command": "sleep 60"}"#.into();

    let envelope = host.call(&tools, "bash", sleep(), CancellationToken::new()).await;
    let Envelope::Failure(failure) = envelope else { return Err("nothing ended the call".into()) };
    // If no limit ended the call, `failure.error` says why it failed.
    assert_eq!(failure.limit, Some(Limit::WallClock), "{}", failure.error);
    println!("{}", failure.error);

    // A server cancels the token when its caller disconnects. Dropping the future of the call, as
    // `tokio::time::timeout` does, also ends it, but without an envelope.
    let cancel = CancellationToken::new();
    let call = host.call(&tools, "bash", sleep(), cancel.clone());
    let (envelope, ()) = tokio::join!(call, async { cancel.cancel() });
    println!("{envelope}");
    Ok(())
}
