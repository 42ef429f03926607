//! Empty operands. The interpreter resolves an empty path to the working directory, and a system
//! finds nothing there. So the operand becomes a name that no file has.

use bashkit::hooks::{HookAction, ToolEvent};

/// A path that no file can have.
const NOTHING: &str = "/dev/null/''";

/// The programs whose operands are files: the number of operands before those, and the letters of
/// options that take a value.
const PROGRAMS: &[(&str, usize, &str)] = &[
    ("awk", 1, "Fvf"),
    ("base32", 0, "w"),
    ("base64", 0, "w"),
    ("bunzip2", 0, ""),
    ("bzcat", 0, ""),
    ("bzip2", 0, ""),
    ("cat", 0, ""),
    ("chmod", 1, ""),
    ("cksum", 0, "al"),
    ("cmp", 0, "in"),
    ("column", 0, "cosNR"),
    ("comm", 0, ""),
    ("cp", 0, "St"),
    ("cut", 0, "bcdf"),
    ("diff", 0, "CUIx"),
    ("du", 0, "BXdt"),
    ("egrep", 1, "ABCefm"),
    ("expand", 0, "t"),
    ("fgrep", 1, "ABCefm"),
    ("file", 0, "fFm"),
    ("fmt", 0, "gpw"),
    ("fold", 0, "w"),
    ("gawk", 1, "Fvf"),
    ("grep", 1, "ABCefm"),
    ("gunzip", 0, "S"),
    ("gzip", 0, "S"),
    ("head", 0, "cn"),
    ("hexdump", 0, "efns"),
    ("iconv", 0, "fto"),
    ("install", 0, "Sgmot"),
    ("join", 0, "12aejotv"),
    ("less", 0, ""),
    ("link", 0, ""),
    ("ln", 0, "St"),
    ("ls", 0, "ITw"),
    ("mawk", 1, "Fvf"),
    ("md5sum", 0, ""),
    ("mkdir", 0, "m"),
    ("mv", 0, "St"),
    ("nl", 0, "bdfhilnsvw"),
    ("od", 0, "AjNStw"),
    ("paste", 0, "d"),
    ("pr", 0, "DNSWeghilnosw"),
    ("readlink", 0, ""),
    ("realpath", 0, ""),
    ("rev", 0, ""),
    ("rg", 1, "ABCefgmt"),
    ("rm", 0, ""),
    ("rmdir", 0, ""),
    ("sed", 1, "efl"),
    ("sha1sum", 0, ""),
    ("sha224sum", 0, ""),
    ("sha256sum", 0, ""),
    ("sha384sum", 0, ""),
    ("sha512sum", 0, ""),
    ("shasum", 0, "a"),
    ("sort", 0, "STkot"),
    ("split", 0, "Cabln"),
    ("stat", 0, "c"),
    ("strings", 0, "ent"),
    ("sum", 0, ""),
    ("tac", 0, "s"),
    ("tail", 0, "cns"),
    ("tar", 0, "CTX"),
    ("tee", 0, ""),
    ("touch", 0, "drt"),
    ("tree", 0, "ILPo"),
    ("truncate", 0, "rs"),
    ("tsort", 0, ""),
    ("unexpand", 0, "t"),
    ("uniq", 0, "fsw"),
    ("unlink", 0, ""),
    ("unzip", 0, "dPx"),
    ("wc", 0, ""),
    ("xxd", 0, "closR"),
    ("zcat", 0, ""),
    ("zip", 0, "inx"),
];

/// The operators of `[` before a file.
const UNARY: &[&str] = &[
    "-b", "-c", "-d", "-e", "-f", "-g", "-G", "-h", "-k", "-L", "-N", "-O", "-p", "-r", "-s", "-S",
    "-u", "-w", "-x",
];

/// The operators of `[` between files.
const BINARY: &[&str] = &["-ef", "-nt", "-ot"];

/// Replaces each empty operand that stands for a file by a name that no file has.
pub(super) fn named(mut call: ToolEvent) -> HookAction<ToolEvent> {
    if call.args.iter().any(String::is_empty) {
        for at in empty_files(&call.name, &call.args) {
            NOTHING.clone_into(&mut call.args[at]);
        }
    }
    HookAction::Continue(call)
}

/// Returns the places of the empty arguments that stand for files.
fn empty_files(name: &str, args: &[String]) -> Vec<usize> {
    let empty = |found: &dyn Fn(usize) -> bool| {
        (0..args.len()).filter(|&at| args[at].is_empty() && found(at)).collect::<Vec<_>>()
    };
    let is_one_of = |at: Option<usize>, words: &[&str]| {
        at.and_then(|at| args.get(at)).is_some_and(|it| words.contains(&it.as_str()))
    };
    match name {
        "[" | "test" => empty(&|at| {
            let before = at.checked_sub(1);
            is_one_of(before, UNARY) || is_one_of(before, BINARY) || is_one_of(Some(at + 1), BINARY)
        }),
        // The expression comes after the files.
        "find" => {
            let begins = |it: &String| it.starts_with(['-', '(', '!']);
            let end = args.iter().position(begins).unwrap_or(args.len());
            empty(&|at| at < end)
        }
        _ => match PROGRAMS.iter().find(|(program, ..)| *program == name) {
            Some((_, before, letters)) => {
                let files = files(args, *before, letters);
                empty(&|at| files.contains(&at))
            }
            None => Vec::new(),
        },
    }
}

/// Returns the places of the operands that are files.
fn files(args: &[String], mut before: usize, letters: &str) -> Vec<usize> {
    let mut files = Vec::new();
    let mut only_operands = false;
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        if only_operands || !arg.starts_with('-') || arg == "-" {
            if before == 0 {
                files.push(at);
            }
            before = before.saturating_sub(1);
        } else if arg == "--" {
            only_operands = true;
        } else if !arg.starts_with("--")
            && let Some((place, letter)) =
                arg.char_indices().skip(1).find(|(_, letter)| letters.contains(*letter))
        {
            // `grep -e` and `awk -f` have no operand before the files.
            if matches!(letter, 'e' | 'f') && before == 1 {
                before = 0;
            }
            if place + letter.len_utf8() == arg.len() {
                at += 1;
            }
        }
        at += 1;
    }
    files
}
