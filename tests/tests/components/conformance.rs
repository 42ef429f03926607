//! Every case on the native builds, with the rights of their caller.

use ikigai_tests::conformance::{Native, cases, run_all};

#[test]
fn every_case_holds_on_the_native_builds() {
    let cases = cases();
    let outcomes = run_all(&Native::staged(), &cases);
    let failures: Vec<String> = cases
        .iter()
        .zip(outcomes)
        .filter_map(|(case, outcome)| {
            outcome.err().map(|reason| format!("{}: {reason}", case.id()))
        })
        .collect();
    assert!(
        failures.is_empty(),
        "{} of {} fail:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}
