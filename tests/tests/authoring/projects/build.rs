//! Building a project, with commands that do what compilers do, well and badly.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use ikigai_host::Digest;
use ikigai_tests::component::{Ending, printing};
use ikigai_tests::core_module::{assemble, tool};
use ikigai_tests::host::schema;
use rustix::process::Signal;
use serde_json::json;

use super::Project;

/// The body of a tool that answers with its arguments.
pub(super) const ECHO: &str = "(call $say (i32.const 65536) (call $read))";

pub(super) fn echo() -> Vec<u8> {
    tool(&schema("tool"), "", ECHO)
}

/// The time in which an interrupted command ends, even on a very busy machine.
const SOON: Duration = Duration::from_secs(20);

/// The bytes 4 to 8 of a core module.
const MODULE: &[u8] = b"\x01\0\0\0";

#[test]
fn a_core_module_stays_one_and_carries_its_manifest() {
    let project = Project::from_binary(&echo());
    let ran = project.run("build", &["--json"]).expect_code(0);
    let (said, built) = (ran.json(), project.built());
    assert_eq!((&built[..4], &built[4..8]), (&b"\0asm"[..], MODULE));
    assert_eq!((&said["name"], &said["version"]), (&json!("tool"), &json!("1.2.3")), "{said}");
    assert_eq!(said["sha256"], json!(Digest::from_bytes(&built).to_string()), "{said}");
    assert_eq!((&said["size"], &said["good"]), (&json!(built.len()), &json!(true)), "{said}");
    let findings = said["findings"].as_array().expect("a list");
    assert!(findings.iter().all(|finding| finding["verdict"] != "fail"), "{said}");
    assert_eq!(project.names_in_dist(), ["tool.wasm"]);
    let manifest = br#"ikigai:manifest{"manifest":1,"name":"tool","version":"1.2.3"}"#;
    assert!(built.ends_with(manifest), "the manifest is the last section");

    symlink(
        project.directory().join("dist/tool.wasm"),
        project.host.user_tools().join("tool.wasm"),
    )
    .expect("linked");
    let called = project.host.run(["tool", "call", "tool", "{\"a\":1}"]).expect_code(0);
    assert_eq!(called.json()["result"], json!({"a": 1}), "{called}");
    let shown = project.host.run(["tool", "show", "tool", "--json"]).expect_code(0);
    assert_eq!(shown.json()["version"], json!("1.2.3"), "{shown}");
    project.host.assert_nothing_left();
}

#[test]
fn a_component_stays_as_it_is_before_its_manifest() {
    let component = printing(schema("tool"), Ending::Well);
    let project = Project::from_binary(&component);
    let ran = project.run("build", &[]).expect_code(0);
    let first = project.built();
    assert!(first.starts_with(&component), "{ran}");
    assert!(ran.stdout().contains("version  1.2.3\nneeds    nothing\n"), "{ran}");
    // The output already has a manifest, which the new one replaces.
    project.write("in.wasm", &first);
    project.describe(
        "[[needs.fs]]\ndir = \"ro:.\"\nwhy = \"looks\"",
        "command = \"cp in.wasm out.wasm\"\noutput = \"out.wasm\"",
    );
    let ran = project.run("build", &[]).expect_code(0);
    assert!(ran.stdout().contains("needs    fs ro:.\n"), "{ran}");
    let second = project.built();
    assert!(second.starts_with(&component));
    let sections = second.windows(15).filter(|part| part == b"ikigai:manifest").count();
    assert_eq!(sections, 1);
}

#[test]
fn the_command_runs_in_the_project_with_its_variables_and_away_from_stdout() {
    let project = Project::from_binary(&echo());
    let command = "command = '''\nset -eu\npwd\necho said; echo complained >&2\n\
                   test \"$COLOUR\" = 'dark red'\ncat\ncp in.wasm out/er.wasm'''\n\
                   env = { COLOUR = \"dark red\" }\noutput = \"./out/er.wasm\"";
    fs::create_dir(project.directory().join("out")).expect("made");
    project.describe("", command);
    let ran = project.run("build", &["--json"]).expect_code(0);
    assert_eq!(ran.json()["good"], json!(true), "{ran}");
    let directory = project.directory().canonicalize().expect("there");
    for line in [directory.to_str().expect("UTF-8"), "said", "complained"] {
        assert!(ran.stderr().lines().any(|it| it == line), "`{line}`\n{ran}");
    }
}

