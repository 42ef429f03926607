//! The parameters of one scan, and its question to a candidate for its schema. Does not choose
//! between the builds of a tool.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use ikigai_protocol::ToolSchema;
use tokio::sync::Semaphore;

use super::candidate::Candidate;
use super::file;
use super::loader::Loader;
use super::memo::{Memo, SchemaKey, SchemaReply};
use super::tool::Build;
use super::workspace_tool::WorkspaceToolsFn;
use super::{ScanDepth, before_deadline};
use crate::exec::arguments;
use crate::exec::envelope;
use crate::exec::output::Sink;
use crate::exec::wasm::ComponentError;
use crate::exec::{Call, Exit, Outcome};
use crate::limits::{CallLimits, Limit, STDERR_KEPT};
use crate::policy::{Authority, Backend, Denial, Grant, PolicyRequest, Sandbox, ToolOrigin};

/// The number of candidates asked at once per core. Most of them only wait for their process.
pub(super) const ASKED_PER_CORE: usize = 4;

/// The parameters of a scan.
pub(super) struct ScanContext {
    pub(super) dirs: Vec<(PathBuf, ToolOrigin)>,
    /// The tools of the workspace; `None` if it has none.
    pub(super) workspace_tools: Option<WorkspaceToolsFn>,
    /// The directories that were named explicitly. A missing one gets a warning.
    pub(super) required: Vec<PathBuf>,
    pub(super) authority: Arc<Authority>,
    pub(super) limits: CallLimits,
    pub(super) workspace: Arc<Path>,
    pub(super) loader: Arc<Loader>,
    pub(super) memo: Arc<Memo>,
    pub(super) depth: ScanDepth,
    pub(super) wanted: ScanTarget,
    /// The end of its wait for compilations.
    pub(super) deadline: Option<Instant>,
}

/// The components that a scan compiles and asks even if they are new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScanTarget {
    /// All components.
    All,
    /// No component: the tools of new ones are left out.
    Known,
    /// No component, but all servers.
    Servers,
    /// The components that could be the tool with this name, by their file names or by the answers
    /// of their native builds.
    Tool(String),
}

/// A build, and its answer.
pub(super) type CheckedBuild = (Arc<Build>, ToolSchema);

/// The reason why a candidate is not a tool.
#[derive(Clone, Debug)]
pub(super) enum CandidateRefusal {
    /// It failed. A failure never falls back to another build.
    Failed(String),
    /// The component cannot be used on this host at all.
    Unusable(String),
    /// The component is not compiled yet, and the scan does not compile it.
    NotCompiled,
    /// The component was not compiled before the deadline.
    Late,
}

impl CandidateRefusal {
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Failed(reason) | Self::Unusable(reason) => reason,
            Self::NotCompiled => "it is not compiled yet",
            Self::Late => "it was still being compiled",
        }
    }
}

impl ScanContext {
    /// Returns whether the scan looks for a tool with this name.
    pub(super) fn wants(&self, name: &str) -> bool {
        match &self.wanted {
            ScanTarget::Tool(wanted) => wanted == name,
            ScanTarget::All | ScanTarget::Known | ScanTarget::Servers => true,
        }
    }

    /// Asks one candidate, unless its answer is remembered.
    pub(super) async fn ask(
        &self,
        candidate: &Candidate,
    ) -> Result<CheckedBuild, CandidateRefusal> {
        self.ask_if(candidate, |_| true).await
    }

    /// Asks one candidate, unless it is a new component that is neither compiled nor wanted.
    pub(super) async fn ask_if_wanted(
        &self,
        candidate: &Candidate,
    ) -> Result<CheckedBuild, CandidateRefusal> {
        self.ask_if(candidate, |build| match &self.wanted {
            ScanTarget::All => true,
            ScanTarget::Tool(name) if file::is_called(&candidate.path, name) => true,
            ScanTarget::Known | ScanTarget::Servers | ScanTarget::Tool(_) => build.is_compiled(),
        })
        .await
    }

    async fn ask_if(
        &self,
        candidate: &Candidate,
        is_worth_it: impl FnOnce(&Build) -> bool,
    ) -> Result<CheckedBuild, CandidateRefusal> {
        let build = self.build(candidate).await.map_err(CandidateRefusal::Failed)?;
        self.ask_build(candidate, build, is_worth_it).await
    }

