//! The places that a recording must not show, and that no model may be sent.

use std::path::{Path, PathBuf};

use ikigai_protocol::{Access, GrantedDir};

use super::Authority;
use crate::paths::{self, FoundPlace};
use crate::policy::decision::PolicyRequest;
use crate::policy::reserved::Reserved;
use crate::policy::secret_places::{holds_secret_place, present_secrets, secret_place};
use crate::policy::{Backend, Grant, ToolOrigin, decide, standard};

impl Authority {
    /// Returns whether a permissive recording must not show the path, because the path or a place
    /// below it usually contains secrets, or belongs to the host's own files or secrets.
    pub(crate) fn keeps_from_recordings(&self, path: &Path) -> bool {
        let home = self.live.base().home.clone();
        let real = home.as_ref().and_then(|home| home.canonicalize().ok());
        let is_secret = |home: Option<&Path>| {
            secret_place(path, home).is_some() || holds_secret_place(path, home)
        };
        // With the targets of their links.
        let places = self.secrets.places();
        is_secret(home.as_deref())
            || is_secret(real.as_deref())
            || places.iter().any(|place| path.starts_with(place) || place.starts_with(path))
            || standard::protected_path_in(path, &self.protected).is_some()
            || standard::protected_path_in(path, &self.own_secrets).is_some()
    }

    /// Returns the existing places that a permissive recording must not show, with links resolved:
    /// the places of [`present_secrets`], the host's own files and its secrets.
    pub(crate) fn kept_from_recordings(&self) -> Vec<PathBuf> {
        let home = self.live.base().home.clone();
        let own = self.protected.iter().chain(&self.own_secrets);
        let own = own.filter_map(|path| paths::find_place(path)).map(FoundPlace::into_path);
        present_secrets(home.as_deref(), &self.workspace).into_iter().chain(own).collect()
    }

    /// Returns a grant of the workspace that hides what a model must not be sent unless the user
    /// names it: what is hidden from `file_read`, and the places of secrets of this machine.
    ///
    /// # Errors
    ///
    /// Fails if a ceiling cannot be used, or if too many names are hidden. The text is the reason.
    pub(crate) fn kept_from_models(&self) -> Result<Grant, String> {
        const TOOL: &str = standard::FILE_READ;
        let layers = self.current().map_err(|denial| denial.to_string())?;
        let request = PolicyRequest {
            name: Some(TOOL),
            names: &[],
            registered: &[],
            origin: ToolOrigin::System,
            backend: Backend::Wasm,
            fell_back: false,
            path: Path::new(TOOL),
            program: None,
            contents: &[],
            wasi: &[],
            tool: None,
        };
        let hide = decide::hidden_from(&layers, &request)?.in_workspace(&self.workspace)?;
        let workspace = self.workspace.to_path_buf();
        let dirs = vec![GrantedDir { access: Access::ReadOnly, path: workspace }];
        // A workspace in a place of secrets was chosen by the user.
        let reserved = Reserved::everywhere(&self.secrets.for_decision(), dirs.clone());
        Ok(Grant { dirs, hide, reserved, ..Grant::default() })
    }
}
