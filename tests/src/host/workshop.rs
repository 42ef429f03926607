//! The surroundings that tests give a host: tools, files, another user.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use serde_json::Value;

use super::{Host, Ran};
use crate::mode::permit;
use crate::{leftovers, paths, tiers};

/// The policy of the host's user, beneath [`Host::scratch`].
pub const USER_POLICY: &str = "home/.config/ikigai/policy.toml";

/// The id of the user `nobody`, who has no rights.
pub const NOBODY: u32 = 65534;

impl Host {
    /// Creates a host that has only the test's own tools.
    #[must_use]
    pub fn without_system_tools() -> Self {
        Self::new().with_no_system_tools()
    }

    /// Hides the system's tools.
    #[must_use]
    pub fn with_no_system_tools(self) -> Self {
        let dir = self.system_tools();
        fs::create_dir(&dir).expect("a directory of the test");
        self.env("IKIGAI_SYSTEM_TOOLS", dir)
    }

    /// Returns the directory that [`Self::without_system_tools`] uses in place of the staged one.
    #[must_use]
    pub fn system_tools(&self) -> PathBuf {
        self.scratch.path().join("system-tools")
    }

    /// Returns the directory that is removed with this host and contains all the others.
    #[must_use]
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Returns the directory of this host's caches, beneath `XDG_CACHE_HOME`.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.cache.join("ikigai")
    }

    /// Locks the compilation of the component with this digest, as another host that compiles it
    /// would, for as long as the value lives. The cache must already contain a component.
    #[must_use]
    pub fn take_turn(&self, digest: impl Display) -> File {
        let mut engines = fs::read_dir(self.cache().join("components")).expect("a cache");
        let engine = engines.next().expect("an engine").expect("read").path();
        locked(&engine.join(format!("{digest}.lock")))
    }

    /// Locks the compilation of the component's optimised code. This works in an empty cache as
    /// well.
    #[must_use]
    pub fn take_turn_for_optimised(&self, digest: impl Display) -> Vec<File> {
        let dirs = tiers::of_optimised_code(&self.cache()).into_iter();
        dirs.map(|dir| locked(&dir.join(format!("{digest}.lock")))).collect()
    }

    /// Takes the lock with which the cache's hosts compile in the background.
    #[must_use]
    pub fn take_turn_behind(&self) -> File {
        // The call creates the directory.
        tiers::of_optimised_code(&self.cache());
        locked(&self.cache().join("components/behind.lock"))
    }

    /// Copies the tools of the build to a place that every user can reach, without their compiled
    /// code.
    #[must_use]
    pub fn with_tools_for_all(self) -> Self {
        let dir = self.system_tools();
        fs::create_dir_all(&dir).expect("a directory of the test");
        for entry in fs::read_dir(paths::tools()).expect("the tools are listed").flatten() {
            if entry.path().is_file() {
                fs::copy(entry.path(), dir.join(entry.file_name())).expect("a copy of a tool");
            }
        }
        self.env("IKIGAI_SYSTEM_TOOLS", dir)
    }

    /// Makes further runs those of a user without rights, who owns everything that exists so far.
    /// If the test does not run as root, its user already has no rights.
    #[must_use]
    pub fn as_nobody(mut self) -> Self {
        if geteuid().is_root() {
            give(self.scratch.path());
            // Only root can access the build, so it is copied. A link would change the file's
            // times, by which hosts of other tests decide whether they filled a cache. The copy is
            // made after the other files changed their owner, so it stays root's.
            let installed = self.scratch.path().join("installed");
            let copy = |from: &Path, to: &str| {
                let to = installed.join(to);
                fs::create_dir_all(to.parent().expect("a parent")).expect("a directory");
                fs::copy(from, &to).expect("a copy of a program");
                to
            };
            copy(&paths::supervisor(), "libexec/ikigai-supervisor");
            copy(&paths::compiler(), "libexec/ikigai-compiler");
            self.program = copy(&self.program, "bin/ikigai");
            self.user = Some(NOBODY);
        }
        self
    }

    /// Returns `true` if the host runs as [`NOBODY`] instead of the user of the test.
    #[must_use]
    pub fn runs_as_nobody(&self) -> bool {
        self.user.is_some()
    }

    /// Runs `ikigai ARGS` in an environment that forbids new namespaces. Returns `None` if this
    /// machine cannot set that up.
    #[must_use]
    pub fn run_without_namespaces(&self, args: &[&str]) -> Option<Ran> {
        let forbid = "for n in user mnt pid net ipc uts; do \
                      echo 0 >/proc/sys/user/max_${n}_namespaces || exit 99; done; exec \"$@\"";
        let mut command = self.command_of("unshare");
        command.args(["-Ur", "sh", "-c", forbid, "sh"]).arg(&self.program).args(args);
        let works = Command::new("unshare").args(["-Ur", "true"]).output();
        works
            .is_ok_and(|output| output.status.success())
            .then(|| Ran::from_command(&mut command, b""))
    }

    /// Writes a file in any of the host's directories, and creates its missing parents.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.scratch.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory of the test");
        fs::write(&path, content).expect("a file of the test");
        permit(&path, mode);
        path
    }

    /// Writes a tool that is a shell script in the directory of user tools. It answers `--schema`
    /// and otherwise runs `body`.
    pub fn script(&self, name: &str, body: &str) -> PathBuf {
        let schema = schema(name);
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = --schema ]; then printf %s '{schema}'; exit; fi\n{body}\n"
        );
        self.write(Path::new("user-tools").join(name), text, 0o755)
    }

    /// Writes a tool that is an executable with exactly this content.
    pub fn program(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        self.write(Path::new("user-tools").join(name), content, 0o755)
    }

    /// Copies a guest of `tests/guests` to the directory of user tools.
    pub fn guest(&self, name: &str) -> PathBuf {
        let file = format!("{name}.wasm");
        self.write(Path::new("user-tools").join(&file), guest_bytes(name), 0o644)
    }

    /// Copies a guest of `tests/guests` as the built-in tool `as_name` to the directory of system
    /// tools, with the grant of that name. The name must have the length of the guest's own name.
    pub fn guest_as(&self, name: &str, own_name: &str, as_name: &str) -> PathBuf {
        assert_eq!(own_name.len(), as_name.len(), "the name is written over the guest's own");
        let mut bytes = guest_bytes(name);
        let own = format!("\"name\":\"{own_name}\"");
        let places: Vec<usize> = bytes
            .windows(own.len())
            .enumerate()
            .filter_map(|(place, window)| (window == own.as_bytes()).then_some(place))
            .collect();
        assert_eq!(places.len(), 1, "`{own}` in the guest `{name}`");
        let start = places[0] + "\"name\":\"".len();
        bytes[start..start + as_name.len()].copy_from_slice(as_name.as_bytes());
        let file = format!("{}.wasm", as_name.replace('_', "-"));
        self.write(Path::new("system-tools").join(file), bytes, 0o644)
    }

    /// Returns the directory of this host's audit log, beneath `XDG_STATE_HOME`.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.scratch.path().join("state/ikigai")
    }

    /// Returns the path of the audit log, which need not exist.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.state().join("audit.jsonl")
    }

    /// Returns every record of the audit log, oldest first. Without a log there are none.
    #[must_use]
    #[track_caller]
    pub fn records(&self) -> Vec<Value> {
        let path = self.audit_log();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => panic!("`{}`: {error}", path.display()),
        };
        let parse =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        text.lines().map(parse).collect()
    }

    /// Writes the policy of the host's user, and returns its path.
    pub fn write_policy(&self, text: impl AsRef<[u8]>) -> PathBuf {
        self.write(USER_POLICY, text, 0o600)
    }

    /// Returns every file beneath the host's directories except the cache and the audit log, with
    /// its size, for a comparison of before and after.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let mut files = Vec::new();
        let state = self.scratch.path().join("state");
        collect(self.scratch.path(), &[&self.cache, &state], &mut files);
        files.sort();
        files
    }

    /// Fails unless every process that belongs to this host is gone or ends during a wait.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        leftovers::assert_none(self.scratch.path());
        let tmp = self.scratch.path().join("tmp");
        let left: Vec<_> = fs::read_dir(tmp).expect("a directory").flatten().collect();
        assert!(left.is_empty(), "left in TMPDIR: {left:?}");
    }
}

