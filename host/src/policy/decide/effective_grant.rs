//! The grant of a tool during the decision: the grant of the profile and the user's file, narrowed
//! by bounds.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ikigai_protocol::{Access, DIRS_VARIABLE, GrantedDir, encode_dirs};

use super::context::{PolicyContext, Rule};
use super::search::PATH;
use crate::paths::resolution_steps;
use crate::policy::decision::{Denial, PolicyRequest, Variable};
use crate::policy::executed_places::{GIT, executed_place};
use crate::policy::parse::overlap_text;
use crate::policy::provenance::{Provenance, ProvenanceMap};
use crate::policy::reached::RequestedAccess;
use crate::policy::remedy::Remedy;
use crate::policy::rule::{
    DirRule, Located, PolicyEntry, PolicyLayer, line_provenance, provenance_of,
};
use crate::policy::{
    AssetAccess, Backend, ClosedPlaces, Grant, GrantedLink, Hide, Net, Peer, PeerHost, Profile,
    Reserved, Sandbox, ToolOrigin, dirs, is_of_kernel, standard,
};

/// The file system that shows processes, which cannot be granted.
const PROCESSES: &str = "/proc";

/// The granted environment.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Env {
    /// The user's environment, without the keys for model providers.
    User,
    /// The variables with these names.
    Names(BTreeSet<String>),
}

/// The effect of `sandbox = "off"` in the entry of a user native tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freedom {
    /// All rights of the user.
    Granted,
    /// No effect: a bound requires the sandbox, in which the tool has only the accesses in its
    /// entry.
    Withheld,
}

/// The grant of a tool, as decided so far.
pub(super) struct EffectiveGrant {
    /// The directories; `None` for a tool that has all rights of its user.
    dirs: Option<Vec<GrantedDir>>,
    /// The directories that layers name, even if the grant no longer includes them.
    named: Vec<PathBuf>,
    /// The directories and files that the grant names, including those that lie in others.
    by_name: Vec<GrantedDir>,
    /// The links that the grant names.
    links: Vec<GrantedLink>,
    hide: Hide,
    net: Net,
    env: Env,
    /// The directories to put before those of `PATH`.
    path: Vec<PathBuf>,
    assets: AssetAccess,
    sandbox: Sandbox,
    /// True if the entry gave it all rights of its user.
    was_freed: bool,
    pub(super) provenance: ProvenanceMap,
}

impl EffectiveGrant {
    /// Returns the grant from the profile and the user's file. [`Self::confine`] requires the
    /// sandbox.
    pub(super) fn new(
        profile: Profile,
        request: &PolicyRequest<'_>,
        entry: Option<Rule<'_>>,
        context: &PolicyContext<'_>,
        freedom: Freedom,
    ) -> Result<Self, Denial> {
        let mut provenance = ProvenanceMap::default();
        for capability in ["fs", "net", "env", "assets", "sandbox"] {
            provenance.set(capability, Provenance::Profile(profile));
        }
        let mut effective = Self {
            dirs: Some(Vec::new()),
            named: Vec::new(),
            by_name: Vec::new(),
            links: Vec::new(),
            hide: Hide::default(),
            net: Net::default(),
            env: Env::Names(BTreeSet::new()),
            path: Vec::new(),
            assets: AssetAccess::None,
            sandbox: Sandbox::Require,
            was_freed: false,
            provenance,
        };
        let workspace = |access| GrantedDir { access, path: context.workspace.to_owned() };
        match (request.origin, request.name, request.backend) {
            (ToolOrigin::System, Some(name), _) => {
                effective.by_name = standard::access(name).map(workspace).into_iter().collect();
                effective.dirs = Some(effective.by_name.clone());
                effective.assets = standard::assets(name);
                effective.sandbox = standard::sandbox(name);
            }
            (ToolOrigin::User, _, Backend::Native) if entry.is_none() => {
                // A tool that the user let run, or that is being recorded, starts with an empty
                // grant.
                let is_for_call = context.allowed.contains(&RequestedAccess::Run);
                let access = standard::native_access(profile).filter(|_| !is_for_call);
                effective.by_name = access.map(workspace).into_iter().collect();
                effective.dirs = Some(effective.by_name.clone());
            }
            _ => {}
        }
        if let Some((layer, entry)) = entry {
            let is_off = entry.sandbox.as_ref().is_some_and(|at| at.value == Sandbox::Off);
            // Without a sandbox, nothing limits the tool to the keys of its entry.
            if is_off && request.is_process() && request.origin == ToolOrigin::User {
                effective.set_free(freedom);
            }
            effective.overlay(layer, entry, request, context)?;
        }
        Ok(effective)
    }

