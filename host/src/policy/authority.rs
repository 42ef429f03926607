//! The authority that decides on calls, from the policy files, the host's settings and its
//! workspace. Every front end gets the same answer from it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use ikigai_protocol::{Access, Digest, GrantedDir};
use parking_lot::Mutex;

use super::decide;
use super::decision::{Decision, Denial, PolicyRequest};
use super::edit::{EntryTable, NewKey};
use super::entry_lists::EntryLists;
use super::live::{FileStatus, LivePolicy, PolicyFiles};
use super::missed_places::missed_places;
use super::parse::check_variable;
use super::propose::Proposal;
use super::provenance::Provenance;
use super::reached::RequestedAccess;
use super::remedy::{Permissions, Remedy, RemedyHints};
use super::reserved::{Reserved, SecretPaths};
use super::rule::{PolicyEntry, PolicyLayer, PolicyLayers, deny_provenance, entry_provenance};
use super::secret_places::{holds_secret_place, present_secrets, secret_place};
use super::session::{SessionAnswer, SessionAnswers};
use super::signer_rule::SignerRule;
use super::signers::{self, Signatures, SignersInForce, Signing};
use super::standard::{self, SHELL};
use super::variables::Variables;
use super::widen::{self, FileScope};
use super::writable_record::WritableRecord;
use super::written::EntryPermissions;
use super::{Approve, Backend, BackendChoice, Grant, LayerKind, LimitKey, Profile, ToolOrigin};
use crate::limits::{CallLimits, LONGEST_TIMEOUT, Limit};
use crate::paths::{self, FoundPlace};
use crate::toml_file::TomlError;

/// The factor in [`Authority::raise`] for a wall clock. The shell's two minutes become ten.
const MORE_TIME: u32 = 5;

/// The factor in [`Authority::raise`] for a memory limit.
const MORE_MEMORY: u64 = 2;

/// The settings of one host, which apply on top of the policy files. They cannot exceed a ceiling.
///
/// [`HostBuilder::overrides`](crate::HostBuilder::overrides) takes them:
///
/// ```
/// use ikigai_host::{LimitKey, Override, Overrides};
///
/// let overrides = Overrides {
///     limits: vec![(LimitKey::Memory, Override { value: 64 << 20, from: "--memory".into() })],
///     ..Overrides::default()
/// };
/// ```
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The profile.
    pub profile: Option<Override<Profile>>,
    /// The builds of tools that may run.
    pub backend: Option<Override<BackendChoice>>,
    /// False if the user must never be asked to widen a grant. True changes nothing.
    pub ask: Option<Override<bool>>,
    /// The calls that need consent. This setting can only add calls.
    pub approve: Option<Override<Approve>>,
    /// The limits of each call, in the unit of the key. They replace the built-in limits. They can
    /// lower the limit of a policy file, but not raise it.
    pub limits: Vec<(LimitKey, Override<u64>)>,
    /// The limits of the built-in shell, `bash`. They replace the built-in limits. The user's file
    /// and `limits` override them.
    pub shell_limits: Vec<(LimitKey, Override<u64>)>,
}

/// A requested value, and its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override<T> {
    /// The value.
    pub value: T,
    /// The author, for the user: a flag, a variable, or a line of a configuration file.
    pub from: Cow<'static, str>,
}

impl<T> Override<T> {
    /// Returns a value that the embedding program requested.
    pub(crate) fn of_program(value: T) -> Self {
        Self { value, from: Cow::Borrowed("the program") }
    }

    /// Returns this value as the rule that decided.
    pub(super) fn provenance(&self) -> Provenance {
        Provenance::Override(self.from.clone())
    }
}

/// The build of a tool to run, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildChoice {
    /// The requested builds.
    pub backend: BackendChoice,
    /// True if, with [`BackendChoice::Auto`], the native build comes first on a machine whose
    /// sandbox confines its files, network and processes, and ends them with the call.
    pub native_if_confined: bool,
    /// The reason, for the user.
    pub reason: Cow<'static, str>,
}

