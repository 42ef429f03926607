//! The user at the terminal, who is asked before a call may do more than its grant allows.
//!
//! Owns the words of the questions, and how many there may be. The terminal owns the keys, and the
//! host the meaning of an answer.

mod alone;
mod words;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use ikigai_host::consent::{
    ConsentAnswer as Agreed, ConsentQuestion as Approved, ConsentReply, Respondent, Widen,
    WidenAnswer, WidenReply,
};
use ikigai_host::front_end::{AnswerFuture, FrontEnd};
use ikigai_host::policy::{Proposal, RequestedAccess};
use ikigai_terminal::Screen;
use ikigai_terminal::question::{KeyQuestion, KeyReply, QuestionSender};
use tokio::sync::oneshot;

use alone::Alone;
pub(crate) use words::UNCONFINED_MEANS;

/// The most questions in one turn.
const MOST: u32 = 32;

/// The user at the terminal.
pub(crate) struct Person {
    place: Box<dyn QuestionTerminal>,
    /// Writes a line to the user.
    say: Box<dyn Fn(&str) + Send + Sync>,
    /// True if a running tool shares the terminal: it could draw over a question, or under it.
    only_before: bool,
    /// True if further calls may follow in this program, so that an answer can apply to them.
    has_session: bool,
    /// The number of questions in this turn.
    asked: AtomicU32,
    /// True if ikigai has already warned in this turn that there are too many questions.
    is_told: AtomicBool,
}

/// The future of an answer; `None` if the terminal is gone.
type PendingAnswer<'a> = Pin<Box<dyn Future<Output = Option<KeyReply>> + Send + 'a>>;

/// The terminal that shows the questions.
trait QuestionTerminal: Send + Sync {
    /// Asks, and waits for the answer. Dropping the future withdraws the question.
    fn put(&self, question: KeyQuestion) -> PendingAnswer<'_>;

    /// Waits until no question uses the terminal any more.
    fn settle(&self) {}
}

impl QuestionTerminal for QuestionSender {
    fn put(&self, question: KeyQuestion) -> PendingAnswer<'_> {
        Box::pin(async move {
            let (sender, receiver) = oneshot::channel();
            let asked = self.ask(question, move |given| {
                // The call may have ended in the meantime.
                let _ = sender.send(given);
            });
            let given = receiver.await;
            drop(asked);
            given.ok()
        })
    }
}

/// The reason why a question has no answer.
enum UnaskedReason {
    /// There were too many questions.
    TooMany,
    /// The tool writes to the terminal of the questions.
    Shared,
    /// The terminal is gone.
    Gone,
}

impl Person {
    /// Returns the user at a line editor.
    pub(crate) fn beside(asker: QuestionSender, screen: Screen) -> Self {
        Self::new(asker, screen)
    }

    /// Returns the user at the terminal of stdin, without a line editor.
    pub(crate) fn alone(screen: Screen) -> Self {
        Self::new(Alone::new(screen.clone()), screen)
    }

    /// Returns the user who is asked about the only call of this program.
    pub(crate) fn about_one_call(screen: Screen) -> Self {
        Self { has_session: false, ..Self::alone(screen) }
    }

    /// Returns the user who shares the terminal with the tool, and is only asked before the tool
    /// runs.
    pub(crate) fn before_run(screen: Screen) -> Self {
        Self { only_before: true, ..Self::about_one_call(screen) }
    }

    fn new(place: impl QuestionTerminal + 'static, screen: Screen) -> Self {
        // If the terminal is gone, the next question fails.
        let say = move |line: &str| drop(screen.line(line));
        let (asked, is_told) = (AtomicU32::new(0), AtomicBool::new(false));
        Self {
            place: Box::new(place),
            say: Box::new(say),
            only_before: false,
            has_session: true,
            asked,
            is_told,
        }
    }

    /// Begins a turn. Its count of questions starts at zero.
    pub(crate) fn begin_turn(&self) {
        self.asked.store(0, Ordering::Relaxed);
        self.is_told.store(false, Ordering::Relaxed);
    }

    /// Waits until no question uses the terminal any more. Call this before the program ends.
    pub(crate) fn settle(&self) {
        self.place.settle();
    }

    /// Asks, unless there were too many questions.
    async fn ask_counted(&self, question: KeyQuestion) -> Result<KeyReply, UnaskedReason> {
        if self.asked.fetch_add(1, Ordering::Relaxed) >= MOST {
            if !self.is_told.swap(true, Ordering::Relaxed) {
                (self.say)(&format!(
                    "warning: ikigai asked {MOST} questions in this turn; it denies the rest"
                ));
            }
            return Err(UnaskedReason::TooMany);
        }
        self.put(question).await
    }

    async fn put(&self, question: KeyQuestion) -> Result<KeyReply, UnaskedReason> {
        self.place.put(question).await.ok_or(UnaskedReason::Gone)
    }
}

/// Returns the last question before a change of the policy file is written.
type WriteQuestion = fn(&Widen, &Proposal) -> KeyQuestion;

