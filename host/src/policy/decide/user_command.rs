//! The search for programs through which a tool could control a command of the user that runs with
//! all rights of its user: a command that prints a token or a key.
//!
//! Reads the words of a command as far as they name programs. Does not find a program whose name a
//! shell makes up, or the files that a program loads on its own.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::reach::WritablePlaces;
use super::replaceable::{
    DEPTH, NativeStart, interpreter_line, interpreters, program_weakness, search_path,
};
use super::search;
use crate::paths;

/// The programs that run a file that an argument names. Their names may end in a version.
const INTERPRETERS: [&str; 19] = [
    ".", "ash", "bash", "bun", "dash", "deno", "fish", "ksh", "lua", "node", "perl", "php", "pypy",
    "python", "ruby", "sh", "source", "tclsh", "zsh",
];

/// The longest chain of texts in texts, such as `sh -c '…'` in a `sh -c "…"`.
const NESTED: usize = 8;

/// The bytes between words, and those of operators.
const BETWEEN: &[u8] = b" \t\n;|&()<>`=";

/// The words after which a shell starts another program.
const PREFIXES: [&str; 15] = [
    "!", "{", "command", "do", "elif", "else", "env", "exec", "if", "nohup", "sudo", "then",
    "time", "until", "while",
];

/// A word of a command.
#[derive(Debug)]
struct CommandWord {
    text: OsString,
    /// True if a program of this name would be started.
    is_started: bool,
}

/// Returns the reason why a tool could control a command, or `None` if that is impossible. `words`
/// are its program and its arguments, and `start` is how it starts.
pub(super) fn weakness(
    words: &[OsString],
    home: Option<&Path>,
    start: &NativeStart<'_>,
    reach: &WritablePlaces<'_>,
) -> Option<String> {
    let words = all_words(words, home);
    let is_interpreted = words.iter().enumerate().any(|(at, word)| {
        let next = words.get(at + 1).map(|next| next.text.as_os_str());
        runs_a_file(&word.text, next)
    });
    let texts = words.iter().map(|word| Path::new(&word.text));
    let dirs: BTreeSet<&Path> = texts.filter(|it| it.is_absolute() && it.is_dir()).collect();
    let path = search_path(start);
    let mut programs = BTreeSet::new();
    for CommandWord { text, is_started } in &words {
        let has_slash = text.as_bytes().contains(&b'/');
        // A shell may have gone to one of the directories that it names.
        for dir in [start.workspace].into_iter().chain(dirs.iter().copied()) {
            let file = dir.join(text);
            let is_named = *is_started && has_slash;
            let is_script = is_interpreted && (has_slash || file.is_file()) && !file.is_dir();
            if is_named || is_script || is_program(&file) {
                programs.insert(file);
            }
        }
        if has_slash {
            continue;
        }
        if let Some(found) = search::find(text, std::env::split_paths(&path)) {
            programs.insert(found);
        } else if *is_started && let Some(found) = search::find(text, start.lost.iter().cloned()) {
            return Some(format!(
                "its program `{}` is found nowhere but in `{}`, where tools may write",
                text.display(),
                found.parent().unwrap_or(&found).display()
            ));
        }
    }
    programs.iter().find_map(|program| {
        program_weakness(program, "its program", reach)
            .or_else(|| interpreters(&paths::canonical(program)?, start, DEPTH, reach))
    })
}

/// Returns whether a word starts an interpreter of a file. With `-c` it runs a text.
fn runs_a_file(word: &OsStr, next: Option<&OsStr>) -> bool {
    let name = Path::new(word).file_name().unwrap_or(word).to_string_lossy();
    let name = match &*name {
        "." => ".",
        versioned => versioned.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'),
    };
    INTERPRETERS.contains(&name) && !next.is_some_and(runs_a_text)
}

/// Returns whether a word is an option after which an interpreter takes a text, such as `-ec`.
fn runs_a_text(word: &OsStr) -> bool {
    let word = word.as_bytes();
    word.starts_with(b"-") && !word.starts_with(b"--") && word.ends_with(b"c")
}

/// Returns whether a file could be started.
fn is_program(file: &Path) -> bool {
    search::find(file.as_os_str(), [PathBuf::new()]).is_some()
        || (file.is_file() && interpreter_line(file).is_some())
}

/// Returns the words of a command, and those of the texts among them.
fn all_words(words: &[OsString], home: Option<&Path>) -> Vec<CommandWord> {
    let mut all = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if at == 0 {
            all.push(CommandWord { text: word.clone(), is_started: true });
            continue;
        }
        if word.as_bytes().iter().any(|byte| BETWEEN.contains(byte)) {
            all.push(CommandWord { text: word.clone(), is_started: false });
        }
        let is_text = runs_a_text(&words[at - 1]);
        words_of_text(word.as_bytes(), is_text, NESTED, &mut all);
    }
    for word in &mut all {
        word.text = in_home(&word.text, home);
    }
    all
}

