//! The request to the policy, and its answer: the decision on one call, or its denial, with the
//! rules that decided it.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use ikigai_protocol::Digest;

use super::commands::Commands;
use super::provenance::{Provenance, ProvenanceMap};
use super::remedy::{Remedy, RemedyHints};
use super::{
    Access, Approve, AssetAccess, Backend, Grant, Profile, Sandbox, ToolOrigin, WasiUse,
    WasiVersion,
};
use crate::limits::CallLimits;
use crate::toml_file::TomlError;

/// The call that the policy decides on, for [`Authority::decide`](super::Authority::decide).
#[derive(Clone, Copy, Debug)]
pub struct PolicyRequest<'a> {
    /// The name of the tool, or of the server with [`Backend::Mcp`]; `None` for a program that is
    /// named by its path.
    pub name: Option<&'a str>,
    /// Other names whose tables `[tools.NAME]` narrow the call: those of the registered tools that
    /// the program is, if its path names it, and the name under which a server's tool is offered.
    pub names: &'a [String],
    /// The registered tools that the program is, if its path names it. If the user's file grants
    /// one of them other contents, its path does not run either.
    pub registered: &'a [RegisteredTool],
    /// The origin of the tool.
    pub origin: ToolOrigin,
    /// The build to run.
    pub backend: Backend,
    /// True if the build runs only because the component cannot be used.
    pub fell_back: bool,
    /// The file of the build, or the definition of the server or of the wrapped program.
    pub path: &'a Path,
    /// The program that a definition wraps, or the server's program; `None` for other tools and for
    /// HTTP servers.
    pub program: Option<&'a Path>,
    /// The known contents of the file. A grant by content must list all of them.
    pub contents: &'a [Digest],
    /// The versions of WASI that the build uses; none for a build that is no component or core
    /// module.
    pub wasi: &'a [WasiUse],
    /// The called tool of a server; `None` for the server itself.
    pub tool: Option<ServerTool<'a>>,
}

/// A registered tool that a program is, if a caller names the program by its path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegisteredTool {
    /// The name of the tool.
    pub name: String,
    /// The digest of its present contents, which its grant must list; `None` if its file cannot be
    /// read.
    pub digest: Option<Digest>,
}

impl<'a> PolicyRequest<'a> {
    /// Returns the name, or the path of a program without a name.
    pub(crate) fn title(&self) -> Cow<'a, str> {
        self.name.map_or_else(|| self.path.to_string_lossy(), Cow::Borrowed)
    }

    /// Returns whether the call runs a process on this machine: a native tool, or a server that is
    /// a program.
    pub(super) fn is_process(&self) -> bool {
        match self.backend {
            Backend::Native => true,
            Backend::Mcp => self.program.is_some(),
            Backend::Wasm => false,
        }
    }

    /// Returns whether it is an HTTP server, which this machine's sandbox cannot confine.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.backend == Backend::Mcp && self.program.is_none()
    }
}

/// The program of a call: a [`PolicyRequest`] that owns its parts. It is not for a server's tool.
#[derive(Clone, Debug)]
pub(crate) struct CalledProgram {
    name: Option<String>,
    names: Vec<String>,
    registered: Vec<RegisteredTool>,
    origin: ToolOrigin,
    backend: Backend,
    fell_back: bool,
    path: PathBuf,
    program: Option<PathBuf>,
    contents: Vec<Digest>,
    wasi: Vec<WasiUse>,
}

impl From<PolicyRequest<'_>> for CalledProgram {
    fn from(request: PolicyRequest<'_>) -> Self {
        let PolicyRequest {
            name,
            names,
            registered,
            origin,
            backend,
            fell_back,
            path,
            program,
            contents,
            wasi,
            tool: _,
        } = request;
        Self {
            name: name.map(str::to_owned),
            names: names.to_vec(),
            registered: registered.to_vec(),
            origin,
            backend,
            fell_back,
            path: path.to_owned(),
            program: program.map(Path::to_owned),
            contents: contents.to_vec(),
            wasi: wasi.to_vec(),
        }
    }
}

impl CalledProgram {
    pub(crate) fn request(&self) -> PolicyRequest<'_> {
        PolicyRequest {
            name: self.name.as_deref(),
            names: &self.names,
            registered: &self.registered,
            origin: self.origin,
            backend: self.backend,
            fell_back: self.fell_back,
            path: &self.path,
            program: self.program.as_deref(),
            contents: &self.contents,
            wasi: &self.wasi,
            tool: None,
        }
    }
}

/// A server's tool, as the server describes it.
#[derive(Clone, Copy, Debug)]
pub struct ServerTool<'a> {
    /// The server's own name for the tool.
    pub name: &'a str,
    /// The digest of its description.
    pub digest: Digest,
}

