//! A tool in the registry: its schema, its builds, and the build that runs.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ikigai_protocol::{Digest, ToolSchema};
use tokio::sync::OnceCell;

use crate::exec::Executor;
use crate::exec::arguments::{ArgumentCheck, Mismatch};
use crate::exec::mcp::{DefinedServer, ServerProgram};
use crate::exec::native::NativeProgram;
use crate::exec::wasm::{ComponentError, GuestProgram, Tier};
use crate::exec::wrap::{Runnable, Wrapper};
use crate::policy::{Backend, RegisteredTool, ServerTool, ToolOrigin, WasiUse};

use super::candidate::Candidate;
use super::file;
use super::loader::Loader;
use super::memo::Memo;
use super::reaching::{self, PathArgument};

/// A tool that can be called by its name. Cheap to clone.
#[derive(Clone)]
pub struct Tool {
    /// Its schema: name, description and the JSON Schema of its arguments, for a model.
    pub schema: Arc<ToolSchema>,
    /// The kind of directory that it comes from.
    pub origin: ToolOrigin,
    /// The build that runs when it is called.
    pub build: Arc<Build>,
    /// The reason why this build was chosen, for the user.
    pub reason: Cow<'static, str>,
    /// True if a native build runs because the component cannot be used on this host.
    pub fell_back: bool,
    /// The build that does not run, if the tool has two builds.
    pub other: Option<Arc<Build>>,
    is_of_workspace: bool,
    check: Arc<ArgumentCheck>,
    paths: Arc<[PathArgument]>,
}

impl Tool {
    pub(super) fn new(
        schema: ToolSchema,
        origin: ToolOrigin,
        build: Arc<Build>,
        reason: Cow<'static, str>,
        other: Option<Arc<Build>>,
    ) -> Self {
        let paths = reaching::path_arguments(&schema, origin).into();
        let (schema, check) = (Arc::new(schema), Arc::default());
        Self {
            schema,
            origin,
            build,
            reason,
            fell_back: false,
            other,
            is_of_workspace: false,
            check,
            paths,
        }
    }

    /// Returns the first mismatches between arguments and the schema. Does not check very large
    /// arguments: the tool checks its arguments itself.
    #[must_use]
    pub fn mismatches(&self, arguments: &[u8]) -> Vec<Mismatch> {
        self.check.mismatches(&self.schema.parameters, arguments)
    }

    pub(crate) fn path_arguments(&self) -> &[PathArgument] {
        &self.paths
    }

    /// Marks the tool as a workspace tool.
    pub(super) fn of_workspace(self) -> Self {
        Self { is_of_workspace: true, ..self }
    }

    /// Returns its source: `system`, `user` or `workspace`. A workspace tool has the same origin as
    /// a user tool.
    #[must_use]
    pub fn source(&self) -> &'static str {
        if self.is_of_workspace { "workspace" } else { self.origin.as_str() }
    }

    /// Returns the name that a model calls it by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.schema.name
    }
}

/// A file that is a tool, or one build of a tool with two builds.
pub struct Build {
    /// Its path.
    pub path: PathBuf,
    /// The digest of its contents at the time of the scan. A definition of a wrapped program has
    /// one digest for itself and the program together.
    pub digest: Digest,
    /// Other names whose policy entries narrow its calls. See
    /// [`PolicyRequest::names`](crate::policy::PolicyRequest::names).
    pub(crate) names: Vec<String>,
    /// The registered tools that it is. See
    /// [`PolicyRequest::registered`](crate::policy::PolicyRequest::registered).
    pub(crate) registered: Vec<RegisteredTool>,
    program: BuildProgram,
    wrapping: Option<WrappedProgram>,
}

/// The program that a definition wraps.
struct WrappedProgram {
    program: PathBuf,
    wrapper: Arc<Wrapper>,
}

enum BuildProgram {
    Native(NativeProgram),
    /// Loaded on the first call, because most runs of the host call one tool of many.
    Wasm {
        path: PathBuf,
        contents: Digest,
        loader: Arc<Loader>,
        loaded: OnceCell<GuestProgram>,
        /// The versions of WASI that it uses, once they are known.
        wasi: OnceLock<Vec<WasiUse>>,
    },
    Server(ServerProgram),
}