/// Adds the words of a text as a shell reads it. The first word starts a program, if `is_started`,
/// and so does each first word after an operator.
fn words_of_text(text: &[u8], mut is_started: bool, depth: usize, all: &mut Vec<CommandWord>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let (mut word, mut quote, mut is_assigned) = (Vec::new(), None::<u8>, false);
    let mut bytes = text.iter().copied();
    loop {
        let byte = bytes.next();
        match byte {
            Some(byte) if quote == Some(byte) => {
                quote = None;
                continue;
            }
            Some(b'\\') if quote != Some(b'\'') => {
                word.extend(bytes.next());
                continue;
            }
            Some(byte @ (b'\'' | b'"')) if quote.is_none() => {
                quote = Some(byte);
                continue;
            }
            Some(byte) if quote.is_some() || !BETWEEN.contains(&byte) => {
                word.push(byte);
                continue;
            }
            _ => {}
        }
        let word = std::mem::take(&mut word);
        let has_word = !word.is_empty();
        let is_prefix = PREFIXES.iter().any(|prefix| prefix.as_bytes() == word);
        if word.iter().any(|byte| BETWEEN.contains(byte)) {
            // A quoted text may be a script, or have a command in it.
            let is_text = all.last().is_some_and(|last| runs_a_text(&last.text));
            words_of_text(&word, is_started || is_text, depth, all);
        }
        if has_word {
            let text = OsString::from_vec(word);
            all.push(CommandWord { text, is_started: is_started && !is_assigned });
        }
        match byte {
            None => return,
            Some(b'=') => is_assigned |= is_started,
            Some(b'\n' | b';' | b'|' | b'&' | b'(' | b'`') => {
                (is_started, is_assigned) = (true, false);
            }
            // A variable is set for the program after it.
            Some(_) if is_assigned => is_assigned = false,
            Some(_) => is_started &= is_prefix || !has_word,
        }
    }
}

/// Returns a word with the user's home in the place of `~`, `$HOME` or `${HOME}` at its beginning.
fn in_home(word: &OsStr, home: Option<&Path>) -> OsString {
    let Some(home) = home else { return word.to_owned() };
    let bytes = word.as_bytes();
    let rest = ["~", "$HOME", "${HOME}"].iter().find_map(|it| bytes.strip_prefix(it.as_bytes()));
    match rest {
        Some(rest) if rest.is_empty() || rest.starts_with(b"/") => {
            let mut path = home.as_os_str().to_owned();
            path.push(OsStr::from_bytes(rest));
            path
        }
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the words of a command, with a `!` before those that start a program.
    fn words(command: &[&str]) -> Vec<String> {
        let command: Vec<OsString> = command.iter().map(Into::into).collect();
        let words = all_words(&command, Some(Path::new("/home/u")));
        let shown = words.iter().map(|word| {
            let mark = if word.is_started { "!" } else { "" };
            format!("{mark}{}", word.text.display())
        });
        shown.collect()
    }

    #[test]
    fn every_word_that_starts_a_program_is_found() {
        for (line, expected) in [
            ("pass show a/b", &["!pass", "a/b"][..]),
            ("~/w/get-key", &["!/home/u/w/get-key"]),
            ("cd $HOME/w && ./get-key", &["!cd", "/home/u/w", "!./get-key"]),
            ("KEY=x ${HOME}/w/get | head -n1", &["!KEY", "x", "!/home/u/w/get", "!head"]),
            ("echo $(~/w/get)`~/w/too`", &["!echo", "!/home/u/w/get", "!/home/u/w/too"]),
            ("echo \"a $(~/w/get) b\"", &["!/home/u/w/get"]),
            ("'/home/u/my dir/get' x", &["!/home/u/my dir/get", "x"]),
            ("sh -c '~/w/get; x'", &["!sh", "!/home/u/w/get", "!x"]),
            ("if sudo ~/w/get; then x; fi", &["!if", "!sudo", "!/home/u/w/get", "!then", "!x"]),
            ("/home/u/my\\ dir/get", &["!/home/u/my dir/get"]),
            ("cat <~/w/token", &["!cat", "/home/u/w/token"]),
        ] {
            let found = words(&["/bin/sh", "-c", line]);
            assert_eq!(found[..2], ["!/bin/sh", "-c"], "{line}");
            for word in expected {
                assert!(found.iter().any(|it| it == word), "{line}: {word} in {found:?}");
            }
        }
        assert_eq!(words(&["/bin/cat", "~/w/token"]), ["!/bin/cat", "/home/u/w/token"]);
        assert_eq!(words(&["sh", "-c", "~/w/get"]), ["!sh", "-c", "!/home/u/w/get"]);
    }

    #[test]
    fn an_interpreter_runs_a_file_unless_it_gets_a_text() {
        for (word, next, expected) in [
            ("/usr/bin/python3.12", "/w/x.py", true),
            ("bash", "-e", true),
            (".", "/w/env", true),
            ("sh", "-c", false),
            ("bash", "-ec", false),
            ("python3", "--exec", true),
            ("cat", "/w/x", false),
        ] {
            let runs = runs_a_file(word.as_ref(), Some(next.as_ref()));
            assert_eq!(runs, expected, "{word} {next}");
        }
        assert!(runs_a_file("sh".as_ref(), None));
    }
}
