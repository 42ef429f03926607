//! The archive, unpacked in an empty directory and in a root without anything else, and the lists
//! of digests and sizes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ikigai_tests::conformance::{Native, cases, run_all};
use ikigai_tests::host::Ran;
use ikigai_tests::impossible_here;
use serde_json::{Value, json};

use crate::artifacts::{Machine, directory, file, has};

const PREFIX: &str = "ikigai-";

/// The variable with the directory of the files of a release for every target.
const OF_OTHERS: &str = "IKIGAI_TEST_DIST_OF_ALL";

fn unpacked(machine: &Machine, suffix: &str, decompress: &str) -> Option<std::path::PathBuf> {
    let archive = file(PREFIX, suffix)?;
    let place = machine.path("unpacked");
    fs::create_dir(&place).expect("a directory");
    let (archive, target) = (archive.to_str().expect("UTF-8"), place.to_str().expect("UTF-8"));
    machine.run("tar", &[decompress, "-xf", archive, "-C", target]);
    let mut entries = fs::read_dir(&place).expect("listed");
    let root = entries.next().expect("a directory").expect("an entry").path();
    assert!(entries.next().is_none(), "everything lies below one directory");
    Some(root)
}

#[test]
fn an_unpacked_archive_works() {
    for (suffix, decompress) in [(".tar.gz", "--gzip"), (".tar.zst", "--zstd")] {
        let machine = Machine::new();
        let Some(root) = unpacked(&machine, suffix, decompress) else { return };
        machine.assert_works(&root.join("bin/ikigai"));
        for name in ["LICENSE-MIT", "THIRD-PARTY-LICENSES", "sbom.cdx.json", "config.toml"] {
            assert!(root.join("share/doc/ikigai").join(name).is_file(), "{name}");
        }
    }
}

/// Checks the archives for 64-bit ARM in an emulator of the processor. The emulator has no user
/// namespaces, so the sandbox is not tried.
#[test]
fn the_tools_for_another_processor_pass_every_case() {
    let Some(directory) = env::var_os(OF_OTHERS) else {
        return impossible_here("no archives for another processor: `IKIGAI_CI_DIST=1` makes them");
    };
    let entries = fs::read_dir(directory).expect("the directory of the archives");
    let is_one = |path: &PathBuf| {
        path.to_string_lossy().ends_with("aarch64-unknown-linux-gnu.tar.gz")
            || path.to_string_lossy().ends_with("aarch64-unknown-linux-musl.tar.gz")
    };
    let archives: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(is_one).collect();
    assert!(!archives.is_empty(), "no archive for 64-bit ARM");
    for archive in archives {
        let machine = Machine::new();
        let (from, to) = (archive.to_str().expect("UTF-8"), machine.path("unpacked"));
        fs::create_dir(&to).expect("a directory");
        let parts = ["--strip-components=1", "-C", to.to_str().expect("UTF-8")];
        machine.run("tar", &[&["-xf", from], &parts[..]].concat());
        let cases = cases();
        let outcomes = run_all(&Native::from_directory(&to.join("libexec/ikigai")), &cases);
        let failed = cases.iter().zip(outcomes).filter_map(|(case, outcome)| {
            outcome.err().map(|reason| format!("{}: {reason}", case.id()))
        });
        let failed: Vec<String> = failed.collect();
        assert!(failed.is_empty(), "{from}:\n{}", failed.join("\n"));
    }
}

#[test]
fn an_archive_that_nobody_may_write_to_works() {
    let machine = Machine::new();
    let Some(root) = unpacked(&machine, ".tar.gz", "--gzip") else { return };
    let root = root.to_str().expect("UTF-8").to_owned();
    machine.run("chmod", &["-R", "a-w", &root]);
    machine.assert_works(Path::new(&root).join("bin/ikigai").as_path());
    machine.run("chmod", &["-R", "u+w", &root]);
}

#[test]
fn an_archive_works_in_a_root_with_its_libraries_only() {
    let machine = Machine::new();
    let Some(root) = unpacked(&machine, ".tar.gz", "--gzip") else { return };
    let listed = machine.run("ldd", &[root.join("bin/ikigai").to_str().expect("UTF-8")]);
    // A line is `NAME => PATH (ADDRESS)`, or `PATH (ADDRESS)` for the interpreter.
    let libraries =
        listed.lines().filter_map(|line| line.split_whitespace().find(|it| it.starts_with('/')));
    for library in libraries {
        let copy = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(copy.parent().expect("a parent")).expect("a directory");
        fs::copy(library, &copy).expect("copied");
    }
    assert_works_as_root(&root);
}

#[test]
fn an_archive_for_musl_works_in_a_root_without_libraries() {
    let Some(directory) = env::var_os(OF_OTHERS) else {
        return impossible_here("no archive for musl: `IKIGAI_CI_DIST=1` makes it");
    };
    let mut entries = fs::read_dir(directory).expect("the directory of the archives").flatten();
    let archive = entries.find_map(|entry| {
        let path = entry.path().into_os_string().into_string().expect("UTF-8");
        path.ends_with("x86_64-unknown-linux-musl.tar.gz").then_some(path)
    });
    let archive = archive.expect("an archive for musl");
    let machine = Machine::new();
    let root = machine.path("root");
    fs::create_dir(&root).expect("a directory");
    let to = root.to_str().expect("UTF-8");
    machine.run("tar", &["-xf", &archive, "--strip-components=1", "-C", to]);
    assert_works_as_root(&root);
}

