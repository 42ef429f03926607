//! The checks of the directories of tools, and of discovery.

use super::DoctorCheck;
use crate::commands::mcp::session;
use crate::remedy::REINSTALL;
use crate::remedy::policy::sentence;
use crate::servers::logins::LoginState;
use ikigai_host::host::Host;
use ikigai_host::paths::{self, OtherWriter, Paths};
use ikigai_host::policy::{Backend, Remedy, ToolOrigin};
use ikigai_host::registry::{KnownServer, Snapshot};

const SECTION: &str = "tools";

pub(super) fn checks(host: &Host, snapshot: &Snapshot) -> Vec<DoctorCheck> {
    let dirs = host.registry().paths();
    let mut checks = vec![
        directory(dirs, ToolOrigin::System, snapshot),
        directory(dirs, ToolOrigin::User, snapshot),
    ];
    checks.push(match snapshot.skipped().len() {
        0 => DoctorCheck::new(SECTION, "skipped", "none"),
        count => DoctorCheck::new(SECTION, "skipped", count.to_string())
            .warn("`ikigai tool list --all` shows why"),
    });
    if !snapshot.servers().is_empty() {
        checks.push(servers(snapshot));
        checks.extend(logins(host, snapshot));
    }
    for warning in snapshot.warnings() {
        checks.push(DoctorCheck::new(SECTION, "discovery", warning).warn_only());
    }
    checks
}

fn servers(snapshot: &Snapshot) -> DoctorCheck {
    let complaints: Vec<_> = snapshot.servers().iter().filter_map(KnownServer::complaint).collect();
    let check = DoctorCheck::new(SECTION, "MCP servers", snapshot.servers().len().to_string());
    if complaints.is_empty() { check } else { check.warn(complaints.join("; ")) }
}

/// Returns the check of the logins, if some server needs a login.
fn logins(host: &Host, snapshot: &Snapshot) -> Option<DoctorCheck> {
    let states = snapshot.servers().iter();
    let states: Vec<_> = states
        .filter_map(|server| Some((&server.name, session::login_state(host, server)?)))
        .collect();
    if states.is_empty() {
        return None;
    }
    let is_active = |state: &LoginState| matches!(state, LoginState::Active(_));
    let active = states.iter().filter(|(_, state)| is_active(state)).count();
    let check = DoctorCheck::new(SECTION, "logins", format!("{active} of {}", states.len()));
    let others = states.iter().filter(|(_, state)| !is_active(state));
    let others: Vec<_> = others
        .map(|(name, state)| {
            let (name, text) = (name.as_str(), session::text(state));
            let hint = Remedy::LogIn { server: name.to_owned(), scope: None };
            format!("`{name}`: {text}; {}", sentence(&hint))
        })
        .collect();
    Some(if others.is_empty() { check } else { check.warn(others.join("; ")) })
}

fn directory(paths: &Paths, origin: ToolOrigin, snapshot: &Snapshot) -> DoctorCheck {
    let (what, dir) = match origin {
        ToolOrigin::System => ("built-in tools", paths.system_tools.as_deref()),
        ToolOrigin::User => ("user tools", paths.user_tools.as_deref()),
    };
    let Some(dir) = dir else {
        return DoctorCheck::new(SECTION, what, "no directory").warn("set HOME");
    };
    let shown = dir.display();
    let metadata = match dir.metadata() {
        Ok(metadata) => metadata,
        Err(error)
            if origin == ToolOrigin::User && error.kind() == std::io::ErrorKind::NotFound =>
        {
            let check = DoctorCheck::new(SECTION, what, format!("none: `{shown}` does not exist"));
            let is_named = paths.required.iter().any(|named| named == dir);
            return if is_named { check.warn("create it, or specify another") } else { check };
        }
        Err(error) => {
            return DoctorCheck::new(SECTION, what, format!("`{shown}`: {error}")).warn(format!(
                "{REINSTALL}, or specify the directory of the tools with --system-tools"
            ));
        }
    };
    let tools: Vec<_> = snapshot.tools().filter(|tool| tool.origin == origin).collect();
    let of = |backend| tools.iter().filter(|tool| tool.build.backend() == backend).count();
    let (components, native, served) = (of(Backend::Wasm), of(Backend::Native), of(Backend::Mcp));
    let mut text =
        format!("{} in `{shown}`: {components} components, {native} native", tools.len());
    if served > 0 {
        text.push_str(&format!(", {served} of servers"));
    }
    let check = DoctorCheck::new(SECTION, what, text);
    let is_known = |uid| uid == 0 || paths::is_own(uid) || paths::program_owner() == Some(uid);
    match paths::other_writer(&metadata, is_known) {
        Some(OtherWriter::Owner(_)) => check
            .warn(format!("`{shown}` belongs to another user, who can change every tool in it")),
        Some(OtherWriter::Mode(_)) => {
            check.warn(format!("others can install tools there: chmod go-w '{shown}'"))
        }
        None => check,
    }
}
