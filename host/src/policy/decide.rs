//! The decision on one call, by the layers of the policy.
//!
//! The profile and the user's file give a tool its first grant. The ceiling and the workspace only
//! narrow it: the grant is intersected with each of them, so the result is never wider than either.

mod context;
mod effective_grant;
mod named_paths;
mod reach;
mod refusals;
mod replaceable;
mod search;
mod signed;
mod user_command;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ikigai_protocol::Digest;
use strum::VariantArray as _;

pub(super) use self::context::PolicyContext;
use self::context::Rule;
use self::effective_grant::{EffectiveGrant, Freedom};
use self::reach::WritablePlaces;
use self::refusals::{
    check_bounds, check_denied, check_offered, check_replaceable, check_strict, granting,
};
use self::replaceable::NativeStart;
pub(super) use self::search::is_for_commands;
use super::commands::{self, Strictness};
use super::decision::{Decision, Denial, PolicyRequest};
use super::provenance::{LayerKind, Provenance, ProvenanceMap};
use super::reached::RequestedAccess;
use super::reserved::Reserved;
use super::rule::{LimitKey, PolicyEntry, PolicyLayer, PolicyLayers, provenance_of};
use super::signers;
use super::wasi::{self, AllowedWasi};
use super::{
    Approve, Backend, BackendChoice, Grant, Hide, Overrides, Profile, Sandbox, ToolOrigin, standard,
};
use crate::limits::CallLimits;

/// Returns the profile in force: the strictest profile of any layer.
pub(super) fn profile(layers: &PolicyLayers, overrides: &Overrides) -> (Profile, Vec<Provenance>) {
    let (mut profile, by) = own_profile(layers, overrides);
    let mut provenance = vec![by];
    for layer in bounding(layers) {
        if let Some(at) = layer.profile.as_ref().filter(|at| at.value > profile) {
            profile = at.value;
            provenance.push(provenance_of(layer, at));
        }
    }
    (profile, provenance)
}

/// Returns the profile that would be in force without a bound.
fn own_profile(layers: &PolicyLayers, overrides: &Overrides) -> (Profile, Provenance) {
    match (&overrides.profile, &layers.user.profile) {
        (Some(asked), _) => (asked.value, asked.provenance()),
        (None, Some(at)) => (at.value, provenance_of(&layers.user, at)),
        (None, None) => (Profile::Standard, Provenance::Profile(Profile::Standard)),
    }
}

/// Returns the build that a layer or an override asks for. A ceiling comes first. A workspace file
/// has no influence.
pub(super) fn backend(
    layers: &PolicyLayers,
    overrides: &Overrides,
    name: &str,
) -> Option<(BackendChoice, Provenance)> {
    let of = |layer: &PolicyLayer| {
        let at = layer.tools.get(name)?.backend.as_ref()?;
        (at.value != BackendChoice::Auto).then(|| (at.value, provenance_of(layer, at)))
    };
    let asked = overrides.backend.as_ref().filter(|asked| asked.value != BackendChoice::Auto);
    let asked = asked.map(|asked| (asked.value, asked.provenance()));
    layers.ceilings.iter().find_map(|layer| of(layer)).or(asked).or_else(|| of(&layers.user))
}

/// Returns whether some layer names the tool or the server by its contents, or requires a signature
/// of them.
pub(super) fn looks_at_content(
    layers: &PolicyLayers,
    backend: Backend,
    origin: ToolOrigin,
    name: Option<&str>,
) -> bool {
    match name {
        _ if origin == ToolOrigin::User && signers::is_required(layers) => true,
        // A server's grant is always bound to its contents.
        _ if backend == Backend::Mcp => true,
        Some(name) => layers
            .all()
            .any(|layer| layer.tools.get(name).is_some_and(|entry| entry.sha256.is_some())),
        // A path has the names of the tools with its contents, which any entry may narrow.
        None => layers.all().any(|layer| !layer.tools.is_empty()),
    }
}

