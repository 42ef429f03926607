//! Runs a case's tool as a process: a native build directly, a component through the host.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::chown;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{Case, Port, Ran, set_mode};
use crate::component::padded;
use crate::paths;
use crate::tiers::{ABOVE_THE_BASELINE, compiled, is_of_the_baseline, leave_unoptimised};

const NOBODY: u32 = 65_534;

/// The directory of the built-in tools in an installation.
const TOOLS: &str = "libexec/ikigai";

/// The interval at which a process is checked for its end.
const POLL: Duration = Duration::from_millis(2);

/// The executables of a directory, with the rights of their caller.
#[derive(Debug)]
pub struct Native {
    tools: TempDir,
}

impl Native {
    /// Returns the staged tools. They are copied to a directory from which any user may run them.
    #[must_use]
    pub fn staged() -> Self {
        Self::from_directory(&paths::tools())
    }

    /// Returns the tools of this directory, as [`Self::staged`] does.
    #[must_use]
    pub fn from_directory(dir: &Path) -> Self {
        let tools = directory();
        copy_files(dir, tools.path());
        Self { tools }
    }
}

impl Port for Native {
    fn run(&self, case: &Case, dir: &Path) -> Result<Ran, String> {
        let mut command = vec![self.tools.path().join(case.tool()).into_os_string()];
        command.extend(case.args().into_iter().map(OsString::from));
        run(&command, &[], case, dir, case.timeout())
    }
}

/// The components of a directory, under the host.
#[derive(Debug)]
pub struct Component {
    programs: TempDir,
    /// The factor by which a case's time limit is multiplied.
    patience: u32,
}

impl Component {
    /// Returns the staged host and components, already compiled.
    #[must_use]
    pub fn staged() -> Self {
        let port = Self { programs: installed(), patience: 1 };
        let compiled = ".cache/components";
        copy_all(&paths::tools().join(compiled), &port.tools().join(compiled))
            .expect("the compiled components can be copied");
        port.ready()
    }

    /// Returns the same components as baseline code. It gives the same answers, but not as fast: no
    /// installed component runs as baseline code, and the shell's is tens of megabytes.
    #[must_use]
    pub fn of_the_baseline() -> Self {
        const PATIENCE: u32 = 20;

        let port = Self { programs: installed(), patience: PATIENCE };
        let listed = fs::read_dir(port.tools()).expect("the copies can be listed");
        for path in listed.flatten().map(|entry| entry.path()) {
            if path.extension().is_some_and(|extension| extension == "wasm") {
                let bytes = fs::read(&path).expect("a component can be read");
                let large = padded(&bytes, ABOVE_THE_BASELINE);
                fs::write(&path, &large).expect("a component can be written");
                leave_unoptimised(&port.cache().join("ikigai"), &large);
            }
        }
        let port = port.ready();
        let code = compiled(&port.cache().join("ikigai"));
        let all = code.len() == 6 && code.iter().all(|path| is_of_the_baseline(path));
        assert!(all, "{code:?}");
        port
    }

    /// Returns the tools of files as components of WASI 0.3, under the same names.
    #[must_use]
    pub fn of_wasi_0_3() -> Self {
        let port = Self { programs: installed(), patience: 1 };
        fs::remove_file(port.tools().join("bash.wasm")).expect("a copy can be removed");
        for tool in ["file-edit", "file-read", "file-write", "glob", "grep"] {
            let guest = format!("async_{}.wasm", tool.replace('-', "_"));
            let bytes = fs::read(paths::guests().join(&guest)).expect("the guest");
            let run = b"wasi:cli/run@0.3.";
            assert!(bytes.windows(run.len()).any(|window| window == run), "{guest}");
            fs::write(port.tools().join(format!("{tool}.wasm")), bytes).expect("a tool");
        }
        port.ready()
    }

    fn ready(self) -> Self {
        fs::create_dir_all(self.cache()).expect("a directory for compiled components");
        // The time limit of a case is for the tool, not for the compiler.
        let mut list = Command::new(self.host());
        list.args(options(Path::new("/"))).args(["tool", "list"]);
        let listed = list.env("XDG_CACHE_HOME", self.cache()).output().expect("the host runs");
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        if rustix::process::geteuid().is_root() {
            give_to_nobody(&self.cache(), &self.cache_of_nobody()).expect("a cache for nobody");
        }
        self
    }

    fn host(&self) -> PathBuf {
        self.programs.path().join("bin/ikigai")
    }

    fn tools(&self) -> PathBuf {
        self.programs.path().join(TOOLS)
    }

    fn cache(&self) -> PathBuf {
        self.programs.path().join("cache")
    }

    /// Returns the cache of the user `nobody`. A host trusts only a cache that belongs to its user.
    fn cache_of_nobody(&self) -> PathBuf {
        self.programs.path().join("cache-of-nobody")
    }
}

