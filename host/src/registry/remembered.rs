//! The tools that an earlier scan found, for callers that cannot wait for another scan.

use std::collections::BTreeMap;
use std::path::Path;

use super::candidate;
use super::memo::{self, Memo, SchemaKey, SchemaReply};
use crate::paths::Paths;
use crate::policy::{EarlierReach, ToolOrigin};

/// Returns the names and descriptions of the tools whose files are unchanged since they were last
/// asked. Before the first scan, the result is empty. Runs, compiles, digests and writes nothing.
#[must_use]
pub fn remembered(paths: &Paths) -> BTreeMap<String, String> {
    let earlier = EarlierReach::from_paths(paths);
    let is_usable = |cache: &&Path| cache.is_dir() && earlier.check(cache).is_ok();
    let cache = paths.cache.as_deref().filter(is_usable);
    let memo = Memo::open(cache, memo::host_identity(paths));
    let dirs = [(&paths.system_tools, ToolOrigin::System), (&paths.user_tools, ToolOrigin::User)];
    let listed = dirs.into_iter().filter_map(|(dir, origin)| {
        let listing = candidate::list(dir.as_deref()?, origin).ok()?;
        Some(listing.candidates)
    });
    let known = listed.flatten().filter_map(|candidate| {
        let digest = candidate.known_digest(&memo)?;
        let question = SchemaKey::new(candidate.backend, &candidate.path, digest);
        let SchemaReply::Schema { schema, .. } = memo.answer(&question)? else { return None };
        let text = |key: &str| Some(schema.get(key)?.as_str()?.to_owned());
        Some((text("name")?, text("description").unwrap_or_default()))
    });
    known.collect()
}
