//! The common signers of two ceilings.

use crate::policy::signer_rule::{SignerIdentity, SignerRule};

/// Returns the signers that both lists admit, each for their common tools and until the earlier
/// day.
pub(super) fn signers(ours: &[SignerRule], theirs: &[SignerRule]) -> Vec<SignerRule> {
    let mut met = Vec::new();
    for our in ours {
        for their in theirs {
            let Some(identity) = identity(&our.identity, &their.identity) else { continue };
            let tools = match (&our.tools, &their.tools) {
                (None, other) | (other, None) => other.clone(),
                (Some(ours), Some(theirs)) => Some(tools(ours, theirs)),
            };
            let until = match (&our.until, &their.until) {
                (None, other) | (other, None) => other.clone(),
                // Dates with four-digit years sort as texts.
                (Some(our), Some(their)) => Some(our.min(their).clone()),
            };
            met.push(SignerRule { identity, tools, until, ..our.clone() });
        }
    }
    met
}

/// Returns the common identity, if both are the same. Two spellings of one key that differ by more
/// than a comment count as two keys, which admits less.
fn identity(one: &SignerIdentity, other: &SignerIdentity) -> Option<SignerIdentity> {
    use SignerIdentity::{Key, Minisign, Sigstore, Ssh};
    let is_same = match (one, other) {
        (Ssh(one), Ssh(other)) => {
            one.split_whitespace().take(2).eq(other.split_whitespace().take(2))
        }
        (Minisign(one), Minisign(other)) => one.trim() == other.trim(),
        (Key(one), Key(other)) => one.split_whitespace().eq(other.split_whitespace()),
        (
            Sigstore { issuer, subject },
            Sigstore { issuer: other_issuer, subject: other_subject },
        ) => {
            let issuer = (issuer == other_issuer).then(|| issuer.clone())?;
            let subject = pattern(subject, other_subject)?.to_owned();
            return Some(Sigstore { issuer, subject });
        }
        _ => false,
    };
    is_same.then(|| one.clone())
}

fn tools(ours: &[String], theirs: &[String]) -> Vec<String> {
    let mut met: Vec<String> = ours
        .iter()
        .flat_map(|our| theirs.iter().filter_map(|their| pattern(our, their)))
        .map(str::to_owned)
        .collect();
    met.sort();
    met.dedup();
    met
}

/// Returns the pattern for exactly the texts that both patterns match, which is always one of the
/// two. Returns `None` if they have no text in common.
fn pattern<'a>(one: &'a str, other: &'a str) -> Option<&'a str> {
    let matched_by = |pattern: &str, text: &str| match pattern.strip_suffix('*') {
        Some(begin) => text.strip_suffix('*').unwrap_or(text).starts_with(begin),
        None => pattern == text,
    };
    if matched_by(other, one) {
        return Some(one);
    }
    matched_by(one, other).then_some(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrower_of_two_patterns_is_what_they_share() {
        for (one, other, shared) in [
            ("weather", "weather", Some("weather")),
            ("weather", "wea*", Some("weather")),
            ("acme_*", "acme_tools_*", Some("acme_tools_*")),
            ("acme_*", "acme_", Some("acme_")),
            ("acme_*", "acme", None),
            ("weather", "weathers", None),
            ("a*", "b*", None),
        ] {
            assert_eq!(pattern(one, other), shared, "{one} {other}");
            assert_eq!(pattern(other, one), shared, "{other} {one}");
        }
    }
}
