//! `glob`: the names that match a pattern, sorted by bytes.
//!
//! [`component`] matches one component, [`walk`] reads directories; this module has the parameters,
//! the joining of `path` and `pattern`, and the answer. `grep` shares [`find`].

pub(crate) mod component;
mod walk;

use ikigai_protocol::ToolCode;

use crate::answer::{CallOutcome, JsonAnswer, OUTPUT_CAP, ToolFailure};
use crate::args::Args;
use crate::json;
use crate::ports::{FileKind, Files, FsError};
use crate::target::refuse_asset;
use walk::GlobPattern;
pub(crate) use walk::{PathMatch, PathMatches};

/// The longest pattern, in bytes; no path is as long.
const MAX_PATTERN_BYTES: usize = 16 << 10;

/// The room in an answer for the note about paths that are left out.
const NOTE_BYTES: usize = 256;

/// Answers one call.
pub(crate) fn call<F: Files>(files: &F, args: &Args<'_>) -> CallOutcome {
    let pattern = args.string("pattern")?;
    let path = args.optional_string("path")?.unwrap_or("");
    refuse_asset("pattern", pattern)?;
    refuse_asset("path", path)?;
    let PathMatches { mut found, left_out } = find(files, path, pattern, &|_| true)?;
    found.sort_unstable();
    found.dedup();
    let mut answer = JsonAnswer::begin();
    let out = answer.text();
    for (index, one) in found.iter().enumerate() {
        let before = out.len();
        if index > 0 {
            out.extend_from_slice(b"\\n");
        }
        json::escape(&one.path, out);
        if out.len() > OUTPUT_CAP - NOTE_BYTES {
            out.truncate(before);
            let note =
                format!("\n[{} more paths are not shown; narrow the pattern]", found.len() - index);
            json::escape(note.as_bytes(), out);
            break;
        }
    }
    note_left_out(left_out, found.is_empty(), out);
    Ok(answer.end_with("count", found.len()))
}

/// Adds a note on names that the port cannot express.
pub(crate) fn note_left_out(left_out: u64, is_first: bool, out: &mut Vec<u8>) {
    let names = match left_out {
        0 => return,
        1 => "1 name that is not UTF-8 is",
        _ => &format!("{left_out} names that are not UTF-8 are"),
    };
    let line = if is_first { "" } else { "\n" };
    let note = format!("{line}[{names} left out: a component cannot reach such names]");
    json::escape(note.as_bytes(), out);
}

/// Returns all paths that `path/pattern` matches, unsorted, of the kinds that `wanted` accepts.
///
/// A `path` that exists is taken literally; only otherwise are its wildcards expanded.
pub(crate) fn find<F: Files>(
    files: &F,
    path: &str,
    pattern: &str,
    wanted: &dyn Fn(FileKind) -> bool,
) -> Result<PathMatches, ToolFailure> {
    if pattern.contains('\0')
        || path.contains('\0')
        || path.len() + pattern.len() > MAX_PATTERN_BYTES
    {
        return Err(ToolFailure::new(ToolCode::InvalidPattern, "Invalid glob pattern"));
    }
    let literal_path = !path.is_empty()
        && match files.kind(path.as_bytes(), true) {
            Ok(_) => true,
            Err(FsError::Outside) => {
                return Err(ToolFailure::open(FsError::Outside, path.as_bytes()));
            }
            Err(_) => false,
        };
    let pattern = if literal_path {
        GlobPattern::beneath(path.as_bytes(), pattern.as_bytes())
    } else if path.is_empty() {
        GlobPattern::parse(pattern.as_bytes())
    } else {
        GlobPattern::parse(format!("{path}/{pattern}").as_bytes())
    };
    let Some(pattern) = pattern else { return Ok(PathMatches::default()) };
    let fixed = pattern.fixed();
    let is_outside = |path: &[u8]| files.kind(path, true) == Err(FsError::Outside);
    // In a workspace that is granted, a link that leads out of it matches nothing.
    if is_outside(&fixed) && (pattern.leaves_workspace() || is_outside(b".")) {
        return Err(ToolFailure::open(FsError::Outside, &fixed));
    }
    Ok(walk::walk(files, &pattern, wanted))
}
