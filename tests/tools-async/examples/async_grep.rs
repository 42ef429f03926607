//! `grep` as a component of WASI 0.3.

use wasip3::exports::cli::run::Guest;

wasip3::cli::command::export!(Grep);

struct Grep;

impl Guest for Grep {
    async fn run() -> Result<(), ()> {
        ikigai_test_async_tools::run("grep").await
    }
}
