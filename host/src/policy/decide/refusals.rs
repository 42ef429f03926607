//! The checks that refuse a whole call, each with the step that would allow it.

use ikigai_protocol::Digest;

use super::context::Rule;
use crate::policy::decision::{Denial, PolicyRequest};
use crate::policy::provenance::{LayerKind, Provenance, ProvenanceMap};
use crate::policy::remedy::{Permissions, Remedy, RemedyHints};
use crate::policy::rule::{
    Located, PolicyEntry, PolicyLayer, deny_provenance, entry_provenance, provenance_of,
};
use crate::policy::{AssetAccess, Backend, Profile, ToolOrigin};

/// The number of digits of a digest that a refusal shows.
const DIGEST_SHOWN: usize = 12;

/// Returns the entry of the user's file that grants this tool with these contents. If an entry has
/// only the same name, it grants nothing, and a note says so. With `may_run`, the user allowed
/// these contents what the entry grants to other contents.
pub(super) fn granting<'a>(
    user: &'a PolicyLayer,
    request: &PolicyRequest<'_>,
    may_run: bool,
    hints: &RemedyHints,
    notes: &mut Vec<String>,
) -> Result<Option<Rule<'a>>, Denial> {
    let Some(name) = request.name else {
        return granting_path(user, request, may_run);
    };
    let Some(entry) = user.entry(request.backend, name) else {
        return if is_server(request) { Err(not_granted(name)) } else { Ok(None) };
    };
    let Some(granted) = &entry.sha256 else {
        if is_server(request) {
            return Err(not_granted(name));
        }
        if request.origin == ToolOrigin::System {
            return Ok(Some((user, entry)));
        }
        // Asking more often does not need a grant.
        if entry.grants_nothing() {
            return Ok(None);
        }
        let text = format!(
            "{} applies only to built-in tools, since it has no sha256, and so not to `{}`",
            entry_provenance(user, entry),
            request.path.display()
        );
        notes.push(hints.append(text, &Remedy::BindEntry { tool: name.to_owned() }));
        return Ok(None);
    };
    if may_run && !is_server(request) {
        return Ok(Some((user, entry)));
    }
    if granted.value.is_empty() && !is_server(request) {
        return Err(revoked(user, name, granted));
    }
    if names_content(entry, request) {
        check_approved(user, entry, request)?;
        return Ok(Some((user, entry)));
    }
    if !is_server(request) {
        return Err(changed_tool(user, name, granted, request));
    }
    let digests =
        |digests: &[Digest]| digests.iter().map(Digest::to_string).collect::<Vec<_>>().join(", ");
    let (file, found) = changed_file(request, &granted.value);
    let reason = format!(
        "{file} is not the file that was granted {} at {}: its sha256 is {}, granted was {}",
        granted_text(entry),
        entry_provenance(user, entry),
        digests(found),
        if granted.value.is_empty() { "none".to_owned() } else { digests(&granted.value) },
    );
    let remedy = Remedy::GrantServer { server: name.to_owned() };
    Err(Denial::new(reason, provenance_of(user, granted)).remedy(remedy))
}

/// Returns the entry that grants a program that is named by its path. Such a program is known only
/// by its contents. If it is a registered tool whose grant was revoked, or whose contents changed
/// since the grant, it is refused like a call by that tool's name.
fn granting_path<'a>(
    user: &'a PolicyLayer,
    request: &PolicyRequest<'_>,
    may_run: bool,
) -> Result<Option<Rule<'a>>, Denial> {
    let mut lists = request.names.iter().filter_map(|name| {
        let granted = user.entry(request.backend, name)?.sha256.as_ref()?;
        granted.value.is_empty().then_some((name, granted))
    });
    if let Some((name, granted)) = lists.next().filter(|_| !may_run) {
        return Err(revoked(user, name, granted));
    }
    if let Some(entry) = user.tools.values().find(|entry| names_content(entry, request)) {
        return Ok(Some((user, entry)));
    }
    for tool in request.registered.iter().filter(|_| !may_run) {
        // The contents of a definition differ from those of the program that it wraps.
        let present = PolicyRequest { contents: tool.digest.as_slice(), ..*request };
        let entry = user.entry(request.backend, &tool.name);
        let entry = entry.filter(|entry| !names_content(entry, &present));
        if let Some(granted) = entry.and_then(|entry| entry.sha256.as_ref()) {
            return Err(changed_tool(user, &tool.name, granted, &present));
        }
    }
    Ok(None)
}

/// Returns the denial of a tool whose grant lists no contents.
fn revoked(user: &PolicyLayer, name: &str, granted: &Located<Vec<Digest>>) -> Denial {
    let provenance = provenance_of(user, granted);
    let reason = format!("its grant was revoked: {provenance} lists no contents (`sha256 = []`)");
    Denial::new(reason, provenance).remedy(Remedy::GrantToRun { tool: name.to_owned() })
}

