//! The search for a toolchain: the directories of its managers that exist, and the programs in
//! `PATH` or in these directories.

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};

use ikigai_protocol::Access;

use super::table::{ManagerDir, PlaceNeed};
use super::{InstalledPlace, Toolchain, ToolchainContext, ToolchainInstallation};
use crate::policy::{is_broad_place, secret_place};

/// The description of a directory that no manager of the table owns.
const OF_PATH: &str = "programs that `PATH` names";

/// Finds the toolchain. Returns `None` if none of its programs exists.
pub(super) fn find(
    toolchain: &'static Toolchain,
    machine: &ToolchainContext<'_>,
) -> Option<ToolchainInstallation> {
    let mut search = ToolchainSearch { toolchain, machine, places: Vec::new(), path: Vec::new() };
    search.look_for_places();
    let mut programs = search.in_path();
    for (name, program) in &programs {
        search.show(name, program);
    }
    if programs.is_empty() {
        programs = search.in_bins();
        for (_, program) in &programs {
            search.put_before_path(program.parent());
        }
    }
    if programs.is_empty() {
        return None;
    }
    let ToolchainSearch { places, path, .. } = search;
    let is_set = |name: &&&str| (machine.variable)(name).is_some_and(|value| !value.is_empty());
    let withheld = toolchain
        .withheld
        .iter()
        .filter_map(|(root, part)| Some(existing(*root, machine)?.join(part)));
    Some(ToolchainInstallation {
        toolchain,
        programs,
        places,
        env: toolchain.variables.iter().filter(is_set).copied().collect(),
        path,
        withheld: withheld.filter(|path| path.is_file()).collect(),
    })
}

struct ToolchainSearch<'a> {
    toolchain: &'static Toolchain,
    machine: &'a ToolchainContext<'a>,
    places: Vec<InstalledPlace>,
    path: Vec<PathBuf>,
}

