//! `file_read` as a component of WASI 0.3.

use wasip3::exports::cli::run::Guest;

wasip3::cli::command::export!(FileRead);

struct FileRead;

impl Guest for FileRead {
    async fn run() -> Result<(), ()> {
        ikigai_test_async_tools::run("file-read").await
    }
}
