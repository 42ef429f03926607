//! The words of the questions.

use ikigai_host::Digest;
use ikigai_host::consent::{self, Widen};
use ikigai_host::policy::{Access, Proposal, RequestedAccess};
use ikigai_host::toolchain::{InstalledPlace, ToolchainInstallation, ToolchainOffer};
use ikigai_terminal::question::{Facts, KeyQuestion};

/// The key that lets a call run.
pub(super) const RUN: char = 'o';

/// The key that allows something for this call.
pub(super) const ONCE: char = 'o';

/// The key that allows it for this session.
pub(super) const SESSION: char = 's';

/// The key that allows it for this session, while a tool that has run does not run again.
pub(super) const LATER: char = 'l';

/// The key that allows it for good.
pub(super) const ALWAYS: char = 'a';

/// The key that allows the toolchains that a run lacked.
pub(super) const TOOLCHAIN: char = 'w';

/// The key that has a change written.
pub(super) const YES: char = 'y';

/// The key that declines a write.
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

/// The most characters of the arguments in a question about wider access. The details have all of
/// them.
const ARGUMENTS_SHOWN: usize = 200;

/// Returns the question whether a call may run.
pub(super) fn approval(question: &consent::ConsentQuestion) -> KeyQuestion {
    let consent::ConsentQuestion { tool, contents, required_by, grant, arguments, left_out } =
        question;
    let mut facts = vec![fact("arguments", arguments)];
    if *left_out > 0 {
        facts.push(fact("not shown", &format!("{left_out} characters of the arguments")));
    }
    facts.push(fact("it may", grant));
    let details = file(contents).into_iter().chain([fact("asked by", required_by)]);
    KeyQuestion {
        text: format!("Run `{tool}`?"),
        facts: Facts::new(facts),
        details: Facts::new(details.collect()),
        choices: vec![choice(RUN, "run"), choice(DENY, "deny")],
        telling: Some(choice(TELL, "deny, and tell the model")),
        last: None,
    }
}

/// Returns the question about a call whose arguments were not shown completely. A separate key
/// agrees to the part that was not seen.
pub(super) fn unseen(question: &consent::ConsentQuestion) -> KeyQuestion {
    let consent::ConsentQuestion { tool, contents, left_out, .. } = question;
    KeyQuestion {
        text: format!(
            "Run `{tool}`, though {left_out} characters of its arguments were not shown?"
        ),
        details: Facts::new(file(contents).into_iter().collect()),
        choices: vec![choice(YES, "run it unseen"), choice(DENY, "deny")],
        telling: Some(choice(TELL, "deny, and tell the model")),
        ..KeyQuestion::default()
    }
}

/// Returns the question whether a tool may have more access. `always` is the change of the policy
/// file that may be written, or the reason why it cannot be written. Without a session the question
/// offers no answer for a session.
pub(super) fn widening(
    question: &Widen,
    always: Result<Option<&Proposal>, String>,
    has_session: bool,
) -> KeyQuestion {
    let Widen { tool, contents, reached, arguments, denied_by, again, unconfined, .. } = question;
    let toolchains = question.toolchains.as_ref();
    let always = always.map(|proposal| proposal.filter(|it| !it.is_unchanged()));
    let is_run = reached[..] == [RequestedAccess::Run];
    let mut facts = Vec::new();
    if *again {
        let names = std::iter::once("refused").chain(std::iter::repeat(""));
        facts.extend(names.zip(reached).map(|(name, it)| fact(name, &it.to_string())));
        facts.extend(toolchains.iter().flat_map(|offer| offer.found.iter().map(toolchain)));
        facts.push(fact(
            "it has run",
            "what it changed stays, and running it again may repeat that",
        ));
    }
    let (shown, is_whole) = beginning(arguments);
    facts.push(fact("arguments", &shown));
    let mut details: Vec<(String, String)> = Vec::new();
    details.extend((!is_whole).then(|| fact("arguments", arguments)));
    details.extend(file(contents));
    // A user who lets a tool run must see what it may do then.
    let denial = if is_run { &mut facts } else { &mut details };
    denial.push(fact("denied by", denied_by));
    match &always {
        Ok(Some(proposal)) => {
            details.push(fact("always", &format!("writes to {}:", proposal.path.display())));
        }
        // In this case the question is only about toolchains.
        Ok(None) if reached.is_empty() => {}
        Ok(None) => details.push(fact("always", "cannot be written from here")),
        Err(reason) => facts.push(fact("always", &format!("cannot be written: {reason}"))),
    }
    let proposal = always.ok().flatten();
    let change = proposal.map(Proposal::difference).unwrap_or_default();
    KeyQuestion {
        text: match (&reached[..], toolchains) {
            ([], Some(offer)) => format!("`{tool}` failed. Grant it {}?", names(offer)),
            _ if *again => format!("`{tool}` failed. Allow it what it was refused?"),
            ([reached], _) if !is_run => format!("Let `{tool}` {reached}?"),
            _ => format!("Let `{tool}` run?"),
        },
        facts: Facts::new(facts),
        details: Facts { named: details, change },
        choices: choices(question, proposal.is_some(), has_session),
        telling: Some(choice(TELL, "deny, and tell the model")),
        last: unconfined
            .as_ref()
            .map(|_| choice(UNCONFINED, "run it unconfined, with all of your rights")),
    }
}

