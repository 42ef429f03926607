//! The run of a case: the files, the policy and the command line that it needs, and its steps.
//!
//! ikigai preopens a directory under its own path and, if it lies in the workspace, under its path
//! from there. No policy lets a tool write to `/`. So a case that looks for the preopen `/` runs in
//! another program (`tests/wasi-root`), which calls ikigai's library after it made the directory its
//! root.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use sha2::{Digest as _, Sha256};

use super::RootPlace;
use super::case::{CaseDescription, CaseStep, TestCase};
use crate::place;
use crate::run;

/// The time limit of a case, as ikigai reads it.
const TIMEOUT: &str = "20s";

/// The exit code of ikigai for a program that trapped.
const TRAPPED: i64 = 134;

/// The longest time to wait for a byte over a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest reason of a failure, in characters.
const LONGEST_REASON: usize = 400;

/// The program that starts another program in its own namespaces, in which that program may make a
/// directory its root.
const UNSHARE: &str = "unshare";
const OWN_NAMESPACES: &[&str] = &["--user", "--map-root-user", "--mount"];

/// A shell script that runs its arguments. The third of them is the new root, in which the library
/// needs `/proc`.
const WITH_PROC: &str = r#"mount --rbind /proc "$2/proc" && exec "$@""#;

/// The result of a case.
pub(crate) enum CaseOutcome {
    Passed,
    Failed(String),
    LeftOut(&'static str),
}

/// Runs cases, one after the other.
pub(crate) struct CaseRunner {
    program: PathBuf,
    root_program: Option<PathBuf>,
    scratch: PathBuf,
    has_namespaces: bool,
}

impl CaseRunner {
    /// `scratch` is a directory for the files of the cases. Programs compiled there stay for the
    /// next run.
    pub(crate) fn new(
        program: &Path,
        root_program: Option<&Path>,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        let absolute = |path: &Path| {
            path.canonicalize().with_context(|| format!("cannot find `{}`", path.display()))
        };
        let probe = [OWN_NAMESPACES, &["true"]].concat();
        Ok(Self {
            program: absolute(program)?,
            root_program: root_program.map(absolute).transpose()?,
            scratch: absolute(scratch)?,
            has_namespaces: run::works(UNSHARE, &probe),
        })
    }

    /// Returns why no case can have a directory named `/`, if that is so.
    pub(crate) fn missing_root(&self) -> Option<&'static str> {
        (!self.has_namespaces).then_some("this machine gives a user no own namespaces (`unshare`)")
    }

