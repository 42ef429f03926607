//! The tools that a model is offered: the tools of a snapshot, in the provider's form.
//!
//! Only this module brings a registry and a request together; serializers read only the request.

use std::sync::Arc;

use ikigai_host::policy::ToolOrigin;
use ikigai_host::registry::{Snapshot, Tool};
use ikigai_provider::{LossEffect, Provider, TranslatedTools, translate_all};
use serde_json::{Value, json};

use crate::environment::SessionEnvironment;
use crate::model::{Model, ToolOffer};
use crate::own_tool;

/// Returns these tools in the provider's form, and with `commands` the host's own tool. They are
/// sorted by name, so that equal tools make equal text.
///
/// If the provider takes fewer tools, the host's own tool comes first, then the tools that the
/// offer names, then the built-in tools, and last the user's. Each of these groups is sorted by
/// name.
#[must_use]
pub fn offered<'a>(
    provider: Provider,
    offer: &ToolOffer,
    tools: impl Iterator<Item = &'a Tool>,
    commands: bool,
) -> TranslatedTools {
    let own = commands.then(own_tool::schema);
    let mut tools: Vec<&Tool> = tools.collect();
    let named = |tool: &Tool| offer.first.iter().position(|name| name == tool.name());
    tools.sort_by_key(|tool| (named(tool).unwrap_or(usize::MAX), tool.origin == ToolOrigin::User));
    let schemas = own.as_ref().into_iter().chain(tools.into_iter().map(|tool| &*tool.schema));
    translate_all(provider, offer.bounds, schemas)
}

/// The tools for which a request has no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrowdedOut {
    /// The provider.
    pub provider: Provider,
    /// The number of tools that it takes.
    pub room: usize,
    /// The names of the tools that it is not offered.
    pub tools: Vec<String>,
}

/// Returns a warning for each tool that the provider is not offered for another reason than lack of
/// room, or that it is offered with a shortened description.
fn warnings(provider: Provider, tools: &TranslatedTools) -> Vec<String> {
    let left_out = tools.left_out.iter().filter(|left| !left.reason.is_too_many());
    let left_out = left_out
        .map(|left| format!("tool `{}` is not offered to {provider}: {}", left.tool, left.reason));
    let cut = tools.losses.iter().filter(|(_, loss)| loss.effect == LossEffect::Cut);
    let cut = cut.map(|(tool, loss)| {
        format!("the description of `{tool}` is cut for {provider}: {}", loss.reason)
    });
    left_out.chain(cut).collect()
}

/// Returns the tools for which a request has no room, or nothing if all fit.
#[must_use]
pub fn crowded_out(
    provider: Provider,
    offer: &ToolOffer,
    tools: &TranslatedTools,
) -> Option<CrowdedOut> {
    let left_out = tools.left_out.iter().filter(|left| left.reason.is_too_many());
    let tools: Vec<String> = left_out.map(|left| left.tool.clone()).collect();
    let room = offer.bounds.tools.filter(|_| !tools.is_empty())?;
    Some(CrowdedOut { provider, room, tools })
}

/// The tools of a request, and the differences from the tools of the snapshot that the user has not
/// seen yet.
pub(super) struct Offered {
    pub(super) value: Value,
    /// Bytes of `value` as JSON.
    pub(super) bytes: usize,
    pub(super) warnings: Vec<String>,
    pub(super) crowded_out: Option<CrowdedOut>,
}

impl Offered {
    /// Returns the tools without differences to report.
    fn as_before(value: Value, bytes: usize) -> Self {
        Self { value, bytes, warnings: Vec::new(), crowded_out: None }
    }
}

/// The tools of the last request, translated once for a snapshot and a provider.
#[derive(Default)]
pub(super) struct OfferedTools(Option<Translated>);

struct Translated {
    snapshot: Arc<Snapshot>,
    provider: Provider,
    value: Value,
    bytes: usize,
}

impl OfferedTools {
    /// Returns the tools for requests to the model: the tools of the snapshot that the policy does
    /// not deny, or an empty list without a snapshot. The differences are included only if the
    /// tools had to be translated again.
    pub(super) fn for_model(
        &mut self,
        environment: &SessionEnvironment,
        model: &Model,
        snapshot: Option<&Arc<Snapshot>>,
    ) -> Offered {
        let Some(snapshot) = snapshot else { return Offered::as_before(json!([]), 0) };
        let (provider, offer) = (model.client.provider(), &model.offer);
        if let Some(known) = &self.0
            && Arc::ptr_eq(&known.snapshot, snapshot)
            && known.provider == provider
        {
            return Offered::as_before(known.value.clone(), known.bytes);
        }
        let tools = snapshot.tools().filter(|tool| environment.host.offers(tool));
        let translated = offered(provider, offer, tools, environment.has_own_tool());
        let warnings = warnings(provider, &translated);
        let crowded_out = crowded_out(provider, offer, &translated);
        let value = translated.value;
        let bytes = value.to_string().len();
        let snapshot = Arc::clone(snapshot);
        self.0 = Some(Translated { snapshot, provider, value: value.clone(), bytes });
        Offered { value, bytes, warnings, crowded_out }
    }

    /// Returns the bytes of the tools of the last request.
    pub(super) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |known| known.bytes)
    }
}

#[cfg(test)]
mod tests {
    use ikigai_provider::{Inexpressible, OmittedTool};

    use super::*;

    #[test]
    fn without_tools_nothing_is_offered() {
        for provider in Provider::ALL {
            let tools =
                offered(provider, &ToolOffer::for_provider(provider), [].into_iter(), false);
            assert_eq!(tools.value, json!([]), "{provider}");
        }
    }

    #[test]
    fn the_hosts_own_tool_is_offered_to_every_provider() {
        for provider in Provider::ALL {
            let offer = ToolOffer::for_provider(provider);
            let tools = offered(provider, &offer, [].into_iter(), true);
            assert_eq!(tools.left_out, []);
            assert!(tools.value.to_string().contains("slash_command"), "{provider}");
        }
    }

    #[test]
    fn tools_without_room_are_listed_apart_from_the_warnings() {
        let left = |tool: &str, reason| OmittedTool { tool: tool.to_owned(), reason };
        let too_many = || Inexpressible::TooMany { limit: 128 };
        let of = |left_out| TranslatedTools { value: json!([]), losses: Vec::new(), left_out };
        let provider = Provider::OpenAi;
        let offer = ToolOffer::for_provider(provider);
        let tools = of(vec![left("a", too_many()), left("b", too_many())]);
        let expected =
            CrowdedOut { provider, room: 128, tools: vec!["a".to_owned(), "b".to_owned()] };
        assert_eq!(crowded_out(provider, &offer, &tools), Some(expected));
        assert_eq!(warnings(provider, &tools), [""; 0]);
        assert_eq!(crowded_out(provider, &offer, &of(Vec::new())), None);
    }
}