/// Returns the denial of a tool whose file or program changed since the grant.
fn changed_tool(
    user: &PolicyLayer,
    name: &str,
    granted: &Located<Vec<Digest>>,
    request: &PolicyRequest<'_>,
) -> Denial {
    let provenance = provenance_of(user, granted);
    let file = match request.program {
        Some(program) => format!("`{name}` or its program `{}`", program.display()),
        None => format!("`{name}`"),
    };
    let begins = |digest: &Digest| {
        let shown: String = digest.to_string().chars().take(DIGEST_SHOWN).collect();
        format!("{shown}…")
    };
    let begin = |digests: &[Digest]| digests.iter().map(begins).collect::<Vec<_>>().join(", ");
    // The last digest belongs to the program, if the tool has one.
    let found = request.contents.last().map_or_else(|| "unknown".to_owned(), begins);
    let reason = format!(
        "{file} changed since you granted it at {provenance} (its sha256 was {}, and is {found})",
        begin(&granted.value)
    );
    Denial::new(reason, provenance).remedy(Remedy::GrantAgain { tool: name.to_owned() })
}

/// Returns the file of a server whose contents were not granted, in words, and its digest, if one
/// is known.
fn changed_file<'a>(request: &PolicyRequest<'a>, granted: &[Digest]) -> (String, &'a [Digest]) {
    let contents = request.contents;
    let path = request.path.display();
    let last = contents.len().saturating_sub(1);
    let changed = contents.iter().rposition(|digest| !granted.contains(digest)).unwrap_or(last);
    // The contents of a server end with its program, if it has one. Then its grant has two digests.
    // An HTTP server has two contents if its definition changed in the meantime.
    let is_program = changed > 0 && changed == last && granted.len() > 1;
    let file = if is_program { format!("the program of `{path}`") } else { format!("`{path}`") };
    (file, contents.get(changed..=changed).unwrap_or_default())
}

fn is_server(request: &PolicyRequest<'_>) -> bool {
    request.backend == Backend::Mcp
}

fn not_granted(server: &str) -> Denial {
    let reason = format!("the server `{server}` was granted nothing, so it is not used");
    Denial::new(reason, Provenance::Profile(Profile::Standard))
        .remedy(Remedy::GrantServer { server: server.to_owned() })
}

/// Refuses a server's tool whose present description was not approved.
fn check_approved(
    layer: &PolicyLayer,
    entry: &PolicyEntry,
    request: &PolicyRequest<'_>,
) -> Result<(), Denial> {
    let (Some(tool), Some(server)) = (request.tool, request.name) else { return Ok(()) };
    let known = entry.approved.as_ref().and_then(|at| at.value.get(tool.name));
    if known == Some(&tool.digest) {
        return Ok(());
    }
    let name = tool.name.escape_debug();
    let reason = match known {
        Some(_) => format!("the server `{server}` changed its tool `{name}` since it was approved"),
        None => format!("the tool `{name}` of the server `{server}` was not approved"),
    };
    let at = entry.approved.as_ref();
    let provenance =
        at.map_or_else(|| entry_provenance(layer, entry), |at| provenance_of(layer, at));
    let (server, tool) = (server.to_owned(), tool.name.to_owned());
    Err(Denial::new(reason, provenance).remedy(Remedy::ApproveTool { server, tool }))
}

/// Returns whether the entry lists all known contents of the file.
fn names_content(entry: &PolicyEntry, request: &PolicyRequest<'_>) -> bool {
    let Some(granted) = &entry.sha256 else { return false };
    !request.contents.is_empty()
        && request.contents.iter().all(|digest| granted.value.contains(digest))
}

/// Returns the permissions that an entry grants.
fn permissions(entry: &PolicyEntry) -> Permissions {
    let dirs = entry.fs.iter().flat_map(|at| &at.value);
    Permissions {
        dirs: dirs.map(|dir| (dir.access, dir.raw.clone())).collect(),
        net: entry.net.as_ref().map(|at| at.value.clone()).unwrap_or_default(),
        env: entry.env.as_ref().map(|at| at.value.clone()).unwrap_or_default(),
        assets: entry.assets.as_ref().map(|at| at.value).unwrap_or_default(),
    }
}

/// Returns the permissions of an entry in a few words.
fn granted_text(entry: &PolicyEntry) -> String {
    let Permissions { dirs, net, env, assets } = permissions(entry);
    let mut parts: Vec<String> =
        dirs.iter().map(|(access, dir)| format!("{}:{dir}", access.as_str())).collect();
    if !net.is_none() {
        parts.push(format!("net {net}"));
    }
    if !env.is_empty() {
        parts.push(format!("env {}", env.join(" ")));
    }
    if assets != AssetAccess::None {
        parts.push(format!("assets to {assets}"));
    }
    if parts.is_empty() { "to run".to_owned() } else { parts.join(", ") }
}

