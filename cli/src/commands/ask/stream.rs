//! The events of a turn as lines of JSON, for `ikigai ask --stream-json`.
//!
//! The form has a version. Within a version, events and members may be added, and none changes its
//! meaning; docs/agent.md lists all of them.

use serde::Serialize;

use super::exchange::{Call, Ending, Outcome, Tokens};
use super::prompt::UserPrompt;
use crate::error::CliError;
use crate::output::print_exact;
use crate::remedy;
use ikigai_agent::{Calling, Event, Session, Turn};

/// The version of the form, in the first line.
const VERSION: u32 = 1;

/// One line of the output.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    /// The first line.
    Begin {
        version: u32,
        provider: Option<&'static str>,
        model: Option<&'a str>,
        prompt: String,
    },
    Warning {
        text: &'a str,
    },
    /// An image that is sent with the prompt.
    Image {
        name: &'a str,
        width: u32,
        height: u32,
        bytes: usize,
    },
    /// A piece of the text of an answer, or of what the model writes before calls.
    Text {
        text: &'a str,
    },
    /// The model thinks; this is a piece of its thoughts.
    Thinking {
        text: &'a str,
    },
    /// A request is sent again after a wait.
    Retry {
        attempt: u32,
        wait_ms: u64,
        reason: String,
    },
    /// The conversation was compacted.
    Compacted {
        text: String,
    },
    /// An answer is complete. Its calls follow.
    Answered {
        usage: Tokens,
    },
    /// A call that will run.
    Call {
        id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    /// A call begins to run.
    Running {
        id: &'a str,
    },
    /// A call has ended.
    Result(Call<'a>),
    /// The last line.
    End {
        session: Option<String>,
        unkept: Option<&'a str>,
        stop: &'static str,
        reason: Option<String>,
        answer: Option<String>,
        rounds: u32,
        usage: Tokens,
    },
}

/// Prints the first line.
pub(super) fn print_begin(prompt: &UserPrompt, session: &Session) -> Result<(), CliError> {
    let model = session.model();
    print(&Line::Begin {
        version: VERSION,
        provider: model.map(|model| model.client.provider().as_str()),
        model: model.map(|model| model.name.as_str()),
        prompt: prompt.text(),
    })
}

/// Prints the line of an event, if it has one.
pub(super) fn print_event(event: &Event<'_>) -> Result<(), CliError> {
    match event {
        Event::Warning(text) => print(&Line::Warning { text }),
        Event::CrowdedOut(tools) => print(&Line::Warning { text: &remedy::offer::warning(tools) }),
        Event::Image(image) => {
            let (name, (width, height), bytes) = (image.name(), image.size(), image.bytes());
            print(&Line::Image { name, width, height, bytes })
        }
        Event::Text("") => Ok(()),
        Event::Text(text) => print(&Line::Text { text }),
        Event::Thinking(text) => print(&Line::Thinking { text }),
        // The call itself follows when all of it has arrived.
        Event::Asking(_) => Ok(()),
        Event::Calling(Calling { id, name, arguments }) => {
            print(&Line::Call { id, name, arguments })
        }
        Event::Running(Calling { id, .. }, _) => print(&Line::Running { id }),
        Event::Called(called) => print(&Line::Result(Call::from(*called))),
        Event::Retry { attempt, wait, failure } => print(&Line::Retry {
            attempt: *attempt,
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            reason: failure.to_string(),
        }),
        Event::Compacted(compacted) => print(&Line::Compacted { text: compacted.to_string() }),
        Event::Answered(usage) => print(&Line::Answered { usage: (*usage).into() }),
    }
}

/// Prints the last line of a turn, which is saved under this id.
pub(super) fn print_end(kept: &Outcome, turn: &Turn, ending: &Ending<'_>) -> Result<(), CliError> {
    print(&Line::End {
        session: kept.session.map(|id| id.to_string()),
        unkept: kept.unkept.as_deref(),
        stop: ending.word(),
        reason: ending.reason(),
        answer: turn.answer.clone(),
        rounds: turn.rounds,
        usage: turn.usage.into(),
    })
}

fn print(line: &Line<'_>) -> Result<(), CliError> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    print_exact(&text)
}
