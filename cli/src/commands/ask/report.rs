//! The report of `ikigai ask` on a turn: the answer on stdout and calls on stderr, or one object
//! for programs.

use std::io::IsTerminal as _;

use ikigai_assets::SessionId;
use ikigai_provider::Usage;
use ikigai_terminal::one_line;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::prompt::UserPrompt;
use crate::error::CliError;
use crate::output::{eprint, print_exact};
use crate::remedy;
use ikigai_agent::{Called, Calling, End, Event, Session, Turn};

/// The most characters of a name, of arguments or of an error on a line.
const ARGUMENTS_SHOWN: usize = 120;

/// The state of the report while a turn goes on.
pub(super) struct Report {
    /// True if the answer is printed at the end, as part of an object.
    json: bool,
    /// True if stdout is a terminal.
    is_terminal: bool,
    /// The last character on stdout, if there is one.
    last: Option<char>,
    /// True if the next text belongs to another answer than the last.
    is_next: bool,
}

impl Report {
    pub(super) fn new(json: bool) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        Self { json, is_terminal, last: None, is_next: false }
    }

    /// Prints an event.
    pub(super) fn on_event(&mut self, event: &Event<'_>) -> Result<(), CliError> {
        let is_line = !matches!(
            event,
            Event::Text(_) | Event::Thinking(_) | Event::Asking(_) | Event::Running(_)
        );
        if is_line && self.is_terminal {
            // Both streams are on one screen.
            self.end_text()?;
        }
        match event {
            Event::Warning(text) => eprint(&format!("warning: {}\n", one_line(text))),
            Event::CrowdedOut(tools) => {
                eprint(&format!("warning: {}\n", one_line(&remedy::offer::warning(tools))));
            }
            Event::Text(text) => self.text(text)?,
            Event::Calling(Calling { name, arguments, .. }) => {
                eprint(&format!("→ {} {}\n", short(name), short(arguments)));
            }
            Event::Called(called) => eprint(&line(called)),
            Event::Retry { wait, failure, .. } => {
                let wait = wait.as_secs_f32();
                eprint(&format!(
                    "{}; trying again in {wait:.1} s\n",
                    one_line(&failure.to_string())
                ));
            }
            Event::Answered(_) => self.is_next = true,
            Event::Compacted(compacted) => eprint(&format!("{compacted}\n")),
            Event::Thinking(_) | Event::Asking(_) | Event::Running(_) => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), CliError> {
        if self.json || text.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.is_next) && self.last.is_some() {
            // Each answer of a turn is a paragraph.
            self.end_text()?;
            print_exact("\n")?;
        }
        self.last = text.chars().next_back();
        print_exact(text)
    }

    /// Ends the last line.
    pub(super) fn end_text(&mut self) -> Result<(), CliError> {
        if self.last.is_some_and(|last| last != '\n') {
            self.last = Some('\n');
            print_exact("\n")?;
        }
        Ok(())
    }
}

fn line(called: &Called) -> String {
    let Called { name, error, characters, .. } = called;
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

/// Returns the reason why a turn has no complete answer.
pub(super) fn reason(end: &End) -> Option<String> {
    Some(match end {
        End::Answered => return None,
        End::Silent => "the answer of the model is empty".to_owned(),
        End::Cut => "the answer reached the limit on its length".to_owned(),
        End::Refused(why) if why.is_empty() => "the model refused".to_owned(),
        End::Refused(why) => format!("the model refused: {}", one_line(why)),
        End::Exhausted { rounds } => {
            format!("the model was not done after {rounds} requests, the limit for a turn")
        }
        End::Interrupted => "interrupted".to_owned(),
        End::Spent { per, spent, limit } => remedy::spend::reason(*per, *spent, *limit),
        End::Failed(failure) => failure.to_string(),
    })
}

/// A whole exchange for programs. [`super::NOTES`] describes it.
#[derive(Serialize)]
pub(super) struct Exchange<'a> {
    prompt: String,
    session: Option<String>,
    provider: Option<&'static str>,
    model: Option<&'a str>,
    stop: &'static str,
    reason: Option<String>,
    answer: Option<String>,
    rounds: u32,
    messages: Value,
    calls: Vec<Call<'a>>,
    usage: Tokens,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
    envelope: Envelope<'a>,
    duration_ms: u64,
}