    fn set_free(&mut self, freedom: Freedom) {
        if freedom == Freedom::Granted {
            self.dirs = None;
            self.net.any = true;
            self.env = Env::User;
            self.was_freed = true;
        }
    }

    /// Returns whether the tool needs the sandbox although its entry gave it all rights of its
    /// user.
    pub(super) fn is_confined_nevertheless(&self) -> bool {
        self.was_freed && self.sandbox != Sandbox::Off
    }

    /// Requires the sandbox if the profile requires it.
    pub(super) fn confine(&mut self, profile: Profile) {
        if profile == Profile::Strict && self.sandbox < Sandbox::Require {
            self.sandbox = Sandbox::Require;
            self.provenance.add("sandbox", Provenance::Profile(profile));
        }
    }

    /// Replaces each key that the entry in the user's file has.
    fn overlay(
        &mut self,
        layer: &PolicyLayer,
        entry: &PolicyEntry,
        request: &PolicyRequest<'_>,
        context: &PolicyContext<'_>,
    ) -> Result<(), Denial> {
        // A server on another machine has no sandbox here, but is confined to its hosts.
        if let Some(at) = entry.sandbox.as_ref().filter(|_| !request.is_elsewhere()) {
            self.sandbox = at.value;
            self.provenance.set("sandbox", provenance_of(layer, at));
        }
        if let Some(at) = &entry.fs {
            let Resolved { dirs, links } = resolve(layer, at, context, MissingDirRule::IsWrong)?;
            self.links = links;
            self.by_name.clone_from(&dirs);
            let dirs = dirs::without_repeats(dirs);
            self.named.extend(dirs.iter().map(|dir| dir.path.clone()));
            self.dirs = Some(dirs);
            self.provenance.set("fs", provenance_of(layer, at));
        }
        if let Some(at) = &entry.net {
            self.net = at.value.clone();
            self.provenance.set("net", provenance_of(layer, at));
        }
        if let Some(at) = &entry.env {
            self.env = Env::Names(at.value.iter().cloned().collect());
            self.provenance.set("env", provenance_of(layer, at));
        }
        if let Some(at) = &entry.path {
            self.path.clone_from(&at.value);
            self.provenance.set("path", provenance_of(layer, at));
        }
        if let Some(at) = &entry.assets {
            self.assets = at.value;
            self.provenance.set("assets", provenance_of(layer, at));
        }
        Ok(())
    }

