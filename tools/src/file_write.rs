//! `file_write`: creates or overwrites a file or an asset with the given text.
//!
//! A file is written in place, so links, inode and mode stay; `file_edit` replaces atomically.

use crate::answer::{CallOutcome, JsonAnswer, ToolFailure};
use crate::args::Args;
use crate::ports::{Assets, Files, FsError, Storage, WriteFailure};
use crate::target::FileTarget;

/// Answers one call.
pub(crate) fn call<F: Files, A: Assets>(storage: &Storage<F, A>, args: &Args<'_>) -> CallOutcome {
    let target = args.string("file_path")?;
    let content = args.string("content")?;
    let target = FileTarget::named("file_path", target)?;
    match target {
        FileTarget::File(path) => write_file(&storage.files, path, content)?,
        FileTarget::Asset(uri) => {
            storage.assets.write(uri, content).map_err(ToolFailure::asset)?;
        }
    }
    let mut text = format!("Wrote {} bytes to ", content.len()).into_bytes();
    text.extend_from_slice(target.base_name());
    Ok(JsonAnswer::counted(&text, "bytes", content.len() as u64))
}

fn write_file<F: Files>(files: &F, path: &[u8], content: &str) -> Result<(), ToolFailure> {
    if path.is_empty() {
        return Err(ToolFailure::create(FsError::NotFound, path));
    }
    files.write(path, content.as_bytes()).map_err(|failure| match failure {
        WriteFailure::Open(error) => ToolFailure::create(error, path),
        WriteFailure::Write(error) => ToolFailure::write(error, path),
    })
}
