//! From the layers to the answer for one call.
//!
//! What a tool has to begin with comes of the profile and of the user's file. The
//! ceiling and the workspace only take away: each is met with what there is, so
//! that the result is never wider than either.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ikigai_protocol::{Access, DIRS_VARIABLE, GrantedDir, encode_dirs};

use super::decision::{Decision, Denial, Request, Source, Sources, Variable};
use super::live::{Layers, quoted};
use super::parse::overlap_text;
use super::rule::{At, DirRule, Entry, Layer, LayerKind, LimitKey};
use super::variables::Variables;
use super::{
    Assets, Backend, BackendChoice, Flags, Grant, Net, Origin, Profile, Sandbox, dirs, standard,
};
use crate::digest::Digest;
use crate::limits::Limits;

/// What lies there is no file of anybody's, and cannot be granted.
const PROCESSES: &str = "/proc";

/// Where calls are decided.
pub(super) struct Ground<'a> {
    pub(super) workspace: &'a Path,
    pub(super) own: &'a [PathBuf],
    pub(super) variables: &'a Variables,
}

/// An entry of a layer.
type Ruling<'a> = (&'a Layer, &'a Entry);

/// The profile in force: the strictest that any layer asks for.
pub(super) fn profile(layers: &Layers, flags: &Flags) -> (Profile, Vec<Source>) {
    let asked = match (flags.profile, &layers.user.profile) {
        (Some(profile), _) => Some((profile, flags.source("--profile"))),
        (None, Some(at)) => Some((at.value, source(&layers.user, at))),
        (None, None) => None,
    };
    let (mut profile, mut sources) = match asked {
        Some((profile, source)) => (profile, vec![source]),
        None => (Profile::Standard, vec![Source::Profile(Profile::Standard)]),
    };
    for layer in bounding(layers) {
        if let Some(at) = layer.profile.as_ref().filter(|at| at.value > profile) {
            profile = at.value;
            sources.push(source(layer, at));
        }
    }
    (profile, sources)
}

/// The build that somebody asks for by name, a ceiling before the rest. A workspace
/// is not asked.
pub(super) fn backend(
    layers: &Layers,
    flags: &Flags,
    name: &str,
) -> Option<(BackendChoice, Source)> {
    let of = |layer: &Layer| {
        let at = layer.tools.get(name)?.backend.as_ref()?;
        (at.value != BackendChoice::Auto).then(|| (at.value, source(layer, at)))
    };
    let flag =
        (flags.backend != BackendChoice::Auto).then(|| (flags.backend, flags.source("--backend")));
    layers.ceilings.iter().find_map(|layer| of(layer)).or(flag).or_else(|| of(&layers.user))
}

/// Whether some layer names the tool by content.
pub(super) fn looks_at_content(layers: &Layers, name: Option<&str>) -> bool {
    match name {
        Some(name) => all(layers)
            .any(|layer| layer.tools.get(name).is_some_and(|entry| entry.sha256.is_some())),
        None => layers.user.tools.values().any(|entry| entry.sha256.is_some()),
    }
}

/// The answer for one call.
pub(super) fn decide(
    layers: &Layers,
    flags: &Flags,
    ground: &Ground<'_>,
    request: &Request<'_>,
) -> Result<Decision, Denial> {
    let (profile, profile_sources) = profile(layers, flags);
    let mut notes = Vec::new();
    let entry = granting(&layers.user, request, &mut notes)?;
    let bounds = bounds(layers, request.name);
    check_bounds(&bounds, request)?;
    let explicit = request
        .name
        .and_then(|name| backend(layers, flags, name))
        .is_some_and(|(choice, _)| choice == BackendChoice::Native);
    if profile == Profile::Strict && request.backend == Backend::Native {
        check_strict(request, entry.is_some(), explicit, &profile_sources)?;
    }
    let mut standing = Standing::new(profile, request, entry, ground)?;
    // What is refused by itself is not mended by what a bound takes away.
    standing.keep_out_of_own_places(ground, request)?;
    standing.check_net(request)?;
    for bound in &bounds {
        standing.meet(bound, request, ground)?;
    }
    // A bound may make a list of hosts of the whole network.
    standing.check_net(request)?;
    let mut sources = standing.sources.clone();
    sources.begin("profile", profile_sources);
    let limits = limits(profile, flags, entry, &bounds, &mut sources);
    let (grant, variables) = standing.grant(request, ground.variables)?;
    if grant.sandbox == Sandbox::Off {
        check_replaceable(request, ground, &sources)?;
    }
    Ok(Decision { grant, limits, profile, variables, sources, notes })
}

