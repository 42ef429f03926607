//! `file_write`: creates or overwrites a file with the given text.
//!
//! In place, so links, inode and mode stay; atomic replacement is `file_edit`'s.

use crate::answer::{Answer, Failure, Outcome};
use crate::args::Args;
use crate::ports::{Files, FsError, WriteFailure};
use crate::target;

/// Answers one call.
pub(crate) fn call<F: Files>(files: &F, args: &Args<'_>) -> Outcome {
    let path = args.string("file_path")?;
    let content = args.string("content")?;
    let path = target::file_path("file_path", path)?;
    if path.is_empty() {
        return Err(Failure::create(FsError::NotFound, path));
    }
    files.write(path, content.as_bytes()).map_err(|failure| match failure {
        WriteFailure::Open(error) => Failure::create(error, path),
        WriteFailure::Write(error) => Failure::write(error, path),
    })?;
    let mut text = format!("Wrote {} bytes to ", content.len()).into_bytes();
    text.extend_from_slice(target::base_name(path));
    Ok(Answer::counted(&text, "bytes", content.len() as u64))
}
