//! The entries of tools and servers, as the policy files have them.

use std::collections::BTreeMap;

use ikigai_protocol::Digest;

use super::Authority;
use crate::policy::provenance::Provenance;
use crate::policy::rule::{PolicyLayer, deny_provenance, entry_provenance};
use crate::policy::written::EntryPermissions;

impl Authority {
    /// Returns whether some layer has a table `[tools.NAME]`.
    #[must_use]
    pub(crate) fn has_tool_entries(&self) -> bool {
        // If a ceiling cannot be used, no tool will run.
        self.current().is_ok_and(|layers| layers.all().any(|layer| !layer.tools.is_empty()))
    }

    /// Returns the names of the tables `[tools.NAME]` in all policy files, each with its line.
    #[must_use]
    pub fn tool_entries(&self) -> Vec<(String, Provenance)> {
        // If a ceiling cannot be used, no tool will run.
        let Ok(layers) = self.current() else { return Vec::new() };
        let of_layer = |layer: &PolicyLayer| -> Vec<(String, Provenance)> {
            let entries = layer.tools.iter();
            let entries = entries.map(|(name, it)| (name.clone(), entry_provenance(layer, it)));
            entries.collect()
        };
        layers.all().flat_map(of_layer).collect()
    }

    /// Returns the names of tools in the user's file, each with its line.
    #[must_use]
    pub fn named(&self) -> Vec<(String, usize)> {
        let Ok(layers) = self.current() else { return Vec::new() };
        let named = layers.user.tools.iter();
        named.map(|(name, entry)| (name.clone(), entry.position.line)).collect()
    }

    /// Returns a tool's permissions as written in the user's file, or `None` if it has no entry.
    /// Does not compare the digests that the entry is bound to.
    #[must_use]
    pub fn written(&self, name: &str) -> Option<EntryPermissions> {
        let layers = self.current().ok()?;
        layers.user.tools.get(name).map(EntryPermissions::from_entry)
    }

    /// Returns the line of the user's file that denies a tool by its name; `None` if no line does.
    #[must_use]
    pub fn denied_at(&self, name: &str) -> Option<Provenance> {
        let layers = self.current().ok()?;
        deny_provenance(&layers.user, layers.user.tools.get(name)?)
    }

    /// Returns a server's permissions as written in the user's file, or `None` if it has no entry.
    #[must_use]
    pub fn written_server(&self, name: &str) -> Option<EntryPermissions> {
        let layers = self.current().ok()?;
        layers.user.servers.get(name).map(EntryPermissions::from_entry)
    }

    /// Returns the tools of a server that the user's file approves, with the digests of their
    /// descriptions.
    #[must_use]
    pub fn approved(&self, server: &str) -> BTreeMap<String, Digest> {
        let Ok(layers) = self.current() else { return BTreeMap::new() };
        let entry = layers.user.servers.get(server).and_then(|entry| entry.approved.as_ref());
        entry.map(|at| at.value.clone()).unwrap_or_default()
    }

    /// Returns whether the user's file has an entry for the tool, bound to contents.
    #[doc(hidden)]
    #[must_use]
    pub fn is_bound_to_content(&self, name: &str) -> bool {
        let Ok(layers) = self.current() else { return false };
        layers.user.tools.get(name).is_some_and(|entry| entry.sha256.is_some())
    }
}
