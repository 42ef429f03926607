//! What a tool has: what the profile and the user's file give, less what bounds take away.

use std::collections::BTreeSet;
use std::ffi::OsString;

use ikigai_protocol::{Access, DIRS_VARIABLE, GrantedDir, encode_dirs};

use super::{Ground, Ruling, file_line, source};
use crate::policy::decision::{Denial, Request, Source, Sources, Variable};
use crate::policy::live::quoted;
use crate::policy::parse::overlap_text;
use crate::policy::rule::{At, DirRule, Entry, Layer};
use crate::policy::variables::Variables;
use crate::policy::{AssetAccess, Backend, Grant, Net, Origin, Profile, Sandbox, dirs, standard};

/// What lies there is no file of anybody's, and cannot be granted.
const PROCESSES: &str = "/proc";

/// The environment that is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Env {
    /// The user's own, less the keys of model providers.
    User,
    Names(BTreeSet<String>),
}

/// What the tool has so far.
pub(super) struct Standing {
    /// None: all that its user may.
    dirs: Option<Vec<GrantedDir>>,
    net: Net,
    env: Env,
    assets: AssetAccess,
    sandbox: Sandbox,
    pub(super) sources: Sources,
}

impl Standing {
    /// What the profile and the user's file give.
    pub(super) fn new(
        profile: Profile,
        request: &Request<'_>,
        entry: Option<Ruling<'_>>,
        ground: &Ground<'_>,
    ) -> Result<Self, Denial> {
        let mut sources = Sources::default();
        for capability in ["fs", "net", "env", "assets", "sandbox"] {
            sources.set(capability, Source::Profile(profile));
        }
        let mut standing = Self {
            dirs: Some(Vec::new()),
            net: Net::default(),
            env: Env::Names(BTreeSet::new()),
            assets: AssetAccess::None,
            sandbox: Sandbox::Require,
            sources,
        };
        match (request.origin, request.name, request.backend) {
            (Origin::System, Some(name), _) => {
                let dir = |access| GrantedDir { access, path: ground.workspace.to_owned() };
                standing.dirs = Some(standard::access(name).map(dir).into_iter().collect());
                standing.assets = standard::assets(name);
                standing.sandbox = standard::sandbox(name);
            }
            (Origin::User, _, Backend::Native) if entry.is_none() => {
                standing.dirs = None;
                standing.net.any = true;
                standing.env = Env::User;
                standing.sandbox = Sandbox::Off;
            }
            _ => {}
        }
        if let Some((layer, entry)) = entry {
            standing.overlay(layer, entry, request, ground)?;
        }
        if profile == Profile::Strict && standing.sandbox < Sandbox::Require {
            standing.sandbox = Sandbox::Require;
            standing.sources.add("sandbox", Source::Profile(profile));
        }
        Ok(standing)
    }

    /// What the user's file says instead, key by key.
    fn overlay(
        &mut self,
        layer: &Layer,
        entry: &Entry,
        request: &Request<'_>,
        ground: &Ground<'_>,
    ) -> Result<(), Denial> {
        if let Some(at) = &entry.sandbox {
            self.sandbox = at.value;
            self.sources.set("sandbox", source(layer, at));
            // Nothing keeps what the entry does not name either.
            let is_free = request.origin == Origin::User && request.backend == Backend::Native;
            if at.value == Sandbox::Off && is_free {
                self.dirs = None;
                self.net.any = true;
            }
        }
        if let Some(at) = &entry.fs {
            self.dirs = Some(resolve(layer, at, ground, Missing::IsWrong)?);
            self.sources.set("fs", source(layer, at));
        }
        if let Some(at) = &entry.net {
            self.net = at.value.clone();
            self.sources.set("net", source(layer, at));
        }
        if let Some(at) = &entry.env {
            self.env = Env::Names(at.value.iter().cloned().collect());
            self.sources.set("env", source(layer, at));
        }
        if let Some(at) = &entry.assets {
            self.assets = at.value;
            self.sources.set("assets", source(layer, at));
        }
        Ok(())
    }

