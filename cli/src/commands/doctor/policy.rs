//! The checks of the policy files, and of the profile in force.

use super::DoctorCheck;
use crate::commands::policy::misplaced_tables;
use crate::error::CliError;
use ikigai_host::host::Host;
use ikigai_host::policy::{FileStatus, Provenance};
use ikigai_host::registry::Snapshot;

const SECTION: &str = "policy";

pub(super) fn checks(host: &Host, snapshot: &Snapshot) -> Vec<DoctorCheck> {
    let authority = host.authority();
    let profile = match authority.profile() {
        Ok((profile, sources)) => {
            let sources: Vec<String> = sources.iter().map(Provenance::to_string).collect();
            let from =
                if sources.is_empty() { "the default".to_owned() } else { sources.join(", ") };
            DoctorCheck::new(SECTION, "profile", format!("{} ({from})", profile.as_str()))
        }
        Err(denial) => DoctorCheck::new(SECTION, "profile", denial.reason)
            .fail(denial.hint.unwrap_or_else(|| "no tool runs until then".to_owned())),
    };
    let files = authority.files();
    let misplaced = misplaced_tables(host, snapshot).into_iter();
    let misplaced =
        misplaced.map(|table| DoctorCheck::new(SECTION, "entry", table.problem).warn(table.advice));
    [profile].into_iter().chain(files.iter().map(file)).chain(misplaced).collect()
}

/// Returns the check of a policy that cannot be used for this reason.
pub(super) fn none(error: &CliError) -> DoctorCheck {
    let reason = error.reason();
    // The lines after the first show the place.
    let what = reason.lines().next().unwrap_or_default();
    let hint = error.given_hints().first().cloned();
    DoctorCheck::new(SECTION, "policy", what)
        .fail(hint.unwrap_or_else(|| "correct it: no tool runs until then".to_owned()))
}

fn file(file: &FileStatus) -> DoctorCheck {
    let path = file.path.display();
    match &file.problem {
        Some(problem) => {
            DoctorCheck::new(SECTION, file.kind.as_str(), format!("`{path}` {}", problem.what))
                .warn(problem.hint.clone().unwrap_or_else(|| {
                    "its last valid contents stay in force until you correct it".to_owned()
                }))
        }
        None if file.exists => DoctorCheck::new(SECTION, file.kind.as_str(), format!("`{path}`")),
        None => DoctorCheck::new(SECTION, file.kind.as_str(), format!("none at `{path}`")),
    }
}
