//! Who decides: the policy files, the flags, and the place a host works in,
//! together. Every front end asks here, and gets the same answer.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, PoisonError};

use super::decide;
use super::decision::{Decision, Denial, Provenance, Request};
use super::edit::NewKey;
use super::live::{FileStatus, Layers, Live, PolicyFiles};
use super::parse::check_variable;
use super::propose::Proposal;
use super::remedy::{Hints, Remedy};
use super::standard::SHELL;
use super::variables::Variables;
use super::writable_record::WritableRecord;
use super::{Backend, BackendChoice, Grant, LayerKind, LimitKey, Profile, ToolOrigin};
use crate::paths;
use crate::toml_file::FileError;

/// What whoever starts a host asks of the policy, for this host alone. It passes no ceiling.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The profile.
    pub profile: Option<Override<Profile>>,
    /// The builds of tools that may run.
    pub backend: Option<Override<BackendChoice>>,
    /// Limits of each call, in the unit of the key.
    pub limits: Vec<(LimitKey, Override<u64>)>,
}

/// A value that is asked for, and who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override<T> {
    /// The value.
    pub value: T,
    /// For a person: a flag, a variable, or a line of a configuration file.
    pub from: Cow<'static, str>,
}

impl<T> Override<T> {
    /// Returns a value that the program asks for which embeds the host.
    pub(crate) fn of_program(value: T) -> Self {
        Self { value, from: Cow::Borrowed("the program") }
    }

    /// Returns who asks for it.
    pub(super) fn provenance(&self) -> Provenance {
        Provenance::Override(self.from.clone())
    }
}

/// Which build of a tool is to run, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What was asked for.
    pub backend: BackendChoice,
    /// With [`BackendChoice::Auto`]: the native build comes first where files, network
    /// and processes can be kept from it on this machine, and nothing outlives a call.
    pub native_if_confined: bool,
    /// For a person.
    pub reason: Cow<'static, str>,
}

/// The policy of one host in one workspace.
pub struct Authority {
    live: Live,
    overrides: Overrides,
    workspace: PathBuf,
    protected: Vec<PathBuf>,
    variables: Variables,
    writable_record: WritableRecord,
    hints: Hints,
    logged: Mutex<BTreeSet<String>>,
}

impl Authority {
    /// Reads the policy files. `own` are the host's own places, canonical.
    ///
    /// # Errors
    ///
    /// A file cannot be used.
    pub(crate) fn open(
        files: &PolicyFiles,
        overrides: Overrides,
        protected: Vec<PathBuf>,
        hints: Hints,
    ) -> Result<Self, FileError> {
        Ok(Self {
            live: Live::open(files)?,
            overrides,
            workspace: files.workspace.clone(),
            protected,
            variables: Variables::default(),
            writable_record: WritableRecord::new(files.state.clone()),
            hints,
            logged: Mutex::default(),
        })
    }

    /// What the tool may touch and use up, and who says so.
    ///
    /// # Errors
    ///
    /// It may not run at all.
    pub fn decide(&self, request: &Request<'_>) -> Result<Decision, Denial> {
        let layers = self.current()?;
        let decision = decide::decide(&layers, &self.overrides, &self.context(), request)?;
        if decision.provenance.of("fs").contains(&Provenance::ProtectedPaths) {
            self.log_protected_workspace();
        }
        for note in &decision.notes {
            self.log_once(note);
        }
        Ok(decision)
    }

    /// What a native tool has for its `--schema` call, which is nothing.
    #[must_use]
    pub fn for_schema(&self, path: &Path, backend: Backend) -> Grant {
        decide::for_schema(&self.live.user(), &self.context(), path, backend)
    }

    /// Records where a call may write that is about to have this grant: from then on nothing
    /// there is part of a tool that runs unconfined, in any workspace.
    ///
    /// # Errors
    ///
    /// It cannot be recorded because a disk is full; the call must not run.
    pub fn record_writable(&self, grant: &Grant) -> Result<(), String> {
        self.writable_record.remember(&grant.dirs)
    }

