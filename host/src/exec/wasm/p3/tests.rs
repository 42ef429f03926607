//! Tests of the limits on components of WASI 0.3, with small components as text.

use std::time::{Duration, Instant};

use super::super::tests::{call, compiled, compiled_to};
use super::super::{ComponentError, Runtime, Tier, bounds};
use crate::exec::{Call, Executor as _, Exit, Outcome};
use crate::limits::{CallLimits, Limit};

/// A command of WASI 0.3, with places for its parts.
const COMMAND: &str = r#"(component
    TYPES
    (core module $module
        (import "" "return" (func $return (param i32)))
        IMPORTS
        (memory 1)
        (func $deep (param i32) (result i32)
            (i32.add (call $deep (local.get 0)) (i32.const 1)))
        (func (export "run") (result i32) BODY)
        (func (export "callback") (param i32 i32 i32) (result i32) CALLBACK))
    (core func $return (canon task.return (result (result))))
    FUNCTIONS
    (core instance $core (instantiate $module
        (with "" (instance (export "return" (func $return)) EXPORTS))))
    (func $run async (result (result))
        (canon lift (core func $core "run") async (callback (core func $core "callback"))))
    (instance $command (export "run" (func $run)))
    (export "wasi:cli/run@0.3.0" (instance $command)))"#;

/// The function returns, and its task ends.
const RETURNS: &str = "(call $return (i32.const 0)) (i32.const 0)";

/// A clock that async functions wait for.
const CLOCK: &str = r#"(import "wasi:clocks/monotonic-clock@0.3.0" (instance $clock
    (export "wait-for" (func async (param "how-long" u64)))))"#;

/// A command of WASI 0.2.
const COMMAND_OF_0_2: &str = r#"(component
    (core module $module (func (export "run") (result i32) (i32.const 0)))
    (core instance $core (instantiate $module))
    (func $run (result (result)) (canon lift (core func $core "run")))
    (instance $command (export "run" (func $run)))
    (export "wasi:cli/run@0.2.0" (instance $command)))"#;

/// A function of the async feature.
const SET: &str = "(core func $new (canon waitable-set.new))";

/// The parts of a command.
#[derive(Clone, Copy)]
struct Parts<'a> {
    /// The definitions before the module.
    types: &'a str,
    /// Functions of the component model: their names, core types and definitions.
    functions: &'a [(&'a str, &'a str, &'a str)],
    body: &'a str,
    callback: &'a str,
}

/// A command without a body.
const EMPTY: Parts<'_> = Parts { types: "", functions: &[], body: "", callback: "unreachable" };

impl Parts<'_> {
    fn text(&self) -> String {
        let each = |part: fn(&(&str, &str, &str)) -> String| {
            self.functions.iter().map(part).collect::<String>()
        };
        let imports = each(|(name, signature, _)| {
            format!("(import \"\" \"{name}\" (func ${name} {signature}))")
        });
        let functions = each(|(name, _, canon)| format!("(core func ${name} (canon {canon}))"));
        let exports = each(|(name, ..)| format!("(export \"{name}\" (func ${name}))"));
        COMMAND
            .replace("TYPES", self.types)
            .replace("IMPORTS", &imports)
            .replace("FUNCTIONS", &functions)
            .replace("EXPORTS", &exports)
            .replace("CALLBACK", self.callback)
            .replace("BODY", self.body)
    }
}

const SHORT: Duration = Duration::from_millis(100);

fn limits() -> CallLimits {
    CallLimits { wall_clock: 300 * SHORT, ..CallLimits::default() }
}

async fn run(parts: Parts<'_>, limits: CallLimits) -> Outcome {
    compiled(&parts.text()).run(Call { limits, ..call() }).await
}

