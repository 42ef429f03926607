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

/// The longest name of a file, NAME_MAX of Linux.
const LONGEST_NAME: usize = 255;

/// Returns every text in a word of a command that could be a path, wherever it stands: behind an
/// option, in a list, in an address, in quotes or in code of another language.
pub(super) fn possible_paths(word: &OsStr, home: Option<&Path>) -> BTreeSet<OsString> {
    let plain = unquoted(word.as_bytes());
    let texts = [Some(word.as_bytes()), Some(&*plain).filter(|plain| *plain != word.as_bytes())];
    let mut found = BTreeSet::new();
    for text in texts.into_iter().flatten() {
        let text = with_home(text, home);
        for start in starts(&text) {
            let rest = &text[start..];
            // The first byte may be a delimiter, in the name `@scope`.
            let first = rest.iter().skip(1).position(is_delimiter).map_or(rest.len(), |at| at + 1);
            found.insert(of_user(&rest[..first], home));
            if !matches!(rest.first(), Some(b'/' | b'~')) {
                found.insert(of_user(rest, home));
                continue;
            }
            // A name may contain a byte that usually ends it.
            let mut name = 0;
            for end in 0..=rest.len() {
                let byte = rest.get(end);
                name = if byte == Some(&b'/') { 0 } else { name + 1 };
                if byte.is_none_or(is_delimiter) {
                    found.insert(of_user(&rest[..end], home));
                }
                if name > LONGEST_NAME {
                    break;
                }
            }
        }
    }
    found.remove(OsStr::new(""));
    found
}

/// Returns the absolute paths in the value of a variable: each ends at the next byte that usually
/// ends a name, or at the end of its element in a list.
pub(super) fn absolute_paths(value: &OsStr, home: Option<&Path>) -> BTreeSet<PathBuf> {
    let text = with_home(value.as_bytes(), home);
    let mut found = BTreeSet::new();
    for start in starts(&text).filter(|start| matches!(text[*start], b'/' | b'~')) {
        let rest = &text[start..];
        let until = |is_end: &dyn Fn(&u8) -> bool| {
            &rest[..rest.iter().position(is_end).unwrap_or(rest.len())]
        };
        let paths = [until(&is_delimiter), until(&|byte| *byte == b':')];
        let paths = paths.into_iter().filter(|path| path.len() <= LONGEST_PATH);
        found.extend(paths.map(|path| of_user(path, home)));
    }
    found.into_iter().map(PathBuf::from).filter(|path| path.is_absolute()).collect()
}

/// The longest path that the kernel takes, PATH_MAX of Linux without the zero at its end.
const LONGEST_PATH: usize = 4_095;

/// Returns whether a byte usually ends the name of a file.
fn is_delimiter(byte: &u8) -> bool {
    !(byte.is_ascii_alphanumeric() || b"/._-~".contains(byte) || *byte >= 0x80)
}

/// Returns the positions at which a path may begin: at the beginning of a text; at a delimiter and
/// behind it; behind the host in the address of a file; and behind each byte of an option up to its
/// first delimiter or slash, because short options may stand together.
fn starts(text: &[u8]) -> impl Iterator<Item = usize> {
    let (mut is_option, mut word) = (false, 0);
    (0..text.len()).filter(move |at| {
        let (at, byte) = (*at, text[*at]);
        let is_word = at == 0 || is_delimiter(&text[at - 1]);
        let is_host = byte == b'/' && is_word && is_address(&text[word..], at - word);
        let is_path = || byte == b'/' && is_behind_host(&text[word..at]);
        let is_start = is_word || is_option || is_delimiter(&byte) || is_path();
        let is_start = is_start && !is_host;
        if is_word && !is_host && byte != b'/' {
            word = at;
        }
        is_option = byte == b'-' && is_word || is_option && byte != b'/' && !is_delimiter(&byte);
        is_start
    })
}

/// Returns whether a text ends with the host in the address of a file, as in `file://localhost`. A
/// path follows.
fn is_behind_host(before: &[u8]) -> bool {
    let scheme = before.windows(3).position(|part| part == b"://");
    scheme.is_some_and(|end| before[..end].ends_with(b"file") && !before[end + 3..].contains(&b'/'))
}

/// Returns whether an address with a host begins with a text, and has its slashes at this position:
/// `op://vault/item`. Without a host, as in `file:///w`, a path follows.
fn is_address(text: &[u8], at: usize) -> bool {
    let (Some(scheme), Some(after)) =
        (text[..at].strip_suffix(b":"), text[at..].strip_prefix(b"//"))
    else {
        return false;
    };
    let is_of_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+.-".contains(byte);
    let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic);
    is_scheme && scheme.iter().all(is_of_scheme) && !matches!(after.first(), None | Some(b'/'))
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
            ("-0a/w/arguments", "/w/arguments"),
            ("-s4K/w/rc", "/w/rc"),
            ("-0777Iw/lib", "w/lib"),
            ("-a_.b/w/lib", "/w/lib"),
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
            ("file://localhost/w/key.mjs", "/w/key.mjs"),
            ("git+file://here/w", "/w"),
            ("@scope/get", "@scope/get"),
            ("-f@scope/mk", "@scope/mk"),
            ("--file=+w/mk", "+w/mk"),
            ("nixpkgs#x /w#key", "/w"),
            ("-C/w/make", "/w/make"),
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
            assert!(found.contains(OsStr::new(expected)), "{word}: {found:?}");
        }
        for (word, unexpected) in [
            ("op://w/item/field", "//w/item/field"),
            ("https://w/item", "//w/item"),
            ("personal/w/key", "/w/key"),
        ] {
            let found = possible_paths(word.as_ref(), home);
            assert!(!found.contains(OsStr::new(unexpected)), "{word}: {found:?}");
        }
        for (value, expected) in [
            ("/go/bin:/usr/local/go/bin", &["/go/bin", "/usr/local/go/bin"][..]),
            ("unix:path=/run/bus,guid=1", &["/run/bus", "/run/bus,guid=1"]),
            ("-I/w/lib -MKey", &["/w/lib", "/w/lib -MKey"]),
            (
                "/bin/sh '/w/open' %s",
                &["/bin/sh", "/bin/sh '/w/open' %s", "/w/open", "/w/open' %s"],
            ),
            ("http://proxy:3128", &[]),
            ("*.tar=01;31:*.zip=01;31", &[]),
        ] {
            let expected = expected.iter().map(PathBuf::from).collect();
            assert_eq!(absolute_paths(value.as_ref(), home), expected, "{value}");
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
