//! The verdict "listed", compared with real shells. For each listed script, the shells of this
//! machine must run only the commands that the matcher read, with exactly the same words.
//!
//! The shell's `PATH` contains only recorders: a small program for each name, which writes down its
//! words. The environment is the test's own, so that no command of the machine is found.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ikigai_host::policy::{ScriptVerdict, fuzzing_commands};
use ikigai_protocol::shell::SHELLS;
use ikigai_tests::draw::{self, Draw};
use ikigai_tests::mode::permit;
use tempfile::TempDir;

use crate::policy_layers::scripts::generated;

const ALLOW: &[&str] = &[
    "a",
    "b *",
    "git status",
    "git log *",
    "no *",
    "cargo test *",
    "echo *",
    "exit *",
    "false *",
    "pwd *",
    "test *",
    "true *",
    "type *",
];

/// The listed commands that are part of a shell, so that no recorder sees them.
const BUILTIN: &[&str] = &["echo", "exit", "false", "pwd", "test", "true", "type"];

/// The built-in commands that complain about their arguments.
const COMPLAINING: &[&str] = &["exit", "pwd", "test", "type"];

/// The names of the recorders: the listed commands, and others that a script must not reach.
const RECORDERS: &[&str] =
    &["a", "b", "git", "no", "cargo", "evil", "x", "y", "ab", "abb", "rm", "sh", "bash", "cat"];

/// The files in the shell's directory, which patterns could match.
const FILES: &[&str] = &["a", "x", "xy", "evil", "-n", "x y", "b"];

/// The variable with the number of scripts, for a longer run.
const COUNT: &str = "IKIGAI_TEST_SCRIPTS";

/// A shell that can run nothing but recorders.
struct Recording {
    scratch: TempDir,
    shell: PathBuf,
    timeout: PathBuf,
}

/// The words of a command.
type Words = Vec<String>;

impl Recording {
    fn new(shell: &Path) -> Self {
        let scratch = tempfile::tempdir().expect("a directory");
        for dir in ["bin", "w"] {
            fs::create_dir(scratch.path().join(dir)).expect("a directory");
        }
        let recorder = "#!/bin/sh\nprintf '%s\\0' \"$#\" \"${0##*/}\" \"$@\" >>\"$RECORD\"\n\
                        case ${0##*/} in no) exit 1;; esac\n";
        for name in RECORDERS {
            let path = scratch.path().join("bin").join(name);
            fs::write(&path, recorder).expect("a recorder");
            permit(&path, 0o755);
        }
        for name in FILES {
            fs::write(scratch.path().join("w").join(name), "evil\n").expect("a file");
        }
        let path = std::env::var_os("PATH").expect("tests are run with one");
        let mut programs = std::env::split_paths(&path).map(|dir| dir.join("timeout"));
        let timeout = programs.find(|path| path.exists()).expect("`timeout` of the coreutils");
        Self { scratch, shell: shell.to_owned(), timeout }
    }

    /// Runs a script as the tool does. Returns the executed commands, in the order in which they
    /// began, and the error output of the shell.
    fn run(&self, script: &str) -> (Vec<Words>, String) {
        // Each run has its own file, so that a background command of an earlier run cannot write to
        // it.
        let record = tempfile::NamedTempFile::new_in(self.scratch.path()).expect("a record");
        let mut command = Command::new(&self.timeout);
        command.args(["-k", "1", "20"]).arg(&self.shell).args(["-c", "--", script]);
        command
            .env_clear()
            .env("PATH", self.scratch.path().join("bin"))
            .env("RECORD", record.path());
        command.env("LANG", "C.UTF-8");
        // A command that is not found is recorded as well.
        let missing = "() { printf '%s\\0' \"$#\" '!missing' \"$@\" >>\"$RECORD\"; }";
        command.env("BASH_FUNC_command_not_found_handle%%", missing);
        command.current_dir(self.scratch.path().join("w")).stdin(Stdio::null());
        let output = command.output().expect("a shell");
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        let complaints = match output.status.code() {
            Some(124 | 137) | None => format!("{complaints}it did not end"),
            Some(_) => complaints,
        };
        (recorded(&fs::read(record.path()).expect("the record")), complaints)
    }

