//! The names of calls that are sent back. A model may call a tool that does not exist, by a name
//! that no tool can have. The provider would refuse the whole conversation for such a name ("string
//! does not match pattern"), in every further request.

use std::borrow::Cow;

use crate::Provider;
use crate::translate::{MAX_NAME_BYTES, is_name};

/// Returns a name in a form that the provider accepts: unchanged if a tool can have it. Other names
/// belong to no tool, so two of them may become equal.
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