/// Returns a schema for a tool whose parameters do not matter.
#[must_use]
pub fn schema(name: &str) -> String {
    format!(
        r#"{{"name":"{name}","description":"The tool {name}","parameters":{{"type":"object","properties":{{}}}}}}"#
    )
}

fn guest_bytes(name: &str) -> Vec<u8> {
    let path = paths::guests().join(format!("{name}.wasm"));
    fs::read(&path).unwrap_or_else(|error| panic!("`{}`: {error}", path.display()))
}

fn give(path: &Path) {
    let metadata = fs::symlink_metadata(path).expect("there");
    if metadata.is_symlink() {
        return;
    }
    chown(path, Some(NOBODY), Some(NOBODY)).expect("given away");
    if metadata.is_dir() {
        for entry in fs::read_dir(path).expect("readable").flatten() {
            give(&entry.path());
        }
    }
}

fn collect(dir: &Path, without: &[&Path], files: &mut Vec<(PathBuf, u64)>) {
    for entry in fs::read_dir(dir).expect("readable").flatten() {
        let path = entry.path();
        let metadata = entry.metadata().expect("there");
        if without.contains(&path.as_path()) {
            continue;
        }
        if metadata.is_dir() {
            files.push((path.clone(), 0));
            collect(&path, without, files);
        } else {
            files.push((path, metadata.len()));
        }
    }
}

/// Creates a file and locks it.
fn locked(path: &Path) -> File {
    let turn = File::create(path).expect("created");
    flock(&turn, FlockOperation::NonBlockingLockExclusive).expect("nobody compiles");
    turn
}
