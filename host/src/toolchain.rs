//! The toolchains of this machine: where rustup, nvm, pyenv, uv and their like keep compilers,
//! interpreters and caches, so that one grant covers all that `cargo test`, `npm test` or `pytest` needs.
//!
//! Finds and describes; grants nothing. The directories of each toolchain are in `table.rs`. A file that
//! may hold a token, such as `~/.cargo/credentials.toml`, is never among them.

mod not_found;
mod offer;
mod search;
mod table;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use ikigai_protocol::Access;

use crate::policy::{Authority, NewKey, NewValue, Request, WrittenPath, path_in_policy};

pub use not_found::missing_program;
pub(crate) use not_found::missing_programs;
pub use offer::ToolchainOffer;
pub use table::TOOLCHAINS;
use table::{Place, Root};

/// The programs of one language, whichever manager installed them.
#[derive(Debug)]
pub struct Toolchain {
    /// The name that a person types, such as `rust`.
    pub name: &'static str,
    /// The programs that belong to it. One that is found on this machine proves that it is there.
    pub programs: &'static [&'static str],
    /// The directories of its managers.
    places: &'static [Place],
    /// The directories of its programs, for a program that `PATH` does not have. The first one that has
    /// the program counts.
    bins: &'static [(Root, &'static str)],
    /// The variables that say where its directories are, or which version runs.
    variables: &'static [&'static str],
    /// The files that programs would read and that may hold secrets.
    withheld: &'static [(Root, &'static str)],
    /// The hosts that packages are downloaded from, as `--net` takes them.
    pub hosts: &'static [&'static str],
}

/// The machine on which toolchains are looked for, and the tool that they are for.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    /// The home of the user.
    pub home: &'a Path,
    /// The environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The directories that the tool sees already.
    pub seen: &'a [PathBuf],
    /// True if the tool may reach other machines, so that it can download packages.
    pub downloads: bool,
}

impl fmt::Debug for Machine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { home, seen, downloads, .. } = self;
        let mut shown = f.debug_struct("Machine");
        shown.field("home", home).field("seen", seen).field("downloads", downloads);
        shown.finish_non_exhaustive()
    }
}

/// A toolchain as it is installed on this machine.
#[derive(Clone, Debug)]
pub struct Installation {
    /// The toolchain.
    pub toolchain: &'static Toolchain,
    /// Its programs that were found, each with its full path, links not resolved.
    pub programs: Vec<(&'static str, PathBuf)>,
    /// The directories and files to grant. None of them lies in another.
    pub places: Vec<InstalledPlace>,
    /// The names of the variables to grant, which are set.
    pub env: Vec<&'static str>,
    /// The directories to put before those of `PATH`, because the tool would not find the programs.
    pub path: Vec<PathBuf>,
    /// The files that exist and are not granted, because they may hold secrets.
    pub withheld: Vec<PathBuf>,
}

/// A directory or a file of an installed toolchain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledPlace {
    /// The access that the programs need.
    pub access: Access,
    /// The absolute path, in which links are not resolved.
    pub path: PathBuf,
    /// The contents, for a person.
    pub holds: &'static str,
}

/// A contradiction between an entry and a toolchain: a directory has one access, with all that is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The entry of the list `fs`.
    pub held: WrittenPath,
    /// The directory of the toolchain.
    pub place: InstalledPlace,
}

impl Toolchain {
    /// Returns the toolchain with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TOOLCHAINS.iter().find(|toolchain| toolchain.name == name)
    }

    /// Finds the toolchain on a machine; nothing if none of its programs is there.
    #[must_use]
    pub fn find(&'static self, machine: &Machine<'_>) -> Option<Installation> {
        search::find(self, machine)
    }

    /// Returns the directories in which [`Self::find`] looks, besides those of `PATH`.
    #[must_use]
    pub fn candidates(&self, machine: &Machine<'_>) -> Vec<PathBuf> {
        let roots = self.places.iter().map(|place| place.root);
        let mut dirs: Vec<PathBuf> = roots.flat_map(|root| root.candidates(machine)).collect();
        dirs.sort();
        dirs.dedup();
        dirs
    }
}

