//! Ends calls by a limit and by hand. The shell of the installation would sleep for a minute.
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
    // What is asked for here holds for every call of this host, unless the policy of the user
    // or of the administrator allows less.
    let host = Host::builder(".")
        .paths(Paths::of_installation(prefix))
        .timeout(Duration::from_secs(1))
        .memory(256 << 20)
        .build()?;
    let tools = host.refresh().await;
    let sleep = || r#"{"command": "sleep 60"}"#.into();

    let envelope = host.call(&tools, "bash", sleep(), CancellationToken::new()).await;
    let Envelope::Failure(failure) = envelope else { return Err("nothing ended it".into()) };
    assert_eq!(failure.limit, Some(Limit::WallClock));
    println!("{}", failure.error);

    // Dropping the future of a call ends it likewise.
    let cancel = CancellationToken::new();
    let call = host.call(&tools, "bash", sleep(), cancel.clone());
    let (envelope, ()) = tokio::join!(call, async { cancel.cancel() });
    println!("{envelope}");
    Ok(())
}
