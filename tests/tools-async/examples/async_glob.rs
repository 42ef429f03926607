//! `glob` as a component of WASI 0.3.

use wasip3::exports::cli::run::Guest;

wasip3::cli::command::export!(Glob);

struct Glob;

impl Guest for Glob {
    async fn run() -> Result<(), ()> {
        ikigai_test_async_tools::run("glob").await
    }
}
