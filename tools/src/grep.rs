//! `grep`: the lines of regular files that match a POSIX extended expression.
//!
//! `glob` finds the files, and [`ere`] translates the expression. This module searches the files,
//! several at a time if the platform has threads, and assembles the answer in the order of the
//! paths.

mod ere;
mod search;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use ikigai_protocol::ToolCode;

use crate::answer::{CallOutcome, JsonAnswer, OUTPUT_CAP, ToolFailure};
use crate::args::Args;
use crate::glob::{self, PathMatches};
use crate::json;
use crate::ports::{FileKind, Files};
use crate::target::refuse_asset;

/// The most memory a compiled expression takes, in bytes.
const REGEX_BYTES: usize = 32 << 20;

/// The room in an answer for the note about matches that are left out.
const NOTE_BYTES: usize = 256;

/// Answers one call.
pub(crate) fn call<F: Files>(files: &F, args: &Args<'_>) -> CallOutcome {
    let pattern = args.string("pattern")?;
    let filter = args.optional_string("glob")?.filter(|filter| !filter.is_empty());
    let path = args.optional_string("path")?.filter(|path| !path.is_empty());
    refuse_asset("glob", filter.unwrap_or_default())?;
    refuse_asset("path", path.unwrap_or_default())?;
    let matcher = compile(pattern)?;
    let regular = |kind| kind == FileKind::Regular;
    let matches = match (path, filter) {
        // An absolute filter contains the directory to search.
        (None, Some(filter)) if filter.starts_with('/') => glob::find(files, "", filter, &regular)?,
        (path, filter) => glob::find(files, path.unwrap_or("."), filter.unwrap_or("*"), &regular)?,
    };
    let PathMatches { mut found, left_out } = matches;
    found.sort_unstable();
    found.dedup();

    let mut answer = JsonAnswer::begin();
    let out = answer.text();
    let begin = out.len();
    let (mut count, mut shown) = (0, 0);
    for part in search::search(files, &matcher, &found) {
        let full = part.cut || out.len() + part.text.len() > OUTPUT_CAP - NOTE_BYTES;
        if shown == count && !full {
            // Each match ends in an escaped newline.
            out.extend_from_slice(&part.text);
            shown += part.count;
        }
        count += part.count;
    }
    if out.len() > begin {
        out.truncate(out.len() - search::LINE_END.len());
    }
    if shown < count {
        let note = format!(
            "\n[{} more matches are not shown; narrow the pattern, glob or path]",
            count - shown
        );
        json::escape(note.as_bytes(), out);
    }
    glob::note_left_out(left_out, out.len() == begin, out);
    Ok(answer.end_with("count", count))
}

fn compile(pattern: &str) -> Result<RegexMatcher, ToolFailure> {
    let invalid = |reason: &str| {
        ToolFailure::new(ToolCode::InvalidPattern, format!("Invalid pattern: {reason}"))
    };
    let translated = ere::translate(pattern).map_err(|error| invalid(&error.to_string()))?;
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .line_terminator(Some(b'\n'))
        .nest_limit(ere::NEST_LIMIT)
        .size_limit(REGEX_BYTES)
        .dfa_size_limit(REGEX_BYTES);
    // The translation is well-formed, so only its size can be refused.
    builder.build(&translated).map_err(|_| invalid(&ere::EreError::TooBig.to_string()))
}
