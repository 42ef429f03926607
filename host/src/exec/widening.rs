//! The requests of one call for more than it was granted, and the notes of the accesses that it
//! tried and used.
//!
//! The executors call it where they would refuse an access; it asks the user if the front end can
//! ask. Owns the limit on questions, their order, and the time of the call, which stands still
//! during a question. The policy owns the answers of a session.

mod asking;
mod hints;
mod notes;
mod questions;
mod recording;
#[cfg(test)]
pub(super) mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use ikigai_protocol::{Access, Digest};
use parking_lot::Mutex;

use self::notes::Notes;
use crate::front_end::FrontEnd;
use crate::limits::Deadline;
use crate::policy::{Authority, CalledProgram, Decision, Grant, Net, RequestedAccess};

pub(crate) use self::notes::CallNotes;
pub(crate) use self::questions::OpenQuestions;

/// The requests of one call for more than it was granted, and the notes about the call.
pub struct Widening {
    authority: Arc<Authority>,
    program: CalledProgram,
    questions: Arc<OpenQuestions>,
    front_end: Option<Arc<dyn FrontEnd>>,
    deadline: Deadline,
    arguments: Bytes,
    /// The host's own addresses, such as the address of its asset store.
    own_peers: Arc<[(String, u16)]>,
    /// True if the policy permits questions to the user, by the decision under which the call runs.
    asks: AtomicBool,
    /// True if an answer let the tool write to a path while it ran.
    may_write: AtomicBool,
    notes: Mutex<Notes>,
}

/// The context of a call that may be widened.
pub(crate) struct WideningContext {
    pub(crate) authority: Arc<Authority>,
    pub(crate) questions: Arc<OpenQuestions>,
    pub(crate) front_end: Option<Arc<dyn FrontEnd>>,
    pub(crate) deadline: Deadline,
    pub(crate) own_peers: Arc<[(String, u16)]>,
}

impl Widening {
    /// Returns the widening of a call of this program.
    pub(crate) fn new(context: WideningContext, program: CalledProgram, arguments: Bytes) -> Self {
        let WideningContext { authority, questions, front_end, deadline, own_peers } = context;
        Self {
            authority,
            program,
            questions,
            front_end,
            deadline,
            arguments,
            own_peers,
            asks: AtomicBool::new(false),
            may_write: AtomicBool::new(false),
            notes: Mutex::default(),
        }
    }

    /// Notes the decision by which the call runs from now on.
    pub(crate) fn decided(&self, decision: &Decision) {
        self.asks.store(decision.ask, Ordering::Relaxed);
    }

    /// Returns whether the user can be asked about this call, or a permissive recording answers
    /// instead. For each access, the policy decides anew whether to ask. Before the
    /// [decision](Self::decided) no question is possible.
    #[must_use]
    pub fn can_ask(&self) -> bool {
        if self.is_permissive() {
            return true;
        }
        let can = self.front_end.as_ref().is_some_and(|front_end| front_end.can_widen());
        can && self.asks.load(Ordering::Relaxed)
    }

    /// Returns whether a native call is watched for the accesses that it tries: if it is recorded,
    /// or if the user can be asked about it.
    #[must_use]
    pub fn watches(&self) -> bool {
        self.recording().is_some() || self.can_ask()
    }

    /// Returns whether the tool may have this access, after asking the user if that is needed and
    /// possible. Notes an access that is refused. Records a directory in which the tool may now
    /// write.
    pub async fn may(&self, reached: RequestedAccess) -> bool {
        let is_write = matches!(reached, RequestedAccess::Path { access: Access::ReadWrite, .. });
        let may = self.is_granted(&reached) || self.permits(reached).await;
        if !may || !is_write {
            return may;
        }
        let may = self.record_writable();
        self.may_write.fetch_or(may, Ordering::Relaxed);
        may
    }

    /// Returns whether an answer let the tool write to a path while it ran.
    pub(crate) fn may_write(&self) -> bool {
        self.may_write.load(Ordering::Relaxed)
    }

    /// Asks about an access that is not granted. Notes an access that is refused.
    async fn permits(&self, reached: RequestedAccess) -> bool {
        if self.recording_permits(&reached) {
            self.refused(reached);
            return true;
        }
        let allowed = self.ask(&reached).await;
        if !allowed {
            self.refused(reached);
        }
        allowed
    }

    /// Records the directories in which the tool may write now: code in them is no longer trusted.
    /// Returns false if the recording failed, because then the tool must not write there.
    fn record_writable(&self) -> bool {
        let Some(grant) = self.grant() else { return false };
        let recorded = self.authority.record_writable(&grant);
        recorded.inspect_err(|reason| tracing::warn!("an access is refused: {reason}")).is_ok()
    }

    /// Returns the present grant of the tool, with the accesses that the user allowed. Returns
    /// `None` if the policy now denies the tool.
    pub(crate) fn grant(&self) -> Option<Grant> {
        let decision = self.authority.decide_widened(&self.program.request(), &self.once());
        decision.ok().map(|decision| decision.grant)
    }

    /// Returns the peers that the tool may reach, including those that the user allowed.
    pub(crate) fn net(&self) -> Net {
        self.grant().map(|grant| grant.net).unwrap_or_default()
    }

    /// Returns whether the tool may have the access already, under the current policy.
    fn is_granted(&self, reached: &RequestedAccess) -> bool {
        *reached != RequestedAccess::Run && self.grant().is_some_and(|grant| grant.shows(reached))
    }

    /// Returns whether the user could allow an access and did not refuse it.
    fn may_be_allowed(&self, reached: &RequestedAccess) -> bool {
        let (request, once) = (self.program.request(), self.once());
        !self.is_of_the_host(reached) && self.authority.may_ask(&request, &once, reached)
    }

    /// Returns whether the user has allowed the access in this session.
    fn session_allows(&self, reached: &RequestedAccess) -> bool {
        self.authority.was_allowed(&self.program.request(), reached)
    }

    /// Returns the accesses that the user allowed for this call only. A tool that is recorded
    /// permissively runs in the sandbox, granted or not.
    pub(crate) fn once(&self) -> Vec<RequestedAccess> {
        let mut once = self.notes.lock().once.clone();
        once.extend(self.is_permissive().then_some(RequestedAccess::Run));
        once
    }

    /// Returns whether these are the contents about which the policy and the user were asked.
    pub(crate) fn is_about(&self, contents: &[Digest]) -> bool {
        self.program.request().contents == contents
    }

    /// Returns whether an access is one to an address of the host's own.
    fn is_of_the_host(&self, reached: &RequestedAccess) -> bool {
        let (host, port) = match reached {
            RequestedAccess::Peer { host, port } => (host, Some(*port)),
            RequestedAccess::Host { host } => (host, None),
            RequestedAccess::Path { .. } | RequestedAccess::Run => return false,
        };
        let is_loopback = |host: &str| {
            host.eq_ignore_ascii_case("localhost")
                || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: IpAddr| {
                    // The kernel takes the unspecified address for the loopback.
                    let ip = ip.to_canonical();
                    ip.is_loopback() || ip.is_unspecified()
                })
        };
        self.own_peers.iter().any(|(own, own_port)| {
            port.is_none_or(|port| port == *own_port)
                && (own.eq_ignore_ascii_case(host) || is_loopback(own) && is_loopback(host))
        })
    }
}