impl ToolchainSearch<'_> {
    /// Adds the existing directories of managers.
    fn look_for_places(&mut self) {
        for place in self.toolchain.places {
            let access = match place.need {
                PlaceNeed::Write => Access::ReadWrite,
                PlaceNeed::Download if self.machine.downloads => Access::ReadWrite,
                PlaceNeed::Download | PlaceNeed::Read => Access::ReadOnly,
            };
            let Some(root) = existing(place.root, self.machine) else { continue };
            for path in expand(&root, place.part) {
                self.add(InstalledPlace { access, path, holds: place.holds });
            }
        }
    }

    /// Adds a place, unless the tool already sees it, or it contains more than a toolchain. If one
    /// place lies in another, both have the same access.
    fn add(&mut self, place: InstalledPlace) {
        let InstalledPlace { access, path, .. } = &place;
        let Ok(real) = path.canonicalize() else { return };
        // A link in `PATH` or a variable may lead into a place of secrets, which a grant of the
        // link would open.
        let home = Some(self.machine.home);
        let is_closed = |dir| is_broad_place(dir, home) || secret_place(dir, home).is_some();
        let is_broad = [path, &real].into_iter().any(|dir| is_closed(dir));
        let is_nameable = path.to_str().is_some_and(|path| !path.contains(['\n', '"']));
        if is_broad || !is_nameable || is_of_system(&real) {
            return;
        }
        let clashes = |other: &InstalledPlace| {
            let is_nested = path.starts_with(&other.path) || other.path.starts_with(path);
            is_nested && other.access != *access
        };
        if self.places.iter().any(|other| path.starts_with(&other.path))
            || self.places.iter().any(clashes)
        {
            return;
        }
        self.places.retain(|other| !other.path.starts_with(path));
        self.places.push(place);
    }

    /// Returns the programs in the directories of `PATH`.
    fn in_path(&self) -> Vec<(&'static str, PathBuf)> {
        let path = (self.machine.variable)("PATH").unwrap_or_default();
        let dirs: Vec<PathBuf> =
            std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect();
        self.first_in(&dirs)
    }

    /// Returns the programs in the directories of managers.
    fn in_bins(&self) -> Vec<(&'static str, PathBuf)> {
        let bins = self.toolchain.bins.iter();
        let dirs = bins.flat_map(|(root, part)| {
            let dirs = existing(*root, self.machine).map(|root| expand(&root, part));
            // The highest version first.
            dirs.into_iter().flatten().rev()
        });
        let dirs: Vec<PathBuf> = dirs.filter_map(|dir| dir.canonicalize().ok()).collect();
        self.first_in(&dirs)
    }

    /// Returns the path of each program in the first directory that has it.
    fn first_in(&self, dirs: &[PathBuf]) -> Vec<(&'static str, PathBuf)> {
        let find = |name: &&'static str| {
            let program = dirs.iter().map(|dir| dir.join(name)).find(|path| is_program(path))?;
            Some((*name, program))
        };
        self.toolchain.programs.iter().filter_map(find).collect()
    }

    /// Makes a program of `PATH` visible to the tool, and findable by its name. A program that is a
    /// link comes with its target.
    fn show(&mut self, name: &str, program: &Path) {
        let Ok(real) = program.canonicalize() else { return };
        if !self.is_seen(&real) {
            self.add(InstalledPlace {
                access: Access::ReadOnly,
                path: self.installation_of(&real),
                holds: OF_PATH,
            });
        }
        let dir = program.parent().unwrap_or(program);
        let real_dir = dir.canonicalize().ok();
        // Outside of granted directories, the sandbox has only the system's own links.
        let is_real = is_of_system(dir) || real_dir.as_deref() == Some(dir);
        if is_real && self.is_seen(program) {
            return;
        }
        let beside = real_dir.filter(|dir| self.is_seen(&dir.join(name)));
        let target = || {
            let is_named_so = real.file_name().is_some_and(|own| own == name);
            let dir = real.parent().filter(|_| is_named_so && self.is_seen(&real));
            dir.map(Path::to_owned)
        };
        let of_manager = || {
            let (_, program) = self.in_bins().into_iter().find(|(own, _)| *own == name)?;
            program.parent().map(Path::to_owned)
        };
        let dir = beside.or_else(target).or_else(of_manager);
        self.put_before_path(dir.as_deref());
    }

    fn put_before_path(&mut self, dir: Option<&Path>) {
        let Some(dir) = dir.filter(|dir| !is_of_system(dir)) else { return };
        if !self.path.iter().any(|own| own == dir) && !dir.to_string_lossy().contains(':') {
            self.path.push(dir.to_owned());
        }
    }

    /// Returns whether the tool sees the file with the places found so far.
    fn is_seen(&self, file: &Path) -> bool {
        let is_in = |dir: &Path| dir.canonicalize().is_ok_and(|dir| file.starts_with(dir));
        is_of_system(file)
            || self.machine.seen.iter().any(|dir| is_in(dir))
            || self.places.iter().any(|place| is_in(&place.path))
    }

    /// Returns the directory around the `bin` of a program, because a manager may be in another
    /// user's home. Returns the program itself if that directory is broad, or has a file that may
    /// contain a token.
    fn installation_of(&self, program: &Path) -> PathBuf {
        let dir = program.parent().filter(|dir| dir.file_name().is_some_and(|name| name == "bin"));
        let around = dir.and_then(Path::parent);
        let is_own = |dir: &&Path| {
            let mut withheld = self.toolchain.withheld.iter().map(|(_, part)| Path::new(part));
            let has_secret = withheld.any(|file| {
                file.file_name().is_some_and(|name| dir.join(name).symlink_metadata().is_ok())
            });
            !is_broad_place(dir, Some(self.machine.home))
                && !has_secret
                && !self
                    .places
                    .iter()
                    .any(|place| place.path.starts_with(dir) && place.access == Access::ReadWrite)
        };
        around.filter(is_own).unwrap_or(program).to_owned()
    }
}

/// Returns the first directory of a manager that exists.
fn existing(root: ManagerDir, machine: &ToolchainContext<'_>) -> Option<PathBuf> {
    root.candidates(machine).into_iter().find(|dir| dir.is_dir())
}

/// Returns whether every sandboxed tool sees the path. The supervisor's list decides.
fn is_of_system(path: &Path) -> bool {
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"]
        .iter()
        .any(|dir| path.starts_with(dir))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Returns the paths that exist below `root` and match `part`, in which one `*` in a name stands
/// for any characters. Lower versions come first.
fn expand(root: &Path, part: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for name in part.split('/').filter(|name| !name.is_empty()) {
        found = match name.split_once('*') {
            None => {
                found.into_iter().map(|dir| dir.join(name)).filter(|path| path.exists()).collect()
            }
            Some((before, after)) => {
                found.iter().flat_map(|dir| matching(dir, before, after)).collect()
            }
        };
    }
    found
}

/// Returns the entries of a directory whose names begin with `before` and end with `after`.
fn matching(dir: &Path, before: &str, after: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| {
        let is_long = name.len() >= before.len() + after.len();
        is_long && name.starts_with(before) && name.ends_with(after) && !name.starts_with('.')
    });
    names.sort_by(|one, other| by_version(one, other));
    names.into_iter().map(|name| dir.join(name)).collect()
}

/// Compares names with the numbers in them: `v9.0` comes before `v10.0`.
pub(super) fn by_version(one: &str, other: &str) -> Ordering {
    let numbers = |name: &str| -> Vec<u64> {
        let numbers = name.split(|c: char| !c.is_ascii_digit());
        numbers.filter_map(|number| number.parse().ok()).collect()
    };
    numbers(one).cmp(&numbers(other)).then_with(|| one.cmp(other))
}