    /// Compares the commands of a listed script with those that run.
    fn compare(&self, script: &str, commands: &[Words]) -> Result<(), String> {
        let (ran, complaints) = self.run(script);
        let problem = |what: &str| {
            let shell = self.shell.display();
            Err(format!(
                "{shell}: {what}\nscript: {script:?}\nread: {commands:?}\nran: {ran:?}\n{complaints}"
            ))
        };
        let has = |names: &[&str]| commands.iter().any(|it| names.contains(&it[0].as_str()));
        if !complaints.is_empty() && !has(COMPLAINING) {
            return problem("the shell complains");
        }
        let external = commands.iter().filter(|words| !BUILTIN.contains(&words[0].as_str()));
        let mut left: BTreeMap<&Words, usize> = BTreeMap::new();
        for words in external {
            *left.entry(words).or_default() += 1;
        }
        for words in &ran {
            match left.get_mut(words) {
                Some(count) if *count > 0 => *count -= 1,
                _ => return problem("a command ran that was not read"),
            }
        }
        // With `&>`, a shell other than bash may end before its commands.
        let may_be_fewer =
            has(&["exit"]) || ["&&", "||", "&>"].iter().any(|operator| script.contains(operator));
        if !may_be_fewer && left.values().any(|count| *count > 0) {
            return problem("a command was read that did not run");
        }
        Ok(())
    }
}

/// Returns the commands of a record. Each consists of the number of its arguments, its name, and
/// the arguments.
fn recorded(record: &[u8]) -> Vec<Words> {
    let mut texts = record.split(|byte| *byte == 0).map(|text| {
        OsString::from(std::ffi::OsStr::from_bytes(text)).to_string_lossy().into_owned()
    });
    let mut commands = Vec::new();
    while let Some(count) = texts.next().filter(|text| !text.is_empty()) {
        let count: usize = count.parse().expect("a number of arguments");
        commands.push(texts.by_ref().take(count + 1).collect());
    }
    commands
}

fn verdict(script: &str) -> ScriptVerdict {
    fuzzing_commands::verdict(ALLOW, &[], script).expect("rules")
}

/// Returns the different shells that may run the tool's scripts.
fn shells() -> Vec<PathBuf> {
    let mut shells: Vec<PathBuf> = Vec::new();
    for shell in SHELLS.iter().filter_map(|path| fs::canonicalize(path).ok()) {
        if !shells.contains(&shell) {
            shells.push(shell);
        }
    }
    assert!(!shells.is_empty(), "there is no shell");
    shells
}

#[test]
fn a_listed_script_runs_only_the_commands_that_were_read() {
    let count: u64 = match std::env::var(COUNT) {
        Ok(count) => count.parse().expect("a number of scripts"),
        Err(_) => 1_200,
    };
    let shells: Vec<Recording> = shells().iter().map(|path| Recording::new(path)).collect();
    let first = draw::seed();
    let mut listed = 0;
    for seed in (0..count).map(|number| first.wrapping_add(number)) {
        let script = generated(&mut Draw::new(seed));
        let ScriptVerdict::Listed { commands, .. } = verdict(&script) else { continue };
        listed += 1;
        for shell in &shells {
            if let Err(problem) = shell.compare(&script, &commands) {
                panic!("{problem}\n{}={seed} begins with this script", draw::SEED);
            }
        }
    }
    assert!(
        listed * 5 > count,
        "{listed} of {count} scripts are listed, with {}={first}: too few to say anything",
        draw::SEED
    );
}

#[test]
fn the_corpus_of_the_fuzz_target_runs_only_the_commands_that_were_read() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/commands");
    let shells: Vec<Recording> = shells().iter().map(|path| Recording::new(path)).collect();
    let mut listed = 0;
    for entry in fs::read_dir(corpus).expect("the corpus") {
        let script = fs::read(entry.expect("an entry").path()).expect("an input");
        let Ok(script) = String::from_utf8(script) else { continue };
        let ScriptVerdict::Listed { commands, .. } = verdict(&script) else { continue };
        listed += 1;
        for shell in &shells {
            shell.compare(&script, &commands).unwrap_or_else(|problem| panic!("{problem}"));
        }
    }
    assert!(listed > 0, "nothing in the corpus is listed");
}

#[test]
fn the_comparison_finds_what_a_careless_reader_would_list() {
    let shell = shells().into_iter().next().expect("a shell");
    let recording = Recording::new(&shell);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Words>();
    for (script, read) in [
        ("b $(evil)", words(&["b", "$(evil)"])),
        ("b x\nevil", words(&["b", "x"])),
        ("b *", words(&["b", "*"])),
        ("b {x,y}", words(&["b", "{x,y}"])),
        ("b `evil` 2>/dev/null", words(&["b", "`evil`"])),
        ("b x;nowhere 2>/dev/null", words(&["b", "x"])),
        ("b 'x", words(&["b", "x"])),
        ("b \"\\x\"", words(&["b", "x"])),
        ("x=1 b", words(&["b", "x=1"])),
    ] {
        assert!(recording.compare(script, &[read]).is_err(), "{script}");
    }
    assert_eq!(recording.compare("b x", &[words(&["b", "x"])]), Ok(()));
    assert!(recording.compare("a", &[words(&["a"]), words(&["a"])]).is_err());
}