/// A variable that was granted by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Variable {
    /// The name of the variable.
    pub name: String,
    /// True if the host's environment has it.
    pub is_set: bool,
}

/// The permissions and limits of one call, with the rules that decided them: the answer of
/// [`Host::decide`](crate::Host::decide).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The permissions.
    pub grant: Grant,
    /// The limits.
    pub limits: CallLimits,
    /// The calls that need consent.
    pub approve: Approve,
    /// True if the user may be asked to widen the grant, if the front end can ask.
    pub ask: bool,
    /// The versions of WASI that a component or core module may use.
    pub wasi: Vec<WasiVersion>,
    /// The rules for the commands of `bash`.
    pub commands: Commands,
    /// The profile in force.
    pub profile: Profile,
    /// The variables that were granted by name. Their values are secrets; [`Grant::env`] also has
    /// the variables that every native tool gets.
    pub variables: Vec<Variable>,
    /// The rules that decided each capability.
    pub provenance: ProvenanceMap,
    /// Notes for the user, such as a rule that has no effect.
    pub notes: Vec<String>,
}

/// The effects that a grant allows, for [`Decision::effects`](crate::policy::Decision::effects).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects {
    /// True if the tool may change files or assets.
    pub writes: bool,
    /// True if the tool may connect to other machines.
    pub connects: bool,
}

impl Grant {
    /// Returns the effects that a call by this build may have.
    pub(super) fn effects(&self, backend: Backend) -> Effects {
        // Without a sandbox the tool can do everything that its user can.
        if backend != Backend::Wasm && self.sandbox != Sandbox::Require {
            return Effects { writes: true, connects: true };
        }
        Effects {
            writes: self.dirs.iter().any(|dir| dir.access == Access::ReadWrite)
                || self.assets == AssetAccess::Write,
            connects: self.net.any || !self.net.peers.is_empty(),
        }
    }
}

impl Decision {
    /// Returns the effects that a call by this build may have.
    #[must_use]
    pub fn effects(&self, backend: Backend) -> Effects {
        self.grant.effects(backend)
    }

    /// Returns the rule that decided [`approve`](Self::approve).
    #[must_use]
    pub fn approve_decided_by(&self) -> String {
        self.provenance
            .for_capability("approve")
            .first()
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    /// Returns the variables that were granted by name, with their values, which are secrets.
    #[must_use]
    pub fn granted_values(&self) -> Vec<(OsString, OsString)> {
        let granted =
            |name: &OsString| self.variables.iter().any(|it| OsString::from(&it.name) == *name);
        self.grant.env.iter().filter(|(name, _)| granted(name)).cloned().collect()
    }

    /// Returns the distinct rules that decided the permissions.
    #[must_use]
    pub fn granted_by(&self) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        for capability in ["fs", "net", "env", "path", "assets", "sandbox"] {
            for text in self.provenance.for_capability(capability).iter().map(Provenance::to_string)
            {
                if !texts.contains(&text) {
                    texts.push(text);
                }
            }
        }
        texts
    }

    /// Returns whether the tool runs with all rights of its user.
    #[must_use]
    pub fn is_unconfined(&self, backend: Backend) -> bool {
        backend != Backend::Wasm && self.grant.sandbox == Sandbox::Off
    }
}

/// The denial of a call: the error of [`Host::decide`](crate::Host::decide). Its text is the
/// reason, followed by the hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The reason.
    pub reason: String,
    /// The step that would allow it, if a step within the ceilings exists.
    pub remedy: Option<Box<Remedy>>,
    /// The sentence for the remedy, in the words of the embedding program:
    /// [`HostBuilder::hints`](crate::HostBuilder::hints).
    pub hint: Option<String>,
    /// The rule that forbids it.
    pub provenance: Option<Provenance>,
    /// True if that rule is `deny = true`, so that the tool never runs.
    pub is_by_deny: bool,
}

impl Denial {
    pub(super) fn new(reason: impl Into<String>, provenance: Provenance) -> Self {
        let (reason, provenance) = (reason.into(), Some(provenance));
        Self { reason, remedy: None, hint: None, provenance, is_by_deny: false }
    }

    pub(super) fn by_deny(self) -> Self {
        Self { is_by_deny: true, ..self }
    }

    pub(super) fn remedy(mut self, remedy: Remedy) -> Self {
        self.remedy = Some(Box::new(remedy));
        self
    }

    /// Adds the sentence for the remedy.
    pub(super) fn with_hint(mut self, hints: &RemedyHints) -> Self {
        self.hint = self.remedy.as_deref().and_then(|remedy| hints.for_remedy(remedy));
        self
    }

    pub(super) fn of_file(problem: &TomlError) -> Self {
        let reason = problem.line();
        Self { reason, remedy: None, hint: None, provenance: None, is_by_deny: false }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl std::error::Error for Denial {}
