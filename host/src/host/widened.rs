//! The questions by which the user widens what a call may touch. They are about the call itself,
//! the files that its arguments name, and the accesses that a native tool was refused.
//!
//! A component's executor asks about the files and peers that the component tries to use.

use std::sync::Arc;

use ikigai_protocol::Digest;

use super::attempt::denied;
use super::in_flight::{Agreement, CHANGED, CallInFlight, Cancelled};
use super::request;
use crate::exec::envelope::did_its_work;
use crate::exec::output::Sink;
use crate::exec::widening::{Widening, WideningContext};
use crate::exec::{Outcome, Stdin};
use crate::policy::{Backend, CalledProgram, Decision, Denial, Remedy, RequestedAccess};
use crate::registry::reaching;

impl CallInFlight<'_> {
    /// Returns the questions and notes of the call. Returns `None` for a server's tool, because
    /// calls share the server's process.
    pub(super) fn widening(&self, contents: &[Digest]) -> Option<Arc<Widening>> {
        if self.backend() == Backend::Mcp {
            return None;
        }
        let context = WideningContext {
            authority: Arc::clone(self.host.registry.authority()),
            questions: Arc::clone(&self.host.questions),
            front_end: self.call.front_end.clone(),
            deadline: self.call.deadline.clone(),
            own_peers: Arc::clone(&self.host.own_peers),
        };
        let program = CalledProgram::from(request(self.target, contents));
        let arguments = self.arguments().cloned().unwrap_or_default();
        Some(Arc::new(Widening::new(context, program, arguments)))
    }

    /// Asks whether a tool that the policy denied for want of a grant may run.
    ///
    /// # Errors
    ///
    /// Fails if the call may not run. The outcome says why.
    pub(super) async fn ask_to_run(
        &mut self,
        denial: &Denial,
    ) -> Result<Agreement<'static>, Box<Outcome>> {
        if let Some(widening) = self.call.widening.clone()
            && is_for_want_of_a_grant(denial)
        {
            // The question must name the contents that run afterwards.
            let present = self.host.contents_to_run(self.target).await?;
            if self.backend() == Backend::Native && !widening.is_about(&present) {
                return Err(denied(CHANGED));
            }
            if self.may(&widening, RequestedAccess::Run).await? {
                return Ok(Agreement::Run);
            }
        }
        Err(denied(denial))
    }

    /// Asks whether the tool may use the files that the arguments name.
    ///
    /// # Errors
    ///
    /// Fails if the call was cancelled during a question.
    pub(super) async fn ask_about_paths<'d>(
        &mut self,
        decision: &'d Decision,
    ) -> Result<Option<Agreement<'d>>, Box<Outcome>> {
        let widening = self.call.widening.clone();
        let (Some(widening), Some(tool)) = (widening, self.tool) else { return Ok(None) };
        if decision.is_unconfined(self.backend()) {
            return Ok(None);
        }
        let (paths, workspace) = (tool.path_arguments(), &self.host.workspace);
        let arguments = self.arguments().cloned().unwrap_or_default();
        let questions = reaching::questions(paths, &arguments, workspace, &decision.grant);
        let mut is_wider = false;
        for reached in questions {
            is_wider |= self.may(&widening, reached).await?;
        }
        Ok(is_wider.then_some(Agreement::Accesses { before: decision }))
    }

    /// Asks whether a native tool whose run failed may run again, with the accesses that it was
    /// refused.
    ///
    /// # Errors
    ///
    /// Fails if the call was cancelled during the question.
    pub(super) async fn ask_to_repeat(&mut self, outcome: &Outcome) -> Result<bool, Cancelled> {
        let is_native = self.backend() == Backend::Native;
        let widening = self.call.widening.clone().filter(|_| is_native);
        let Some(widening) = widening else { return Ok(false) };
        // A call that read the host's own stdin cannot run again, because the input is consumed.
        let is_kept = matches!(self.call.stdin, Stdin::Bytes(_));
        let can_repeat = is_kept && widening.recording().is_none();
        let has_answer = !matches!(self.call.stdout, Sink::Forward(_));
        let ran = outcome.isolation.is_some() && !outcome.cancelled;
        // Many programs look for files that they do not need.
        if !can_repeat || !ran || did_its_work(outcome, has_answer) {
            return Ok(false);
        }
        self.call.cancel.run_until_cancelled(widening.ask_to_repeat()).await.ok_or(Cancelled)
    }

    /// Asks about an access, unless the call is cancelled. Notes a refusal.
    async fn may(
        &mut self,
        widening: &Widening,
        reached: RequestedAccess,
    ) -> Result<bool, Box<Outcome>> {
        let may = self.call.cancel.run_until_cancelled(widening.ask(&reached)).await;
        let may = may.ok_or_else(|| Box::new(Outcome::cancelled()))?;
        if !may {
            widening.refused(reached);
        }
        Ok(may)
    }
}

/// Returns whether a call was denied because the contents of its tool are not granted.
fn is_for_want_of_a_grant(denial: &Denial) -> bool {
    matches!(denial.remedy.as_deref(), Some(Remedy::GrantToRun { .. } | Remedy::GrantAgain { .. }))
}
