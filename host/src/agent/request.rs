//! From a conversation to a request: the tools of a snapshot, in the provider's form.
//!
//! This is the one place where a registry meets a request; serializers read the request and
//! nothing else.

use std::sync::Arc;

use ikigai_provider::{Message, Part, Provider, Role, Tools, translate_all};
use serde_json::{Value, json};

use super::{Session, slash};
use crate::registry::Snapshot;

/// The tools of the last request, translated once for a snapshot and a provider.
#[derive(Default)]
pub(super) struct ToolsOnce(Option<(Arc<Snapshot>, Provider, Value)>);

/// The tools that a model is offered: those of the snapshot, and with `commands` the host's
/// own. Without a snapshot there are none. Sorted by name, so that equal tools are equal
/// text.
pub(super) fn tools(provider: Provider, snapshot: Option<&Snapshot>, commands: bool) -> Tools {
    let Some(snapshot) = snapshot else {
        return Tools { value: json!([]), losses: Vec::new(), left_out: Vec::new() };
    };
    let own = commands.then(slash::schema);
    translate_all(provider, snapshot.tools().map(|tool| &*tool.schema).chain(own.as_ref()))
}

impl Session {
    /// The tools for requests to `provider`, with a warning for each that it cannot be
    /// offered, the first time that it is not.
    pub(super) fn tools_for(
        &mut self,
        provider: Provider,
        snapshot: Option<&Arc<Snapshot>>,
    ) -> (Value, Vec<String>) {
        let Some(snapshot) = snapshot else {
            return (tools(provider, None, false).value, Vec::new());
        };
        if let Some((known, of, value)) = &self.tools.0
            && Arc::ptr_eq(known, snapshot)
            && *of == provider
        {
            return (value.clone(), Vec::new());
        }
        let translated = tools(provider, Some(snapshot), self.documents.is_some());
        let warning = |left: &ikigai_provider::LeftOut| {
            format!("tool `{}` is not offered to {provider}: {}", left.tool, left.reason)
        };
        let warnings = translated.left_out.iter().map(warning).collect();
        self.tools.0 = Some((Arc::clone(snapshot), provider, translated.value.clone()));
        (translated.value, warnings)
    }

    /// Adds to what the user's side said last, or begins a new message of it: sides
    /// alternate.
    pub(super) fn push_user(&mut self, parts: Vec<Part>) {
        match self.messages.last_mut() {
            Some(last) if last.role == Role::User => last.parts.extend(parts),
            _ => self.messages.push(Message { role: Role::User, parts }),
        }
    }

    /// What the model said; nothing at all is no message.
    pub(super) fn push_model(&mut self, parts: Vec<Part>) {
        if !is_silent(&parts) {
            self.messages.push(Message { role: Role::Model, parts });
        }
    }
}

/// Whether parts neither say nor ask for anything.
pub(super) fn is_silent(parts: &[Part]) -> bool {
    parts.iter().all(|part| match part {
        Part::Text { text, .. } => text.trim().is_empty(),
        Part::Blob(_) => true,
        Part::Call(_) | Part::Result(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_snapshot_nothing_is_offered() {
        for provider in Provider::ALL {
            assert_eq!(tools(provider, None, true).value, json!([]), "{provider}");
            assert_eq!(tools(provider, Some(&Snapshot::default()), false).value, json!([]));
        }
    }

    #[test]
    fn the_hosts_own_tool_is_offered_to_every_provider() {
        for provider in Provider::ALL {
            let tools = tools(provider, Some(&Snapshot::default()), true);
            assert_eq!(tools.left_out, []);
            assert!(tools.value.to_string().contains("slash_command"), "{provider}");
        }
    }
}
