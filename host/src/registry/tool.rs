//! One tool as the registry knows it: its schema, its builds, and which of them
//! runs.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use ikigai_protocol::ToolSchema;
use tokio::sync::OnceCell;

use crate::digest::Digest;
use crate::exec::Lane;
use crate::exec::native::NativeProgram;
use crate::exec::wasm::{ComponentError, GuestProgram};
use crate::policy::{Backend, ToolOrigin};

use super::candidate::Candidate;
use super::loader::Loader;
use super::memo::Memo;

/// A tool that can be called. Cheap to clone.
#[derive(Clone)]
pub struct Tool {
    /// What it says of itself.
    pub schema: Arc<ToolSchema>,
    /// Which directory it is from.
    pub origin: ToolOrigin,
    /// What runs when it is called.
    pub build: Arc<Build>,
    /// Why this build and not the other, for a person.
    pub reason: Cow<'static, str>,
    /// Whether it runs only because its component cannot be used on this host.
    pub fell_back: bool,
    /// The build that does not run, where there is one.
    pub other: Option<Arc<Build>>,
}

impl Tool {
    /// The name that a model calls it by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.schema.name
    }
}

/// One file that is a tool.
pub struct Build {
    /// Where it is.
    pub path: PathBuf,
    /// Of its contents when it was found.
    pub digest: Digest,
    program: Program,
}

enum Program {
    Native(NativeProgram),
    /// Loaded on the first call: most runs of the host call one tool of many.
    Wasm {
        loader: Arc<Loader>,
        loaded: OnceCell<GuestProgram>,
    },
}

impl Build {
    /// The program that a candidate is. Nothing is started or compiled.
    pub(super) fn of(
        candidate: &Candidate,
        memo: &Memo,
        loader: &Arc<Loader>,
    ) -> Result<Arc<Self>, String> {
        let digest = candidate.digest(memo).map_err(|error| format!("cannot be read: {error}"))?;
        let path = candidate.path.clone();
        let program = match candidate.backend {
            Backend::Native => {
                let supervisor = loader.supervisor().clone();
                Program::Native(NativeProgram::new(path.clone(), supervisor))
            }
            Backend::Wasm => Program::Wasm { loader: Arc::clone(loader), loaded: OnceCell::new() },
        };
        Ok(Arc::new(Self { path, digest, program }))
    }

    /// Which kind of program it is.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match self.program {
            Program::Native(_) => Backend::Native,
            Program::Wasm { .. } => Backend::Wasm,
        }
    }

    /// The program, ready to be called. A component is loaded now if it is not yet.
    ///
    /// # Errors
    ///
    /// The component cannot be used on this host.
    pub async fn program(&self) -> Result<&dyn Lane, ComponentError> {
        match &self.program {
            Program::Native(program) => Ok(program),
            Program::Wasm { .. } => Ok(self.component().await?),
        }
    }

    /// The interfaces that a component imports; none for a native build.
    ///
    /// # Errors
    ///
    /// The component cannot be used on this host.
    pub async fn imports(&self) -> Result<Vec<String>, ComponentError> {
        match &self.program {
            Program::Native(_) => Ok(Vec::new()),
            Program::Wasm { .. } => Ok(self.component().await?.imports()),
        }
    }

    /// The digest of what its file holds now. An unchanged file is not read.
    pub(super) async fn present_digest(&self, memo: &Arc<Memo>) -> Result<Digest, String> {
        let candidate = Candidate::at(self.path.clone(), ToolOrigin::User)
            .map_err(|unfit| format!("`{}` is no tool any more: {unfit}", self.path.display()))?;
        let told = |error: String| format!("`{}` cannot be read: {error}", self.path.display());
        if !candidate.takes_long(memo) {
            return candidate.digest(memo).map_err(|error| told(error.to_string()));
        }
        let memo = Arc::clone(memo);
        tokio::task::spawn_blocking(move || candidate.digest(&memo))
            .await
            .map_err(|error| told(error.to_string()))?
            .map_err(|error| told(error.to_string()))
    }

    async fn component(&self) -> Result<&GuestProgram, ComponentError> {
        match &self.program {
            Program::Wasm { loader, loaded } => {
                loaded.get_or_try_init(|| loader.load(&self.path, self.digest)).await
            }
            Program::Native(_) => Err(ComponentError::NotACommand),
        }
    }
}
