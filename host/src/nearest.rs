//! The name that was probably meant.

/// Of `names`, the one most like `name`, if any is like it at all.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Below this similarity a suggestion is noise.
    const SIMILAR: f64 = 0.7;
    names
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity > SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}
