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
    ("refused: options that the interpreter's command lacks", &["process/bash-s"]),
    ("the exit code is 1 where bash has 127 for an unset variable", &["error/set-u"]),
    (
        "no `Terminated` for a child that a signal ended: there are no children",
        &["error/exit-codes"],
    ),
    ("wrong: a file is not newer than one that is missing", &["test/newer-than-missing"]),
    (
        "other words in a message",
        &["error/missing-files", "file/diff", "find/missing", "test/cmp", "coding/getopts-message"],
    ),
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

/// Programs to which every word is an operand, as GNU's are.
const WITHOUT_OPTIONS: &[&str] = &["[", "echo", "expr", "false", "test", "true"];

/// Calls each command of `/usr/bin` and each builtin of the shell with an option that no
/// command has, long and short, alone and before an operand.
const UNKNOWN_OPTIONS: &str = "\
    builtins='alias cd disown enable export hash jobs kill mapfile popd pushd readarray \
        readonly set shopt source trap type umask unalias unset wait'
    for command in $(ls /usr/bin); do
        for words in --no-such-option -% '--no-such-option words.txt' '-% words.txt'; do
            said=$(\"$command\" $words 2>&1 < /dev/null)
            printf '%s %s\\t%s\\t%s\\n' \"$command\" \"$words\" $? \"${said//$'\\n'/ }\"
        done
    done
    for command in $builtins; do
        said=$($command -% 2>&1 < /dev/null)
        printf '%s -%%\\t%s\\t%s\\n' \"$command\" $? \"${said//$'\\n'/ }\"
    done";

#[test]
fn every_command_refuses_an_option_that_it_does_not_know_by_its_name() {
    let scratch = tempfile::TempDir::new().expect("a temporary directory");
    std::fs::write(scratch.path().join("words.txt"), "1\n").expect("a file");
    let case = Case::new("options/unknown", UNKNOWN_OPTIONS);
    let (output, exit) = component(&case, scratch.path());
    assert_eq!(exit, 0, "{output}");
    let answers: Vec<Vec<&str>> =
        output.lines().map(|line| line.splitn(3, '\t').collect()).collect();
    let count = |name: &str| answers.iter().filter(|answer| answer[0].starts_with(name)).count();
    assert!(answers.len() > 400 && count("mv ") == 4 && count("unset ") == 1, "{output}");
    let wrong: Vec<String> = answers
        .iter()
        .filter(|answer| {
            let command = answer[0].split(' ').next().unwrap_or_default();
            let names = answer[2].contains("no-such-option")
                || answer[2].contains('%')
                // What bash's builtins take for the option in `--no-such-option`.
                || answer[2].contains("--: invalid option");
            !WITHOUT_OPTIONS.contains(&command) && (answer[1] == "0" || !names)
        })
        .map(|answer| answer.join(" | "))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), answers.len(), wrong.join("\n"));
    let kept = std::fs::read_to_string(scratch.path().join("words.txt")).expect("still there");
    assert_eq!(kept, "1\n");
}

/// Writes down what GNU bash makes of each case.
#[test]
#[ignore = "changes the record"]
fn record() {
    assert!(has_gnu(), "the record is of GNU bash 5, coreutils and jq");
    let cases = cases();
    fidelity::record(&cases, &run_all(&cases, &|case, dir| reference("bash", case, dir)));
}
