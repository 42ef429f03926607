//! The files of a program's installation that it needs to start: its directory, and the
//! directories of the interpreter that a script names.
//!
//! Owns the guess of what belongs to a program. It shows as little as possible: a program in a
//! home does not show the home. The tool is not trusted, and neither is the interpreter that it
//! names. That interpreter shows only directories with the names `bin`, `lib` and `shims` around
//! an executable file. If another tool may have put it there, it shows only the file.
//!
//! Each place is resolved to a path without links, checked by that path, and opened by it once.
//! The opened file is the one that is shown, even if the path leads elsewhere by then.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, OFlags, Stat, fstat};

use super::view::{View, canonical, open_real, open_without_links};
use crate::plan::{Plan, path_of};
use crate::shebang::{EnvPath, LINE, Shebang};

/// The number of scripts that may interpret each other, which is the kernel's limit. Also the
/// number of links that may lead to a program, and of environments that may be based on each other.
const DEPTH: usize = 5;

/// The number of links that the kernel follows on the way to a file.
const LINKS: usize = 40;

/// The directories that `env` searches without a PATH.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The paths of the system's `env`. A program elsewhere may have the name, and do something else.
const ENV: [&str; 2] = ["/usr/bin/env", "/bin/env"];

/// Directories in which files of many programs and users lie.
const SHARED: [&str; 12] = [
    "/", "/home", "/root", "/tmp", "/var", "/var/tmp", "/run", "/dev", "/dev/shm", "/etc", "/mnt",
    "/srv",
];

/// The parts of an installation around a directory `bin`.
const PARTS: [&str; 5] = ["bin", "sbin", "lib", "lib64", VENV];

/// The file of a virtual environment that names the interpreter's own installation.
const VENV: &str = "pyvenv.cfg";

/// The beginnings of the files that the kernel executes.
const EXECUTED: [&[u8]; 2] = [b"\x7fELF", b"#!"];

/// Shows the plan's program and its interpreter. Returns the path by which to execute it, and
/// the path without links, for a tool that does not see a link on the first one.
pub(super) fn show(view: &mut View, plan: &Plan) -> (PathBuf, PathBuf) {
    let named = path_of(&plan.program);
    let program = plain(named.clone());
    let real = canonical(&program).unwrap_or_else(|_| program.clone());
    let closed = ClosedPlaces::new(&plan.closed, &plan.closed_except);
    let mut installation = Installation::new(view, closed);
    installation.show_beside(&program, named.parent().unwrap_or(&named));
    if program.is_symlink() {
        installation.show_beside(&real, &named);
    }
    let path = plan.variable("PATH").unwrap_or(OsStr::new(PATH));
    let mut script = real.clone();
    for _ in 0..DEPTH {
        let Some(interpreters) = named_by(&script, path) else { break };
        for interpreter in &interpreters {
            installation.show_interpreter(interpreter);
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

/// The places in which other tools may write, or once could, and those of secrets.
struct ClosedPlaces<'a> {
    places: Vec<&'a Path>,
    /// The places in them that are not closed. The innermost place around a path decides.
    except: Vec<&'a Path>,
}

impl<'a> ClosedPlaces<'a> {
    fn new(places: &'a [CString], except: &'a [CString]) -> Self {
        let path = |path: &'a CString| Path::new(OsStr::from_bytes(path.as_bytes()));
        let paths = |all: &'a [CString]| -> Vec<&'a Path> { all.iter().map(path).collect() };
        Self { places: paths(places), except: paths(except) }
    }

    /// Returns whether a path is, or lies in, a closed place.
    fn contains(&self, path: &Path) -> bool {
        let innermost = |places: &[&Path]| {
            let around = places.iter().filter(|place| path.starts_with(place));
            around.map(|place| place.as_os_str().len()).max()
        };
        let closed = innermost(&self.places);
        closed.is_some() && closed >= innermost(&self.except)
    }

    /// Returns whether a directory is, lies in, or contains a closed place.
    fn touches(&self, dir: &Path) -> bool {
        self.contains(dir) || self.places.iter().any(|place| place.starts_with(dir))
    }

    /// Returns whether a closed place decides where an absolute path leads: if the end lies in
    /// one, or a link or a `..` on the way.
    fn decide(&self, path: &Path) -> bool {
        self.way_around(path).is_none()
    }

    /// Returns where an absolute path leads, unless a closed place decides that. Other tools can't
    /// change the part of the way before the first closed place.
    fn way_around(&self, path: &Path) -> Option<PathBuf> {
        let mut at = PathBuf::from("/");
        let mut rest = reversed_names(path);
        let mut links = 0;
        while let Some(name) = rest.pop() {
            if name == ".." {
                if self.contains(&at) {
                    return None;
                }
                at.pop();
                continue;
            }
            at.push(&name);
            let Ok(target) = fs::read_link(&at) else { continue };
            links += 1;
            if links > LINKS || self.contains(&at) {
                return None;
            }
            if target.is_absolute() {
                at = PathBuf::from("/");
            } else {
                at.pop();
            }
            rest.extend(reversed_names(&target));
        }
        (!self.contains(&at)).then_some(at)
    }
}

/// Returns the names of a path, including `..`, in reverse order.
fn reversed_names(path: &Path) -> Vec<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    };
    let mut names: Vec<OsString> = path.components().filter_map(name).collect();
    names.reverse();
    names
}

