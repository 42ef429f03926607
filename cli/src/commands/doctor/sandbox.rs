//! The checks of the native tools' sandbox, as the host tried it: the guarantees on this machine,
//! its layers, and the tools for which policy requires more.

use std::path::Path;

use super::{DoctorCheck, apparmor};
use crate::remedy;
use ikigai_host::exec::native::MachineSandbox;
use ikigai_host::host::{CallTarget, Host};
use ikigai_host::paths::Paths;
use ikigai_host::policy::{Backend, Sandbox};
use ikigai_host::registry::Snapshot;
use ikigai_supervisor::isolation::{Guarantee, Isolation, LayerRemedy, SandboxLayer};

const SECTION: &str = "native sandbox";

pub(super) fn checks(
    host: &Host,
    snapshot: &Snapshot,
    machine: MachineSandbox,
) -> Vec<DoctorCheck> {
    let MachineSandbox { isolation, layers } = machine;
    let states = isolation.guarantees().into_iter().zip(isolation.describe());
    let mut checks: Vec<DoctorCheck> = states
        .map(|((_, guarantee), (boundary, state))| {
            let check = DoctorCheck::new(SECTION, boundary.as_str(), state);
            if guarantee.is_enforced() { check } else { check.warn_only() }
        })
        .collect();
    checks.extend(required(host, snapshot, &isolation));
    let paths = host.registry().paths();
    checks.extend(layers.iter().enumerate().map(|(index, it)| layer(it, &layers[..index], paths)));
    checks
}

/// Returns the check of a layer. If a layer before it has the same remedy, names that layer instead
/// of repeating the advice.
fn layer(layer: &SandboxLayer, before: &[SandboxLayer], paths: &Paths) -> DoctorCheck {
    let detail = match (&layer.guarantee, &layer.detail) {
        (Guarantee::Enforced, Some(detail)) => detail.clone(),
        (Guarantee::Enforced, None) => "works".to_owned(),
        (guarantee, _) => guarantee.reason().unwrap_or("does not work").to_owned(),
    };
    let check = DoctorCheck::new("layers of the native sandbox", layer.mechanism.as_str(), detail);
    match &layer.remedy {
        _ if layer.guarantee.is_enforced() => check,
        Some(remedy) => {
            let same = before.iter().find(|it| it.remedy.as_ref() == Some(remedy));
            check.warn(match same {
                Some(same) => format!("the same as for `{}`", same.mechanism.as_str()),
                None => advice(remedy, paths),
            })
        }
        None => check.warn_only(),
    }
}

/// Returns the advice for a remedy. If AppArmor is the cause, the profile comes first, because the
/// setting opens the whole machine.
fn advice(remedy: &LayerRemedy, paths: &Paths) -> String {
    let sentence = remedy::layer::sentence(remedy);
    let command = match remedy {
        LayerRemedy::AllowNamespaces { setting, .. } if setting == apparmor::SETTING => {
            let supervisor = paths.supervisor.as_deref();
            let prefix = supervisor.and_then(Path::parent).and_then(Path::parent);
            prefix.and_then(|prefix| apparmor::command(prefix, Path::new(apparmor::PROFILE)))
        }
        _ => None,
    };
    match command {
        Some(command) => format!(
            "an administrator loads ikigai's AppArmor profile, which allows it to the programs of \
             this installation: `{command}`; to allow it to every program instead: {sentence}"
        ),
        None => sentence,
    }
}

/// Returns a check for each tool that does not run because the policy requires more guarantees than
/// this machine has.
fn required(host: &Host, snapshot: &Snapshot, isolation: &Isolation) -> Vec<DoctorCheck> {
    let missing: Vec<String> = isolation
        .unmet()
        .map(|(boundary, guarantee)| format!("{boundary} is {}", guarantee.as_str()))
        .collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let requires = |subject: CallTarget<'_>| {
        subject.build.backend() == Backend::Native
            && host.decide(subject).is_ok_and(|it| it.grant.sandbox == Sandbox::Require)
    };
    snapshot
        .tools()
        .filter(|tool| requires(CallTarget::from(*tool)))
        .map(|tool| {
            let name = tool.name();
            let text = format!("policy requires a sandbox for it: {}", missing.join(", "));
            DoctorCheck::new(SECTION, name, text).fail(format!(
                "add what is missing, or set `sandbox = \"prefer\"` in `[tools.{name}]` to run it with the \
                 protection that this machine supports"
            ))
        })
        .collect()
}
