//! The requests of one call for more than it was granted, and the notes of the accesses that it
//! tried and used.
//!
//! The executors call it where they would refuse an access; it asks the user if the front end can
//! ask. Owns the limit on questions, their order, and the time of the call, which stands still
//! during a question. The policy owns the answers of a session.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ikigai_protocol::{Access, Digest};
use tokio::sync::oneshot;

use super::envelope::compact;
use crate::consent::{Proposals, Widen, WidenAnswer, WidenReply, in_words};
use crate::front_end::{FrontEnd, Recording};
use crate::limits::Deadline;
use crate::policy::{
    Authority, Backend, Decision, Net, PolicyRequest, Remedy, RequestedAccess, ToolOrigin,
    UsedAccess, is_public,
};
use crate::toolchain::ToolchainOffer;

/// The most questions of one call.
const QUESTIONS: usize = 8;

/// The largest number of distinct accesses that are noted per call. Further ones are only counted.
const NOTED: usize = 64;

/// The same number for a recorded call.
const RECORDED: usize = 65_536;

/// The largest number of characters that the user can tell a model about one call.
const TOLD: usize = 2_000;

/// The text for a model whose call did not run again, although the user allowed what it was
/// refused.
const ALLOWED_LATER: &str = "what this call was refused is allowed from now on; it did not run again, so call \
                             the tool again if its work is not done";

/// The word in the record for a question that was withdrawn before it was answered.
const CANCELLED: &str = "cancelled";

/// The program of a call, as it is described to the policy.
#[derive(Clone, Debug)]
pub(crate) struct CalledProgram {
    pub(crate) title: String,
    pub(crate) name: Option<String>,
    pub(crate) origin: ToolOrigin,
    pub(crate) backend: Backend,
    pub(crate) fell_back: bool,
    pub(crate) path: PathBuf,
    pub(crate) program: Option<PathBuf>,
    pub(crate) contents: Vec<Digest>,
}

impl CalledProgram {
    pub(super) fn request(&self) -> PolicyRequest<'_> {
        PolicyRequest {
            name: self.name.as_deref(),
            origin: self.origin,
            backend: self.backend,
            fell_back: self.fell_back,
            path: &self.path,
            program: self.program.as_deref(),
            contents: &self.contents,
            tool: None,
        }
    }
}

/// The open questions of a host. Equal questions of parallel calls are asked once, and different
/// questions are asked one after the other.
#[derive(Default)]
pub(crate) struct OpenQuestions {
    turn: tokio::sync::Mutex<()>,
    open: Mutex<Vec<SharedQuestion>>,
}

/// An open question, and the other calls that wait for its answer.
struct SharedQuestion {
    key: QuestionKey,
    waiting: Vec<oneshot::Sender<WidenAnswer>>,
}

/// The address of the loopback in the hint about it.
const LOOPBACK: &str = "127.0.0.1";

/// Everything that the user sees of a question. Two questions are equal if all of it is equal.
#[derive(Clone, PartialEq, Eq)]
struct QuestionKey {
    title: String,
    contents: Vec<Digest>,
    arguments: Bytes,
    reached: Vec<RequestedAccess>,
    again: bool,
}

/// The requests of one call for more than it was granted, and the notes about the call.
pub struct Widening {
    authority: Arc<Authority>,
    subject: CalledProgram,
    questions: Arc<OpenQuestions>,
    front_end: Option<Arc<dyn FrontEnd>>,
    deadline: Deadline,
    arguments: Bytes,
    /// The host's own addresses, such as the address of its asset store.
    own_peers: Arc<[(String, u16)]>,
    /// True if the policy permits questions to the user, by the decision under which the call runs.
    asks: AtomicBool,
    notes: Mutex<Notes>,
}

/// The notes about a call.
#[derive(Default)]
struct Notes {
    once: Vec<RequestedAccess>,
    questions: usize,
    asked: Vec<AnsweredQuestion>,
    refused: BTreeSet<RequestedAccess>,
    /// The refused accesses that a watched tool tried, perhaps only to see whether the file exists.
    probed: BTreeSet<RequestedAccess>,
    /// The links through which a watched tool named files that it does not see.
    links: BTreeSet<PathBuf>,
    /// The programs of toolchains that the tool said were not found.
    programs: BTreeSet<&'static str>,
    /// The ports of the sandbox's own loopback on which the tool found no server.
    own_loopback: BTreeSet<u16>,
    /// True if the tool said that a file was not found, or may not be used.
    misses_files: bool,
    refusals: u64,
    permitted: BTreeSet<RequestedAccess>,
    used: BTreeSet<UsedAccess>,
    told: Vec<String>,
    withheld: Vec<String>,
    is_unwatched: bool,
}

