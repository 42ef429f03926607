//! Two builds of one tool. The choice between them never changes because of the outcome of a call.

use ikigai_tests::component::{Ending, importing, printing};
use ikigai_tests::host::{Host, schema};
use serde_json::Value;

/// Returns a host with the tool `twin` in two builds: this component, and a shell script with this
/// schema.
fn twins(component: &[u8], native_schema: &str) -> Host {
    let host = Host::without_system_tools();
    host.program("twin.wasm", component);
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --schema ] && printf %s '{native_schema}' || echo '\"native\"'\n"
    );
    host.program("twin", script);
    host
}

/// Returns the tool's entry in `tool list`, if it is listed, and the stderr of the command.
fn listed(host: &Host, backend: &str) -> (Option<Value>, String) {
    let ran = host.run(["tool", "list", "--all", "--json", "--backend", backend]).expect_code(0);
    (ran.json()["tools"].get(0).cloned(), ran.to_string())
}

#[track_caller]
fn assert_backend(host: &Host, backend: &str, expected: &str, reason: &str) {
    let (tool, ran) = listed(host, backend);
    let tool = tool.unwrap_or_else(|| panic!("no tool\n{ran}"));
    assert_eq!(
        (&tool["backend"], &tool["backend_reason"]),
        (&expected.into(), &reason.into()),
        "{ran}"
    );
}

#[test]
fn the_component_is_taken_unless_a_flag_says_otherwise() {
    let host = twins(&printing(schema("twin"), Ending::Well), &schema("twin"));
    assert_backend(&host, "auto", "wasm", "components come first");
    assert_backend(&host, "wasm", "wasm", "--backend asks for it");
    assert_backend(&host, "native", "native", "--backend asks for it");
    // The component always prints its schema.
    let answer = |backend: &str| {
        host.run(["tool", "call", "twin", "{}", "--backend", backend]).expect_code(0).json()["result"].clone()
    };
    assert_eq!(answer("auto")["name"], "twin");
    assert_eq!(answer("native"), "native");
}

#[test]
fn builds_with_different_schemas_are_reported_and_the_component_is_taken() {
    let other = schema("twin").replace("The tool", "Another");
    let host = twins(&printing(schema("twin"), Ending::Well), &other);
    assert_backend(&host, "auto", "wasm", "its native build has another schema");
    assert!(listed(&host, "auto").1.contains("its schema differs from its component's schema"));
}

#[test]
fn a_component_that_fails_takes_its_native_build_down_with_it() {
    for ending in [Ending::Trap, Ending::Badly, Ending::Spin, Ending::Flood, Ending::GrowTable] {
        let host = twins(&printing(schema("twin"), ending), &schema("twin"));
        for backend in ["auto", "wasm"] {
            let (tool, ran) = listed(&host, backend);
            assert_eq!(tool, None, "{ending:?}\n{ran}");
            assert!(ran.contains("never falls back to native"), "{ending:?}\n{ran}");
        }
        // A build that a flag selects is a choice, not a fallback.
        assert_backend(&host, "native", "native", "--backend asks for it");
        let call = host.run(["tool", "call", "twin", "{}"]).expect_code(1);
        assert_eq!(call.json()["error_code"], "TOOL_NOT_FOUND", "{call}");
    }
}

#[test]
fn a_component_that_cannot_be_used_here_leaves_the_native_build() {
    let missing = importing("example:gone/thing@1.0.0", &schema("twin"));
    for component in [&missing[..], b"\0asm garbage", &ikigai_tests::component::core_library()] {
        let host = twins(component, &schema("twin"));
        assert_backend(&host, "auto", "native", "its component cannot be used on this host");
        let call = host.run(["tool", "call", "twin", "{}"]).expect_code(0);
        assert_eq!(call.json()["result"], "native", "{call}");
        let (tool, ran) = listed(&host, "wasm");
        assert_eq!(tool, None, "{ran}");
        assert!(ran.contains("the backend is set to wasm"), "{ran}");
    }
}

#[test]
fn a_call_that_traps_or_reaches_a_limit_never_falls_back() {
    // The tool must answer `--schema` and fail in a call. Only a guest in Rust can do both.
    let host = Host::without_system_tools();
    let guest = host.guest("greedy");
    let asked =
        host.run(["tool", "run", guest.to_str().expect("UTF-8"), "--schema"]).expect_code(0);
    let ran_natively = host.workspace().join("ran-natively");
    let answer = host.write("user-tools/answers/greedy", asked.stdout(), 0o644);
    host.program(
        "greedy",
        format!(
            "#!/bin/sh\n[ \"$1\" = --schema ] && exec cat '{}'\ntouch '{}'; echo 1\n",
            answer.display(),
            ran_natively.display()
        ),
    );
    for (flags, mode, limit) in [
        (["--fuel", "1000000000"], "trap", Value::Null),
        (["--memory", "64MiB"], "memory", "memory".into()),
        (["--timeout", "700ms"], "spin", "wall_clock".into()),
    ] {
        let arguments = format!("{{\"mode\":\"{mode}\"}}");
        let call = host.run([&flags[..], &["tool", "call", "greedy", &arguments]].concat());
        let envelope = call.expect_code(1).json();
        assert_eq!(
            (&envelope["limit"], &envelope["exit_code"]),
            (&limit, &134.into()),
            "{envelope}"
        );
    }
    assert!(!ran_natively.exists(), "the native build ran");
    // The native build works, so only the rule kept it from running.
    host.run(["tool", "call", "greedy", "{}", "--backend", "native"]).expect_code(0);
    assert!(ran_natively.exists());
}
