//! The mode of a call that is recorded, and the accesses that a permissive recording permits.

use std::path::PathBuf;

use ikigai_protocol::Access;

use super::Widening;
use crate::front_end::Recording;
use crate::policy::{RequestedAccess, is_public};

impl Widening {
    /// Returns how the call is recorded, if it is.
    #[must_use]
    pub fn recording(&self) -> Option<Recording> {
        self.front_end.as_ref()?.recording()
    }

    /// Returns whether the call is recorded and may read beyond its grant during the recording.
    pub(crate) fn is_permissive(&self) -> bool {
        self.recording().is_some_and(|recording| recording.permissive)
    }

    /// Returns the paths that a permissive recording does not show, with links resolved.
    pub(crate) fn kept_from_recordings(&self) -> Vec<PathBuf> {
        self.authority.kept_from_recordings()
    }

    /// Returns whether a permissive recording lets the tool have an access beyond its grant. It may
    /// read everything except places of secrets and the host's own files. It may connect if the
    /// recording says so.
    pub(crate) fn recording_permits(&self, reached: &RequestedAccess) -> bool {
        let Some(Recording { permissive, net }) = self.recording() else { return false };
        match reached {
            RequestedAccess::Path { access: Access::ReadOnly, path } => {
                permissive && !self.authority.keeps_from_recordings(path)
            }
            RequestedAccess::Path { .. } => false,
            RequestedAccess::Peer { host, .. } => {
                let is_private = host.parse().is_ok_and(|ip| !is_public(ip));
                net && !is_private && !self.is_of_the_host(reached)
            }
            RequestedAccess::Host { .. } => net && !self.is_of_the_host(reached),
            RequestedAccess::Run => permissive,
        }
    }
}