    /// Hides exactly the names that these rules hide. A tool with hidden names needs the sandbox.
    pub(super) fn hide(
        &mut self,
        rules: &[Rule<'_>],
        context: &PolicyContext<'_>,
    ) -> Result<(), Denial> {
        let mut patterns: Vec<String> = Vec::new();
        self.provenance.set_all("hide", Vec::new());
        for (layer, entry) in rules {
            let Some(at) = &entry.hide else { continue };
            patterns.extend(at.value.patterns().iter().cloned());
            let provenance = provenance_of(layer, at);
            if self.sandbox < Sandbox::Require && !at.value.is_empty() {
                self.sandbox = Sandbox::Require;
                self.provenance.add("sandbox", provenance.clone());
                // As with a bound on its directories, the tool has no directories after it is
                // confined.
                self.dirs.get_or_insert_default();
            }
            self.provenance.add("hide", provenance);
        }
        let hide = Hide::parse(patterns.iter().map(String::as_str));
        let hide = hide.and_then(|hide| hide.in_workspace(context.workspace)).map_err(|why| {
            // Each pattern compiled when its file was read, but together they may be too many.
            let provenance = self.provenance.for_capability("hide").first().cloned();
            Denial::new(
                format!("what is hidden from it cannot be enforced: {why}"),
                provenance.unwrap_or(Provenance::ProtectedPaths),
            )
        })?;
        self.hide = hide;
        Ok(())
    }

    /// Adds what a person allowed beyond the files.
    pub(super) fn widen(&mut self, context: &PolicyContext<'_>) {
        for reached in context.allowed {
            match reached {
                RequestedAccess::Path { access, path } => {
                    // A tool with all rights of its user needs nothing more.
                    let Some(dirs) = &mut self.dirs else { continue };
                    if *access == Access::ReadOnly
                        && let Some(link) = allowed_link(path, context)
                    {
                        self.links.push(link);
                        self.provenance.add("fs", Provenance::Session);
                        continue;
                    }
                    let is_new = *access == Access::ReadWrite && is_new_place(path, &self.by_name);
                    if !can_be_granted(path) && !is_new {
                        continue;
                    }
                    let allowed = GrantedDir { access: *access, path: path.clone() };
                    self.by_name.push(allowed.clone());
                    dirs.push(allowed);
                    *dirs = dirs::without_repeats(std::mem::take(dirs));
                    self.provenance.add("fs", Provenance::Session);
                }
                RequestedAccess::Peer { host, port } => {
                    let host = match host.parse::<std::net::IpAddr>() {
                        Ok(ip) => PeerHost::Range(ip.into()),
                        Err(_) => name_of(host),
                    };
                    self.add_peer(Peer { host, port: Some(*port) });
                }
                RequestedAccess::Host { host } => {
                    self.add_peer(Peer { host: name_of(host), port: None });
                }
                RequestedAccess::Run => self.provenance.add("sandbox", Provenance::Session),
            }
        }
    }

    /// Adds a peer that the user allowed.
    fn add_peer(&mut self, peer: Peer) {
        if !self.net.peers.contains(&peer) {
            self.net.peers.push(peer);
        }
        self.provenance.add("net", Provenance::Session);
    }

    /// Removes granted directories, files and links that are themselves hidden. Adds a note for
    /// each directory and file.
    pub(super) fn drop_hidden(&mut self, notes: &mut Vec<String>) {
        self.hide = std::mem::take(&mut self.hide).beginning_at(std::mem::take(&mut self.named));
        let rules = self.provenance.for_capability("hide").to_vec();
        let by = rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        self.links.retain(|link| !self.hide.hides_alone(&link.path));
        let is_hidden = |dir: &mut GrantedDir| self.hide.hides_alone(&dir.path);

        let Some(dirs) = &mut self.dirs else { return };
        for dir in dirs.extract_if(.., is_hidden) {
            notes
                .push(format!("a grant of `{}` grants nothing: {by} hides it", dir.path.display()));
            rules.iter().for_each(|rule| self.provenance.add("fs", rule.clone()));
        }
    }

    /// Closes the reserved places that bounds name and the grant does not. A bound grants nothing,
    /// so it opens no place of secrets, and lets no tool write to a place that other programs
    /// execute. Adds a note for each.
    pub(super) fn close_unnamed(&mut self, context: &PolicyContext<'_>, notes: &mut Vec<String>) {
        let Some(dirs) = &mut self.dirs else { return };
        if dirs.iter().all(|dir| self.by_name.contains(dir)) {
            return;
        }
        let reserved = Reserved::everywhere(&context.secrets, self.by_name.clone());
        let mut kept = Vec::with_capacity(dirs.len());
        for mut dir in dirs.drain(..) {
            let path = dir.path.display();
            if reserved.is_unnamed_secret(&dir.path) {
                notes.push(format!(
                    "`{path}` is in a place of secrets, which only the tool's own entry in your \
                     policy file opens"
                ));
                let named = self.by_name.iter().filter(|named| named.path.starts_with(&dir.path));
                kept.extend(named.map(|named| GrantedDir {
                    access: named.access.min(dir.access),
                    path: named.path.clone(),
                }));
                continue;
            }
            // The places in an existing repository are guarded at each call.
            let is_repository = dir.path.ends_with(GIT) && dir.path.is_dir();
            let writes = dir.access == Access::ReadWrite && !is_repository;
            if writes && reserved.executed_place(&dir.path).is_some() {
                notes.push(format!(
                    "`{path}` is read-only: other programs execute it, and only the tool's own \
                     entry in your policy file lets the tool write there"
                ));
                dir.access = Access::ReadOnly;
            }
            kept.push(dir);
        }
        *dirs = dirs::without_repeats(kept);
    }

    /// Closes the secrets that the grant names only to be read, in directories that the tool may
    /// write to. The tool may write to everything in such a directory, and the user did not
    /// allow that for the secret. Adds a note for each.
    pub(super) fn close_half_open_secrets(
        &mut self,
        context: &PolicyContext<'_>,
        notes: &mut Vec<String>,
    ) {
        let Some(dirs) = &self.dirs else { return };
        let is_half_open = |named: &GrantedDir| {
            let around = |dir: &&GrantedDir| named.path.starts_with(&dir.path);
            let mut around = dirs.iter().filter(around);
            named.access == Access::ReadOnly && around.any(|dir| dir.access == Access::ReadWrite)
        };
        if !self.by_name.iter().any(is_half_open) {
            return;
        }
        let others = self.by_name.iter().filter(|named| !is_half_open(named)).cloned().collect();
        let reserved = Reserved::everywhere(&context.secrets, others);
        let is_closed =
            |named: &GrantedDir| is_half_open(named) && reserved.is_unnamed_secret(&named.path);
        let closed: Vec<GrantedDir> =
            self.by_name.iter().filter(|it| is_closed(it)).cloned().collect();
        for named in &closed {
            notes.push(format!(
                "`{}` is a secret that the tool may only read, in a directory to which it may write; \
                 it stays hidden until you allow the tool to write to it",
                named.path.display()
            ));
        }
        self.by_name.retain(|named| !closed.contains(named));
    }

    /// Removes everything that `bound` does not allow.
    pub(super) fn meet(
        &mut self,
        bound: &Rule<'_>,
        request: &PolicyRequest<'_>,
        context: &PolicyContext<'_>,
    ) -> Result<(), Denial> {
        let (layer, entry) = bound;
        let of_dirs = self.meet_dirs(bound, context)?;
        let kept_by =
            [of_dirs, self.meet_net(bound), self.meet_env(bound), self.meet_assets(bound)];
        if let Some(at) = entry.sandbox.as_ref().filter(|at| at.value > self.sandbox) {
            self.sandbox = at.value;
            self.provenance.add("sandbox", provenance_of(layer, at));
        }
        // A bound has no effect unless something enforces it. The file tools enforce their own
        // bounds.
        let keeps_itself = request.origin == ToolOrigin::System
            && request.name.is_some_and(|name| standard::sandbox(name) == Sandbox::Prefer)
            && self.sandbox >= Sandbox::Prefer;
        let needs_sandbox = kept_by.into_iter().flatten().last().filter(|_| !keeps_itself);
        if let Some(provenance) = needs_sandbox.filter(|_| self.sandbox < Sandbox::Require) {
            self.sandbox = Sandbox::Require;
            self.provenance.add("sandbox", provenance);
        }
        Ok(())
    }

    /// Narrows the directories. Like the methods below, returns the rule if only a sandbox can
    /// enforce its restriction on a native tool.
    fn meet_dirs(
        &mut self,
        (layer, entry): &Rule<'_>,
        context: &PolicyContext<'_>,
    ) -> Result<Option<Provenance>, Denial> {
        let Some(at) = &entry.fs else { return Ok(None) };
        let Resolved { dirs: allowed, links: _ } =
            resolve(layer, at, context, MissingDirRule::IsNothing)?;
        let allowed = dirs::without_repeats(allowed);
        self.named.extend(allowed.iter().map(|dir| dir.path.clone()));
        let met = match &self.dirs {
            Some(dirs) => dirs::meet(dirs, &allowed),
            // A tool with all rights of its user was not granted any directory, so it has no
            // directories after it is confined.
            None => Vec::new(),
        };
        if self.dirs.as_ref() != Some(&met) {
            self.provenance.add("fs", provenance_of(layer, at));
        }
        self.dirs = Some(met);
        Ok(Some(provenance_of(layer, at)))
    }

    fn meet_net(&mut self, (layer, entry): &Rule<'_>) -> Option<Provenance> {
        let at = entry.net.as_ref()?;
        let met = self.net.meet(&at.value);
        if met != self.net {
            self.provenance.add("net", provenance_of(layer, at));
        }
        self.net = met;
        (!at.value.any).then(|| provenance_of(layer, at))
    }

    fn meet_env(&mut self, (layer, entry): &Rule<'_>) -> Option<Provenance> {
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
            self.provenance.add("env", provenance_of(layer, at));
        }
        self.env = met;
        Some(provenance_of(layer, at))
    }