#[tokio::test]
async fn a_command_of_wasi_0_3_runs_to_the_end_of_its_function() {
    let done = run(Parts { body: RETURNS, ..EMPTY }, limits()).await;
    assert_eq!((done.exit, done.limit), (Exit::Code(0), None));
    let failed = "(call $return (i32.const 1)) (i32.const 0)";
    assert_eq!(run(Parts { body: failed, ..EMPTY }, limits()).await.exit, Exit::Code(1));
    let never = run(Parts { body: "(i32.const 0)", ..EMPTY }, limits()).await;
    assert!(matches!(never.exit, Exit::Trap(_)), "{never:?}");
}

#[tokio::test]
async fn run_of_wasi_0_3_comes_before_that_of_0_2() {
    let stub = r#"(core module $stub_module (func (export "run") (result i32) unreachable))
    (core instance $stub_core (instantiate $stub_module))
    (func $stub_run (result (result)) (canon lift (core func $stub_core "run")))
    (instance $stub (export "run" (func $stub_run)))
    (export "wasi:cli/run@0.2.0" (instance $stub))"#;
    let outcome = run(Parts { types: stub, body: RETURNS, ..EMPTY }, limits()).await;
    assert_eq!(outcome.exit, Exit::Code(0));
}

/// Commands that do not end.
fn endless() -> [(&'static str, Parts<'static>); 4] {
    let computes = Parts { body: "(loop $again (br $again)) unreachable", ..EMPTY };
    let gives_turns = Parts { body: "(i32.const 1)", callback: "(i32.const 1)", ..EMPTY };
    let waits_for_nothing = Parts {
        functions: &[("set", "(result i32)", "waitable-set.new")],
        body: "(i32.or (i32.const 2) (i32.shl (call $set) (i32.const 4)))",
        ..EMPTY
    };
    let waits_on_its_stack = Parts {
        types: CLOCK,
        functions: &[("wait", "(param i64)", "lower (func $clock \"wait-for\")")],
        body: "(call $wait (i64.const 3600000000000)) unreachable",
        ..EMPTY
    };
    [
        ("computes", computes),
        ("gives turns", gives_turns),
        ("waits for nothing", waits_for_nothing),
        ("waits on its stack", waits_on_its_stack),
    ]
}

#[tokio::test]
async fn a_deadline_and_a_cancellation_end_a_command_that_does_not_end() {
    for (name, parts) in endless() {
        for tier in [Tier::Optimised, Tier::Baseline] {
            if tier == Tier::Baseline && cfg!(not(target_arch = "x86_64")) {
                continue;
            }
            let program = compiled_to(&parts.text(), tier);
            let begun = Instant::now();
            let late = CallLimits { wall_clock: SHORT, ..limits() };
            let ended = program.run(Call { limits: late, ..call() }).await;
            assert_eq!(ended.limit, Some(Limit::WallClock), "{name}, {tier:?}: {ended:?}");
            let cancelled = Call { limits: limits(), ..call() };
            let token = cancelled.cancel.clone();
            let cancel = async {
                tokio::time::sleep(SHORT).await;
                token.cancel();
            };
            let (ended, ()) = tokio::join!(program.run(cancelled), cancel);
            assert!(ended.cancelled, "{name}, {tier:?}: {ended:?}");
            assert!(begun.elapsed() < 100 * SHORT, "{name}, {tier:?}: {:?}", begun.elapsed());
        }
    }
}

#[tokio::test]
async fn fuel_memory_and_the_stack_of_a_command_have_limits() {
    let [(_, computes), ..] = endless();
    let few = CallLimits { fuel: 1_000_000, ..limits() };
    assert_eq!(run(computes, few).await.limit, Some(Limit::Fuel));
    let grows = "(loop $again (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
        unreachable";
    let small = CallLimits { wasm_memory: 1 << 20, ..limits() };
    let grown = run(Parts { body: grows, ..EMPTY }, small).await;
    assert_eq!(grown.limit, Some(Limit::Memory), "{grown:?}");
    let recursion = "(call $deep (i32.const 0))";
    let in_callback = Parts { body: "(i32.const 1)", callback: recursion, ..EMPTY };
    for parts in [Parts { body: recursion, ..EMPTY }, in_callback] {
        let ended = run(parts, limits()).await;
        assert!(format!("{:?}", ended.exit).contains("stack"), "{ended:?}");
    }
}