/// An answered question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnsweredQuestion {
    pub(crate) what: String,
    pub(crate) answer: &'static str,
    pub(crate) waited: Duration,
}

/// The notes about a call at its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallNotes {
    pub(crate) asked: Vec<AnsweredQuestion>,
    /// The first accesses that were refused, each once.
    pub(crate) refused: Vec<RequestedAccess>,
    /// The number of refusals, repetitions included.
    pub(crate) refusals: u64,
    /// The first accesses beyond the grant that a permissive recording let the tool have, each
    /// once.
    pub(crate) permitted: Vec<RequestedAccess>,
    pub(crate) used: Vec<UsedAccess>,
    pub(crate) told: Vec<String>,
    /// The files that the call made and that were set aside.
    pub(crate) withheld: Vec<String>,
    /// True if it was a native call that was not watched, so that its file accesses are unknown.
    pub(crate) is_unwatched: bool,
}

/// The context of a call that may be widened.
pub(crate) struct WideningContext {
    pub(crate) authority: Arc<Authority>,
    pub(crate) questions: Arc<OpenQuestions>,
    pub(crate) front_end: Option<Arc<dyn FrontEnd>>,
    pub(crate) deadline: Deadline,
    pub(crate) own_peers: Arc<[(String, u16)]>,
}

impl CallNotes {
    /// Returns all accesses beyond the grant, including those that a recording permitted.
    pub(crate) fn beyond_the_grant(&self) -> Vec<RequestedAccess> {
        let all: BTreeSet<&RequestedAccess> = self.refused.iter().chain(&self.permitted).collect();
        all.into_iter().cloned().collect()
    }
}