/// Decides one call.
pub(super) fn decide(
    layers: &PolicyLayers,
    overrides: &Overrides,
    context: &PolicyContext<'_>,
    request: &PolicyRequest<'_>,
) -> Result<Decision, Denial> {
    decide_without_hint(layers, overrides, context, request)
        .map_err(|denial| denial.with_hint(context.hints))
}

fn decide_without_hint(
    layers: &PolicyLayers,
    overrides: &Overrides,
    context: &PolicyContext<'_>,
    request: &PolicyRequest<'_>,
) -> Result<Decision, Denial> {
    signed::check(layers, context, request)?;
    let names = further_names(layers, request);
    let request = &PolicyRequest { names: &names, ..*request };
    let (profile, profile_provenance) = profile(layers, overrides);
    let mut notes = Vec::new();
    let may_run = context.allowed.contains(&RequestedAccess::Run);
    // If the tool is denied, rules about the contents of its file don't matter.
    check_denied(named(layers, request), request)?;
    check_offered(named(layers, request), request)?;
    let entry = granting(&layers.user, request, may_run, context.hints, &mut notes)?;
    let bounds = bounds(layers, request, entry);
    check_denied(bounds.iter().copied().chain(entry), request)?;
    check_bounds(&bounds, request)?;
    let explicit = request
        .name
        .and_then(|name| backend(layers, overrides, name))
        .is_some_and(|(choice, _)| choice == BackendChoice::Native);
    if profile == Profile::Strict && request.backend == Backend::Native {
        check_strict(request, entry.is_some() || may_run, explicit, &profile_provenance)?;
    }
    let by_name: Vec<Rule<'_>> = entries(&layers.user, request).collect();
    let narrowing = narrowing(&bounds, &by_name, entry);
    let AllowedWasi { versions, narrowed_by } = wasi::allowed(&narrowing, request)?;
    let own: Vec<Rule<'_>> =
        narrowing.iter().filter(|(layer, _)| layer.kind == LayerKind::User).copied().collect();
    let meet = |freedom| -> Result<EffectiveGrant, Denial> {
        let mut effective = EffectiveGrant::new(profile, request, entry, context, freedom)?;
        // Check the grant without the bounds first. A grant that must be refused cannot become
        // valid through a bound, or through a bound's profile or hidden names.
        effective.confine(own_profile(layers, overrides).0);
        effective.hide(&own, context)?;
        effective.deny_list_without_sandbox(request)?;
        effective.confine(profile);
        effective.hide(&narrowing, context)?;
        effective.widen(context);
        effective.deny_writing_protected_paths(context, request)?;
        effective.deny_list_without_sandbox(request)?;
        for bound in &bounds {
            effective.meet(bound, request, context)?;
        }
        effective.deny_list_without_sandbox(request)?;
        Ok(effective)
    };
    let mut effective = meet(Freedom::Granted)?;
    if effective.is_confined_nevertheless() {
        effective = meet(Freedom::Withheld)?;
    }
    effective.close_unnamed(context, &mut notes);
    effective.close_half_open_secrets(context, &mut notes);

    effective.drop_hidden(&mut notes);
    let mut provenance = std::mem::take(&mut effective.provenance);
    provenance.set_all("profile", profile_provenance);
    // The limits of an entry apply even if it is bound to other contents, or to no contents.
    let is_granting = |rule: &PolicyEntry| entry.is_some_and(|(_, it)| std::ptr::eq(it, rule));
    let unbound = by_name.iter().filter(|(_, rule)| !is_granting(rule));
    let limiting: Vec<Rule<'_>> = bounds.iter().chain(unbound).copied().collect();
    let limits = limits(profile, overrides, request, entry, &limiting, &mut provenance);
    let ask = ask(overrides, &narrowing, profile, &mut provenance);
    provenance.set("wasi", Provenance::Profile(profile));
    narrowed_by.into_iter().for_each(|by| provenance.add("wasi", by));
    let (mut grant, variables) = effective.grant(profile, request, context, &provenance)?;
    let order = Strictness::for_request(request, &grant);
    let approve = approve(overrides, &narrowing, profile, order, &mut provenance);
    if request.backend != Backend::Wasm {
        let reach = WritablePlaces::new(&layers.user, context);
        let is_unconfined = grant.sandbox == Sandbox::Off;
        let lost = search::keep_out_of_reach(&mut grant.env, is_unconfined, &reach);
        if !is_unconfined {
            grant.closed = reach.closed(context);
        }
        // A tool without a grant that is bound to its contents works in every workspace.
        let is_unbound = request.origin == ToolOrigin::User && entry.is_none() && !may_run;
        if (is_unconfined || is_unbound)
            && let Some(name) = request.name
        {
            let start = NativeStart {
                program: request.program,
                ..start(request.path, context, &grant, &lost)
            };
            let weakness = replaceable::weakness(&start, context.protected, &reach);
            check_replaceable((name, request.backend), weakness, entry, &provenance)?;
        }
    }
    let commands = commands::meet(layers, request, &grant);
    Ok(Decision {
        grant,
        limits,
        approve,
        ask,
        wasi: versions,
        commands,
        profile,
        variables,
        provenance,
        notes,
    })
}