impl Build {
    /// Returns the build in a candidate. Starts and compiles nothing.
    pub(super) fn from_candidate(
        candidate: &Candidate,
        memo: &Memo,
        loader: &Arc<Loader>,
    ) -> Result<Arc<Self>, String> {
        let runs = candidate.program();
        let contents = runs.contents(memo).map_err(|error| format!("cannot be read: {error}"))?;
        let path = runs.path.clone();
        let wrapping = candidate
            .wrapper()
            .map(|it| WrappedProgram { program: path.clone(), wrapper: Arc::clone(it) });
        let program = match candidate.backend {
            Backend::Native => {
                let supervisor = loader.supervisor().clone();
                BuildProgram::Native(NativeProgram::new(path, supervisor))
            }
            Backend::Wasm => {
                let (loader, loaded, wasi) = (Arc::clone(loader), OnceCell::new(), OnceLock::new());
                BuildProgram::Wasm { path, contents, loader, loaded, wasi }
            }
            Backend::Mcp => return Err("it defines a server, and is not a tool itself".to_owned()),
        };
        let digest = candidate.digest_with(contents);
        let (path, registered) = (candidate.path.clone(), candidate.registered.clone());
        let mut names: Vec<String> = registered.iter().map(|tool| tool.name.clone()).collect();
        names.dedup();
        Ok(Arc::new(Self { path, digest, names, registered, program, wrapping }))
    }

    /// Returns the build of a tool of the server that the file at `path` defines. The tool is
    /// offered under this name.
    pub(super) fn of_server(path: PathBuf, name: String, program: ServerProgram) -> Self {
        let (digest, names) = (program.server.digest, vec![name]);
        let program = BuildProgram::Server(program);
        Self { path, digest, names, registered: Vec::new(), program, wrapping: None }
    }

    /// Returns the path of the program that its definition wraps; `None` for a tool that is itself
    /// a program.
    #[must_use]
    pub fn wrapped_program(&self) -> Option<&Path> {
        self.wrapping.as_ref().map(|wrapping| &*wrapping.program)
    }

    /// Returns the server that has the tool, and the server's description of the tool; `None` for a
    /// tool that is itself a program.
    #[must_use]
    pub fn of_a_server(&self) -> Option<(&DefinedServer, ServerTool<'_>)> {
        match &self.program {
            BuildProgram::Server(ServerProgram { server, tool, digest, .. }) => {
                Some((server, ServerTool { name: tool, digest: *digest }))
            }
            BuildProgram::Native(_) | BuildProgram::Wasm { .. } => None,
        }
    }