/// The entry of the user's file that speaks of this very tool.
fn granting<'a>(
    user: &'a Layer,
    request: &Request<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<Ruling<'a>>, Denial> {
    let Some(name) = request.name else {
        // A program that is named by its path has no name but its content.
        let named = user.tools.values().find(|entry| names_content(entry, request));
        return Ok(named.map(|entry| (user, entry)));
    };
    let Some(entry) = user.tools.get(name) else { return Ok(None) };
    let Some(granted) = &entry.sha256 else {
        if request.origin == Origin::System {
            return Ok(Some((user, entry)));
        }
        notes.push(format!(
            "{} speaks of system tools alone, since it has no sha256, and so not of `{}`; \
             `ikigai policy grant {name}` makes it speak of this file",
            at_line(user, entry),
            request.path.display()
        ));
        return Ok(None);
    };
    if names_content(entry, request) {
        return Ok(Some((user, entry)));
    }
    let digests =
        |digests: &[Digest]| digests.iter().map(Digest::to_string).collect::<Vec<_>>().join(", ");
    let reason = format!(
        "`{}` is not the file that was granted {} at {}: its sha256 is {}, granted was {}",
        request.path.display(),
        granted_text(entry),
        at_line(user, entry),
        digests(&request.contents[request.contents.len().saturating_sub(1)..]),
        if granted.value.is_empty() { "none".to_owned() } else { digests(&granted.value) },
    );
    Err(Denial::new(reason, source(user, granted))
        .hint(format!("if the change is yours, `{}` grants it again", command(name, entry))))
}

fn names_content(entry: &Entry, request: &Request<'_>) -> bool {
    let Some(granted) = &entry.sha256 else { return false };
    !request.contents.is_empty()
        && request.contents.iter().all(|digest| granted.value.contains(digest))
}

/// The command that writes this entry.
fn command(name: &str, entry: &Entry) -> String {
    let mut words = vec![format!("ikigai policy grant {name}")];
    for dir in entry.fs.iter().flat_map(|at| &at.value) {
        let flag = if dir.access == Access::ReadOnly { "--read" } else { "--write" };
        words.push(format!("{flag} {}", quoted(&dir.spelled)));
    }
    if let Some(net) = &entry.net {
        let any = net.value.any.then(|| "*".to_owned());
        let peers = net.value.peers.iter().map(ToString::to_string);
        words.extend(any.into_iter().chain(peers).map(|peer| format!("--net {}", quoted(&peer))));
    }
    let names = entry.env.iter().flat_map(|at| &at.value);
    words.extend(names.map(|name| format!("--env {}", quoted(name))));
    let assets = entry.assets.as_ref().filter(|at| at.value != Assets::None);
    words.extend(assets.map(|at| format!("--assets {}", at.value.as_str())));
    words.join(" ")
}

/// What an entry grants, in a few words.
fn granted_text(entry: &Entry) -> String {
    let mut parts = Vec::new();
    for dir in entry.fs.iter().flat_map(|at| &at.value) {
        parts.push(format!("{}:{}", dir.access.as_str(), dir.spelled));
    }
    if let Some(net) = entry.net.as_ref().filter(|net| !net.value.is_none()) {
        parts.push(format!("net {}", net.value));
    }
    if let Some(env) = entry.env.as_ref().filter(|env| !env.value.is_empty()) {
        parts.push(format!("env {}", env.value.join(" ")));
    }
    if let Some(assets) = entry.assets.as_ref().filter(|at| at.value != Assets::None) {
        parts.push(format!("documents to {}", assets.value.as_str()));
    }
    if parts.is_empty() { "to run".to_owned() } else { parts.join(", ") }
}

