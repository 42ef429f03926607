//! Finds out which sandbox this machine gives to native tools, by setting one up.
//!
//! Owns the one call that tries every layer and starts nothing, and the remedies for missing
//! layers. Decides nothing.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::{Machine, Supervisor};
use ikigai_supervisor::isolation::{Isolation, Layer, Mechanism, Remedy};
use ikigai_supervisor::plan::{
    Bounds, DESCRIPTORS, End, Kind, Network, Plan, Report, Sandbox, Watch,
};

/// The time for the probe: far more than it takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the sandbox of this machine, by trying every layer.
pub(super) async fn machine(supervisor: &Supervisor) -> Machine {
    match tokio::time::timeout(TIMEOUT, run(supervisor)).await {
        Ok(Ok(report)) => machine_of(report),
        Ok(Err(error)) => unconfined(&format!("no supervisor could be started: {error}")),
        Err(_) => unconfined("the supervisor did not answer"),
    }
}

async fn run(supervisor: &Supervisor) -> io::Result<Report> {
    let nothing = || openat(CWD, c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let ends = [nothing()?, nothing()?, nothing()?];
    let mut process = supervisor.process(ends[DESCRIPTORS - 1].as_fd())?;
    let plan = plan(supervisor).encode().map_err(io::Error::other)?;
    process.send(&plan, ends.each_ref().map(AsFd::as_fd), None).await?;
    let report = process.report().await?;
    process.reap().await?;
    report.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn plan(supervisor: &Supervisor) -> Plan {
    Plan {
        // It is not executed.
        program: c"/bin/sh".to_owned(),
        directory: c"/".to_owned(),
        args: vec![c"probe".to_owned()],
        env: Vec::new(),
        dirs: Vec::new(),
        hidden: Vec::new(),
        machine: None,
        kind: Kind {
            sandbox: Sandbox::Prefer,
            net: Network::None,
            host_socket: false,
            probe: true,
            watch: Watch::Nothing,
            without: supervisor.without,
        },
        bounds: Bounds { wall_clock: TIMEOUT, memory: 1 << 30, processes: 16 },
    }
}

fn machine_of(report: Report) -> Machine {
    let Report { end, isolation, mut layers, .. } = report;
    let (End::Code(0), Some(isolation)) = (&end, isolation) else {
        return Machine { layers, ..unconfined(&format!("no tool would be started: {end:?}")) };
    };
    for layer in &mut layers {
        layer.remedy = remedy(layer);
    }
    Machine { isolation, layers }
}

/// Returns a machine without any guarantee, for this reason.
fn unconfined(reason: &str) -> Machine {
    Machine { isolation: Isolation::none(reason), layers: Vec::new() }
}

/// Settings that keep a user from making namespaces: the name of each, the value that forbids,
/// and the value that allows.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "10000"),
];

/// Returns the settings of this machine and this process that decide which layers there are.
/// While none of them has changed, another probe would find the same.
pub(super) fn surroundings() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let mut parts = vec![
        read("/proc/sys/kernel/random/boot_id"),
        rustix::process::geteuid().as_raw().to_string(),
    ];
    let status = read("/proc/self/status");
    let keys = ["CapEff:", "NoNewPrivs:", "Seccomp:", "Seccomp_filters:"];
    let matters = |line: &&str| keys.iter().any(|key| line.starts_with(key));
    parts.extend(status.lines().filter(matters).map(str::to_owned));
    let settings = SETTINGS.iter().map(|(setting, ..)| setting.replace('.', "/"));
    parts.extend(settings.map(|setting| read(&format!("/proc/sys/{setting}"))));
    parts.join(";")
}

/// Returns the remedy for a layer that is missing.
fn remedy(layer: &Layer) -> Option<Remedy> {
    if layer.guarantee.is_enforced() {
        return None;
    }
    match layer.mechanism {
        Mechanism::Landlock => Some(Remedy::EnableLandlock),
        Mechanism::Seccomp => Some(Remedy::EnableSeccomp),
        Mechanism::Proc => Some(Remedy::UnmaskProc),
        Mechanism::ProcessCgroup | Mechanism::MemoryCgroup => Some(Remedy::DelegateCgroup),
        Mechanism::PidMax => Some(Remedy::UpgradeForPidMax),
        Mechanism::UnprivilegedUser => Some(Remedy::RunUnprivileged),
        Mechanism::Capabilities | Mechanism::ProcessLimit => None,
        Mechanism::UserNamespace
        | Mechanism::MountNamespace
        | Mechanism::PidNamespace
        | Mechanism::NetworkNamespace
        | Mechanism::IpcNamespace
        | Mechanism::UtsNamespace => namespace_remedy(),
    }
}

/// Returns the remedy for a namespace that cannot be made.
fn namespace_remedy() -> Option<Remedy> {
    let set = SETTINGS.iter().find(|(setting, forbids, _)| {
        let path = format!("/proc/sys/{}", setting.replace('.', "/"));
        fs::read_to_string(path).is_ok_and(|value| value.trim() == *forbids)
    });
    if let Some((setting, _, allows)) = set {
        let (setting, value) = ((*setting).to_owned(), (*allows).to_owned());
        return Some(Remedy::AllowNamespaces { setting, value });
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let filtered =
        status.lines().any(|line| line.trim_end().ends_with('2') && line.starts_with("Seccomp:"));
    filtered.then_some(Remedy::UnfilterHost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ikigai_supervisor::isolation::Guarantee;

    #[test]
    fn a_layer_that_is_there_needs_no_remedy() {
        let landlock = |guarantee| Layer {
            mechanism: Mechanism::Landlock,
            guarantee,
            detail: None,
            remedy: None,
        };
        assert_eq!(remedy(&landlock(Guarantee::Enforced)), None);
        let absent = landlock(Guarantee::None("not there".into()));
        assert_eq!(remedy(&absent), Some(Remedy::EnableLandlock));
    }
}
