//! Checks that all ports give equal answers: each case runs in memory, natively and as a component,
//! with the same expected answer.
//!
//! Cases that a port cannot pass by its nature are listed by id with the reason. A listed case that
//! passes is a failure as well. `conformance.rs` tests the native port, which has no excused cases.
//! The shell has no port in memory. `fidelity.rs` lists the differences between its component and
//! GNU bash.

use ikigai_tests::conformance::{Case, Component, Fake, Port, cases, run_all};

/// The ids of cases that a port cannot pass, with the reasons.
type Excuses = &'static [(&'static str, &'static [&'static str])];

const OUTSIDE: &str = "names a path outside the granted directory, which is denied, not missing";

const IN_MEMORY: Excuses = &[
    (
        "has no command line",
        &[
            "file-read/schema-exact",
            "file-read/schema-no-env",
            "file-write/schema-exact",
            "file-write/schema-no-env",
            "file-edit/schema-exact",
            "glob/schema-exact",
            "glob/schema-no-env",
            "grep/schema-exact",
            "grep/schema-no-env",
        ],
    ),
    (
        OUTSIDE,
        &[
            "file-read/not-found",
            "file-read/proc-file",
            "file-edit/file-not-found",
            "glob/no-match-dir",
            "grep/nonexistent-path",
        ],
    ),
    (
        "has no modes or users",
        &[
            "file-read/permission-denied",
            "file-read/permission-denied-dir",
            "file-write/permission-dir",
            "file-write/umask-077",
        ],
    ),
    ("has no pipes", &["grep/fifo-skipped"]),
];

const AS_COMPONENT: Excuses = &[
    (
        OUTSIDE,
        &[
            "file-read/not-found",
            "file-read/proc-file",
            "file-edit/file-not-found",
            "glob/no-match-dir",
            "grep/nonexistent-path",
        ],
    ),
    ("WASI has no names that are not UTF-8", &["glob/non-utf8-name"]),
];

/// Runs `cases` on `port` and compares the failures with the excused cases.
fn check(port: &dyn Port, cases: &[Case], excuses: Excuses) {
    let excused =
        |id: &str| excuses.iter().find(|(_, ids)| ids.contains(&id)).map(|(reason, _)| *reason);
    let mut wrong = Vec::new();
    for (case, outcome) in cases.iter().zip(run_all(port, cases)) {
        match (excused(case.id()), outcome) {
            (None, Err(reason)) => wrong.push(format!("{}: {reason}", case.id())),
            (Some(reason), Ok(())) => {
                wrong.push(format!("{}: holds, but is excused: the port {reason}", case.id()));
            }
            (None, Ok(())) | (Some(_), Err(_)) => {}
        }
    }
    let unknown = excuses
        .iter()
        .flat_map(|(_, ids)| *ids)
        .filter(|id| !cases.iter().any(|case| case.id() == **id));
    wrong.extend(unknown.map(|id| format!("{id}: excused, but there is no such case")));
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

fn cases_of_files() -> Vec<Case> {
    cases().into_iter().filter(|case| case.tool() != "bash").collect()
}

#[test]
fn the_tools_of_files_answer_the_same_in_memory() {
    check(&Fake, &cases_of_files(), IN_MEMORY);
}

#[test]
fn the_tools_answer_the_same_as_components() {
    check(&Component::staged(), &cases(), AS_COMPONENT);
}

#[test]
fn the_tools_of_files_answer_the_same_as_components_of_wasi_0_3() {
    check(&Component::of_wasi_0_3(), &cases_of_files(), AS_COMPONENT);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_tools_answer_the_same_as_components_of_the_baseline() {
    check(&Component::of_the_baseline(), &cases(), AS_COMPONENT);
}
