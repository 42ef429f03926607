//! The search for programs through which a tool could control a command of the user that runs with
//! all rights of its user: one that prints a token or a key, a credential helper or an editor.
//!
//! Reads the words of a command as far as they name programs and files. Any file may be code for
//! the program that gets it, so only the operands of a few programs may lie where tools write. Does
//! not find a name that a shell makes up, or the files that a program loads on its own.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::reach::WritablePlaces;
use super::replaceable::{
    DEPTH, NativeStart, interpreter_line, interpreters, program_weakness, replaced, search_path,
};
use super::search;
use crate::paths;

/// The programs that run a file that an argument names, or the text that another program prints.
/// Their names may end in a version.
const INTERPRETERS: [&str; 22] = [
    ".", "ash", "bash", "bun", "dash", "deno", "eval", "fish", "ksh", "lua", "node", "parallel",
    "perl", "php", "pypy", "python", "ruby", "sh", "source", "tclsh", "xargs", "zsh",
];

/// The programs that only read the files among their operands, with the options that may stand
/// before such a file. Without options in this list, every option may.
const READERS: [(&str, &[&str]); 14] = [
    ("[", &[]),
    ("age", DECRYPTION),
    ("base64", &[]),
    ("cat", &[]),
    ("cut", &[]),
    ("gpg", DECRYPTION),
    ("gpg2", DECRYPTION),
    ("grep", &[]),
    ("head", &[]),
    ("jq", &[]),
    ("openssl", &["-in"]),
    ("tail", &[]),
    ("test", &[]),
    ("tr", &[]),
];

/// The options without a value of the programs that decrypt a file.
const DECRYPTION: &[&str] =
    &["-d", "-q", "-qd", "-dq", "--batch", "--decrypt", "--quiet", "--yes", "--"];

/// The word at the start of a command that another command prints.
const SUBSTITUTION: &str = "$";

/// The role of a file in a command, in a reason.
const NAMED: &str = "a file that it names";

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
    /// True if it is an operand of one of the [`READERS`].
    is_read: bool,
}

/// The first words of a text.
#[derive(Clone, Copy, Debug)]
struct TextStart {
    /// True if the first word starts a program.
    is_started: bool,
    /// True if the text is an operand of one of the [`READERS`].
    is_read: bool,
}

/// The command in a text that the next word belongs to.
#[derive(Debug, Default)]
struct OpenCommand {
    program: OsString,
    previous: OsString,
    /// True if it is the operand of a reader, and not a command.
    is_read: bool,
}

/// A `(` or a backtick that is not closed yet.
#[derive(Debug)]
struct OpenBracket {
    byte: u8,
    outer: OpenCommand,
    is_started: bool,
    is_assigned: bool,
}