/// Refuses a program that uses a version of WASI which the policy does not allow. Checks nothing
/// else.
pub(super) fn check_wasi(
    layers: &PolicyLayers,
    context: &PolicyContext<'_>,
    request: &PolicyRequest<'_>,
) -> Result<(), Denial> {
    let names = further_names(layers, request);
    let request = &PolicyRequest { names: &names, ..*request };
    let entry = granting(&layers.user, request, false, context.hints, &mut Vec::new());
    // An entry that grants nothing to these contents replaces no rule for every tool.
    let entry = entry.unwrap_or_default();
    let by_name: Vec<Rule<'_>> = entries(&layers.user, request).collect();
    let rules = narrowing(&bounds(layers, request, entry), &by_name, entry);
    wasi::allowed(&rules, request).map(|_| ())
}

/// Returns the grant of a `--schema` call, which is empty. A tool that another tool could replace
/// needs the sandbox for this call too.
pub(super) fn for_schema(
    user: &PolicyLayer,
    context: &PolicyContext<'_>,
    path: &Path,
    backend: Backend,
) -> Grant {
    let mut grant = standard::for_schema(backend);
    if backend != Backend::Wasm {
        grant.reserved = Reserved::for_process(&context.secrets, &[], Vec::new(), &grant.env);
    }
    if backend == Backend::Native {
        let reach = WritablePlaces::new(user, context);
        let lost = search::keep_out_of_reach(&mut grant.env, false, &reach);
        let start = start(path, context, &grant, &lost);
        if replaceable::weakness(&start, context.protected, &reach).is_some() {
            grant.sandbox = Sandbox::Require;
        }
        grant.closed = reach.closed(context);
    }
    grant
}

/// A program of the user that the host starts in `/`, with all rights of its user.
pub(super) struct UserProgram<'a> {
    /// Its name or path, and its arguments.
    pub(super) words: &'a [OsString],
    /// The user's home.
    pub(super) home: Option<&'a Path>,
    /// Returns whether the program gets the variable with this name.
    pub(super) has_variable: fn(&OsStr) -> bool,
}

/// Returns the environment of a program of the user, or the reason why a tool could control the
/// program. No variable leads to a place where tools may write.
pub(super) fn for_user_program(
    user: &PolicyLayer,
    context: &PolicyContext<'_>,
    program: &UserProgram<'_>,
) -> Result<Vec<(OsString, OsString)>, String> {
    let UserProgram { words, home, has_variable } = *program;
    let reach = WritablePlaces::new(user, context);
    let mut env = context.variables.all();
    env.retain(|(name, _)| has_variable(name));
    let lost = search::keep_out_of_reach(&mut env, true, &reach);
    search::leave_out_written(&mut env, home, &reach);
    let start = NativeStart {
        path: Path::new("/"),
        program: None,
        // No tool may write there, so a relative path in a file or a variable leads nowhere.
        workspace: Path::new("/"),
        env: &env,
        lost: &lost,
    };
    let weakness = user_command::weakness(words, home, &start, &reach);
    weakness.map_or(Ok(env), Err)
}

