//! Components that are not compiled yet, and the commands that wait for them.
//!
//! To make a compilation take long, a test holds the lock of the component, as another host that
//! compiles it would.

use std::fs::File;
use std::path::{Path, PathBuf};

use ikigai_host::Digest;
use ikigai_tests::component::{Ending, printing};
use ikigai_tests::host::{Host, schema};
use rustix::process::Signal;
use serde_json::json;

use super::names;

/// A host with the component `known`, compiled.
fn host() -> Host {
    let host = Host::without_system_tools();
    add(&host, "known", "known");
    host.run(["tool", "call", "known"]).expect_code(0);
    host
}

/// Installs a component whose schema has this name.
fn add(host: &Host, file: &str, name: &str) -> PathBuf {
    host.program(&format!("{file}.wasm"), printing(schema(name), Ending::Well))
}

fn take_turn(host: &Host, component: &Path) -> File {
    host.take_turn(Digest::of_reader(File::open(component).expect("opened")).expect("read"))
}

#[test]
fn a_call_waits_for_no_component_that_is_not_its_tool() {
    let host = host();
    let turn = take_turn(&host, &add(&host, "other", "other"));
    for command in ["call", "show"] {
        let ran = host.run(["tool", command, "known"]).expect_code(0);
        assert!(!ran.stderr().contains("compiling"), "{ran}");
    }
    host.run(["tool", "run", "known"]).expect_code(0);
    // A command about all tools waits, and names the component that it waits for.
    let mut listing = host.start(["tool", "list", "--json"]);
    listing.wait_for_stderr("compiling other.wasm (only the first time)");
    drop(turn);
    let ran = listing.wait().expect_code(0);
    assert_eq!(names(&ran), ["known", "other"], "{ran}");
}

#[test]
fn a_call_waits_for_what_is_called_like_its_tool_or_is_a_build_of_it() {
    let host = host();
    host.script("pair", &format!("printf '%s' '{}'", json!({"by": "native"})));
    for file in ["like-this", "pair"] {
        let component = add(&host, file, &file.replace('-', "_"));
        let turn = take_turn(&host, &component);
        let name = file.replace('-', "_");
        let ran = host.run(["--timeout", "1s", "tool", "call", &name]).expect_code(1);
        let envelope = ran.json();
        assert_eq!(envelope["error_code"], "TOOL_TIMEOUT", "{ran}");
        let error = envelope["error"].as_str().expect("text");
        assert!(error.contains("still being compiled"), "{ran}");
        let ran = host.run(["--timeout", "1s", "tool", "run", &name]).expect_code(124);
        assert!(ran.stderr().contains("was not compiled in time"), "{ran}");
        drop(turn);
        host.run(["tool", "call", &name]).expect_code(0);
        host.assert_nothing_left();
    }
}

#[test]
fn a_tool_whose_file_is_called_otherwise_is_found() {
    let host = host();
    add(&host, "file", "tool");
    host.run(["tool", "call", "tool"]).expect_code(0);
}

#[test]
fn a_compilation_ends_with_who_waits_for_it() {
    let host = host();
    let turn = take_turn(&host, &add(&host, "long", "long"));
    let mut calling = host.start(["tool", "call", "long"]);
    calling.wait_for_stderr("compiling long.wasm");
    calling.signal(Signal::INT);
    calling.wait().expect_code(130);
    drop(turn);
    host.assert_nothing_left();
}