    fn meet_assets(&mut self, (layer, entry): &Rule<'_>) -> Option<Provenance> {
        let at = entry.assets.as_ref()?;
        if at.value < self.assets {
            self.assets = at.value;
            self.provenance.add("assets", provenance_of(layer, at));
        }
        // Without a sandbox the tool could open the store's files.
        (at.value < AssetAccess::Write).then(|| provenance_of(layer, at))
    }

    /// Denies writing to protected paths, which could install a tool, a grant or machine code.
    pub(super) fn deny_writing_protected_paths(
        &mut self,
        context: &PolicyContext<'_>,
        request: &PolicyRequest<'_>,
    ) -> Result<(), Denial> {
        let provenance = self.provenance.for_capability("fs").first().cloned();
        for dir in self.dirs.iter_mut().flatten() {
            if dir.access == Access::ReadOnly {
                continue;
            }
            let Some(protected) = standard::protected_path_in(&dir.path, context.protected) else {
                continue;
            };
            if dir.path == context.workspace {
                dir.access = Access::ReadOnly;
                self.provenance.add("fs", Provenance::ProtectedPaths);
                continue;
            }
            let reason = format!(
                "it may not be granted to write to `{}`: ikigai's own `{}` is there, and a program \
                 that writes there can install a tool",
                dir.path.display(),
                protected.display()
            );
            let denial = Denial::new(reason, provenance.unwrap_or(Provenance::ProtectedPaths));
            return Err(match request.name {
                Some(name) => {
                    let (tool, dir) = (name.to_owned(), dir.path.clone());
                    denial.remedy(Remedy::GrantReading { tool, dir })
                }
                None => denial,
            });
        }
        Ok(())
    }