/// Returns the reason why a tool could control a command, or `None` if that is impossible. `words`
/// are its program and its arguments, and `start` is how it starts.
pub(super) fn weakness(
    words: &[OsString],
    home: Option<&Path>,
    start: &NativeStart<'_>,
    reach: &WritablePlaces<'_>,
) -> Option<String> {
    let all = all_words(words, home);
    let is_interpreted = all.iter().enumerate().any(|(at, word)| {
        let next = all.get(at + 1).map(|next| next.text.as_os_str());
        // A `.` may also be an argument, such as the filter of jq.
        word.runs_printed_text()
            || ((word.is_started || word.text != ".") && runs_a_file(&word.text, next))
    });
    // What a reader prints may be run, unless every other program is harmless.
    let words: Vec<&CommandWord> =
        all.iter().filter(|word| is_interpreted || !word.is_read).collect();
    let texts = words.iter().map(|word| Path::new(&word.text));
    let dirs: BTreeSet<&Path> = texts.filter(|it| it.is_absolute() && it.is_dir()).collect();
    let path = search_path(start);
    let (mut programs, mut files) = (BTreeSet::new(), BTreeSet::new());
    for CommandWord { text, is_started, .. } in words.iter().copied() {
        let has_slash = text.as_bytes().contains(&b'/');
        files.extend(absolute_paths(text, home));
        // A shell may have gone to one of the directories that it names.
        let dirs = [start.workspace].into_iter().chain(dirs.iter().copied());
        // The name of a program without a slash is searched for in `PATH` only.
        for dir in dirs.filter(|_| has_slash || !is_started) {
            let file = dir.join(text);
            let is_script = is_interpreted && (has_slash || file.is_file()) && !file.is_dir();
            if *is_started || is_script || is_program(&file) {
                programs.insert(file);
            } else if file.is_file() {
                files.insert(file);
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
    let weakness = programs.iter().find_map(|program| {
        program_weakness(program, "its program", reach)
            .or_else(|| interpreters(&paths::canonical(program)?, start, DEPTH, reach))
    });
    weakness.or_else(|| files.iter().find_map(|file| file_weakness(file, reach)))
}

/// Returns the reason why a tool could change the file or the directory at a path, which need not
/// exist.
fn file_weakness(path: &Path, reach: &WritablePlaces<'_>) -> Option<String> {
    if path.is_file() {
        return program_weakness(path, NAMED, reach);
    }
    paths::resolution_steps(path).iter().find_map(|place| {
        let within = reach.holds(place)?;
        Some(replaced(&format!("{NAMED} is"), place, &within))
    })
}

impl CommandWord {
    /// Returns whether a shell runs what another command prints, as in `$(cat file)`.
    fn runs_printed_text(&self) -> bool {
        self.is_started && self.text == SUBSTITUTION
    }
}

impl OpenCommand {
    /// Returns whether the next word is a file that the program only reads.
    fn reads(&self, word: &OsStr) -> bool {
        self.is_read || reads(&self.program, &self.previous, word)
    }
}

/// Returns whether a program only reads the file that this word may name. `previous` is the word
/// before.
fn reads(program: &OsStr, previous: &OsStr, word: &OsStr) -> bool {
    let name = Path::new(program).file_name().unwrap_or(program);
    let reader = READERS.iter().find(|(known, _)| name == *known);
    let is_option = |word: &OsStr| word.as_bytes().starts_with(b"-");
    reader.is_some_and(|(_, options)| {
        let may_follow = options.is_empty() || options.iter().any(|option| previous == *option);
        !is_option(word) && (may_follow || !is_option(previous))
    })
}

/// Returns the absolute paths in a word: the word itself, the value of an option such as `-I/dir`,
/// and the elements of a list.
fn absolute_paths(word: &OsStr, home: Option<&Path>) -> Vec<PathBuf> {
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
            all.push(CommandWord { text: word.clone(), is_started: true, is_read: false });
            continue;
        }
        let is_started = runs_a_text(&words[at - 1]);
        let is_read = !is_started && reads(&words[0], &words[at - 1], word);
        if word.as_bytes().iter().any(|byte| BETWEEN.contains(byte)) {
            all.push(CommandWord { text: word.clone(), is_started: false, is_read });
        }
        words_of_text(word.as_bytes(), TextStart { is_started, is_read }, NESTED, &mut all);
    }
    for word in &mut all {
        word.text = in_home(&word.text, home);
    }
    all
}

/// Adds the words of a text as a shell reads it. The first word starts a program if `start` says
/// so, and so does each first word after an operator.
fn words_of_text(text: &[u8], start: TextStart, depth: usize, all: &mut Vec<CommandWord>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let (mut word, mut quote, mut is_assigned) = (Vec::new(), None::<u8>, false);
    let mut is_started = start.is_started;
    let mut command = OpenCommand { is_read: start.is_read, ..OpenCommand::default() };
    let mut brackets: Vec<OpenBracket> = Vec::new();
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
        let word = OsString::from_vec(std::mem::take(&mut word));
        let has_word = !word.is_empty();
        let is_prefix = PREFIXES.iter().any(|prefix| word == *prefix);
        if has_word {
            let is_program = is_started && !is_assigned;
            let is_read = !is_started && command.reads(&word);
            if word.as_bytes().iter().any(|byte| BETWEEN.contains(byte)) {
                // A quoted text may be a script, or have a command in it.
                let is_text = all.last().is_some_and(|last| runs_a_text(&last.text));
                let is_started = is_program || is_text;
                let start = TextStart { is_started, is_read: is_read && !is_started };
                words_of_text(word.as_bytes(), start, depth, all);
            }
            all.push(CommandWord { text: word.clone(), is_started: is_program, is_read });
            if is_program {
                command.program.clone_from(&word);
            }
            command.previous = word;
        }
        match byte {
            None => return,
            Some(b'=') => is_assigned |= is_started,
            Some(b'\n' | b';' | b'|' | b'&') => {
                command = OpenCommand::default();
                (is_started, is_assigned) = (true, false);
            }
            Some(byte) if closes(byte, brackets.last()) => {
                let bracket = brackets.pop();
                (is_started, is_assigned) =
                    bracket.as_ref().map_or((true, false), |it| (it.is_started, it.is_assigned));
                command = bracket.map(|it| it.outer).unwrap_or_default();
            }
            Some(byte @ (b'(' | b'`')) => {
                if byte == b'`' && !has_word && is_started && !is_assigned {
                    let text = SUBSTITUTION.into();
                    all.push(CommandWord { text, is_started: true, is_read: false });
                }
                let outer = std::mem::take(&mut command);
                brackets.push(OpenBracket { byte, outer, is_started, is_assigned });
                (is_started, is_assigned) = (true, false);
            }
            // A variable is set for the program after it.
            Some(_) if is_assigned => is_assigned = false,
            Some(_) => is_started &= is_prefix || !has_word,
        }
    }
}

