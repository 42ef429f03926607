//! The question whether a program in the sandbox failed for a file, by the messages of the C
//! library and of shells.
//!
//! Without somebody to ask, nobody saw which file it was. The answer goes into a hint and grants
//! nothing.

use super::unresolved::end;

/// The words for a file that was not found, or that may not be used.
const MESSAGES: [&str; 4] = [
    "No such file or directory",
    "Permission denied",
    "Read-only file system",
    "command not found",
];

/// Returns whether the outputs of a program that failed speak of such a file.
pub(super) fn are_told(outputs: [&[u8]; 2]) -> bool {
    outputs.iter().any(|output| {
        let text = end(output);
        MESSAGES.iter().any(|message| text.contains(message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_not_found_is_known_by_the_message() {
        for message in [
            "cat: /home/me/notes: No such file or directory",
            r#"{"output":"bash: line 1: /etc/shadow: Permission denied","exit_code":1}"#,
            "touch: cannot touch '/usr/x': Read-only file system",
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/list'",
            "bash: line 1: mytool: command not found",
        ] {
            assert!(are_told([message.as_bytes(), b""]), "{message}");
            assert!(are_told([b"", message.as_bytes()]), "{message}");
        }
        assert!(!are_told([b"3 tests failed", b"error: assertion"]));
    }
}
