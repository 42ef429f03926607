//! The shell of the component against GNU bash: each command has the same result, or is listed here
//! with the reason why not.
//!
//! A case on the list that agrees after all is a failure too. If GNU bash is on the machine, its
//! answers are compared with the record. `cargo test --test fidelity -- --ignored` writes a new
//! record.

use std::process::Command;

use ikigai_tests::fidelity::{self, Case, Made, cases, component, reference, run_all};
use ikigai_tests::left_out;

/// The reasons for which the shell of the component answers otherwise, each with the ids of its
/// cases. A reason that begins with `wrong` is a wrong result without an error message.
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

/// Compares results with the record, and the differences with the excused ones.
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

/// Returns whether this machine has the programs behind the record: GNU bash 5, coreutils and jq.
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

/// The programs that take every word as an operand, as GNU's do.
const WITHOUT_OPTIONS: &[&str] = &["[", "echo", "expr", "false", "test", "true"];

/// A script that calls each command of `/usr/bin` and each builtin of the shell with a long and a
/// short option that no command has, alone and before an operand.
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
                // Builtins of bash take `--` for the option in `--no-such-option`.
                || answer[2].contains("--: invalid option");
            !WITHOUT_OPTIONS.contains(&command) && (answer[1] == "0" || !names)
        })
        .map(|answer| answer.join(" | "))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), answers.len(), wrong.join("\n"));
    let kept = std::fs::read_to_string(scratch.path().join("words.txt")).expect("still there");
    assert_eq!(kept, "1\n");
}

/// Records the answer of GNU bash to each case.
#[test]
#[ignore = "changes the record"]
fn record() {
    assert!(has_gnu(), "the record is of GNU bash 5, coreutils and jq");
    let cases = cases();
    fidelity::record(&cases, &run_all(&cases, &|case, dir| reference("bash", case, dir)));
}