/// The policy of one host in one workspace: [`Host::authority`](crate::Host::authority).
///
/// Shows the policy ([`files`](Self::files), [`profile`](Self::profile)), decides on calls, and
/// proposes changes of the user's file. See the [module](super) for an
/// example.
pub struct Authority {
    live: LivePolicy,
    overrides: Overrides,
    workspace: PathBuf,
    protected: Vec<PathBuf>,
    secrets: SecretPaths,
    /// The part of `secrets` that was passed to the host.
    own_secrets: Vec<PathBuf>,
    variables: Variables,
    writable_record: WritableRecord,
    hints: RemedyHints,
    signing: Signing,
    session: SessionAnswers,
    logged: Mutex<BTreeSet<String>>,
}

/// The policy files at one moment. All decisions by one value are decisions for that moment, so
/// after the user's answer the caller must look again. A call that waits for the compilation of its
/// component, or for a free permit, runs by the earlier decision. An edit applies to the next call.
pub(crate) struct PolicySnapshot(Result<PolicyLayers, Denial>);

impl Authority {
    /// Reads the policy files. `protected` are the canonical paths that no tool may write.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be used.
    pub(crate) fn open(
        files: &PolicyFiles,
        overrides: Overrides,
        protected: Vec<PathBuf>,
        hints: RemedyHints,
        signatures: Option<Arc<dyn Signatures>>,
    ) -> Result<Self, TomlError> {
        Ok(Self {
            live: LivePolicy::open(files, signatures.clone())?,
            overrides,
            workspace: files.workspace.clone(),
            protected,
            secrets: SecretPaths::new(files.home.as_deref(), files.state.clone()),
            own_secrets: Vec::new(),
            variables: Variables::default(),
            writable_record: WritableRecord::new(files.state.clone()),
            hints,
            signing: Signing::new(signatures),
            session: SessionAnswers::default(),
            logged: Mutex::default(),
        })
    }

    /// Returns this policy with further secrets of the host. A tool does not see them unless they
    /// are granted by name, and a recording does not show them.
    pub(crate) fn with_secrets(mut self, secrets: Vec<PathBuf>) -> Self {
        self.secrets.add(secrets.iter().cloned());
        self.own_secrets.extend(secrets);
        self
    }

    /// Decides the tool's grant and limits. For the tools of a snapshot,
    /// [`Host::decide`](crate::Host::decide) makes the request.
    ///
    /// # Errors
    ///
    /// Fails if the tool may not run at all.
    pub fn decide(&self, request: &PolicyRequest<'_>) -> Result<Decision, Denial> {
        self.decide_widened(request, &[])
    }

    /// Decides as [`decide`](Self::decide) does, and adds the accesses that the user allowed for
    /// this call. Bounds apply to them as to everything else.
    pub(crate) fn decide_widened(
        &self,
        request: &PolicyRequest<'_>,
        once: &[RequestedAccess],
    ) -> Result<Decision, Denial> {
        self.decide_by(&self.look(), request, once)
    }

    /// Checks the metadata of each policy file, and reads the files that changed.
    pub(crate) fn look(&self) -> PolicySnapshot {
        PolicySnapshot(self.current())
    }

    /// Decides as [`decide_widened`](Self::decide_widened) does, by the files at the time of a
    /// look.
    pub(crate) fn decide_by(
        &self,
        PolicySnapshot(layers): &PolicySnapshot,
        request: &PolicyRequest<'_>,
        once: &[RequestedAccess],
    ) -> Result<Decision, Denial> {
        let layers = layers.as_ref().map_err(Denial::clone)?;
        let mut allowed = self.session.allowed(request);
        allowed.extend_from_slice(once);
        let context = self.context(&self.signing, &allowed);
        let decision = decide::decide(layers, &self.overrides, &context, request)?;
        if decision.provenance.for_capability("fs").contains(&Provenance::ProtectedPaths) {
            self.log_protected_workspace();
        }
        for note in &decision.notes {
            self.log_once(note);
        }
        Ok(decision)
    }