/// The outcome of an attempt to write a change.
enum PolicyWrite {
    Yes,
    /// The user saw the change and declined it.
    No,
    /// The write failed, for this reason.
    Failed(String),
}

impl Person {
    /// Asks whether a tool may have more access, until there is an answer.
    async fn widened(&self, question: &Widen) -> Result<WidenAnswer, UnaskedReason> {
        if self.only_before && question.reached[..] != [RequestedAccess::Run] {
            return Err(UnaskedReason::Shared);
        }
        let first = words::widening(question, Ok(question.proposal.as_ref()), self.has_session);
        let mut given = self.ask_counted(first).await?;
        loop {
            let (proposal, last, answer) = match given {
                KeyReply::Key(words::ONCE) => return Ok(WidenAnswer::Once),
                KeyReply::Key(words::SESSION) => return Ok(WidenAnswer::Session),
                KeyReply::Key(words::LATER) => return Ok(WidenAnswer::Later),
                KeyReply::Key(words::ALWAYS) => {
                    let last: WriteQuestion = words::writing;
                    (question.proposal.as_ref(), last, WidenAnswer::Always)
                }
                KeyReply::Key(words::UNCONFINED) => {
                    let last: WriteQuestion = words::unconfining;
                    (question.unconfined.as_ref(), last, WidenAnswer::Unconfined)
                }
                KeyReply::Key(words::TOOLCHAIN) => {
                    let offer = question.toolchains.as_ref();
                    let last: WriteQuestion = words::granting_toolchains;
                    (offer.map(|offer| &offer.proposal), last, WidenAnswer::Toolchain)
                }
                KeyReply::Told(text) => return Ok(WidenAnswer::Tell(text)),
                KeyReply::Key(_) | KeyReply::Declined => return Ok(WidenAnswer::No),
                KeyReply::Silence => return Ok(WidenAnswer::Timeout),
            };
            let Some(proposal) = proposal else { return Ok(WidenAnswer::No) };
            let always = match self.written(last(question, proposal), proposal).await? {
                PolicyWrite::Yes => return Ok(answer),
                PolicyWrite::No => Ok(question.proposal.as_ref()),
                PolicyWrite::Failed(reason) => {
                    let path = proposal.path.display();
                    (self.say)(&format!("error: `{path}` was not written: {reason}"));
                    Err(reason)
                }
            };
            given = self.put(words::widening(question, always, self.has_session)).await?;
        }
    }

    /// Asks the `last` question before a change of the policy file, and writes the change if the
    /// user agrees.
    async fn written(
        &self,
        last: KeyQuestion,
        proposal: &Proposal,
    ) -> Result<PolicyWrite, UnaskedReason> {
        match self.put(last).await? {
            KeyReply::Key(words::YES) => Ok(match proposal.write() {
                Ok(()) => PolicyWrite::Yes,
                Err(error) => PolicyWrite::Failed(error.to_string()),
            }),
            _ => Ok(PolicyWrite::No),
        }
    }
}

impl UnaskedReason {
    fn reason(&self) -> String {
        match self {
            Self::TooMany => format!("the person was asked {MOST} times in this turn"),
            Self::Shared => "the tool has the terminal while it runs".to_owned(),
            Self::Gone => "the terminal is gone".to_owned(),
        }
    }
}

impl FrontEnd for Person {
    fn respondent(&self) -> Respondent {
        Respondent::Person
    }

    fn ask<'a>(&'a self, question: &'a Approved) -> AnswerFuture<'a, ConsentReply> {
        Box::pin(async move {
            let begun = Instant::now();
            let mut given = self.ask_counted(words::approval(question)).await;
            let mut agrees = matches!(given, Ok(KeyReply::Key(words::RUN)));
            if agrees && question.left_out > 0 {
                given = self.put(words::unseen(question)).await;
                agrees = matches!(given, Ok(KeyReply::Key(words::YES)));
            }
            let answer = match given {
                Ok(KeyReply::Key(_)) if agrees => Agreed::Yes,
                Ok(KeyReply::Told(text)) => Agreed::Tell(text),
                Ok(KeyReply::Key(_) | KeyReply::Declined) => Agreed::No,
                Ok(KeyReply::Silence) => Agreed::Timeout,
                Err(unasked) => Agreed::Unavailable(unasked.reason()),
            };
            ConsentReply { answer, waited: begun.elapsed() }
        })
    }

    fn can_widen(&self) -> bool {
        true
    }

    fn widen<'a>(&'a self, question: &'a Widen) -> AnswerFuture<'a, WidenReply> {
        Box::pin(async move {
            let begun = Instant::now();
            let answer = self.widened(question).await;
            let answer =
                answer.unwrap_or_else(|unasked| WidenAnswer::Unavailable(unasked.reason()));
            WidenReply { answer, waited: begun.elapsed() }
        })
    }
}

#[cfg(test)]
#[path = "person/tests.rs"]
mod tests;