/// If anything goes wrong, an earlier tool stays, and the build leaves no other file in its
/// directory.
#[test]
fn a_build_that_fails_leaves_the_earlier_tool() {
    let project = Project::from_binary(&echo());
    project.run("build", &[]).expect_code(0);
    let earlier = project.built();
    project.write("library.wasm", assemble("(module (memory (export \"memory\") 1))"));
    project.write("other.wasm", tool(&schema("other"), "", ECHO));
    project.write("broken.wasm", &echo()[..100]);
    project.write("silent.wasm", printing("", Ending::Well));
    // The module ends as a Rust program that panics.
    let complains = r#"(module
      (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (data (i32.const 64) "no model called `weather`\n")
      (func (export "_start")
        (i32.store (i32.const 0) (i32.const 64))
        (i32.store (i32.const 4) (i32.const 26))
        (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8)))
        unreachable))"#;
    let complains = project.write("complains.wasm", assemble(complains));
    let build = |command: &str| project.describe("", command);
    let copy = |from: &str| format!("command = \"cp {from} new\"\noutput = \"new\"");
    for (command, told) in [
        (
            "command = \"exit 3\"\noutput = \"x\"".into(),
            "failed with exit code 3, and nothing was built",
        ),
        ("command = \"kill -KILL $$\"\noutput = \"x\"".into(), "was ended by signal 9, and"),
        ("command = \"no-such-compiler\"\noutput = \"x\"".into(), "failed with exit code 127"),
        ("command = \"true\"\noutput = \"gone\"".into(), "the command wrote no `"),
        (
            "command = \"true\"\noutput = \"../x\"".into(),
            "is not the path of a file in the project",
        ),
        ("command = \"mkdir -p new.d\"\noutput = \"new.d\"".into(), "it is not a regular file"),
        (copy("/bin/sh"), "is neither WebAssembly nor a script"),
        (copy("/dev/null"), "is neither WebAssembly nor a script"),
        (copy("library.wasm"), "exports no function `_start`, so it is a library"),
        (copy("broken.wasm"), "does not compile: "),
        (copy("silent.wasm"), "FAIL  schema"),
        (copy("complains.wasm"), ": no model called `weather`\n"),
        (copy("other.wasm"), "the tool is `tool` in `tool.toml`, and `other` in the schema"),
    ] {
        build(&command);
        let ran = project.run("build", &[]);
        assert!(matches!(ran.code(), Some(1 | 2)), "{command}\n{ran}");
        assert!((ran.stdout() + &ran.stderr()).contains(told), "{told}\n{ran}");
        assert!(project.built() == earlier, "{command}");
        assert_eq!(project.names_in_dist(), ["tool.wasm"], "{command}");
        fs::remove_file(project.directory().join("new")).ok();
    }
    let ran = project.run("build", &["--json"]).expect_code(1);
    assert_eq!((&ran.json()["good"], &ran.json()["path"]), (&json!(false), &json!(null)), "{ran}");
    let ran = project.host.run(["tool", "check", complains.to_str().expect("UTF-8")]);
    let finding = ran.stdout().lines().find(|line| line.contains("  schema ")).map(str::to_owned);
    let finding = finding.unwrap_or_else(|| panic!("no finding\n{ran}"));
    assert!(finding.contains("trapped") && finding.contains("no model called"), "{ran}");
}

#[test]
fn a_project_with_a_mistake_runs_nothing() {
    let project = Project::from_binary(&echo());
    let build = "command = \"touch ran\"\noutput = \"out.wasm\"";
    let env = |name: &str| format!("[[needs.env]]\nname = \"{name}\"\nwhy = \"w\"");
    let fs = |dir: &str| format!("[[needs.fs]]\ndir = \"{dir}\"\nwhy = \"w\"");
    for (needs, told) in [
        (env("IKIGAI_STORE"), "tool.toml:5:8: `IKIGAI_STORE` is for ikigai itself"),
        (env("OPENAI_API_KEY"), "`OPENAI_API_KEY` is the key of a provider of models"),
        (fs("ro:../x"), "`ro:../x` is not in the workspace"),
        (fs("rw:/etc"), "`rw:/etc` is not in the workspace"),
        ("licence = \"MIT\"".into(), "hint: did you mean `license`?"),
    ] {
        project.describe(&needs, build);
        let ran = project.run("build", &[]).expect_code(2);
        assert!(ran.stderr().contains(told), "{told}\n{ran}");
    }
    project.describe("", "command = \"touch ran\"\noutput = \"dist/tool.wasm\"");
    let ran = project.run("build", &[]).expect_code(2);
    assert!(ran.stderr().contains("hint: have the command write elsewhere"), "{ran}");
    project.write("tool.toml", "manifest = 1\nname = \"tool\"\nversion = \"1.0.0\"\n");
    let ran = project.run("build", &[]).expect_code(2);
    assert!(ran.stderr().contains("hint: add a table `[build]`"), "{ran}");
    std::fs::remove_file(project.directory().join("tool.toml")).expect("removed");
    let ran = project.run("build", &[]).expect_code(2);
    assert!(ran.stderr().contains("hint: `ikigai tool new NAME --lang go` creates"), "{ran}");
    assert!(!project.directory().join("ran").exists());
    assert!(!project.directory().join("dist").exists());
}

#[test]
fn an_interruption_ends_the_command_with_what_it_started() {
    for signal in [Signal::INT, Signal::TERM] {
        let project = Project::from_binary(&echo());
        let command = "command = \"(trap '' TERM; sleep 1000; sleep 1000) & touch began; sleep \
                       1000; sleep 1000\"\noutput = \"out.wasm\"";
        project.describe("", command);
        let directory = project.directory();
        let mut running = project.host.start(["tool", "build", directory.to_str().expect("UTF-8")]);
        running.wait_for(&directory.join("began"));
        running.signal(signal);
        let begun = Instant::now();
        let ran = running.wait().expect_code(130);
        assert!(begun.elapsed() < SOON, "{ran}");
        project.host.assert_nothing_left();
        assert!(!directory.join("dist").exists());
    }
}
