//! Decisions in the words of tables, and in JSON.

use bytesize::ByteSize;
use ikigai_protocol::Access;
use serde_json::{Map, Value, json};
use strum::VariantArray as _;

use ikigai_host::host::Host;
use ikigai_host::limits::Limits;
use ikigai_host::policy::{
    AssetAccess, Backend, Decision, Denial, LimitKey, Provenance, Sandbox, ToolOrigin,
};
use ikigai_host::registry::Tool;

/// What policy says of one tool.
pub(super) type Decided = Result<Decision, Denial>;

/// A tool, and what becomes of it here.
pub(super) struct Row<'a> {
    pub(super) tool: &'a Tool,
    pub(super) decided: Decided,
    /// How far it is kept from what it was not granted.
    pub(super) level: &'static str,
}

impl<'a> Row<'a> {
    /// What policy says of the tool now, and what this machine makes of it.
    pub(super) async fn of(host: &Host, tool: &'a Tool) -> Self {
        let decided = host.decide(tool.into());
        let level = level(host, tool, &decided).await;
        Self { tool, decided, level }
    }

    pub(super) async fn all(host: &Host, tools: impl Iterator<Item = &'a Tool>) -> Vec<Self> {
        let mut rows = Vec::new();
        for tool in tools {
            rows.push(Self::of(host, tool).await);
        }
        rows
    }

    pub(super) fn backend(&self) -> Backend {
        self.tool.build.backend()
    }
}

/// How far the tool is kept from what it was not granted. What the machine can do is
/// found out once, and only where a tool asks for it.
pub(super) async fn level(host: &Host, tool: &Tool, decided: &Decided) -> &'static str {
    let Ok(decision) = decided else { return "denied" };
    let sandbox = match (tool.build.backend(), decision.grant.sandbox) {
        (Backend::Wasm, _) => return "sandboxed",
        (Backend::Native, Sandbox::Off) => return "unconfined",
        (Backend::Native, sandbox) => sandbox,
    };
    let machine = host.registry().supervisor().machine().await;
    if machine.level.unmet().next().is_none() {
        return "sandboxed";
    }
    match sandbox {
        Sandbox::Require => "refused here",
        // It holds its boundary by itself, and the sandbox is a second wall.
        _ if tool.origin == ToolOrigin::System => "self-confined",
        _ => "partial",
    }
}

/// The directories that may be read, or written, one a line.
pub(super) fn dirs(backend: Backend, decision: &Decision, access: Access) -> String {
    if decision.is_unconfined(backend) {
        return ALL.to_owned();
    }
    let dirs = decision.grant.dirs.iter().filter(|dir| dir.access >= access);
    list(dirs.map(|dir| dir.path.display().to_string()), "\n")
}

/// What the tool may connect to.
pub(super) fn network(backend: Backend, decision: &Decision) -> String {
    if decision.is_unconfined(backend) {
        return ALL.to_owned();
    }
    match (backend, decision.grant.net.any) {
        (Backend::Native, true) => "all of it".to_owned(),
        _ => list(decision.grant.net.to_string().split_whitespace().map(str::to_owned), "\n"),
    }
}

/// What the tool sees of the environment, by name.
pub(super) fn environment(decision: &Decision) -> String {
    if decision.grant.inherits_env {
        return "the user's, less provider keys".to_owned();
    }
    let unset = |name: &str| {
        decision.variables.iter().any(|variable| variable.name == name && !variable.is_set)
    };
    let set = decision.grant.env.iter().map(|(name, _)| name.to_string_lossy().into_owned());
    let missing = decision.variables.iter().filter(|it| !it.is_set).map(|it| it.name.clone());
    let shown = |name: String| if unset(&name) { format!("{name} (not set)") } else { name };
    list(set.chain(missing).map(shown), " ")
}

