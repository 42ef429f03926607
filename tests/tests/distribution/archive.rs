//! The archive, unpacked in an empty directory and in a root without anything else, and the lists
//! of digests and sizes.

use std::fs;
use std::path::Path;
use std::process::Command;

use ikigai_tests::host::Ran;
use ikigai_tests::impossible_here;
use serde_json::{Value, json};

use crate::artifacts::{Machine, directory, file, has};

const PREFIX: &str = "ikigai-";

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
    if !rustix::process::geteuid().is_root() {
        return impossible_here("a root of its own for an archive needs an administrator");
    }
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
    fs::create_dir(root.join("work")).expect("a directory");
    fs::write(root.join("work/note.txt"), "a needle\n").expect("written");
    fs::create_dir(root.join("proc")).expect("a directory");
    // A program finds its own installation through /proc.
    let commands = r#"mount -t proc proc "$1/proc" && exec chroot "$@""#;
    let mut chroot = Command::new("unshare");
    chroot.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/home");
    chroot.args(["--mount", "sh", "-c", commands, "sh"]).arg(&root);
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
fn the_bill_of_materials_has_every_crate_and_its_digest() {
    let machine = Machine::new();
    let Some(root) = unpacked(&machine, ".tar.gz", "--gzip") else { return };
    let bill = fs::read_to_string(root.join("share/doc/ikigai/sbom.cdx.json")).expect("read");
    let bill: Value = serde_json::from_str(&bill).expect("JSON");
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

#[test]
fn programs_list_their_crates() {
    let machine = Machine::new();
    let Some(root) = unpacked(&machine, ".tar.gz", "--gzip") else { return };
    if !has("readelf") {
        return;
    }
    let program = root.join("bin/ikigai");
    let sections =
        machine.run("readelf", &["--sections", "--wide", program.to_str().expect("UTF-8")]);
    if !sections.contains(".dep-v0") {
        impossible_here("the list of crates in a program needs a build with cargo-auditable");
    }
}
