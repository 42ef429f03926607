//! One scan: asks every candidate for its schema and chooses which build of each tool runs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::candidate::{self, Candidate};
use super::confinement;
use super::file;
use super::scan_context::{
    ASKED_PER_CORE, CandidateRefusal, CheckedBuild, ScanContext, ScanTarget, in_tasks,
};
use super::servers::{self, KnownServer};
use super::tool::Tool;
use super::workspace::{self, InstalledNames};
use super::{Skipped, Snapshot};
use crate::exec::wasm::processors;
use crate::policy::{Backend, BackendChoice, BuildChoice, Remedy, ToolOrigin};

/// A candidate that was asked, and its answer.
struct AskedCandidate {
    candidate: Candidate,
    answer: Result<CheckedBuild, CandidateRefusal>,
}

impl AskedCandidate {
    fn is_left_out(&self) -> bool {
        matches!(self.answer, Err(CandidateRefusal::NotCompiled))
    }
}

impl ScanContext {
    /// Returns the tools, and whether they are complete.
    pub(super) async fn run(self) -> (Snapshot, bool) {
        let scan = Arc::new(self);
        let mut snapshot = Snapshot::default();
        let mut is_whole = true;
        let mut installed = InstalledNames::default();
        for (dir, origin) in &scan.dirs {
            let listing = match candidate::list(dir, *origin) {
                Ok(listing) => listing,
                Err(error) => {
                    let is_default =
                        error.kind() == io::ErrorKind::NotFound && !scan.required.contains(dir);
                    if !is_default {
                        snapshot.warnings.push(unreadable(dir, &error));
                    }
                    continue;
                }
            };
            snapshot.skipped.extend(listing.overlooked.into_iter().map(|(path, unfit)| Skipped {
                path,
                reason: unfit.to_string(),
                failed: false,
            }));
            let (servers, programs): (Vec<_>, Vec<_>) =
                listing.candidates.into_iter().partition(|it| it.backend == Backend::Mcp);
            let is_installed = *origin == ToolOrigin::System;
            if is_installed {
                programs.iter().for_each(|candidate| installed.add_file(&candidate.path));
            }
            let asked = ask_all(&scan, programs).await;
            let mut found = BTreeMap::new();
            for mut builds in by_stem(asked) {
                scan.ask_siblings(&mut builds).await;
                if is_installed {
                    let answers = builds.iter().filter_map(|asked| asked.answer.as_ref().ok());
                    answers.for_each(|(_, schema)| installed.add_name(&schema.name));
                }
                is_whole &= !builds.iter().any(AskedCandidate::is_left_out);
                snapshot.is_late |=
                    builds.iter().any(|asked| matches!(asked.answer, Err(CandidateRefusal::Late)));
                add(&scan, &mut found, &mut snapshot, builds).await;
            }
            for (name, tool) in found {
                let taking = tool.build.path.clone();
                if let Some(hidden) = snapshot.tools.insert(name, tool) {
                    let taking = taking.display();
                    let reason = format!("the user tool `{taking}` with the same name replaces it");
                    let path = hidden.build.path.clone();
                    snapshot.skipped.push(Skipped { path, reason, failed: false });
                }
            }
            for server in look_at_all(&scan, servers).await {
                scan.add_server(&mut snapshot, server);
            }
        }
        is_whole &= workspace::add_tools(&scan, &mut snapshot, &installed).await;
        scan.end_changed_servers(&snapshot);
        scan.memo.save();
        (snapshot, is_whole)
    }

    /// If a build belongs to the wanted tool, asks the candidates next to it that were left out.
    async fn ask_siblings(&self, builds: &mut [AskedCandidate]) {
        let ScanTarget::Tool(wanted) = &self.wanted else { return };
        let is_wanted = |asked: &AskedCandidate| {
            asked.answer.as_ref().is_ok_and(|(_, schema)| schema.name == *wanted)
        };
        if !builds.iter().any(is_wanted) {
            return;
        }
        for asked in builds.iter_mut().filter(|asked| asked.is_left_out()) {
            asked.answer = self.ask(&asked.candidate).await;
        }
    }
}

async fn ask_all(scan: &Arc<ScanContext>, candidates: Vec<Candidate>) -> Vec<AskedCandidate> {
    in_tasks(candidates, ASKED_PER_CORE * processors(), |candidate| {
        let scan = Arc::clone(scan);
        async move {
            let answer = scan.ask_if_wanted(&candidate).await;
            AskedCandidate { candidate, answer }
        }
    })
    .await
}

/// Examines server definitions, and returns the servers in the same order.
pub(super) async fn look_at_all(
    scan: &Arc<ScanContext>,
    definitions: Vec<Candidate>,
) -> Vec<KnownServer> {
    in_tasks(definitions, servers::ASKED_AT_ONCE, |candidate| {
        let scan = Arc::clone(scan);
        async move { scan.server(&candidate).await }
    })
    .await
}

