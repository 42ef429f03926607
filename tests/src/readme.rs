//! The README's example of a call that reaches beyond its grant, as it is written there.

const README: &str = include_str!("../../README.md");

/// The call of a file outside of the workspace, and what a script is told of it.
pub struct Refusal {
    /// The words after `ikigai`.
    pub call: Vec<String>,
    /// The file that it reads.
    pub path: String,
    /// The command that would allow it.
    pub allow_with: String,
}

/// Reads the example.
///
/// # Panics
///
/// Panics if the README has none.
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
