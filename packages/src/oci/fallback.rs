//! The tag that lists referrers, for a registry without the referrers API.

use ikigai_protocol::Digest;

use crate::reference::Pointer;

/// Returns the tag that lists the referrers of a manifest.
pub(super) fn tag(subject: Digest) -> Pointer {
    Pointer::Tag(format!("sha256-{subject}"))
}