/// Asserts that a tool works if an unpacked archive is the whole root file system.
fn assert_works_as_root(root: &Path) {
    if !rustix::process::geteuid().is_root() {
        return impossible_here("a root of its own for an archive needs an administrator");
    }
    fs::create_dir(root.join("work")).expect("a directory");
    fs::write(root.join("work/note.txt"), "a needle\n").expect("written");
    fs::create_dir(root.join("proc")).expect("a directory");
    // A program finds its own installation through /proc.
    let commands = r#"mount -t proc proc "$1/proc" && exec chroot "$@""#;
    let mut chroot = Command::new("unshare");
    chroot.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/home");
    chroot.args(["--mount", "sh", "-c", commands, "sh"]).arg(root);
    chroot.args(["/bin/ikigai", "--workspace", "/work", "tool", "call", "grep"]);
    let ran = Ran::from_command(chroot.arg(r#"{"pattern":"needle"}"#), b"").expect_code(0);
    assert_eq!(ran.json()["result"]["count"], json!(1), "{ran}");
}

#[test]
fn the_list_of_digests_covers_every_file() {
    let Some(directory) = directory() else { return };
    let mut sums = Command::new("sha256sum");
    let sums = sums.current_dir(&directory).args(["--check", "--quiet", "--strict", "SHA256SUMS"]);
    Ran::from_command(sums, b"").expect_code(0);
    let listed = fs::read_to_string(directory.join("SHA256SUMS")).expect("the list");
    for entry in fs::read_dir(&directory).expect("listed").flatten() {
        let name = entry.file_name().into_string().expect("UTF-8");
        let is_listed = listed.lines().any(|line| line.ends_with(&format!("  {name}")));
        assert_eq!(is_listed, !name.starts_with("SHA256SUMS"), "{name}");
    }
}

#[test]
fn the_program_of_an_archive_finds_its_digest_in_the_list() {
    let machine = Machine::new();
    let Some(root) = unpacked(&machine, ".tar.gz", "--gzip") else { return };
    let archive = file(PREFIX, ".tar.gz").expect("it was unpacked");
    let mut doctor = machine.command(root.join("bin/ikigai"));
    let ran = Ran::from_command(doctor.args(["doctor", "--verify"]).arg(archive), b"");
    // Whether it is signed depends on the release.
    assert!(ran.stdout().contains("  ok    its digest is the one in `SHA256SUMS`"), "{ran}");
}

/// Returns the bill of materials of an unpacked archive.
fn bill(root: &Path) -> Value {
    let text = fs::read_to_string(root.join("share/doc/ikigai/sbom.cdx.json")).expect("read");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn the_bill_of_materials_has_every_crate_and_its_digest() {
    let machine = Machine::new();
    let Some(root) = unpacked(&machine, ".tar.gz", "--gzip") else { return };
    let bill = bill(&root);
    assert_eq!(bill["specVersion"], json!("1.5"));
    let components = bill["components"].as_array().expect("a list");
    let named = |name: &str| components.iter().find(|it| it["name"] == *name);
    for name in ["wasmtime", "rustls", "rusqlite", "bashkit"] {
        let found = named(name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(found["hashes"][0]["alg"], json!("SHA-256"), "{found}");
    }
    for name in ["proptest", "clap_derive", "insta"] {
        assert!(named(name).is_none(), "{name} is in no program");
    }
}

/// Prints the crates in the section of cargo-auditable, which is compressed JSON.
const READ_CRATES: &str = "import json, sys, zlib
for it in json.loads(zlib.decompress(open(sys.argv[1], 'rb').read()))['packages']:
    if it.get('kind', 'runtime') == 'runtime':
        print('pkg:cargo/%s@%s' % (it['name'], it['version'].replace('+', '%2B')))";

#[test]
fn the_bill_of_materials_covers_the_list_in_each_program() {
    let machine = Machine::new();
    let Some(root) = unpacked(&machine, ".tar.gz", "--gzip") else { return };
    if !has("objcopy") || !has("python3") {
        return;
    }
    let bill = bill(&root);
    let components = bill["components"].as_array().expect("a list");
    let main = &bill["metadata"]["component"];
    let listed: Vec<_> = components.iter().chain([main]).map(|it| it["bom-ref"].clone()).collect();
    let section = machine.path("section");
    let dump = format!("--dump-section=.dep-v0={}", section.display());
    for program in ["bin/ikigai", "libexec/ikigai-supervisor", "libexec/ikigai/grep"] {
        let mut objcopy = machine.command("objcopy");
        // Without another output, objcopy would write the program again.
        objcopy.arg(&dump).arg(root.join(program)).arg(machine.path("copy"));
        let ran = Ran::from_command(&mut objcopy, b"");
        if ran.stderr().contains("can't dump section") {
            return impossible_here("the crates in a program need a build with cargo-auditable");
        }
        ran.expect_code(0);
        let crates = machine.run("python3", &["-c", READ_CRATES, section.to_str().expect("UTF-8")]);
        assert!(crates.lines().count() > 10, "{program}: {crates}");
        for name in crates.lines() {
            assert!(listed.contains(&json!(name)), "{name} of {program} is not listed");
        }
    }
}