/// What the tool may do with the host's assets.
pub(super) fn assets(decision: &Decision) -> &'static str {
    match decision.grant.assets {
        AssetAccess::None => "nothing",
        AssetAccess::Read => "read",
        AssetAccess::Write => "read and write",
    }
}

/// The two limits that are met most, a line each.
pub(super) fn main_limits(backend: Backend, limits: &Limits) -> String {
    let memory = match backend {
        Backend::Wasm => limits.wasm_memory,
        Backend::Native => limits.native_memory,
    };
    format!("{}\n{}", humantime::format_duration(limits.wall_clock), ByteSize(memory))
}

/// The limits on one line.
pub(super) fn limits(backend: Backend, limits: &Limits) -> String {
    let memory = match backend {
        Backend::Wasm => limits.wasm_memory,
        Backend::Native => limits.native_memory,
    };
    let time = humantime::format_duration(limits.wall_clock);
    let (memory, output) = (ByteSize(memory), ByteSize(limits.output));
    let own = match backend {
        Backend::Wasm => format!("{} fuel, {} handles", limits.fuel, limits.handles),
        Backend::Native => format!("{} processes", limits.processes),
    };
    format!("{time}, {memory} memory, {output} output, {own}")
}

/// Who decided these capabilities, each once.
pub(super) fn sources(decision: &Decision, capabilities: &[&str]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for source in capabilities.iter().flat_map(|it| decision.provenance.of(it)) {
        let text = source.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join(", ")
}

/// The keys of all limits, for [`sources`].
pub(super) fn limit_keys() -> Vec<&'static str> {
    LimitKey::VARIANTS.iter().map(|key| key.as_str()).collect()
}

/// A decision for programs. Values of variables are not in it.
pub(super) fn as_json(backend: Backend, decided: &Decided) -> Value {
    let decision = match decided {
        Ok(decision) => decision,
        Err(denial) => {
            return json!({
                "denied": {
                    "reason": denial.reason,
                    "hint": denial.hint,
                    "source": denial.provenance.as_ref().map(Provenance::to_string),
                },
            });
        }
    };
    let grant = &decision.grant;
    let dirs = grant
        .dirs
        .iter()
        .map(|dir| json!({ "access": dir.access.as_str(), "path": dir.path.to_string_lossy() }));
    let env = grant.env.iter().map(|(name, _)| name.to_string_lossy());
    let variables =
        decision.variables.iter().map(|it| json!({ "name": it.name, "set": it.is_set }));
    let net = grant.net.to_string();
    let by = decision.provenance.iter().map(|(capability, sources)| {
        let texts = sources.iter().map(Provenance::to_string).collect::<Vec<_>>();
        (capability.to_owned(), json!(texts))
    });
    json!({
        "profile": decision.profile.as_str(),
        "grant": {
            "unconfined": decision.is_unconfined(backend),
            "sandbox": (backend == Backend::Native).then(|| grant.sandbox.as_str()),
            "dirs": dirs.collect::<Vec<_>>(),
            "net": net.split_whitespace().collect::<Vec<_>>(),
            "assets": grant.assets.as_str(),
            "env": env.collect::<Vec<_>>(),
            "variables": variables.collect::<Vec<_>>(),
        },
        "limits": {
            "wall_clock_ms":
                u64::try_from(decision.limits.wall_clock.as_millis()).unwrap_or(u64::MAX),
            "fuel": decision.limits.fuel,
            "wasm_memory": decision.limits.wasm_memory,
            "native_memory": decision.limits.native_memory,
            "output": decision.limits.output,
            "handles": decision.limits.handles,
            "processes": decision.limits.processes,
        },
        "decided_by": Value::Object(by.collect::<Map<_, _>>()),
        "notes": decision.notes,
    })
}

/// What nothing keeps a tool from.
const ALL: &str = "all that its user may";

fn list(items: impl Iterator<Item = String>, between: &str) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { "nothing".to_owned() } else { items.join(between) }
}