/// Groups the builds of each tool, in the order of their first builds.
fn by_stem(asked: Vec<AskedCandidate>) -> Vec<Vec<AskedCandidate>> {
    let mut groups: Vec<Vec<AskedCandidate>> = Vec::new();
    for one in asked {
        let stem = one.candidate.stem();
        match groups.iter_mut().find(|group| group[0].candidate.stem() == stem) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

async fn add(
    scan: &ScanContext,
    found: &mut BTreeMap<String, Tool>,
    snapshot: &mut Snapshot,
    builds: Vec<AskedCandidate>,
) {
    let (mut native, mut wasm) = (None, None);
    for one in builds {
        if let Err(refusal) = &one.answer {
            let (path, reason) = (one.candidate.path.clone(), refusal.reason().to_owned());
            let failed = !one.is_left_out();
            snapshot.skipped.push(Skipped { path, reason, failed });
        }
        match one.candidate.backend {
            Backend::Native => native = Some(one),
            Backend::Wasm => wasm = Some(one),
            // Servers are never among these candidates.
            Backend::Mcp => {}
        }
    }
    let Some(tool) = choose(scan, snapshot, native, wasm).await else { return };
    if let Some(first) = found.get(tool.name()) {
        let reason = format!(
            "`{}` in the same directory has the same name `{}`; remove one of the two",
            file::name(&first.build.path),
            tool.name()
        );
        snapshot.warnings.push(format!("{}: skipped, {reason}", tool.build.path.display()));
        let path = tool.build.path.clone();
        snapshot.skipped.push(Skipped { path, reason, failed: false });
        return;
    }
    found.insert(tool.name().to_owned(), tool);
}

/// Returns the tool with the build that runs, if any. As a fallback, the native build replaces a
/// component only if the component is unusable on this host. ikigai never falls back after a
/// denial, a trap or a limit.
async fn choose(
    scan: &ScanContext,
    snapshot: &mut Snapshot,
    native: Option<AskedCandidate>,
    wasm: Option<AskedCandidate>,
) -> Option<Tool> {
    let origin = native.as_ref().or(wasm.as_ref())?.candidate.origin;
    let native = native.and_then(|asked| asked.answer.ok());
    let wasm = wasm.map(|asked| asked.answer);
    let schema = match (&wasm, &native) {
        (Some(Ok((_, schema))), _) | (_, Some((_, schema))) => schema,
        _ => return None,
    };
    let BuildChoice { backend: asked, native_if_confined, reason: mut why_asked } =
        scan.authority.choose(&schema.name, origin);
    let mut why_wasm = Cow::Borrowed("components come first");
    let mut wants_native = asked == BackendChoice::Native;
    // The check may start a process, so it runs only if it decides something.
    if native_if_confined && native.is_some() && matches!(wasm, Some(Ok(_))) {
        if !scan.wants(&schema.name) {
            return None;
        }
        let (supervisor, memo) = (scan.loader.supervisor(), &scan.memo);
        wants_native = confinement::is_confining(supervisor, memo, scan.depth).await;
        why_asked = "the sandbox works on this machine".into();
        why_wasm = match scan.authority.hint(&Remedy::InspectSandbox) {
            Some(hint) => format!("the sandbox does not work on this machine; {hint}").into(),
            None => "the sandbox does not work on this machine".into(),
        };
    }
    let mut skip = |path: &Path, reason: String| {
        snapshot.skipped.push(Skipped { path: path.to_owned(), reason, failed: false });
        None
    };
    let tool =
        |(build, schema): CheckedBuild, reason: Cow<'static, str>, other: Option<CheckedBuild>| {
            let other = other.map(|(build, _)| build);
            Some(Tool::new(schema, origin, build, reason, other))
        };
    let as_fallback = |mut tool: Tool| {
        tool.fell_back = true;
        tool
    };
    match (native, wasm) {
        (None, Some(Err(_)) | None) => None,
        (None, Some(Ok((build, _)))) if asked == BackendChoice::Native => {
            let reason = "it has no native build, and the backend is set to native";
            skip(&build.path, reason.to_owned())
        }
        (None, Some(Ok(wasm))) => tool(wasm, "it has no native build".into(), None),
        (Some((build, _)), wasm @ (None | Some(Err(CandidateRefusal::Unusable(_)))))
            if asked == BackendChoice::Wasm =>
        {
            let what = if wasm.is_some() { "no component that works here" } else { "no component" };
            skip(&build.path, format!("it has {what}, and the backend is set to wasm"))
        }
        // A requested native build is not a fallback.
        (Some(native), wasm) if wants_native => match wasm {
            None => tool(native, "it has no component".into(), None),
            Some(wasm) => tool(native, why_asked, wasm.ok()),
        },
        (Some(native), None) => tool(native, "it has no component".into(), None),
        (Some(native), Some(Err(CandidateRefusal::Unusable(_)))) => {
            tool(native, "its component cannot be used on this host".into(), None).map(as_fallback)
        }
        // The two schemas are compared after the component is compiled.
        (Some(_), Some(Err(CandidateRefusal::NotCompiled | CandidateRefusal::Late))) => None,
        (Some((build, _)), Some(Err(CandidateRefusal::Failed(_)))) => {
            let reason = "its component failed, and that never falls back to native";
            skip(&build.path, reason.to_owned())
        }
        (Some(native), Some(Ok(wasm))) if native.1 == wasm.1 => {
            let is_asked = asked == BackendChoice::Wasm;
            tool(wasm, if is_asked { why_asked } else { why_wasm }, Some(native))
        }
        (Some((build, _)), Some(Ok(wasm))) => {
            let path = build.path.display();
            snapshot.warnings.push(format!(
                "{path}: not used, its schema differs from its component's schema; build both from \
                 the same source"
            ));
            tool(wasm, "its native build has another schema".into(), None)
        }
    }
}

fn unreadable(dir: &Path, error: &io::Error) -> String {
    let dir = dir.display();
    if error.kind() == io::ErrorKind::NotFound {
        return format!("the tool directory `{dir}` does not exist; make it, or name another");
    }
    format!("the tool directory `{dir}` cannot be read: {error}")
}
