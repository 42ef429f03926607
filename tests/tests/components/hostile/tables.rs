//! Components with many tables and instances, which count as memory in addition to the linear
//! memories.

use std::fs;

use ikigai_host::exec::wasm::{GuestProgram, Runtime};
use ikigai_host::exec::{Call, Executor as _, Exit};
use ikigai_host::limits::{CallLimits, Limit};
use ikigai_tests::component::{Ending, Hoard, hoarding, printing};
use ikigai_tests::host::{Host, schema};

use super::{HOST_ALONE, within_means};

/// Almost the most that one component may have: 28 MiB.
const ALLOWED: Hoard = Hoard { instances: 7, tables: 8, elements: 65_536 };

/// More than a component may have: 10,800 tables, with 824 MiB in total.
const TOO_MANY: Hoard = Hoard { instances: 120, tables: 90, elements: 10_000 };

#[test]
fn tables_count_into_the_memory_of_a_call() {
    let host = Host::without_system_tools();
    let bytes = hoarding(&schema("hoards"), Ending::Spin, ALLOWED);
    assert!(bytes.len() < 8 << 10, "{} bytes", bytes.len());
    let path = host.program("hoards.wasm", bytes);
    let path = path.to_str().expect("UTF-8");
    let flags = ["--memory", "16MiB", "--timeout", "2s"];
    let ran = within_means(&host, &[&flags[..], &["tool", "run", path]].concat());
    let ran = ran.wait_within(HOST_ALONE).expect_code(124);
    assert!(ran.stderr().contains("exceeded its limit on memory"), "{ran}");
    // With enough memory the component runs, and spins.
    let flags = ["--memory", "64MiB", "--timeout", "1s"];
    let ran = within_means(&host, &[&flags[..], &["tool", "run", path]].concat());
    let ran = ran.wait_within(HOST_ALONE).expect_code(124);
    assert!(ran.stderr().contains("exceeded its limit on wall_clock"), "{ran}");
    host.assert_nothing_left();
}

#[test]
fn more_tables_and_instances_than_a_component_may_have_are_refused() {
    let few = Hoard { instances: 1, tables: 1, elements: 1 };
    let cases = [
        TOO_MANY,
        Hoard { instances: 65, ..few },
        Hoard { instances: 9, tables: 8, ..few },
        Hoard { tables: 9, ..few },
        Hoard { elements: 65_537, ..few },
    ];
    for host in [Host::without_system_tools(), Host::without_system_tools().as_nobody()] {
        for (number, hoard) in cases.into_iter().enumerate() {
            let text = schema(&format!("hoards{number}"));
            host.program(&format!("hoards{number}.wasm"), hoarding(&text, Ending::Well, hoard));
        }
        host.program("good.wasm", printing(schema("good"), Ending::Well));
        let ran = within_means(&host, &["tool", "list"]).wait_within(HOST_ALONE).expect_code(0);
        assert!(ran.stdout().contains("good") && !ran.stdout().contains("hoards"), "{ran}");
        assert!(ran.stderr().contains(&format!("{} skipped", cases.len())), "{ran}");
        host.assert_nothing_left();
    }
}

#[test]
fn a_host_that_is_idle_has_given_the_tables_back() {
    const AT_ONCE: u32 = 16;
    // Instances are allocated on demand, as in the commands, or from a pool, which has room for
    // eight tables per guest.
    for guests in [AT_ONCE, 128] {
        let runtime = Runtime::new(guests, u64::MAX).expect("a runtime");
        let compile = |hoard| {
            let component = hoarding("{}", Ending::Well, hoard);
            runtime.compile_here(&component).expect("compiled")
        };
        let small = compile(Hoard { instances: 1, tables: 1, elements: 10 });
        let large = compile(ALLOWED);
        let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let tokio = tokio.expect("a runtime");
        let all = |program: &GuestProgram| {
            let calls: Vec<_> = (0..AT_ONCE)
                .map(|_| tokio.spawn(program.run(call(CallLimits::default().wasm_memory))))
                .collect();
            for call in calls {
                let outcome = tokio.block_on(call).expect("not lost");
                assert_eq!(outcome.exit, Exit::Code(0), "{outcome:?}");
            }
        };
        all(&small);
        let before = resident();
        all(&large);
        let more = resident().saturating_sub(before);
        // All guests together had used 448 MiB.
        assert!(more < 64 << 20, "{} MiB are left with room for {guests}", more >> 20);

        let outcome = tokio.block_on(large.run(call(16 << 20)));
        assert_eq!(outcome.limit, Some(Limit::Memory), "{outcome:?}");
        assert!(outcome.usage.peak_memory.is_some_and(|peak| peak <= 16 << 20), "{outcome:?}");
    }
}

fn call(memory: u64) -> Call {
    Call {
        limits: CallLimits { wasm_memory: memory, ..CallLimits::default() },
        ..Call::new(std::env::temp_dir())
    }
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
    kibibytes << 10
}
