//! `ikigai policy grant --toolchain`: shows the directories of rustup, nvm, pyenv, uv and similar
//! programs, and adds them to an entry.
//!
//! The host finds them.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use ikigai_host::host::Host;
use ikigai_host::policy::{Access, Backend, EntryLists};
use ikigai_host::registry::Tool;
use ikigai_host::toolchain::{
    self, InstalledPlace, TOOLCHAINS, Toolchain, ToolchainContext, ToolchainInstallation,
};
use serde_json::json;

use super::super::with_tilde;
use super::Arguments;
use super::lists::contradiction;
use crate::error::CliError;
use crate::output::eprint;
use crate::variables;

/// Returns a parser of the names of toolchains.
pub(in crate::commands::policy) fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(TOOLCHAINS.iter().map(|toolchain| toolchain.name))
}

/// The toolchains of this machine, for a command that takes some of them back.
#[derive(Debug, Default)]
pub(in crate::commands::policy) struct InstalledToolchains {
    /// Those that the command names.
    pub(in crate::commands::policy) named: Vec<ToolchainInstallation>,
    /// The others.
    pub(in crate::commands::policy) others: Vec<ToolchainInstallation>,
}

impl InstalledToolchains {
    /// Finds the toolchains. Fails if one that is named is not on this machine.
    pub(in crate::commands::policy) fn find(
        host: &Host,
        names: &[String],
    ) -> Result<Self, CliError> {
        if names.is_empty() {
            return Ok(Self::default());
        }
        let home = host.registry().paths().home.clone().unwrap_or_default();
        let machine = ToolchainContext {
            home: &home,
            variable: &variables::value,
            seen: &[],
            downloads: false,
        };
        let is_named =
            |found: &ToolchainInstallation| names.iter().any(|it| it == found.toolchain.name);
        let found = TOOLCHAINS.iter().filter_map(|toolchain| toolchain.find(&machine));
        let (named, others): (Vec<_>, Vec<_>) = found.partition(is_named);
        let is_there = |name: &&String| named.iter().any(|it| it.toolchain.name == name.as_str());
        match names.iter().find(|name| !is_there(name)) {
            None => Ok(Self { named, others }),
            Some(name) => {
                let what = format!(
                    "the toolchain `{name}` was not found on this machine, so its directories are \
                     unknown"
                );
                let hint = "take back each of its directories with --read or --write";
                Err(CliError::failed(anyhow::Error::msg(what)).hint(hint))
            }
        }
    }
}

/// The toolchains that one command grants, as they are on this machine.
pub(super) struct Toolchains {
    found: Vec<ToolchainInstallation>,
    home: PathBuf,
    /// True if the tool may reach other machines.
    downloads: bool,
}

impl Toolchains {
    /// Finds the toolchains that the flags name, and adds them to the lists of the tool's entry.
    pub(super) fn add(
        host: &Host,
        tool: &Tool,
        arguments: &Arguments,
        lists: &mut EntryLists,
    ) -> Result<Self, CliError> {
        let names = &arguments.toolchain;
        let home = host.registry().paths().home.clone().unwrap_or_default();
        let mut toolchains = Self { found: Vec::new(), home, downloads: false };
        if names.is_empty() {
            return Ok(toolchains);
        }
        check(tool)?;
        toolchains.downloads = !arguments.net.is_empty()
            || host.decide(tool.into()).is_ok_and(|decision| !decision.grant.net.is_none());
        let seen: Vec<PathBuf> = lists.fs.iter().map(|dir| dir.path.clone()).collect();
        let machine = ToolchainContext {
            home: &toolchains.home,
            variable: &variables::value,
            seen: &seen,
            downloads: toolchains.downloads,
        };
        let known = names.iter().filter_map(|name| Toolchain::named(name));
        let found = known
            .map(|toolchain| toolchain.find(&machine).ok_or_else(|| missing(toolchain, &machine)));
        let found: Vec<ToolchainInstallation> = found.collect::<Result<_, _>>()?;
        let workspace = host.authority().workspace();
        toolchain::add(&found, lists, workspace).map_err(|conflict| contradiction(&conflict))?;
        Ok(Self { found, ..toolchains })
    }

