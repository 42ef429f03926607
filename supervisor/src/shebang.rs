//! The `#!` line of a script, as the kernel reads it, and the command line of `env` in that line.
//!
//! Owns the question which program such a line starts. The supervisor shows that program's
//! installation, and the host checks who could replace the program. Reads no file, and looks for no
//! program.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

/// The number of bytes at the beginning of a script in which the kernel looks for the line.
pub const LINE: u64 = 256;

/// The number of bytes after `#!` in these.
const FULL: usize = 254;

/// The program that looks for another program.
const ENV: &str = "env";

/// The options that have no value, or one after `=`.
const SIGNALS: [&[u8]; 3] = [b"block-signal", b"default-signal", b"ignore-signal"];

/// A vertical tab and a form feed.
const VERTICAL: u8 = 0x0b;
const FEED: u8 = 0x0c;

/// The `#!` line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shebang {
    /// The interpreter. A relative path is relative to the directory in which the script starts.
    pub interpreter: PathBuf,
    /// The rest of the line. The kernel passes it as one argument, before the path of the script.
    argument: Option<OsString>,
}

/// The command that `env` executes for a `#!` line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvCommand {
    /// The program and its arguments, without the path of the script, which follows them. Without a
    /// word, `env` executes the script again.
    pub words: Vec<OsString>,
    /// The `PATH` in which `env` looks for the program.
    pub path: EnvPath,
    /// The directory to which `env` goes first. Empty if it stays.
    pub dir: PathBuf,
}

/// The `PATH` in which `env` looks for a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EnvPath {
    /// The one that the script was started with.
    #[default]
    Inherited,
    /// None, so the C library's default applies.
    Unset,
    /// The line sets it.
    Set(OsString),
}

/// A part of a command line that is not understood.
struct NotUnderstood;

impl Shebang {
    /// Reads the line from the first [`LINE`] bytes of a file, or returns `None` if the file is no
    /// script.
    #[must_use]
    pub fn parse(head: &[u8]) -> Option<Self> {
        let text = head.strip_prefix(b"#!")?;
        let text = &text[..text.len().min(FULL)];
        // The kernel reads C strings. It fills its buffer with NUL bytes after a short file.
        let text = text.split(|byte| *byte == 0).next()?;
        let line = match text.iter().position(|byte| *byte == b'\n') {
            Some(end) => without_blanks_at_end(&text[..end]),
            // The last byte of the kernel's buffer does not count.
            None if text.len() == FULL => without_blanks_at_end(&text[..FULL - 1]),
            None => text,
        };
        let line = without_blanks_at_start(line);
        let end = line.iter().position(|byte| is_blank(*byte)).unwrap_or(line.len());
        let (interpreter, rest) = line.split_at(end);
        if interpreter.is_empty() {
            return None;
        }
        let argument = Some(without_blanks_at_start(rest)).filter(|rest| !rest.is_empty());
        Some(Self {
            interpreter: PathBuf::from(OsStr::from_bytes(interpreter)),
            argument: argument.map(|argument| OsStr::from_bytes(argument).to_owned()),
        })
    }

    /// Returns whether the interpreter has the name of `env`.
    #[must_use]
    pub fn is_env(&self) -> bool {
        self.interpreter.file_name() == Some(OsStr::new(ENV))
    }

    /// Returns the command that the interpreter executes if it is `env`. Returns `None` if a part
    /// of the line is not understood: then nothing is known about the command.
    ///
    /// Understands the options of GNU coreutils by their full names, and in `-S` its quotes and
    /// escapes. Does not understand abbreviated options, variables (`${NAME}`), `-S` inside of
    /// `-S`, and a backslash between single quotes.
    #[must_use]
    pub fn env_command(&self) -> Option<EnvCommand> {
        let argument = self.argument.iter().map(|argument| argument.as_bytes().to_vec());
        EnvCommand::default().read(argument.collect(), false)
    }
}

impl EnvCommand {
    /// Reads the words of a command line. `is_split` is true for the words of a `-S`.
    fn read(mut self, words: Vec<Vec<u8>>, is_split: bool) -> Option<Self> {
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next_if(|word| word.len() > 1 && word.starts_with(b"-")) {
            if word == b"--" {
                break;
            }
            let read = match word.strip_prefix(b"--") {
                Some(long) => self.read_long(long, &mut words),
                None => self.read_short(&word[1..], &mut words),
            };
            match read.ok()? {
                Some(string) if !is_split => return self.read(split(&string)?, true),
                Some(_) => return None,
                None => {}
            }
        }
        if words.next_if(|word| word == b"-").is_some() {
            self.path = EnvPath::Unset;
        }
        while let Some(word) = words.next_if(|word| word.contains(&b'=')) {
            if word.starts_with(b"=") {
                return None;
            }
            if let Some(path) = word.strip_prefix(b"PATH=") {
                self.path = EnvPath::Set(OsStr::from_bytes(path).to_owned());
            }
        }
        self.words = words.map(OsString::from_vec).collect();
        Some(self)
    }