/// The installation of one tool, as it is added to a view.
struct Installation<'a> {
    view: &'a mut View,
    closed: ClosedPlaces<'a>,
    /// The user's home, by its path in the environment and by its path without links.
    homes: Vec<PathBuf>,
    /// Set once the way to an interpreter leads through a closed place: another tool may have
    /// chosen all that follows.
    is_of_tools: bool,
}

impl<'a> Installation<'a> {
    fn new(view: &'a mut View, closed: ClosedPlaces<'a>) -> Self {
        let homes = view.home.iter().flat_map(|home| [Some(home.clone()), canonical(home).ok()]);
        let homes = homes.flatten().collect();
        Self { view, closed, homes, is_of_tools: false }
    }

    /// Shows the program with its directory, or without the directory if others share it or if a
    /// closed place decides where `way` leads. `way` is the path that led to the directory.
    fn show_beside(&mut self, program: &Path, way: &Path) {
        if self.view.has(program) {
            return;
        }
        if let Some(dir) = program.parent()
            && !self.closed.decide(way)
            && let Ok(real) = canonical(dir)
            && !self.is_shared(dir, &real)
        {
            self.view.show_real(dir, &real);
        }
        if let Ok(real) = canonical(program)
            && let Some(opened) = open_regular(&real)
        {
            self.view.show_opened(program, &real, opened.file);
        }
    }

    /// Returns whether the directory `dir`, whose path without links is `real`, contains files of
    /// others. The most important cases are a home, and what other tools may write.
    fn is_shared(&self, dir: &Path, real: &Path) -> bool {
        let is_common = |dir: &Path| {
            SHARED.iter().any(|shared| dir == Path::new(shared))
                || dir.parent() == Some(Path::new("/home"))
                || self.homes.iter().any(|home| home.starts_with(dir))
        };
        is_common(dir) || is_common(real) || self.closed.touches(real)
    }

    /// Shows an interpreter, each link on the way to it, and the installation of each.
    fn show_interpreter(&mut self, interpreter: &Path) {
        let mut hop = interpreter.to_owned();
        for _ in 0..DEPTH {
            self.show_installed(&hop);
            // From a closed place on, another tool may choose the rest of the way.
            self.is_of_tools |= self.closed.decide(&hop);
            let (Ok(target), Some(dir)) = (fs::read_link(&hop), hop.parent()) else { break };
            let Ok(dir) = canonical(dir.join(&target).parent().unwrap_or(dir)) else { break };
            let Some(name) = target.file_name() else { break };
            hop = dir.join(name);
        }
        if let Ok(real) = canonical(interpreter) {
            self.show_installed(&real);
        }
    }

    /// Shows a program with its installation. The library of a virtual environment's interpreter
    /// is elsewhere, and is shown as well.
    fn show_installed(&mut self, program: &Path) {
        let mut base = self.show_program(program);
        for _ in 1..DEPTH {
            let Some(program) = base else { break };
            base = self.show_program(&program);
        }
    }

