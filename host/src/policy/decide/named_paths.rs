//! The words of a command or of a variable with a command, and the paths in a word.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// The bytes between words, and those of operators.
const BETWEEN: &[u8] = b" \t\n;|&()<>`=";

/// Adds the words of a text as a shell reads it, and the words of each quoted text in it, which may
/// be a script.
pub(super) fn words_of_text(text: &[u8], all: &mut BTreeSet<OsString>) {
    let (mut word, mut quote) = (Vec::new(), None::<u8>);
    let mut bytes = text.iter().copied();
    loop {
        match bytes.next() {
            Some(byte) if quote == Some(byte) => quote = None,
            Some(b'\\') if quote != Some(b'\'') => word.extend(bytes.next()),
            Some(byte @ (b'\'' | b'"')) if quote.is_none() => quote = Some(byte),
            Some(byte) if quote.is_some() || !BETWEEN.contains(&byte) => word.push(byte),
            end => {
                let word = std::mem::take(&mut word);
                if word.iter().any(|byte| BETWEEN.contains(byte) || b"'\"\\".contains(byte)) {
                    words_of_text(&word, all);
                }
                if !word.is_empty() {
                    all.insert(OsString::from_vec(word));
                }
                if end.is_none() {
                    return;
                }
            }
        }
    }
}

/// Returns every text in a word that could be a path, wherever it stands: behind an option, in a
/// list, in an address, in quotes or in code of another language.
pub(super) fn possible_paths(word: &OsStr, home: Option<&Path>) -> BTreeSet<PathBuf> {
    let is_other =
        |byte: &u8| !(byte.is_ascii_alphanumeric() || b"/._-~".contains(byte) || *byte >= 0x80);
    let mut found = BTreeSet::new();
    for text in [word.as_bytes().to_vec(), unquoted(word.as_bytes())] {
        let text = with_home(&text, home);
        let begins = |at: usize| match text.get(at.wrapping_sub(1)) {
            None => true,
            Some(before) => {
                // Options of one letter may stand together, with a value behind the last.
                let letters = text[..at].iter().rev().take_while(|it| it.is_ascii_alphabetic());
                let dash = at.checked_sub(letters.count() + 1).filter(|dash| text[*dash] == b'-');
                let is_option = |dash: usize| dash == 0 || is_other(&text[dash - 1]);
                text[at] == b'/' || is_other(before) || dash.is_some_and(is_option)
            }
        };
        // A name may contain a byte that usually ends it.
        let ends = |at: usize| text.get(at).is_none_or(is_other);
        for start in (0..text.len()).filter(|at| begins(*at)) {
            for end in (start + 1..=text.len()).filter(|at| ends(*at)) {
                found.insert(PathBuf::from(of_user(&text[start..end], home)));
            }
        }
    }
    found
}

/// Returns a text without quotes and backslashes, and without the line ends behind backslashes.
fn unquoted(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => _ = bytes.next_if_eq(&b'\n'),
            b'\'' | b'"' => {}
            byte => plain.push(byte),
        }
    }
    plain
}

/// Returns a word with the user's home in the place of a `~` or `~USER` at its beginning, and of
/// each `$HOME` and `${HOME}`.
pub(super) fn in_home(word: &OsStr, home: Option<&Path>) -> OsString {
    of_user(&with_home(word.as_bytes(), home), home)
}

/// Returns a text with the user's home in the place of a `~` or `~USER` at its beginning.
fn of_user(text: &[u8], home: Option<&Path>) -> OsString {
    let unchanged = || OsStr::from_bytes(text).to_owned();
    let (Some(home), Some(after)) = (home, text.strip_prefix(b"~")) else { return unchanged() };
    let end = after.iter().position(|byte| *byte == b'/').unwrap_or(after.len());
    let (user, rest) = after.split_at(end);
    // By convention, the home has the name of its user.
    if !user.is_empty() && home.file_name().is_none_or(|name| name.as_bytes() != user) {
        return unchanged();
    }
    OsString::from_vec([home.as_os_str().as_bytes(), rest].concat())
}

/// Returns a text with the user's home in the place of each `$HOME` and `${HOME}`.
fn with_home(text: &[u8], home: Option<&Path>) -> Vec<u8> {
    let Some(home) = home else { return text.to_vec() };
    let home = home.as_os_str().as_bytes();
    let (mut path, mut rest) = (Vec::new(), text);
    while let Some((first, after)) = rest.split_first() {
        if let Some(after) = after_home(rest) {
            path.extend_from_slice(home);
            rest = after;
        } else {
            path.push(*first);
            rest = after;
        }
    }
    path
}

/// Returns the text after `$HOME` or `${HOME}`, if it begins with one of them.
fn after_home(text: &[u8]) -> Option<&[u8]> {
    if let Some(after) = text.strip_prefix(b"${HOME}") {
        return Some(after);
    }
    let after = text.strip_prefix(b"$HOME")?;
    let is_longer = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    (!after.first().is_some_and(is_longer)).then_some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_anywhere_in_a_word() {
        let home = Some(Path::new("/home/u"));
        for (word, expected) in [
            ("/w/key.awk", "/w/key.awk"),
            ("-f/w/key.awk", "/w/key.awk"),
            ("-fw/key.awk", "w/key.awk"),
            ("-sfw/key.mk", "w/key.mk"),
            ("-Sget-key", "get-key"),
            ("alias.k=!get-key", "get-key"),
            ("f([\"get-key\"])", "get-key"),
            ("BEGIN{\"get-key\" | getline}", "get-key"),
            ("--file=w/key.awk", "w/key.awk"),
            ("@/w/arguments", "/w/arguments"),
            ("/usr/lib:/w/lib", "/w/lib"),
            ("PATH=/usr/bin:w/bin", "w/bin"),
            ("/usr/bin://w/bin", "//w/bin"),
            ("a:~/w/lib", "/home/u/w/lib"),
            ("~u/w/lib", "/home/u/w/lib"),
            ("file:///w/key.js", "///w/key.js"),
            ("git+file:///w", "///w"),
            ("unix:///w/socket", "///w/socket"),
            ("nixpkgs#x /w#key", "/w"),
            ("'\"$HOME/w/get\"'", "/home/u/w/get"),
            ("'\"$HOME\"/w/get'", "/home/u/w/get"),
            ("${KEY:-/w/get}", "/w/get"),
            ("alias.k=!$HOME/w/get", "/home/u/w/get"),
            ("$'\"/w/x\"'", "/w/x"),
            ("run([\"/w/x\"])", "/w/x"),
            ("open(r\"/w/x\")", "/w/x"),
            ("/home/u\\\n/w/x", "/home/u/w/x"),
            ("/w/my\\ dir/get x", "/w/my dir/get"),
            ("/w/a, b=c", "/w/a, b=c"),
        ] {
            let found = possible_paths(word.as_ref(), home);
            assert!(found.contains(Path::new(expected)), "{word}: {found:?}");
        }
        for (word, expected) in [
            ("~", "/home/u"),
            ("~/w", "/home/u/w"),
            ("~u/w", "/home/u/w"),
            ("~v/w", "~v/w"),
            ("-f${HOME}/w", "-f/home/u/w"),
            ("$HOME", "/home/u"),
            ("$HOMES/w", "$HOMES/w"),
            ("a~/w", "a~/w"),
        ] {
            assert_eq!(in_home(word.as_ref(), home), expected, "{word}");
        }
    }
}
