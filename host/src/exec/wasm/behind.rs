//! The change of a program from code of the baseline to optimised code, while it is called.
//!
//! [`super::compiler::behind`] owns the process that compiles.

use std::fs::File;
use std::process::Child;
use std::sync::{Arc, Weak};

use ikigai_protocol::Digest;
use parking_lot::RwLock;

use super::cache::ComponentCache;
use super::compiler::{Compiler, behind, exit};
use super::engine::{EngineKind, Tier};
use super::{CompiledCommand, ComponentError, GuestProgram, Runtime, code_version};

/// The state of a compilation in the background of a component's calls.
pub(crate) enum BackgroundCompilation {
    /// This process has begun it.
    Begun(Child),
    /// A process is at work for the same cache.
    OfAnother,
    /// It is done, it cannot be done, or it is not wanted.
    Over,
}

impl BackgroundCompilation {
    /// Waits for the process that was begun. Returns false if another process was at work, whose
    /// end is still to come.
    pub(crate) fn wait(&mut self) -> bool {
        match self {
            Self::Begun(process) => match process.wait() {
                Ok(status) => status.code() != Some(exit::BUSY),
                Err(error) => {
                    tracing::debug!("a compilation cannot be waited for: {error}");
                    true
                }
            },
            Self::OfAnother => false,
            Self::Over => true,
        }
    }
}

/// The code of a program that may be gone.
pub(crate) struct WeakProgram(Weak<RwLock<CompiledCommand>>);

impl GuestProgram {
    pub(crate) fn downgrade(&self) -> WeakProgram {
        WeakProgram(Arc::downgrade(&self.code))
    }
}

impl Runtime {
    /// Begins the compilation of the optimised code of a component whose baseline code runs.
    /// `source` opens its file, whose contents have this digest. The compilation continues if this
    /// process ends.
    pub(crate) fn optimise(
        &self,
        compiler: &Compiler,
        digest: &Digest,
        cache: &ComponentCache,
        source: impl FnOnce() -> Result<File, ComponentError>,
    ) -> BackgroundCompilation {
        let Some(dir) = cache.for_baseline() else { return BackgroundCompilation::Over };
        if self.why_unoptimised(digest, cache).is_some() {
            return BackgroundCompilation::Over;
        }
        match cache.lock_behind() {
            Ok(Some(lock)) => drop(lock),
            Ok(None) => return BackgroundCompilation::OfAnother,
            Err(error) => {
                tracing::debug!("the component {digest} stays as it is: {error}");
                return BackgroundCompilation::Over;
            }
        }
        match source().and_then(|source| behind::start(compiler, source, digest, dir)) {
            Ok(process) => BackgroundCompilation::Begun(process),
            Err(error) => {
                tracing::debug!("the component {digest} stays as it is: {error}");
                BackgroundCompilation::Over
            }
        }
    }

    /// Replaces the baseline of a program by optimised code, for its next calls, if the cache has
    /// it by now. Returns true if the program needs nothing more.
    pub(crate) fn improve(
        self: &Arc<Self>,
        program: &WeakProgram,
        digest: &Digest,
        cache: &ComponentCache,
    ) -> bool {
        let Some(code) = program.0.upgrade() else { return true };
        match self.load_compiled(digest, cache) {
            Some(Ok(better)) => {
                let better = better.code();
                *code.write() = better;
                true
            }
            Some(Err(error)) => {
                tracing::debug!("the component {digest} stays as it is: {error}");
                true
            }
            None => false,
        }
    }

    /// Returns the reason that a component keeps the code of the baseline. It lies with the code of
    /// the sequential engine: which engine a component needs is known when it is compiled.
    pub(crate) fn why_unoptimised(
        &self,
        digest: &Digest,
        cache: &ComponentCache,
    ) -> Option<String> {
        let fingerprint = code_version::fingerprint(Tier::Optimised, EngineKind::Sequential);
        cache.why_unoptimised(fingerprint, digest)
    }
}