    /// Sets a variable for the tools of this run, from the next call on. It reaches those
    /// that it would reach if the host's environment had it: no tool gets more by this.
    ///
    /// # Errors
    ///
    /// The name is none that a tool can be given, or the value has a NUL; the text says so.
    pub fn set_variable(&self, name: &str, value: &str) -> Result<(), String> {
        check_variable(name)?;
        if value.contains('\0') {
            return Err(format!("the value of `{name}` has a NUL, which no variable can have"));
        }
        self.variables.set(name, value);
        Ok(())
    }

    /// Whether the answer for this tool depends on what its file holds now.
    #[must_use]
    pub fn looks_at_content(&self, name: Option<&str>) -> bool {
        self.current().is_ok_and(|layers| decide::looks_at_content(&layers, name))
    }

    /// The profile in force, and what decided it.
    ///
    /// # Errors
    ///
    /// A ceiling cannot be used.
    pub fn profile(&self) -> Result<(Profile, Vec<Provenance>), Denial> {
        Ok(decide::profile(&self.current()?, &self.overrides))
    }

    /// Which build of a tool is to run.
    #[must_use]
    pub fn choose(&self, name: &str, origin: ToolOrigin) -> Choice {
        let choice = |backend, reason: Cow<'static, str>| Choice {
            backend,
            native_if_confined: false,
            reason,
        };
        // Without a ceiling that can be used nothing will run.
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

    /// What the user's file would become with these keys of the tool's entry set.
    ///
    /// # Errors
    ///
    /// The file, or what it would become, cannot be used.
    pub fn propose_grant(&self, name: &str, keys: &[NewKey]) -> Result<Proposal, FileError> {
        Proposal::grant(self.user_file()?, self.live.base(), name, keys)
    }

    /// What the user's file would become without the tool's entry; none where it has
    /// none.
    ///
    /// # Errors
    ///
    /// The file cannot be used.
    pub fn propose_revoke(&self, name: &str) -> Result<Option<Proposal>, FileError> {
        Proposal::revoke(self.user_file()?, self.live.base(), name)
    }

    /// What would be decided if the proposal were the user's file.
    ///
    /// # Errors
    ///
    /// The tool may not run then either.
    pub fn decide_with(
        &self,
        proposal: &Proposal,
        request: &Request<'_>,
    ) -> Result<Decision, Denial> {
        let layers = Layers { user: Arc::clone(&proposal.layer), ..self.current()? };
        decide::decide(&layers, &self.overrides, &self.context(), request)
    }

    /// The names that the user's file speaks of, and the line of each.
    #[must_use]
    pub fn named(&self) -> Vec<(String, usize)> {
        let Ok(layers) = self.current() else { return Vec::new() };
        let named = layers.user.tools.iter();
        named.map(|(name, entry)| (name.clone(), entry.position.line)).collect()
    }

    /// Whether the user's file has an entry for the tool that is bound to contents.
    #[must_use]
    pub fn is_bound_to_content(&self, name: &str) -> bool {
        let Ok(layers) = self.current() else { return false };
        layers.user.tools.get(name).is_some_and(|entry| entry.sha256.is_some())
    }

    /// Each policy file, and how it stands.
    #[must_use]
    pub fn files(&self) -> Vec<FileStatus> {
        self.live.statuses()
    }

    /// The directory that tools work in.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// The host's own places, where no tool may write.
    #[must_use]
    pub fn protected(&self) -> &[PathBuf] {
        &self.protected
    }

    fn user_file(&self) -> Result<&Path, FileError> {
        self.live.user_file().ok_or_else(|| {
            let error =
                FileError::whole(Path::new(paths::POLICY), "there is no home to keep a policy in");
            match self.hints.of(&Remedy::NamePolicyFile) {
                Some(hint) => error.hint(hint),
                None => error,
            }
        })
    }

    fn context(&self) -> decide::PolicyContext<'_> {
        let Self { workspace, protected, variables, writable_record, hints, .. } = self;
        decide::PolicyContext { workspace, protected, variables, writable_record, hints }
    }

    fn current(&self) -> Result<Layers, Denial> {
        let layers = self.live.current();
        for (kind, problem) in self.live.problems() {
            let fate = match kind {
                LayerKind::Ceiling => "nothing may run until it is mended",
                LayerKind::User | LayerKind::Workspace => "what it said before stays in force",
            };
            self.log_once(&format!("{}; {fate}", problem.line()));
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
