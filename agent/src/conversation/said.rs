//! The words of a conversation, without the texts that tools and files added to them.

use ikigai_provider::{Part, Role};

use super::{Conversation, PromptEntry};

/// A prompt, an answer or a call in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Utterance<'a> {
    /// The user's own words.
    Prompt(&'a str),
    /// A text of the model.
    Answer(&'a str),
    /// The name of a tool that the model called.
    Call(&'a str),
}

impl Conversation {
    /// Returns the prompts, answers and calls, oldest first: of all messages if `kept` is 0, and
    /// otherwise of the messages that are left out if only the last `kept` stay. It leaves out
    /// arguments, results, notes on messages that were left out, and texts that a prompt mentions
    /// or that were attached to it.
    pub(crate) fn said(&self, kept: usize) -> Vec<Utterance<'_>> {
        let first = self.messages.len() - kept;
        let before = self.prompts.iter().take_while(|prompt| prompt.message < first);
        let mut prompts: Vec<&PromptEntry> = before.collect();
        if kept > 0 {
            // The request of the first message that stays is not left out.
            prompts.pop();
        }
        let mut prompts = prompts.into_iter().peekable();
        let mut said = Vec::new();
        for (at, message) in self.messages[..first].iter().enumerate() {
            while let Some(prompt) = prompts.next_if(|prompt| prompt.message == at) {
                said.push(Utterance::Prompt(&prompt.typed));
            }
            if message.role == Role::Model {
                said.extend(message.parts.iter().filter_map(|part| match part {
                    Part::Text { text, .. } => Some(Utterance::Answer(text)),
                    Part::Call(call) => Some(Utterance::Call(&call.name)),
                    Part::Result(_) | Part::Image(_) | Part::Blob(_) => None,
                }));
            }
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::{call, result};
    use super::*;

    /// Returns a conversation with a turn for each prompt, which mentions a file, and a call.
    fn turns(prompts: &[&str]) -> Conversation {
        let mut conversation = Conversation::default();
        for (turn, typed) in prompts.iter().enumerate() {
            let texts = [format!("{typed}, and the text of a file"), "piped".to_owned()];
            let mut exchange = conversation.begin(typed, texts).expect("a prompt");
            let answer = vec![Part::text("I look."), Part::Call(call(&turn.to_string()))];
            exchange.append(answer, vec![result(&turn.to_string())]);
            exchange.end(vec![Part::text("I saw.")]);
        }
        conversation
    }

    #[test]
    fn only_words_and_names_of_tools_are_said() {
        let conversation = turns(&["a", "b"]);
        let turn = |typed| {
            [
                Utterance::Prompt(typed),
                Utterance::Answer("I look."),
                Utterance::Call("t"),
                Utterance::Answer("I saw."),
            ]
        };
        assert_eq!(conversation.said(0), [turn("a"), turn("b")].concat());
        assert_eq!(conversation.said(conversation.of_last_turns(1)), turn("a"));
        assert_eq!(conversation.turns(), 2);
    }

    #[test]
    fn a_turn_that_loses_only_its_rounds_does_not_lose_its_prompt() {
        let conversation = turns(&["a"]);
        assert_eq!(conversation.said(1), [Utterance::Answer("I look."), Utterance::Call("t")]);
    }

    #[test]
    fn notes_on_messages_that_were_left_out_are_not_said() {
        let mut conversation = turns(&["a", "b", "c"]);
        conversation.summarize(conversation.of_last_turns(1), "poison", 100).expect("a cut");
        let said = conversation.said(0);
        assert_eq!(said[0], Utterance::Prompt("c"));
        assert_eq!(said.len(), 4);
        assert_eq!(conversation.turns(), 3);
    }
}
