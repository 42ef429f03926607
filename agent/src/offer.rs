//! The tools that a model is offered: those of a snapshot, in the provider's form.
//!
//! This is the one place where a registry meets a request; serializers read the request and
//! nothing else.

use std::sync::Arc;

use ikigai_host::policy::ToolOrigin;
use ikigai_host::registry::{Snapshot, Tool};
use ikigai_provider::{Bounds, Effect, Provider, Tools, translate_all};
use serde_json::{Value, json};

use crate::session::Model;
use crate::slash;

/// The choice of tools for a provider that takes fewer than there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The most tools, and the longest description of one.
    pub bounds: Bounds,
    /// The names of the tools that come before all others.
    pub first: Vec<String>,
}

impl Offer {
    /// Returns the provider's own bounds, without a preference among the tools.
    #[must_use]
    pub fn of(provider: Provider) -> Self {
        Self { bounds: Bounds::of(provider), first: Vec::new() }
    }
}

/// Returns the tools that a model is offered: those of the snapshot, and with `commands` the
/// host's own. Without a snapshot there are none. They are sorted by name, so that equal tools
/// are equal text.
///
/// Where the provider takes fewer than there are, the host's own comes first, then those that the
/// offer names, then the system's, and last the user's; each of these groups by name.
#[must_use]
pub fn offered(
    provider: Provider,
    offer: &Offer,
    snapshot: Option<&Snapshot>,
    commands: bool,
) -> Tools {
    let Some(snapshot) = snapshot else {
        return Tools { value: json!([]), losses: Vec::new(), left_out: Vec::new() };
    };
    let own = commands.then(slash::schema);
    let mut tools: Vec<&Tool> = snapshot.tools().collect();
    let named = |tool: &Tool| offer.first.iter().position(|name| name == tool.name());
    tools.sort_by_key(|tool| (named(tool).unwrap_or(usize::MAX), tool.origin == ToolOrigin::User));
    let schemas = own.as_ref().into_iter().chain(tools.into_iter().map(|tool| &*tool.schema));
    translate_all(provider, offer.bounds, schemas)
}

/// The most names in one line of a warning.
const NAMED: usize = 20;

/// Returns a warning for each tool that the provider is not offered, or not with its whole
/// description, and one for all tools for which there is no room.
fn warnings(provider: Provider, offer: &Offer, tools: &Tools) -> Vec<String> {
    let left_out = tools.left_out.iter().filter(|left| !left.reason.is_too_many());
    let left_out = left_out
        .map(|left| format!("tool `{}` is not offered to {provider}: {}", left.tool, left.reason));
    let cut = tools.losses.iter().filter(|(_, loss)| loss.effect == Effect::Cut);
    let cut = cut.map(|(tool, loss)| {
        format!("the description of `{tool}` is cut for {provider}: {}", loss.reason)
    });
    left_out.chain(cut).chain(crowded_out(provider, offer, tools)).collect()
}

/// Returns a warning that names the tools for which a request has no room, in one line, or
/// nothing where all fit.
#[must_use]
pub fn crowded_out(provider: Provider, offer: &Offer, tools: &Tools) -> Option<String> {
    let left_out = tools.left_out.iter().filter(|left| left.reason.is_too_many());
    let names: Vec<&str> = left_out.map(|left| left.tool.as_str()).collect();
    let room = offer.bounds.tools.filter(|_| !names.is_empty())?;
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more, which `ikigai doctor` names"),
    };
    Some(format!(
        "{} tools are not offered to {provider}, which takes {room} (`max_tools`): {}{more}. Name \
         those that you need in `first_tools` under `[providers.{provider}]`",
        names.len(),
        names[..names.len().min(NAMED)].join(", "),
    ))
}

/// The tools of the last request, translated once for a snapshot and a provider.
#[derive(Default)]
pub(super) struct OfferedTools(Option<(Arc<Snapshot>, Provider, Value)>);

impl OfferedTools {
    /// Returns the tools for requests to the model, and where they were translated anew the
    /// warnings that go with them.
    pub(super) fn of(
        &mut self,
        model: &Model,
        snapshot: Option<&Arc<Snapshot>>,
        commands: bool,
    ) -> (Value, Vec<String>) {
        let Model { client, offer, .. } = model;
        let provider = client.provider();
        let Some(snapshot) = snapshot else {
            return (offered(provider, offer, None, false).value, Vec::new());
        };
        if let Some((known, of, value)) = &self.0
            && Arc::ptr_eq(known, snapshot)
            && *of == provider
        {
            return (value.clone(), Vec::new());
        }
        let translated = offered(provider, offer, Some(snapshot), commands);
        let warnings = warnings(provider, offer, &translated);
        self.0 = Some((Arc::clone(snapshot), provider, translated.value.clone()));
        (translated.value, warnings)
    }
}

#[cfg(test)]
mod tests {
    use ikigai_provider::{Inexpressible, LeftOut};

    use super::*;

    #[test]
    fn without_a_snapshot_nothing_is_offered() {
        for provider in Provider::ALL {
            let tools = |snapshot, commands| {
                offered(provider, &Offer::of(provider), snapshot, commands).value
            };
            assert_eq!(tools(None, true), json!([]), "{provider}");
            assert_eq!(tools(Some(&Snapshot::default()), false), json!([]));
        }
    }

    #[test]
    fn the_hosts_own_tool_is_offered_to_every_provider() {
        for provider in Provider::ALL {
            let offer = Offer::of(provider);
            let tools = offered(provider, &offer, Some(&Snapshot::default()), true);
            assert_eq!(tools.left_out, []);
            assert!(tools.value.to_string().contains("slash_command"), "{provider}");
        }
    }

    #[test]
    fn what_has_no_room_is_named_in_one_line() {
        let left = |at: usize| LeftOut {
            tool: format!("t{at:02}"),
            reason: Inexpressible::TooMany { limit: 128 },
        };
        let of = |count| Tools {
            value: json!([]),
            losses: Vec::new(),
            left_out: (0..count).map(left).collect(),
        };
        let warnings = |tools| warnings(Provider::OpenAi, &Offer::of(Provider::OpenAi), &tools);
        let of_two = warnings(of(2));
        let expected = "2 tools are not offered to openai, which takes 128 (`max_tools`): t00, \
                        t01. Name those that you need in `first_tools` under `[providers.openai]`";
        assert_eq!(of_two, [expected]);
        let of_many = warnings(of(25));
        let more = "t19 and 5 more, which `ikigai doctor` names.";
        assert!(of_many[0].contains(more), "{of_many:?}");
        assert_eq!(warnings(of(0)), [""; 0]);
    }
}
