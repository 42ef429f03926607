//! `ikigai policy grant --toolchain`: version managers' layouts in the home directory of a host.
//! The programs then run in the sandbox.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ikigai_tests::component::{Ending, printing};
use ikigai_tests::host::{Host, Ran, schema};
use ikigai_tests::{impossible_here, paths};
use serde_json::{Value, json};

use super::USER;

/// A host whose home directory is not in `/tmp`, which the sandbox replaces, and with these
/// directories on its `PATH`.
fn host(path: &[&str]) -> Host {
    let host = Host::within(&paths::shown_scratch()).with_shared_cache();
    let own = path.iter().map(|dir| host.home().join(dir));
    let dirs = own.chain(["/usr/bin", "/bin"].map(Into::into));
    let path = std::env::join_paths(dirs).expect("no colons");
    host.env("PATH", path)
}

/// Runs a command with the native `bash`.
fn bash(host: &Host, command: &str) -> Ran {
    let arguments = json!({ "command": command }).to_string();
    host.run(["--backend", "native", "tool", "call", "bash", &arguments])
}

fn grant(host: &Host, flags: &[&str]) -> Ran {
    host.run([&["--backend", "native", "policy", "grant", "bash", "--yes"], flags].concat())
}

#[track_caller]
fn assert_prints(ran: &Ran, output: &str) {
    let result = ran.json()["result"].clone();
    assert_eq!(result, json!({ "output": output, "exit_code": 0 }), "{ran}");
}

/// Writes the layout of rustup: its programs are links to a program that starts the toolchain's
/// programs.
fn install_rustup(host: &Host) {
    let rustup = "#!/bin/sh\nexec \"$HOME/.rustup/toolchains/stable/bin/${0##*/}\" \"$@\"\n";
    host.write("home/.cargo/bin/rustup", rustup, 0o755);
    symlink("rustup", host.home().join(".cargo/bin/cargo")).expect("linked");
    let cargo =
        "#!/bin/sh\nset -e\ncat \"$HOME/.cargo/registry/src/crate/lib.rs\"\necho \"$1\" >made\n";
    host.write("home/.rustup/toolchains/stable/bin/cargo", cargo, 0o755);
    host.write("home/.cargo/registry/src/crate/lib.rs", "a crate", 0o644);
    host.write("home/.cargo/credentials.toml", "a token", 0o600);
}

#[test]
fn one_grant_runs_cargo_and_shows_no_token() {
    let host = host(&[".cargo/bin"]);
    install_rustup(&host);
    let ran = bash(&host, "cargo test");
    assert_eq!(ran.json()["result"]["exit_code"], 127, "without a grant: {ran}");

    let ran = grant(&host, &["--toolchain", "rust", "--json"]).expect_code(0);
    for line in [
        "  read        ~/.cargo/registry (downloaded crates)\n",
        "  left out    ~/.cargo/credentials.toml (it may hold secrets)\n",
        "  no network  to download packages, add `--net index.crates.io:443 ",
    ] {
        assert!(ran.stderr().contains(line), "{line}\n{ran}");
    }
    let found = &ran.json()["toolchains"][0];
    assert_eq!(found["name"], "rust", "{ran}");
    let home = host.home().display().to_string();
    let place = |access: &str, path: &str, holds: &str| json!({ "access": access, "path": format!("{home}/{path}"), "holds": holds });
    let places = [
        place("ro", ".cargo/bin", "cargo and what it installed"),
        place("ro", ".cargo/registry", "downloaded crates"),
        place("ro", ".rustup", "compilers and the standard library"),
    ];
    assert_eq!(found["places"], Value::from(places.to_vec()), "{ran}");
    assert_eq!(found["left_out"], json!([format!("{home}/.cargo/credentials.toml")]), "{ran}");

    // The workspace stays writable.
    assert_prints(&bash(&host, "cargo test"), "a crate");
    assert_eq!(fs::read_to_string(host.workspace().join("made")).expect("made"), "test\n");
    let ran = bash(&host, "cat ~/.cargo/credentials.toml; echo x >~/.cargo/registry/x");
    assert!(ran.json()["result"]["exit_code"].as_u64() > Some(0), "{ran}");
    assert!(!ran.stdout().contains("a token"), "{ran}");
    assert!(!host.home().join(".cargo/registry/x").exists());

    let ran = grant(&host, &["--toolchain", "rust"]).expect_code(0);
    assert!(ran.stderr().contains("already says this"), "{ran}");
    // With a network the toolchain keeps its downloads.
    let peer = ["--toolchain", "rust", "--net", "index.crates.io:443"];
    let ran = grant(&host, &peer).expect_code(0);
    assert!(ran.stderr().contains("  write       ~/.cargo/registry "), "{ran}");
    assert!(ran.stderr().contains("use `~/.cargo/registry` too"), "{ran}");
    // It is taken back as a whole.
    let revoke = || host.run(["policy", "revoke", "bash", "--toolchain", "rust"]);
    let ran = revoke().expect_code(0);
    let told = "the entry of `bash` keeps --write . --net index.crates.io:443\n";
    assert!(ran.stderr().contains(told), "{ran}");
    let ran = revoke().expect_code(1);
    assert!(ran.stderr().contains("does not have --toolchain rust"), "{ran}");
    let ran = host.run(["policy", "revoke", "bash", "--toolchain", "deno"]).expect_code(1);
    assert!(ran.stderr().contains("the toolchain `deno` was not found on this machine"), "{ran}");
    host.assert_nothing_left();
}