fn start<'a>(
    path: &'a Path,
    context: &PolicyContext<'a>,
    grant: &'a Grant,
    lost: &'a [PathBuf],
) -> NativeStart<'a> {
    NativeStart { path, program: None, workspace: context.workspace, env: &grant.env, lost }
}

/// Returns the layers that only narrow.
fn bounding(layers: &PolicyLayers) -> impl Iterator<Item = &PolicyLayer> {
    layers.ceilings.iter().map(|layer| &**layer).chain([&*layers.workspace])
}

/// Returns every entry that narrows this tool's grant. `entry` is the entry that grants it
/// something. Only that entry replaces the user file's rules for every tool.
fn bounds<'a>(
    layers: &'a PolicyLayers,
    request: &PolicyRequest<'_>,
    entry: Option<Rule<'a>>,
) -> Vec<Rule<'a>> {
    // The names of a path add bounds, and replace no rule for every tool.
    let own = |layer: &'a PolicyLayer| layer.entry(request.backend, request.name?);
    let every = bounding(layers).map(|layer| (layer, own(layer)));
    let every = every.chain([(&*layers.user, entry.map(|(_, entry)| entry))]);
    let every = every.filter_map(|(layer, own)| Some((layer, layer.every_beside(own)?)));
    every.chain(bounding(layers).flat_map(|layer| entries(layer, request))).collect()
}

/// Returns every rule whose keys narrow a call without granting. Such keys count even if their entry
/// is bound to other contents.
fn narrowing<'a>(
    bounds: &[Rule<'a>],
    by_name: &[Rule<'a>],
    entry: Option<Rule<'a>>,
) -> Vec<Rule<'a>> {
    bounds.iter().chain(by_name).copied().chain(entry).collect()
}

/// Returns every entry with a name of this tool, even if it is bound to other contents.
fn named<'a>(
    layers: &'a PolicyLayers,
    request: &PolicyRequest<'_>,
) -> impl Iterator<Item = Rule<'a>> {
    layers.all().flat_map(move |layer| entries(layer, request))
}

/// Returns the entries of a layer with a name of this tool, even if they are bound to other
/// contents.
fn entries<'a>(
    layer: &'a PolicyLayer,
    request: &PolicyRequest<'_>,
) -> impl Iterator<Item = Rule<'a>> {
    let own = request.name.and_then(|name| layer.entry(request.backend, name));
    let further = request.names.iter().filter_map(move |name| layer.tools.get(name));
    own.into_iter().chain(further).map(move |entry| (layer, entry))
}

/// Returns the further names of a request. A program that is named by its path also has the names
/// of the entries that list its contents.
fn further_names(layers: &PolicyLayers, request: &PolicyRequest<'_>) -> Vec<String> {
    let mut names = request.names.to_vec();
    if request.name.is_none() {
        let entries = layers.all().flat_map(|layer| &layer.tools);
        let listing = entries.filter(|(_, entry)| lists_any(entry, request.contents));
        names.extend(listing.map(|(name, _)| name.clone()));
        names.sort();
        names.dedup();
    }
    names
}

/// Returns whether an entry lists some of these contents.
fn lists_any(entry: &PolicyEntry, contents: &[Digest]) -> bool {
    let listed = entry.sha256.as_ref().map(|at| at.value.as_slice()).unwrap_or_default();
    contents.iter().any(|digest| listed.contains(digest))
}

