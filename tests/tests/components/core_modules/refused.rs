//! Core modules that are damaged, or that cannot be tools. Each is skipped with its reason, and
//! hides no other tool.

use std::path::Path;

use ikigai_tests::component::{Ending, printing};
use ikigai_tests::core_module::{assemble, import, saying, text, tool};
use ikigai_tests::host::{Host, schema};

/// Returns the reasons why files were skipped, by name.
fn reasons(host: &Host) -> Vec<(String, String)> {
    let listed = host.run(["tool", "list", "--all", "--json"]).expect_code(0).json();
    let names: Vec<_> = listed["tools"].as_array().expect("tools").iter().collect();
    assert!(names.len() == 1 && names[0]["name"] == "good", "{listed}");
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    let file =
        |path: String| Path::new(&path).file_name().expect("a name").to_str().map(str::to_owned);
    let skipped = listed["skipped"].as_array().expect("skipped");
    skipped
        .iter()
        .map(|it| (file(text(&it["path"])).expect("UTF-8"), text(&it["reason"])))
        .collect()
}

#[test]
fn a_module_that_cannot_be_a_tool_is_skipped_with_the_reason() {
    let host = Host::without_system_tools();
    host.program("good.wasm", tool(&schema("good"), &saying("1"), "(call $print)"));
    let whole = tool(&schema("x"), "", "");
    let changed = |from: &str, to: &str| {
        let text = text(&schema("x"), "", "");
        assert!(text.contains(from), "no `{from}`");
        assemble(&text.replace(from, to))
    };
    let importing = |module: &str, name: &str, kind: &str| {
        tool(&schema("x"), &format!("(import \"{module}\" \"{name}\" ({kind}))"), "")
    };
    let mut lying = whole.clone();
    // The byte is the size of the first section, after its kind.
    lying[9] = 0x7f;
    let mut endless = whole.clone();
    endless.splice(9..10, [0xff, 0xff, 0xff, 0xff, 0x0f]);
    let with_header = |header: [u8; 4], body: &[u8]| [b"\0asm", &header[..], &body[8..]].concat();
    let component = printing(schema("x"), Ending::Well);
    let many = import("sched_yield", "").replace("$sched_yield", "").repeat(200_000);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty", Vec::new(), "does not compile"),
        ("header", whole[..8].to_vec(), "exports no function `_start`"),
        ("half", whole[..whole.len() / 2].to_vec(), "does not compile"),
        ("cut", whole[..whole.len() - 1].to_vec(), "does not compile"),
        ("lying", lying, "does not compile"),
        ("endless", endless, "does not compile"),
        ("layer", with_header([0x0d, 0, 0, 0], &whole), "does not compile"),
        ("version", with_header([1, 0, 1, 0], &component), "does not compile"),
        ("swapped", with_header([0x0d, 0, 1, 0], &whole), "does not compile"),
        ("unswapped", with_header([1, 0, 0, 0], &component), "does not compile"),
        ("start", changed("\"_start\"", "\"_initialize\""), "it is a library"),
        ("memory", changed("(memory (export \"memory\")", "(memory"), "no memory as `memory`"),
        (
            "parameter",
            changed("(func (export \"_start\")", "(func (export \"_start\") (param i32)"),
            "not as a function without parameters",
        ),
        ("function", importing("wasi_snapshot_preview1", "fd_fly", "func"), "fd_fly"),
        (
            "typed",
            importing("wasi_snapshot_preview1", "fd_close", "func"),
            "incompatible import type",
        ),
        ("global", importing("wasi_snapshot_preview1", "fd_close", "global i32"), "fd_close"),
        ("foreign", importing("env", "log", "func"), "`env.log`"),
        (
            "component",
            importing("wasi:cli/stdout@0.2.0", "get-stdout", "func"),
            "build a component",
        ),
        (
            "missing",
            importing("wasi_snapshot_preview1", "sock_open", "func"),
            "`wasi_snapshot_preview1.sock_open`, which is not a function",
        ),
        ("unstable", importing("wasi_unstable", "fd_close", "func"), "older than WASI preview 1"),
        ("spawn", importing("wasi", "thread-spawn", "func"), "one thread"),
        ("shared", changed("\"memory\") 2)", "\"memory\") 2 2 shared)"), "one thread"),
        (
            "wide",
            changed("(memory (export \"memory\") 2)", "(memory (export \"memory\") i64 2)"),
            "64-bit addresses",
        ),
        ("many", tool(&schema("x"), &many, ""), "imports 200005 functions"),
        ("escapes", importing("\\1b[2J", "\\e2\\80\\ae", "func"), "\\u{1b}[2J.\\u{202e}"),
    ];
    for (name, bytes, _) in &cases {
        host.program(&format!("{name}.wasm"), bytes);
    }
    let reasons = reasons(&host);
    for (name, _, expected) in &cases {
        let file = format!("{name}.wasm");
        let reason = reasons.iter().find(|(skipped, _)| *skipped == file);
        let (_, reason) =
            reason.unwrap_or_else(|| panic!("`{file}` was not skipped: {reasons:#?}"));
        assert!(reason.contains(expected), "`{file}`: {reason}");
        let own_fault = !["timeout", "compiler itself failed", "was not compiled", "loaded"]
            .iter()
            .any(|failure| reason.contains(failure));
        assert!(own_fault, "`{file}`: {reason}");
    }
    assert_eq!(reasons.len(), cases.len(), "{reasons:#?}");
    host.assert_nothing_left();
}

/// If custom sections were trusted, one that describes a component would decide about its imports
/// and exports.
#[test]
fn custom_sections_are_not_believed() {
    let host = Host::without_system_tools();
    let sections =
        ["component-type", "component-type:evil:encoded", "producers", "target_features"]
            .map(|name| format!("(@custom \"{name}\" \"\\ff\\ff\\ff\\ff\\0fgarbage\")"));
    host.program(
        "good.wasm",
        tool(&schema("good"), &(sections.concat() + &saying("1")), "(call $print)"),
    );
    assert_eq!(reasons(&host), []);
    let ran = host.run(["tool", "call", "good", "{}"]).expect_code(0);
    assert_eq!(ran.json()["result"], 1, "{ran}");
}