    /// Returns whether the user may be asked to allow the tool this access, in addition to the
    /// accesses in `once`. A ceiling, the workspace or the key `ask` can forbid the question. The
    /// user is never asked about the host's own files, or again about an access that they refused
    /// in this session.
    pub(crate) fn may_ask(
        &self,
        request: &PolicyRequest<'_>,
        once: &[RequestedAccess],
        reached: &RequestedAccess,
    ) -> bool {
        if let RequestedAccess::Path { path, .. } = reached
            && standard::protected_path_in(path, &self.protected).is_some()
        {
            return false;
        }
        if self.session.was_refused(request, reached) {
            return false;
        }
        let allowed: Vec<RequestedAccess> = once.iter().chain([reached]).cloned().collect();
        self.decide_widened(request, &allowed)
            .is_ok_and(|decision| decision.ask && decision.grant.shows(reached))
    }

    /// Returns whether the user allowed the tool this access in this session.
    pub(crate) fn was_allowed(
        &self,
        request: &PolicyRequest<'_>,
        reached: &RequestedAccess,
    ) -> bool {
        self.session.allowed(request).contains(reached)
    }

    /// Returns whether the user refused the tool this access, or a directory around it, in this
    /// session.
    pub(crate) fn was_refused_around(
        &self,
        request: &PolicyRequest<'_>,
        reached: &RequestedAccess,
    ) -> bool {
        self.session.was_refused_around(request, reached)
    }

    /// Returns whether the user's file could grant the tool this access, even if the user may not
    /// be asked.
    pub(crate) fn could_allow(
        &self,
        request: &PolicyRequest<'_>,
        reached: &RequestedAccess,
    ) -> bool {
        if let RequestedAccess::Path { path, .. } = reached
            && standard::protected_path_in(path, &self.protected).is_some()
        {
            return false;
        }
        if !reached.is_nameable() {
            return false;
        }
        let is_host =
            matches!(reached, RequestedAccess::Peer { .. } | RequestedAccess::Host { .. });
        // No policy file can name such a host.
        if is_host && reached.peers().is_none() {
            return false;
        }
        self.decide_widened(request, std::slice::from_ref(reached))
            .is_ok_and(|decision| decision.grant.shows(reached))
    }

    /// Returns the command of the embedding program that grants the tool these accesses in addition
    /// to its present ones, or `None` if the program has no command for that.
    pub(crate) fn command_for(
        &self,
        request: &PolicyRequest<'_>,
        reached: &[RequestedAccess],
    ) -> Option<String> {
        let tool = request.name?.to_owned();
        if reached.is_empty() {
            return None;
        }
        let has = self.permissions_with(request, &[], FileScope::Exact)?;
        let permissions = self.permissions_with(request, reached, FileScope::Exact)?.beyond(&has);
        self.hint(&Remedy::Widen { tool, permissions })
    }

    /// Returns the step that raises the limit that ended a call under `limits`. Returns `None` if a
    /// flag or another rule than the tool's own entry bounds the limit, because the user's file
    /// cannot raise such a limit.
    pub(crate) fn raise(
        &self,
        request: &PolicyRequest<'_>,
        decision: &Decision,
        limit: Limit,
        limits: &CallLimits,
    ) -> Option<Remedy> {
        let can_raise = |key: LimitKey| {
            let by_flag = self.overrides.limits.iter().any(|(own, _)| *own == key);
            !by_flag && decision.provenance.for_capability(key.as_str()).len() == 1
        };
        let tool = request.name.filter(|_| request.backend != Backend::Mcp)?.to_owned();
        match limit {
            Limit::WallClock if can_raise(LimitKey::WallClock) => {
                let time = limits.wall_clock.saturating_mul(MORE_TIME).min(LONGEST_TIMEOUT);
                (time > limits.wall_clock).then_some(Remedy::AllowTime { tool, time })
            }
            Limit::Memory if can_raise(LimitKey::Memory) => {
                let bytes = match request.backend {
                    Backend::Wasm => limits.wasm_memory,
                    Backend::Native | Backend::Mcp => limits.native_memory,
                };
                Some(Remedy::AllowMemory { tool, bytes: bytes.saturating_mul(MORE_MEMORY) })
            }
            _ => None,
        }
    }

