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

use crate::policy::{Conflict, EntryLists, WrittenPath, path_in_policy};

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

/// Adds these toolchains to the lists of an entry.
///
/// # Errors
///
/// A directory of the entry contradicts one of a toolchain.
pub fn add(
    found: &[Installation],
    lists: &mut EntryLists,
    workspace: &Path,
) -> Result<(), Box<Conflict>> {
    for InstalledPlace { access, path, .. } in found.iter().flat_map(|found| &found.places) {
        // The search leaves out a path that is not UTF-8.
        if let Some(written) = path_in_policy(path, workspace) {
            lists.add_dir(WrittenPath { access: *access, written, path: path.clone() })?;
        }
    }
    for name in found.iter().flat_map(|found| &found.env) {
        lists.add_variable(name);
    }
    let mut path: Vec<PathBuf> = Vec::new();
    for dir in found.iter().flat_map(|found| &found.path).chain(&lists.path) {
        if !path.contains(dir) {
            path.push(dir.clone());
        }
    }
    lists.path = path;
    Ok(())
}

#[cfg(test)]
mod tests;