/// Refuses a tool that one of these entries denies.
pub(super) fn check_denied<'a>(
    mut rules: impl Iterator<Item = Rule<'a>>,
    request: &PolicyRequest<'_>,
) -> Result<(), Denial> {
    let denying = |(layer, entry): Rule<'a>| Some((layer, entry, deny_provenance(layer, entry)?));
    let Some((layer, entry, provenance)) = rules.find_map(denying) else { return Ok(()) };
    let is_for_every = layer.every.as_ref().is_some_and(|every| std::ptr::eq(every, entry));
    if !is_for_every {
        let reason = format!("{provenance} denies this tool");
        return Err(Denial::new(reason, provenance).by_deny());
    }
    let reason = format!("{provenance} denies every tool that has no entry in that file");
    let denial = Denial::new(reason, provenance).by_deny();
    let is_grantable = layer.kind == LayerKind::User && !is_server(request);
    let Some(name) = request.name.filter(|_| is_grantable) else { return Err(denial) };
    let tool = name.to_owned();
    Err(denial.remedy(match request.origin {
        ToolOrigin::User => Remedy::GrantToRun { tool },
        ToolOrigin::System => Remedy::AddEntry { tool },
    }))
}

/// Refuses a server's tool if a table `[tools.NAME]` with its name has keys that it cannot have.
/// The process of a server serves all of its tools, so only the server has a grant.
pub(super) fn check_offered<'a>(
    rules: impl Iterator<Item = Rule<'a>>,
    request: &PolicyRequest<'_>,
) -> Result<(), Denial> {
    let Some(server) = request.name.filter(|_| is_server(request)) else { return Ok(()) };
    for (layer, entry) in rules {
        let is_own = layer.servers.get(server).is_some_and(|own| std::ptr::eq(own, entry));
        let narrows_calls = entry.grants_nothing()
            && entry.backend.is_none()
            && entry.hide.is_none()
            && entry.wasi.is_none();
        if is_own || narrows_calls {
            continue;
        }
        let provenance = entry_provenance(layer, entry);
        let reason = format!(
            "{provenance} has keys that one tool of a server cannot have; it may have `deny`, \
             `approve`, `ask` and `limits`, and `[servers.{server}]` has the others for the whole \
             server"
        );
        return Err(Denial::new(reason, provenance));
    }
    Ok(())
}

/// Refuses contents and builds that a bound does not allow.
pub(super) fn check_bounds(bounds: &[Rule<'_>], request: &PolicyRequest<'_>) -> Result<(), Denial> {
    for (layer, entry) in bounds {
        if let Some(at) = entry.sha256.as_ref().filter(|_| !names_content(entry, request)) {
            let reason = format!(
                "{} allows other contents than those of `{}`",
                provenance_of(layer, at),
                request.path.display()
            );
            return Err(Denial::new(reason, provenance_of(layer, at)));
        }
        // A bound that lists tools allows only these.
        if entry.approved.is_some() {
            check_approved(layer, entry, request)?;
        }
        let backend = entry.backend.as_ref().filter(|_| layer.kind == LayerKind::Ceiling);
        if let Some(at) = backend.filter(|at| !at.value.allows(request.backend)) {
            let reason =
                format!("{} allows its {} build only", provenance_of(layer, at), at.value.as_str());
            return Err(Denial::new(reason, provenance_of(layer, at)));
        }
    }
    Ok(())
}

/// Refuses to run a tool because of a `weakness` that lets another tool decide what it does.
pub(super) fn check_replaceable(
    (name, backend): (&str, Backend),
    weakness: Option<String>,
    entry: Option<Rule<'_>>,
    provenance: &ProvenanceMap,
) -> Result<(), Denial> {
    let Some(reason) = weakness else { return Ok(()) };
    let provenance =
        provenance.for_capability("sandbox").last().cloned().unwrap_or(Provenance::ProtectedPaths);
    let denial = Denial::new(reason, provenance);
    if backend == Backend::Mcp {
        return Err(denial);
    }
    let is_granted = entry.is_some_and(|(_, entry)| entry.sandbox.is_some());
    let tool = name.to_owned();
    Err(denial.remedy(match is_granted {
        true => Remedy::RequireSandbox { tool },
        false => Remedy::BindAndConfine { tool },
    }))
}

/// Refuses the native builds that the profile `strict` does not allow.
pub(super) fn check_strict(
    request: &PolicyRequest<'_>,
    granted: bool,
    explicit: bool,
    provenance: &[Provenance],
) -> Result<(), Denial> {
    let provenance = provenance.last().cloned().unwrap_or(Provenance::Profile(Profile::Strict));
    if request.origin == ToolOrigin::User && !granted {
        let denial =
            Denial::new("the profile `strict` runs no native tool without a grant", provenance);
        return Err(denial.remedy(match request.name {
            Some(name) => Remedy::GrantToRun { tool: name.to_owned() },
            None => Remedy::InstallAsTool,
        }));
    }
    if !explicit && (request.origin == ToolOrigin::System || request.fell_back) {
        let denial = Denial::new(
            "the profile `strict` runs its component only, and none can be used here",
            provenance,
        );
        return Err(match request.name {
            Some(name) => denial.remedy(Remedy::AllowNative { tool: name.to_owned() }),
            None => denial,
        });
    }
    Ok(())
}