    /// Denies a list of hosts to a native tool that runs without a sandbox, because nothing would
    /// enforce it. A bound with such a list already requires the sandbox.
    pub(super) fn deny_list_without_sandbox(
        &self,
        request: &PolicyRequest<'_>,
    ) -> Result<(), Denial> {
        let is_free = request.is_process() && self.sandbox == Sandbox::Off;
        if !is_free || self.net.any || self.net.peers.is_empty() {
            return Ok(());
        }
        let provenance = self.provenance.for_capability("net").last().cloned();
        let reason = format!(
            "a native tool without a sandbox has the whole network, so its list of hosts ({}) \
             could not be enforced",
            self.net
        );
        let denial = Denial::new(reason, provenance.unwrap_or(Provenance::ProtectedPaths));
        // Servers have no such command.
        Err(match request.name.filter(|_| request.backend == Backend::Native) {
            Some(name) => denial.remedy(Remedy::RequireSandbox { tool: name.to_owned() }),
            None => denial,
        })
    }

    /// Returns the grant under this profile, with the values of variables.
    pub(super) fn grant(
        self,
        profile: Profile,
        request: &PolicyRequest<'_>,
        context: &PolicyContext<'_>,
        provenance: &ProvenanceMap,
    ) -> Result<(Grant, Vec<Variable>), Denial> {
        let host = context.variables;
        let mut variables = Vec::new();
        let inherits_env = request.is_process() && self.env == Env::User;
        let mut env = match (request.backend, &self.env) {
            (Backend::Native | Backend::Mcp, Env::User) => standard::user_env(host),
            (Backend::Native | Backend::Mcp, Env::Names(_)) => standard::minimal_env(),
            // A component never has the environment of its user.
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
        if request.backend == Backend::Native {
            put_before_path(&mut env, &self.path);
        }
        let dirs = self.dirs.unwrap_or_default();
        // The shell's commands would inherit the variable.
        let is_shell =
            request.origin == ToolOrigin::System && request.name == Some(standard::SHELL);
        if request.backend == Backend::Native && self.sandbox != Sandbox::Off && !is_shell {
            let list = encode_dirs(&dirs).map_err(|error| Denial {
                reason: error.to_string(),
                remedy: None,
                hint: None,
                provenance: provenance.for_capability("fs").first().cloned(),
                is_by_deny: false,
            })?;
            env.push((DIRS_VARIABLE.into(), list));
        }
        let reserved = if request.is_process() && self.sandbox != Sandbox::Off {
            Reserved::for_process(&context.secrets, &dirs, self.by_name, &env)
        } else {
            Reserved::new(&context.secrets, &dirs, self.by_name)
        };
        let grant = Grant {
            reserved,
            dirs,
            links: if request.is_process() { self.links } else { Vec::new() },
            hide: self.hide,
            env,
            inherits_env,
            net: self.net,
            own_sockets: standard::has_own_sockets(profile, request),
            assets: self.assets,
            sandbox: self.sandbox,
            closed: ClosedPlaces::default(),
        };
        Ok((grant, variables))
    }
}

/// Puts these directories before those of `PATH`.
fn put_before_path(env: &mut Vec<(OsString, OsString)>, dirs: &[PathBuf]) {
    if dirs.is_empty() {
        return;
    }
    let at = env.iter().position(|(name, _)| name == PATH);
    let old = at.map(|at| env.swap_remove(at).1).unwrap_or_default();
    let rest = std::env::split_paths(&old).filter(|dir| !dir.as_os_str().is_empty());
    // The parser refuses a directory with a colon, and the directories of `old` don't have colons.
    let joined = std::env::join_paths(dirs.iter().cloned().chain(rest)).unwrap_or(old);
    env.push((PATH.into(), joined));
}

/// Returns the policy form of a name that a program asked for.
fn name_of(host: &str) -> PeerHost {
    PeerHost::Name(host.trim_end_matches('.').to_ascii_lowercase())
}

/// Returns whether a path that the user allowed still leads to the same place, and may be granted
/// as in a file.
fn can_be_granted(path: &Path) -> bool {
    let is_real = path.canonicalize().is_ok_and(|real| real == path);
    is_real
        && (path.is_dir() || path.is_file())
        && ![PROCESSES, "/sys", "/dev"].iter().any(|dir| path.starts_with(dir))
}

/// Returns whether a path is a place that other programs execute, in a writable directory. Such a
/// place can be granted before it exists.
fn is_new_place(path: &Path, dirs: &[GrantedDir]) -> bool {
    let writable = dirs.iter().filter(|dir| dir.access == Access::ReadWrite);
    let mut within = writable.filter_map(|dir| path.strip_prefix(&dir.path).ok());
    within.any(|relative| executed_place(relative).is_some())
}

/// The meaning of a missing directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingDirRule {
    /// An error, in a grant: the grant relies on the directory.
    IsWrong,
    /// No effect, in a bound: the bound allows nothing there.
    IsNothing,
}