    /// Returns the accesses that the user allowed or refused tools in this session, with the oldest
    /// answer first.
    #[must_use]
    pub fn session_answers(&self) -> Vec<SessionAnswer> {
        self.session.answers()
    }

    /// Forgets an answer of this session. It no longer grants an access, and the user may be asked
    /// again about a refused access. Changes that the answer made to a policy file stay.
    pub fn forget_answer(&self, answer: &SessionAnswer) {
        self.session.forget(answer);
    }

    /// Notes the user's answer for this session.
    pub(crate) fn answered(
        &self,
        request: &PolicyRequest<'_>,
        reached: &RequestedAccess,
        allowed: bool,
    ) {
        self.session.note(request, reached, allowed);
    }

    /// Proposes the user's file with these accesses added to the tool's grant. For a file, grants
    /// its whole directory, unless the directory is too broad. Writes nothing.
    ///
    /// # Errors
    ///
    /// Fails like [`propose_grant`](Self::propose_grant), or if the entry cannot have these
    /// accesses.
    pub fn propose_widened(
        &self,
        request: &PolicyRequest<'_>,
        reached: &[RequestedAccess],
    ) -> Result<Proposal, TomlError> {
        let file = self.user_file()?;
        let Some(name) = request.name else {
            return Err(TomlError::whole(file, "a program that is named by its path has no entry"));
        };
        let permissions = self.permissions_with(request, reached, FileScope::Directory);
        let permissions = permissions.ok_or_else(|| {
            TomlError::whole(file, "a policy file cannot name what the tool tried to use")
        })?;
        let keys = widen::keys(request, &permissions);
        self.propose_grant(name, &keys)
    }

    /// Proposes the user's file with an entry that lets a user native tool run unconfined, with all
    /// rights of the user. Returns `None` if the request is not for such a tool, or if a bound
    /// confines it anyway. Writes nothing.
    #[must_use]
    pub fn propose_unconfined(&self, request: &PolicyRequest<'_>) -> Option<Proposal> {
        if request.origin != ToolOrigin::User || request.backend != Backend::Native {
            return None;
        }
        let proposal = self.propose_bound(request, widen::unconfining_keys())?;
        let decision = self.decide_with(&proposal, request).ok()?;
        decision.is_unconfined(request.backend).then_some(proposal)
    }

    /// Proposes the user's file with these keys of the tool's entry set, and, for a user tool, with
    /// the digests that the entry is bound to. Returns `None` if the program has no name, or if the
    /// file cannot be used. Writes nothing.
    pub(crate) fn propose_bound(
        &self,
        request: &PolicyRequest<'_>,
        keys: Vec<NewKey>,
    ) -> Option<Proposal> {
        let mut all = widen::keys(request, &Permissions::default());
        all.extend(keys);
        self.propose_grant(request.name?, &all).ok()
    }

    /// Returns the places of the accesses that a tool was refused, and of the links by which it
    /// named them. `may` says whether a place can be allowed.
    pub(crate) fn places_of(
        &self,
        refused: &[RequestedAccess],
        links: &BTreeSet<PathBuf>,
        may: &dyn Fn(&RequestedAccess) -> bool,
    ) -> Vec<RequestedAccess> {
        let home = self.canonical_home();
        match self.current() {
            Ok(layers) => missed_places(refused, links, self.around(&layers, home.as_deref()), may),
            Err(_) => refused.to_vec(),
        }
    }

    /// Returns the permissions from the tool's entry, or from the profile, together with these
    /// accesses. Returns `None` if a policy file cannot name them.
    pub(crate) fn permissions_with(
        &self,
        request: &PolicyRequest<'_>,
        reached: &[RequestedAccess],
        scope: FileScope,
    ) -> Option<Permissions> {
        self.with_entry(request, |entries, around| {
            widen::permissions(entries, request, reached, scope, around)
        })?
    }