    /// Shows a program with what lies around it. Returns the program on which its virtual
    /// environment is based.
    fn show_program(&mut self, program: &Path) -> Option<PathBuf> {
        let (dir, name) = (program.parent()?, program.file_name()?);
        // A program that the tool sees already still leads to others. So does a link whose target
        // is missing, since another tool may change it.
        let place = self.closed.way_around(dir).map(|dir| dir.join(name));
        self.is_of_tools |= place.is_none_or(|place| self.closed.contains(&place));
        if self.view.has(program) {
            return None;
        }
        let real = canonical(program).ok()?;
        let opened = open_regular(&real).filter(OpenedFile::is_executable)?;
        // Anyone may execute some files with secrets.
        let is_chosen = self.is_of_tools || self.closed.decide(program);
        if is_chosen && !opened.is_program(&real) {
            return None;
        }
        let prefix = dir.parent().filter(|prefix| *prefix != Path::new("/"));
        let base = match (dir.file_name().and_then(OsStr::to_str), prefix) {
            (Some("bin" | "sbin"), Some(prefix)) => self.show_parts(prefix),
            (Some("shims"), Some(prefix)) => {
                self.show_manager(prefix);
                None
            }
            _ => None,
        };
        self.view.show_opened(program, &real, opened.file);
        base
    }

    /// Shows the version manager to whose scripts a program belongs. They look for the program
    /// next to their directory.
    fn show_manager(&mut self, prefix: &Path) {
        if let Ok(real) = canonical(prefix)
            && !self.is_of_tools
            && !self.is_shared(prefix, &real)
        {
            self.view.show_real(prefix, &real);
        }
    }

    /// Shows the parts of an installation, unless another tool may have chosen it. Returns the
    /// program on which it is based, if it is a virtual environment.
    fn show_parts(&mut self, prefix: &Path) -> Option<PathBuf> {
        if self.is_of_tools {
            return None;
        }
        let real = canonical(prefix).ok()?;
        for part in PARTS {
            self.show_part(prefix, &real, part);
        }
        let config = prefix.join(VENV);
        if self.closed.decide(&config) {
            return None;
        }
        Some(base_of(&config)?.join("python3"))
    }

    /// Shows a part of an installation, but nothing outside of it: another tool may have made a
    /// link named `lib` that leads to a home.
    fn show_part(&mut self, prefix: &Path, real_prefix: &Path, part: &str) {
        let path = prefix.join(part);
        let Ok(real) = canonical(&path) else { return };
        let inside = real.strip_prefix(real_prefix).is_ok_and(|rest| rest != Path::new(""));
        if inside && !self.closed.decide(&path) && !self.closed.touches(&real) {
            self.view.show_real(&path, &real);
        }
    }
}

/// A regular file that was opened once, by a path without links.
struct OpenedFile {
    file: OwnedFd,
    stat: Stat,
}

impl OpenedFile {
    fn is_executable(&self) -> bool {
        self.stat.st_mode & 0o111 != 0
    }

    /// Returns whether the file, which was opened at `real`, begins like one that the kernel
    /// executes.
    fn is_program(&self, real: &Path) -> bool {
        let Some((head, stat)) = head(real, LINE) else { return false };
        let is_same = (stat.st_dev, stat.st_ino) == (self.stat.st_dev, self.stat.st_ino);
        is_same && EXECUTED.iter().any(|beginning| head.starts_with(beginning))
    }
}

/// Opens a regular file by its path without links, without the right to read it.
fn open_regular(real: &Path) -> Option<OpenedFile> {
    let file = open_real(real).ok()?;
    let stat = fstat(&file).ok()?;
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_regular.then_some(OpenedFile { file, stat })
}

/// Reads `home = DIR` of a `pyvenv.cfg`.
fn base_of(config: &Path) -> Option<PathBuf> {
    let (text, _) = head(&canonical(config).ok()?, 4096)?;
    let text = String::from_utf8(text).ok()?;
    let home =
        text.lines().find_map(|line| line.strip_prefix("home")?.trim_start().strip_prefix('='));
    home.map(|home| PathBuf::from(home.trim())).filter(|home| home.is_absolute())
}

