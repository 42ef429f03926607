//! The events of a turn as lines of JSON, for `ikigai ask --stream-json`.
//!
//! The form has a version. Within a version, events and members may be added, and none changes its
//! meaning; docs/guides/scripts.md lists all of them.

use serde::Serialize;

use super::exchange::{CheckedEnd, EndedCall, SaveOutcome, TokenCounts};
use super::prompt::UserPrompt;
use crate::error::CliError;
use crate::output::print_exact;
use crate::remedy;
use ikigai_agent::{Calling, Session, Turn, TurnEvent};

/// The version of the form, in the first line.
const VERSION: u32 = 1;

/// One line of the output.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum EventLine<'a> {
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
        usage: TokenCounts,
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
    Result(EndedCall<'a>),
    /// The last line.
    End {
        session: Option<String>,
        unkept: Option<&'a str>,
        stop: &'static str,
        reason: Option<String>,
        answer: Option<String>,
        rounds: u32,
        usage: TokenCounts,
    },
}

/// Prints the first line.
pub(super) fn print_begin(prompt: &UserPrompt, session: &Session) -> Result<(), CliError> {
    let model = session.model();
    print(&EventLine::Begin {
        version: VERSION,
        provider: model.map(|model| model.client.provider().as_str()),
        model: model.map(|model| model.name.as_str()),
        prompt: prompt.text(),
    })
}

/// Prints the line of an event, if it has one.
pub(super) fn print_event(event: &TurnEvent<'_>) -> Result<(), CliError> {
    match event {
        TurnEvent::Warning(text) => print(&EventLine::Warning { text }),
        TurnEvent::CrowdedOut(tools) => {
            print(&EventLine::Warning { text: &remedy::offer::warning(tools) })
        }
        TurnEvent::Image(image) => {
            let (name, (width, height), bytes) = (image.name(), image.size(), image.bytes());
            print(&EventLine::Image { name, width, height, bytes })
        }
        TurnEvent::Text("") => Ok(()),
        TurnEvent::Text(text) => print(&EventLine::Text { text }),
        TurnEvent::Thinking(text) => print(&EventLine::Thinking { text }),
        // The call itself follows when all of it has arrived.
        TurnEvent::Asking(_) => Ok(()),
        TurnEvent::Calling(Calling { id, name, arguments }) => {
            print(&EventLine::Call { id, name, arguments })
        }
        TurnEvent::Running(Calling { id, .. }, _) => print(&EventLine::Running { id }),
        TurnEvent::Called(called) => print(&EventLine::Result(EndedCall::from(*called))),
        TurnEvent::Retry { attempt, wait, failure } => print(&EventLine::Retry {
            attempt: *attempt,
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            reason: failure.to_string(),
        }),
        TurnEvent::Compacted(compacted) => {
            print(&EventLine::Compacted { text: compacted.to_string() })
        }
        TurnEvent::Answered(usage) => print(&EventLine::Answered { usage: (*usage).into() }),
    }
}

/// Prints the last line of a turn, which is saved under this id.
pub(super) fn print_end(
    kept: &SaveOutcome,
    turn: &Turn,
    ending: &CheckedEnd<'_>,
) -> Result<(), CliError> {
    print(&EventLine::End {
        session: kept.session.map(|id| id.to_string()),
        unkept: kept.unkept.as_deref(),
        stop: ending.word(),
        reason: ending.reason(),
        answer: turn.answer.clone(),
        rounds: turn.rounds,
        usage: turn.usage.into(),
    })
}

fn print(line: &EventLine<'_>) -> Result<(), CliError> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    print_exact(&text)
}