    /// Returns the lists of a tool's entry, with the profile's lists for keys that the entry does
    /// not have. The result is empty if a ceiling cannot be used.
    pub(super) fn entry_lists(&self, request: &PolicyRequest<'_>) -> EntryLists {
        let lists = self.with_entry(request, |(entry, every), around| {
            EntryLists::of_entry(entry, every, request, around)
        });
        lists.unwrap_or_default()
    }

    /// Calls `then` with the tool's entry in the user's file, the part of `[tools."*"]` there that
    /// applies to the tool, and the places around it. Returns `None` if a ceiling cannot be used.
    fn with_entry<T>(
        &self,
        request: &PolicyRequest<'_>,
        then: impl FnOnce((Option<&PolicyEntry>, Option<&PolicyEntry>), widen::WidenContext<'_>) -> T,
    ) -> Option<T> {
        let layers = self.current().ok()?;
        let entry = request.name.and_then(|name| layers.user.entry(request.backend, name));
        let every = layers.user.every_beside(entry);
        let home = self.canonical_home();
        let around = self.around(&layers, home.as_deref());
        Some(then((entry, every), around))
    }

    /// Returns the user's home, without resolving links.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.live.base().home.as_deref()
    }

    /// Returns a variable's value for the tools of this run.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name)
    }

    fn canonical_home(&self) -> Option<PathBuf> {
        let home = self.home();
        home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()))
    }

    fn around<'a>(
        &'a self,
        layers: &PolicyLayers,
        home: Option<&'a Path>,
    ) -> widen::WidenContext<'a> {
        let (workspace, protected) = (self.workspace.as_path(), self.protected.as_slice());
        let (profile, _) = decide::profile(layers, &self.overrides);
        widen::WidenContext { workspace, home, protected, profile }
    }

    /// Returns the grant of a `--schema` call, which is empty.
    #[must_use]
    pub(crate) fn for_schema(&self, path: &Path, backend: Backend) -> Grant {
        decide::for_schema(&self.live.user(), &self.context(&self.signing, &[]), path, backend)
    }

    /// Records the directories in which a call with this grant may write. From then on, in any
    /// workspace, no file in them is trusted as part of an unconfined tool.
    ///
    /// # Errors
    ///
    /// Fails if a full disk prevents the recording. The call must not run then.
    pub(crate) fn record_writable(&self, grant: &Grant) -> Result<(), String> {
        self.writable_record.record(&grant.dirs)
    }

    /// Sets a variable for the tools of this run, from the next call on. It affects the same tools
    /// as if it were in the host's environment, and grants no tool more.
    ///
    /// # Errors
    ///
    /// Fails if a variable with this name cannot be granted, or if the value has a NUL. The text is
    /// the reason.
    pub fn set_variable(&self, name: &str, value: &str) -> Result<(), String> {
        check_variable(name)?;
        if value.contains('\0') {
            return Err(format!("the value of `{name}` has a NUL, which no variable can have"));
        }
        self.variables.set(name, value);
        Ok(())
    }

    /// Returns whether the decision on this tool depends on the present contents of its file.
    #[must_use]
    pub(crate) fn looks_at_content(
        &self,
        PolicySnapshot(layers): &PolicySnapshot,
        backend: Backend,
        origin: ToolOrigin,
        name: Option<&str>,
    ) -> bool {
        let looks = |layers| decide::looks_at_content(layers, backend, origin, name);
        layers.as_ref().is_ok_and(looks)
    }

    /// Returns the signers in force, and the rule that requires a signature: the same [`Arc`] while
    /// no policy file changes.
    ///
    /// # Errors
    ///
    /// Fails if a ceiling cannot be used.
    pub fn signers(&self) -> Result<Arc<SignersInForce>, Denial> {
        Ok(self.signing.in_force(&self.current()?))
    }

    /// Returns the signers of the user's file that do not count, because a ceiling names its own.
    ///
    /// # Errors
    ///
    /// Fails if a ceiling cannot be used.
    pub fn void_signers(&self) -> Result<Vec<SignerRule>, Denial> {
        Ok(signers::void(&self.current()?))
    }

    /// Returns the profile in force, and the rules that decided it.
    ///
    /// # Errors
    ///
    /// Fails if a ceiling cannot be used.
    pub fn profile(&self) -> Result<(Profile, Vec<Provenance>), Denial> {
        Ok(decide::profile(&self.current()?, &self.overrides))
    }

    /// Chooses the build of a tool to run.
    #[doc(hidden)]
    #[must_use]
    pub fn choose(&self, name: &str, origin: ToolOrigin) -> BuildChoice {
        let choice = |backend, reason: Cow<'static, str>| BuildChoice {
            backend,
            native_if_confined: false,
            reason,
        };
        // If a ceiling cannot be used, no tool will run.
        let Ok(layers) = self.current() else {
            return choice(BackendChoice::Auto, "".into());
        };
        if let Some((backend, provenance)) = decide::backend(&layers, &self.overrides, name) {
            return choice(backend, format!("{provenance} asks for it").into());
        }
        let (profile, _) = decide::profile(&layers, &self.overrides);
        let is_shell = name == SHELL && origin == ToolOrigin::System;
        BuildChoice {
            native_if_confined: is_shell && profile == Profile::Standard,
            ..choice(BackendChoice::Auto, "".into())
        }
    }

    /// Proposes the user's file with these keys of the tool's entry set. Writes nothing.
    ///
    /// # Errors
    ///
    /// Fails if the present or the proposed file cannot be used, or if the user has no such file
    /// because [`Paths::policy`](crate::Paths::policy) is `None`.
    pub fn propose_grant(&self, name: &str, keys: &[NewKey]) -> Result<Proposal, TomlError> {
        Proposal::grant(
            self.user_file()?,
            self.live.base(),
            EntryTable::Tool(name.to_owned()),
            keys,
        )
    }

    /// Proposes the user's file with these keys of the server's entry set. Writes nothing.
    ///
    /// # Errors
    ///
    /// Fails like [`propose_grant`](Self::propose_grant).
    pub fn propose_server(&self, name: &str, keys: &[NewKey]) -> Result<Proposal, TomlError> {
        Proposal::grant(
            self.user_file()?,
            self.live.base(),
            EntryTable::Server(name.to_owned()),
            keys,
        )
    }

    /// Proposes the user's file without the server's entry. Returns `None` if it has no such entry.
    /// Writes nothing.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be used.
    pub fn propose_revoke_server(&self, name: &str) -> Result<Option<Proposal>, TomlError> {
        Proposal::revoke(self.user_file()?, self.live.base(), EntryTable::Server(name.to_owned()))
    }

    /// Proposes the user's file without the tool's entry. Returns `None` if it has no such entry.
    /// Writes nothing.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be used.
    pub fn propose_revoke(&self, name: &str) -> Result<Option<Proposal>, TomlError> {
        Proposal::revoke(self.user_file()?, self.live.base(), EntryTable::Tool(name.to_owned()))
    }

    /// Decides as if the proposal were the user's file.
    ///
    /// # Errors
    ///
    /// Fails if the tool may not run even then.
    pub fn decide_with(
        &self,
        proposal: &Proposal,
        request: &PolicyRequest<'_>,
    ) -> Result<Decision, Denial> {
        let layers = PolicyLayers { user: Arc::clone(&proposal.layer), ..self.current()? };
        let signing = self.signing.apart();
        let context = self.context(&signing, &[]);
        decide::decide(&layers, &self.overrides, &context, request)
    }

    /// Returns whether some layer has a table `[tools.NAME]`.
    #[must_use]
    pub(crate) fn has_tool_entries(&self) -> bool {
        // If a ceiling cannot be used, no tool will run.
        self.current().is_ok_and(|layers| layers.all().any(|layer| !layer.tools.is_empty()))
    }

    /// Returns the names of the tables `[tools.NAME]` in all policy files, each with its line.
    #[must_use]
    pub fn tool_entries(&self) -> Vec<(String, Provenance)> {
        // If a ceiling cannot be used, no tool will run.
        let Ok(layers) = self.current() else { return Vec::new() };
        let of_layer = |layer: &PolicyLayer| -> Vec<(String, Provenance)> {
            let entries = layer.tools.iter();
            let entries = entries.map(|(name, it)| (name.clone(), entry_provenance(layer, it)));
            entries.collect()
        };
        layers.all().flat_map(of_layer).collect()
    }

    /// Returns the names of tools in the user's file, each with its line.
    #[must_use]
    pub fn named(&self) -> Vec<(String, usize)> {
        let Ok(layers) = self.current() else { return Vec::new() };
        let named = layers.user.tools.iter();
        named.map(|(name, entry)| (name.clone(), entry.position.line)).collect()
    }

    /// Returns a tool's permissions as written in the user's file, or `None` if it has no entry.
    /// Does not compare the digests that the entry is bound to.
    #[must_use]
    pub fn written(&self, name: &str) -> Option<EntryPermissions> {
        let layers = self.current().ok()?;
        layers.user.tools.get(name).map(EntryPermissions::from_entry)
    }

    /// Returns the line of the user's file that denies a tool by its name; `None` if no line does.
    #[must_use]
    pub fn denied_at(&self, name: &str) -> Option<Provenance> {
        let layers = self.current().ok()?;
        deny_provenance(&layers.user, layers.user.tools.get(name)?)
    }

    /// Returns a server's permissions as written in the user's file, or `None` if it has no entry.
    #[must_use]
    pub fn written_server(&self, name: &str) -> Option<EntryPermissions> {
        let layers = self.current().ok()?;
        layers.user.servers.get(name).map(EntryPermissions::from_entry)
    }

    /// Returns the tools of a server that the user's file approves, with the digests of their
    /// descriptions.
    #[must_use]
    pub fn approved(&self, server: &str) -> BTreeMap<String, Digest> {
        let Ok(layers) = self.current() else { return BTreeMap::new() };
        let entry = layers.user.servers.get(server).and_then(|entry| entry.approved.as_ref());
        entry.map(|at| at.value.clone()).unwrap_or_default()
    }

    /// Returns whether the user's file has an entry for the tool, bound to contents.
    #[doc(hidden)]
    #[must_use]
    pub fn is_bound_to_content(&self, name: &str) -> bool {
        let Ok(layers) = self.current() else { return false };
        layers.user.tools.get(name).is_some_and(|entry| entry.sha256.is_some())
    }

    /// Returns the status of each policy file.
    #[must_use]
    pub fn files(&self) -> Vec<FileStatus> {
        self.live.statuses()
    }

    /// Returns the digest of the policy in force: of the text of its files, and of this host's own
    /// settings.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let Overrides { profile, backend, ask, approve, limits, shell_limits } = &self.overrides;
        let profile = profile.as_ref().map(|it| it.value.as_str());
        let backend = backend.as_ref().map(|it| it.value.as_str());
        let approve = approve.as_ref().map(|it| it.value.as_str());
        let ask = ask.as_ref().map(|it| it.value);
        let mut text = format!("{profile:?} {backend:?} {ask:?} {approve:?}\n");
        for (key, limit) in limits {
            text.push_str(&format!("{key} {}\n", limit.value));
        }
        for (key, limit) in shell_limits {
            text.push_str(&format!("{SHELL} {key} {}\n", limit.value));
        }
        for (kind, digest) in self.live.digests() {
            text.push_str(&format!("{kind} {digest:?}\n"));
        }
        Digest::from_bytes(text.as_bytes())
    }

    /// Returns the directory that tools work in.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns whether a permissive recording must not show the path, because the path or a place
    /// below it usually contains secrets, or belongs to the host's own files or secrets.
    pub(crate) fn keeps_from_recordings(&self, path: &Path) -> bool {
        let home = self.live.base().home.clone();
        let real = home.as_ref().and_then(|home| home.canonicalize().ok());
        let is_secret = |home: Option<&Path>| {
            secret_place(path, home).is_some() || holds_secret_place(path, home)
        };
        is_secret(home.as_deref())
            || is_secret(real.as_deref())
            || standard::protected_path_in(path, &self.protected).is_some()
            || standard::protected_path_in(path, &self.own_secrets).is_some()
    }

    /// Returns the existing places that a permissive recording must not show, with links resolved:
    /// the places of [`present_secrets`], the host's own files and its secrets.
    pub(crate) fn kept_from_recordings(&self) -> Vec<PathBuf> {
        let home = self.live.base().home.clone();
        let own = self.protected.iter().chain(&self.own_secrets);
        let own = own.filter_map(|path| paths::find_place(path)).map(FoundPlace::into_path);
        present_secrets(home.as_deref(), &self.workspace).into_iter().chain(own).collect()
    }

    /// Returns a grant of the workspace that hides what a model must not be sent unless the user
    /// names it: what is hidden from `file_read`, and the places of secrets of this machine.
    ///
    /// # Errors
    ///
    /// Fails if a ceiling cannot be used, or if too many names are hidden. The text is the reason.
    pub(crate) fn kept_from_models(&self) -> Result<Grant, String> {
        const TOOL: &str = standard::FILE_READ;
        let layers = self.current().map_err(|denial| denial.to_string())?;
        let request = PolicyRequest {
            name: Some(TOOL),
            names: &[],
            registered: &[],
            origin: ToolOrigin::System,
            backend: Backend::Wasm,
            fell_back: false,
            path: Path::new(TOOL),
            program: None,
            contents: &[],
            tool: None,
        };
        let hide = decide::hidden_from(&layers, &request)?.in_workspace(&self.workspace);
        let dir = |path: &Path| GrantedDir { access: Access::ReadOnly, path: path.to_owned() };
        let dirs = vec![dir(&self.workspace)];
        // A workspace in a place of secrets was chosen by the user.
        let reserved = Reserved::new(&self.secrets, &[dir(Path::new("/"))], dirs.clone());
        Ok(Grant { dirs, hide, reserved, ..Grant::default() })
    }

    /// Returns the host's own files and directories, which no tool may write.
    #[must_use]
    pub fn protected(&self) -> &[PathBuf] {
        &self.protected
    }

    /// Returns the embedding program's sentence for a remedy, or `None` if it has none.
    #[must_use]
    pub fn hint(&self, remedy: &Remedy) -> Option<String> {
        self.hints.for_remedy(remedy)
    }

    fn user_file(&self) -> Result<&Path, TomlError> {
        self.live.user_file().ok_or_else(|| {
            let error =
                TomlError::whole(Path::new(paths::POLICY), "there is no home to keep a policy in");
            match self.hint(&Remedy::NamePolicyFile) {
                Some(hint) => error.hint(hint),
                None => error,
            }
        })
    }

    fn context<'a>(
        &'a self,
        signing: &'a Signing,
        allowed: &'a [RequestedAccess],
    ) -> decide::PolicyContext<'a> {
        let Self { workspace, protected, secrets, variables, writable_record, hints, .. } = self;
        decide::PolicyContext {
            workspace,
            protected,
            secrets,
            variables,
            writable_record,
            hints,
            signing,
            allowed,
        }
    }

    fn current(&self) -> Result<PolicyLayers, Denial> {
        let layers = self.live.current();
        for (kind, problem) in self.live.problems() {
            let fate = match kind {
                LayerKind::Ceiling => "nothing may run until it is corrected",
                LayerKind::User | LayerKind::Workspace => "its earlier contents stay in force",
            };
            self.log_once(&format!("{}; {fate}", problem.line()));
        }
        for notice in layers.iter().flat_map(PolicyLayers::all).flat_map(|layer| &layer.notices) {
            self.log_once(notice);
        }
        layers.map_err(|problem| Denial::of_file(&problem))
    }

    fn log_once(&self, text: &str) {
        let mut logged = self.logged.lock();
        if logged.insert(text.to_owned()) {
            tracing::warn!("{text}");
        }
    }

    fn log_protected_workspace(&self) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let workspace = self.workspace.display();
            let text = format!(
                "the workspace `{workspace}` contains ikigai's own files, so tools may only read it"
            );
            tracing::warn!("{}", self.hints.append(text, &Remedy::ChooseWorkspace));
        });
    }
}
