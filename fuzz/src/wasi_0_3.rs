//! The imports of WASI 0.3, used by the guest of tests/guests-async in its mode `operations`. The
//! input is a sequence of operations.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use ikigai_host::exec::output::Sink;
use ikigai_host::exec::wasm::{GuestProgram, Runtime};
use ikigai_host::exec::{Call, Executor as _, Exit, Outcome, Stdin};
use ikigai_host::limits::CallLimits;
use ikigai_host::policy::Grant;
use ikigai_protocol::{Access, GrantedDir};
use tempfile::TempDir;

/// The mode of the guest.
const MODE: &str = "operations";

/// The contents of the file `canary`, which the guest may not read.
const SECRET: &str = "what no guest may read";

/// The most entries in the granted directory. Each operation makes at most one, and there are 256.
const ENTRIES: usize = 300;

/// The most bytes that the guest may leave on the disk. Each operation writes at most 64 KiB.
const WRITTEN: u64 = 32 << 20;

/// The longest time of a call, which its own limit ends earlier.
const LONGEST: Duration = Duration::from_secs(9);

/// Texts of a trap that shows a bug of the host.
const BUGS: &[&str] = &["bug", "did not end at once", "blocked inside the operating system"];

static PROGRAM: LazyLock<(Arc<Runtime>, GuestProgram)> = LazyLock::new(|| {
    let path = guests().join("async_guest.wasm");
    let read = fs::read(&path);
    let bytes = read.unwrap_or_else(|error| {
        panic!("`{}`: {error}; run `cargo xtask test` first", path.display())
    });
    let runtime = Runtime::new(2, u64::MAX).expect("a runtime");
    let program = runtime.compile_here(&bytes).expect("compiled");
    (runtime, program)
});

/// Returns the directory of the guests: `IKIGAI_TEST_GUESTS`, or `TARGET/test-guests`.
fn guests() -> PathBuf {
    let built = || {
        let program = env::current_exe().expect("the path of the test");
        // A test is `TARGET/PROFILE/deps/NAME`.
        program.ancestors().nth(3).expect("a target directory").join("test-guests")
    };
    env::var_os("IKIGAI_TEST_GUESTS").map_or_else(built, PathBuf::from)
}

/// Checks that the call ends, that nothing outside of the granted directory was read or changed, and
/// that little was made in it.
pub(crate) fn run(data: &[u8]) {
    let place = Place::new();
    let before = place.outside();
    let outcome = call(&place.granted, data);
    assert_no_bug(&outcome);
    // The guest prints a line for each piece that it reads, and may begin in the middle.
    for printed in [&outcome.stdout.bytes, &outcome.stderr.bytes] {
        let read: Vec<u8> = printed.iter().copied().filter(|byte| *byte != b'\n').collect();
        let is_secret = |part: &[u8]| read.windows(part.len()).any(|it| it == part);
        assert!(!SECRET.as_bytes().windows(8).any(is_secret), "read the file outside: {outcome:?}");
    }
    assert_eq!(place.outside(), before, "changed something outside: {outcome:?}");
    let (entries, written) = size(&place.granted);
    assert!(entries <= ENTRIES, "{entries} entries");
    assert!(written <= WRITTEN, "{written} bytes");
}

fn call(granted: &Path, data: &[u8]) -> Outcome {
    let dirs = vec![GrantedDir { access: Access::ReadWrite, path: granted.to_owned() }];
    let limits = CallLimits {
        wall_clock: Duration::from_secs(5),
        fuel: 1_000_000_000,
        wasm_memory: 32 << 20,
        output: 256 << 10,
        handles: 64,
        ..CallLimits::default()
    };
    let call = Call {
        args: vec![MODE.into()],
        stdin: Stdin::Bytes(Bytes::copy_from_slice(data)),
        stderr: Sink::Tail(64 << 10),
        grant: Grant { dirs, ..Grant::default() }.into(),
        limits,
        ..Call::new(granted)
    };
    let one_thread = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let program = &PROGRAM.1;
    one_thread.expect("a runtime").block_on(async {
        tokio::time::timeout(LONGEST, program.run(call)).await.expect("the call ends")
    })
}

fn assert_no_bug(outcome: &Outcome) {
    let trap = match &outcome.exit {
        Exit::Code(_) => "",
        Exit::Trap(text) => text.as_str(),
        other => panic!("{other:?}: {outcome:?}"),
    };
    assert!(!BUGS.iter().any(|text| trap.contains(text)), "{outcome:?}");
    // The bindings of the guest check every answer of the host.
    let said = String::from_utf8_lossy(&outcome.stderr.bytes);
    assert!(!said.contains("panicked"), "{said}\n{outcome:?}");
}

/// A granted directory with some files and links. Its parent has a file and a directory that are
/// not granted.
struct Place {
    root: TempDir,
    granted: PathBuf,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let path = fs::canonicalize(root.path()).expect("there");
        let granted = path.join("granted");
        fs::create_dir_all(granted.join("dir")).expect("made");
        fs::create_dir(path.join("beside")).expect("made");
        fs::write(path.join("canary"), SECRET).expect("written");
        fs::write(granted.join("file"), "the file ".repeat(100)).expect("written");
        fs::write(granted.join("dir/inner"), "the file in the directory").expect("written");
        let link = |target: &Path, name: &str| {
            symlink(target, granted.join(name)).expect("linked");
        };
        link(Path::new("file"), "link");
        link(Path::new("../canary"), "out");
        link(Path::new(".."), "up");
        link(Path::new("loop"), "loop");
        link(&path.join("canary"), "absolute");
        Self { root, granted }
    }

    /// Returns the state of everything outside of the granted directory.
    fn outside(&self) -> Outside {
        let root = self.root.path();
        let state = |path: PathBuf| {
            let found = fs::symlink_metadata(path).expect("there");
            (
                found.ino(),
                found.mode(),
                found.nlink(),
                found.len(),
                found.ctime(),
                found.ctime_nsec(),
            )
        };
        let names = |dir: PathBuf| {
            let entries = fs::read_dir(dir).expect("listed").flatten();
            entries.map(|entry| entry.file_name()).collect()
        };
        Outside {
            names: [names(root.to_owned()), names(root.join("beside"))],
            states: ["canary", "beside", ""].map(|name| state(root.join(name))),
            contents: fs::read_to_string(root.join("canary")).expect("read"),
        }
    }
}

/// The state of a file that changes with everything but a read: its number, mode, links, length and
/// time of change.
type FileState = (u64, u32, u64, u64, i64, i64);

/// The state of everything outside of the granted directory.
#[derive(Debug, PartialEq)]
struct Outside {
    names: [BTreeSet<OsString>; 2],
    states: [FileState; 3],
    contents: String,
}

/// Returns the number of entries below a directory, and the bytes on the disk.
fn size(dir: &Path) -> (usize, u64) {
    let (mut entries, mut bytes) = (0, 0);
    for entry in fs::read_dir(dir).expect("listed").flatten() {
        let found = entry.metadata().expect("there");
        entries += 1;
        bytes += found.blocks() * 512;
        if found.is_dir() {
            let (below, more) = size(&entry.path());
            entries += below;
            bytes += more;
        }
    }
    (entries, bytes)
}
