//! Finds the files that `cargo xtask dist` made for this machine.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ikigai_tests::host::Ran;
use ikigai_tests::impossible_here;
use serde_json::json;
use tempfile::TempDir;

/// The variable with the directory of the files.
const DIRECTORY: &str = "IKIGAI_TEST_DIST";

/// The variable that makes missing files and programs a failure, if it is `1`.
const REQUIRE_VARIABLE: &str = "IKIGAI_REQUIRE_DIST";

/// Returns the directory of the files, or reports that they are missing.
pub(crate) fn directory() -> Option<PathBuf> {
    match env::var_os(DIRECTORY) {
        Some(directory) => Some(directory.into()),
        None => missing("files of `cargo xtask dist`, in the directory `IKIGAI_TEST_DIST`"),
    }
}

/// Returns the file whose name has this beginning and this end.
pub(crate) fn file(start: &str, end: &str) -> Option<PathBuf> {
    let directory = directory()?;
    let entries = fs::read_dir(&directory).expect("the directory of the files");
    let is_it = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.starts_with(start) && name.ends_with(end)
    };
    let found = entries.flatten().map(|entry| entry.path()).find(is_it);
    found.or_else(|| missing(&format!("the file `{start}…{end}`")))
}

/// Returns whether `program` is on the `PATH`, or reports that it is missing.
pub(crate) fn has(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
        || missing::<()>(program).is_some()
}

fn missing<T>(what: &str) -> Option<T> {
    let is_required = env::var_os(REQUIRE_VARIABLE).is_some_and(|value| value == "1");
    assert!(!is_required, "{what} is missing, and `{REQUIRE_VARIABLE}` asks for it");
    impossible_here(&format!("the files of a release need {what}"));
    None
}

/// A directory with an empty home and a workspace, for an installation.
pub(crate) struct Machine {
    scratch: TempDir,
}

impl Machine {
    /// Lies in the target directory: its parents belong to the user, so the installation's compiled
    /// components are trusted.
    pub(crate) fn new() -> Self {
        let parent = ikigai_tests::paths::shown_scratch();
        fs::create_dir_all(&parent).expect("a directory for scratch");
        let scratch = TempDir::new_in(parent).expect("a directory");
        let mut private = fs::DirBuilder::new();
        for name in ["home", "workspace"] {
            private.mode(0o700).create(scratch.path().join(name)).expect("a directory");
        }
        fs::write(scratch.path().join("workspace/note.txt"), "a needle\n").expect("written");
        Self { scratch }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Returns a command with nothing but this machine's home in its environment.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path("workspace")).env_clear().env("HOME", self.path("home"));
        command.env("PATH", env::var_os("PATH").unwrap_or_default());
        command
    }

    /// Runs a command that succeeds, and returns its stdout.
    #[track_caller]
    pub(crate) fn run(&self, program: impl AsRef<OsStr>, args: &[&str]) -> String {
        Ran::from_command(self.command(program).args(args), b"").expect_code(0).stdout()
    }

    /// Asserts that an installed program runs a tool without compiling it, and serves MCP.
    #[track_caller]
    pub(crate) fn assert_works(&self, program: &Path) {
        let arguments = json!({ "pattern": "needle" }).to_string();
        let mut call = self.command(program);
        let ran = Ran::from_command(call.args(["tool", "call", "grep", &arguments]), b"");
        let ran = ran.expect_code(0);
        assert_eq!(ran.json()["result"]["output"], json!("./note.txt:1: a needle"), "{ran}");
        assert!(!ran.stderr().contains("compiling"), "compiled ahead: {ran}");

        let initialize = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            },
        });
        let mut server = self.command(program);
        let lines = format!("{initialize}\n");
        let ran = Ran::from_command(server.args(["mcp", "serve"]), lines.as_bytes());
        assert!(ran.stdout().contains(r#""name":"ikigai""#), "{ran}");
    }
}
