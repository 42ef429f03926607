//! The toolchains of this machine: the places where rustup, nvm, pyenv, uv and similar managers
//! keep compilers, interpreters and caches. With them one grant covers everything that
//! `cargo test`, `npm test` or `pytest` needs.
//!
//! Finds and describes toolchains, but grants nothing. The directories of each toolchain are in
//! `table.rs`. They never include a file that may contain a token, such as
//! `~/.cargo/credentials.toml`.

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
use table::{ManagedPlace, ManagerDir};

/// The programs of one language, from any manager.
#[derive(Debug)]
pub struct Toolchain {
    /// The name that a user types, such as `rust`.
    pub name: &'static str,
    /// The programs that belong to it. If one of them is on this machine, the toolchain is
    /// installed.
    pub programs: &'static [&'static str],
    /// The directories of its managers.
    places: &'static [ManagedPlace],
    /// The directories to search for a program that is not in `PATH`. The first directory that has
    /// the program counts.
    bins: &'static [(ManagerDir, &'static str)],
    /// The variables that set its directories, or the version that runs.
    variables: &'static [&'static str],
    /// The files that programs would read, but that may contain secrets.
    withheld: &'static [(ManagerDir, &'static str)],
    /// The hosts that packages are downloaded from, in the form that `--net` takes.
    pub hosts: &'static [&'static str],
}

/// The machine to search for toolchains, and the tool that needs them.
#[derive(Clone, Copy)]
pub struct ToolchainContext<'a> {
    /// The home of the user.
    pub home: &'a Path,
    /// The environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The directories that the tool already sees.
    pub seen: &'a [PathBuf],
    /// True if the tool may connect to other machines, and so can download packages.
    pub downloads: bool,
}

impl fmt::Debug for ToolchainContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { home, seen, downloads, .. } = self;
        let mut shown = f.debug_struct("Machine");
        shown.field("home", home).field("seen", seen).field("downloads", downloads);
        shown.finish_non_exhaustive()
    }
}

/// A toolchain that is installed on this machine.
#[derive(Clone, Debug)]
pub struct ToolchainInstallation {
    /// The toolchain.
    pub toolchain: &'static Toolchain,
    /// Its programs that were found, each with its full path, without resolving links.
    pub programs: Vec<(&'static str, PathBuf)>,
    /// The directories and files to grant. They do not contain each other.
    pub places: Vec<InstalledPlace>,
    /// The names of the variables to grant. All of them are set.
    pub env: Vec<&'static str>,
    /// The directories to put before those of `PATH`, because the tool would not find the programs
    /// otherwise.
    pub path: Vec<PathBuf>,
    /// The files that exist but are not granted, because they may contain secrets.
    pub withheld: Vec<PathBuf>,
}

/// A directory or a file of an installed toolchain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledPlace {
    /// The access that the programs need.
    pub access: Access,
    /// The absolute path, without resolving links.
    pub path: PathBuf,
    /// A description of the contents, for the user.
    pub holds: &'static str,
}

impl Toolchain {
    /// Returns the toolchain with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TOOLCHAINS.iter().find(|toolchain| toolchain.name == name)
    }

    /// Finds the toolchain on a machine. Returns `None` if the machine has none of its programs.
    #[must_use]
    pub fn find(&'static self, machine: &ToolchainContext<'_>) -> Option<ToolchainInstallation> {
        search::find(self, machine)
    }

    /// Returns the directories that [`Self::find`] searches in addition to those in `PATH`.
    #[must_use]
    pub fn candidates(&self, machine: &ToolchainContext<'_>) -> Vec<PathBuf> {
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
/// Fails if a directory of the entry contradicts a directory of a toolchain.
pub fn add(
    found: &[ToolchainInstallation],
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
