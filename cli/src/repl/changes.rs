//! `/diff`: the changes of the conversation in the workspace.

use std::io;

use super::Repl;
use super::result::difference;
use ikigai_agent::{ChangedFile, FileContents};

/// The limit of `/diff`.
const NOT_SHOWN: &str =
    "Changes by `bash` and other tools are not shown; in a repository, `!git diff` shows them.";

impl Repl {
    /// Shows the files that `file_write` and `file_edit` changed, each as a diff.
    pub(super) fn show_changes(&self) -> io::Result<()> {
        let changed = self.session.changed_files();
        if changed.is_empty() {
            let nothing = "file_write and file_edit changed nothing in this conversation.";
            return self.out.line(&format!("{nothing} {NOT_SHOWN}"));
        }
        for file in &changed {
            let (title, diff) = shown(file);
            self.out.line(&title)?;
            self.out.screen().diff(&diff)?;
        }
        self.out.line(NOT_SHOWN)
    }
}

/// Returns the line of a file, and its diff if the file is text.
fn shown(ChangedFile { path, contents }: &ChangedFile) -> (String, String) {
    let path = path.display();
    let FileContents { before, now } = match contents {
        Ok(contents) => contents,
        Err(reason) => return (format!("{path}: {reason}"), String::new()),
    };
    let what = match (before, now) {
        (None, _) => " (new)",
        (_, None) => " (removed)",
        _ => "",
    };
    let text = |content: &Option<std::sync::Arc<[u8]>>| match content {
        None => Ok(String::new()),
        Some(content) => String::from_utf8(content.to_vec()),
    };
    match (text(before), text(now)) {
        (Ok(before), Ok(now)) => (format!("{path}{what}"), difference(&before, &now)),
        _ => (format!("{path}{what}: not text"), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_shown_as_its_difference() {
        let file = |before: Option<&[u8]>, now: Option<&[u8]>| ChangedFile {
            path: "a.txt".into(),
            contents: Ok(FileContents { before: before.map(Into::into), now: now.map(Into::into) }),
        };
        for (file, title, diff) in [
            (file(Some(b"one\ntwo\n"), Some(b"one\n2\n")), "a.txt", " one\n-two\n+2\n"),
            (file(None, Some(b"new\n")), "a.txt (new)", "+new\n"),
            (file(Some(b"old\n"), None), "a.txt (removed)", "-old\n"),
            (file(Some(b"\xff"), Some(b"x")), "a.txt: not text", ""),
        ] {
            assert_eq!(shown(&file), (title.to_owned(), diff.to_owned()));
        }
        let unknown = ChangedFile { path: "b".into(), contents: Err("a link leads to it".into()) };
        assert_eq!(shown(&unknown).0, "b: a link leads to it");
    }
}
