//! The files of a program's installation that it needs to start: its directory, and the
//! directories of the interpreter that a script names.
//!
//! Owns the guess of what belongs to a program. It shows as little as possible: a program in a
//! home does not show the home. The tool is not trusted, and neither is the interpreter that it
//! names. That interpreter shows only directories with the names `bin`, `lib` and `shims` around
//! an executable file.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use super::view::{View, canonical};
use crate::plan::{Plan, path_of};

/// The length of the longest `#!` line that the kernel reads.
const LINE: u64 = 256;

/// The number of scripts that may interpret each other, which is the kernel's limit, and of
/// links that may lead to a program.
const DEPTH: usize = 5;

/// The directories that `env` searches without a PATH.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Directories in which files of many programs and users lie.
const SHARED: [&str; 12] = [
    "/", "/home", "/root", "/tmp", "/var", "/var/tmp", "/run", "/dev", "/dev/shm", "/etc", "/mnt",
    "/srv",
];

/// Shows the plan's program and its interpreter. Returns the path by which to execute it, and
/// the path without links, for a tool that does not see a link on the first one.
pub(super) fn show(view: &mut View, plan: &Plan) -> (PathBuf, PathBuf) {
    let program = plain(path_of(&plan.program));
    let real = canonical(&program).unwrap_or_else(|_| program.clone());
    show_beside(view, &program);
    if program.is_symlink() {
        show_beside(view, &real);
    }
    let mut script = real.clone();
    for _ in 0..DEPTH {
        let Some(interpreters) = named_by(&script, plan) else { break };
        for interpreter in &interpreters {
            show_interpreter(view, interpreter);
        }
        let Some(last) = interpreters.into_iter().last() else { break };
        script = last;
    }
    (program, real)
}

/// Returns the path without `..`, since every directory on a path has to be shown.
fn plain(program: PathBuf) -> PathBuf {
    if !program.components().any(|part| part == Component::ParentDir) {
        return program;
    }
    let (Some(dir), Some(name)) = (program.parent(), program.file_name()) else { return program };
    canonical(dir).map_or_else(|_| program.clone(), |dir| dir.join(name))
}

/// Shows the program with its directory, or without the directory if others share it.
fn show_beside(view: &mut View, program: &Path) {
    if view.has(program) {
        return;
    }
    match program.parent() {
        Some(dir) if !is_shared(view, dir) => view.show(dir),
        _ => view.show(program),
    }
}

/// Returns whether `dir` contains files of others. The most important case is a home.
fn is_shared(view: &View, dir: &Path) -> bool {
    SHARED.iter().any(|shared| dir == Path::new(shared))
        || dir.parent() == Some(Path::new("/home"))
        || view.home.as_ref().is_some_and(|home| home.starts_with(dir))
}

/// Shows an interpreter, each link on the way to it, and the installation of each.
fn show_interpreter(view: &mut View, interpreter: &Path) {
    let mut hop = interpreter.to_owned();
    for _ in 0..DEPTH {
        show_installed(view, &hop);
        let (Ok(target), Some(dir)) = (fs::read_link(&hop), hop.parent()) else { break };
        let Ok(dir) = canonical(dir.join(&target).parent().unwrap_or(dir)) else { break };
        let Some(name) = target.file_name() else { break };
        hop = dir.join(name);
    }
    if let Ok(real) = canonical(interpreter) {
        show_installed(view, &real);
    }
}

fn show_installed(view: &mut View, program: &Path) {
    let Some(dir) = program.parent() else { return };
    if view.has(program) || !is_executable(program) {
        return;
    }
    let prefix = dir.parent().filter(|prefix| *prefix != Path::new("/"));
    match (dir.file_name().and_then(OsStr::to_str), prefix) {
        (Some("bin" | "sbin"), Some(prefix)) => {
            for part in ["bin", "sbin", "lib", "lib64", "pyvenv.cfg"] {
                show_part(view, prefix, part);
            }
            // The library of a virtual environment's interpreter is elsewhere.
            if let Some(home) = base_of(&prefix.join("pyvenv.cfg")) {
                show_installed(view, &home.join("python3"));
            }
        }
        // A script of a version manager, which looks for the program next to its directory.
        (Some("shims"), Some(prefix)) if !is_shared(view, prefix) => view.show(prefix),
        _ => view.show(program),
    }
}

/// Shows a part of an installation, but nothing outside of it: another tool may have made a link
/// named `lib` that leads to a home.
fn show_part(view: &mut View, prefix: &Path, part: &str) {
    let path = prefix.join(part);
    let (Ok(prefix), Ok(real)) = (canonical(prefix), canonical(&path)) else {
        return;
    };
    let inside = real.strip_prefix(&prefix).is_ok_and(|rest| rest != Path::new(""));
    if inside {
        view.show_real(&path, &real);
    }
}

fn is_executable(program: &Path) -> bool {
    let executable = |it: &fs::Metadata| it.is_file() && it.permissions().mode() & 0o111 != 0;
    canonical(program).and_then(fs::metadata).is_ok_and(|it| executable(&it))
}

/// Reads `home = DIR` of a `pyvenv.cfg`.
fn base_of(config: &Path) -> Option<PathBuf> {
    let text = String::from_utf8(head(config, 4096)?).ok()?;
    let home =
        text.lines().find_map(|line| line.strip_prefix("home")?.trim_start().strip_prefix('='));
    home.map(|home| PathBuf::from(home.trim())).filter(|home| home.is_absolute())
}

/// Returns the programs that the `#!` line of a script names: the interpreter, and the
/// program that `env` would look for.
fn named_by(script: &Path, plan: &Plan) -> Option<Vec<PathBuf>> {
    let head = head(script, LINE)?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|word| !word.is_empty())
        .map(|word| OsString::from_vec(word.to_vec()));
    let interpreter = PathBuf::from(words.next()?);
    if !interpreter.is_absolute() {
        return None;
    }
    let mut named = vec![interpreter];
    if named[0].file_name() == Some(OsStr::new("env")) {
        let is_option =
            |word: &OsString| word.as_bytes().starts_with(b"-") || word.as_bytes().contains(&b'=');
        named.extend(words.find(|word| !is_option(word)).and_then(|name| find(&name, plan)));
    }
    Some(named)
}

/// Looks for a program in the tool's PATH.
fn find(name: &OsStr, plan: &Plan) -> Option<PathBuf> {
    // The word may be the argument of an option.
    if name.as_bytes().contains(&b'/') {
        return None;
    }
    let path = plan.variable("PATH").unwrap_or(OsStr::new(PATH));
    std::env::split_paths(path)
        .map(|dir| dir.join(name))
        .find(|program| program.is_absolute() && is_executable(program))
}

fn head(path: &Path, length: u64) -> Option<Vec<u8>> {
    // A FIFO would block.
    let path = canonical(path).ok()?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    let mut head = Vec::new();
    file.metadata().ok().filter(fs::Metadata::is_file)?;
    file.take(length).read_to_end(&mut head).ok()?;
    Some(head)
}
