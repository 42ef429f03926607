//! Reading the answer to a question from the terminal, while the user may type other keys as well.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;
use signal_hook::SigId;
use signal_hook::flag;
use signal_hook::low_level::unregister;

use super::{KeyQuestion, KeyReply, QuestionState, Took};
use crate::editor::{Modes, Pressed, TypeAhead, WorkKey};
use crate::screen::Screen;

/// The interval of the checks whether the question should end.
const LOOK: Duration = Duration::from_millis(20);

/// The environment in which a question is asked.
pub(crate) struct QuestionContext<'a> {
    pub(crate) screen: &'a Screen,
    pub(crate) modes: &'a Modes,
    /// The lines for later, which take the keys that do not answer. Without this, those keys are
    /// lost.
    pub(crate) ahead: Option<&'a mut TypeAhead>,
    /// Returns whether the question was withdrawn.
    pub(crate) is_over: &'a dyn Fn() -> bool,
    /// A function for the keys that are for the work.
    pub(crate) on_key: &'a dyn Fn(WorkKey),
    /// A function that stops the program, needed if Ctrl-Z is a key and sends no signal. It returns
    /// when the program is continued.
    pub(crate) on_stop: Option<&'a dyn Fn() -> io::Result<()>>,
}

/// Asks `question` at the terminal, which must deliver single keys. Returns nothing if the question
/// was withdrawn.
///
/// # Errors
///
/// Fails if the terminal cannot be read from or written to.
pub(crate) fn read(
    question: &KeyQuestion,
    work: QuestionContext<'_>,
) -> io::Result<Option<KeyReply>> {
    let screen = work.screen;
    let continued = ResumeFlag::listen()?;
    screen.begin_question(question)?;
    let given = wait(question, work, &continued);
    // After an error too, since this writes the output that waits.
    let ended = screen.end_question(given.as_ref().ok().and_then(Option::as_ref));
    let given = given?;
    ended?;
    Ok(given)
}

fn wait(
    question: &KeyQuestion,
    work: QuestionContext<'_>,
    continued: &ResumeFlag,
) -> io::Result<Option<KeyReply>> {
    let QuestionContext { screen, modes, mut ahead, is_over, on_key, on_stop } = work;
    let mut asking = QuestionState::new(question, Instant::now());
    loop {
        screen.show_answer(&asking.shown())?;
        if is_over() {
            return Ok(None);
        }
        let since = Instant::now();
        if asking.is_silent(since) {
            return Ok(Some(KeyReply::Silence));
        }
        let found = look(&io::stdin(), || event::poll(Duration::ZERO))?;
        if found == TerminalState::Closed {
            return Ok(Some(KeyReply::Declined));
        }
        if continued.take() {
            // The shell has set its own modes, and written below the question.
            modes.reapply()?;
            screen.repeat_question()?;
            asking.again(Instant::now());
            continue;
        }
        if found == TerminalState::Nothing {
            asking.idle(since);
            continue;
        }
        let event = event::read()?;
        if let Some(stop) = on_stop
            && is_stop(&event)
        {
            stop()?;
            // The question is shown again here, even if the program was not stopped.
            continued.take();
            screen.repeat_question()?;
            asking.again(Instant::now());
            continue;
        }
        let is_alone = !event::poll(Duration::ZERO)?;
        let took = asking.press(&event, Instant::now(), is_alone);
        // This comes before the typed text, which must never appear next to keys that do not count
        // any more.
        screen.show_answer(&asking.shown())?;
        match took {
            Took::Given(given) => return Ok(Some(given)),
            Took::Line => {}
            Took::Details => screen.show_details()?,
            Took::Nothing => match &mut ahead {
                // The keys may need another number of rows.
                None if matches!(event, Event::Resize(..)) => screen.show_typed(Vec::new(), "")?,
                None => {}
                Some(ahead) => match ahead.press(event) {
                    Pressed::Typed => screen.show_typed(ahead.queued(), ahead.draft())?,
                    Pressed::Key(key) => on_key(key),
                },
            },
        }
    }
}

/// Returns true for Ctrl-Z.
fn is_stop(event: &Event) -> bool {
    let stop = KeyEvent::new(KeyCode::Char('z'), KeyModifiers::CONTROL);
    matches!(event, Event::Key(key) if *key == stop)
}

/// The state of the terminal after a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TerminalState {
    /// The reader of events has an event.
    Event,
    /// Nothing was typed within [`LOOK`].
    Nothing,
    /// The terminal was closed.
    Closed,
}

/// Waits for an event for at most [`LOOK`]. `has_event` asks crossterm's reader, which may have
/// read several keys at once. If the terminal was closed, that reader would search for a key
/// forever and use a whole processor, so `has_event` is not called then.
fn look(
    terminal: &impl AsFd,
    has_event: impl Fn() -> io::Result<bool>,
) -> io::Result<TerminalState> {
    if is_closed_within(terminal, Duration::ZERO) {
        return Ok(TerminalState::Closed);
    }
    if has_event()? {
        return Ok(TerminalState::Event);
    }
    if is_closed_within(terminal, LOOK) {
        return Ok(TerminalState::Closed);
    }
    Ok(if has_event()? { TerminalState::Event } else { TerminalState::Nothing })
}

/// Waits at most `time` for a key. Returns true if the terminal was closed.
fn is_closed_within(terminal: &impl AsFd, time: Duration) -> bool {
    let mut polled = [PollFd::new(terminal, PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
    let gone = PollFlags::HUP | PollFlags::ERR;
    rustix::event::poll(&mut polled, Some(&time)).is_ok() && polled[0].revents().intersects(gone)
}

/// A flag that records whether the program was stopped and continues.
struct ResumeFlag {
    flag: Arc<AtomicBool>,
    signal: SigId,
}

impl ResumeFlag {
    fn listen() -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        let signal = flag::register(Signal::CONT.as_raw(), Arc::clone(&flag))?;
        Ok(Self { flag, signal })
    }

    fn take(&self) -> bool {
        self.flag.swap(false, Ordering::SeqCst)
    }
}

impl Drop for ResumeFlag {
    fn drop(&mut self) {
        unregister(self.signal);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::os::fd::OwnedFd;

    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    /// Opens a terminal. Returns the side of its window, and the side of its programs.
    fn terminal() -> (OwnedFd, OwnedFd) {
        let window = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&window).expect("granted");
        unlockpt(&window).expect("unlocked");
        let name = ptsname(&window, Vec::new()).expect("a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let inside = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).expect("opened");
        (window, inside)
    }

    #[test]
    fn the_reader_of_events_is_not_asked_about_a_closed_terminal() {
        let (window, inside) = terminal();
        drop(window);
        let found = look(&inside, || panic!("it would look for a key forever"));
        assert_eq!(found.expect("a look"), TerminalState::Closed);
    }

    #[test]
    fn a_terminal_that_is_closed_during_a_look_is_noticed_before_the_reader_is_asked_again() {
        let (window, inside) = terminal();
        let (window, asked) = (RefCell::new(Some(window)), Cell::new(0));
        let closing = || {
            drop(window.take());
            asked.set(asked.get() + 1);
            Ok(false)
        };
        assert_eq!(look(&inside, closing).expect("a look"), TerminalState::Closed);
        assert_eq!(asked.get(), 1);
    }

    #[test]
    fn an_open_terminal_has_the_events_of_the_reader() {
        let (_window, inside) = terminal();
        for (has_event, expected) in [(true, TerminalState::Event), (false, TerminalState::Nothing)]
        {
            assert_eq!(look(&inside, || Ok(has_event)).expect("a look"), expected);
        }
    }
}
