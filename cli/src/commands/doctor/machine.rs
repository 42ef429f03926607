//! The description of the machine and of the program on it.

use std::env::consts::ARCH;
use std::fs;
use std::thread;

use bytesize::ByteSize;

use super::DoctorCheck;
use ikigai_host::paths::{Paths, running_program};

const SECTION: &str = "machine";

pub(super) fn checks(paths: &Paths) -> Vec<DoctorCheck> {
    let program = running_program();
    let program = program.map_or_else(|error| error.to_string(), |it| it.display().to_string());
    let supervisor = paths.supervisor.as_ref().map_or_else(
        || DoctorCheck::new(SECTION, "supervisor", "not found").warn("install ikigai again"),
        |path| {
            let place = path.display().to_string();
            let check = DoctorCheck::new(SECTION, "supervisor", place);
            let advice = "no native tool can run without it; reinstall ikigai";
            if path.is_file() { check } else { check.warn(advice) }
        },
    );
    let cores = thread::available_parallelism();
    let cores = cores.map_or_else(|error| error.to_string(), |count| count.to_string());
    let info = rustix::system::sysinfo();
    // Both fields have the word size of the C library.
    let memory = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit));
    vec![
        DoctorCheck::new(SECTION, "ikigai", format!("{} at {program}", env!("CARGO_PKG_VERSION"))),
        supervisor,
        DoctorCheck::new(SECTION, "system", system()),
        DoctorCheck::new(SECTION, "cores", cores),
        DoctorCheck::new(SECTION, "memory", ByteSize(memory).to_string()),
    ]
}

fn system() -> String {
    let uname = rustix::system::uname();
    let kernel =
        format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy());
    // os-release(5): NAME=value, in quotes if necessary.
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    match name.map(|name| name.trim_matches(['"', '\''])) {
        Some(name) if !name.is_empty() => format!("{name}, {kernel}, {ARCH}"),
        _ => format!("{kernel}, {ARCH}"),
    }
}
