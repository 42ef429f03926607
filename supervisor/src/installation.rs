//! What a program needs of its own installation to start: its directory, and
//! where a script names an interpreter, that one's.
//!
//! Owns the guess of what belongs to a program, which shows as little as will do:
//! a program in somebody's home does not show the home. A tool is not trusted, and
//! nor is what it says of its interpreter: that shows directories by the name of
//! `bin`, `lib` and `shims` around something executable, and no other.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use super::view::{View, path_of, variable};
use crate::plan::Plan;

/// The largest `#!` line that the kernel looks at.
const LINE: u64 = 256;

/// How many scripts may interpret each other, which is what the kernel follows,
/// and how many links may lead to a program.
const DEPTH: usize = 5;

/// Where `env` looks without a PATH.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Directories in which others keep what is not a program's.
const SHARED: [&str; 12] = [
    "/", "/home", "/root", "/tmp", "/var", "/var/tmp", "/run", "/dev", "/dev/shm", "/etc", "/mnt",
    "/srv",
];

/// Shows the plan's program and its interpreter, and returns by which name it is to
/// be executed, and by which other one where a link that this name leads through is
/// not shown.
pub(super) fn show(view: &mut View, plan: &Plan) -> (PathBuf, PathBuf) {
    let program = plain(path_of(&plan.program));
    let real = fs::canonicalize(&program).unwrap_or_else(|_| program.clone());
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

/// The same file by a path without `..`, each of which would have to be shown too.
fn plain(program: PathBuf) -> PathBuf {
    if !program.components().any(|part| part == Component::ParentDir) {
        return program;
    }
    let (Some(dir), Some(name)) = (program.parent(), program.file_name()) else { return program };
    fs::canonicalize(dir).map_or_else(|_| program.clone(), |dir| dir.join(name))
}

/// The program with its directory; alone where the directory is not its own.
fn show_beside(view: &mut View, program: &Path) {
    if view.has(program) {
        return;
    }
    match program.parent() {
        Some(dir) if !is_shared(view, dir) => view.show(dir),
        _ => view.show(program),
    }
}

/// Whether what others own is in `dir`: a home, above all.
fn is_shared(view: &View, dir: &Path) -> bool {
    SHARED.iter().any(|shared| dir == Path::new(shared))
        || dir.parent() == Some(Path::new("/home"))
        || view.home.as_ref().is_some_and(|home| home.starts_with(dir))
}

/// An interpreter, each link on the way to it, and what is installed with each.
fn show_interpreter(view: &mut View, interpreter: &Path) {
    let mut hop = interpreter.to_owned();
    for _ in 0..DEPTH {
        show_installed(view, &hop);
        let (Ok(target), Some(dir)) = (fs::read_link(&hop), hop.parent()) else { break };
        let Ok(dir) = fs::canonicalize(dir.join(&target).parent().unwrap_or(dir)) else { break };
        let Some(name) = target.file_name() else { break };
        hop = dir.join(name);
    }
    if let Ok(real) = fs::canonicalize(interpreter) {
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
            // A virtual environment's interpreter has its library elsewhere.
            if let Some(home) = base_of(&prefix.join("pyvenv.cfg")) {
                show_installed(view, &home.join("python3"));
            }
        }
        // Version managers: a script that looks for the program beside its directory.
        (Some("shims"), Some(prefix)) if !is_shared(view, prefix) => view.show(prefix),
        _ => view.show(program),
    }
}

/// Shows a part of an installation, but nothing outside of it: a link by the name of
/// `lib` may be of another tool's making, and lead to a home.
fn show_part(view: &mut View, prefix: &Path, part: &str) {
    let path = prefix.join(part);
    let (Ok(prefix), Ok(real)) = (fs::canonicalize(prefix), fs::canonicalize(&path)) else {
        return;
    };
    let inside = real.strip_prefix(&prefix).is_ok_and(|rest| rest != Path::new(""));
    if inside {
        view.show_real(&path, &real);
    }
}

fn is_executable(program: &Path) -> bool {
    let executable = |it: &fs::Metadata| it.is_file() && it.permissions().mode() & 0o111 != 0;
    fs::metadata(program).is_ok_and(|it| executable(&it))
}

/// `home = DIR` of a `pyvenv.cfg`.
fn base_of(config: &Path) -> Option<PathBuf> {
    let text = String::from_utf8(head(config, 4096)?).ok()?;
    let home =
        text.lines().find_map(|line| line.strip_prefix("home")?.trim_start().strip_prefix('='));
    home.map(|home| PathBuf::from(home.trim())).filter(|home| home.is_absolute())
}

/// What the `#!` line of a script has executed: the interpreter, and where that is
/// `env`, the program that it looks for.
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

/// The program that `name` stands for in the tool's PATH.
fn find(name: &OsStr, plan: &Plan) -> Option<PathBuf> {
    // What looks like the program may be the argument of an option.
    if name.as_bytes().contains(&b'/') {
        return None;
    }
    let path = variable(plan, "PATH").unwrap_or(OsStr::new(PATH));
    std::env::split_paths(path)
        .map(|dir| dir.join(name))
        .find(|program| program.is_absolute() && is_executable(program))
}

fn head(path: &Path, length: u64) -> Option<Vec<u8>> {
    // A FIFO would block.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    let mut head = Vec::new();
    file.metadata().ok().filter(fs::Metadata::is_file)?;
    file.take(length).read_to_end(&mut head).ok()?;
    Some(head)
}
