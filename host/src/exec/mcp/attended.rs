//! The front end of a call, as the server may use it: its forms, its reports, and the time of the
//! call. That time stands still while the user fills a form.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ikigai_protocol::{is_invisible, written_out};
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::front_end::{FormAnswer, FrontEnd, ServerForm, ToolProgress};
use crate::limits::DeadlineWatch;

/// The most forms in one call.
const FORMS: u32 = 16;

/// The most characters of a form's message.
const MESSAGE: usize = 2_000;

/// The longest time that all forms of one call together add to the call.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// The caller of a server, as the server may use it: the front end and the time of the call.
pub struct Attended<'a> {
    server: &'a str,
    front_end: Option<&'a dyn FrontEnd>,
    clock: &'a Clock,
    forms: AtomicU32,
}

impl<'a> Attended<'a> {
    pub(super) fn new(
        server: &'a str,
        front_end: Option<&'a dyn FrontEnd>,
        clock: &'a Clock,
    ) -> Self {
        Self { server, front_end, clock, forms: AtomicU32::new(0) }
    }

    /// Has the user fill a form of the server. The form is declined if the front end cannot ask, if
    /// its schema has characters that deceive, or if the call has had too many forms.
    pub async fn fill(&self, message: &str, schema: Map<String, Value>) -> FormAnswer {
        let Some(front_end) = self.front_end else { return FormAnswer::Declined };
        let is_over = self.forms.fetch_add(1, Ordering::Relaxed) >= FORMS;
        if is_over || schema.iter().any(|(key, value)| deceives(key) || any_deceives(value)) {
            tracing::warn!("a form of the server `{}` was declined", self.server);
            return FormAnswer::Declined;
        }
        let lines: Vec<String> = message.lines().map(written_out).collect();
        let mut message = lines.join("\n");
        if let Some((end, _)) = message.char_indices().nth(MESSAGE) {
            message.truncate(end);
            message.push('…');
        }
        let form = ServerForm { server: self.server.to_owned(), message, schema };
        let _stopped = self.clock.stop();
        front_end.fill(form).await
    }

    /// Passes on a report of the server.
    pub fn report(&self, progress: ToolProgress) {
        if let Some(front_end) = self.front_end {
            front_end.report(progress);
        }
    }
}

/// Returns whether a text has characters that the user does not see, or that deceive the user. Line
/// breaks do not count.
fn deceives(text: &str) -> bool {
    text.chars().any(|c| is_invisible(c) && !matches!(c, '\n' | '\t'))
}

