//! The tag that lists referrers where a registry has no API for them.

use ikigai_protocol::Digest;

use crate::reference::Pointer;

/// Returns the tag that lists the referrers of a manifest.
pub(super) fn tag(subject: Digest) -> Pointer {
    Pointer::Tag(format!("sha256-{subject}"))
}