    /// Asks the build of a candidate, unless it is new and not wanted.
    pub(super) async fn ask_build(
        &self,
        candidate: &Candidate,
        build: Arc<Build>,
        is_worth_it: impl FnOnce(&Build) -> bool,
    ) -> Result<CheckedBuild, CandidateRefusal> {
        let question = SchemaKey::new(candidate.backend, &candidate.path, build.digest);
        let remembered = self.memo.answer(&question);
        let is_new = remembered.is_none();
        let known = remembered.filter(|answer| !self.asks_again(candidate, &build, answer));
        let answer = match known {
            Some(answer) => answer,
            None if is_new && !is_worth_it(&build) => return Err(CandidateRefusal::NotCompiled),
            None => {
                let answer = self.ask_now(candidate, &build, is_new).await?;
                self.memo.keep_answer(question, answer.clone());
                answer
            }
        };
        match answer {
            SchemaReply::Schema { schema, wasi } => {
                build.remember_wasi(wasi);
                ToolSchema::parse(schema.to_string().as_bytes())
                    .map(|schema| (build, schema))
                    .map_err(|error| CandidateRefusal::Failed(error.to_string()))
            }
            SchemaReply::Refused(reason) | SchemaReply::TooCostly(reason) => {
                Err(CandidateRefusal::Failed(reason))
            }
            SchemaReply::Unusable(reason) => Err(CandidateRefusal::Unusable(reason)),
            // Server definitions are not asked in this way.
            SchemaReply::Server { .. } => {
                Err(CandidateRefusal::Failed("it is a server".to_owned()))
            }
        }
    }

    /// Returns the build in a candidate. Runs on its own thread, because the digest of a large file
    /// takes seconds, and tools that were already started have only one second to answer.
    pub(super) async fn build(&self, candidate: &Candidate) -> Result<Arc<Build>, String> {
        if !candidate.takes_long(&self.memo) {
            return Build::from_candidate(candidate, &self.memo, &self.loader);
        }
        let (candidate, memo, loader) =
            (candidate.clone(), Arc::clone(&self.memo), Arc::clone(&self.loader));
        tokio::task::spawn_blocking(move || Build::from_candidate(&candidate, &memo, &loader))
            .await
            .map_err(|error| error.to_string())?
    }

    /// Returns whether a candidate is asked again although its answer is remembered. The answer of
    /// a component depends only on its bytes. The answer of a native tool may depend on more.
    fn asks_again(&self, candidate: &Candidate, build: &Build, answer: &SchemaReply) -> bool {
        match (self.depth, answer) {
            // Another compilation could delay every command by its whole time limit.
            (ScanDepth::Remembered | ScanDepth::Failed, SchemaReply::TooCostly(_)) => {
                build.is_compiled()
            }
            (ScanDepth::Remembered, _) | (ScanDepth::Failed, SchemaReply::Schema { .. }) => false,
            (ScanDepth::Failed, _) => !matches!(answer, SchemaReply::Unusable(_)),
            (ScanDepth::Everything, _) => {
                candidate.backend == Backend::Native
                    || !matches!(answer, SchemaReply::Schema { .. })
            }
        }
    }