fn any_deceives(value: &Value) -> bool {
    match value {
        Value::String(text) => deceives(text),
        Value::Array(items) => items.iter().any(any_deceives),
        Value::Object(members) => {
            members.iter().any(|(key, value)| deceives(key) || any_deceives(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The time of a call.
pub(super) struct Clock {
    remaining: watch::Sender<Remaining>,
    /// The extra time that the caller gives it.
    given: DeadlineWatch,
}

impl Clock {
    /// Returns a clock that ends at `deadline`, or later if the caller gives more time.
    pub(super) fn new(deadline: Instant, given: DeadlineWatch) -> Self {
        let remaining = watch::Sender::new(Remaining { deadline, left: LONGEST, stopped: None });
        Self { remaining, given }
    }

    /// Waits until the time is over.
    pub(super) async fn over(&self) {
        let (mut changes, mut given) = (self.remaining.subscribe(), self.given.clone());
        loop {
            let end = changes.borrow_and_update().end() + given.added();
            tokio::select! {
                biased;
                // The sender is `self`.
                _ = changes.changed() => {}
                _ = given.more() => {}
                () = sleep_until(end) => return,
            }
        }
    }

    /// Stops the clock until the returned guard is dropped. One form is open at a time.
    fn stop(&self) -> ClockPause<'_> {
        self.remaining.send_modify(|remaining| remaining.stop(Instant::now()));
        ClockPause(self)
    }
}

/// Stops a clock until this is dropped.
struct ClockPause<'a>(&'a Clock);

impl Drop for ClockPause<'_> {
    fn drop(&mut self) {
        self.0.remaining.send_modify(|remaining| remaining.go_on(Instant::now()));
    }
}

/// The time that is left to a call.
#[derive(Clone, Copy)]
struct Remaining {
    deadline: Instant,
    /// The time that forms may still add.
    left: Duration,
    /// The beginning of the form that is open.
    stopped: Option<Instant>,
}

impl Remaining {
    /// Returns the end of the call, if nothing more happens.
    fn end(self) -> Instant {
        if self.stopped.is_some() { self.deadline + self.left } else { self.deadline }
    }

    fn stop(&mut self, now: Instant) {
        self.stopped = Some(now);
    }

    fn go_on(&mut self, now: Instant) {
        let Some(since) = self.stopped.take() else { return };
        let added = now.saturating_duration_since(since).min(self.left);
        self.deadline += added;
        self.left -= added;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    use serde_json::json;

    use super::*;
    use crate::consent::{ConsentQuestion, ConsentReply, Respondent};
    use crate::front_end::AnswerFuture;
    use crate::limits::{CallLimits, Deadline};

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns the clock of a call that gets no more time.
    fn clock_until(end: Instant) -> Clock {
        Clock::new(end, Deadline::default().watch(&CallLimits::default()))
    }

    #[tokio::test]
    async fn a_call_that_was_given_more_time_is_not_over() {
        let limits = CallLimits { wall_clock: SECOND, ..CallLimits::default() };
        let deadline = Deadline::default();
        deadline.begin(&limits);
        let end = Instant::now().checked_sub(SECOND).expect("the machine runs longer");
        let clock = Clock::new(end, deadline.watch(&limits));
        let is_over = async || {
            tokio::select! {
                biased;
                () = clock.over() => true,
                () = std::future::ready(()) => false,
            }
        };
        assert!(is_over().await);
        deadline.extend(60 * SECOND);
        assert!(!is_over().await);
    }

    /// A user who accepts every form at once.
    #[derive(Default)]
    struct Quick(Mutex<Vec<ServerForm>>);

    impl FrontEnd for Quick {
        fn respondent(&self) -> Respondent {
            Respondent::Person
        }

        fn ask<'a>(&'a self, _: &'a ConsentQuestion) -> AnswerFuture<'a, ConsentReply> {
            unreachable!("nothing asks for consent here")
        }

        fn fill(&self, form: ServerForm) -> AnswerFuture<'_, FormAnswer> {
            self.0.lock().expect("no panic").push(form);
            Box::pin(std::future::ready(FormAnswer::Accepted(Map::new())))
        }
    }

    /// Returns the answer to a form that is answered at once.
    fn fill(attended: &Attended<'_>, message: &str, schema: Map<String, Value>) -> FormAnswer {
        let answer = pin!(attended.fill(message, schema));
        match answer.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(filled) => filled,
            Poll::Pending => unreachable!("the person answers at once"),
        }
    }

    #[test]
    fn the_time_of_a_call_stands_still_while_a_form_is_open() {
        let begun = Instant::now();
        let mut remaining =
            Remaining { deadline: begun + 60 * SECOND, left: LONGEST, stopped: None };
        remaining.stop(begun + 10 * SECOND);
        assert_eq!(remaining.end(), begun + 60 * SECOND + LONGEST);
        remaining.go_on(begun + 110 * SECOND);
        assert_eq!(remaining.end(), begun + 160 * SECOND);
        remaining.stop(begun + 120 * SECOND);
        assert_eq!(remaining.end(), begun + 60 * SECOND + LONGEST);
        remaining.go_on(begun + 220 * SECOND);
        assert_eq!(remaining.end(), begun + 260 * SECOND);
    }

    #[test]
    fn the_clock_stands_still_as_long_as_somebody_waits_for_a_form() {
        struct SlowRespondent;

        impl FrontEnd for SlowRespondent {
            fn respondent(&self) -> Respondent {
                Respondent::Person
            }

            fn ask<'a>(&'a self, _: &'a ConsentQuestion) -> AnswerFuture<'a, ConsentReply> {
                unreachable!("nothing asks for consent here")
            }

            fn fill(&self, _: ServerForm) -> AnswerFuture<'_, FormAnswer> {
                Box::pin(std::future::pending())
            }
        }

        let clock = clock_until(Instant::now() + SECOND);
        let attended = Attended::new("files", Some(&SlowRespondent), &clock);
        let is_stopped = || clock.remaining.borrow().stopped.is_some();
        assert!(!is_stopped());
        {
            let answer = pin!(attended.fill("?", Map::new()));
            assert!(answer.poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert!(is_stopped());
        }
        assert!(!is_stopped());
    }

    #[test]
    fn forms_cannot_stop_the_time_for_ever() {
        let begun = Instant::now();
        let mut remaining =
            Remaining { deadline: begun + 60 * SECOND, left: LONGEST, stopped: None };
        remaining.stop(begun);
        remaining.go_on(begun + LONGEST + SECOND);
        assert_eq!(remaining.end(), begun + 60 * SECOND + LONGEST);
        remaining.stop(begun + LONGEST + SECOND);
        assert_eq!(remaining.end(), begun + 60 * SECOND + LONGEST);
    }

    #[test]
    fn forms_are_counted_and_say_what_a_person_sees() {
        let clock = clock_until(Instant::now() + SECOND);
        let person = Quick::default();
        let attended = Attended::new("files", Some(&person), &clock);
        let schema = |text: &str| match json!({ "properties": { "a": { "title": text } } }) {
            Value::Object(schema) => schema,
            _ => unreachable!("it is an object"),
        };
        let long = format!("a\u{202e}b\n{}", "x".repeat(5_000));
        assert_eq!(fill(&attended, &long, schema("a b")), FormAnswer::Accepted(Map::new()));
        let shown = person.0.lock().expect("no panic")[0].clone();
        assert_eq!(shown.server, "files");
        assert!(shown.message.starts_with("a\\u{202e}b\n"), "{}", shown.message);
        assert_eq!(shown.message.chars().count(), MESSAGE + 1);
        assert_eq!(fill(&attended, "?", schema("a\u{200b}b")), FormAnswer::Declined);
        for _ in 2..FORMS {
            assert_eq!(fill(&attended, "?", Map::new()), FormAnswer::Accepted(Map::new()));
        }
        assert_eq!(fill(&attended, "?", Map::new()), FormAnswer::Declined);
        let nobody = Attended::new("files", None, &clock);
        assert_eq!(fill(&nobody, "?", Map::new()), FormAnswer::Declined);
    }
}
