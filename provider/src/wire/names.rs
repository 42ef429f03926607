//! The names of calls on their way back: a model may ask for a tool that is none, under a name
//! that no tool can have, and a provider that is sent such a name refuses the whole conversation
//! ("string does not match pattern"), then and ever after.

use std::borrow::Cow;

use crate::Provider;
use crate::translate::{MAX_NAME_BYTES, is_name};

/// A name in a form that the provider takes: itself wherever a tool could be called so. The
/// others belong to no tool, so that it does not matter if two of them become one.
pub(super) fn sent(provider: Provider, name: &str) -> Cow<'_, str> {
    if is_name(provider, name) {
        return name.into();
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let start = (!starts).then_some('_');
    start.into_iter().chain(name.chars().map(plain)).take(MAX_NAME_BYTES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_tool_stays_and_every_other_becomes_one() {
        for provider in Provider::ALL {
            assert_eq!(sent(provider, "file_read-2"), "file_read-2");
            for (name, fitting) in [
                ("", "_".to_owned()),
                ("$PARAMETER NAME", "_$PARAMETER NAME".replace(['$', ' '], "_")),
                ("multi_tool_use/parallel", "multi_tool_use_parallel".to_owned()),
                ("lés", "l_s".to_owned()),
                (&"x".repeat(65), "x".repeat(64)),
            ] {
                assert_eq!(sent(provider, name), fitting, "{provider}");
                assert!(is_name(provider, &fitting), "{provider}: {fitting}");
            }
        }
        assert_eq!(sent(Provider::Google, "a.b"), "a.b");
        assert_eq!(sent(Provider::Anthropic, "a.b"), "a_b");
        assert_eq!(sent(Provider::OpenAi, "7zip"), "7zip");
        assert_eq!(sent(Provider::Google, "7zip"), "_7zip");
    }
}
