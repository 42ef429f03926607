//! The search for files through which another tool could control an unconfined tool: its own file
//! and its interpreters, if tools may write there. `user_command` searches those of the user's
//! commands.
//!
//! Libraries and modules that a program loads at run time are not checked.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ikigai_supervisor::shebang::{EnvPath, LINE, Shebang};

use super::reach::{WritablePlaces, WritableReason};
use super::search::{self, PATH};
use crate::paths;

/// The number of nested script interpreters before the kernel gives up.
pub(super) const DEPTH: usize = 5;

/// The directories that `env` searches if `PATH` is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The start of a native tool.
pub(super) struct NativeStart<'a> {
    pub(super) path: &'a Path,
    /// The program that the file wraps, if the file is a definition.
    pub(super) program: Option<&'a Path>,
    /// The directory that it starts in.
    pub(super) workspace: &'a Path,
    pub(super) env: &'a [(OsString, OsString)],
    /// The directories that were removed from its `PATH` because tools may write there.
    pub(super) lost: &'a [PathBuf],
}

/// Returns the reason why another tool could control this one, or `None` if that is impossible.
/// `protected` are the paths that no tool may write.
pub(super) fn weakness(
    start: &NativeStart<'_>,
    protected: &[PathBuf],
    reach: &WritablePlaces<'_>,
) -> Option<String> {
    let is_protected = |place: &Path| protected.iter().any(|dir| place.starts_with(dir));
    let steps = paths::resolution_steps(start.path);
    let real = steps.last()?;
    for place in &steps {
        let what = if place == real { "its file is" } else { "its file lies behind the link" };
        if let Some(within) = reach.holds(place) {
            return Some(replaced(what, place, &within));
        }
        if !is_protected(place) && paths::is_changeable(place) {
            return Some(format!(
                "{what} `{}`, outside of the tool directory, where you may write, and so may \
                 any tool that works there",
                place.display()
            ));
        }
    }
    if let Some(reason) = has_other_names(real, "its file") {
        return Some(reason);
    }
    let Some(program) = start.program else { return interpreters(real, start, DEPTH, reach) };
    program_weakness(program, "its program", reach)
        .or_else(|| interpreters(&paths::canonical(program)?, start, DEPTH, reach))
}

/// Returns the reason why another tool could control an interpreter of this program.
pub(super) fn interpreters(
    program: &Path,
    start: &NativeStart<'_>,
    depth: usize,
    reach: &WritablePlaces<'_>,
) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    let line = interpreter_line(program)?;
    let named = match named_by(&line, start) {
        Ok(named) => named,
        Err(reason) => return Some(reason),
    };
    named.iter().find_map(|it| {
        program_weakness(it, "its interpreter", reach)
            .or_else(|| interpreters(&paths::canonical(it)?, start, depth, reach))
    })
}

/// Returns the reason why another tool could replace a program that interprets the tool, or that
/// the tool wraps.
pub(super) fn program_weakness(
    program: &Path,
    role: &str,
    reach: &WritablePlaces<'_>,
) -> Option<String> {
    let steps = paths::resolution_steps(program);
    for place in &steps {
        let what = match place == program {
            true => format!("{role} is"),
            false => format!("{role} `{}` leads to", program.display()),
        };
        if let Some(within) = reach.holds(place) {
            return Some(replaced(&what, place, &within));
        }
        if let Some(unknown) = reach.unknown().filter(|_| paths::is_changeable(place)) {
            let place = place.display();
            return Some(format!("{what} `{place}`, where tools may have written: {unknown}"));
        }
    }
    has_other_names(steps.last()?, role)
}

pub(super) fn replaced(what: &str, place: &Path, within: &WritableReason) -> String {
    format!("{what} `{}`{within}, so that one of them could replace it", place.display())
}

/// Returns the reason if a changeable file has names outside of its directory.
fn has_other_names(real: &Path, what: &str) -> Option<String> {
    let reason = |why: String| {
        Some(format!("{what} `{}` {why}, by which a tool could rewrite it", real.display()))
    };
    let metadata = real.metadata().ok()?;
    if metadata.nlink() == 1 || !paths::is_changeable(real) {
        return None;
    }
    match paths::other_names(real, &metadata) {
        Ok(0) => None,
        Ok(others) => reason(format!("has {others} hard link(s) in other directories")),
        Err(error) => {
            reason(format!("has hard links, in directories that are not known ({error})"))
        }
    }
}

/// Returns the `#!` line of a script; or `None` for another program, or for an unreadable file,
/// which an interpreter could not read either.
pub(super) fn interpreter_line(program: &Path) -> Option<Shebang> {
    let (file, _) = paths::open_regular(program).ok()?;
    let mut head = Vec::new();
    file.take(LINE).read_to_end(&mut head).ok()?;
    Shebang::parse(&head)
}

/// Returns the list of directories in which a program is searched for by its name.
pub(super) fn search_path(start: &NativeStart<'_>) -> OsString {
    let path = start.env.iter().find(|(name, _)| name == PATH).map(|(_, value)| value.as_os_str());
    path.unwrap_or(OsStr::new(DEFAULT_PATH)).to_owned()
}

/// Returns the programs that a `#!` line starts: the interpreter, and, for `env`, the programs that
/// it looks for. The program may start another one, so every word that could be a program's name
/// counts as one.
fn named_by(line: &Shebang, start: &NativeStart<'_>) -> Result<Vec<PathBuf>, String> {
    // A relative path is relative to the directory in which the tool starts.
    let mut programs = vec![start.workspace.join(&line.interpreter)];
    if !line.is_env() {
        return Ok(programs);
    }
    let Some(command) = line.env_command() else {
        return Err(
            "its `#!` line has arguments for `env` that ikigai does not understand, so it \
                    does not know which program they start"
                .to_owned(),
        );
    };
    let mut path = match command.path {
        EnvPath::Inherited => search_path(start),
        EnvPath::Unset => DEFAULT_PATH.into(),
        EnvPath::Set(path) => path,
    };
    let dir = start.workspace.join(command.dir);
    for word in &command.words {
        if word.is_empty() || word.as_bytes().starts_with(b"-") {
            continue;
        }
        if word.as_bytes().contains(&b'=') {
            if let Some(set) = word.as_bytes().strip_prefix(b"PATH=") {
                path = OsStr::from_bytes(set).to_owned();
            }
            continue;
        }
        if word.as_bytes().contains(&b'/') {
            programs.push(dir.join(word));
            continue;
        }
        // A relative directory in PATH is relative to the one in which the program starts.
        let dirs = std::env::split_paths(&path).map(|searched| dir.join(searched));
        if let Some(found) = search::find(word, dirs) {
            programs.push(found);
        } else if let Some(found) = search::find(word, start.lost.iter().cloned()) {
            return Err(format!(
                "its interpreter `{}` is found nowhere but in `{}`, where tools may write",
                word.display(),
                found.parent().unwrap_or(&found).display()
            ));
        }
    }
    Ok(programs)
}