fn all(layers: &Layers) -> impl Iterator<Item = &Layer> {
    bounding(layers).chain([&*layers.user])
}

/// The layers that only take away.
fn bounding(layers: &Layers) -> impl Iterator<Item = &Layer> {
    layers.ceilings.iter().map(|layer| &**layer).chain([&*layers.workspace])
}

/// Every entry that takes away from this tool.
fn bounds<'a>(layers: &'a Layers, name: Option<&str>) -> Vec<Ruling<'a>> {
    let every = all(layers).filter_map(|layer| Some((layer, layer.every.as_ref()?)));
    let own = bounding(layers).filter_map(|layer| Some((layer, layer.tools.get(name?)?)));
    every.chain(own).collect()
}

fn check_bounds(bounds: &[Ruling<'_>], request: &Request<'_>) -> Result<(), Denial> {
    for (layer, entry) in bounds {
        if let Some(at) = entry.sha256.as_ref().filter(|_| !names_content(entry, request)) {
            let reason = format!(
                "{} allows other contents than those of `{}`",
                source(layer, at),
                request.path.display()
            );
            return Err(Denial::new(reason, source(layer, at)));
        }
        let backend = entry.backend.as_ref().filter(|_| layer.kind == LayerKind::Ceiling);
        if let Some(at) = backend.filter(|at| !at.value.allows(request.backend)) {
            let reason =
                format!("{} allows its {} build only", source(layer, at), at.value.as_str());
            return Err(Denial::new(reason, source(layer, at)));
        }
    }
    Ok(())
}

/// Refuses to run a user's tool with all rights where its file is among those that
/// tools may write: any of them could put another in its place.
fn check_replaceable(
    request: &Request<'_>,
    ground: &Ground<'_>,
    sources: &Sources,
) -> Result<(), Denial> {
    let (Some(name), Origin::User, Backend::Native) =
        (request.name, request.origin, request.backend)
    else {
        return Ok(());
    };
    let writable = standard::own_place_in(ground.workspace, ground.own).is_none();
    let real = request.path.canonicalize();
    let Some(real) = real.ok().filter(|real| writable && real.starts_with(ground.workspace)) else {
        return Ok(());
    };
    let source = sources.of("sandbox").last().cloned();
    let reason = format!(
        "its file is `{}` of the workspace, where other tools may write and could replace it",
        real.display()
    );
    Err(Denial::new(reason, source.unwrap_or(Source::OwnPlaces)).hint(format!(
        "`ikigai policy grant {name}` binds it to what the file holds now, and sandboxes it"
    )))
}

/// What `strict` says of a native build.
fn check_strict(
    request: &Request<'_>,
    granted: bool,
    explicit: bool,
    sources: &[Source],
) -> Result<(), Denial> {
    let source = sources.last().cloned().unwrap_or(Source::Profile(Profile::Strict));
    let name = request.name;
    if request.origin == Origin::User && !granted {
        let denial = Denial::new(
            "the profile `strict` runs no native tool that was not granted anything",
            source,
        );
        return Err(match name {
            Some(name) => denial.hint(format!(
                "`ikigai policy grant {name}` lets it run in the sandbox; --read, --write, --net \
                 and --env let it touch something"
            )),
            None => denial.hint("a tool in ~/.ikigai/tools can be granted something"),
        });
    }
    if !explicit && (request.origin == Origin::System || request.fell_back) {
        let denial = Denial::new(
            "the profile `strict` runs its component only, and none can be used here",
            source,
        );
        return Err(match name {
            Some(name) => denial.hint(format!(
                "`ikigai policy grant {name} --backend native` allows its native build, sandboxed"
            )),
            None => denial,
        });
    }
    Ok(())
}

/// The environment that is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Env {
    /// The user's own, less the keys of model providers.
    User,
    Names(BTreeSet<String>),
}

/// What the tool has so far.
struct Standing {
    /// None: all that its user may.
    dirs: Option<Vec<GrantedDir>>,
    net: Net,
    env: Env,
    assets: Assets,
    sandbox: Sandbox,
    sources: Sources,
}