/// Returns the first of the `links` on the way to a path that a tool may have created, because tools
/// may write there, or once could. Such a link must not choose what the entry grants.
fn link_of_a_tool(links: Vec<PathBuf>, context: &PolicyContext<'_>) -> Option<PathBuf> {
    let recorded = if links.is_empty() { return None } else { context.writable_record.dirs() };
    let is_writable = |dir: &Path| match &recorded {
        Ok(dirs) => dirs.contains(dir) || dir == context.workspace,
        // If the record cannot be read, any directory may be writable.
        Err(_) => true,
    };
    links.into_iter().find(|link| link.ancestors().skip(1).any(is_writable))
}

/// Returns a path with the links of its directory resolved.
fn with_real_parent(path: &Path) -> Option<PathBuf> {
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
}

/// Returns the link that a path is, if it is one.
fn granted_link(path: &Path) -> Option<GrantedLink> {
    let link = with_real_parent(path)?;
    if !link.is_symlink() || is_of_kernel(&link) {
        return None;
    }
    let target = link.canonicalize().ok()?;
    Some(GrantedLink { path: link, target })
}

/// Returns the link of this path, if a person could mean it: no tool can have made it.
fn allowed_link(path: &Path, context: &PolicyContext<'_>) -> Option<GrantedLink> {
    let mut links = resolution_steps(path);
    let target = links.pop()?;
    let link = granted_link(path).filter(|link| link.path == path && link.target == target)?;
    link_of_a_tool(links, context).is_none().then_some(link)
}

