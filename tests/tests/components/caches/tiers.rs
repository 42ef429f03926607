//! The two tiers of compiled code. A large component first answers as baseline code. Its optimised
//! code is compiled in the background, and replaces the baseline code.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ikigai_host::exec::wasm::Tier;
use ikigai_host::{Control, Digest, Snapshot};
use ikigai_tests::component::{Ending, padded, printing, printing_with};
use ikigai_tests::host::{Host, Ran, schema};
use ikigai_tests::tiers::{
    ABOVE_THE_BASELINE, compiled, is_of_the_baseline, leave_unoptimised, let_optimise,
};
use ikigai_tests::wait::eventually;
use tokio::runtime::Runtime;

use super::{call, library_of};

fn large(name: &str) -> Vec<u8> {
    padded(&printing(schema(name), Ending::Well), ABOVE_THE_BASELINE)
}

/// Returns a host with a large component `a` that was called once and stays baseline code, and the
/// component.
fn with_unoptimised() -> (Host, Vec<u8>) {
    let host = Host::without_system_tools();
    let bytes = large("a");
    host.program("a.wasm", &bytes);
    leave_unoptimised(&host.cache(), &bytes);
    call(&host, "a");
    assert_eq!(tiers(&host), (1, 0));
    (host, bytes)
}

/// Returns the number of the cache's entries that are baseline code, and of the other entries.
fn tiers(host: &Host) -> (usize, usize) {
    let entries = compiled(&host.cache());
    let baseline = entries.iter().filter(|entry| is_of_the_baseline(entry)).count();
    (baseline, entries.len() - baseline)
}

/// Waits until the cache has this number of optimised entries, and no others.
#[track_caller]
fn wait_for_optimised(host: &Host, count: usize) {
    eventually("all code is optimised", || tiers(host), |tiers| *tiers == (0, count));
}

/// The host as a library, which keeps running.
struct Living {
    library: Arc<ikigai_host::Host>,
    runtime: Runtime,
    tools: Arc<Snapshot>,
}

impl Living {
    fn over(host: &Host) -> Self {
        let library = library_of(host, ikigai_tests::paths::compiler());
        let runtime = Runtime::new().expect("a runtime");
        let tools = runtime.block_on(library.refresh());
        Self { library, runtime, tools }
    }

    fn call(&self, name: &str) {
        let called = self.library.call(&self.tools, name, "{}".into(), Control::default());
        assert!(self.runtime.block_on(called).is_success());
    }

    fn tier(&self, name: &str) -> Tier {
        let tool = self.tools.get(name).expect("the tool");
        self.runtime.block_on(tool.build.tier()).expect("usable").expect("a component").0
    }
}

/// Changes a byte of the only entry in the cache.
fn damage(host: &Host) {
    let [entry] = &compiled(&host.cache())[..] else { panic!("one entry") };
    let mut code = fs::read(entry).expect("read");
    let middle = code.len() / 2;
    code[middle] ^= 1;
    fs::write(entry, code).expect("written");
}

#[test]
fn a_large_component_is_optimised_after_the_command_that_called_it() {
    let host = Host::without_system_tools();
    host.program("a.wasm", large("a"));
    let turn = host.take_turn_behind();
    let first = call(&host, "a");
    assert!(first.stderr().contains("compiling a.wasm"), "{first}");
    assert_eq!(tiers(&host), (1, 0));
    let shown = host.run(["tool", "show", "a", "--json"]).expect_code(0).json();
    assert_eq!((&shown["code"], &shown["code_stays"]), (&"baseline".into(), &().into()));
    drop(turn);
    let second = call(&host, "a");
    assert_eq!(second.stderr(), "", "{second}");
    wait_for_optimised(&host, 1);
    let third = call(&host, "a");
    assert_eq!(third.stderr(), "", "{third}");
    let shown = host.run(["tool", "show", "a", "--json"]).expect_code(0).json();
    assert_eq!((&shown["code"], &shown["code_stays"]), (&"optimised".into(), &().into()));
    host.assert_nothing_left();
}

/// The background process waits for its turn to compile this component, so that the test can
/// inspect it.
#[test]
fn the_process_behind_has_nothing_of_its_host() {
    let host = Host::without_system_tools();
    let bytes = large("a");
    host.program("a.wasm", &bytes);
    leave_unoptimised(&host.cache(), &bytes);
    let turn = host.take_turn_for_optimised(Digest::from_bytes(&bytes));
    let_optimise(&host.cache(), &bytes);
    let mut shell = host.shell("exec 9</dev/null; exec \"$0\" \"$@\"");
    Ran::from_command(shell.args(["tool", "call", "a", "{}"]), b"").expect_code(0);
    let [process] = &ikigai_tests::leftovers::list(host.scratch())[..] else {
        panic!("one process")
    };
    let pid: i32 = process.split(':').next().expect("a number").parse().expect("a number");
    let of = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
    let stat = || fs::read_to_string(of("stat")).expect("it runs");
    let field = |number: usize| {
        let stat = stat();
        let fields = stat.rsplit(')').next().expect("fields").split_whitespace();
        fields.map(ToOwned::to_owned).nth(number - 3).expect("a field")
    };
    // proc_pid_stat(5): session, nice.
    eventually("its priority is low", || field(19), |nice| nice == "19");
    assert_eq!(field(6), pid.to_string());
    assert_eq!(fs::read_link(of("cwd")).expect("a directory"), Path::new("/"));
    assert_eq!(fs::read(of("environ")).expect("read"), b"");
    assert!(!of("fd/9").exists(), "it has a descriptor of whoever started the host");
    drop(turn);
    wait_for_optimised(&host, 1);
}