impl Widening {
    /// Returns the widening of a call of this program.
    pub(crate) fn new(
        surroundings: WideningContext,
        subject: CalledProgram,
        arguments: Bytes,
    ) -> Self {
        let WideningContext { authority, questions, front_end, deadline, own_peers } = surroundings;
        Self {
            authority,
            subject,
            questions,
            front_end,
            deadline,
            arguments,
            own_peers,
            asks: AtomicBool::new(false),
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

    /// Returns how the call is recorded, if it is.
    #[must_use]
    pub fn recording(&self) -> Option<Recording> {
        self.front_end.as_ref()?.recording()
    }

    /// Returns whether the call is recorded and may read beyond its grant during the recording.
    pub(crate) fn is_permissive(&self) -> bool {
        self.recording().is_some_and(|recording| recording.permissive)
    }

    /// Returns the paths that a permissive recording does not show, with links resolved.
    pub(crate) fn kept_from_recordings(&self) -> Vec<PathBuf> {
        self.authority.kept_from_recordings()
    }

    /// Returns whether a permissive recording lets the tool have an access beyond its grant. It may
    /// read everything except places of secrets and the host's own files. It may connect if the
    /// recording says so.
    pub(crate) fn recording_permits(&self, reached: &RequestedAccess) -> bool {
        let Some(Recording { permissive, net }) = self.recording() else { return false };
        match reached {
            RequestedAccess::Path { access: Access::ReadOnly, path } => {
                permissive && !self.authority.keeps_from_recordings(path)
            }
            RequestedAccess::Path { .. } => false,
            RequestedAccess::Peer { host, .. } => {
                let is_private = host.parse().is_ok_and(|ip| !is_public(ip));
                net && !is_private && !self.is_of_the_host(reached)
            }
            RequestedAccess::Host { .. } => net && !self.is_of_the_host(reached),
            RequestedAccess::Run => permissive,
        }
    }

    /// Returns whether a native call is watched for the accesses that it tries: if it is recorded,
    /// or if the user can be asked about it.
    #[must_use]
    pub fn watches(&self) -> bool {
        self.recording().is_some() || self.can_ask()
    }

    /// Returns whether the tool may have this access, after asking the user if that is needed and
    /// possible. Notes an access that is refused.
    pub async fn may(&self, reached: RequestedAccess) -> bool {
        if self.is_granted(&reached) {
            return true;
        }
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

    /// Returns what the user can do if this machine's sandbox cannot confine the tool. Returns
    /// nothing if the tool does not run without a sandbox.
    pub(crate) fn without_sandbox(&self) -> Option<Remedy> {
        let request = self.subject.request();
        if request.origin != ToolOrigin::User || request.backend != Backend::Native {
            return None;
        }
        let Some(name) = request.name else { return Some(Remedy::InstallAsTool) };
        self.authority.propose_unconfined(&request)?;
        Some(Remedy::RunUnconfined { tool: name.to_owned() })
    }

    /// Returns the peers that the tool may reach, including those that the user allowed.
    pub(crate) fn net(&self) -> Net {
        let decision = self.authority.decide_widened(&self.subject.request(), &self.once());
        decision.map(|decision| decision.grant.net).unwrap_or_default()
    }

    /// Asks whether the tool may have this access, if the user can be asked about it. An answer to
    /// another question may have allowed it in the meantime.
    pub(crate) async fn ask(&self, reached: &RequestedAccess) -> bool {
        if self.is_granted(reached) {
            return true;
        }
        // The call's clock is not stopped for a question that cannot be asked.
        if !self.is_open(reached) || !self.has_questions_left() {
            return false;
        }
        let _stopped = self.deadline.stop();
        let key = self.key(vec![reached.clone()], false);
        while let Some(waiting) = self.join(&key) {
            // The call that asks may be cancelled. Then this call asks.
            if let Ok(answer) = waiting.await {
                return self.note(&key.reached, &answer, Duration::ZERO);
            }
        }
        let _closing = QuestionGuard { questions: &self.questions, key: &key };
        let _turn = self.questions.turn.lock().await;
        // Another question may have answered this one during the wait.
        if self.is_granted(reached) || !self.is_open(reached) {
            return self.is_granted(reached) || self.session_allows(reached);
        }
        self.put(&key, &key.reached, None).await
    }

    /// Asks in one question whether a tool whose run failed may run again, with everything that it
    /// was refused or with the toolchains that it lacked.
    pub(crate) async fn ask_to_repeat(&self) -> bool {
        if !self.has_questions_left() {
            return false;
        }
        let places = self.missed_places();
        let lacks_toolchains = self.toolchains_to_ask_about().is_some();
        if places.is_empty() && !lacks_toolchains {
            return false;
        }
        let _stopped = self.deadline.stop();
        let key = self.key(places, true);
        while let Some(waiting) = self.join(&key) {
            if let Ok(answer) = waiting.await {
                return self.note(&key.reached, &answer, Duration::ZERO);
            }
        }
        let _closing = QuestionGuard { questions: &self.questions, key: &key };
        let _turn = self.questions.turn.lock().await;
        // The user may have refused another question. Accesses that another answer allowed stay in
        // this question: the tool runs again only if the user says so.
        let places = key.reached.iter().filter(|it| self.may_be_allowed(it));
        let places: Vec<RequestedAccess> = places.cloned().collect();
        let toolchains = lacks_toolchains.then(|| self.toolchains_to_ask_about()).flatten();
        let is_open = !places.is_empty() || toolchains.is_some();
        is_open && self.put(&key, &places, toolchains).await
    }

    /// Asks the open question about these accesses, and gives its answer to the calls that wait for
    /// it. Without an access the question is about the toolchains.
    async fn put(
        &self,
        key: &QuestionKey,
        reached: &[RequestedAccess],
        toolchains: Option<ToolchainOffer>,
    ) -> bool {
        let front_end = self.front_end.clone().filter(|front_end| front_end.can_widen());
        let Some(front_end) = front_end.filter(|_| self.has_questions_left()) else { return false };
        self.notes().questions += 1;
        let request = self.subject.request();
        let of_toolchains = toolchains.as_ref().map(ToolchainOffer::accesses).unwrap_or_default();
        let wanted = if reached.is_empty() { &of_toolchains[..] } else { reached };
        let always = (!reached.is_empty())
            .then(|| self.authority.propose_widened(&request, reached).ok())
            .flatten();
        let unconfined = self.authority.propose_unconfined(&request);
        let proposals = Proposals { always, unconfined, toolchains };
        let about = (self.subject.title.as_str(), self.subject.contents.clone());
        let arguments = compact(&String::from_utf8_lossy(&self.arguments));
        let rules: BTreeSet<String> = wanted.iter().map(|it| self.denied_by(it)).collect();
        let denied_by = rules.into_iter().collect::<Vec<_>>().join(", ");
        let refused = (reached.to_vec(), denied_by.as_str());
        let question = Widen::new(about, refused, &arguments, key.again, proposals);
        let since = Instant::now();
        let shown = ShownQuestion { widening: self, reached: wanted, since, is_answered: false };
        let WidenReply { answer, waited } = front_end.widen(&question).await;
        shown.answered();
        // The other calls wait for an answer about all of the accesses.
        if reached == key.reached {
            self.answer_others(key, &answer);
        }
        if answer.refuses() {
            of_toolchains.iter().for_each(|it| self.authority.answered(&request, it, false));
        }
        self.note(wanted, &answer, waited)
    }

    /// Returns whether a user is present who was not asked too often about this call.
    fn has_questions_left(&self) -> bool {
        let is_there = self.front_end.as_ref().is_some_and(|front_end| front_end.can_widen());
        is_there && self.notes().questions < QUESTIONS
    }

    /// Returns whether the tool may have the access already, under the current policy.
    fn is_granted(&self, reached: &RequestedAccess) -> bool {
        let decision = self.authority.decide_widened(&self.subject.request(), &self.once());
        *reached != RequestedAccess::Run
            && decision.is_ok_and(|decision| decision.grant.shows(reached))
    }

    /// Returns whether the user may be asked about an access and has not answered yet.
    fn is_open(&self, reached: &RequestedAccess) -> bool {
        !self.session_allows(reached) && self.may_be_allowed(reached)
    }

    /// Returns whether the user could allow an access and did not refuse it.
    fn may_be_allowed(&self, reached: &RequestedAccess) -> bool {
        let (request, once) = (self.subject.request(), self.once());
        !self.is_of_the_host(reached) && self.authority.may_ask(&request, &once, reached)
    }

    /// Returns whether the user has allowed the access in this session.
    fn session_allows(&self, reached: &RequestedAccess) -> bool {
        self.authority.was_allowed(&self.subject.request(), reached)
    }

    /// Returns the rules that do not grant this access.
    fn denied_by(&self, reached: &RequestedAccess) -> String {
        let decision = match self.authority.decide(&self.subject.request()) {
            Ok(decision) => decision,
            Err(denial) => {
                let rule = denial.provenance.map(|it| it.to_string()).unwrap_or_default();
                let allowed =
                    self.authority.decide_widened(&self.subject.request(), &[RequestedAccess::Run]);
                let would = allowed.map_or_else(
                    |_| String::new(),
                    |decision| {
                        format!(
                            "; if it is allowed, it may {}",
                            in_words(&decision, self.subject.backend)
                        )
                    },
                );
                return format!("{rule}: {}{would}", denial.reason);
            }
        };
        let capability = match reached {
            RequestedAccess::Path { .. } => "fs",
            RequestedAccess::Peer { .. } | RequestedAccess::Host { .. } => "net",
            RequestedAccess::Run => "sandbox",
        };
        let rules = decision.provenance.for_capability(capability).iter().map(ToString::to_string);
        rules.collect::<Vec<_>>().join(", ")
    }

    /// Joins an equal open question, and returns the channel of its answer. If no equal question is
    /// open, opens this one and returns nothing.
    fn join(&self, key: &QuestionKey) -> Option<oneshot::Receiver<WidenAnswer>> {
        let mut open = self.questions.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(equal) = open.iter_mut().find(|it| it.key == *key) {
            let (answer, waiting) = oneshot::channel();
            equal.waiting.push(answer);
            return Some(waiting);
        }
        open.push(SharedQuestion { key: key.clone(), waiting: Vec::new() });
        None
    }

    fn key(&self, reached: Vec<RequestedAccess>, again: bool) -> QuestionKey {
        let CalledProgram { title, contents, .. } = &self.subject;
        let (title, contents) = (title.clone(), contents.clone());
        QuestionKey { title, contents, arguments: self.arguments.clone(), reached, again }
    }

    /// Gives the answer to the calls that wait for it.
    fn answer_others(&self, key: &QuestionKey, answer: &WidenAnswer) {
        let mut open = self.questions.open.lock().unwrap_or_else(PoisonError::into_inner);
        let equal = open.iter_mut().find(|it| it.key == *key);
        for waiting in equal.map(|it| std::mem::take(&mut it.waiting)).unwrap_or_default() {
            // Its call may have been cancelled.
            let _ = waiting.send(answer.clone());
        }
    }

    /// Notes an answer. Returns whether this call may have the accesses.
    fn note(&self, reached: &[RequestedAccess], answer: &WidenAnswer, waited: Duration) -> bool {
        let request = self.subject.request();
        let in_session = match answer {
            // The next decision reads the file that was written. This call does not wait for it.
            WidenAnswer::Session | WidenAnswer::Later | WidenAnswer::Always => Some(true),
            WidenAnswer::No | WidenAnswer::Tell(_) | WidenAnswer::Timeout => Some(false),
            // The file that was written says more than these accesses.
            WidenAnswer::Once
            | WidenAnswer::Unconfined
            | WidenAnswer::Toolchain
            | WidenAnswer::Unavailable(_) => None,
        };
        if let Some(allowed) = in_session {
            reached.iter().for_each(|it| self.authority.answered(&request, it, allowed));
        }
        let mut notes = self.notes();
        let what = RequestedAccess::list(reached);
        notes.asked.push(AnsweredQuestion { what, answer: answer.as_str(), waited });
        if *answer == WidenAnswer::Once {
            notes.once.extend_from_slice(reached);
        }
        match answer {
            WidenAnswer::Tell(text) => notes.told.push(text.chars().take(TOLD).collect()),
            WidenAnswer::Later => notes.told.push(ALLOWED_LATER.to_owned()),
            _ => {}
        }
        answer.allows()
    }

    /// Notes an access beyond the grant, without a question. It was refused, unless a permissive
    /// recording lets the tool have it.
    pub fn refused(&self, reached: RequestedAccess) {
        if !self.recording_permits(&reached) {
            return self.withheld(reached);
        }
        let mut notes = self.notes();
        if notes.permitted.len() < RECORDED {
            notes.permitted.insert(reached);
        }
    }

    /// Notes an access that a watched tool tried. It may have looked whether there is such a file.
    pub(crate) fn probed(&self, reached: RequestedAccess) {
        self.notes().probed.insert(reached.clone());
        self.refused(reached);
    }

    /// Notes a link by which a watched tool named something that it does not see.
    pub(crate) fn missed_link(&self, link: PathBuf) {
        let mut notes = self.notes();
        if notes.links.len() < NOTED {
            notes.links.insert(link);
        }
    }

    /// Notes the programs of toolchains that the tool said were not found.
    pub(crate) fn missed_programs(&self, programs: BTreeSet<&'static str>) {
        self.notes().programs.extend(programs);
    }

    /// Notes the ports of the sandbox's own loopback on which the tool found no server.
    pub(crate) fn found_nobody_at_own_loopback(&self, ports: BTreeSet<u16>) {
        self.notes().own_loopback.extend(ports);
    }

    /// Notes that the tool said that a file was not found, or may not be used.
    pub(crate) fn missed_files(&self) {
        self.notes().misses_files = true;
    }

    /// Notes an access that was refused, even in a permissive recording.
    pub fn withheld(&self, reached: RequestedAccess) {
        let most = if self.recording().is_some() { RECORDED } else { NOTED };
        let mut notes = self.notes();
        notes.refusals += 1;
        if notes.refused.len() < most {
            notes.refused.insert(reached);
        }
    }

    /// Notes that a file of the call was set aside.
    pub(crate) fn set_aside(&self, text: String) {
        self.notes().withheld.push(text);
    }

    /// Notes that the call made use of a part of its grant.
    pub fn used(&self, used: UsedAccess) {
        let most = if self.recording().is_some() { RECORDED } else { NOTED };
        let mut notes = self.notes();
        if notes.used.len() < most {
            notes.used.insert(used);
        }
    }

    /// Notes that a native call was not watched, so that its files are not among the accesses.
    pub(crate) fn unwatched(&self) {
        self.notes().is_unwatched = true;
    }

    /// Returns the accesses that the user allowed for this call only. A tool that is recorded
    /// permissively runs in the sandbox, granted or not.
    pub(crate) fn once(&self) -> Vec<RequestedAccess> {
        let mut once = self.notes().once.clone();
        once.extend(self.is_permissive().then_some(RequestedAccess::Run));
        once
    }

    /// Returns whether these are the contents about which the policy and the user were asked.
    pub(crate) fn is_about(&self, contents: &[Digest]) -> bool {
        self.subject.contents == contents
    }

    /// Returns the places of the refused accesses about which the user may be asked, the place with
    /// the most refusals first.
    fn missed_places(&self) -> Vec<RequestedAccess> {
        let (refused, links) = {
            let notes = self.notes();
            (notes.refused.clone(), notes.links.clone())
        };
        let request = self.subject.request();
        let is_open = |it: &RequestedAccess| {
            self.may_be_allowed(it) && !self.authority.was_refused_around(&request, it)
        };
        let refused: Vec<RequestedAccess> = refused.into_iter().filter(is_open).collect();
        let may = |place: &RequestedAccess| self.may_be_allowed(place);
        self.authority.places_of(&refused, &links, &may)
    }

    /// Returns the toolchains that the run lacked, if the user may be asked about all of their
    /// directories.
    fn toolchains_to_ask_about(&self) -> Option<ToolchainOffer> {
        let request = self.subject.request();
        self.lacking_toolchains(&|it| {
            self.may_be_allowed(it) && !self.authority.was_refused_around(&request, it)
        })
    }

    /// Returns the toolchains that the run lacked, if all of their directories may be allowed.
    fn lacking_toolchains(&self, may: &dyn Fn(&RequestedAccess) -> bool) -> Option<ToolchainOffer> {
        let (paths, programs) = {
            let notes = self.notes();
            let refused = notes.refused.iter().filter_map(|reached| match reached {
                RequestedAccess::Path { path, .. } => Some(path),
                _ => None,
            });
            let paths: Vec<PathBuf> = refused.chain(&notes.links).cloned().collect();
            (paths, notes.programs.clone())
        };
        let request = self.subject.request();
        let offer = ToolchainOffer::find(&paths, &programs, &self.authority, &request)?;
        let accesses = offer.accesses();
        (!accesses.is_empty() && accesses.iter().all(may)).then_some(offer)
    }

    /// Forgets the refusals of a run that is followed by another.
    pub(crate) fn begin_again(&self) {
        let mut notes = self.notes();
        notes.refused.clear();
        notes.probed.clear();
        notes.links.clear();
        notes.programs.clear();
        notes.own_loopback.clear();
        notes.misses_files = false;
        notes.withheld.clear();
        notes.permitted.clear();
        notes.refusals = 0;
    }

    /// Returns the notes.
    pub(crate) fn noted(&self) -> CallNotes {
        let notes = self.notes();
        CallNotes {
            asked: notes.asked.clone(),
            refused: notes.refused.iter().cloned().collect(),
            refusals: notes.refusals,
            permitted: notes.permitted.iter().cloned().collect(),
            used: notes.used.iter().cloned().collect(),
            told: notes.told.clone(),
            withheld: notes.withheld.clone(),
            is_unwatched: notes.is_unwatched,
        }
    }

    /// Returns the command that would allow the refused accesses, if some of them may be allowed. A
    /// call that `succeeded` did not need the accesses that it only probed.
    pub(crate) fn allow_with(&self, succeeded: impl FnOnce() -> bool) -> Option<String> {
        let request = self.subject.request();
        let may = |it: &RequestedAccess| {
            !self.is_of_the_host(it)
                && !self.is_granted(it)
                && self.authority.could_allow(&request, it)
        };
        let (mut refused, mut probed, mut links, lacks_programs) = {
            let notes = self.notes();
            let lacks_programs = !notes.programs.is_empty();
            (notes.refused.clone(), notes.probed.clone(), notes.links.clone(), lacks_programs)
        };
        if refused.is_empty() && links.is_empty() && !lacks_programs {
            return None;
        }
        let has_failed = lacks_programs || probed.is_empty() && links.is_empty();
        let succeeded = !has_failed && succeeded();
        if !succeeded && let Some(offer) = self.lacking_toolchains(&may) {
            let toolchains = offer.found.iter().map(|found| found.toolchain.name.to_owned());
            let (tool, toolchains) = (request.name?.to_owned(), toolchains.collect());
            return self.authority.hint(&Remedy::WidenByToolchains { tool, toolchains });
        }
        if succeeded {
            refused.retain(|it| !probed.contains(it));
            probed.clear();
            links.clear();
        }
        let mut refused: Vec<RequestedAccess> = refused.into_iter().filter(may).collect();
        if !links.is_empty() || refused.iter().any(|it| probed.contains(it)) {
            refused = self.authority.places_of(&refused, &links, &may);
        }
        self.authority.command_for(&request, &refused)
    }

    /// Returns the hint for a tool that found no server on the sandbox's own loopback: it may have
    /// meant a server of this machine.
    pub(crate) fn loopback_hint(&self) -> Option<String> {
        let ports = self.notes().own_loopback.clone();
        let first = ports.first()?;
        let request = self.subject.request();
        let peer = |port: &u16| RequestedAccess::Peer { host: LOOPBACK.to_owned(), port: *port };
        let may = |it: &RequestedAccess| {
            !self.is_of_the_host(it) && self.authority.could_allow(&request, it)
        };
        let peers: Vec<RequestedAccess> = ports.iter().map(peer).filter(may).collect();
        let text = format!(
            "{LOOPBACK} in the sandbox is the tool's own, and nothing answered there on port {first}"
        );
        Some(match self.authority.command_for(&request, &peers) {
            Some(command) => format!("{text}; to reach a server of this machine: {command}"),
            None => text,
        })
    }

    /// Returns the hint for a tool that said that a file was not found, if nobody saw which files
    /// it was refused, but somebody would who can be asked.
    pub(crate) fn unwatched_hint(&self) -> Option<String> {
        let would_ask = self.asks.load(Ordering::Relaxed) && !self.watches();
        if !would_ask || !self.notes().misses_files {
            return None;
        }
        let tool = self.subject.name.clone()?;
        self.authority.hint(&Remedy::WatchAtTerminal { tool })
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

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes a question when this is dropped, answered or not. Calls that still wait then ask it
/// themselves.
struct QuestionGuard<'a> {
    questions: &'a OpenQuestions,
    key: &'a QuestionKey,
}

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        let mut open = self.questions.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|it| it.key != *self.key);
    }
}

/// A question that the user sees. If it is dropped without an answer, it was cancelled with its
/// call.
struct ShownQuestion<'a> {
    widening: &'a Widening,
    reached: &'a [RequestedAccess],
    since: Instant,
    is_answered: bool,
}