    /// Reads an option such as `--unset=NAME`, without its `--`. Returns the string of a
    /// `--split-string`.
    fn read_long(
        &mut self,
        option: &[u8],
        words: &mut impl Iterator<Item = Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, NotUnderstood> {
        let (name, value) = match option.iter().position(|byte| *byte == b'=') {
            Some(at) => (&option[..at], Some(option[at + 1..].to_vec())),
            None => (option, None),
        };
        if SIGNALS.contains(&name) {
            return Ok(None);
        }
        let letter = match name {
            b"unset" => b'u',
            b"chdir" => b'C',
            b"argv0" => b'a',
            b"split-string" => b'S',
            b"ignore-environment" if value.is_none() => {
                self.path = EnvPath::Unset;
                return Ok(None);
            }
            b"null" | b"debug" | b"list-signal-handling" if value.is_none() => return Ok(None),
            _ => return Err(NotUnderstood),
        };
        // Without a word that follows, the path of the script is the value.
        let value = value.or_else(|| words.next()).ok_or(NotUnderstood)?;
        Ok(self.set(letter, value))
    }

    /// Reads options such as `-iu NAME`, without their `-`. Returns the string of a `-S`.
    fn read_short(
        &mut self,
        options: &[u8],
        words: &mut impl Iterator<Item = Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, NotUnderstood> {
        for (at, letter) in options.iter().enumerate() {
            match letter {
                b'i' => self.path = EnvPath::Unset,
                b'0' | b'v' => {}
                b'u' | b'C' | b'a' | b'S' => {
                    let rest = Some(options[at + 1..].to_vec()).filter(|rest| !rest.is_empty());
                    let value = rest.or_else(|| words.next()).ok_or(NotUnderstood)?;
                    return Ok(self.set(*letter, value));
                }
                _ => return Err(NotUnderstood),
            }
        }
        Ok(None)
    }

    /// Applies an option that has a value. Returns the value of `-S`.
    fn set(&mut self, letter: u8, value: Vec<u8>) -> Option<Vec<u8>> {
        match letter {
            b'S' => return Some(value),
            b'u' if value == b"PATH" => self.path = EnvPath::Unset,
            b'C' => self.dir = PathBuf::from(OsString::from_vec(value)),
            _ => {}
        }
        None
    }
}

/// Splits the string of `-S` into words, or returns `None` if a part of it is not understood.
fn split(string: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    // A quote begins a word, even an empty one.
    let (mut word, mut quote) = (None::<Vec<u8>>, None::<u8>);
    let mut bytes = string.iter().copied();
    while let Some(byte) = bytes.next() {
        let added = match byte {
            _ if quote == Some(byte) => {
                quote = None;
                continue;
            }
            b'\'' | b'"' if quote.is_none() => {
                quote = Some(byte);
                word.get_or_insert_default();
                continue;
            }
            b' ' | b'\t' | b'\n' | b'\r' | VERTICAL | FEED if quote.is_none() => {
                words.extend(word.take());
                continue;
            }
            b'#' if word.is_none() => break,
            b'\\' if quote == Some(b'\'') => return None,
            b'$' if quote != Some(b'\'') => return None,
            b'\\' => match bytes.next()? {
                escaped @ (b'"' | b'#' | b'$' | b'\'' | b'\\') => escaped,
                b'_' if quote.is_none() => {
                    words.extend(word.take());
                    continue;
                }
                b'_' => b' ',
                b'c' if quote.is_none() => break,
                b'f' => FEED,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'v' => VERTICAL,
                _ => return None,
            },
            other => other,
        };
        word.get_or_insert_default().push(added);
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn without_blanks_at_start(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|byte| !is_blank(*byte)).unwrap_or(line.len());
    &line[start..]
}

fn without_blanks_at_end(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |last| last + 1);
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(head: &[u8]) -> Option<(String, String)> {
        let line = Shebang::parse(head)?;
        let argument = line.argument.unwrap_or_default();
        Some((line.interpreter.display().to_string(), argument.display().to_string()))
    }

    /// Returns the words of the command that `env` executes with this argument, separated by `|`.
    fn words(argument: &str) -> Option<String> {
        let line = Shebang::parse(format!("#!/usr/bin/env {argument}\n").as_bytes())?;
        let words = line.env_command()?.words;
        Some(words.iter().map(|word| word.display().to_string()).collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn a_line_is_an_interpreter_and_one_argument() {
        for (head, interpreter, argument) in [
            (&b"#!/bin/sh\necho"[..], "/bin/sh", ""),
            (b"#!/bin/sh", "/bin/sh", ""),
            (b"#! \t/bin/sh \t-e  -u \t\n", "/bin/sh", "-e  -u"),
            (b"#!/bin/sh\r\n", "/bin/sh\r", ""),
            // Without a line break, blanks at the end are a part of the argument.
            (b"#!/bin/env a ", "/bin/env", "a "),
            (b"#!/bin/env a \0 b\n", "/bin/env", "a "),
        ] {
            let expected = (interpreter.to_owned(), argument.to_owned());
            assert_eq!(parts(head), Some(expected), "{}", head.escape_ascii());
        }
        for head in [&b""[..], b"#!", b"#!\n/bin/sh", b"#! \t \n", b"\x7fELF", b" #!/bin/sh\n"] {
            assert_eq!(parts(head), None, "{}", head.escape_ascii());
        }
        let long = format!("#!/bin/sh {}\n", "a".repeat(300));
        let (_, argument) = parts(long.as_bytes()).expect("a line");
        assert_eq!("#!/bin/sh ".len() + argument.len(), 255);
    }

    #[test]
    fn the_program_of_env_is_the_word_that_it_executes() {
        for (argument, expected) in [
            ("", ""),
            ("sh", "sh"),
            ("sh -e", "sh -e"),
            ("-S sh -e", "sh|-e"),
            ("-Ssh -e", "sh|-e"),
            ("-iS sh", "sh"),
            ("-vS-u A sh", "sh"),
            ("--split-string=sh -e", "sh|-e"),
            ("-S -u deploy sh", "sh"),
            ("-S -udeploy sh", "sh"),
            ("-S -iu deploy -0 sh", "sh"),
            ("-S --unset deploy sh", "sh"),
            ("-S --unset=deploy --chdir deploy --argv0 deploy sh", "sh"),
            ("-S -C deploy -a deploy -- sh", "sh"),
            ("-S --ignore-environment --null --debug sh", "sh"),
            ("-S --block-signal --default-signal=INT --ignore-signal sh", "sh"),
            ("-S - A=1 B= sh A=2", "sh|A=2"),
            ("-S -- -u sh", "-u|sh"),
            ("-i", ""),
            ("-u deploy", ""),
            ("A=1 deploy", ""),
            (r#"-S "/my dir/x" 'a"b' "c'd""#, r#"/my dir/x|a"b|c'd"#),
            (r"-S a\_b \'\#\$\\", r"a|b|'#$\"),
            (r#"-S "a\_b" '' x"#, "a b||x"),
            ("-S a#b #c d", "a#b"),
            (r"-S a \c b", "a"),
        ] {
            assert_eq!(words(argument).as_deref(), Some(expected), "{argument}");
        }
    }

    #[test]
    fn what_is_not_understood_is_no_command() {
        for argument in [
            "-S",
            "-S -u",
            "-S -S sh",
            "-S --uns deploy sh",
            "-S -P /bin sh",
            "-S --debug=1 sh",
            "-S --help",
            "-S =1 sh",
            "-i sh",
            "-S ${HOME}/x",
            "-S \"$HOME\" x",
            r"-S a\x",
            r"-S 'a\'",
            "-S 'a",
            "-S \"a\\c\"",
            "-S a\\",
        ] {
            assert_eq!(words(argument), None, "{argument}");
        }
    }

    #[test]
    fn env_looks_in_the_path_that_the_line_leaves() {
        let command = |argument: &str| {
            let line = format!("#!/usr/bin/env {argument}\n");
            Shebang::parse(line.as_bytes()).and_then(|it| it.env_command()).expect("a command")
        };
        let set = |path: &str| EnvPath::Set(path.into());
        for (argument, expected) in [
            ("sh", EnvPath::Inherited),
            ("-S -u A sh PATH=/a", EnvPath::Inherited),
            ("-iS sh", EnvPath::Unset),
            ("-S -u PATH sh", EnvPath::Unset),
            ("-S - sh", EnvPath::Unset),
            ("-S -i PATH=/a PATH=/b sh", set("/b")),
        ] {
            assert_eq!(command(argument).path, expected, "{argument}");
        }
        assert_eq!(command("-S -C /a --chdir=/b sh").dir, PathBuf::from("/b"));
    }
}