impl Standing {
    /// What the profile and the user's file give.
    fn new(
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
            assets: Assets::None,
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
    fn meet(
        &mut self,
        (layer, entry): &Ruling<'_>,
        request: &Request<'_>,
        ground: &Ground<'_>,
    ) -> Result<(), Denial> {
        let mut needs_sandbox = None;
        if let Some(at) = &entry.fs {
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
            needs_sandbox = Some(source(layer, at));
        }
        if let Some(at) = &entry.net {
            let met = self.net.meet(&at.value);
            if met != self.net {
                self.sources.add("net", source(layer, at));
            }
            self.net = met;
            if !at.value.any {
                needs_sandbox = Some(source(layer, at));
            }
        }
        if let Some(at) = &entry.env {
            let met = match &self.env {
                Env::User => at
                    .value
                    .iter()
                    .filter(|name| !standard::is_provider_key(name.as_ref()))
                    .cloned()
                    .collect(),
                Env::Names(names) => {
                    names.iter().filter(|name| at.value.contains(name)).cloned().collect()
                }
            };
            let met = Env::Names(met);
            if met != self.env {
                self.sources.add("env", source(layer, at));
            }
            self.env = met;
            needs_sandbox = Some(source(layer, at));
        }
        if let Some(at) = &entry.assets {
            if at.value < self.assets {
                self.assets = at.value;
                self.sources.add("assets", source(layer, at));
            }
            // Without a sandbox the store's own files would be open to it.
            if at.value < Assets::Write {
                needs_sandbox = Some(source(layer, at));
            }
        }
        if let Some(at) = entry.sandbox.as_ref().filter(|at| at.value > self.sandbox) {
            self.sandbox = at.value;
            self.sources.add("sandbox", source(layer, at));
        }
        // A bound that nothing keeps would be none. The file tools keep theirs by
        // themselves.
        let keeps_itself = request.origin == Origin::System
            && request.name.is_some_and(|name| standard::sandbox(name) == Sandbox::Prefer)
            && self.sandbox >= Sandbox::Prefer;
        if let Some(source) = needs_sandbox.filter(|_| !keeps_itself)
            && self.sandbox < Sandbox::Require
        {
            self.sandbox = Sandbox::Require;
            self.sources.add("sandbox", source);
        }
        Ok(())
    }

    /// No tool writes where a tool, a grant or machine code could be put.
    fn keep_out_of_own_places(
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
    fn check_net(&self, request: &Request<'_>) -> Result<(), Denial> {
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
    fn grant(
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

/// What the call may use up: the user's entry instead of the default, a flag instead
/// of both, and never more than a bound.
fn limits(
    profile: Profile,
    flags: &Flags,
    entry: Option<Ruling<'_>>,
    bounds: &[Ruling<'_>],
    sources: &mut Sources,
) -> Limits {
    let mut limits = Limits::default();
    for key in LimitKey::ALL {
        let name = key.as_str();
        sources.set(name, Source::Profile(profile));
        if let Some((layer, at)) = entry.and_then(|(layer, it)| Some((layer, it.limits.get(&key)?)))
        {
            key.set(&mut limits, at.value);
            sources.set(name, source(layer, at));
        }
        if let Some((_, value)) = flags.limits.iter().find(|(own, _)| *own == key) {
            key.set(&mut limits, *value);
            sources.set(name, flags.source(key.flag()));
        }
        for (layer, bound) in bounds {
            if let Some(at) = bound.limits.get(&key)
                && key.narrow(&mut limits, at.value)
            {
                sources.add(name, source(layer, at));
            }
        }
    }
    limits
}

fn source<T>(layer: &Layer, at: &At<T>) -> Source {
    file_line(layer, at.spot.line)
}

fn at_line(layer: &Layer, entry: &Entry) -> Source {
    file_line(layer, entry.spot.line)
}

fn file_line(layer: &Layer, line: usize) -> Source {
    Source::File { kind: layer.kind, path: Arc::clone(&layer.path), line }
}
