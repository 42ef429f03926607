//! The environment variables with the keys for model providers: one list, for the client that
//! sends a key and for the policy that keeps it from tools.

use std::fmt;

/// Defines the enum, [`ProviderKey::ALL`] and [`ProviderKey::as_str`] from one list, so that a
/// new variable is in all three.
macro_rules! provider_keys {
    ($($(#[$doc:meta])* $key:ident = $variable:literal,)+) => {
        /// An environment variable that holds the key of an account with a model provider. With
        /// it a program can spend the user's money.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ProviderKey {
            $($(#[$doc])* $key,)+
        }

        impl ProviderKey {
            /// Every variable, in the order of their names.
            pub const ALL: &[Self] = &[$(Self::$key,)+];

            /// Returns the name of the variable.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$key => $variable,)+
                }
            }
        }
    };
}

provider_keys! {
    /// `ANTHROPIC_API_KEY`.
    Anthropic = "ANTHROPIC_API_KEY",
    /// `GEMINI_API_KEY`.
    Gemini = "GEMINI_API_KEY",
    /// `GOOGLE_API_KEY`: another name for Gemini's key, which Google's own libraries read.
    Google = "GOOGLE_API_KEY",
    /// `OPENAI_API_KEY`.
    OpenAi = "OPENAI_API_KEY",
}

impl fmt::Display for ProviderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::ProviderKey;

    #[test]
    fn names_are_sorted_and_distinct() {
        let names: Vec<&str> = ProviderKey::ALL.iter().map(|key| key.as_str()).collect();
        assert!(names.is_sorted_by(|one, next| one < next), "{names:?}");
    }
}
