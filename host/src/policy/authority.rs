//! The authority that decides on calls, by the policy files, the settings of the host and its
//! workspace. Every front end asks it, and gets the same answer.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, PoisonError};

use ikigai_protocol::Digest;

use super::decide;
use super::decision::{Decision, Denial, Provenance, Request};
use super::edit::{NewKey, Place};
use super::entry_lists::EntryLists;
use super::live::{FileStatus, Layers, Live, PolicyFiles};
use super::missed_places::missed_places;
use super::parse::check_variable;
use super::propose::Proposal;
use super::reached::Reached;
use super::remedy::{Hints, Permissions, Remedy};
use super::reserved::Secrets;
use super::rule::Entry;
use super::secret_places::{holds_secret_place, present_secrets, secret_place};
use super::session::{Session, SessionAnswer};
use super::signers::{self, Signatures, SignerRule, SignersInForce, Signing};
use super::standard::{self, SHELL};
use super::variables::Variables;
use super::widen::{self, Scope};
use super::writable_record::WritableRecord;
use super::written::Written;
use super::{Approve, Backend, BackendChoice, Grant, LayerKind, LimitKey, Profile, ToolOrigin};
use crate::limits::{LONGEST_TIMEOUT, Limit, Limits};
use crate::paths;
use crate::toml_file::FileError;

/// The factor by which [`Authority::raise`] raises a wall clock: the two minutes of a shell become ten.
const MORE_TIME: u32 = 5;

/// The factor by which [`Authority::raise`] raises a limit of memory.
const MORE_MEMORY: u64 = 2;

/// The settings that one host asks of the policy for itself alone. They pass no ceiling.
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
    /// True if a person may be asked to widen a grant. False asks nobody; true changes nothing.
    pub ask: Option<Override<bool>>,
    /// The calls to which somebody has to agree. It makes them more, and never fewer.
    pub approve: Option<Override<Approve>>,
    /// The limits of each call, in the unit of the key, in place of the built-in ones. They lower the
    /// limit of a policy file and do not lift it.
    pub limits: Vec<(LimitKey, Override<u64>)>,
    /// The limits of the standard shell, `bash`, in place of the built-in ones. The user's file
    /// and `limits` go before them.
    pub shell_limits: Vec<(LimitKey, Override<u64>)>,
}

/// A value that is asked for, and its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override<T> {
    /// The value.
    pub value: T,
    /// The author for a person: a flag, a variable, or a line of a configuration file.
    pub from: Cow<'static, str>,
}

impl<T> Override<T> {
    /// Returns a value that the embedding program asks for.
    pub(crate) fn of_program(value: T) -> Self {
        Self { value, from: Cow::Borrowed("the program") }
    }

    /// Returns the rule that the value is.
    pub(super) fn provenance(&self) -> Provenance {
        Provenance::Override(self.from.clone())
    }
}

/// The build of a tool that is to run, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The builds that were asked for.
    pub backend: BackendChoice,
    /// True if, with [`BackendChoice::Auto`], the native build comes first on a machine whose
    /// sandbox confines its files, network and processes, and ends them with the call.
    pub native_if_confined: bool,
    /// The reason, for a person.
    pub reason: Cow<'static, str>,
}

/// The policy of one host in one workspace: [`Host::authority`](crate::Host::authority).
///
/// Shows the policy ([`files`](Self::files), [`profile`](Self::profile)), decides on calls, and
/// proposes changes of the user's file. See the [module](super) for an
/// example.
pub struct Authority {
    live: Live,
    overrides: Overrides,
    workspace: PathBuf,
    protected: Vec<PathBuf>,
    secrets: Secrets,
    /// The places among the secrets that the host was given.
    own_secrets: Vec<PathBuf>,
    variables: Variables,
    writable_record: WritableRecord,
    hints: Hints,
    signing: Signing,
    session: Session,
    logged: Mutex<BTreeSet<String>>,
}