#[test]
fn a_program_that_no_path_has_is_found_in_the_sandbox() {
    let host = host(&[]);
    let script = "#!/bin/sh\necho \"${0##*/} $1\"\n";
    host.write("home/.bun/bin/bun", script, 0o755);
    let bin = host.home().join(".bun/bin");
    symlink("bun", bin.join("bunx")).expect("linked");

    let ran = grant(&host, &["--toolchain", "bun", "--json"]).expect_code(0);
    let dirs = json!([bin.display().to_string()]);
    assert_eq!(ran.json()["toolchains"][0]["path"], dirs, "{ran}");
    assert_prints(&bash(&host, "bunx test"), "bunx test");
    let text = fs::read_to_string(host.scratch().join(USER)).expect("a policy");
    assert!(text.contains(&format!("path = [\"{}\"]", bin.display())), "{text}");
    host.run(["policy", "revoke", "bash", "--yes"]).expect_code(0);
    let text = fs::read_to_string(host.scratch().join(USER)).expect("a policy");
    assert!(text.is_empty(), "{text}");
    host.assert_nothing_left();
}

#[test]
fn what_cannot_run_a_toolchain_and_what_is_not_there_is_refused() {
    let host = host(&[]);
    host.program("part.wasm", printing(schema("part"), Ending::Well));
    install_rustup(&host);
    let ran = grant(&host, &["--toolchain", "deno"]).expect_code(1);
    assert!(ran.stderr().contains("the toolchain `deno` was not found on this machine"), "{ran}");
    assert!(ran.stderr().contains(" ~/.asdf, ~/.cache/deno, ~/.deno, "), "{ran}");
    let ran = grant(&host, &["--toolchain", "rusty"]).expect_code(2);
    assert!(ran.stderr().contains("a similar value exists: 'rust'"), "{ran}");
    let ran = host.run(["policy", "grant", "part", "--toolchain", "rust"]).expect_code(2);
    assert!(ran.stderr().contains("`part` is a component here, which runs no programs"), "{ran}");
    // A directory has one access, for everything in it.
    let inner = host.home().join(".rustup/toolchains");
    let flags = ["--toolchain", "rust", "--write", inner.to_str().expect("UTF-8")];
    let ran = grant(&host, &flags).expect_code(2);
    assert!(ran.stderr().contains("/.rustup/toolchains` of its entry contradicts `ro:"), "{ran}");
    assert!(!host.scratch().join(USER).exists());
}

#[test]
fn the_key_path_is_for_the_users_own_file_and_for_whole_directories() {
    let host = host(&[]);
    for (file, text, told) in [
        (USER, "path = [\"bin\"]", "`bin` is not a directory that `PATH` can have"),
        (USER, "path = [\"/a:/b\"]", "`/a:/b` is not a directory that `PATH` can have"),
        ("workspace/.ikigai/policy.toml", "path = [\"/a\"]", "`path` is a key of your own policy"),
    ] {
        let path = host.write(file, format!("[tools.bash]\n{text}\n"), 0o600);
        let ran = host.run(["policy", "show"]).expect_code(2);
        assert!(ran.stderr().contains(told), "{told}\n{ran}");
        fs::remove_file(path).expect("removed");
    }
    // A directory that a tool can write to must not be used for programs.
    host.write(
        USER,
        "[tools.bash]\npath = [\"~/open\", \"~/safe\"]\nfs = [\"rw:~/open\"]\n",
        0o600,
    );
    fs::create_dir(host.home().join("open")).expect("made");
    let ran = bash(&host, "echo $PATH").expect_code(0);
    let output = ran.json()["result"]["output"].as_str().expect("a text").to_owned();
    assert!(output.starts_with(&format!("{}/safe:/usr/bin", host.home().display())), "{ran}");
}

/// Compiles and tests a project with the rustup that runs this test.
#[test]
fn the_rustup_of_this_machine_tests_a_project_in_the_sandbox() {
    let variable = |name: &str| std::env::var_os(name);
    let Some(rustup) = variable("RUSTUP_HOME") else {
        return impossible_here("no project is tested by rustup: this cargo is not of rustup");
    };
    let home = variable("HOME").unwrap_or_default();
    let cargo = variable("CARGO_HOME").unwrap_or_else(|| Path::new(&home).join(".cargo").into());
    let bin = Path::new(&cargo).join("bin");
    if !bin.join("cargo").is_file() {
        return impossible_here("no project is tested by rustup: this cargo is not of rustup");
    }
    let path = std::env::join_paths([bin, "/usr/bin".into(), "/bin".into()]).expect("no colons");
    let toolchain: OsString = variable("RUSTUP_TOOLCHAIN").unwrap_or_default();
    let host = Host::within(&paths::shown_scratch()).with_shared_cache();
    let host = host.env("PATH", path).env("RUSTUP_HOME", rustup).env("CARGO_HOME", cargo);
    let host = host.env("RUSTUP_TOOLCHAIN", toolchain);
    host.write("workspace/Cargo.toml", "[package]\nname = \"small\"\nedition = \"2024\"\n", 0o644);
    host.write("workspace/src/lib.rs", "#[test]\nfn it_runs() {}\n", 0o644);
    grant(&host, &["--toolchain", "rust"]).expect_code(0);
    let ran = bash(&host, "cargo test --offline --lib 2>&1").expect_code(0);
    assert!(ran.stdout().contains("test it_runs ... ok"), "{ran}");
    host.assert_nothing_left();
}
