//! The fixtures for grants of files and for hidden names: the guest `walker`, called with a grant.
//!
//! The guest of WASI 0.3 takes the same steps on a copy of the same files, and must see the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use bytes::Bytes;
use ikigai_host::exec::output::Sink;
use ikigai_host::exec::wasm::{GuestProgram, Runtime};
use ikigai_host::exec::{Call, Executor as _, Exit, Outcome, Stdin};
use ikigai_host::limits::CallLimits;
use ikigai_host::policy::{Grant, Hide, Reserved};
use ikigai_protocol::{Access, GrantedDir};
use ikigai_tests::paths;
use ikigai_tests::wait::TIMEOUT;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const RO: Access = Access::ReadOnly;
pub(crate) const RW: Access = Access::ReadWrite;

/// A tree of files with a workspace.
pub(crate) struct Tree(TempDir);

impl Tree {
    /// Creates a tree with these files, each with its own path as its contents.
    pub(crate) fn from_files(files: &[&str]) -> Self {
        let tree = Self(tempfile::tempdir().expect("a directory"));
        fs::create_dir(tree.path("work")).expect("made");
        for file in files {
            let path = tree.path(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, file).expect("written");
        }
        tree
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.0.path()).expect("there").join(name)
    }

    /// Returns a path as the guest names it.
    pub(crate) fn name(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| format!("{:?}", error.kind()))
    }

    /// Returns a grant of these paths that hides the names `hide`.
    pub(crate) fn grant(&self, dirs: &[(Access, &str)], hide: &[&str]) -> Grant {
        let dir = |(access, name): &(Access, &str)| {
            // A grant contains the path without a slash at its end.
            let path = fs::canonicalize(self.path(name)).expect("there");
            GrantedDir { access: *access, path }
        };
        let hide = Hide::parse(hide.iter().copied()).expect("patterns");
        Grant { dirs: dirs.iter().map(dir).collect(), hide, ..Grant::default() }
    }

    /// Returns a grant to write to the workspace, and explicitly to these paths in it.
    pub(crate) fn guarding(&self, named: &[&str]) -> Grant {
        let dir = |name: &&str| GrantedDir { access: RW, path: self.path(name) };
        let reserved =
            Reserved::guarding([&["work"][..], named].concat().iter().map(dir).collect());
        Grant { reserved, ..self.grant(&[(RW, "work")], &[]) }
    }

    /// Makes the guest take steps, and returns the result of each.
    pub(crate) fn walk(&self, grant: &Grant, steps: &[&str]) -> Vec<String> {
        self.walk_within(CallLimits::default().wasm_memory, grant, steps)
    }

    /// Makes the guest take steps with this memory limit, and returns the result of each.
    pub(crate) fn walk_within(&self, memory: u64, grant: &Grant, steps: &[&str]) -> Vec<String> {
        let limits = CallLimits { wasm_memory: memory, ..CallLimits::default() };
        if !steps.iter().any(|step| step.starts_with("replace ") || step.starts_with("streams ")) {
            let kept = self.copy();
            let other = self.take(async_guest(), grant, limits, steps);
            self.restore(&kept);
            let seen = self.take(walker(), grant, limits, steps);
            assert_eq!(other, seen, "WASI 0.3 and 0.2 differ: {steps:?}");
            return seen;
        }
        self.take(walker(), grant, limits, steps)
    }

    /// Returns a copy of all files.
    fn copy(&self) -> TempDir {
        let kept = tempfile::tempdir().expect("a directory");
        copy(self.0.path(), kept.path());
        kept
    }

    /// Brings all files back.
    fn restore(&self, kept: &TempDir) {
        for entry in fs::read_dir(self.0.path()).expect("listed").flatten() {
            match entry.file_type().expect("a type").is_dir() {
                true => fs::remove_dir_all(entry.path()).expect("removed"),
                false => fs::remove_file(entry.path()).expect("removed"),
            }
        }
        copy(kept.path(), self.0.path());
    }

    fn take(
        &self,
        program: &GuestProgram,
        grant: &Grant,
        limits: CallLimits,
        steps: &[&str],
    ) -> Vec<String> {
        let outcome = self.call(program, grant, limits, &["steps", &steps.join(";")], b"");
        let seen = object(&outcome);
        let came = |step: &&str| {
            let seen = seen.get(*step).and_then(Value::as_str);
            seen.unwrap_or_else(|| panic!("`{step}` was not tried: {seen:?}")).to_owned()
        };
        steps.iter().map(came).collect()
    }

    /// Calls a built-in tool, named with hyphens, with JSON.
    pub(crate) fn tool(&self, grant: &Grant, tool: &str, input: &str) -> Value {
        let bytes =
            fs::read(paths::tools().join(format!("{tool}.wasm"))).expect("a staged component");
        let program = runtime().compile_here(&bytes).expect("compiled");
        object(&self.call(&program, grant, CallLimits::default(), &[], input.as_bytes()))
    }

    fn call(
        &self,
        program: &GuestProgram,
        grant: &Grant,
        limits: CallLimits,
        args: &[&str],
        input: &[u8],
    ) -> Outcome {
        let call = Call {
            args: args.iter().map(Into::into).collect(),
            stdin: Stdin::Bytes(Bytes::copy_from_slice(input)),
            stderr: Sink::Tail(64 << 10),
            grant: grant.clone().into(),
            limits: CallLimits { wall_clock: TIMEOUT, ..limits },
            ..Call::new(self.path("work"))
        };
        let one_thread = tokio::runtime::Builder::new_current_thread().enable_time().build();
        one_thread.expect("a runtime").block_on(async {
            tokio::time::timeout(2 * TIMEOUT, program.run(call)).await.expect("the call ends")
        })
    }
}

fn object(outcome: &Outcome) -> Value {
    assert_eq!(outcome.exit, Exit::Code(0), "{outcome:?}");
    serde_json::from_slice(&outcome.stdout.bytes).expect("JSON")
}

fn runtime() -> &'static std::sync::Arc<Runtime> {
    static RUNTIME: OnceLock<std::sync::Arc<Runtime>> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new(8, u64::MAX).expect("a runtime"))
}

fn walker() -> &'static GuestProgram {
    static WALKER: OnceLock<GuestProgram> = OnceLock::new();
    WALKER.get_or_init(|| {
        let bytes = fs::read(guest("walker")).expect("the guest");
        runtime().compile_here(&bytes).expect("compiled")
    })
}

fn async_guest() -> &'static GuestProgram {
    static GUEST: OnceLock<GuestProgram> = OnceLock::new();
    GUEST.get_or_init(|| {
        let bytes = fs::read(guest("async_guest")).expect("the guest");
        runtime().compile_here(&bytes).expect("compiled")
    })
}

/// Copies everything in a directory, with links, hard links and times.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status();
    assert!(copied.expect("cp runs").success());
}

fn guest(name: &str) -> PathBuf {
    Path::new(&paths::guests()).join(format!("{name}.wasm"))
}
