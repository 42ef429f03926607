//! From the layers to the answer for one call.
//!
//! What a tool has to begin with comes of the profile and of the user's file. The
//! ceiling and the workspace only take away: each is met with what there is, so
//! that the result is never wider than either.

mod reach;
mod refusals;
mod replaceable;
mod search;
mod standing;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use strum::VariantArray as _;

use self::reach::Reach;
use self::refusals::{check_bounds, check_strict, check_unconfined, granting};
use self::replaceable::Start;
use self::standing::Standing;
use super::decision::{Decision, Denial, Request, Source, Sources};
use super::handed_out::HandedOut;
use super::live::Layers;
use super::rule::{At, Entry, Layer, LimitKey};
use super::variables::Variables;
use super::{Backend, BackendChoice, Grant, Overrides, Profile, Sandbox, standard};
use crate::limits::Limits;

/// Where calls are decided.
pub(super) struct Ground<'a> {
    pub(super) workspace: &'a Path,
    pub(super) own: &'a [PathBuf],
    pub(super) variables: &'a Variables,
    pub(super) handed_out: &'a HandedOut,
}

/// An entry of a layer.
type Ruling<'a> = (&'a Layer, &'a Entry);

/// The profile in force: the strictest that any layer asks for.
pub(super) fn profile(layers: &Layers, overrides: &Overrides) -> (Profile, Vec<Source>) {
    let asked = match (&overrides.profile, &layers.user.profile) {
        (Some(asked), _) => Some((asked.value, asked.source())),
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
    overrides: &Overrides,
    name: &str,
) -> Option<(BackendChoice, Source)> {
    let of = |layer: &Layer| {
        let at = layer.tools.get(name)?.backend.as_ref()?;
        (at.value != BackendChoice::Auto).then(|| (at.value, source(layer, at)))
    };
    let asked = overrides.backend.as_ref().filter(|asked| asked.value != BackendChoice::Auto);
    let asked = asked.map(|asked| (asked.value, asked.source()));
    layers.ceilings.iter().find_map(|layer| of(layer)).or(asked).or_else(|| of(&layers.user))
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
    overrides: &Overrides,
    ground: &Ground<'_>,
    request: &Request<'_>,
) -> Result<Decision, Denial> {
    let (profile, profile_sources) = profile(layers, overrides);
    let mut notes = Vec::new();
    let entry = granting(&layers.user, request, &mut notes)?;
    let bounds = bounds(layers, request.name);
    check_bounds(&bounds, request)?;
    let explicit = request
        .name
        .and_then(|name| backend(layers, overrides, name))
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
    let limits = limits(profile, overrides, entry, &bounds, &mut sources);
    let (mut grant, variables) = standing.grant(request, ground.variables)?;
    if request.backend == Backend::Native {
        let reach = Reach::new(&layers.user, ground);
        let is_unconfined = grant.sandbox == Sandbox::Off;
        let lost = search::keep_out_of_reach(&mut grant.env, is_unconfined, &reach);
        if is_unconfined && let Some(name) = request.name {
            let start = start(request.path, ground, &grant, &lost);
            let weakness = replaceable::weakness(&start, ground.own, &reach);
            check_unconfined(name, weakness, entry, &sources)?;
        }
    }
    Ok(Decision { grant, limits, profile, variables, sources, notes })
}

/// The grant of a `--schema` call: nothing. A tool that another could replace does not run
/// without the sandbox for it either.
pub(super) fn for_schema(
    user: &Layer,
    ground: &Ground<'_>,
    path: &Path,
    backend: Backend,
) -> Grant {
    let mut grant = standard::for_schema(backend);
    if backend == Backend::Native {
        let reach = Reach::new(user, ground);
        let lost = search::keep_out_of_reach(&mut grant.env, false, &reach);
        let start = start(path, ground, &grant, &lost);
        if replaceable::weakness(&start, ground.own, &reach).is_some() {
            grant.sandbox = Sandbox::Require;
        }
    }
    grant
}

fn start<'a>(
    path: &'a Path,
    ground: &Ground<'a>,
    grant: &'a Grant,
    lost: &'a [PathBuf],
) -> Start<'a> {
    Start { path, workspace: ground.workspace, env: &grant.env, lost }
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

/// What the call may use up: the user's entry instead of the default, a flag instead
/// of both, and never more than a bound.
fn limits(
    profile: Profile,
    overrides: &Overrides,
    entry: Option<Ruling<'_>>,
    bounds: &[Ruling<'_>],
    sources: &mut Sources,
) -> Limits {
    let mut limits = Limits::default();
    for key in LimitKey::VARIANTS.iter().copied() {
        let name = key.as_str();
        sources.set(name, Source::Profile(profile));
        if let Some((layer, at)) = entry.and_then(|(layer, it)| Some((layer, it.limits.get(&key)?)))
        {
            key.set(&mut limits, at.value);
            sources.set(name, source(layer, at));
        }
        if let Some((_, asked)) = overrides.limits.iter().find(|(own, _)| *own == key) {
            key.set(&mut limits, asked.value);
            sources.set(name, asked.source());
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
