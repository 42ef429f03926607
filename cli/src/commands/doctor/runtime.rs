//! The checks of the runtime of components.

use super::DoctorCheck;
use ikigai_host::exec::wasm::compiler::Compiler;
use ikigai_host::exec::wasm::{self, Capability};
use ikigai_host::paths::Paths;

const SECTION: &str = "components";

pub(super) fn checks(paths: &Paths) -> Vec<DoctorCheck> {
    let Capability { engine, baseline, pool, pagemap_scan } =
        wasm::capability(&Compiler::new(paths.compiler.clone()));
    let engine = match engine {
        Ok(()) => DoctorCheck::new(SECTION, "runtime", "compiles and runs components"),
        Err(why) => {
            return vec![DoctorCheck::new(SECTION, "runtime", why).fail(
                "the built-in tools are components; without a runtime only native tools work, with --backend native",
            )];
        }
    };
    let baseline = match baseline {
        Ok(()) => "a large new component starts with simple code, until its fast code is compiled"
            .to_owned(),
        Err(why) => format!("a large new component waits until it is compiled: {why}"),
    };
    let baseline = DoctorCheck::new(SECTION, "first call", baseline);
    let pool = match pool {
        Ok(()) => {
            DoctorCheck::new(SECTION, "memory pool", "memory for calls is reserved in advance")
        }
        Err(why) => DoctorCheck::new(
            SECTION,
            "memory pool",
            format!("none; each call reserves its own memory: {why}"),
        )
        .warn("raise the limit on address space (`ulimit -v`); calls work, but slower"),
    };
    let scan = match pagemap_scan {
        Ok(()) => DoctorCheck::new(
            SECTION,
            "memory cleaning",
            "after a call, only the memory that it changed is cleaned",
        ),
        Err(why) => DoctorCheck::new(
            SECTION,
            "memory cleaning",
            format!("after a call, all of its memory is cleaned: {why}"),
        )
        .warn("needs Linux 6.7 or later; calls work without it, but slower"),
    };
    vec![engine, baseline, pool, scan]
}