impl ShownQuestion<'_> {
    fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for ShownQuestion<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            let (what, waited) = (RequestedAccess::list(self.reached), self.since.elapsed());
            self.widening.notes().asked.push(AnsweredQuestion { what, answer: CANCELLED, waited });
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::consent::{ConsentQuestion, ConsentReply, Respondent};
    use crate::front_end::AnswerFuture;
    use crate::policy::{Overrides, PolicyFiles, RemedyHints};

    /// A front end that records.
    struct RecordingFrontEnd(Recording);

    impl FrontEnd for RecordingFrontEnd {
        fn respondent(&self) -> Respondent {
            Respondent::Person
        }

        fn ask<'a>(&'a self, _: &'a ConsentQuestion) -> AnswerFuture<'a, ConsentReply> {
            panic!("nobody is asked while a call is recorded")
        }

        fn recording(&self) -> Option<Recording> {
            Some(self.0)
        }
    }

    /// Returns the widening of a recorded call of a component, which no policy bounds. `own_peers`
    /// are the host's own addresses.
    pub(in crate::exec) fn recorded(recording: Recording, own_peers: &[(&str, u16)]) -> Widening {
        let files = PolicyFiles {
            ceiling: None,
            further_ceilings: Vec::new(),
            user: None,
            user_is_named: false,
            workspace: PathBuf::from("/nowhere"),
            home: None,
            state: None,
        };
        let overrides = Overrides::default();
        let authority =
            Authority::open(&files, overrides, Vec::new(), RemedyHints::default(), None);
        let own_peers = own_peers.iter().map(|(host, port)| ((*host).to_owned(), *port));
        let surroundings = WideningContext {
            authority: Arc::new(authority.expect("no file to read")),
            questions: Arc::default(),
            front_end: Some(Arc::new(RecordingFrontEnd(recording))),
            deadline: Deadline::default(),
            own_peers: own_peers.collect::<Vec<_>>().into(),
        };
        let subject = CalledProgram {
            title: "tool".to_owned(),
            name: Some("tool".to_owned()),
            origin: ToolOrigin::User,
            backend: Backend::Wasm,
            fell_back: false,
            path: PathBuf::from("/user/tool.wasm"),
            program: None,
            contents: vec![Digest::from_bytes(b"tool")],
        };
        Widening::new(surroundings, subject, Bytes::new())
    }

    fn peer(host: &str, port: u16) -> RequestedAccess {
        RequestedAccess::Peer { host: host.to_owned(), port }
    }

    #[test]
    fn the_addresses_of_the_host_are_known_by_every_name() {
        let own = [("Store.internal", 5432), ("localhost", 6000), ("192.0.2.7", 7000)];
        let widening = recorded(Recording::default(), &own);
        let of_the_host = |host: &str, port| widening.is_of_the_host(&peer(host, port));
        for (host, port) in [
            ("store.internal", 5432),
            ("STORE.INTERNAL", 5432),
            ("192.0.2.7", 7000),
            ("localhost", 6000),
            ("LocalHost", 6000),
            ("127.0.0.1", 6000),
            ("127.9.9.9", 6000),
            ("::1", 6000),
            ("[::1]", 6000),
            ("::ffff:127.0.0.1", 6000),
            ("0.0.0.0", 6000),
            ("::", 6000),
        ] {
            assert!(of_the_host(host, port), "{host} {port}");
        }
        for (host, port) in [
            ("store.internal", 5433),
            ("other.internal", 5432),
            ("127.0.0.1", 5432),
            ("127.0.0.1", 6001),
            ("192.0.2.8", 7000),
            ("192.0.2.7", 6000),
        ] {
            assert!(!of_the_host(host, port), "{host} {port}");
        }
        let file =
            RequestedAccess::Path { access: Access::ReadOnly, path: "/store.internal".into() };
        assert!(!widening.is_of_the_host(&file) && !widening.is_of_the_host(&RequestedAccess::Run));
    }

    #[test]
    fn an_access_that_a_recording_permits_is_not_noted_as_refused() {
        let path = |access, path: &str| RequestedAccess::Path { access, path: path.into() };
        let (read, write) =
            (path(Access::ReadOnly, "/data/list"), path(Access::ReadWrite, "/data/list"));
        for permissive in [false, true] {
            let widening = recorded(Recording { permissive, net: false }, &[]);
            widening.refused(read.clone());
            widening.refused(write.clone());
            let noted = widening.noted();
            assert_eq!(noted.refused.contains(&read), !permissive);
            assert!(noted.refused.contains(&write), "nothing is written beyond the grant");
            assert_eq!(noted.refusals, if permissive { 1 } else { 2 });
            assert_eq!(noted.beyond_the_grant(), [read.clone(), write.clone()]);
            widening.withheld(read.clone());
            assert_eq!(widening.noted().refused, [read.clone(), write.clone()]);
        }
    }

    #[test]
    fn a_recording_permits_to_read_and_where_it_says_so_public_peers() {
        let path = |access, path: &str| RequestedAccess::Path { access, path: path.into() };
        for (permissive, net) in [(false, false), (true, false), (true, true)] {
            let widening = recorded(Recording { permissive, net }, &[("store.test", 443)]);
            for (reached, permitted) in [
                (path(Access::ReadOnly, "/data/list"), permissive),
                (path(Access::ReadWrite, "/data/list"), false),
                (path(Access::ReadOnly, "/data/.env"), false),
                (path(Access::ReadOnly, "/etc/shadow"), false),
                // It contains a place of secrets.
                (path(Access::ReadOnly, "/etc"), false),
                (RequestedAccess::Run, permissive),
                (peer("1.1.1.1", 443), net),
                (peer("a.test", 443), net),
                (peer("store.test", 443), false),
                (peer("127.0.0.1", 443), false),
                (peer("10.0.0.1", 443), false),
                (peer("169.254.169.254", 80), false),
                (peer("::1", 443), false),
                (peer("::ffff:10.0.0.1", 443), false),
            ] {
                let is = widening.recording_permits(&reached);
                assert_eq!(is, permitted, "{reached} {permissive} {net}");
            }
        }
    }
}