/// Returns the keys that give a tool more access, or deny it. A tool that has run only runs again
/// after a key whose text says so. The key for the most access comes first.
fn choices(question: &Widen, can_write: bool, has_session: bool) -> Vec<(char, String)> {
    let Widen { reached, again, toolchains, .. } = question;
    let with = |offer| choice(TOOLCHAIN, &format!("run again, with {}", names(offer)));
    let mut choices: Vec<(char, String)> = toolchains.iter().map(with).collect();
    // Without an access the question is only about toolchains.
    if !reached.is_empty() {
        let (once, session) = match (*again, has_session) {
            (true, _) => ("run again, once", "run again, this session"),
            (false, true) => ("once", "this session"),
            (false, false) => ("allow for this call", ""),
        };
        choices.push(choice(ONCE, once));
        choices.extend(has_session.then(|| choice(SESSION, session)));
        let always = if *again { "run again, always" } else { "always" };
        choices.extend(can_write.then(|| choice(ALWAYS, always)));
        let can_wait = *again && has_session;
        choices.extend(can_wait.then(|| choice(LATER, "this session, without running again")));
    }
    choices.push(choice(DENY, "deny"));
    choices
}

/// Returns the names of toolchains: "the toolchains `rust`, `node`".
fn names(offer: &ToolchainOffer) -> String {
    let names = offer.found.iter().map(|found| format!("`{}`", found.toolchain.name));
    let names = names.collect::<Vec<_>>().join(", ");
    let plural = if offer.found.len() == 1 { "" } else { "s" };
    format!("the toolchain{plural} {names}")
}

/// Returns the line with the directories of a toolchain, and with the omitted files.
fn toolchain(found: &ToolchainInstallation) -> (String, String) {
    let ToolchainInstallation { toolchain, places, withheld, .. } = found;
    let of = |access: Access| {
        let places = places.iter().filter(|place| place.access == access);
        places.map(|place| place.path.display().to_string()).collect::<Vec<_>>().join(", ")
    };
    let withheld = withheld.iter().map(|file| file.display().to_string());
    let withheld = withheld.collect::<Vec<_>>().join(", ");
    let parts = [
        ("read-only", of(Access::ReadOnly)),
        ("to write", of(Access::ReadWrite)),
        ("left out", withheld),
    ];
    let parts = parts.iter().filter(|(_, paths)| !paths.is_empty());
    let parts: Vec<String> = parts.map(|(name, paths)| format!("{name}: {paths}")).collect();
    fact("toolchain", &format!("{} ({})", toolchain.name, parts.join("; ")))
}

/// Returns the beginning of the arguments, and whether it is complete.
fn beginning(arguments: &str) -> (String, bool) {
    match arguments.char_indices().nth(ARGUMENTS_SHOWN) {
        Some((end, _)) => (format!("{}…", &arguments[..end]), false),
        None => (arguments.to_owned(), true),
    }
}

/// Returns the question whether a tool should run unconfined from now on, with the consequences.
pub(super) fn unconfining(question: &Widen, proposal: &Proposal) -> KeyQuestion {
    let Widen { tool, contents, .. } = question;
    let facts = vec![
        fact("it can then", UNCONFINED_MEANS),
        fact("until", &format!("its file changes, or `ikigai policy revoke {tool}`")),
        fact("writes to", &proposal.path.display().to_string()),
    ];
    KeyQuestion {
        text: format!("Run `{tool}` unconfined from now on?"),
        facts: Facts { named: facts, change: proposal.difference() },
        details: Facts::new(file(contents).into_iter().collect()),
        choices: vec![
            choice(YES, "write it, and run it unconfined"),
            choice(NO, "back to the question"),
        ],
        telling: None,
        last: None,
    }
}

/// Returns the question whether to grant a tool toolchains permanently.
pub(super) fn granting_toolchains(question: &Widen, proposal: &Proposal) -> KeyQuestion {
    let Widen { tool, contents, toolchains, .. } = question;
    let found = || toolchains.iter().flat_map(|offer| &offer.found);
    let mut facts: Vec<(String, String)> = found().map(toolchain).collect();
    let is_written = |place: &InstalledPlace| place.access == Access::ReadWrite;
    if found().flat_map(|found| &found.places).any(is_written) {
        facts.push(fact(
            "beware",
            "programs outside of the sandbox use what it may write, and may run what the tool writes there",
        ));
    }
    facts.push(fact("writes to", &proposal.path.display().to_string()));
    let names = toolchains.as_ref().map(names).unwrap_or_default();
    KeyQuestion {
        text: format!("Grant `{tool}` {names} from now on, and run it again?"),
        facts: Facts { named: facts, change: proposal.difference() },
        details: Facts::new(file(contents).into_iter().collect()),
        choices: vec![choice(YES, "write it, and run again"), choice(NO, "back to the question")],
        telling: None,
        last: None,
    }
}

/// Returns the question whether to write a change of the policy file.
pub(super) fn writing(question: &Widen, proposal: &Proposal) -> KeyQuestion {
    let path = proposal.path.display();
    KeyQuestion {
        text: format!("Write this to {path}, so that `{}` may always do this?", question.tool),
        facts: Facts { named: Vec::new(), change: proposal.difference() },
        details: Facts::new(file(&question.contents).into_iter().collect()),
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
