//! `file_edit` as a component of WASI 0.3.

use wasip3::exports::cli::run::Guest;

wasip3::cli::command::export!(FileEdit);

struct FileEdit;

impl Guest for FileEdit {
    async fn run() -> Result<(), ()> {
        ikigai_test_async_tools::run("file-edit").await
    }
}
