//! The search for programs through which a tool could control a command of the user that runs with
//! all rights of its user: one that prints a token or a key, a credential helper or an editor.
//!
//! No word of the command may name a file where tools write: any file may be code for the program
//! that gets it. Does not find a name that a shell makes up, or the files that a program loads on
//! its own.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::named_paths::{in_home, possible_paths, words_of_text};
use super::reach::WritablePlaces;
use super::replaceable::{
    DEPTH, NativeStart, interpreter_line, interpreters, program_weakness, replaced, search_path,
};
use super::search;
use crate::paths;

/// The role of a file in a command, in a reason.
const NAMED: &str = "a file that it names";

/// The longest command, in bytes of its words and of the words in its texts.
const LONGEST_COMMAND: usize = 8 << 10;

/// The depth of paths that are relative to each other: a file, in a directory that an option names,
/// in a directory that another option names.
const NESTED_DIRS: usize = 3;

/// The commands of a shell after which a relative path means another file.
const MOVES: [&str; 3] = ["cd", "chdir", "pushd"];

/// Returns the reason why a tool could control a command, or `None` if that is impossible. `words`
/// are its program and its arguments, and `start` is how it starts.
pub(super) fn weakness(
    words: &[OsString],
    home: Option<&Path>,
    start: &NativeStart<'_>,
    reach: &WritablePlaces<'_>,
) -> Option<String> {
    // A program that only prints a file lets a tool choose the text and no more.
    let printing = PrintedFile::from_command(words);
    if let Some(link) = printing.as_ref().and_then(|it| it.changeable_link(home, start, reach)) {
        return Some(link);
    }
    let words = printing.map_or_else(|| all_words(words, home), |it| it.programs);
    if let Some(word) = MOVES.iter().find(|word| words.contains(OsStr::new(word))) {
        return Some(format!(
            "it changes its directory with `{word}`, and ikigai cannot check relative paths after \
             that; write absolute paths instead"
        ));
    }
    let length: usize = words.iter().map(|word| word.len()).sum();
    if length > LONGEST_COMMAND {
        return Some(format!(
            "it has {length} bytes, and ikigai checks at most {LONGEST_COMMAND}; put the command \
             into a script"
        ));
    }
    let named: BTreeSet<OsString> =
        words.iter().flat_map(|word| possible_paths(word, home)).collect();
    // An option may make each of them the directory in which a program looks.
    let mut places = BTreeSet::from([start.workspace.to_path_buf()]);
    for _ in 0..NESTED_DIRS {
        let dirs: Vec<PathBuf> = places.into_iter().filter(|path| path.is_dir()).collect();
        let beneath = |dir: &PathBuf| named.iter().map(|path| dir.join(path)).collect::<Vec<_>>();
        places = dirs.iter().flat_map(beneath).chain(dirs.iter().cloned()).collect();
    }
    let path = search_path(start);
    let is_name = |word: &OsStr| {
        word.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(byte))
    };
    let find = |word: &OsStr| search::find(word, std::env::split_paths(&path));
    // Any name may be a program that another one starts.
    let mut programs: BTreeSet<PathBuf> =
        named.iter().filter(|word| is_name(word)).filter_map(|word| find(word)).collect();
    for word in words.iter().filter(|word| !word.as_bytes().contains(&b'/')) {
        if let Some(found) = find(word) {
            programs.insert(found);
        } else if let Some(found) = search::find(word, start.lost.iter().cloned()) {
            return Some(format!(
                "its program `{}` is found nowhere but in `{}`, where tools may write",
                word.display(),
                found.parent().unwrap_or(&found).display()
            ));
        }
    }
    programs.extend(places.iter().filter(|file| is_program(file)).cloned());
    let weakness = programs.iter().find_map(|program| {
        program_weakness(program, "its program", reach)
            .or_else(|| interpreters(&paths::canonical(program)?, start, DEPTH, reach))
    });
    weakness.or_else(|| places.iter().find_map(|file| file_weakness(file, reach)))
}

/// A command that prints one file and does nothing else: `cat FILE`.
#[derive(Debug)]
struct PrintedFile {
    programs: BTreeSet<OsString>,
    file: OsString,
}

