//! `file_write` as a component of WASI 0.3.

use wasip3::exports::cli::run::Guest;

wasip3::cli::command::export!(FileWrite);

struct FileWrite;

impl Guest for FileWrite {
    async fn run() -> Result<(), ()> {
        ikigai_test_async_tools::run("file-write").await
    }
}