/// Returns the calls that need consent, by the strictest value of any layer.
fn approve(
    overrides: &Overrides,
    narrowing: &[Rule<'_>],
    profile: Profile,
    order: Strictness,
    provenance: &mut ProvenanceMap,
) -> Approve {
    let asked = narrowing.iter().filter_map(|(layer, entry)| {
        entry.approve.as_ref().map(|at| (at.value, provenance_of(layer, at)))
    });
    let flag = overrides.approve.as_ref().map(|asked| (asked.value, asked.provenance()));
    let default = (Approve::default(), Provenance::Profile(profile));
    let (approve, by) = asked
        .chain(flag)
        .fold(default, |most, asked| if order.is_more(asked.0, most.0) { asked } else { most });
    provenance.set("approve", by);
    approve
}

/// Returns the names that every layer together hides from a tool, even if the tool may not run.
///
/// # Errors
///
/// Fails if together they are too many. The text says so.
pub(super) fn hidden_from(
    layers: &PolicyLayers,
    request: &PolicyRequest<'_>,
) -> Result<Hide, String> {
    let own: Vec<Rule<'_>> = entries(&layers.user, request).collect();
    let rules = bounds(layers, request, own.first().copied()).into_iter().chain(own);
    let lists: Vec<&Hide> =
        rules.filter_map(|(_, entry)| Some(&entry.hide.as_ref()?.value)).collect();
    Hide::parse(lists.iter().flat_map(|list| list.patterns()).map(String::as_str))
}

/// Returns whether the user may be asked to widen the grant. Any layer can forbid it.
fn ask(
    overrides: &Overrides,
    narrowing: &[Rule<'_>],
    profile: Profile,
    provenance: &mut ProvenanceMap,
) -> bool {
    let flag = overrides.ask.as_ref().map(|asked| (asked.value, asked.provenance()));
    let denying = narrowing
        .iter()
        .filter_map(|(layer, entry)| {
            entry.ask.as_ref().map(|at| (at.value, provenance_of(layer, at)))
        })
        .chain(flag)
        .find(|(value, _)| !value);
    let (ask, by) = denying.unwrap_or((true, Provenance::Profile(profile)));
    provenance.set("ask", by);
    ask
}

/// Returns the limits of a call. The user's entry replaces a default, including the host's default
/// for the shell. A limit of a file is a bound: an override can lower it, but not raise it.
fn limits(
    profile: Profile,
    overrides: &Overrides,
    request: &PolicyRequest<'_>,
    entry: Option<Rule<'_>>,
    bounds: &[Rule<'_>],
    provenance: &mut ProvenanceMap,
) -> CallLimits {
    let mut limits = standard::limits(request.backend);
    let is_shell = request.origin == ToolOrigin::System && request.name == Some(standard::SHELL);
    let of_shell = if is_shell { overrides.shell_limits.as_slice() } else { &[] };
    for key in LimitKey::VARIANTS.iter().copied() {
        let name = key.as_str();
        provenance.set(name, Provenance::Profile(profile));
        if let Some((_, asked)) = of_shell.iter().find(|(own, _)| *own == key) {
            key.set(&mut limits, asked.value);
            provenance.set(name, asked.provenance());
        }
        let written = entry.and_then(|(layer, it)| Some((layer, it.limits.get(&key)?)));
        if let Some((layer, at)) = written {
            key.set(&mut limits, at.value);
            provenance.set(name, provenance_of(layer, at));
        }
        if let Some((_, asked)) = overrides.limits.iter().find(|(own, _)| *own == key) {
            if written.is_none() {
                key.set(&mut limits, asked.value);
                provenance.set(name, asked.provenance());
            } else if key.narrow(&mut limits, asked.value) {
                provenance.add(name, asked.provenance());
            }
        }
        for (layer, bound) in bounds {
            if let Some(at) = bound.limits.get(&key)
                && key.narrow(&mut limits, at.value)
            {
                provenance.add(name, provenance_of(layer, at));
            }
        }
    }
    limits.wall_clock_ceiling = wall_clock_ceiling(entry, bounds, limits.wall_clock_ceiling);
    limits
}

/// Returns the longest wall clock that the policy files allow, or `otherwise` if they set no wall
/// clock. Defaults and flags don't limit the time that the user may give a call.
fn wall_clock_ceiling(
    entry: Option<Rule<'_>>,
    bounds: &[Rule<'_>],
    otherwise: Duration,
) -> Duration {
    let rules = entry.iter().chain(bounds);
    let set = rules.filter_map(|(_, rule)| rule.limits.get(&LimitKey::WallClock));
    set.map(|at| Duration::from_nanos(at.value)).min().unwrap_or(otherwise)
}