    /// Runs a case to its end.
    ///
    /// # Errors
    ///
    /// Fails if the case cannot be started. A case that does something else than it should is a
    /// result.
    pub(crate) fn run(
        &self,
        root_place: RootPlace,
        case: &TestCase,
    ) -> anyhow::Result<CaseOutcome> {
        let wanted = &case.description;
        if let Some(reason) = wanted.left_out {
            return Ok(CaseOutcome::LeftOut(reason));
        }
        let needs_slash = wanted.root.is_some() && root_place == RootPlace::Slash;
        if let Some(reason) = self.missing_root().filter(|_| needs_slash) {
            return Ok(CaseOutcome::LeftOut(reason));
        }
        let files = CaseFiles::lay_out(&self.scratch.join("case"), case)?;
        let mut command = match &files.root {
            Some(root) if needs_slash => self.with_slash(root, &case.file)?,
            _ => self.tool_run(root_place, case, &files)?,
        };
        command
            .args(&wanted.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut running = RunningCase::start(&mut command)?;
        for step in &wanted.steps {
            if let Err(reason) = running.take(step) {
                let reason = format!("{reason:#}{}", running.end());
                return Ok(CaseOutcome::Failed(reason.chars().take(LONGEST_REASON).collect()));
            }
        }
        Ok(CaseOutcome::Passed)
    }

    /// Returns the command that runs the file with `root` as its `/`.
    fn with_slash(&self, root: &Path, file: &Path) -> anyhow::Result<Command> {
        let root_program = self.root_program.as_ref().context("there is no program with a root")?;
        place::directory(&root.join("proc"))?;
        let mut command = Command::new(UNSHARE);
        command.args(OWN_NAMESPACES).args(["sh", "-c", WITH_PROC, "sh"]);
        command.arg(root_program).arg(root).arg(file);
        Ok(command)
    }

    fn tool_run(
        &self,
        root_place: RootPlace,
        case: &TestCase,
        files: &CaseFiles,
    ) -> anyhow::Result<Command> {
        let file = case.file.canonicalize()?;
        let policy = policy(&fs::read(&file)?, &case.description, files.root.as_deref())?;
        let policy_file = self.scratch.join("policy.toml");
        fs::write(&policy_file, policy)?;
        let workspace = match &files.root {
            Some(root) if root_place == RootPlace::Workspace => root,
            _ => &files.empty,
        };
        let mut command = Command::new(&self.program);
        command.args(["tool", "run", "--approve", "never", "--timeout", TIMEOUT, "--policy"]);
        command.arg(&policy_file).arg("--workspace").arg(workspace).arg(&file);
        // Settings of the user could change the result.
        command.env_clear().env("HOME", self.scratch.join("home"));
        command.envs(&case.description.variables);
        Ok(command)
    }
}

/// Returns a policy that grants a file what its case needs. Some cases only open sockets, which needs
/// a peer too.
fn policy(
    contents: &[u8],
    wanted: &CaseDescription,
    root: Option<&Path>,
) -> anyhow::Result<String> {
    let digest: String =
        Sha256::digest(contents).iter().map(|byte| format!("{byte:02x}")).collect();
    let dirs: Vec<String> = match (root, wanted.parts) {
        (None, _) => Vec::new(),
        (Some(root), []) => vec![format!("rw:{}", root.display())],
        (Some(root), parts) => parts
            .iter()
            .map(|(access, part)| format!("{access}:{}", root.join(part).display()))
            .collect(),
    };
    let variables: Vec<&String> = wanted.variables.keys().collect();
    // A list of JSON is one of TOML too.
    Ok(format!(
        "[tools.case]\nask = false\nsha256 = [\"{digest}\"]\nfs = {}\nenv = {}\n\
         net = [\"127.0.0.1:*\", \"[::1]:*\"]\n",
        serde_json::to_string(&dirs)?,
        serde_json::to_string(&variables)?,
    ))
}

/// The directories of a case.
struct CaseFiles {
    /// A copy of the directory that the case works in.
    root: Option<PathBuf>,
    empty: PathBuf,
}

impl CaseFiles {
    fn lay_out(directory: &Path, case: &TestCase) -> anyhow::Result<Self> {
        place::empty_directory(directory)?;
        let empty = directory.join("empty");
        place::directory(&empty)?;
        let mut files = Self { root: None, empty };
        if let Some(name) = &case.description.root {
            let root = directory.join("root");
            place::tree(&case.file.with_file_name(name), &root)?;
            files.root = Some(root);
        }
        Ok(files)
    }
}

/// A case that has started. If it is dropped, it is killed.
struct RunningCase {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
    connection: Option<TcpStream>,
    /// The rest of stderr, once the case has ended.
    complaint: Vec<u8>,
}

impl RunningCase {
    fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command.spawn().context("it cannot be started")?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("it has no stdout")?;
        let stderr = child.stderr.take().context("it has no stderr")?;
        let (stdout, stderr) = (BufReader::new(stdout), BufReader::new(stderr));
        Ok(Self { child, stdin, stdout, stderr, connection: None, complaint: Vec::new() })
    }

    /// # Errors
    ///
    /// Fails if the case does something else than the step expects.
    fn take(&mut self, step: &CaseStep) -> anyhow::Result<()> {
        match step {
            CaseStep::Write(text) => {
                let stdin = self.stdin.as_mut().context("stdin is closed")?;
                stdin.write_all(text.as_bytes())?;
                stdin.flush()?;
            }
            CaseStep::ReadStdout(text) => expect("stdout", &mut self.stdout, text)?,
            CaseStep::ReadStderr(text) => {
                // ikigai's own line before the first run of a file.
                if self.stderr.fill_buf()?.starts_with(b"compiling ") {
                    self.stderr.skip_until(b'\n')?;
                }
                expect("stderr", &mut self.stderr, text)?;
            }
            CaseStep::Connect => {
                let mut line = String::new();
                self.stdout.read_line(&mut line)?;
                let connect = || format!("cannot connect to `{}`", line.trim());
                let connection = TcpStream::connect(line.trim()).with_context(connect)?;
                connection.set_read_timeout(Some(CONNECTION_TIMEOUT))?;
                self.connection = Some(connection);
            }
            CaseStep::Send(text) => self.connection()?.write_all(text.as_bytes())?,
            CaseStep::Receive(text) => expect("the connection", self.connection()?, text)?,
            CaseStep::Wait(code) => self.wait_for(*code)?,
            CaseStep::Trap(message) => {
                self.wait_for(TRAPPED)?;
                let has_message = String::from_utf8_lossy(&self.complaint).contains(message);
                ensure!(has_message, "a trap without the message {message:?}");
            }
        }
        Ok(())
    }