/// The lists of an entry to which a toolchain adds.
#[derive(Clone, Debug, Default)]
pub struct EntryLists {
    /// The directories: [`Authority::directories`](crate::policy::Authority::directories).
    pub fs: Vec<WrittenPath>,
    /// The variables.
    pub env: Vec<String>,
    /// The directories before those of `PATH`.
    pub path: Vec<PathBuf>,
}

impl EntryLists {
    /// Returns the lists of a tool's entry, with the directories of the profile if it has none.
    #[must_use]
    pub fn in_force(authority: &Authority, request: &Request<'_>) -> Self {
        let written = request.name.and_then(|name| authority.written(name)).unwrap_or_default();
        Self {
            fs: authority.directories(request),
            env: written.env.unwrap_or_default(),
            path: written.path.unwrap_or_default(),
        }
    }
}

/// Adds these toolchains to the lists of an entry. Returns the keys that change, for
/// [`Authority::propose_grant`](crate::policy::Authority::propose_grant).
///
/// # Errors
///
/// A directory of the entry contradicts one of a toolchain.
pub fn keys(
    found: &[Installation],
    held: &EntryLists,
    workspace: &Path,
) -> Result<Vec<NewKey>, Box<Conflict>> {
    let mut fs = held.fs.clone();
    for place in found.iter().flat_map(|installation| &installation.places) {
        add(&mut fs, place, workspace)?;
    }
    let mut env = held.env.clone();
    for name in found.iter().flat_map(|installation| &installation.env) {
        if !env.iter().any(|own| own == name) {
            env.push((*name).to_owned());
        }
    }
    let mut path: Vec<PathBuf> = Vec::new();
    let dirs = found.iter().flat_map(|installation| &installation.path);
    for dir in dirs.chain(&held.path) {
        if !path.contains(dir) {
            path.push(dir.clone());
        }
    }
    let mut keys = Vec::new();
    if fs != held.fs {
        let rules = fs.iter().map(|rule| format!("{}:{}", rule.access.as_str(), rule.written));
        keys.push(("fs".to_owned(), NewValue::List(rules.collect())));
    }
    if env != held.env {
        keys.push(("env".to_owned(), NewValue::List(env)));
    }
    if path != held.path {
        let dirs = path.iter().map(|dir| dir.to_string_lossy().into_owned());
        keys.push(("path".to_owned(), NewValue::List(dirs.collect())));
    }
    Ok(keys)
}

/// Adds a directory to a list `fs` that has one access for a directory and all that is in it.
fn add(
    fs: &mut Vec<WrittenPath>,
    place: &InstalledPlace,
    workspace: &Path,
) -> Result<(), Box<Conflict>> {
    let conflict =
        |held: &WrittenPath| Box::new(Conflict { held: held.clone(), place: place.clone() });
    if let Some(same) = fs.iter_mut().find(|held| held.path == place.path) {
        same.access = same.access.max(place.access);
        return Ok(());
    }
    if let Some(outer) = fs.iter().find(|held| place.path.starts_with(&held.path)) {
        let is_enough = outer.access >= place.access;
        return if is_enough { Ok(()) } else { Err(conflict(outer)) };
    }
    let inner = |held: &WrittenPath| held.path.starts_with(&place.path);
    if let Some(held) = fs.iter().find(|held| inner(held) && held.access > place.access) {
        return Err(conflict(held));
    }
    fs.retain(|held| !inner(held));
    // The search leaves out a path that is not UTF-8.
    if let Some(written) = path_in_policy(&place.path, workspace) {
        fs.push(WrittenPath { access: place.access, written, path: place.path.clone() });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