    /// Returns the kind of the program.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match self.program {
            BuildProgram::Native(_) => Backend::Native,
            BuildProgram::Wasm { .. } => Backend::Wasm,
            BuildProgram::Server(_) => Backend::Mcp,
        }
    }

    /// Returns the program, ready to be called. Loads a component if it is not loaded yet.
    ///
    /// # Errors
    ///
    /// Fails if the component cannot be used on this host.
    #[doc(hidden)]
    pub async fn program(&self) -> Result<Runnable<'_>, ComponentError> {
        let program: &dyn Executor = match &self.program {
            BuildProgram::Native(program) => program,
            BuildProgram::Server(program) => program,
            BuildProgram::Wasm { .. } => self.component().await?,
        };
        Ok(Runnable::new(program, self.wrapping.as_ref().map(|wrapping| &wrapping.wrapper)))
    }

    /// Returns the component, if the build is a component and loaded.
    pub(crate) fn loaded(&self) -> Option<&GuestProgram> {
        match &self.program {
            BuildProgram::Wasm { loaded, .. } => loaded.get(),
            BuildProgram::Native(_) | BuildProgram::Server(_) => None,
        }
    }

    /// Returns the name of the tool that its file should be.
    pub(crate) fn expected_name(&self) -> String {
        file::tool_name(&self.path)
    }

    /// Returns the versions of WASI that a component or core module uses, in order. Returns an empty
    /// list for any other build, and for a component that this host has neither loaded nor asked for
    /// its schema.
    #[must_use]
    pub fn wasi(&self) -> &[WasiUse] {
        match &self.program {
            BuildProgram::Wasm { wasi, .. } => wasi.get().map_or(&[], Vec::as_slice),
            BuildProgram::Native(_) | BuildProgram::Server(_) => &[],
        }
    }

    /// Returns whether [`wasi`](Self::wasi) is final.
    pub(crate) fn is_wasi_known(&self) -> bool {
        match &self.program {
            BuildProgram::Wasm { wasi, .. } => wasi.get().is_some(),
            BuildProgram::Native(_) | BuildProgram::Server(_) => true,
        }
    }

    /// Sets the versions of WASI that an earlier host found in the same contents.
    pub(super) fn remember_wasi(&self, uses: Vec<WasiUse>) {
        if let BuildProgram::Wasm { wasi, .. } = &self.program {
            wasi.get_or_init(|| uses);
        }
    }

    /// Returns whether the build can run without compilation.
    pub(super) fn is_compiled(&self) -> bool {
        match &self.program {
            BuildProgram::Native(_) | BuildProgram::Server(_) => true,
            BuildProgram::Wasm { path, contents, loader, .. } => loader.is_compiled(path, contents),
        }
    }

    /// Returns whether its next call runs baseline code.
    pub(super) fn is_of_the_baseline(&self) -> bool {
        match &self.program {
            BuildProgram::Wasm { loaded, .. } => {
                loaded.get().is_some_and(|program| program.tier() == Tier::Baseline)
            }
            BuildProgram::Native(_) | BuildProgram::Server(_) => false,
        }
    }

    /// Returns the tier of a component's code, and the reason if it stays on baseline code. Returns
    /// `None` for a native build.
    ///
    /// # Errors
    ///
    /// Fails if the component cannot be used on this host.
    #[doc(hidden)]
    pub async fn tier(&self) -> Result<Option<(Tier, Option<String>)>, ComponentError> {
        match &self.program {
            BuildProgram::Native(_) | BuildProgram::Server(_) => Ok(None),
            BuildProgram::Wasm { loader, contents, .. } => {
                let tier = self.component().await?.tier();
                let reason = match tier {
                    Tier::Baseline => loader.why_unoptimised(contents),
                    Tier::Optimised => None,
                };
                Ok(Some((tier, reason)))
            }
        }
    }

    /// Returns the interfaces that a component imports. Returns an empty list for a native build.
    ///
    /// # Errors
    ///
    /// Fails if the component cannot be used on this host.
    #[doc(hidden)]
    pub async fn imports(&self) -> Result<Vec<String>, ComponentError> {
        match &self.program {
            BuildProgram::Native(_) | BuildProgram::Server(_) => Ok(Vec::new()),
            BuildProgram::Wasm { .. } => Ok(self.component().await?.imports()),
        }
    }

    /// Returns the present digest of its file. Does not read an unchanged file.
    pub(super) async fn present_digest(&self, memo: &Arc<Memo>) -> Result<Digest, String> {
        let candidate = Candidate::at(self.path.clone(), ToolOrigin::User)
            .map_err(|unfit| format!("`{}` is no longer a tool: {unfit}", self.path.display()))?;
        let unreadable = |error: io::Error| {
            let path = self.path.display();
            format!("`{path}` cannot be read: {error}")
        };
        if !candidate.takes_long(memo) {
            return candidate.digest(memo).map_err(unreadable);
        }
        let memo = Arc::clone(memo);
        let digest = tokio::task::spawn_blocking(move || candidate.digest(&memo)).await;
        digest.unwrap_or_else(|error| Err(error.into())).map_err(unreadable)
    }

    async fn component(&self) -> Result<&GuestProgram, ComponentError> {
        match &self.program {
            BuildProgram::Wasm { path, contents, loader, loaded, wasi } => {
                let program = loaded.get_or_try_init(|| loader.load(path, *contents)).await?;
                wasi.get_or_init(|| program.wasi());
                Ok(program)
            }
            BuildProgram::Native(_) | BuildProgram::Server(_) => Err(ComponentError::NotACommand),
        }
    }
}