    /// Prints the paths found for each toolchain, and which of them the tool gets.
    pub(super) fn show(&self) {
        for found in &self.found {
            eprint(&self.text(found));
        }
        let writable = self.found.iter().flat_map(|found| &found.places);
        for place in writable.filter(|place| place.access == Access::ReadWrite) {
            eprint(&format!(
                "warning: programs outside of the sandbox use `{}` too, and may run what the tool \
                 writes there\n",
                self.shown(&place.path)
            ));
        }
    }

    fn text(&self, found: &ToolchainInstallation) -> String {
        let ToolchainInstallation { toolchain, programs, places, env, path, withheld } = found;
        let programs = programs.iter().map(|(_, program)| self.shown(program));
        let mut text = format!("{}: {}\n", toolchain.name, programs.collect::<Vec<_>>().join(", "));
        let mut line = |what: &str, value: &str| text.push_str(&format!("  {what:<10}  {value}\n"));
        for InstalledPlace { access, path, holds } in places {
            let access = if *access == Access::ReadWrite { "write" } else { "read" };
            line(access, &format!("{} ({holds})", self.shown(path)));
        }
        for name in env {
            line("variable", name);
        }
        for dir in path {
            line("PATH", &self.shown(dir));
        }
        for file in withheld {
            line("left out", &format!("{} (it may hold secrets)", self.shown(file)));
        }
        if !self.downloads && !toolchain.hosts.is_empty() {
            let hosts = toolchain.hosts.iter().map(|host| format!("--net {host}"));
            let hosts = hosts.collect::<Vec<_>>().join(" ");
            line("no network", &format!("to download packages, add `{hosts}`"));
        }
        text
    }

    fn shown(&self, path: &Path) -> String {
        with_tilde(&path.to_string_lossy(), Some(&self.home))
    }

    pub(super) fn as_json(&self) -> serde_json::Value {
        let toolchain = |found: &ToolchainInstallation| {
            let ToolchainInstallation { toolchain, programs, places, env, path, withheld } = found;
            let texts = |paths: &[PathBuf]| -> Vec<String> {
                paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
            };
            let programs = programs.iter();
            let programs = programs
                .map(|(name, path)| json!({ "name": name, "path": path.to_string_lossy() }));
            let places = places.iter().map(|place| {
                let InstalledPlace { access, path, holds } = place;
                json!({ "access": access.as_str(), "path": path.to_string_lossy(), "holds": holds })
            });
            json!({
                "name": toolchain.name,
                "programs": programs.collect::<Vec<_>>(),
                "places": places.collect::<Vec<_>>(),
                "env": env,
                "path": texts(path),
                "left_out": texts(withheld),
                "download_hosts": toolchain.hosts,
            })
        };
        self.found.iter().map(toolchain).collect()
    }
}

/// Refuses to grant a toolchain to a tool that runs no programs.
fn check(tool: &Tool) -> Result<(), CliError> {
    if tool.build.backend() == Backend::Native {
        return Ok(());
    }
    let what =
        format!("`{}` is a component here, which runs no programs of this machine", tool.name());
    let error = CliError::usage(anyhow::Error::msg(what));
    let hint = match tool.other.as_ref().filter(|build| build.backend() == Backend::Native) {
        Some(_) => "--backend native lets its native build run, in the sandbox",
        None => "grant the toolchain to a native tool such as `bash`",
    };
    Err(error.hint(hint))
}

fn missing(toolchain: &Toolchain, machine: &ToolchainContext<'_>) -> CliError {
    let programs = toolchain.programs.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
    let what = format!(
        "the toolchain `{}` was not found on this machine: neither PATH nor the directories of its \
         managers have {}",
        toolchain.name,
        programs.join(", ")
    );
    let home = machine.home.to_path_buf();
    let dirs = toolchain.candidates(machine).into_iter();
    let dirs = dirs.map(|dir| with_tilde(&dir.to_string_lossy(), Some(&home))).collect::<Vec<_>>();
    let hint =
        format!("looked in {}; --read grants a directory that is elsewhere", dirs.join(", "));
    CliError::failed(anyhow::Error::msg(what)).hint(hint)
}
