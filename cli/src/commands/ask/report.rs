//! What `ikigai ask` says of a turn: text on stdout, the rest on stderr, or one object for
//! programs.

use std::io::IsTerminal as _;

use ikigai_terminal::one_line;
use serde_json::{Value, json};

use super::prompt::Asked;
use crate::error::CliError;
use crate::output::{eprint, print_exact};
use ikigai_agent::{Called, Calling, End, Event, Session, Turn};

/// Characters of a call's name and of its arguments on its line.
const ARGUMENTS_SHOWN: usize = 120;

/// What has been written, and how it goes on.
pub(super) struct Report {
    /// The answer is printed at the end, as part of an object.
    json: bool,
    /// stdout obeys control characters.
    is_terminal: bool,
    /// The last character on stdout, if there is one.
    last: Option<char>,
    /// What follows is of another answer than what was printed.
    is_next: bool,
}

impl Report {
    pub(super) fn new(json: bool) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        Self { json, is_terminal, last: None, is_next: false }
    }

    pub(super) fn on_event(&mut self, event: &Event<'_>) -> Result<(), CliError> {
        let is_line = !matches!(
            event,
            Event::Text(_) | Event::Thinking | Event::Asking(_) | Event::Running(_)
        );
        if is_line && self.is_terminal {
            // Both streams are on one screen.
            self.end_text()?;
        }
        match event {
            Event::Warning(text) => eprint(&format!("warning: {}\n", one_line(text))),
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
            Event::Thinking | Event::Asking(_) | Event::Running(_) => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), CliError> {
        if self.json || text.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.is_next) && self.last.is_some() {
            // Each answer of a turn is a paragraph of its own.
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
        Some(error) => ("✗", format!(": {}", short(error))),
    };
    format!("{mark} {} ({seconds:.1} s, {characters} characters){error}\n", short(name))
}

/// The beginning of a text, on one line.
fn short(text: &str) -> String {
    let mut line = one_line(&text.chars().take(ARGUMENTS_SHOWN).collect::<String>());
    if text.chars().nth(ARGUMENTS_SHOWN).is_some() {
        line.push('…');
    }
    line
}

/// Why a turn has no whole answer, in a sentence.
pub(super) fn reason(end: &End) -> Option<String> {
    Some(match end {
        End::Answered => return None,
        End::Silent => "the model answered nothing".to_owned(),
        End::Cut => "the answer reached the limit on its length".to_owned(),
        End::Refused(why) if why.is_empty() => "the model refused".to_owned(),
        End::Refused(why) => format!("the model refused: {}", one_line(why)),
        End::Exhausted { rounds } => {
            format!("the model wanted to go on after {rounds} requests, the most that it may make")
        }
        End::Interrupted => "interrupted".to_owned(),
        End::Failed(failure) => failure.to_string(),
    })
}

fn word(end: &End) -> &'static str {
    match end {
        End::Answered => "answered",
        End::Silent => "silent",
        End::Cut => "cut",
        End::Refused(_) => "refused",
        End::Exhausted { .. } => "exhausted",
        End::Interrupted => "interrupted",
        End::Failed(_) => "failed",
    }
}

/// The whole exchange for programs, on one line. [`super::NOTES`] describes it.
pub(super) fn as_json(asked: &Asked, session: &Session, turn: &Turn) -> Value {
    let messages = session.transcript();
    let model = session.model();
    json!({
        "prompt": asked.text(),
        "provider": model.map(|model| model.client.provider().as_str()),
        "model": model.map(|model| model.name.as_str()),
        "stop": word(&turn.end),
        "reason": reason(&turn.end),
        "answer": answer(&messages),
        "rounds": turn.rounds,
        "messages": messages,
        "calls": turn.calls.iter().map(call).collect::<Vec<_>>(),
        "usage": {
            "input": turn.usage.input,
            "output": turn.usage.output,
            "cached": turn.usage.cached,
        },
    })
}

/// The text of what the model said last.
fn answer(messages: &Value) -> Option<String> {
    let last = messages.as_array()?.last()?;
    let parts = last["parts"].as_array().filter(|_| last["role"] == "model")?;
    Some(parts.iter().filter_map(|part| part["text"].as_str()).collect())
}

fn call(called: &Called) -> Value {
    let duration = u64::try_from(called.duration.as_millis()).unwrap_or(u64::MAX);
    // As text where a value of it is beyond what a tree of JSON holds.
    let envelope = serde_json::from_str::<Value>(&called.content).ok();
    json!({
        "id": called.id,
        "name": called.name,
        "arguments": called.arguments,
        "envelope": envelope.unwrap_or_else(|| called.content.clone().into()),
        "duration_ms": duration,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(short("{\n\t\u{1b}[2J\u{202e}}"), "{  ␛[2J\u{fffd}}");
        assert_eq!(short(&"ä".repeat(200)), "ä".repeat(120) + "…");
    }

    #[test]
    fn the_answer_is_the_last_text_of_the_model() {
        let said = |role: &str, text: &str| json!({ "role": role, "parts": [{ "text": text }] });
        let all = json!([said("user", "a"), said("model", "b")]);
        assert_eq!(answer(&all).as_deref(), Some("b"));
        assert_eq!(answer(&json!([said("model", "b"), said("user", "a")])), None);
        assert_eq!(answer(&json!([])), None);
    }
}
