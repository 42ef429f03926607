//! The search for the name that a mistyped one is most like.

/// Returns the one of `names` most like `name`, if any is like it at all.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_named(name, names.into_iter().map(|candidate| (candidate, candidate)))
}

/// Returns the thing whose name is most like `name`, if any is like it at all. A thing may
/// come several times, once with each of its names.
pub fn nearest_named<'a, T>(
    name: &str,
    named: impl IntoIterator<Item = (&'a str, T)>,
) -> Option<T> {
    /// The similarity below which a suggestion is noise.
    const SIMILAR: f64 = 0.7;
    named
        .into_iter()
        .map(|(candidate, thing)| (strsim::jaro_winkler(name, candidate), thing))
        .filter(|(similarity, _)| *similarity > SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, thing)| thing)
}
