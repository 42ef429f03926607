//! The authority that decides on calls, from the policy files, the host's settings and its
//! workspace. Every front end gets the same answer from it.

mod entries;
mod overrides;
mod proposals;
mod questions;
mod remedies;
mod secrets;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use ikigai_protocol::Digest;
use parking_lot::Mutex;

pub use self::overrides::{Override, Overrides};
use super::decide;
use super::decision::{Decision, Denial, PolicyRequest};
use super::live::{FileStatus, LivePolicy, PolicyFiles};
use super::parse::check_variable;
use super::provenance::Provenance;
use super::reached::RequestedAccess;
use super::remedy::{Remedy, RemedyHints};
use super::reserved::SecretPaths;
use super::rule::PolicyLayers;
use super::session::SessionAnswers;
use super::signer_rule::SignerRule;
use super::signers::{self, Signatures, SignersInForce, Signing};
use super::standard::SHELL;
use super::variables::Variables;
use super::writable_record::WritableRecord;
use super::{Backend, BackendChoice, Grant, LayerKind, Profile, ToolOrigin};
use crate::toml_file::TomlError;

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

    /// Refuses a build that uses a version of WASI which the policy does not allow. Checks nothing
    /// else, so that it can be called before the tool is asked for its schema.
    ///
    /// # Errors
    ///
    /// Fails if the policy refuses the build.
    #[doc(hidden)]
    pub fn check_wasi(&self, request: &PolicyRequest<'_>) -> Result<(), Denial> {
        if request.wasi.is_empty() {
            return Ok(());
        }
        decide::check_wasi(&self.current()?, &self.context(&self.signing, &[]), request)
    }

    /// Returns the user's home, without resolving links.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.live.base().home.as_deref()
    }

    /// Returns a variable's value for the tools of this run.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name)
    }

    /// Returns the grant of a `--schema` call, which is empty.
    #[must_use]
    pub(crate) fn for_schema(&self, path: &Path, backend: Backend) -> Grant {
        decide::for_schema(&self.live.user(), &self.context(&self.signing, &[]), path, backend)
    }

    /// Returns the environment of a command that the host's program starts as its user, without a
    /// sandbox, in the directory `/`: one that prints a token or a key. `words` are its program and
    /// its arguments. The environment has known variables only. Check the command before each
    /// start.
    ///
    /// # Errors
    ///
    /// Fails if a tool could change a program or a file of the command, or if a ceiling cannot be
    /// used. The text is the reason.
    pub fn for_user_command(
        &self,
        words: &[OsString],
    ) -> Result<Vec<(OsString, OsString)>, String> {
        self.environment(words, decide::is_for_commands)
    }

    /// Returns the environment of another program that the host's program starts as its user,
    /// without a sandbox, in the directory `/`: the user's editor. It has all variables, without
    /// the paths at which a tool may write. Check the program before each start.
    ///
    /// # Errors
    ///
    /// Fails if a tool could change the program or a file in its arguments, or if a ceiling cannot
    /// be used. The text is the reason.
    pub fn for_user_program(
        &self,
        words: &[OsString],
    ) -> Result<Vec<(OsString, OsString)>, String> {
        self.environment(words, |_| true)
    }

    /// Returns the environment of a program, with the variables for which `has_variable` is true.
    fn environment(
        &self,
        words: &[OsString],
        has_variable: fn(&OsStr) -> bool,
    ) -> Result<Vec<(OsString, OsString)>, String> {
        let layers = self.current().map_err(|denial| denial.to_string())?;
        let context = self.context(&self.signing, &[]);
        let program = decide::UserProgram { words, home: self.home(), has_variable };
        decide::for_user_program(&layers.user, &context, &program)
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

    fn context<'a>(
        &'a self,
        signing: &'a Signing,
        allowed: &'a [RequestedAccess],
    ) -> decide::PolicyContext<'a> {
        let Self { workspace, protected, secrets, variables, writable_record, hints, .. } = self;
        decide::PolicyContext {
            workspace,
            protected,
            secrets: secrets.for_decision(),
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