/// Returns the programs that the `#!` line of a script starts: the interpreter, and the program
/// that `env` looks for in `path`, the tool's PATH.
fn named_by(script: &Path, path: &OsStr) -> Option<Vec<PathBuf>> {
    let (head, _) = head(&canonical(script).ok()?, LINE)?;
    let line = Shebang::parse(&head)?;
    if !line.interpreter.is_absolute() {
        return None;
    }
    let started = started_by_env(&line, path);
    Some([Some(line.interpreter), started].into_iter().flatten().collect())
}

/// Returns the program that the system's `env` starts for a `#!` line, if it is certain.
fn started_by_env(line: &Shebang, path: &OsStr) -> Option<PathBuf> {
    if !ENV.iter().any(|env| line.interpreter == Path::new(env)) {
        return None;
    }
    let command = line.env_command()?;
    // With another PATH, the script would choose the directory that is shown.
    if command.path != EnvPath::Inherited {
        return None;
    }
    find(command.words.first()?, path)
}

/// Looks for a program by its name in a PATH.
fn find(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return None;
    }
    std::env::split_paths(path)
        .map(|dir| dir.join(name))
        .find(|program| program.is_absolute() && is_executable(program))
}

fn is_executable(program: &Path) -> bool {
    let opened = canonical(program).ok().and_then(|real| open_regular(&real));
    opened.is_some_and(|it| it.is_executable())
}