fn options(workspace: &Path) -> [OsString; 6] {
    let words = ["--backend", "wasm", "--user-tools", "/nonexistent", "--workspace"];
    let [backend, wasm, tools, nowhere, flag] = words.map(OsString::from);
    [backend, wasm, tools, nowhere, flag, workspace.into()]
}

impl Port for Component {
    fn run(&self, case: &Case, dir: &Path) -> Result<Ran, String> {
        let mut command = vec![self.host().into_os_string()];
        command.extend(options(dir));
        command.extend(["tool", "run"].map(OsString::from));
        command.push(case.tool().replace('-', "_").into());
        command.extend(case.args().into_iter().map(OsString::from));
        let of_nobody = case.flag("as_nobody") && rustix::process::geteuid().is_root();
        let cache = if of_nobody { self.cache_of_nobody() } else { self.cache() };
        let time = case.timeout() * self.patience;
        run(&command, &[("XDG_CACHE_HOME", cache.as_os_str())], case, dir, time)
    }
}

/// Returns a directory in which a case that runs as the user `nobody` can reach the programs.
fn directory() -> TempDir {
    let to = TempDir::new().expect("a temporary directory");
    set_mode(to.path(), 0o755).expect("a directory for all to read");
    to
}

/// Returns an installation of the host, its compiler and the tools, without compiled code.
fn installed() -> TempDir {
    let to = directory();
    let copy = |from: PathBuf, to: PathBuf| {
        fs::create_dir_all(to.parent().expect("a parent")).expect("a directory");
        fs::copy(from, to).expect("a program can be copied");
    };
    copy(paths::host(), to.path().join("bin/ikigai"));
    copy(paths::compiler(), to.path().join("libexec/ikigai-compiler"));
    copy_files(&paths::tools(), &to.path().join(TOOLS));
    to
}

/// Copies the files of a directory, but not the directories in it.
fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    let entries = fs::read_dir(from).expect("the staged tools can be listed");
    for file in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()) {
        let name = file.file_name().expect("a file has a name");
        fs::copy(&file, to.join(name)).expect("a program can be copied");
    }
}

/// Copies a directory with its modes.
fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    fs::set_permissions(to, fs::metadata(from)?.permissions())
}

/// Copies a directory with its modes, and makes the user `nobody` the owner of the copies.
fn give_to_nobody(from: &Path, to: &Path) -> io::Result<()> {
    copy_all(from, to)?;
    let mut left = vec![to.to_owned()];
    while let Some(path) = left.pop() {
        chown(&path, Some(NOBODY), Some(NOBODY))?;
        if path.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        }
    }
    Ok(())
}

fn run(
    command: &[OsString],
    host_env: &[(&str, &std::ffi::OsStr)],
    case: &Case,
    dir: &Path,
    time: Duration,
) -> Result<Ran, String> {
    // Only a shell can set the mask without unsafe code here.
    let mask = case.0["umask"].as_str().unwrap_or("022");
    let mut process = Command::new("/bin/sh");
    process
        .args(["-c", &format!("umask {mask}; exec \"$0\" \"$@\"")])
        .args(command)
        .current_dir(dir);
    if case.flag("clean_env") {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        process.env_clear().env("PATH", path);
    }
    process.env("LC_ALL", "C").envs(host_env.iter().copied());
    for (name, value) in case.0["env"].as_object().into_iter().flatten() {
        process.env(name, value.as_str().unwrap_or(""));
    }
    if case.flag("as_nobody") && rustix::process::geteuid().is_root() {
        process.uid(NOBODY).gid(NOBODY);
    }
    process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = process.spawn().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let input = case.stdin();
    thread::scope(|scope| {
        scope.spawn(move || {
            // A tool need not read its input.
            let _ = stdin.map(|mut stdin| stdin.write_all(&input));
        });
        let stdout = scope.spawn(move || drained(stdout));
        let stderr = scope.spawn(move || drained(stderr));
        let deadline = Instant::now() + time;
        let status = loop {
            match child.try_wait().map_err(|error| error.to_string())? {
                Some(status) => break Ok(status),
                None if Instant::now() > deadline => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break Err(format!("no end after {time:?}"));
                }
                None => thread::sleep(POLL),
            }
        };
        let exit = |status: std::process::ExitStatus| {
            status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)).into()
        };
        let (stdout, stderr) = (stdout.join(), stderr.join());
        let read =
            |bytes: thread::Result<Vec<u8>>| bytes.map_err(|_| "a reader panicked".to_owned());
        Ok(Ran { exit: exit(status?), stdout: read(stdout)?, stderr: read(stderr)? })
    })
}

fn drained(stream: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The bytes before a failure are still checked.
    let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
    bytes
}
