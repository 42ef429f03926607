//! The shell of the component against GNU bash: each command comes out the same, or
//! is listed here with the reason why not.
//!
//! The list is kept honest: a case on it that agrees after all is a failure too. Where
//! GNU bash is on the machine it is asked as well, so that the record stays true; the
//! record is renewed by `cargo test --test fidelity -- --ignored`.

use std::process::Command;

use ikigai_tests::fidelity::{self, Case, Made, cases, component, reference, run_all};
use ikigai_tests::left_out;

/// Ids, and why the shell of the component answers otherwise. Those that are wrong
/// without saying so come first.
const DIFFERENCES: &[(&str, &[&str])] = &[
    (
        "wrong: `xargs` ends with the status of the last command, not with 123",
        &["pipe/xargs-status"],
    ),
    ("wrong: descriptors swapped through a third one keep their places", &["redirect/swap"]),
    ("wrong: EPOCHSECONDS is empty", &["expand/random-set"]),
    (
        "wrong: a copy on the disk loses its executable bit, which WASI cannot set",
        &["file/copy-mode"],
    ),
    ("wrong: bytes that are NUL end no line of a binary file in `grep -c`", &["file/binary"]),
    ("refused: functions nest no deeper than 16", &["flow/deep-recursion"]),
    ("refused: WASI has no modes and no mask", &["file/script-chmod", "process/umask-ulimit"]),
    ("refused: options that the interpreter's command lacks", &["file/tar", "process/bash-s"]),
    ("refused: a date with a duration after it", &["process/date"]),
    ("the exit code is 1 where bash has 127 for an unset variable", &["error/set-u"]),
    (
        "no `Terminated` for a child that a signal ended: there are no children",
        &["error/exit-codes"],
    ),
    ("other words in a message", &["error/missing-files", "file/diff"]),
];

fn excuse<'e>(excuses: &'e [(&str, &[&str])], case: &Case) -> Option<&'e str> {
    excuses.iter().find(|(_, ids)| ids.contains(&case.id())).map(|(reason, _)| *reason)
}

/// Compares what was made with the record, and what differs with what is excused.
#[track_caller]
fn check(cases: &[Case], made: &[Made], excuses: &[(&str, &[&str])]) {
    let mut wrong = Vec::new();
    for (case, made) in cases.iter().zip(made) {
        let recorded = case.recorded();
        match (excuse(excuses, case), recorded == *made) {
            (None, false) => wrong.push(format!(
                "{}: {}\n--- recorded\n{recorded:#?}\n--- made\n{made:#?}",
                case.id(),
                case.command()
            )),
            (Some(reason), true) => {
                wrong.push(format!("{}: agrees, but is excused: {reason}", case.id()));
            }
            _ => {}
        }
    }
    let unknown = excuses
        .iter()
        .flat_map(|(_, ids)| *ids)
        .filter(|id| !cases.iter().any(|case| case.id() == **id));
    wrong.extend(unknown.map(|id| format!("{id}: excused, but there is no such case")));
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n\n"));
}

/// Whether the programs that the record comes from are here: GNU bash 5, coreutils and jq.
fn has_gnu() -> bool {
    let says = |program: &str, words: &str| {
        let ran = Command::new(program).arg("--version").output();
        ran.is_ok_and(|ran| String::from_utf8_lossy(&ran.stdout).contains(words))
    };
    says("bash", "GNU bash, version 5") && says("sort", "GNU coreutils") && says("jq", "jq-")
}

fn gnu(what: &str) -> Option<()> {
    if has_gnu() { Some(()) } else { left_out(what, "GNU bash 5, coreutils and jq") }
}

#[test]
fn the_component_answers_as_gnu_bash_did() {
    let cases = cases();
    check(&cases, &run_all(&cases, &component), DIFFERENCES);
}

#[test]
fn the_posix_shell_answers_the_same_where_the_command_is_posix() {
    let Some(()) = gnu("the shell of POSIX") else { return };
    let cases: Vec<Case> = cases().into_iter().filter(Case::is_posix).collect();
    check(&cases, &run_all(&cases, &|case, dir| reference("/bin/sh", case, dir)), &[]);
}

#[test]
fn gnu_bash_answers_as_it_did() {
    let Some(()) = gnu("GNU bash") else { return };
    let cases = cases();
    check(&cases, &run_all(&cases, &|case, dir| reference("bash", case, dir)), &[]);
}

/// Writes down what GNU bash makes of each case.
#[test]
#[ignore = "changes the record"]
fn record() {
    assert!(has_gnu(), "the record is of GNU bash 5, coreutils and jq");
    let cases = cases();
    fidelity::record(&cases, &run_all(&cases, &|case, dir| reference("bash", case, dir)));
}