/// Commands that make things without end and keep them.
fn greedy() -> [(&'static str, Parts<'static>); 4] {
    let streams = Parts {
        types: "(type $stream (stream u8))",
        functions: &[("new", "(result i64)", "stream.new $stream")],
        body: "(loop $again (drop (call $new)) (br $again)) unreachable",
        ..EMPTY
    };
    let futures = Parts {
        types: "(type $future (future))",
        functions: &[("new", "(result i64)", "future.new $future")],
        ..streams
    };
    let sets =
        Parts { types: "", functions: &[("new", "(result i32)", "waitable-set.new")], ..streams };
    let tasks = Parts {
        types: CLOCK,
        functions: &[(
            "wait",
            "(param i64) (result i32)",
            "lower (func $clock \"wait-for\") async",
        )],
        body: "(loop $again (drop (call $wait (i64.const 3600000000000))) (br $again)) unreachable",
        ..EMPTY
    };
    [("streams", streams), ("futures", futures), ("sets", sets), ("tasks", tasks)]
}

#[tokio::test]
async fn the_number_of_tasks_futures_and_streams_has_a_limit() {
    for (name, parts) in greedy() {
        for wasm_memory in [1 << 20, CallLimits::default().wasm_memory] {
            let ended = run(parts, CallLimits { wasm_memory, ..limits() }).await;
            let exit = format!("{:?}", ended.exit);
            assert!(exit.contains("too many"), "{name}: {ended:?}");
            assert_eq!(ended.limit, None, "{name}: {ended:?}");
        }
    }
    assert_eq!(bounds::tasks(0), 512);
    assert_eq!(bounds::tasks(u64::MAX), 8_192);
}

#[tokio::test]
async fn a_component_of_wasi_0_2_may_use_the_async_feature() {
    let text = r#"(component
        (core func $new (canon waitable-set.new))
        (core module $module
            (import "" "new" (func $new (result i32)))
            (func (export "run") (result i32) (drop (call $new)) (i32.const 0)))
        (core instance $core (instantiate $module
            (with "" (instance (export "new" (func $new))))))
        (func $run (result (result)) (canon lift (core func $core "run")))
        (instance $command (export "run" (func $run)))
        (export "wasi:cli/run@0.2.0" (instance $command)))"#;
    let done = compiled(text).run(Call { limits: limits(), ..call() }).await;
    assert_eq!(done.exit, Exit::Code(0), "{done:?}");
}

/// wasmtime has a type of sockets for each version of WASI.
#[tokio::test]
async fn a_socket_is_refused_without_a_grant() {
    let sockets = r#"(import "wasi:sockets/types@0.3.0" (instance $sockets
        (type $family-type (enum "ipv4" "ipv6"))
        (export "ip-address-family" (type $family (eq $family-type)))
        (type $code-type (variant (case "access-denied") (case "not-supported")
            (case "invalid-argument") (case "out-of-memory") (case "timeout")
            (case "invalid-state") (case "address-not-bindable") (case "address-in-use")
            (case "remote-unreachable") (case "connection-refused") (case "connection-broken")
            (case "connection-reset") (case "connection-aborted") (case "datagram-too-large")
            (case "other" (option string))))
        (export "error-code" (type $code (eq $code-type)))
        (export "tcp-socket" (type $tcp (sub resource)))
        (export "udp-socket" (type $udp (sub resource)))
        (export "[static]tcp-socket.create" (func (param "address-family" $family)
            (result (result (own $tcp) (error $code)))))
        (export "[static]udp-socket.create" (func (param "address-family" $family)
            (result (result (own $udp) (error $code)))))))
        (core module $space (memory (export "memory") 1)
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
        (core instance $space (instantiate $space))
        (alias core export $space "memory" (core memory $memory))
        (alias core export $space "realloc" (core func $realloc))"#;
    const OPTIONS: &str = "(memory $memory) (realloc (core func $realloc))";
    for kind in ["tcp", "udp"] {
        let lower = format!("lower (func $sockets \"[static]{kind}-socket.create\") {OPTIONS}");
        let create = ("create", "(param i32 i32)", lower.as_str());
        let parts = Parts {
            types: sockets,
            functions: &[create],
            body: &format!("(call $create (i32.const 0) (i32.const 0)) {RETURNS}"),
            ..EMPTY
        };
        let ended = run(parts, limits()).await;
        assert_eq!(ended.exit, Exit::Code(0), "{kind}: {ended:?}");
        assert_eq!(ended.denied.first, [format!("net {kind}")], "{ended:?}");
    }
}

