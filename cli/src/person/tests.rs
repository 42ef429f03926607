//! The answers of a user whose keys are scripted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use ikigai_protocol::Access;
use ikigai_terminal::question::Facts;

use super::*;

/// A terminal with prepared answers, which records the questions.
#[derive(Clone, Default)]
struct Ready {
    answers: Arc<Mutex<VecDeque<KeyReply>>>,
    questions: Arc<Mutex<Vec<KeyQuestion>>>,
    said: Arc<Mutex<Vec<String>>>,
}

impl QuestionTerminal for Ready {
    fn put(&self, question: KeyQuestion) -> PendingAnswer<'_> {
        self.questions.lock().expect("no panic").push(question);
        let answer = self.answers.lock().expect("no panic").pop_front();
        Box::pin(std::future::ready(answer))
    }
}

impl Ready {
    fn person(&self, answers: impl IntoIterator<Item = KeyReply>) -> Person {
        *self.answers.lock().expect("no panic") = answers.into_iter().collect();
        let said = Arc::clone(&self.said);
        Person {
            place: Box::new(self.clone()),
            say: Box::new(move |line| said.lock().expect("no panic").push(line.to_owned())),
            only_before: false,
            has_session: true,
            asked: AtomicU32::new(0),
            is_told: AtomicBool::new(false),
        }
    }

    fn questions(&self) -> usize {
        self.questions.lock().expect("no panic").len()
    }
}

fn widen() -> Widen {
    Widen {
        tool: "fetch".to_owned(),
        contents: vec![],
        reached: vec![RequestedAccess::Peer { host: "api.example.com".to_owned(), port: 443 }],
        arguments: "{}".to_owned(),
        denied_by: "profile standard".to_owned(),
        again: false,
        proposal: None,
        unconfined: None,
        toolchains: None,
    }
}

fn answered<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(future)
}

#[test]
fn each_answer_has_its_meaning() {
    let told = || "use a copy".to_owned();
    let cases = [
        (Some(KeyReply::Key('o')), WidenAnswer::Once),
        (Some(KeyReply::Key('s')), WidenAnswer::Session),
        (Some(KeyReply::Key('l')), WidenAnswer::Later),
        (Some(KeyReply::Key('d')), WidenAnswer::No),
        (Some(KeyReply::Declined), WidenAnswer::No),
        (Some(KeyReply::Told(told())), WidenAnswer::Tell(told())),
        (Some(KeyReply::Silence), WidenAnswer::Timeout),
        // Nothing can be written, so the question does not offer the key.
        (Some(KeyReply::Key('a')), WidenAnswer::No),
        (None, WidenAnswer::Unavailable("the terminal is gone".to_owned())),
    ];
    for (given, expected) in cases {
        let person = Ready::default().person(given);
        assert_eq!(answered(person.widen(&widen())).answer, expected);
    }
}

/// Returns the question for this request, as the user sees it first.
fn asked(widen: &Widen) -> KeyQuestion {
    let ready = Ready::default();
    answered(ready.person([KeyReply::Declined]).widen(widen));
    ready.questions.lock().expect("no panic")[0].clone()
}

fn keys(KeyQuestion { choices, telling, .. }: &KeyQuestion) -> String {
    choices.iter().chain(telling).map(|(key, _)| *key).collect()
}

fn fact<'a>(facts: &'a Facts, name: &str) -> Option<&'a str> {
    facts.named.iter().find(|(own, _)| own == name).map(|(_, text)| text.as_str())
}

#[test]
fn a_question_is_short_and_the_rest_is_among_its_details() {
    let long = Widen { arguments: "x".repeat(1_000), ..widen() };
    let question = asked(&long);
    assert_eq!(question.text, "Let `fetch` connect api.example.com:443?");
    assert_eq!(keys(&question), "osdt");
    let shown = fact(&question.facts, "arguments").expect("the arguments");
    assert_eq!((question.facts.named.len(), shown.chars().count()), (1, 201));
    assert_eq!(fact(&question.details, "arguments"), Some(long.arguments.as_str()));
    assert_eq!(fact(&question.details, "always"), Some("cannot be written from here"));
    assert_eq!(fact(&question.details, "denied by"), Some("profile standard"));
    // A user who lets a tool run must see what it may do.
    let run = asked(&Widen { reached: vec![RequestedAccess::Run], ..widen() });
    assert_eq!(fact(&run.facts, "denied by"), Some("profile standard"));
}