/// The meaning of a list `fs`.
struct Resolved {
    /// The directories and files, with links resolved.
    dirs: Vec<GrantedDir>,
    /// The links that the list names.
    links: Vec<GrantedLink>,
}

/// Resolves the links of an `fs` list.
fn resolve(
    layer: &PolicyLayer,
    rules: &Located<Vec<DirRule>>,
    context: &PolicyContext<'_>,
    missing: MissingDirRule,
) -> Result<Resolved, Denial> {
    let mut resolved: Vec<(&DirRule, GrantedDir)> = Vec::with_capacity(rules.value.len());
    let mut new = Vec::new();
    let (mut links, mut read_by_link) = (Vec::new(), Vec::new());
    for rule in &rules.value {
        let provenance = line_provenance(layer, rule.position.line);
        let subject = format!("{provenance} names the directory `{}`,", rule.raw);
        let wrong = |what: String| Denial::new(format!("{subject} {what}"), provenance.clone());
        // The path and its links come from one walk. Otherwise a tool could exchange a directory and
        // a link between two walks, and the link would choose what is granted.
        let mut on_the_way = resolution_steps(&rule.path);
        let end = on_the_way.pop().unwrap_or_else(|| rule.path.clone());
        let is_new = match end.symlink_metadata() {
            Ok(found) if found.is_dir() || found.is_file() => false,
            Ok(_) => {
                return Err(wrong("which is neither a directory nor a regular file".to_owned()));
            }
            Err(_) if missing == MissingDirRule::IsNothing => continue,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => return Err(wrong(format!("which cannot be used: {error}"))),
        };
        let path = end;

        if missing == MissingDirRule::IsWrong && path.starts_with(PROCESSES) {
            let what = "in which the kernel shows every process, including ikigai's own";
            return Err(wrong(what.to_owned()));
        }
        if rule.within && !path.starts_with(context.workspace) {
            let what = format!("which leads out of the workspace to `{}`", path.display());
            return Err(wrong(what));
        }
        if let Some(link) = link_of_a_tool(on_the_way, context) {
            if missing == MissingDirRule::IsNothing {
                continue;
            }
            return Err(wrong(format!(
                "and a tool may have made the link `{}`, which leads to `{}`; name that, if you mean it",
                link.display(),
                path.display()
            )));
        }
        if is_new {
            new.push((rule, GrantedDir { access: rule.access, path }));
            continue;
        }
        let link = (path != rule.path).then(|| granted_link(&rule.path)).flatten();

        let link = link.filter(|link| link.target == path);
        let dir = GrantedDir { access: rule.access, path };
        match link.is_some() && rule.access == Access::ReadOnly {
            true => read_by_link.push((rule, dir)),
            false => resolved.push((rule, dir)),
        }
        links.extend(link);
    }
    // A link to what may be written is named to be seen, and takes nothing away.
    read_by_link.retain(|(_, read): &(_, GrantedDir)| {
        let mut others = resolved.iter().map(|(_, dir)| dir);
        !others.any(|dir| dir.access > read.access && read.path.starts_with(&dir.path))
    });
    resolved.extend(read_by_link);
    let granted: Vec<_> = resolved.iter().map(|(_, dir)| dir.clone()).collect();
    for (rule, dir) in new {
        if dir.access != Access::ReadWrite || !is_new_place(&dir.path, &granted) {
            let provenance = line_provenance(layer, rule.position.line);
            let (raw, path) = (&rule.raw, rule.path.display());
            let what =
                format!("{provenance} names the directory `{raw}`, and `{path}` does not exist");
            return Err(Denial::new(what, provenance));
        }
        resolved.push((rule, dir));
    }
    let named: Vec<_> = resolved.iter().map(|(_, dir)| (dir.access, dir.path.as_path())).collect();
    if let Some((inner, outer)) = dirs::overlap(&named) {
        let (inner, outer) = (resolved[inner].0, resolved[outer].0);
        let provenance = line_provenance(layer, inner.position.line);
        let reason = format!("{provenance}: {}", overlap_text(inner, outer));
        return Err(Denial::new(reason, provenance));
    }
    Ok(Resolved { dirs: resolved.into_iter().map(|(_, dir)| dir).collect(), links })
}