    /// Takes away what `bound` does not allow.
    pub(super) fn meet(
        &mut self,
        bound: &Ruling<'_>,
        request: &Request<'_>,
        ground: &Ground<'_>,
    ) -> Result<(), Denial> {
        let (layer, entry) = bound;
        let of_dirs = self.meet_dirs(bound, ground)?;
        let kept_by =
            [of_dirs, self.meet_net(bound), self.meet_env(bound), self.meet_assets(bound)];
        if let Some(at) = entry.sandbox.as_ref().filter(|at| at.value > self.sandbox) {
            self.sandbox = at.value;
            self.sources.add("sandbox", source(layer, at));
        }
        // A bound that nothing keeps would be none. The file tools keep theirs by
        // themselves.
        let keeps_itself = request.origin == Origin::System
            && request.name.is_some_and(|name| standard::sandbox(name) == Sandbox::Prefer)
            && self.sandbox >= Sandbox::Prefer;
        let needs_sandbox = kept_by.into_iter().flatten().last().filter(|_| !keeps_itself);
        if let Some(source) = needs_sandbox.filter(|_| self.sandbox < Sandbox::Require) {
            self.sandbox = Sandbox::Require;
            self.sources.add("sandbox", source);
        }
        Ok(())
    }

    /// The same of directories. What is given, here and below, is who took away something
    /// that only a sandbox keeps from a native tool.
    fn meet_dirs(
        &mut self,
        (layer, entry): &Ruling<'_>,
        ground: &Ground<'_>,
    ) -> Result<Option<Source>, Denial> {
        let Some(at) = &entry.fs else { return Ok(None) };
        let allowed = resolve(layer, at, ground, Missing::IsNothing)?;
        let met = match &self.dirs {
            Some(dirs) => dirs::meet(dirs, &allowed),
            // All that its user may is no grant of any of it: once it is kept from
            // the rest, it has what it was granted, which is nothing.
            None => Vec::new(),
        };
        if self.dirs.as_ref() != Some(&met) {
            self.sources.add("fs", source(layer, at));
        }
        self.dirs = Some(met);
        Ok(Some(source(layer, at)))
    }

    fn meet_net(&mut self, (layer, entry): &Ruling<'_>) -> Option<Source> {
        let at = entry.net.as_ref()?;
        let met = self.net.meet(&at.value);
        if met != self.net {
            self.sources.add("net", source(layer, at));
        }
        self.net = met;
        (!at.value.any).then(|| source(layer, at))
    }

    fn meet_env(&mut self, (layer, entry): &Ruling<'_>) -> Option<Source> {
        let at = entry.env.as_ref()?;
        let allowed = at.value.iter();
        let met = match &self.env {
            Env::User => {
                allowed.filter(|name| !standard::is_provider_key(name.as_ref())).cloned().collect()
            }
            Env::Names(names) => allowed.filter(|name| names.contains(*name)).cloned().collect(),
        };
        let met = Env::Names(met);
        if met != self.env {
            self.sources.add("env", source(layer, at));
        }
        self.env = met;
        Some(source(layer, at))
    }

    fn meet_assets(&mut self, (layer, entry): &Ruling<'_>) -> Option<Source> {
        let at = entry.assets.as_ref()?;
        if at.value < self.assets {
            self.assets = at.value;
            self.sources.add("assets", source(layer, at));
        }
        // Without a sandbox the store's own files would be open to it.
        (at.value < AssetAccess::Write).then(|| source(layer, at))
    }

    /// No tool writes where a tool, a grant or machine code could be put.
    pub(super) fn keep_out_of_own_places(
        &mut self,
        ground: &Ground<'_>,
        request: &Request<'_>,
    ) -> Result<(), Denial> {
        let source = self.sources.of("fs").first().cloned();
        for dir in self.dirs.iter_mut().flatten() {
            if dir.access == Access::ReadOnly {
                continue;
            }
            let Some(place) = standard::own_place_in(&dir.path, ground.own) else { continue };
            if dir.path == ground.workspace {
                dir.access = Access::ReadOnly;
                self.sources.add("fs", Source::OwnPlaces);
                continue;
            }
            let reason = format!(
                "it may not be granted to write to `{}`: `{}` of ikigai's own is there, and who \
                 writes there can install a tool",
                dir.path.display(),
                place.display()
            );
            let denial = Denial::new(reason, source.unwrap_or(Source::OwnPlaces));
            return Err(match request.name {
                Some(name) => denial.hint(format!(
                    "`ikigai policy grant {name} --read {}` lets it read there",
                    quoted(&dir.path.to_string_lossy())
                )),
                None => denial,
            });
        }
        Ok(())
    }

