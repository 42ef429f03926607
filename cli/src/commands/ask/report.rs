//! The report of `ikigai ask` on a turn for people: the answer on stdout, and everything else on
//! stderr.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;

use ikigai_terminal::{Screen, one_line};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::exchange::CheckedEnd;
use super::{ReportForm, stream};
use crate::error::CliError;
use crate::output::{eprint, print_exact};
use crate::remedy;
use ikigai_agent::{Calling, FinishedCall, TurnEnd, TurnEvent};

/// The most characters of a name, of arguments or of an error on a line.
const ARGUMENTS_SHOWN: usize = 120;

/// The state of the report during a turn.
pub(super) struct TurnReport {
    form: ReportForm,
    /// The screen on stderr, if ikigai asks questions there.
    screen: Option<Screen>,
    /// The hints that were printed.
    hints: BTreeSet<String>,
    /// True if stdout is a terminal.
    is_terminal: bool,
    /// True if the answer must match a schema.
    is_checked: bool,
    /// True if the text of each answer is held until the answer is complete.
    holds: bool,
    /// The last character on stdout, if there is one.
    last: Option<char>,
    /// True if the next text starts another answer.
    is_next: bool,
    /// The text of an answer, held until it is known whether the answer calls tools.
    held: String,
}

impl TurnReport {
    /// Makes a report. An answer that `is_checked` is held even at a terminal.
    pub(super) fn new(form: ReportForm, is_checked: bool, screen: Option<Screen>) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let holds = is_checked || !is_terminal;
        let (hints, held) = (BTreeSet::new(), String::new());
        Self {
            form,
            screen,
            hints,
            is_terminal,
            is_checked,
            holds,
            last: None,
            is_next: false,
            held,
        }
    }

    /// Prints an event.
    pub(super) fn on_event(&mut self, event: &TurnEvent<'_>) -> Result<(), CliError> {
        if self.form == ReportForm::Lines {
            stream::print_event(event)?;
        }
        let is_line = !matches!(
            event,
            TurnEvent::Text(_)
                | TurnEvent::Thinking(_)
                | TurnEvent::Asking(_)
                | TurnEvent::Running(..)
        );
        if is_line && self.is_terminal {
            // Both streams go to one screen.
            self.end_line()?;
        }
        match event {
            TurnEvent::Warning(text) => self.note(&format!("warning: {}\n", one_line(text))),
            TurnEvent::Image(image) => self.note(&format!("{}\n", one_line(&image.to_string()))),
            TurnEvent::CrowdedOut(tools) => {
                self.note(&format!("warning: {}\n", one_line(&remedy::offer::warning(tools))));
            }
            TurnEvent::Text(text) => self.text(text)?,
            TurnEvent::Asking(_) => self.narrate(),
            TurnEvent::Calling(Calling { name, arguments, .. }) => {
                self.narrate();
                self.note(&format!("→ {} {}\n", short(name), short(arguments)));
            }
            TurnEvent::Called(called) => self.called(called),
            TurnEvent::Retry { wait, failure, .. } => {
                // The failed request's text does not count.
                self.held.clear();
                let wait = wait.as_secs_f32();
                self.note(&format!(
                    "{}; trying again in {wait:.1} s\n",
                    one_line(&failure.to_string())
                ));
            }
            TurnEvent::Answered(_) => self.is_next = true,
            TurnEvent::Compacted(compacted) => self.note(&format!("{compacted}\n")),
            TurnEvent::Thinking(_) | TurnEvent::Running(..) => {}
        }
        Ok(())
    }

    /// Prints a text of the model at a terminal, where both streams go to one screen. Otherwise the
    /// text is held until it is known whether it belongs to the last answer.
    fn text(&mut self, text: &str) -> Result<(), CliError> {
        if self.form != ReportForm::Text || text.is_empty() {
            return Ok(());
        }
        if self.holds {
            self.held.push_str(text);
            return check_reader();
        }
        if std::mem::take(&mut self.is_next) && self.last.is_some() {
            // Each answer of a turn is a paragraph.
            self.end_line()?;
            print_exact("\n")?;
        }
        self.last = text.chars().next_back();
        print_exact(text)
    }

    /// Prints the end of a call, with the command that would allow a refused access.
    fn called(&mut self, called: &FinishedCall) {
        self.note(&line(called));
        if let Some(command) = &called.allow_with
            && self.hints.insert(command.clone())
        {
            self.note(&format!("{}\n", one_line(&remedy::allow_with(command))));
        }
    }

    /// Prints lines on stderr. They wait while a question is open.
    fn note(&self, lines: &str) {
        match &self.screen {
            // If the terminal is gone, the lines have no reader.
            Some(screen) => drop(screen.print(lines)),
            None => eprint(lines),
        }
    }

    /// Prints the text before calls to stderr, since it is not the answer.
    fn narrate(&mut self) {
        let text = std::mem::take(&mut self.held);
        if !text.trim().is_empty() {
            self.note(&format!("{}\n", text.trim_end()));
        }
    }

    /// Prints the text that came last, according to the ending of the turn, and ends its last line.
    pub(super) fn finish(&mut self, ending: &CheckedEnd<'_>) -> Result<(), CliError> {
        let text = match ending {
            CheckedEnd::Answered(Some(json)) => (*json).to_owned(),
            CheckedEnd::Answered(None) => std::mem::take(&mut self.held),
            // The beginning of a text is useful, but the beginning of JSON is not.
            CheckedEnd::Other(TurnEnd::Cut) if !self.is_checked => std::mem::take(&mut self.held),
            // A partial answer must not be mistaken for the answer.
            CheckedEnd::Mismatched(_) | CheckedEnd::Other(_) => {
                self.narrate();
                String::new()
            }
        };
        self.last = text.chars().next_back().or(self.last);
        print_exact(&text)?;
        self.end_line()
    }

    fn end_line(&mut self) -> Result<(), CliError> {
        if self.last.is_some_and(|last| last != '\n') {
            self.last = Some('\n');
            print_exact("\n")?;
        }
        Ok(())
    }
}

/// Fails if stdout has lost its reader. Without a write, only `poll` shows that.
fn check_reader() -> Result<(), CliError> {
    let stdout = rustix::stdio::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_gone =
        poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().contains(PollFlags::ERR);
    if is_gone {
        return Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into());
    }
    Ok(())
}

fn line(called: &FinishedCall) -> String {
    let FinishedCall { name, error, characters, .. } = called;
    let seconds = called.duration.as_secs_f32();
    let (mark, error) = match error {
        None => ("✓", String::new()),
        Some(error) => ("✗", format!(": {}", short(&error.message))),
    };
    format!("{mark} {} ({seconds:.1} s, {characters} characters){error}\n", short(name))
}

/// Returns the beginning of a text, on one line.
fn short(text: &str) -> String {
    let mut line = one_line(&text.chars().take(ARGUMENTS_SHOWN).collect::<String>());
    if text.chars().nth(ARGUMENTS_SHOWN).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(short("{\n\t\u{1b}[2J\u{202e}}"), "{  ␛[2J\u{fffd}}");
        assert_eq!(short(&"ä".repeat(200)), "ä".repeat(120) + "…");
    }
}
