//! One answer on every port: each case runs in memory, natively and as a
//! component, and must come out as it says on all three.
//!
//! What a port cannot do by its nature is listed by id with the reason. The lists
//! are kept honest: a case on them that holds after all is a failure too. The
//! native port is `conformance.rs`'s, where no case is excused. The shell has no
//! port in memory; how its component differs from GNU bash is `fidelity.rs`'s.

use ikigai_tests::conformance::{Case, Component, Fake, Port, cases, run_all};

/// Ids, and why the port cannot.
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

/// Runs `cases` on `port` and compares what fails with what is excused.
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
