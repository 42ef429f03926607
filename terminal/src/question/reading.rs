//! Reading the answer to a question from the terminal, beside what else is typed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;
use signal_hook::SigId;
use signal_hook::flag;
use signal_hook::low_level::unregister;

use super::{Asking, Given, Question, Took};
use crate::editor::{Ahead, Modes, Pressed, WorkKey};
use crate::screen::Screen;

/// The interval at which it is looked whether the question should end.
const LOOK: Duration = Duration::from_millis(20);

/// The surroundings of a question: what goes on beside it.
pub(crate) struct Work<'a> {
    pub(crate) screen: &'a Screen,
    pub(crate) modes: &'a Modes,
    /// The lines for later, which take whatever is no answer. Without them it is lost.
    pub(crate) ahead: Option<&'a mut Ahead>,
    /// Returns whether the question was taken back.
    pub(crate) is_over: &'a dyn Fn() -> bool,
    /// A function for the keys that are for the work.
    pub(crate) on_key: &'a dyn Fn(WorkKey),
    /// A function that stops the program, where Ctrl-Z is a key and not a signal of the terminal. It
    /// returns when the program is continued.
    pub(crate) on_stop: Option<&'a dyn Fn() -> io::Result<()>>,
}

/// Asks `question` at the terminal, whose keys come one by one. Returns nothing if it was taken back.
///
/// # Errors
///
/// The terminal cannot be read from or written to.
pub(crate) fn read(question: &Question, work: Work<'_>) -> io::Result<Option<Given>> {
    let screen = work.screen;
    let continued = Continued::listen()?;
    screen.begin_question(question)?;
    let given = wait(question, work, &continued);
    // Also after an error, since the output that waits is written with it.
    let ended = screen.end_question(given.as_ref().ok().and_then(Option::as_ref));
    let given = given?;
    ended?;
    Ok(given)
}

fn wait(question: &Question, work: Work<'_>, continued: &Continued) -> io::Result<Option<Given>> {
    let Work { screen, modes, mut ahead, is_over, on_key, on_stop } = work;
    let mut asking = Asking::new(question, Instant::now());
    loop {
        screen.show_answer(&asking.shown())?;
        if is_over() {
            return Ok(None);
        }
        let since = Instant::now();
        if asking.is_silent(since) {
            return Ok(Some(Given::Silence));
        }
        // The reader of events may have read several keys at once, and has them first.
        if is_closed_within(Duration::ZERO)
            || !event::poll(Duration::ZERO)? && is_closed_within(LOOK)
        {
            return Ok(Some(Given::Declined));
        }
        let is_there = event::poll(Duration::ZERO)?;
        if continued.take() {
            // The shell has set its own modes, and written below the question.
            modes.reapply()?;
            screen.repeat_question()?;
            asking.again(Instant::now());
            continue;
        }
        if !is_there {
            asking.idle(since);
            continue;
        }
        let event = event::read()?;
        if let Some(stop) = on_stop
            && is_stop(&event)
        {
            stop()?;
            // The question is shown again here, also where nothing was stopped.
            continued.take();
            screen.repeat_question()?;
            asking.again(Instant::now());
            continue;
        }
        let is_alone = !event::poll(Duration::ZERO)?;
        let took = asking.press(&event, Instant::now(), is_alone);
        // Before what was typed, so that it is never seen beside keys that do not count.
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

/// Waits for a key for at most this time. Returns true if the terminal was closed: the reader of events would look for a
/// key forever then, with all of a processor.
fn is_closed_within(time: Duration) -> bool {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
    let gone = PollFlags::HUP | PollFlags::ERR;
    rustix::event::poll(&mut polled, Some(&time)).is_ok() && polled[0].revents().intersects(gone)
}

/// A note whether the program was stopped and continues.
struct Continued {
    flag: Arc<AtomicBool>,
    signal: SigId,
}

impl Continued {
    fn listen() -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        let signal = flag::register(Signal::CONT.as_raw(), Arc::clone(&flag))?;
        Ok(Self { flag, signal })
    }

    fn take(&self) -> bool {
        self.flag.swap(false, Ordering::SeqCst)
    }
}

impl Drop for Continued {
    fn drop(&mut self) {
        unregister(self.signal);
    }
}