/// The policy files at one look. Decisions by one are decisions at one moment: after the answer of a
/// person there has to be another. A call that waits for its component to be compiled, or for a place
/// among the guests, runs by the decision from before: an edit holds for the next call.
pub(crate) struct Look(Result<Layers, Denial>);

impl Authority {
    /// Reads the policy files. `protected` are the canonical paths that no tool may write.
    ///
    /// # Errors
    ///
    /// A file cannot be used.
    pub(crate) fn open(
        files: &PolicyFiles,
        overrides: Overrides,
        protected: Vec<PathBuf>,
        hints: Hints,
        signatures: Option<Arc<dyn Signatures>>,
    ) -> Result<Self, FileError> {
        Ok(Self {
            live: Live::open(files, signatures.clone())?,
            overrides,
            workspace: files.workspace.clone(),
            protected,
            secrets: Secrets::new(files.home.as_deref(), files.state.clone()),
            own_secrets: Vec::new(),
            variables: Variables::default(),
            writable_record: WritableRecord::new(files.state.clone()),
            hints,
            signing: Signing::new(signatures),
            session: Session::default(),
            logged: Mutex::default(),
        })
    }

    /// Returns this policy with further secrets of the host, which no tool sees unless they are granted by
    /// name, and which no recording shows.
    pub(crate) fn with_secrets(mut self, secrets: Vec<PathBuf>) -> Self {
        self.secrets.add(secrets.iter().cloned());
        self.own_secrets.extend(secrets);
        self
    }

    /// Decides what the tool may touch and use up. For the tools of a snapshot
    /// [`Host::decide`](crate::Host::decide) makes the request.
    ///
    /// # Errors
    ///
    /// The tool may not run at all.
    pub fn decide(&self, request: &Request<'_>) -> Result<Decision, Denial> {
        self.decide_widened(request, &[])
    }

    /// Decides as [`decide`](Self::decide) does, with what a person allowed for this call besides.
    /// Bounds hold for that as for everything else.
    pub(crate) fn decide_widened(
        &self,
        request: &Request<'_>,
        once: &[Reached],
    ) -> Result<Decision, Denial> {
        self.decide_by(&self.look(), request, once)
    }

    /// Looks at the metadata of each policy file, and reads those that changed.
    pub(crate) fn look(&self) -> Look {
        Look(self.current())
    }

