//! A guest of WASI 0.3 that walks among files, takes more than it may, never ends, or ends badly.
//!
//! Each module has the modes of one kind. A component of 0.3 is one library, so all modes are in it.

mod endings;
mod network;
mod operations;
mod steps;
mod streams;
mod waits;
mod workspace;

use ikigai_test_guests::{Attempts, Order};

/// The schema.
const SCHEMA: &str = r#"{"name":"async_guest","description":"Takes more than it may, with WASI 0.3",
"parameters":{"type":"object","properties":{"path":{"type":"string"},"mode":{"type":"string","enum":[
"steps","operations","fine","spin","sleep","answer_then_hang","recurse","trap","panic","exit","fail",
"leave","flood_stdout","flood_stderr","pour_stdout","pour_stderr","random_bomb","collect","sum",
"write_on","kept","dropped","cancelled","cancelled_stdin","futures","drops","waits","texts","requests",
"long_names","copy_bomb"]}}}}"#;

wasip3::cli::command::export!(AsyncGuest);

struct AsyncGuest;

impl wasip3::exports::cli::run::Guest for AsyncGuest {
    async fn run() -> Result<(), ()> {
        let order = Order::read(SCHEMA);
        let mut attempts = Attempts::default();
        let path = order.path.as_str();
        match order.mode.as_str() {
            "operations" => {
                operations::perform().await;
                return Ok(());
            }
            mode if endings::is_one(mode) => return endings::end(mode, path).await,
            "steps" => steps::walk(&mut attempts, path).await,
            "collect" => streams::collect(&mut attempts, path).await,
            "sum" => streams::sum(&mut attempts, path).await,
            "write_on" => streams::write_on(path).await,
            "kept" => streams::keep(&mut attempts, path).await,
            "dropped" => streams::drop_all(&mut attempts, path).await,
            "cancelled" => streams::cancel(&mut attempts, path).await,
            "cancelled_stdin" => streams::cancel_stdin(&mut attempts).await,
            "futures" => streams::keep_futures(path).await,
            "drops" => network::drop_all(&mut attempts, path).await,
            "waits" => network::wait_for_all(&mut attempts).await,
            "texts" => network::offer_texts(&mut attempts).await,
            "requests" => network::keep_requests(&mut attempts),
            "long_names" => network::look_up_long_names(&mut attempts).await,
            "copy_bomb" => network::look_up_the_longest_name(&mut attempts).await,
            other => attempts.observe("error", &format!("there is no mode '{other}'")),
        }
        attempts.print();
        Ok(())
    }
}