/// Reads the beginning of a regular file by its path without links. Returns the state of the file
/// as well.
fn head(real: &Path, length: u64) -> Option<(Vec<u8>, Stat)> {
    // A FIFO would block, and a device may act when it is opened.
    open_regular(real)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(open_without_links(real, flags).ok()?);
    let stat = fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut head = Vec::new();
    file.take(length).read_to_end(&mut head).ok()?;
    Some((head, stat))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn scratch() -> (tempfile::TempDir, PathBuf) {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("a path");
        (scratch, root)
    }

    fn file(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, text).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permitted");
    }

    fn c_string(path: &Path) -> CString {
        CString::new(path.as_os_str().as_bytes()).expect("no NUL")
    }

    /// Returns what an interpreter shows below `root`, if these places are closed.
    fn shown(root: &Path, interpreter: &str, closed: &[&str]) -> Vec<String> {
        let closed: Vec<CString> = closed.iter().map(|name| c_string(&root.join(name))).collect();
        let mut view = View::default();
        let places = ClosedPlaces::new(&closed, &[]);
        Installation::new(&mut view, places).show_interpreter(&root.join(interpreter));
        let below = view.entries.iter().filter_map(|entry| entry.path.strip_prefix(root).ok());
        let mut names: Vec<String> = below.map(|path| path.display().to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_innermost_place_around_a_path_decides() {
        let all = |paths: &[&str]| -> Vec<CString> {
            paths.iter().map(|path| c_string(Path::new(path))).collect()
        };
        let (places, except) = (all(&["/h", "/h/tools/w", "/s"]), all(&["/h/tools", "/s"]));
        let closed = ClosedPlaces::new(&places, &except);
        for (path, is_closed, touches) in [
            ("/h", true, true),
            ("/h/a", true, true),
            ("/hh", false, false),
            ("/h/tools/a", false, false),
            ("/h/tools", false, true),
            ("/h/tools/w/a", true, true),
            ("/s/a", true, true),
            ("/", false, true),
        ] {
            let path = Path::new(path);
            assert_eq!(
                (closed.contains(path), closed.touches(path)),
                (is_closed, touches),
                "{path:?}"
            );
        }
    }

    #[test]
    fn a_closed_place_shows_only_executable_files() {
        let (_scratch, root) = scratch();
        for program in ["w/shims/x", "w/bin/x", "w/v/bin/x", "base/bin/python3", "base/shims/x"] {
            file(&root.join(program), "#!/bin/sh\n");
        }
        for text in ["w/lib/part", "base/lib/part"] {
            file(&root.join(text), "");
        }
        let config = format!("home = {}/base/bin\n", root.display());
        file(&root.join("w/v/pyvenv.cfg"), &config);
        file(&root.join("w/.env"), "KEY=1\n");
        for program in ["v/bin/x", "v/private/part", "app/lib/part", "app/bin/y", "base/key"] {
            file(&root.join(program), if program == "v/bin/x" { "#!/bin/sh\n" } else { "" });
        }
        file(&root.join("config"), &config);
        fs::create_dir(root.join("w/a")).expect("made");
        for (link, target) in [
            ("w/shim", "base/shims/x"),
            ("w/python", "base/bin/python3"),
            ("w/key", "base/key"),
            ("w/chain", "app/bin/x"),
            ("app/bin/x", "w/python"),
            ("alias", "w"),
            ("w/a/bin", "base/shims"),
            ("v/pyvenv.cfg", "w/config"),
            ("w/config", "config"),
            ("v/lib", "w/part"),
            ("w/part", "v/private"),
        ] {
            symlink(root.join(target), root.join(link)).expect("linked");
        }
        let cases: [(&str, &[&str], &[&str]); 11] = [
            ("w/shims/x", &["w"], &["w/shims/x"]),
            ("w/bin/x", &["w/bin", "w/lib"], &["w/bin/x"]),
            ("w/v/bin/x", &["base/bin", "base/lib", "w/v/bin", "w/v/pyvenv.cfg"], &["w/v/bin/x"]),
            ("w/shim", &["base", "w/shim"], &["base/shims/x", "w/shim"]),
            ("w/python", &["base/bin", "base/lib", "w/python"], &["base/bin/python3", "w/python"]),
            ("w/.env", &["w/.env"], &[]),
            ("w/key", &["base/key", "w/key"], &[]),
            // A link of the user's leads back to the closed place.
            (
                "w/chain",
                &["app/bin", "app/lib", "base/bin", "base/lib", "w/chain", "w/python"],
                &["app/bin/x", "base/bin/python3", "w/chain", "w/python"],
            ),
            // The user chose the first directory.
            (
                "app/bin/x",
                &["app/bin", "app/lib", "base/bin", "base/lib", "w/python"],
                &["app/bin", "app/lib", "base/bin/python3", "w/python"],
            ),
            ("alias/a/bin/x", &["alias/a/bin/x", "base"], &["alias/a/bin/x", "base/shims/x"]),
            // Its configuration and its library are links into the closed place.
            ("v/bin/x", &["base/bin", "base/lib", "v/bin", "v/lib"], &["v/bin"]),
        ];
        for (interpreter, open, closed) in cases {
            assert_eq!(shown(&root, interpreter, &[]), open, "{interpreter}");
            assert_eq!(shown(&root, interpreter, &["w"]), closed, "{interpreter}");
        }
        // A version manager around a closed place would show it.
        assert_eq!(shown(&root, "base/shims/x", &["base/versions/w"]), ["base/shims/x"]);
        // The library does not contain the closed place.
        assert_eq!(shown(&root, "base/bin/python3", &["base/w"]), ["base/bin", "base/lib"]);
    }

    #[test]
    fn a_closed_place_decides_where_a_path_through_it_leads() {
        let (_scratch, root) = scratch();
        for name in ["w/sub/x", "w/tools/x", "base/x"] {
            file(&root.join(name), "");
        }
        for (link, target) in [
            ("alias", "w"),
            ("w/out", "base"),
            ("w/tools/out", "base"),
            ("base/back", "../w/out"),
            ("loop", "loop"),
        ] {
            let is_relative = target.starts_with('.');
            let target = if is_relative { PathBuf::from(target) } else { root.join(target) };
            symlink(target, root.join(link)).expect("linked");
        }
        let (places, except) = ([c_string(&root.join("w"))], [c_string(&root.join("w/tools"))]);
        let closed = ClosedPlaces::new(&places, &except);
        for (path, decides) in [
            ("base/x", false),
            ("base/missing", false),
            ("w/tools/x", false),
            ("w/tools/out/x", false),
            ("alias/tools/x", false),
            ("alias", true),
            ("w/sub/missing", true),
            ("alias/out/x", true),
            ("w/sub/../../base/x", true),
            ("base/back/x", true),
            ("loop", true),
        ] {
            assert_eq!(closed.decide(&root.join(path)), decides, "{path}");
        }
    }

    #[test]
    fn a_line_shows_only_the_program_that_it_starts() {
        let (_scratch, root) = scratch();
        for name in ["deploy", "lang", "env"] {
            file(&root.join("bin").join(name), "");
        }
        let (script, bin) = (root.join("script"), root.join("bin"));
        let started = |line: &str| {
            file(&script, &format!("{line}\n"));
            let named = named_by(&script, bin.as_os_str()).expect("a script");
            let names = named.iter().skip(1).filter_map(|it| it.strip_prefix(&bin).ok());
            names.map(|name| name.display().to_string()).collect::<Vec<_>>()
        };
        for (line, expected) in [
            ("#!/usr/bin/env lang", Some("lang")),
            ("#!/bin/env -S lang -u deploy", Some("lang")),
            ("#!/usr/bin/env -S -u deploy lang", Some("lang")),
            ("#!/usr/bin/env -S --unset deploy -C deploy A=1 'lang' deploy", Some("lang")),
            // No such program exists, so nothing starts.
            ("#!/usr/bin/env -S -u deploy sh", None),
            ("#!/usr/bin/env -u deploy", None),
            ("#!/usr/bin/env deploy sh", None),
            // It is not known what these start.
            ("#!/usr/bin/env -S -P deploy lang", None),
            ("#!/usr/bin/env -S --uns deploy lang", None),
            ("#!/usr/bin/env -S ${A} deploy", None),
            ("#!/usr/bin/env -S -S deploy", None),
            // The script chooses the directory.
            ("#!/usr/bin/env -S PATH=/nowhere deploy", None),
            ("#!/usr/bin/env -S -i deploy", None),
        ] {
            let expected: Vec<&str> = expected.into_iter().collect();
            assert_eq!(started(line), expected, "{line}");
        }
        // This program has the name of `env`, and may run anything.
        assert!(started(&format!("#!{}/env deploy", bin.display())).is_empty());
    }

    #[test]
    fn a_link_that_leads_nowhere_yet_is_of_tools() {
        let (_scratch, root) = scratch();
        fs::create_dir(root.join("w")).expect("made");
        symlink(root.join("missing"), root.join("w/x")).expect("linked");
        let places = [c_string(&root.join("w"))];
        let mut view = View::default();
        let mut installation = Installation::new(&mut view, ClosedPlaces::new(&places, &[]));
        assert_eq!(installation.show_program(&root.join("w/x")), None);
        assert!(installation.is_of_tools);
    }

    #[test]
    fn virtual_environments_that_are_based_on_each_other_come_to_an_end() {
        let (_scratch, root) = scratch();
        let dir = root.join("v");
        file(&root.join("elsewhere/python3"), "#!/bin/sh\n");
        fs::create_dir(&dir).expect("made");
        symlink("../elsewhere", dir.join("bin")).expect("linked");
        file(&dir.join("pyvenv.cfg"), &format!("home = {}/bin\n", dir.display()));
        let all = shown(&root, "v/bin/python3", &[]);
        assert_eq!(all, ["elsewhere/python3", "v/bin/python3", "v/pyvenv.cfg"]);
    }

    #[test]
    fn a_directory_that_became_a_link_after_the_check_is_not_shown() {
        let (_scratch, root) = scratch();
        let program = root.join("l/shims/x");
        file(&program, "#!/bin/sh\n");
        let opened = open_regular(&program).expect("opened");
        fs::rename(root.join("l"), root.join("m")).expect("renamed");
        symlink("/", root.join("l")).expect("linked");
        let mut view = View::default();
        view.show_real(&root.join("l"), &root.join("l"));
        assert!(view.entries.is_empty(), "the target of the link is shown");
        assert!(open_regular(&root.join("l/etc/passwd")).is_none());
        view.show_opened(&program, &program, opened.file);
        let is_directory: Vec<bool> = view.entries.iter().map(|entry| entry.directory).collect();
        assert_eq!(is_directory, [false], "only the file that was checked is shown");
    }
}
