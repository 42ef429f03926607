//! The translation of POSIX extended regular expressions, against the C library's
//! own `regcomp`.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::ptr;

use ikigai_tools::answer;
use ikigai_tools::fake::{FakeNode, MemoryFiles, Tree};
use ikigai_tools::ports::{NoAssets, Storage};
use serde_json::{Value, json};

/// A longer pattern may take the C library minutes.
const LONGEST: usize = 48;

/// Matches a line (after the first newline) against a pattern (before it). If both engines accept
/// the pattern, they must agree about the line.
pub(crate) fn run(data: &[u8]) {
    // Beyond ASCII the two differ by design: our translation sees characters, the C library sees
    // bytes.
    let Some(text) = std::str::from_utf8(data).ok().filter(|text| text.is_ascii()) else { return };
    let Some((pattern, line)) = text.split_once('\n') else { return };
    let line = line.lines().next().unwrap_or_default();
    let ours = ours(pattern, line);
    if pattern.len() > LONGEST || text.contains('\0') || is_beyond_the_reference(pattern) {
        return;
    }
    match (ours, theirs(pattern, line)) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "`{pattern}` on `{line}`"),
        (Err(error), Ok(_)) => panic!("`{pattern}` is refused: {error}"),
        (Ok(_), Err(error)) => panic!("`{pattern}` is taken, but should be: {error}"),
        (Err(_), Err(_)) => {}
    }
}

/// The C library copies the part that a `+` repeats, so each further nesting doubles the size.
const MOST_PLUSES: usize = 6;

/// Returns whether this dialect differs from the C library's by design. Back-references are
/// refused, and a brace that begins no interval stands for itself. Each engine also limits the size
/// of a pattern in its own way, and the C library's takes all of the memory.
fn is_beyond_the_reference(pattern: &str) -> bool {
    let reference = |pair: &[u8]| pair[0] == b'\\' && pair[1].is_ascii_digit();
    let pluses = pattern.matches('+').count();
    pluses > MOST_PLUSES || pattern.contains('{') || pattern.as_bytes().windows(2).any(reference)
}

fn ours(pattern: &str, line: &str) -> Result<bool, String> {
    let mut tree = Tree::default();
    tree.nodes.insert(b"f".to_vec(), FakeNode::File(0));
    tree.contents.insert(0, [line.as_bytes(), b"\n"].concat());
    let input = json!({ "pattern": pattern, "path": ".", "glob": "f" }).to_string();
    let storage = Storage { files: MemoryFiles::new(b"/w", tree), assets: NoAssets };
    let answered = answer("grep", &storage, input.as_bytes()).expect("a tool that works on files");
    let value: Value = serde_json::from_slice(&answered).expect("one JSON value");
    match value.get("error") {
        Some(error) => Err(error.to_string()),
        None => {
            let count = value["count"].as_u64();
            Ok(count.unwrap_or_else(|| panic!("no count of matches in {value}")) > 0)
        }
    }
}

/// The C library's answer.
fn theirs(pattern: &str, line: &str) -> Result<bool, String> {
    let pattern = CString::new(pattern).expect("no NUL");
    let line = CString::new(line).expect("no NUL");
    let mut regex = MaybeUninit::uninit();
    let flags = libc::REG_EXTENDED | libc::REG_NOSUB;
    // SAFETY: both are alive during the call, which initialises `regex` on success.
    let error = unsafe { libc::regcomp(regex.as_mut_ptr(), pattern.as_ptr(), flags) };
    if error != 0 {
        return Err(format!("regcomp says {error}"));
    }
    // SAFETY: `regcomp` has succeeded; with REG_NOSUB no matches are written.
    let code = unsafe { libc::regexec(regex.as_ptr(), line.as_ptr(), 0, ptr::null_mut(), 0) };
    // SAFETY: it was initialised above, and is not used any more.
    unsafe { libc::regfree(regex.as_mut_ptr()) };
    Ok(code == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_engines_are_really_asked() {
        for (pattern, line, matches) in [("^a+$", "aa", true), ("^a+$", "ab", false)] {
            assert_eq!(ours(pattern, line), Ok(matches));
            assert_eq!(theirs(pattern, line), Ok(matches));
        }
        assert!(ours("[z-a]", "m").is_err() && theirs("[z-a]", "m").is_err());
        assert!(!is_beyond_the_reference("(a|b)*"));
    }
}