    /// A network namespace is empty or whole.
    pub(super) fn check_net(&self, request: &Request<'_>) -> Result<(), Denial> {
        if request.backend == Backend::Wasm || self.net.any || self.net.peers.is_empty() {
            return Ok(());
        }
        let source = self.sources.of("net").last().cloned();
        let reason = format!(
            "a native tool has no network or all of it, so its list of hosts ({}) could not be \
             kept",
            self.net
        );
        let denial = Denial::new(reason, source.unwrap_or(Source::OwnPlaces));
        Err(match request.name {
            Some(name) => denial
                .hint(format!("`ikigai policy grant {name} --net '*'` gives it the whole network")),
            None => denial,
        })
    }

    /// The grant, with the values of variables.
    pub(super) fn grant(
        self,
        request: &Request<'_>,
        host: &Variables,
    ) -> Result<(Grant, Vec<Variable>), Denial> {
        let mut variables = Vec::new();
        let inherits_env = request.backend == Backend::Native && self.env == Env::User;
        let mut env = match (request.backend, &self.env) {
            (Backend::Native, Env::User) => standard::user_env(host),
            (Backend::Native, Env::Names(_)) => standard::minimal_env(),
            (Backend::Wasm, _) => Vec::new(),
        };
        if let Env::Names(names) = self.env {
            for name in names {
                let value = host.get(&name);
                variables.push(Variable { is_set: value.is_some(), name: name.clone() });
                let Some(value) = value else { continue };
                let name = OsString::from(name);
                env.retain(|(own, _)| *own != name);
                env.push((name, value));
            }
        }
        let dirs = self.dirs.unwrap_or_default();
        // The shell's commands would inherit it.
        let is_shell = request.origin == Origin::System && request.name == Some(standard::SHELL);
        if request.backend == Backend::Native && self.sandbox != Sandbox::Off && !is_shell {
            let list = encode_dirs(&dirs).map_err(|error| Denial {
                reason: error.to_string(),
                hint: None,
                source: self.sources.of("fs").first().cloned(),
            })?;
            env.push((DIRS_VARIABLE.into(), list));
        }
        let grant = Grant {
            dirs,
            env,
            inherits_env,
            net: self.net,
            assets: self.assets,
            sandbox: self.sandbox,
        };
        Ok((grant, variables))
    }
}

/// What a directory that does not exist means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// In a grant: somebody counts on it.
    IsWrong,
    /// In a bound: it allows nothing.
    IsNothing,
}

/// The directories of an `fs` list as they are, links looked through.
fn resolve(
    layer: &Layer,
    rules: &At<Vec<DirRule>>,
    ground: &Ground<'_>,
    missing: Missing,
) -> Result<Vec<GrantedDir>, Denial> {
    let mut resolved: Vec<(&DirRule, GrantedDir)> = Vec::with_capacity(rules.value.len());
    for rule in &rules.value {
        let source = file_line(layer, rule.spot.line);
        let spelled = format!("{source} names the directory `{}`,", rule.spelled);
        let wrong = |what: String| Denial::new(format!("{spelled} {what}"), source.clone());
        let path = match rule.path.canonicalize() {
            Ok(path) if path.is_dir() => path,
            Ok(_) => return Err(wrong("which is no directory".to_owned())),
            Err(_) if missing == Missing::IsNothing => continue,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let what = format!("and `{}` does not exist", rule.path.display());
                return Err(wrong(what));
            }
            Err(error) => return Err(wrong(format!("which cannot be used: {error}"))),
        };
        if missing == Missing::IsWrong && path.starts_with(PROCESSES) {
            let what = "where the kernel shows every process, ikigai's own among them";
            return Err(wrong(what.to_owned()));
        }
        if rule.within && !path.starts_with(ground.workspace) {
            let what = format!("which leads out of the workspace to `{}`", path.display());
            return Err(wrong(what));
        }
        resolved.push((rule, GrantedDir { access: rule.access, path }));
    }
    let named: Vec<_> = resolved.iter().map(|(_, dir)| (dir.access, dir.path.as_path())).collect();
    if let Some((inner, outer)) = dirs::overlap(&named) {
        let (inner, outer) = (resolved[inner].0, resolved[outer].0);
        let source = file_line(layer, inner.spot.line);
        let reason = format!("{source}: {}", overlap_text(inner, outer));
        return Err(Denial::new(reason, source));
    }
    Ok(dirs::without_repeats(resolved.into_iter().map(|(_, dir)| dir).collect()))
}
