//! Lock files. A workspace's lock can come from any author.

use ikigai_packages::ToolsLock;

use crate::section::check_refusal;

/// Checks that a lock reads back from its text, which is always the same, or is refused with a
/// place in it and without a character that would move a cursor.
pub(crate) fn run(data: &[u8]) {
    match ToolsLock::parse(data) {
        Ok(lock) => {
            let text = lock.to_string();
            let again = ToolsLock::parse(text.as_bytes()).expect("what was written is read");
            assert_eq!(again, lock);
            assert_eq!(again.to_string(), text);
        }
        Err(error) => {
            check_refusal(&error);
            let position = error.position().expect("the input is not too large");
            let lines = data.split(|byte| *byte == b'\n').count();
            assert!((1..=lines).contains(&position.line) && position.column >= 1, "{position:?}");
        }
    }
}