    fn wait_for(&mut self, code: i64) -> anyhow::Result<()> {
        self.read_to_the_end()?;
        let ended = self.child.wait()?.code().map(i64::from);
        let shown = ended.map_or("none".to_owned(), |code| code.to_string());
        ensure!(ended == Some(code), "exit code {shown} instead of {code}");
        Ok(())
    }

    fn connection(&mut self) -> anyhow::Result<&mut TcpStream> {
        self.connection.as_mut().context("there is no connection")
    }

    /// Closes stdin, and reads until the case closes its streams. It would wait for a reader of a
    /// full pipe.
    fn read_to_the_end(&mut self) -> io::Result<()> {
        self.stdin = None;
        let (stdout, stderr) = (&mut self.stdout, &mut self.stderr);
        thread::scope(|scope| {
            scope.spawn(|| io::copy(stdout, &mut io::sink()));
            stderr.read_to_end(&mut self.complaint)
        })?;
        Ok(())
    }

    /// Ends the case, and returns what it wrote to stderr about its failure.
    fn end(mut self) -> String {
        // A case ends at the time limit at the latest. Without its output, its failure still counts.
        let _ = self.read_to_the_end();
        complaint(&String::from_utf8_lossy(&self.complaint))
    }
}

impl Drop for RunningCase {
    fn drop(&mut self) {
        // It has usually ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads as many bytes as `text` has, and compares them with it.
fn expect(place: &str, from: &mut impl Read, text: &str) -> anyhow::Result<()> {
    let mut read = Vec::new();
    from.take(text.len() as u64).read_to_end(&mut read)?;
    let read = String::from_utf8_lossy(&read);
    ensure!(read == text, "{place} has {read:?} instead of {text:?}");
    Ok(())
}

/// Returns the lines of stderr that tell about a failure, as one line.
fn complaint(stderr: &str) -> String {
    // A panic in a guest is a trap, and has a message of its own.
    let is_noise = |line: &str| {
        line.is_empty()
            || ["compiling ", "note: "].iter().any(|noise| line.starts_with(noise))
            || line.ends_with("trapped: wasm `unreachable` instruction executed")
    };
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !is_noise(line)).collect();
    if lines.is_empty() { String::new() } else { format!(": {}", lines.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_grants_what_the_case_needs() {
        let mut wanted = CaseDescription::default();
        wanted.variables.insert("a".to_owned(), "b".to_owned());
        let text = policy(b"abc", &wanted, Some(Path::new("/r"))).expect("a policy");
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(
            text,
            format!(
                "[tools.case]\nask = false\nsha256 = [\"{digest}\"]\nfs = [\"rw:/r\"]\n\
                 env = [\"a\"]\nnet = [\"127.0.0.1:*\", \"[::1]:*\"]\n"
            )
        );
        wanted.parts = &[("rw", "x"), ("ro", "y")];
        let text = policy(b"abc", &wanted, Some(Path::new("/r"))).expect("a policy");
        assert!(text.contains(r#"fs = ["rw:/r/x","ro:/r/y"]"#), "{text}");
    }

    #[test]
    fn a_reason_leaves_out_what_every_run_prints() {
        let stderr = "compiling x.wasm (only the first time)\n\nthread 'main' panicked at a.rs:1:\n\
                      left: 1\nnote: run with `RUST_BACKTRACE=1`\nerror: `x.wasm` trapped: wasm \
                      `unreachable` instruction executed\nerror: other\n";
        let reason = ": thread 'main' panicked at a.rs:1:; left: 1; error: other";
        assert_eq!(complaint(stderr), reason);
        assert_eq!(complaint(""), "");
    }

    #[test]
    fn output_that_ends_early_is_not_what_was_expected() {
        assert!(expect("stdout", &mut &b"hello!"[..], "hello").is_ok());
        let error = expect("stdout", &mut &b"hell"[..], "hello").expect_err("too short");
        assert_eq!(error.to_string(), r#"stdout has "hell" instead of "hello""#);
    }
}
