//! The words of the questions.

use ikigai_host::Digest;
use ikigai_host::consent::{self, Widen};
use ikigai_host::policy::{Proposal, Reached};
use ikigai_terminal::question::Question;

/// The key that lets a call run.
pub(super) const RUN: char = 'o';

/// The key that allows something for this call.
pub(super) const ONCE: char = 'o';

/// The key that allows it for this session.
pub(super) const SESSION: char = 's';

/// The key that allows it for good.
pub(super) const ALWAYS: char = 'a';

/// The key that has a change written.
pub(super) const YES: char = 'y';

/// The key that has it not written.
const NO: char = 'n';

/// The key that denies.
const DENY: char = 'd';

/// The key that denies and opens a text.
const TELL: char = 't';

/// The key that lets a tool run unconfined.
pub(super) const UNCONFINED: char = 'u';

/// The consequences of running a tool unconfined.
pub(crate) const UNCONFINED_MEANS: &str = "read, change and delete all of your files, reach every host \
    and the services of this machine, and see your environment without the keys of model providers";

/// Returns the question whether a call may run.
pub(super) fn approval(question: &consent::Question) -> Question {
    let consent::Question { tool, contents, required_by, grant, arguments, left_out } = question;
    let mut facts = vec![fact("arguments", arguments)];
    if *left_out > 0 {
        facts.push(fact("not shown", &format!("{left_out} characters of the arguments")));
    }
    facts.extend(file(contents));
    facts.push(fact("it may", grant));
    facts.push(fact("asked by", required_by));
    Question {
        text: format!("Run `{tool}`?"),
        facts,
        change: Vec::new(),
        choices: vec![choice(RUN, "run"), choice(DENY, "deny")],
        telling: Some(choice(TELL, "deny, and tell the model")),
        last: None,
    }
}

/// Returns the question whether a call may run of whose arguments a part was not shown: one key agrees to
/// what was seen alone.
pub(super) fn unseen(question: &consent::Question) -> Question {
    let consent::Question { tool, contents, left_out, .. } = question;
    Question {
        text: format!(
            "Run `{tool}`, though {left_out} characters of its arguments were not shown?"
        ),
        facts: file(contents).into_iter().collect(),
        change: Vec::new(),
        choices: vec![choice(YES, "run it unseen"), choice(DENY, "deny")],
        telling: Some(choice(TELL, "deny, and tell the model")),
        last: None,
    }
}

/// Returns the question whether a tool may have more. `always` is the change of the policy file that
/// may be written, or the reason why none can be.
pub(super) fn widening(question: &Widen, always: Result<Option<&Proposal>, String>) -> Question {
    let Widen { tool, contents, reached, arguments, denied_by, again, unconfined, .. } = question;
    let mut facts = Vec::new();
    if *again {
        let text = "the tool has run, and would run once more; what it changed stays";
        facts.push(fact("again", text));
    }
    facts.push(fact("arguments", arguments));
    facts.extend(file(contents));
    facts.push(fact("denied by", denied_by));
    let always = always.map(|proposal| proposal.filter(|it| !it.is_unchanged()));
    facts.push(fact(
        "always",
        &match &always {
            Ok(Some(proposal)) => format!("would write to {}:", proposal.path.display()),
            Ok(None) => "cannot be written from here".to_owned(),
            Err(reason) => format!("cannot be written: {reason}"),
        },
    ));
    let proposal = always.ok().flatten();
    let mut choices = vec![choice(ONCE, "once"), choice(SESSION, "this session")];
    choices.extend(proposal.map(|_| choice(ALWAYS, "always")));
    choices.push(choice(DENY, "deny"));
    Question {
        text: match reached {
            Reached::Run => format!("Let `{tool}` run?"),
            reached => format!("Let `{tool}` {reached}?"),
        },
        facts,
        change: proposal.map(Proposal::difference).unwrap_or_default(),
        choices,
        telling: Some(choice(TELL, "deny, and tell the model")),
        last: unconfined
            .as_ref()
            .map(|_| choice(UNCONFINED, "run it unconfined, with all of your rights")),
    }
}

/// Returns the question whether a tool is to run unconfined from now on, with what that means.
pub(super) fn unconfining(question: &Widen, proposal: &Proposal) -> Question {
    let Widen { tool, contents, .. } = question;
    let mut facts: Vec<(String, String)> = file(contents).into_iter().collect();
    facts.push(fact("it can then", UNCONFINED_MEANS));
    facts.push(fact("until", &format!("its file changes, or `ikigai policy revoke {tool}`")));
    facts.push(fact("writes to", &proposal.path.display().to_string()));
    Question {
        text: format!("Run `{tool}` unconfined from now on?"),
        facts,
        change: proposal.difference(),
        choices: vec![
            choice(YES, "write it, and run it unconfined"),
            choice(NO, "back to the question"),
        ],
        telling: None,
        last: None,
    }
}

/// Returns the question whether a change of the policy file is to be written.
pub(super) fn writing(question: &Widen, proposal: &Proposal) -> Question {
    let path = proposal.path.display();
    Question {
        text: format!("Write this to {path}, so that `{}` always may?", question.tool),
        facts: file(&question.contents).into_iter().collect(),
        change: proposal.difference(),
        choices: vec![choice(YES, "write it"), choice(NO, "back to the question")],
        telling: None,
        last: None,
    }
}

/// Returns the line with the digests of a tool's files.
fn file(contents: &[Digest]) -> Option<(String, String)> {
    let digests: Vec<String> = contents.iter().map(Digest::to_string).collect();
    (!digests.is_empty()).then(|| fact("file", &format!("sha256 {}", digests.join(", "))))
}

fn fact(name: &str, text: &str) -> (String, String) {
    (name.to_owned(), text.to_owned())
}

fn choice(key: char, meaning: &str) -> (char, String) {
    (key, meaning.to_owned())
}