    /// Asks a build for its schema. If a native tool does not answer its first question in time,
    /// asks it once more: a first start may wait for the disk, and the refusal would be remembered.
    ///
    /// # Errors
    ///
    /// Fails if the call may succeed another time, so that the answer must not be remembered.
    async fn ask_now(
        &self,
        candidate: &Candidate,
        build: &Build,
        is_first: bool,
    ) -> Result<SchemaReply, CandidateRefusal> {
        let program = match before_deadline(self.deadline, build.program())
            .await
            .ok_or(CandidateRefusal::Late)?
        {
            Ok(program) => program,
            Err(error) if error.is_lasting() => {
                return Ok(SchemaReply::Unusable(error.to_string()));
            }
            Err(error @ ComponentError::TooCostly(_)) => {
                return Ok(SchemaReply::TooCostly(error.to_string()));
            }
            Err(error) => return Err(CandidateRefusal::Failed(error.to_string())),
        };
        self.check_wasi(candidate, build)
            .map_err(|denial| CandidateRefusal::Failed(denial.to_string()))?;
        let grant = self.authority.for_schema(&build.path, build.backend());
        let confined = build.backend() == Backend::Native && grant.sandbox != Sandbox::Off;
        let is_of_the_baseline = build.is_of_the_baseline();
        let mut outcome = program.run(self.schema_call(grant.clone())).await;
        let is_late = outcome.limit == Some(Limit::WallClock);
        if is_first && is_late && build.backend() == Backend::Native {
            outcome = program.run(self.schema_call(grant)).await;
        }
        let by_itself = confined && matches!(outcome.exit, Exit::Code(code) if code != 0);
        Ok(match check_answer(outcome) {
            Ok(schema) => {
                SchemaReply::Schema { schema: schema.to_value(), wasi: build.wasi().to_vec() }
            }
            Err(reason) if by_itself => {
                let path = build.path.display();
                SchemaReply::Refused(format!(
                    "{reason}. It was asked in a sandbox without your home and the workspace; \
                     `{path} --schema` asks it without one"
                ))
            }
            // Optimised code is faster, and may have room for deeper recursion.
            Err(reason) if is_of_the_baseline => return Err(CandidateRefusal::Failed(reason)),
            Err(reason) => SchemaReply::Refused(reason),
        })
    }

    /// Refuses a build of a version of WASI that may not run. It does not run to be asked either.
    fn check_wasi(&self, candidate: &Candidate, build: &Build) -> Result<(), Denial> {
        let name = build.expected_name();
        self.authority.check_wasi(&PolicyRequest {
            name: Some(&name),
            names: &build.names,
            registered: &build.registered,
            origin: candidate.origin,
            backend: build.backend(),
            fell_back: false,
            path: &build.path,
            program: build.wrapped_program(),
            contents: &[build.digest],
            wasi: build.wasi(),
            tool: None,
        })
    }

    fn schema_call(&self, grant: Grant) -> Call {
        Call {
            args: vec!["--schema".into()],
            stderr: Sink::Tail(STDERR_KEPT),
            grant: Arc::new(grant),
            limits: self.limits.for_schema(),
            ..Call::new(Arc::clone(&self.workspace))
        }
    }
}

/// Does work on each item in a task of its own, on at most `at_once` items at a time. Returns the
/// results in the order of the items.
pub(super) async fn in_tasks<I, F>(
    items: Vec<I>,
    at_once: usize,
    work: impl Fn(I) -> F,
) -> Vec<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(at_once));
    let tasks = items.into_iter().map(|item| {
        let (work, permits) = (work(item), Arc::clone(&permits));
        tokio::spawn(async move {
            let _permit = permits.acquire().await;
            work.await
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut results = Vec::with_capacity(tasks.len());
    for task in tasks {
        match task.await {
            Ok(result) => results.push(result),
            Err(error) => tracing::error!("a candidate was lost; this is a bug: {error}"),
        }
    }
    results
}

/// Returns the schema from a `--schema` call, after checking it.
///
/// # Errors
///
/// Fails if the call failed, or if the schema is not valid. The text says why.
fn check_answer(outcome: Outcome) -> Result<ToolSchema, String> {
    let answer = match (&outcome.limit, &outcome.exit) {
        (Some(Limit::WallClock), _) => Err("timeout".to_owned()),
        (Some(Limit::Output), _) => {
            Err(format!("schema is over {} bytes", ikigai_protocol::MAX_SCHEMA_BYTES))
        }
        (Some(limit), _) => Err(format!("exceeded its limit on {}", limit.as_str())),
        (None, Exit::Code(0)) => {
            ToolSchema::parse(&outcome.stdout.bytes).map_err(|error| error.to_string())
        }
        (None, Exit::NotStarted(reason) | Exit::Denied(reason)) => {
            Err(format!("could not be started: {reason}"))
        }
        (None, Exit::Trap(reason)) => Err(format!("trapped: {reason}")),
        (None, exit) => {
            Err(format!("exited with {}", envelope::exit_code(exit).unwrap_or_default()))
        }
    };
    let complaint = outcome.stderr.complaint();
    let schema = answer.map_err(|reason| match &*complaint {
        "" => reason,
        complaint => format!("{reason}: {complaint}"),
    })?;
    arguments::compile(&schema.parameters)
        .map_err(|error| format!("`parameters` does not compile as JSON Schema: {error}"))?;
    Ok(schema)
}
