//! The files that read the environment of ikigai's process. Each names its variables here, so that
//! docs/reference/environment.md has all of them.

use std::collections::BTreeMap;

/// The folders with the parts of the program.
pub(crate) const CHECKED: &[&str] = &[
    "agent/src",
    "assets/src",
    "cli/src",
    "host/src",
    "mcp/src",
    "packages/src",
    "protocol/src",
    "provider/src",
    "supervisor/src",
    "terminal/src",
];

/// The files that read the environment, in order, with the variables that they read by name.
pub(crate) const READERS: &[(&str, &[&str])] = &[
    ("agent/src/confined.rs", &["PATH"]),
    ("assets/src/database/failure.rs", &["PGPASSWORD"]),
    ("assets/src/database/postgres.rs", &["PGSSLMODE"]),
    // The program's own table, from which the page is made.
    ("cli/src/variables.rs", &[]),
    (
        "host/src/paths.rs",
        &["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"],
    ),
    ("host/src/policy/standard.rs", &["PATH", "HOME", "LANG"]),
    // The variables that a policy names.
    ("host/src/policy/variables.rs", &[]),
    ("terminal/src/look.rs", &["TERM", "NO_COLOR"]),
];

/// Returns the files of a folder that read the environment. Leaves out comments and files of tests.
pub(crate) fn readers(folder: &str, sources: &BTreeMap<String, String>) -> Vec<String> {
    let reads = |line: &str| line.contains("env::var") && !line.trim_start().starts_with("//");
    let is_test = |path: &str| path.ends_with("tests.rs") || path.contains("tests/");
    let readers = sources.iter().filter(|(path, text)| !is_test(path) && text.lines().any(reads));
    readers.map(|(path, _)| format!("{folder}/{path}")).collect()
}