/// An envelope within other JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum Envelope<'a> {
    /// The JSON as it is.
    Json(&'a RawValue),
    /// The JSON as text: it nests deeper, or has larger numbers, than parsers of JSON take, and
    /// the whole object would be lost to them.
    Text(&'a str),
}

#[derive(Serialize)]
struct Tokens {
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    cache_written: Option<u64>,
    reasoning: Option<u64>,
}

impl<'a> Exchange<'a> {
    /// Describes the turn of a session that has just ended, and that is kept under this id.
    pub(super) fn new(
        prompt: &UserPrompt,
        session: &'a Session,
        kept: Option<SessionId>,
        turn: &'a Turn,
    ) -> Self {
        let model = session.model();
        let Usage { input, output, cached, cache_written, reasoning } = turn.usage;
        Self {
            prompt: prompt.text(),
            session: kept.map(|id| id.to_string()),
            provider: model.map(|model| model.client.provider().as_str()),
            model: model.map(|model| model.name.as_str()),
            stop: turn.end.word(),
            reason: reason(&turn.end),
            answer: turn.answer.clone(),
            rounds: turn.rounds,
            messages: session.transcript(),
            calls: turn.calls.iter().map(Call::from).collect(),
            usage: Tokens { input, output, cached, cache_written, reasoning },
        }
    }
}

impl<'a> From<&'a Called> for Call<'a> {
    fn from(called: &'a Called) -> Self {
        Self {
            id: &called.id,
            name: &called.name,
            arguments: &called.arguments,
            envelope: Envelope::of(&called.content),
            duration_ms: u64::try_from(called.duration.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl<'a> Envelope<'a> {
    fn of(json: &'a str) -> Self {
        // A tree is built to find out whether a reader could build it.
        match (serde_json::from_str::<Value>(json), serde_json::from_str(json)) {
            (Ok(_), Ok(json)) => Self::Json(json),
            _ => Self::Text(json),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(short("{\n\t\u{1b}[2J\u{202e}}"), "{  ␛[2J\u{fffd}}");
        assert_eq!(short(&"ä".repeat(200)), "ä".repeat(120) + "…");
    }

    fn called(content: &str) -> Called {
        Called {
            id: "call-1".to_owned(),
            name: "grep".to_owned(),
            arguments: "{\"pattern\": \"ä\"}".to_owned(),
            content: content.to_owned(),
            is_error: false,
            error: None,
            is_cancelled: false,
            duration: Duration::from_millis(7),
            characters: content.len(),
        }
    }

    fn reported(content: &str) -> String {
        serde_json::to_string(&Call::from(&called(content))).expect("JSON")
    }

    #[test]
    fn an_envelope_is_embedded_as_a_tree_of_it_would_be() {
        for content in [
            r#"{"tool_success":true,"result":{"z":1,"a":[null,true,-2.5,"\"ä\""],"m":{}}}"#,
            r#"{"tool_success":false,"error":"a \"b\"","error_code":"TOOL_CRASHED"}"#,
        ] {
            let tree: Value = serde_json::from_str(content).expect("JSON");
            let expected = json!({
                "id": "call-1",
                "name": "grep",
                "arguments": "{\"pattern\": \"ä\"}",
                "envelope": tree,
                "duration_ms": 7,
            });
            assert_eq!(reported(content), expected.to_string());
        }
    }

    #[test]
    fn an_envelope_that_few_can_read_is_text() {
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        for result in ["1e999", &deep] {
            let content = format!("{{\"tool_success\":true,\"result\":{result}}}");
            let read: Value = serde_json::from_str(&reported(&content)).expect("JSON");
            assert_eq!(read["envelope"], json!(content));
        }
    }
}
