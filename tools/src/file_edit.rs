//! `file_edit`: replaces exact byte sequences in a regular file or an asset, atomically.
//!
//! In an asset the host replaces the sequences, so that no other change can come between. In a file
//! this module matches and counts. The port's `replace` makes the change atomic and keeps mode and
//! owner.

use std::io::Read as _;

use ikigai_protocol::ToolCode;
use memchr::memmem::Finder;

use crate::answer::{CallOutcome, JsonAnswer, ToolFailure};
use crate::args::Args;
use crate::ports::{Assets, FileKind, Files, FsError, Storage};
use crate::target::FileTarget;

/// Answers one call.
pub(crate) fn call<F: Files, A: Assets>(storage: &Storage<F, A>, args: &Args<'_>) -> CallOutcome {
    let target = args.string("file_path")?;
    let old = args.string("old_string")?;
    let new = args.string("new_string")?;
    let replace_all = args.boolean("replace_all")?.unwrap_or(false);
    if old.is_empty() {
        return Err(ToolFailure::new(ToolCode::InvalidArg, "old_string cannot be empty"));
    }
    if old == new {
        return Err(ToolFailure::new(
            ToolCode::InvalidArg,
            "old_string and new_string are identical",
        ));
    }
    let target = FileTarget::named("file_path", target)?;
    let count = match target {
        FileTarget::File(path) => edit_file(&storage.files, path, old, new, replace_all)? as u64,
        FileTarget::Asset(uri) => {
            storage.assets.edit(uri, old, new, replace_all).map_err(ToolFailure::asset)?
        }
    };
    let noun = if count == 1 { "occurrence" } else { "occurrences" };
    let mut text = format!("Replaced {count} {noun} in ").into_bytes();
    text.extend_from_slice(target.base_name());
    Ok(JsonAnswer::counted(&text, "replacements", count))
}

fn edit_file<F: Files>(
    files: &F,
    path: &[u8],
    old: &str,
    new: &str,
    replace_all: bool,
) -> Result<usize, ToolFailure> {
    let before = read(files, path)?;
    let finder = Finder::new(old);
    let count = finder.find_iter(&before).count();
    match count {
        1 => {}
        0 if replace_all => {}
        0 => return Err(ToolFailure::new(ToolCode::NotFound, "String not found in file")),
        _ if replace_all => {}
        _ => {
            let message = format!("String found {count} times, use replace_all to replace all");
            return Err(ToolFailure::new(ToolCode::NotUnique, message));
        }
    }
    if count > 0 {
        let after = replaced(&before, &finder, new.as_bytes(), count)?;
        drop(before);
        files.replace(path, &after).map_err(|error| match error {
            // The file was removed, or replaced by something else, since it was read.
            FsError::NotFound | FsError::NotRegular => ToolFailure::open(error, path),
            _ => ToolFailure::write(error, path),
        })?;
    }
    Ok(count)
}

fn read<F: Files>(files: &F, path: &[u8]) -> Result<Vec<u8>, ToolFailure> {
    if path.is_empty() {
        return Err(ToolFailure::open(FsError::NotFound, path));
    }
    let mut opened = files.open(path).map_err(|error| ToolFailure::open(error, path))?;
    if opened.kind != FileKind::Regular {
        return Err(ToolFailure::open(FsError::NotRegular, path));
    }
    let mut contents = Vec::new();
    let size = usize::try_from(opened.size).map_err(|_| ToolFailure::no_memory())?;
    contents.try_reserve_exact(size).map_err(|_| ToolFailure::no_memory())?;
    match opened.file.read_to_end(&mut contents) {
        Ok(_) => Ok(contents),
        Err(error) if error.kind() == std::io::ErrorKind::OutOfMemory => {
            Err(ToolFailure::no_memory())
        }
        Err(_) => Err(ToolFailure::read(path)),
    }
}

fn replaced(
    before: &[u8],
    finder: &Finder<'_>,
    new: &[u8],
    count: usize,
) -> Result<Vec<u8>, ToolFailure> {
    let kept = before.len() - count * finder.needle().len();
    let size = count.checked_mul(new.len()).and_then(|added| kept.checked_add(added));
    let mut after = Vec::new();
    after
        .try_reserve_exact(size.ok_or_else(ToolFailure::no_memory)?)
        .map_err(|_| ToolFailure::no_memory())?;
    let mut rest = 0;
    for at in finder.find_iter(before) {
        after.extend_from_slice(&before[rest..at]);
        after.extend_from_slice(new);
        rest = at + finder.needle().len();
    }
    after.extend_from_slice(&before[rest..]);
    Ok(after)
}
