//! What is refused as a whole, and what would allow it.

use ikigai_protocol::Access;

use super::{Rule, entry_provenance, provenance_of};
use crate::digest::Digest;
use crate::policy::decision::{Denial, Provenance, ProvenanceMap, Request};
use crate::policy::live::quoted;
use crate::policy::rule::{Entry, Layer, LayerKind};
use crate::policy::{AssetAccess, Profile, ToolOrigin};

/// The entry of the user's file that speaks of this very tool.
pub(super) fn granting<'a>(
    user: &'a Layer,
    request: &Request<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<Rule<'a>>, Denial> {
    let Some(name) = request.name else {
        // A program that is named by its path has no name but its content.
        let named = user.tools.values().find(|entry| names_content(entry, request));
        return Ok(named.map(|entry| (user, entry)));
    };
    let Some(entry) = user.tools.get(name) else { return Ok(None) };
    let Some(granted) = &entry.sha256 else {
        if request.origin == ToolOrigin::System {
            return Ok(Some((user, entry)));
        }
        notes.push(format!(
            "{} speaks of system tools alone, since it has no sha256, and so not of `{}`; \
             `ikigai policy grant {name}` makes it speak of this file",
            entry_provenance(user, entry),
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
        entry_provenance(user, entry),
        digests(&request.contents[request.contents.len().saturating_sub(1)..]),
        if granted.value.is_empty() { "none".to_owned() } else { digests(&granted.value) },
    );
    Err(Denial::new(reason, provenance_of(user, granted))
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
        words.push(format!("{flag} {}", quoted(&dir.raw)));
    }
    if let Some(net) = &entry.net {
        let any = net.value.any.then(|| "*".to_owned());
        let peers = net.value.peers.iter().map(ToString::to_string);
        words.extend(any.into_iter().chain(peers).map(|peer| format!("--net {}", quoted(&peer))));
    }
    let names = entry.env.iter().flat_map(|at| &at.value);
    words.extend(names.map(|name| format!("--env {}", quoted(name))));
    let assets = entry.assets.as_ref().filter(|at| at.value != AssetAccess::None);
    words.extend(assets.map(|at| format!("--assets {}", at.value.as_str())));
    words.join(" ")
}

/// What an entry grants, in a few words.
fn granted_text(entry: &Entry) -> String {
    let mut parts = Vec::new();
    for dir in entry.fs.iter().flat_map(|at| &at.value) {
        parts.push(format!("{}:{}", dir.access.as_str(), dir.raw));
    }
    if let Some(net) = entry.net.as_ref().filter(|net| !net.value.is_none()) {
        parts.push(format!("net {}", net.value));
    }
    if let Some(env) = entry.env.as_ref().filter(|env| !env.value.is_empty()) {
        parts.push(format!("env {}", env.value.join(" ")));
    }
    if let Some(assets) = entry.assets.as_ref().filter(|at| at.value != AssetAccess::None) {
        parts.push(format!("assets to {}", assets.value.as_str()));
    }
    if parts.is_empty() { "to run".to_owned() } else { parts.join(", ") }
}

pub(super) fn check_bounds(bounds: &[Rule<'_>], request: &Request<'_>) -> Result<(), Denial> {
    for (layer, entry) in bounds {
        if let Some(at) = entry.sha256.as_ref().filter(|_| !names_content(entry, request)) {
            let reason = format!(
                "{} allows other contents than those of `{}`",
                provenance_of(layer, at),
                request.path.display()
            );
            return Err(Denial::new(reason, provenance_of(layer, at)));
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

/// Refuses to run a tool with all rights where another tool could decide what it does, for
/// the reason that is given.
pub(super) fn check_unconfined(
    name: &str,
    weakness: Option<String>,
    entry: Option<Rule<'_>>,
    provenance: &ProvenanceMap,
) -> Result<(), Denial> {
    let Some(reason) = weakness else { return Ok(()) };
    let provenance = provenance.of("sandbox").last().cloned().unwrap_or(Provenance::ProtectedPaths);
    let is_granted = entry.is_some_and(|(_, entry)| entry.sandbox.is_some());
    Err(Denial::new(reason, provenance).hint(if is_granted {
        format!("`ikigai policy grant {name} --sandbox require` sandboxes it")
    } else {
        format!(
            "`ikigai policy grant {name}` binds it to what its file holds now, and sandboxes it"
        )
    }))
}

/// What `strict` says of a native build.
pub(super) fn check_strict(
    request: &Request<'_>,
    granted: bool,
    explicit: bool,
    provenance: &[Provenance],
) -> Result<(), Denial> {
    let provenance = provenance.last().cloned().unwrap_or(Provenance::Profile(Profile::Strict));
    let name = request.name;
    if request.origin == ToolOrigin::User && !granted {
        let denial = Denial::new(
            "the profile `strict` runs no native tool that was not granted anything",
            provenance,
        );
        return Err(match name {
            Some(name) => denial.hint(format!(
                "`ikigai policy grant {name}` lets it run in the sandbox; --read, --write, --net \
                 and --env let it touch something"
            )),
            None => denial.hint("a tool in ~/.ikigai/tools can be granted something"),
        });
    }
    if !explicit && (request.origin == ToolOrigin::System || request.fell_back) {
        let denial = Denial::new(
            "the profile `strict` runs its component only, and none can be used here",
            provenance,
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
