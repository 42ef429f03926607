//! The checks of the runtime of components.

use super::Check;
use ikigai_host::exec::wasm::{self, Capability};

const SECTION: &str = "components";

pub(super) fn checks() -> Vec<Check> {
    let Capability { engine, baseline, pool, pagemap_scan } = wasm::capability();
    let engine = match engine {
        Ok(()) => Check::new(SECTION, "runtime", "compiles and runs components"),
        Err(why) => {
            return vec![Check::new(SECTION, "runtime", why).fail(
                "the built-in tools are components; without a runtime only native tools work, with --backend native",
            )];
        }
    };
    let baseline = match baseline {
        Ok(()) => "a large new component runs code compiled by Winch until Cranelift's is ready"
            .to_owned(),
        Err(why) => format!("none; a large new component waits until it is compiled: {why}"),
    };
    let baseline = Check::new(SECTION, "first code", baseline);
    let pool = match pool {
        Ok(()) => Check::new(SECTION, "pool", "memory for guests can be reserved in advance"),
        Err(why) => {
            Check::new(SECTION, "pool", format!("none; each call reserves its own memory: {why}"))
                .warn("raise the limit on address space (`ulimit -v`); calls work, but slower")
        }
    };
    let scan = match pagemap_scan {
        Ok(()) => {
            Check::new(SECTION, "pagemap scan", "only the pages that a guest wrote to are cleared")
        }
        Err(why) => Check::new(SECTION, "pagemap scan", format!("none: {why}"))
            .warn("needs Linux 6.7 or later; calls work without it, but slower"),
    };
    vec![engine, baseline, pool, scan]
}