#[test]
fn a_command_of_another_version_is_refused_by_the_name_of_its_export() {
    let refused = |version: &str| {
        let text = Parts { body: RETURNS, ..EMPTY }.text().replace("run@0.3.0", version);
        let runtime = Runtime::new(1, u64::MAX).expect("a runtime");
        let bytes = wat::parse_str(text).expect("a component");
        runtime.compile_here(&bytes).err().expect("refused")
    };
    for other in ["run@0.3.0-rc-2026-02-09", "run@0.4.0"] {
        let error = refused(other);
        assert!(matches!(&error, ComponentError::OtherCommand(_)), "{error}");
        assert!(error.to_string().starts_with(&format!("exports `wasi:cli/{other}`")), "{error}");
    }
    assert!(matches!(refused("environment@0.3.0"), ComponentError::NotACommand));
}

#[test]
fn a_program_knows_the_versions_of_wasi_that_it_uses() {
    let used = |text: &str| {
        let uses = compiled(text).wasi().into_iter();
        uses.map(|used| format!("{} {}", used.version, used.by)).collect::<Vec<_>>()
    };
    let module = r#"(module (memory (export "memory") 1) (func (export "_start")))"#;
    assert_eq!(used(module), ["0.1 `wasi_snapshot_preview1`"]);
    let old = "0.2 `wasi:cli/run@0.2.0`";
    assert_eq!(used(COMMAND_OF_0_2), [old]);
    let async_of_0_2 = COMMAND_OF_0_2.replacen("(component", &format!("(component {SET}"), 1);
    let of_async = "0.3 the async functions of the component model";
    assert_eq!(used(&async_of_0_2), [old, of_async]);
    let new = Parts { body: RETURNS, ..EMPTY };
    assert_eq!(used(&new.text()), ["0.3 `wasi:cli/run@0.3.0`"]);
    let clock = "0.3 `wasi:clocks/monotonic-clock@0.3.0`";
    assert_eq!(used(&Parts { types: CLOCK, ..new }.text()), [clock]);
}

#[test]
fn an_interface_that_this_host_does_not_have_is_named() {
    let refused = |import: &str| {
        let import = format!("(import \"{import}\" (instance (export \"it\" (func))))");
        let text = Parts { types: &import, body: RETURNS, ..EMPTY }.text();
        let runtime = Runtime::new(1, u64::MAX).expect("a runtime");
        let bytes = wat::parse_str(text).expect("a component");
        runtime.compile_here(&bytes).err().expect("refused")
    };
    for other in ["wasi:cli/environment@0.3.0-rc-2026-02-09", "wasi:cli/environment@0.4.0"] {
        let error = refused(other);
        assert!(matches!(&error, ComponentError::OtherWasi(name) if name == other), "{error}");
        assert!(error.to_string().contains(&format!("imports `{other}`")), "{error}");
    }
    for missing in ["wasi:keyvalue/store@0.3.0", "wasi:cli/nothing@0.3.0", "acme:db/query@0.3.0"] {
        let error = refused(missing);
        assert!(matches!(error, ComponentError::Link(_)), "{error}");
        assert!(error.to_string().contains(missing), "{error}");
    }
}
