//! The surroundings of a turn that may change between two processes: the policy, the tools and the
//! pins. The log of a kept conversation has them, so that ikigai can report the changes when the
//! user resumes it. Nothing is restored from them.

use std::collections::BTreeMap;

use ikigai_host::Digest;
use ikigai_host::host::Host;
use ikigai_host::registry::{Snapshot, Tool};
use serde::{Deserialize, Serialize};

use crate::session_assets::SessionAssets;

/// The most names that a line lists.
const NAMED: usize = 5;

/// The characters of a digest that are kept. They are enough to detect a change; nothing is gained
/// by forging one.
const DIGEST: usize = 16;

/// The policy, the tools and the pins of a turn, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct TurnSurroundings {
    /// The digest of the policy.
    policy: String,
    /// The digest of each tool, by its name; unknown while some are still being compiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<BTreeMap<String, String>>,
    /// The version of each pinned asset, by its URI; unknown if the store failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pins: Option<BTreeMap<String, u64>>,
}

impl TurnSurroundings {
    /// Returns the surroundings as they are now, with the tools of this snapshot.
    pub async fn now(
        host: &Host,
        assets: Option<&SessionAssets>,
        snapshot: Option<&Snapshot>,
    ) -> Self {
        let tools = snapshot.filter(|snapshot| !snapshot.is_late()).map(|snapshot| {
            snapshot.tools().map(|tool| (tool.name().to_owned(), of_tool(tool))).collect()
        });
        let pins = match pins(assets).await {
            Ok(pins) => Some(pins),
            // The next request reads the pins again, and reports the error.
            Err(error) => {
                tracing::debug!("the pins are not known: {error}");
                None
            }
        };
        Self { policy: short(host.authority().digest()), tools, pins }
    }

    /// Returns these surroundings, with the unknown parts filled in from `before`.
    pub(crate) fn or(self, before: Option<&Self>) -> Self {
        let of_tools = before.and_then(|before| before.tools.clone());
        let of_pins = before.and_then(|before| before.pins.clone());
        Self { tools: self.tools.or(of_tools), pins: self.pins.or(of_pins), ..self }
    }

    /// Describes each difference between these surroundings and `now`, in one line each. Parts that
    /// are unknown on one side count as equal.
    #[must_use]
    pub fn changes(&self, now: &Self) -> Vec<String> {
        let policy = (self.policy != now.policy)
            .then(|| "The policy is another one than in the last turn.".to_owned());
        let tools = both(&self.tools, &now.tools).and_then(|(old, new)| difference(old, new));
        let pins = both(&self.pins, &now.pins).and_then(|(old, new)| difference(old, new));
        let tools = tools.map(|text| format!("The tools since the last turn: {text}."));
        let pins = pins.map(|text| format!("The pins since the last turn: {text}."));
        policy.into_iter().chain(tools).chain(pins).collect()
    }
}

fn both<'a, T>(old: &'a Option<T>, new: &'a Option<T>) -> Option<(&'a T, &'a T)> {
    Some((old.as_ref()?, new.as_ref()?))
}

/// Returns the difference between two maps in words, if there is one.
fn difference<T: PartialEq>(
    old: &BTreeMap<String, T>,
    new: &BTreeMap<String, T>,
) -> Option<String> {
    let missing_in = |other: &BTreeMap<String, T>, of: &BTreeMap<String, T>| -> Vec<String> {
        of.keys().filter(|name| !other.contains_key(*name)).cloned().collect()
    };
    let changed = old.iter().filter(|(name, value)| new.get(*name).is_some_and(|it| it != *value));
    let parts = [
        ("added", missing_in(old, new)),
        ("removed", missing_in(new, old)),
        ("changed", changed.map(|(name, _)| name.clone()).collect()),
    ];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<String> =
        parts.map(|(word, names)| format!("{word} {}", list(&names))).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn list(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Returns the digest of a tool: of its file, and of everything that a model reads about it.
fn of_tool(tool: &Tool) -> String {
    let Tool { schema, build, .. } = tool;
    let text = format!(
        "{}\n{}\n{}\n{:?}",
        build.digest,
        schema.description,
        schema.parameters,
        schema.returns.as_ref().map(ToString::to_string)
    );
    short(Digest::from_bytes(text.as_bytes()))
}

async fn pins(
    assets: Option<&SessionAssets>,
) -> Result<BTreeMap<String, u64>, ikigai_assets::Error> {
    let Some(assets) = assets.filter(|it| it.store.may_hold_assets()) else {
        return Ok(BTreeMap::new());
    };
    let pins = assets.store.open().await?.pins(&assets.agent).await?;
    Ok(pins.into_iter().map(|pin| (pin.metadata.path.to_uri(), pin.metadata.version)).collect())
}

fn short(digest: Digest) -> String {
    digest.to_string().chars().take(DIGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_map<T: Clone>(all: &[(&str, T)]) -> Option<BTreeMap<String, T>> {
        Some(all.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    fn surroundings(
        policy: &str,
        tools: &[(&str, &str)],
        pins: &[(&str, u64)],
    ) -> TurnSurroundings {
        let tools: Vec<_> = tools.iter().map(|(name, it)| (*name, (*it).to_owned())).collect();
        TurnSurroundings { policy: policy.to_owned(), tools: to_map(&tools), pins: to_map(pins) }
    }

    #[test]
    fn only_what_changed_is_told() {
        let before = surroundings("1", &[("bash", "a"), ("grep", "b")], &[("ikigai:///x", 1)]);
        assert_eq!(before.changes(&before), Vec::<String>::new());
        let names = ["a", "b", "c", "d", "e", "f", "g"].map(|name| (name, ""));
        let tools = [&[("bash", "c")][..], &names].concat();
        let now = surroundings("2", &tools, &[("ikigai:///x", 2), ("ikigai:///y", 1)]);
        assert_eq!(
            before.changes(&now),
            [
                "The policy is another one than in the last turn.",
                "The tools since the last turn: added a, b, c, d, e and 2 more; removed grep; \
                 changed bash.",
                "The pins since the last turn: added ikigai:///y; changed ikigai:///x.",
            ]
        );
    }

    #[test]
    fn what_is_unknown_is_no_change_and_stays_as_it_was_known() {
        let before = surroundings("1", &[("bash", "a")], &[("ikigai:///x", 1)]);
        let unknown = TurnSurroundings { tools: None, pins: None, ..before.clone() };
        assert_eq!(before.changes(&unknown), Vec::<String>::new());
        assert_eq!(unknown.changes(&before), Vec::<String>::new());
        assert_eq!(unknown.or(Some(&before)), before);
    }
}