#[test]
fn after_a_run_that_failed_each_place_is_listed_and_the_keys_say_what_runs_again() {
    let read = |path: &str| RequestedAccess::Path { access: Access::ReadOnly, path: path.into() };
    let reached = vec![read("/h/.rustup"), read("/h/.cargo/bin")];
    let question = asked(&Widen { reached, again: true, ..widen() });
    assert_eq!(question.text, "`fetch` failed. Allow it what it was refused?");
    assert_eq!(keys(&question), "osldt");
    let Facts { named, .. } = &question.facts;
    let rows: Vec<_> = named.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(rows[..2], [("refused", "read /h/.rustup"), ("", "read /h/.cargo/bin")]);
    assert!(fact(&question.facts, "it has run").is_some_and(|text| text.contains("stays")));
    let meanings = question.choices.iter().filter(|(_, meaning)| meaning.contains("run again"));
    assert_eq!(meanings.map(|(key, _)| *key).collect::<String>(), "os");
}

#[test]
fn the_one_call_of_a_program_is_allowed_for_itself_and_for_no_session() {
    for (again, once, others) in
        [(false, "allow for this call", "dt"), (true, "run again, once", "dt")]
    {
        let ready = Ready::default();
        let person = Person { has_session: false, ..ready.person([KeyReply::Declined]) };
        answered(person.widen(&Widen { again, ..widen() }));
        let question = ready.questions.lock().expect("no panic")[0].clone();
        assert_eq!(question.choices[0], ('o', once.to_owned()));
        assert_eq!(keys(&question), format!("o{others}"));
    }
}

#[test]
fn a_turn_has_32_questions_and_the_rest_is_denied_and_said_once() {
    let ready = Ready::default();
    let person = ready.person(std::iter::repeat_n(KeyReply::Key('o'), 100));
    for number in 1..=40 {
        let answer = answered(person.widen(&widen())).answer;
        assert_eq!(answer.allows(), number <= 32, "{number}: {answer:?}");
    }
    assert_eq!(ready.questions(), 32);
    let said = || ready.said.lock().expect("no panic").clone();
    assert_eq!(said(), ["warning: ikigai asked 32 questions in this turn; it denies the rest"]);
    person.begin_turn();
    assert!(answered(person.widen(&widen())).answer.allows());
    assert_eq!((ready.questions(), said().len()), (33, 1));
}

#[test]
fn nobody_is_asked_while_a_tool_has_the_terminal() {
    let ready = Ready::default();
    let person = Person { only_before: true, ..ready.person([KeyReply::Key('o')]) };
    let answer = answered(person.widen(&widen())).answer;
    assert!(matches!(answer, WidenAnswer::Unavailable(_)), "{answer:?}");
    assert_eq!(ready.questions(), 0);
    let run = Widen { reached: vec![RequestedAccess::Run], ..widen() };
    assert_eq!(answered(person.widen(&run)).answer, WidenAnswer::Once);
}

#[test]
fn what_was_not_shown_is_agreed_to_by_no_single_key() {
    let question = Approved {
        tool: "bash".to_owned(),
        contents: vec![],
        required_by: "policy.toml:2".to_owned(),
        grant: "read".to_owned(),
        arguments: "{[… 7 characters …]}".to_owned(),
        left_out: 7,
    };
    for (given, expected) in [
        (&[KeyReply::Key('o'), KeyReply::Key('y')][..], Agreed::Yes),
        (&[KeyReply::Key('o'), KeyReply::Key('o')], Agreed::No),
        (&[KeyReply::Key('o'), KeyReply::Key('d')], Agreed::No),
        (&[KeyReply::Key('o'), KeyReply::Declined], Agreed::No),
        (&[KeyReply::Key('y')], Agreed::No),
        (&[KeyReply::Key('d')], Agreed::No),
    ] {
        let ready = Ready::default();
        let person = ready.person(given.iter().cloned());
        assert_eq!(answered(person.ask(&question)).answer, expected, "{given:?}");
        let questions = ready.questions.lock().expect("no panic");
        assert_eq!(questions.len(), given.len());
        assert!(questions.iter().all(|it| format!("{it:?}").contains("7 characters")));
    }
}

#[test]
fn somebody_agrees_declines_or_tells() {
    let question = Approved {
        tool: "bash".to_owned(),
        contents: vec![],
        required_by: "policy.toml:2".to_owned(),
        grant: "read".to_owned(),
        arguments: "{}".to_owned(),
        left_out: 0,
    };
    let cases = [
        (KeyReply::Key('o'), Agreed::Yes),
        (KeyReply::Key('d'), Agreed::No),
        (KeyReply::Declined, Agreed::No),
        (KeyReply::Told("not now".to_owned()), Agreed::Tell("not now".to_owned())),
        (KeyReply::Silence, Agreed::Timeout),
    ];
    for (given, expected) in cases {
        let ready = Ready::default();
        let person = ready.person([given]);
        assert_eq!(answered(person.ask(&question)).answer, expected);
        let asked = &ready.questions.lock().expect("no panic")[0];
        let keys: String = asked.choices.iter().map(|(key, _)| *key).collect();
        assert_eq!((asked.text.as_str(), keys.as_str()), ("Run `bash`?", "od"));
    }
}
