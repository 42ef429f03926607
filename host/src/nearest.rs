//! The search for the known name that is most similar to a mistyped name.

/// Returns the name of `names` that is most similar to `name`, if any is similar enough.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_named(name, names.into_iter().map(|candidate| (candidate, candidate)))
}

/// Returns the value whose name is most similar to `name`, if any is similar enough. A value may
/// appear several times, once with each of its names.
pub fn nearest_named<'a, T>(
    name: &str,
    named: impl IntoIterator<Item = (&'a str, T)>,
) -> Option<T> {
    /// The similarity below which a suggestion is noise.
    const SIMILAR: f64 = 0.7;
    named
        .into_iter()
        .map(|(candidate, thing)| (similarity(name, candidate), thing))
        .filter(|(similarity, _)| *similarity > SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, thing)| thing)
}

/// Returns the similarity of a name to a candidate, from 0 to 1. A name that has only words of the
/// candidate is similar: `read` and `read_file` mean `file_read`.
fn similarity(name: &str, candidate: &str) -> f64 {
    /// The similarity of a name to a candidate that has all its words. A typing error scores
    /// higher.
    const SAME_WORDS: f64 = 0.85;
    let spelt = strsim::jaro_winkler(name, candidate);
    let mut own = words(name).peekable();
    let has_all =
        own.peek().is_some() && own.all(|word| words(candidate).any(|other| other == word));
    if has_all { spelt.max(SAME_WORDS) } else { spelt }
}

/// Returns the words of a name: the parts between underscores, hyphens, slashes and similar
/// characters.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_and_a_word_of_a_name_lead_to_it() {
        let tools = ["bash", "file_edit", "file_read", "file_write", "glob", "grep", "reads"];
        for (typed, meant) in [
            ("fil_read", Some("file_read")),
            ("edit", Some("file_edit")),
            ("read_file", Some("file_read")),
            ("write", Some("file_write")),
            ("raeds", Some("reads")),
            ("zzz", None),
            ("", None),
            ("__", None),
        ] {
            assert_eq!(nearest(typed, tools), meant, "{typed}");
        }
        assert_eq!(nearest("read", tools), Some("reads"), "a slip is nearer than a word");
        assert_eq!(nearest("read", tools.into_iter().take(6)), Some("file_read"));
    }
}