/// Returns whether this byte ends what the last open bracket began.
fn closes(byte: u8, bracket: Option<&OpenBracket>) -> bool {
    match byte {
        b')' => true,
        b'`' => bracket.is_some_and(|bracket| bracket.byte == b'`'),
        _ => false,
    }
}

/// Returns a word with the user's home in the place of a `~` at its beginning, and of each `$HOME`
/// and `${HOME}`.
fn in_home(word: &OsStr, home: Option<&Path>) -> OsString {
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

    /// Returns the words of a command that may name a file where tools write.
    fn read_words(line: &str) -> Vec<String> {
        let command = ["/bin/sh", "-c", line].map(OsString::from);
        let words = all_words(&command, Some(Path::new("/home/u")));
        let read = words.iter().filter(|word| word.is_read);
        read.map(|word| word.text.display().to_string()).collect()
    }

    #[test]
    fn only_the_operands_of_readers_are_read() {
        for (line, expected) in [
            ("cat ~/w/token", &["/home/u/w/token"][..]),
            ("/bin/cat < ~/w/token | head -n 1", &["/home/u/w/token", "1"]),
            ("KEY=$(cat ~/w/token) && echo $KEY", &["/home/u/w/token"]),
            ("cat $(echo a) ~/w/token", &["$", "/home/u/w/token"]),
            ("gpg -d ~/w/token.gpg", &["/home/u/w/token.gpg"]),
            ("age -d -i ~/key ~/w/token.age", &["/home/u/w/token.age"]),
            ("gpg --homedir ~/w/keys -d", &[]),
            ("gpg --homedir=~/w/keys -d", &[]),
            ("awk -f ~/w/key.awk", &[]),
            ("awk -v a=$(cat b) -f ~/w/key.awk", &["b"]),
            ("awk -v a=`cat b` -f ~/w/key.awk", &["b"]),
            ("awk \"$(cat b)\" -f ~/w/key.awk", &["b"]),
            ("cat b; make -f ~/w/key.mk", &["b"]),
            ("cat b | make -f ~/w/key.mk", &["b"]),
            ("LD_PRELOAD=~/w/x.so cat", &[]),
            ("cat \"$(awk -f ~/w/key.awk)\"", &["$(awk -f ~/w/key.awk)", "$"]),
        ] {
            let mut found = read_words(line);
            let mut expected = expected.to_vec();
            found.sort();
            expected.sort_unstable();
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn a_printed_text_that_is_run_is_found() {
        for (line, expected) in [
            ("$(cat ~/w/command)", true),
            ("`cat ~/w/command`", true),
            ("sh -c \"$(cat ~/w/command)\"", true),
            ("x=1 $(cat ~/w/command)", true),
            ("echo $(cat ~/w/token)", false),
            ("echo `cat ~/w/token`", false),
            ("x=$(cat ~/w/token); echo $x", false),
            ("x=\"$(cat ~/w/token)\"; echo $x", false),
        ] {
            let command = ["/bin/sh", "-c", line].map(OsString::from);
            let words = all_words(&command, None);
            assert_eq!(words.iter().any(CommandWord::runs_printed_text), expected, "{line}");
        }
    }

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
