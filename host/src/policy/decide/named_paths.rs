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
                if word.iter().any(|byte| BETWEEN.contains(byte)) {
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

/// Returns the absolute paths in a word: the word itself, the value of an option such as `-I/dir`,
/// and the elements of a list.
pub(super) fn absolute_paths(word: &OsStr, home: Option<&Path>) -> Vec<PathBuf> {
    let bytes = word.as_bytes();
    let mut found = vec![word.to_owned()];
    if bytes.starts_with(b"-")
        && let Some(at) = bytes.iter().position(|byte| *byte == b'/')
    {
        found.push(OsStr::from_bytes(&bytes[at..]).to_owned());
    }
    for part in bytes.split(|byte| b":,@=".contains(byte)) {
        // After the scheme of another address stands a host.
        if !part.starts_with(b"//") || bytes.starts_with(b"file:") {
            found.push(in_home(OsStr::from_bytes(part), home));
        }
    }
    found.into_iter().map(PathBuf::from).filter(|path| path.is_absolute()).collect()
}

/// Returns a word with the user's home in the place of a `~` at its beginning, and of each `$HOME`
/// and `${HOME}`.
pub(super) fn in_home(word: &OsStr, home: Option<&Path>) -> OsString {
    let Some(home) = home else { return word.to_owned() };
    let home = home.as_os_str().as_bytes();
    let (mut path, mut rest) = (Vec::new(), word.as_bytes());
    if let [b'~'] | [b'~', b'/', ..] = rest {
        path.extend_from_slice(home);
        rest = &rest[1..];
    }
    while let Some((first, after)) = rest.split_first() {
        if let Some(after) = after_home(rest) {
            path.extend_from_slice(home);
            rest = after;
        } else {
            path.push(*first);
            rest = after;
        }
    }
    OsString::from_vec(path)
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
    fn paths_are_found_inside_of_words() {
        let home = Some(Path::new("/home/u"));
        let paths = |word: &str| {
            let mut paths = absolute_paths(word.as_ref(), home);
            paths.dedup();
            paths
        };
        for (word, expected) in [
            ("/w/key.awk", &["/w/key.awk"][..]),
            ("-f/w/key.awk", &["/w/key.awk"]),
            ("--file=/w/key.awk", &["/w/key.awk"]),
            ("@/w/arguments", &["/w/arguments"]),
            ("/usr/lib:/w/lib", &["/usr/lib:/w/lib", "/usr/lib", "/w/lib"]),
            ("a:~/w/lib", &["/home/u/w/lib"]),
            ("file:///w/key.js", &["/w/key.js"]),
            ("op://w/item/field", &[]),
            ("https://w/item", &[]),
            ("personal/w/key", &[]),
        ] {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(paths(word), expected, "{word}");
        }
        for (word, expected) in [
            ("~", "/home/u"),
            ("~/w", "/home/u/w"),
            ("-f${HOME}/w", "-f/home/u/w"),
            ("$HOME", "/home/u"),
            ("$HOMES/w", "$HOMES/w"),
            ("a~/w", "a~/w"),
        ] {
            assert_eq!(in_home(word.as_ref(), home), expected, "{word}");
        }
    }
}