    /// Decides as [`decide_widened`](Self::decide_widened) does, by the files as they were at a look.
    pub(crate) fn decide_by(
        &self,
        Look(layers): &Look,
        request: &Request<'_>,
        once: &[Reached],
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

    /// Returns whether a person may be asked whether the tool may have this access besides those that
    /// were allowed it for this call: unless a ceiling, the workspace or the key `ask` forbids it, the
    /// host's own files are there, or the answer of this session was no.
    pub(crate) fn may_ask(
        &self,
        request: &Request<'_>,
        once: &[Reached],
        reached: &Reached,
    ) -> bool {
        if let Reached::Path { path, .. } = reached
            && standard::protected_path_in(path, &self.protected).is_some()
        {
            return false;
        }
        if self.session.was_refused(request, reached) {
            return false;
        }
        let allowed: Vec<Reached> = once.iter().chain([reached]).cloned().collect();
        self.decide_widened(request, &allowed)
            .is_ok_and(|decision| decision.ask && decision.grant.shows(reached))
    }

    /// Returns whether a person allowed the tool this access in this session.
    pub(crate) fn was_allowed(&self, request: &Request<'_>, reached: &Reached) -> bool {
        self.session.allowed(request).contains(reached)
    }

    /// Returns whether a person refused the tool this access in this session, or a directory around it.
    pub(crate) fn was_refused_around(&self, request: &Request<'_>, reached: &Reached) -> bool {
        self.session.was_refused_around(request, reached)
    }

    /// Returns whether the user's file could grant the tool this access, whoever may be asked.
    pub(crate) fn could_allow(&self, request: &Request<'_>, reached: &Reached) -> bool {
        if let Reached::Path { path, .. } = reached
            && standard::protected_path_in(path, &self.protected).is_some()
        {
            return false;
        }
        self.decide_widened(request, std::slice::from_ref(reached))
            .is_ok_and(|decision| decision.grant.shows(reached))
    }

    /// Returns the command of the embedding program that grants the tool these accesses besides what
    /// it has; nothing where there is none.
    pub(crate) fn command_for(&self, request: &Request<'_>, reached: &[Reached]) -> Option<String> {
        let tool = request.name?.to_owned();
        if reached.is_empty() {
            return None;
        }
        let has = self.permissions_with(request, &[], Scope::Exact)?;
        let permissions = self.permissions_with(request, reached, Scope::Exact)?.beyond(&has);
        self.hint(&Remedy::Widen { tool, permissions })
    }

    /// Returns the step that raises the limit that ended a call under `limits`. Returns nothing if a flag or another
    /// rule than the tool's own entry bounds the limit, because the user's file cannot raise it then.
    pub(crate) fn raise(
        &self,
        request: &Request<'_>,
        decision: &Decision,
        limit: Limit,
        limits: &Limits,
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

    /// Returns what a person allowed or refused tools in this session, the oldest answer first.
    #[must_use]
    pub fn session_answers(&self) -> Vec<SessionAnswer> {
        self.session.answers()
    }

    /// Forgets an answer of this session: an access that was allowed is no longer granted by it, and one
    /// that was refused may be asked about again. What the answer wrote into a policy file stays.
    pub fn forget_answer(&self, answer: &SessionAnswer) {
        self.session.forget(answer);
    }

    /// Notes what a person answered for this session.
    pub(crate) fn answered(&self, request: &Request<'_>, reached: &Reached, allowed: bool) {
        self.session.note(request, reached, allowed);
    }

    /// Proposes the user's file with these accesses granted besides what the tool has. Of a file the
    /// whole directory is granted, unless much else lies in it. Writes nothing.
    ///
    /// # Errors
    ///
    /// As of [`propose_grant`](Self::propose_grant), or the entry cannot have these accesses.
    pub fn propose_widened(
        &self,
        request: &Request<'_>,
        reached: &[Reached],
    ) -> Result<Proposal, FileError> {
        let file = self.user_file()?;
        let Some(name) = request.name else {
            return Err(FileError::whole(file, "a program that is named by its path has no entry"));
        };
        let permissions = self.permissions_with(request, reached, Scope::Directory);
        let permissions = permissions.ok_or_else(|| {
            FileError::whole(file, "a policy file cannot name what the tool reached for")
        })?;
        let keys = widen::keys(request, &permissions);
        self.propose_grant(name, &keys)
    }

    /// Proposes the user's file with an entry by which a native tool of the user runs unconfined, with
    /// all rights of that user. Nothing where there is no such tool, or where a bound confines it
    /// nevertheless. Writes nothing.
    #[must_use]
    pub fn propose_unconfined(&self, request: &Request<'_>) -> Option<Proposal> {
        if request.origin != ToolOrigin::User || request.backend != Backend::Native {
            return None;
        }
        let proposal = self.propose_bound(request, widen::unconfining_keys())?;
        let decision = self.decide_with(&proposal, request).ok()?;
        decision.is_unconfined(request.backend).then_some(proposal)
    }

    /// Proposes the user's file with these keys of the tool's entry set, and with the digests to which the entry of
    /// a user's tool is bound. Returns nothing if the program has no name, or if the file cannot be used. Writes
    /// nothing.
    pub(crate) fn propose_bound(
        &self,
        request: &Request<'_>,
        keys: Vec<NewKey>,
    ) -> Option<Proposal> {
        let mut all = widen::keys(request, &Permissions::default());
        all.extend(keys);
        self.propose_grant(request.name?, &all).ok()
    }

    /// Returns the places of what a tool was refused, and of the links by which it named that. `may` says
    /// whether a place can be allowed.
    pub(crate) fn places_of(
        &self,
        refused: &[Reached],
        links: &BTreeSet<PathBuf>,
        may: &dyn Fn(&Reached) -> bool,
    ) -> Vec<Reached> {
        let home = self.canonical_home();
        match self.current() {
            Ok(layers) => missed_places(refused, links, self.around(&layers, home.as_deref()), may),
            Err(_) => refused.to_vec(),
        }
    }

    /// Returns what the entry of a tool grants, or the profile, and these accesses besides; nothing if
    /// a policy file cannot name them.
    pub(crate) fn permissions_with(
        &self,
        request: &Request<'_>,
        reached: &[Reached],
        scope: Scope,
    ) -> Option<Permissions> {
        self.with_entry(request, |entries, around| {
            widen::permissions(entries, request, reached, scope, around)
        })?
    }

    /// Returns what the entry of a tool names, or what the profile gives a tool whose entry does not. Nothing
    /// is in force for a tool whose ceiling cannot be used.
    pub(super) fn entry_lists(&self, request: &Request<'_>) -> EntryLists {
        let lists = self.with_entry(request, |(entry, every), around| {
            EntryLists::of_entry(entry, every, request, around)
        });
        lists.unwrap_or_default()
    }

    /// Gives `then` the entry of a tool in the user's file, the part of `[tools."*"]` there that is about the
    /// tool, and the places around it; nothing if a ceiling cannot be used.
    fn with_entry<T>(
        &self,
        request: &Request<'_>,
        then: impl FnOnce((Option<&Entry>, Option<&Entry>), widen::Around<'_>) -> T,
    ) -> Option<T> {
        let layers = self.current().ok()?;
        let entry = request.name.and_then(|name| layers.user.entry(request.backend, name));
        let every = layers.user.every_beside(entry);
        let home = self.canonical_home();
        let around = self.around(&layers, home.as_deref());
        Some(then((entry, every), around))
    }

    /// Returns the home of the user, in whose path links are not resolved.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.live.base().home.as_deref()
    }

    /// Returns the value that a variable has for the tools of this run.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name)
    }

    fn canonical_home(&self) -> Option<PathBuf> {
        let home = self.home();
        home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()))
    }

    fn around<'a>(&'a self, layers: &Layers, home: Option<&'a Path>) -> widen::Around<'a> {
        let (workspace, protected) = (self.workspace.as_path(), self.protected.as_slice());
        let (profile, _) = decide::profile(layers, &self.overrides);
        widen::Around { workspace, home, protected, profile }
    }

    /// Returns the grant of a `--schema` call, which is empty.
    #[must_use]
    pub(crate) fn for_schema(&self, path: &Path, backend: Backend) -> Grant {
        decide::for_schema(&self.live.user(), &self.context(&self.signing, &[]), path, backend)
    }

    /// Records the directories in which a call with this grant may write. From then on no file in
    /// them is trusted as part of a tool that runs unconfined, in any workspace.
    ///
    /// # Errors
    ///
    /// They cannot be recorded because a disk is full. The call must not run.
    pub(crate) fn record_writable(&self, grant: &Grant) -> Result<(), String> {
        self.writable_record.record(&grant.dirs)
    }

    /// Sets a variable for the tools of this run, from the next call on. It reaches the tools that
    /// it would reach if the environment of the host had it: no tool is granted more by this.
    ///
    /// # Errors
    ///
    /// A variable of this name cannot be granted, or the value has a NUL. The text is the reason.
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
        Look(layers): &Look,
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
    /// A ceiling cannot be used.
    pub fn signers(&self) -> Result<Arc<SignersInForce>, Denial> {
        Ok(self.signing.in_force(&self.current()?))
    }

    /// Returns the signers of the user's file that do not count, because a ceiling names its own.
    ///
    /// # Errors
    ///
    /// A ceiling cannot be used.
    pub fn void_signers(&self) -> Result<Vec<SignerRule>, Denial> {
        Ok(signers::void(&self.current()?))
    }

    /// Returns the profile in force, and the rules that decided it.
    ///
    /// # Errors
    ///
    /// A ceiling cannot be used.
    pub fn profile(&self) -> Result<(Profile, Vec<Provenance>), Denial> {
        Ok(decide::profile(&self.current()?, &self.overrides))
    }

    /// Chooses the build of a tool that is to run.
    #[doc(hidden)]
    #[must_use]
    pub fn choose(&self, name: &str, origin: ToolOrigin) -> Choice {
        let choice = |backend, reason: Cow<'static, str>| Choice {
            backend,
            native_if_confined: false,
            reason,
        };
        // With a ceiling that cannot be used no tool will run.
        let Ok(layers) = self.current() else {
            return choice(BackendChoice::Auto, "".into());
        };
        if let Some((backend, provenance)) = decide::backend(&layers, &self.overrides, name) {
            return choice(backend, format!("{provenance} asks for it").into());
        }
        let (profile, _) = decide::profile(&layers, &self.overrides);
        let is_shell = name == SHELL && origin == ToolOrigin::System;
        Choice {
            native_if_confined: is_shell && profile == Profile::Standard,
            ..choice(BackendChoice::Auto, "".into())
        }
    }

    /// Proposes the user's file with these keys of the tool's entry set. Writes nothing.
    ///
    /// # Errors
    ///
    /// The file cannot be used, as it is or as it would be; or the user has no such file, because
    /// [`Paths::policy`](crate::Paths::policy) names none.
    pub fn propose_grant(&self, name: &str, keys: &[NewKey]) -> Result<Proposal, FileError> {
        Proposal::grant(self.user_file()?, self.live.base(), Place::Tool(name.to_owned()), keys)
    }

    /// Proposes the user's file with these keys of the server's entry set. Writes nothing.
    ///
    /// # Errors
    ///
    /// As of [`propose_grant`](Self::propose_grant).
    pub fn propose_server(&self, name: &str, keys: &[NewKey]) -> Result<Proposal, FileError> {
        Proposal::grant(self.user_file()?, self.live.base(), Place::Server(name.to_owned()), keys)
    }

    /// Proposes the user's file without the server's entry; nothing if it has no such entry. Writes
    /// nothing.
    ///
    /// # Errors
    ///
    /// The file cannot be used.
    pub fn propose_revoke_server(&self, name: &str) -> Result<Option<Proposal>, FileError> {
        Proposal::revoke(self.user_file()?, self.live.base(), Place::Server(name.to_owned()))
    }

    /// Proposes the user's file without the tool's entry; nothing if it has no such entry. Writes
    /// nothing.
    ///
    /// # Errors
    ///
    /// The file cannot be used.
    pub fn propose_revoke(&self, name: &str) -> Result<Option<Proposal>, FileError> {
        Proposal::revoke(self.user_file()?, self.live.base(), Place::Tool(name.to_owned()))
    }

    /// Decides as if the proposal were the user's file.
    ///
    /// # Errors
    ///
    /// The tool may not run even then.
    pub fn decide_with(
        &self,
        proposal: &Proposal,
        request: &Request<'_>,
    ) -> Result<Decision, Denial> {
        let layers = Layers { user: Arc::clone(&proposal.layer), ..self.current()? };
        let signing = self.signing.apart();
        let context = self.context(&signing, &[]);
        decide::decide(&layers, &self.overrides, &context, request)
    }

    /// Returns the names of tools in the user's file, with the line of each.
    #[must_use]
    pub fn named(&self) -> Vec<(String, usize)> {
        let Ok(layers) = self.current() else { return Vec::new() };
        let named = layers.user.tools.iter();
        named.map(|(name, entry)| (name.clone(), entry.position.line)).collect()
    }

    /// Returns what the user's file says that a tool may touch, as it is written there; nothing without
    /// an entry. The digests that it is bound to are not compared.
    #[must_use]
    pub fn written(&self, name: &str) -> Option<Written> {
        let layers = self.current().ok()?;
        layers.user.tools.get(name).map(Written::from_entry)
    }

    /// Returns what the user's file says that a server may touch, as it is written there; nothing without an
    /// entry.
    #[must_use]
    pub fn written_server(&self, name: &str) -> Option<Written> {
        let layers = self.current().ok()?;
        layers.user.servers.get(name).map(Written::from_entry)
    }

    /// Returns the tools of a server that the user's file approves, with the digests of their
    /// descriptions.
    #[must_use]
    pub fn approved(&self, server: &str) -> BTreeMap<String, Digest> {
        let Ok(layers) = self.current() else { return BTreeMap::new() };
        let entry = layers.user.servers.get(server).and_then(|entry| entry.approved.as_ref());
        entry.map(|at| at.value.clone()).unwrap_or_default()
    }

    /// Returns whether the user's file has an entry for the tool that is bound to contents.
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

    /// Returns the digest of the policy in force: of the text of its files, and of what this host
    /// asks for itself alone.
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

    /// Returns whether a permissive recording does not show the path: because secrets usually lie there
    /// or below it, or the host's own files or its secrets do.
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

    /// Returns the places that a permissive recording does not show, as far as they are on this machine,
    /// with links resolved: those of [`present_secrets`], the host's own files and its secrets.
    pub(crate) fn kept_from_recordings(&self) -> Vec<PathBuf> {
        let home = self.live.base().home.clone();
        let own = self.protected.iter().chain(&self.own_secrets);
        let own = own.filter_map(|path| path.canonicalize().ok());
        present_secrets(home.as_deref(), &self.workspace).into_iter().chain(own).collect()
    }

    /// Returns the host's own files and directories, which no tool may write.
    #[must_use]
    pub fn protected(&self) -> &[PathBuf] {
        &self.protected
    }

    /// Returns the sentence of the embedding program for a remedy; nothing where it has none.
    #[must_use]
    pub fn hint(&self, remedy: &Remedy) -> Option<String> {
        self.hints.for_remedy(remedy)
    }

    fn user_file(&self) -> Result<&Path, FileError> {
        self.live.user_file().ok_or_else(|| {
            let error =
                FileError::whole(Path::new(paths::POLICY), "there is no home to keep a policy in");
            match self.hint(&Remedy::NamePolicyFile) {
                Some(hint) => error.hint(hint),
                None => error,
            }
        })
    }

    fn context<'a>(
        &'a self,
        signing: &'a Signing,
        allowed: &'a [Reached],
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

    fn current(&self) -> Result<Layers, Denial> {
        let layers = self.live.current();
        for (kind, problem) in self.live.problems() {
            let fate = match kind {
                LayerKind::Ceiling => "nothing may run until it is mended",
                LayerKind::User | LayerKind::Workspace => "its earlier contents stay in force",
            };
            self.log_once(&format!("{}; {fate}", problem.line()));
        }
        for notice in layers.iter().flat_map(Layers::all).flat_map(|layer| &layer.notices) {
            self.log_once(notice);
        }
        layers.map_err(|problem| Denial::of_file(&problem))
    }

    fn log_once(&self, text: &str) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.insert(text.to_owned()) {
            tracing::warn!("{text}");
        }
    }

    fn log_protected_workspace(&self) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let workspace = self.workspace.display();
            let text = format!(
                "the workspace `{workspace}` holds ikigai's own files, so tools may only read it"
            );
            tracing::warn!("{}", self.hints.append(text, &Remedy::ChooseWorkspace));
        });
    }
}