#[test]
fn an_attempt_that_failed_is_made_again_after_an_hour() {
    let host = Host::without_system_tools();
    let bytes = large("a");
    host.program("a.wasm", &bytes);
    for note in leave_unoptimised(&host.cache(), &bytes) {
        let long_ago = SystemTime::now() - Duration::from_secs(2 * 60 * 60);
        File::options()
            .write(true)
            .open(note)
            .expect("opened")
            .set_modified(long_ago)
            .expect("set");
    }
    call(&host, "a");
    wait_for_optimised(&host, 1);
}

#[test]
fn what_a_killed_process_left_is_removed_by_the_next() {
    let (host, bytes) = with_unoptimised();
    let [baseline] = &compiled(&host.cache())[..] else { panic!("one entry") };
    let code = fs::read(baseline).expect("read");
    let_optimise(&host.cache(), &bytes);
    call(&host, "a");
    wait_for_optimised(&host, 1);

    fs::write(baseline, code).expect("written");
    let unfinished = baseline.with_file_name(".unfinished-a");
    let fresh = baseline.with_file_name(".unfinished-b");
    for path in [&unfinished, &fresh] {
        fs::write(path, "half").expect("written");
    }
    let long_ago = SystemTime::now() - Duration::from_secs(48 * 60 * 60);
    let file = File::options().write(true).open(&unfinished).expect("opened");
    file.set_modified(long_ago).expect("set");
    assert_eq!(tiers(&host), (1, 1));
    host.program("b.wasm", large("b"));
    call(&host, "b");
    wait_for_optimised(&host, 2);
    eventually("what was left is removed", || unfinished.exists(), |is_there| !is_there);
    assert!(fresh.exists(), "somebody may still write it");
}

#[test]
fn a_host_that_lives_on_uses_the_optimised_code_once_it_is_there() {
    let (host, bytes) = with_unoptimised();
    let_optimise(&host.cache(), &bytes);

    let living = Living::over(&host);
    let called = || {
        living.call("a");
        living.tier("a")
    };
    eventually("this host uses optimised code", called, |tier| *tier == Tier::Optimised);
    assert_eq!(tiers(&host), (0, 1));
    host.assert_nothing_left();
}

#[test]
fn code_that_cannot_be_optimised_stays_and_says_why() {
    let (host, _) = with_unoptimised();
    let shown = host.run(["tool", "show", "a"]).expect_code(0).stdout();
    assert!(shown.contains("baseline: as optimised code it was left so by a test"), "{shown}");
    host.assert_nothing_left();
    assert_eq!(tiers(&host), (1, 0));
}

/// Another process holds the lock to compile for the cache.
#[test]
fn one_process_at_a_time_compiles_behind_the_hosts_of_a_cache() {
    let (host, bytes) = with_unoptimised();
    let turn = host.take_turn_behind();
    let_optimise(&host.cache(), &bytes);
    call(&host, "a");
    assert_eq!(ikigai_tests::leftovers::list(host.scratch()), Vec::<String>::new());
    assert_eq!(tiers(&host), (1, 0));

    let living = Living::over(&host);
    assert_eq!(living.tier("a"), Tier::Baseline);
    drop(turn);
    let tier = || living.tier("a");
    eventually("the host that waited has its turn", tier, |tier| *tier == Tier::Optimised);
}

/// Tail calls are a proposal that Winch does not support.
#[test]
fn a_component_that_the_baseline_cannot_express_is_optimised_at_once() {
    let host = Host::without_system_tools();
    let text = "(core module (func $f (result i32) (return_call $f)))";
    let component = printing_with(schema("a"), Ending::Well, text);
    host.program("a.wasm", padded(&component, ABOVE_THE_BASELINE));
    call(&host, "a");
    assert_eq!(tiers(&host), (0, 1));
    assert_eq!(ikigai_tests::leftovers::list(host.scratch()), Vec::<String>::new());
}

#[test]
fn damaged_optimised_code_is_compiled_once_more_and_not_kept() {
    let (host, bytes) = with_unoptimised();
    let_optimise(&host.cache(), &bytes);
    call(&host, "a");
    wait_for_optimised(&host, 1);
    damage(&host);
    let ran = call(&host, "a");
    assert!(ran.stderr().contains("compiling anew"), "{ran}");
    wait_for_optimised(&host, 1);
    let again = call(&host, "a");
    assert_eq!(again.stderr(), "", "{again}");
}

#[test]
fn damaged_code_of_the_baseline_is_never_loaded() {
    let (host, _) = with_unoptimised();
    damage(&host);
    let ran = call(&host, "a");
    assert!(ran.stderr().contains("compiling anew"), "{ran}");
    let again = call(&host, "a");
    assert_eq!(again.stderr(), "", "{again}");
}
