//! `/policy`: what the user allowed and refused in this session, and how to take that back.

use std::fmt::Write as _;
use std::io;

use super::Repl;
use super::command::Forget;
use ikigai_host::policy::SessionAnswer;

impl Repl {
    /// Lists the answers of this session.
    pub(super) fn show_answers(&self) -> io::Result<()> {
        self.out.line(&text(&self.host.authority().session_answers()))
    }

    /// Forgets answers of this session.
    pub(super) fn forget_answers(&self, forget: Forget) -> io::Result<()> {
        let authority = self.host.authority();
        let answers = authority.session_answers();
        let forgotten = match forget {
            Forget::All => answers.as_slice(),
            Forget::Nth(number) => {
                let found = number.checked_sub(1).and_then(|at| answers.get(at));
                let Some(found) = found else {
                    let error = format!("error: no answer of this session has the number {number}");
                    return self.out.line(&format!("{error}\nhint: `/policy` lists the answers"));
                };
                std::slice::from_ref(found)
            }
        };
        for answer in forgotten {
            authority.forget_answer(answer);
        }
        let lines: Vec<String> =
            forgotten.iter().map(|answer| format!("Forgotten: {}", in_words(answer))).collect();
        self.out.line(&match lines.is_empty() {
            true => NOTHING.to_owned(),
            false => lines.join("\n"),
        })
    }
}

/// The text if no question was answered.
const NOTHING: &str = "You allowed and refused nothing in this session.";

fn text(answers: &[SessionAnswer]) -> String {
    if answers.is_empty() {
        return format!("{NOTHING} `ikigai policy show` shows what the policy grants.");
    }
    let mut text = "In this session:\n".to_owned();
    for (number, answer) in (1..).zip(answers) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{number:3}  {}", in_words(answer));
    }
    text.push_str(
        "`/policy forget N` or `/policy forget all` takes an answer back, but does not change your policy file: \
         `ikigai policy revoke TOOL` removes a grant from it.",
    );
    text
}

fn in_words(SessionAnswer { tool, reached, allowed }: &SessionAnswer) -> String {
    let tool = tool.as_deref().unwrap_or("a tool without a name");
    format!("{tool} {} {reached}", if *allowed { "may" } else { "may not" })
}

#[cfg(test)]
mod tests {
    use ikigai_host::policy::RequestedAccess;

    use super::*;

    #[test]
    fn each_answer_has_a_number() {
        let answer = |host: &str, allowed| SessionAnswer {
            tool: Some("bash".to_owned()),
            reached: RequestedAccess::Peer { host: host.to_owned(), port: 443 },
            allowed,
        };
        let text = text(&[answer("a.example", true), answer("b.example", false)]);
        let expected =
            "  1  bash may connect a.example:443\n  2  bash may not connect b.example:443";
        assert!(text.contains(expected), "{text}");
    }
}
