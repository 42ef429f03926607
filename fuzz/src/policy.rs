//! Policy files. A workspace's policy can come from any author.

use ikigai_host::policy::{LayerKind, NewValue, fuzzing};
use ikigai_host::toml_file::TomlError;

/// A tool that no file of the corpus mentions.
const TOOL: &str = "granted_here";

/// Checks that a file is read, or refused with a place in it and without a character that would
/// move a cursor. When a grant is added to the user's own file and then revoked, the entries of
/// other tools must stay.
pub(crate) fn run(data: &[u8]) {
    for kind in [LayerKind::Ceiling, LayerKind::User, LayerKind::Workspace] {
        if let Err(error) = fuzzing::read(kind, data) {
            check_refusal(&error, data);
        }
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if fuzzing::read(LayerKind::User, data).is_err() || text.contains(TOOL) {
        return;
    }
    let words = |words: &[&str]| NewValue::List(words.iter().map(|&word| word.into()).collect());
    let keys = [
        ("fs".to_owned(), words(&["ro:/srv/\"a\"", "rw:/tmp\\b"])),
        ("env".to_owned(), words(&["A"])),
        ("limits.processes".to_owned(), NewValue::Number(3)),
    ];
    // `change` itself checks that nothing else changed its meaning.
    let Ok([granted, revoked]) = fuzzing::change(text, TOOL, &keys) else { return };
    for text in [&granted, &revoked] {
        let read = fuzzing::read(LayerKind::User, text.as_bytes());
        assert!(read.is_ok(), "{read:?}: {text}");
    }
    assert!(granted.contains(TOOL) && !revoked.contains(TOOL), "{granted}\n-- revoked:\n{revoked}");
}

/// Checks that a refusal of a file reports the mistake and its place, without deceptive characters.
pub(crate) fn check_refusal(error: &TomlError, data: &[u8]) {
    assert!(!error.what.is_empty());
    assert!(!error.line().contains(char::is_control), "{:?}", error.line());
    let shown = error.to_string();
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
    if let Some(position) = error.position {
        let lines = data.split(|byte| *byte == b'\n').count();
        assert!((1..=lines).contains(&position.line) && position.column >= 1, "{position:?}");
    }
}