impl PrintedFile {
    /// Returns nothing for another command.
    fn from_command(words: &[OsString]) -> Option<Self> {
        let (shell, words): (_, Vec<&[u8]>) = match words {
            [shell, option, line] if option == "-c" => {
                // After a newline, the shell would run another command.
                let words = line.as_bytes().split(|byte| b" \t".contains(byte));
                (Some(shell.clone()), words.filter(|word| !word.is_empty()).collect())
            }
            words => (None, words.iter().map(|word| word.as_bytes()).collect()),
        };
        let [program, file] = *words else { return None };
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-~+@,:".contains(byte);
        let is_cat = [&b"cat"[..], b"/bin/cat", b"/usr/bin/cat"].contains(&program);
        let program = OsStr::from_bytes(program).to_owned();
        (is_cat && file.iter().all(is_plain)).then(|| Self {
            programs: shell.into_iter().chain([program]).collect(),
            file: OsStr::from_bytes(file).to_owned(),
        })
    }

    /// Returns the reason if a link leads to the file and a tool could change the link: the command
    /// would print any file of the user, which ikigai then sends to the provider or the server.
    fn changeable_link(
        &self,
        home: Option<&Path>,
        start: &NativeStart<'_>,
        reach: &WritablePlaces<'_>,
    ) -> Option<String> {
        let file = start.workspace.join(in_home(&self.file, home));
        let steps = paths::resolution_steps(&file);
        let (_, links) = steps.split_last()?;
        links.iter().find_map(|link| {
            let within = reach.holds(link)?;
            Some(replaced("the file that it prints lies behind the link", link, &within))
        })
    }
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

/// Returns whether a file could be started.
fn is_program(file: &Path) -> bool {
    search::find(file.as_os_str(), [PathBuf::new()]).is_some()
        || (file.is_file() && interpreter_line(file).is_some())
}

/// Returns the words of a command, and those of the texts among them.
fn all_words(words: &[OsString], home: Option<&Path>) -> BTreeSet<OsString> {
    let mut all: BTreeSet<OsString> = words.iter().cloned().collect();
    for word in words {
        words_of_text(word.as_bytes(), &mut all);
    }
    all.iter().map(|word| in_home(word, home)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_a_text_is_found() {
        for (line, expected) in [
            ("pass show a/b", &["pass", "show", "a/b"][..]),
            ("~/w/get-key", &["/home/u/w/get-key"]),
            ("cd $HOME/w && ./get-key", &["cd", "/home/u/w", "./get-key"]),
            ("KEY=x ${HOME}/w/get | head -n1", &["KEY", "x", "/home/u/w/get", "head", "-n1"]),
            ("echo $(~/w/get)`~/w/too`", &["echo", "/home/u/w/get", "/home/u/w/too"]),
            ("echo \"a $(~/w/get) b\"", &["/home/u/w/get"]),
            ("'/home/u/my dir/get' x", &["/home/u/my dir/get", "x"]),
            ("sh -c 'sh -c \"~/w/get; x\"'", &["sh", "/home/u/w/get", "x"]),
            ("/home/u/my\\ dir/get", &["/home/u/my dir/get"]),
            ("cat <~/w/token", &["cat", "/home/u/w/token"]),
            ("env -i $(cat ~/w/.env) x", &["env", "-i", "/home/u/w/.env", "x"]),
        ] {
            let command = ["/bin/sh", "-c", line].map(OsString::from);
            let found = all_words(&command, Some(Path::new("/home/u")));
            for word in expected {
                assert!(found.contains(OsStr::new(word)), "{line}: {word} in {found:?}");
            }
        }
    }

    #[test]
    fn only_cat_of_one_file_prints_a_file() {
        for (line, expected) in [
            ("cat ~/w/token", true),
            (" /bin/cat  /w/token ", true),
            ("cat ~/w/token | sh", false),
            ("cat ~/w/token;sh", false),
            ("cat\n~/w/get", false),
            ("cat ~/w/token\n", false),
            ("cat ~/w/token ~/w/get", false),
            ("cat $(~/w/get)", false),
            ("cat `~/w/get`", false),
            ("cat <~/w/get", false),
            ("cat", false),
            ("~/w/cat ~/w/token", false),
            ("jq ~/w/token", false),
        ] {
            let command = ["/bin/sh", "-c", line].map(OsString::from);
            assert_eq!(PrintedFile::from_command(&command).is_some(), expected, "{line}");
        }
        let programs = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(Into::into).collect();
            PrintedFile::from_command(&words).map(|it| it.programs)
        };
        assert_eq!(programs(&["cat", "/w/token"]), Some(BTreeSet::from(["cat".into()])));
        let with_shell = BTreeSet::from(["/w/sh".into(), "cat".into()]);
        assert_eq!(programs(&["/w/sh", "-c", "cat /w/token"]), Some(with_shell));
    }
}
