//! `ikigai policy grant --toolchain`: shows the directories of rustup, nvm, pyenv, uv and their like, and adds them
//! to an entry.
//!
//! The host finds them. Adds to what the tool has, while the other flags of the command replace it.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use ikigai_host::host::{Host, Subject, request};
use ikigai_host::policy::{Access, Backend, NewKey, NewValue, WrittenPath, shell_quoted};
use ikigai_host::registry::Tool;
use ikigai_host::toolchain::{
    self, Conflict, EntryLists, Installation, InstalledPlace, Machine, TOOLCHAINS, Toolchain,
};
use serde_json::json;

use super::super::with_tilde;
use crate::error::CliError;
use crate::output::eprint;

/// Returns a parser of the names of toolchains.
pub(super) fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(TOOLCHAINS.iter().map(|toolchain| toolchain.name))
}

/// The toolchains that one command grants, as they are on this machine.
pub(super) struct Toolchains {
    found: Vec<Installation>,
    home: PathBuf,
    /// True if the tool may reach other machines.
    downloads: bool,
}

impl Toolchains {
    /// Finds the toolchains with these names, and adds them to the keys of the tool's entry.
    pub(super) fn add(
        names: &[String],
        host: &Host,
        tool: &Tool,
        keys: &mut Vec<NewKey>,
    ) -> Result<Self, CliError> {
        let home = host.registry().paths().home.clone().unwrap_or_default();
        let mut toolchains = Self { found: Vec::new(), home, downloads: false };
        if names.is_empty() {
            return Ok(toolchains);
        }
        check(tool)?;
        let held = held(host, tool, keys);
        toolchains.downloads = match list(keys, "net") {
            Some(net) => !net.is_empty(),
            None => host.decide(tool.into()).is_ok_and(|decision| !decision.grant.net.is_none()),
        };
        let seen: Vec<PathBuf> = held.fs.iter().map(|dir| dir.path.clone()).collect();
        let machine = Machine {
            home: &toolchains.home,
            variable: &|name| std::env::var_os(name),
            seen: &seen,
            downloads: toolchains.downloads,
        };
        let known = names.iter().filter_map(|name| Toolchain::named(name));
        let found = known
            .map(|toolchain| toolchain.find(&machine).ok_or_else(|| missing(toolchain, &machine)));
        let found: Vec<Installation> = found.collect::<Result<_, _>>()?;
        let workspace = host.authority().workspace();
        let added = toolchain::keys(&found, &held, workspace)
            .map_err(|conflict| contradiction(&conflict))?;
        keys.retain(|(key, _)| !added.iter().any(|(new, _)| new == key));
        keys.extend(added);
        Ok(Self { found, ..toolchains })
    }

    /// Prints what was found of each toolchain, and which of it the tool gets.
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

    fn text(&self, found: &Installation) -> String {
        let Installation { toolchain, programs, places, env, path, withheld } = found;
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
            line("offline", &format!("add {hosts} to download packages"));
        }
        text
    }

    fn shown(&self, path: &Path) -> String {
        with_tilde(&path.to_string_lossy(), Some(&self.home))
    }

    pub(super) fn as_json(&self) -> serde_json::Value {
        let toolchain = |found: &Installation| {
            let Installation { toolchain, programs, places, env, path, withheld } = found;
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

/// Refuses a toolchain to a tool that runs no programs.
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

/// Returns the lists of the entry to which a toolchain adds: as this command names them, or else as the user's
/// policy or the profile has them.
fn held(host: &Host, tool: &Tool, keys: &[NewKey]) -> EntryLists {
    let authority = host.authority();
    let contents = [tool.build.digest];
    let mut held = EntryLists::in_force(authority, &request(Subject::from(tool), &contents));
    if let Some(rules) = list(keys, "fs") {
        let rules = rules.iter().filter_map(|rule| written_path(rule, authority.workspace()));
        held.fs = rules.collect();
    }
    if let Some(names) = list(keys, "env") {
        held.env = names.to_vec();
    }
    held
}

/// Returns the list that these keys have under a name.
fn list<'a>(keys: &'a [NewKey], name: &str) -> Option<&'a [String]> {
    keys.iter().find_map(|(key, value)| match value {
        NewValue::List(words) if key == name => Some(words.as_slice()),
        _ => None,
    })
}

/// Returns an entry of a list `fs` that this command made.
fn written_path(rule: &str, workspace: &Path) -> Option<WrittenPath> {
    let (access, written) = rule.split_once(':')?;
    let access = if access == "rw" { Access::ReadWrite } else { Access::ReadOnly };
    let path = match written {
        "." => workspace.to_owned(),
        written => workspace.join(written.strip_prefix("./").unwrap_or(written)),
    };
    Some(WrittenPath { access, written: written.to_owned(), path })
}

fn missing(toolchain: &Toolchain, machine: &Machine<'_>) -> CliError {
    let programs = toolchain.programs.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
    let what = format!(
        "there is no toolchain `{}` on this machine: neither PATH nor the directories of its managers \
         have {}",
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

fn contradiction(Conflict { held, place }: &Conflict) -> CliError {
    let text = |access: Access, path: &str| format!("{}:{path}", access.as_str());
    let wanted = place.path.to_string_lossy();
    let what = format!(
        "`{}` of its entry contradicts `{}` of the toolchain: a directory has one access, with all that is \
         in it",
        text(held.access, &held.written),
        text(place.access, &wanted)
    );
    let flag = if held.access == Access::ReadWrite { "--write" } else { "--read" };
    let hint = format!(
        "name the directories that it keeps with --read and --write, without `{flag} {}`",
        shell_quoted(&held.written)
    );
    CliError::usage(anyhow::Error::msg(what)).hint(hint)
}
