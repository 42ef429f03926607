//! The texts about tools that a model is not offered, with the commands and keys of this program.
//! The agent only lists the tools.

use ikigai_agent::CrowdedOut;
use ikigai_provider::Provider;

/// The most names in one line of a warning.
const NAMED: usize = 20;

/// Returns a one-line warning that names the tools for which a request has no room.
pub(crate) fn warning(crowded_out: &CrowdedOut) -> String {
    let CrowdedOut { provider, room, tools } = crowded_out;
    let more = match tools.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more, which `ikigai doctor` lists"),
    };
    format!(
        "{} tools are not offered to {provider}, which takes {room} (`max_tools`): {}{more}. Name \
         those that you need in {}",
        tools.len(),
        tools[..tools.len().min(NAMED)].join(", "),
        preference(*provider)
    )
}

/// Returns the hint for a provider that accepts fewer tools than there are.
pub(crate) fn hint(provider: Provider) -> String {
    format!("name the tools that you need in {}", preference(provider))
}

/// Returns the configuration key with the tools that come before the others.
fn preference(provider: Provider) -> String {
    format!("`first_tools` under `[providers.{provider}]`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_without_room_are_named_in_one_line() {
        let of = |count: usize| {
            let tools = (0..count).map(|at| format!("t{at:02}")).collect();
            warning(&CrowdedOut { provider: Provider::OpenAi, room: 128, tools })
        };
        assert_eq!(
            of(2),
            "2 tools are not offered to openai, which takes 128 (`max_tools`): t00, t01. Name \
             those that you need in `first_tools` under `[providers.openai]`"
        );
        let of_many = of(25);
        assert!(of_many.contains("t19 and 5 more, which `ikigai doctor` lists."), "{of_many}");
    }
}
