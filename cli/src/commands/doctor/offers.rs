//! The checks of the tools that each model provider is offered.

use ikigai_provider::Provider;

use super::DoctorCheck;

use crate::config::Config;
use crate::remedy;
use ikigai_host::host::Host;
use ikigai_host::registry::{Snapshot, Tool};

const SECTION: &str = "tools for models";

/// The words for ikigai's own tool, which is not in the registry.
const OWN: &str = ", including ikigai's own `slash_command`";

pub(super) fn checks(config: &Config, host: &Host, snapshot: &Snapshot) -> Vec<DoctorCheck> {
    let tools: Vec<&Tool> = snapshot.tools().filter(|tool| host.offers(tool)).collect();
    Provider::ALL.map(|provider| check(config, provider, &tools)).into()
}

fn check(config: &Config, provider: Provider, tools: &[&Tool]) -> DoctorCheck {
    let offer = config.offer(provider);
    // The host's own tool counts too.
    let all = tools.len() + 1;
    let tools = ikigai_agent::offered(provider, &offer, tools.iter().copied(), true);
    let room = match offer.bounds.tools {
        Some(room) => format!("a request has room for {room}"),
        None => "a request has room for any number".to_owned(),
    };
    let what = format!("tools for {provider}");
    if tools.left_out.is_empty() {
        return DoctorCheck::new(SECTION, what, format!("all {all} are offered{OWN}; {room}"));
    }
    let names: Vec<&str> = tools.left_out.iter().map(|left| left.tool.as_str()).collect();
    let offered = all.saturating_sub(names.len());
    let detail =
        format!("{offered} of {all} are offered{OWN}; {room}; left out: {}", names.join(", "));
    let is_crowded = tools.left_out.iter().any(|left| left.reason.is_too_many());
    DoctorCheck::new(SECTION, what, detail).warn(if is_crowded {
        remedy::offer::hint(provider)
    } else {
        format!("`ikigai tool schema --provider {provider}` shows why")
    })
}
