//! The README's example of a call that goes beyond its grant, exactly as the README shows it.

const README: &str = include_str!("../../README.md");

/// The call that reads a file outside of the workspace, and the answer that a script gets.
pub struct Refusal {
    /// The words after `ikigai`.
    pub call: Vec<String>,
    /// The file that the call reads.
    pub path: String,
    /// The command that would allow the call.
    pub allow_with: String,
}

/// Reads the example.
///
/// # Panics
///
/// Panics if the README has no such example.
#[must_use]
pub fn refusal() -> Refusal {
    const FILE: &str = "'{\"file_path\":\"/";
    const COMMAND: &str = "\"allow_with\":\"";
    let mut lines = README.lines();
    let call = lines.find(|line| line.starts_with("ikigai tool call") && line.contains(FILE));
    let call = call.expect("a call of a file outside of the workspace");
    let (words, arguments) = call.split_once(" '").expect("arguments");
    let arguments = arguments.strip_suffix('\'').expect("the end of the arguments");
    let words = words.split(' ').skip(1).chain([arguments]).map(str::to_owned).collect();
    let allow_with = lines.find_map(|line| line.split_once(COMMAND)).expect("its command").1;
    let path = arguments.rsplit('"').nth(1).expect("a path");
    Refusal {
        call: words,
        path: path.to_owned(),
        allow_with: allow_with.split('"').next().expect("a command").to_owned(),
    }
}
