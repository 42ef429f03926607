//! Explains an empty answer of `file_read`. The specification fixes its answers, which do not give
//! the reason.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;

use ikigai_host::exec::envelope::Envelope;
use ikigai_host::policy::{ToolOrigin, shell_quoted};
use ikigai_host::registry::Tool;
use serde::Deserialize;
use serde_json::Value;

/// The relevant arguments of `file_read`.
#[derive(Deserialize)]
struct FileReadArguments {
    file_path: String,
    offset: Option<u64>,
}

/// Returns a hint for the user if the built-in `file_read` was called for a directory or for lines
/// after the end.
pub(super) fn hint(
    tool: &Tool,
    arguments: &[u8],
    envelope: &Envelope,
    workspace: &Path,
) -> Option<String> {
    let is_ours = tool.origin == ToolOrigin::System && tool.name() == "file_read";
    let Envelope::Success(success) = envelope else { return None };
    if !is_ours {
        return None;
    }
    let answer: Value = serde_json::from_str(success.result.get()).ok()?;
    let FileReadArguments { file_path, offset } = serde_json::from_slice(arguments).ok()?;
    let path = workspace.join(&file_path);
    if answer.get("error_code").is_some() {
        let list =
            format!("ikigai tool call glob --pattern '*' --path {}", shell_quoted(&file_path));
        return path.is_dir().then(|| format!("`{file_path}` is a directory; `{list}` lists it"));
    }
    if !answer.get("output")?.as_str()?.is_empty() || !path.is_file() {
        return None;
    }
    let lines = lines_of(&path).ok()?;
    let offset = offset.filter(|offset| *offset > lines)?;
    let s = if lines == 1 { "" } else { "s" };
    Some(format!("`{file_path}` has {lines} line{s}, and {offset} is after the last one"))
}

/// Counts the lines of a file. The last line may lack a line end.
fn lines_of(path: &Path) -> io::Result<u64> {
    let mut lines = BufReader::new(File::open(path)?).split(b'\n');
    lines.try_fold(0, |count, line| line.map(|_| count + 1))
}
