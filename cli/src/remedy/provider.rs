//! Hints for a failed request to a model, in the words of this program: its flags, its commands,
//! its configuration. The provider's library only knows the kind of remedy.

use ikigai_provider::{Failure, Remedy};

/// Returns the hint for a failure, without a full stop.
pub(crate) fn hint(failure: &Failure) -> Option<String> {
    failure.remedy().map(sentence)
}

fn sentence(remedy: Remedy) -> String {
    match remedy {
        Remedy::SetKey(provider) => format!(
            "set {}, or {} for a server that needs no key",
            provider.key_variable(),
            provider.base_url_variable()
        ),
        Remedy::CheckKey(provider) => {
            format!("check {}: it may belong to another provider, or be revoked", provider.key_variable())
        }
        Remedy::CheckPermissions => {
            "check which models your account can use, or choose another model with --model".to_owned()
        }
        Remedy::CheckBilling => {
            "check your account's plan and billing; waiting does not help".to_owned()
        }
        Remedy::ChooseModel(provider) => format!(
            "choose another model with --model, and check {} if it is set",
            provider.base_url_variable()
        ),
        Remedy::ChooseModelForImages => {
            "choose a model that takes images with /model or --model, or ask without them; /compact \
             leaves out those of older turns"
                .to_owned()
        }
        Remedy::ShortenConversation => {
            "shorten the conversation with /compact, or choose a model with a larger window with \
             /model or --model"
                .to_owned()
        }
        Remedy::WaitFor(wait) => format!("try again in {} s", wait.as_secs().max(1)),
        Remedy::WaitOrChooseModel => {
            "try again later, or choose another model with --model".to_owned()
        }
        Remedy::TryAgain => "try again".to_owned(),
        Remedy::CheckNetwork(provider) => {
            format!("check the network, and {} if it is set", provider.base_url_variable())
        }
        Remedy::CheckRoute(provider) => format!(
            "check the network, whether a proxy is needed, and {} if it is set",
            provider.base_url_variable()
        ),
        Remedy::StartServer(provider) => {
            format!(
                "start the server, or check {}: its host and port",
                provider.base_url_variable()
            )
        }
        Remedy::TrustCertificate(provider) => format!(
            "if your company's proxy replaces certificates, set SSL_CERT_FILE to a file with its CA \
             certificate; if there are no certificates, install the package ca-certificates; for a server \
            without TLS, use http:// in {}",
            provider.base_url_variable()
        ),
        Remedy::CheckProxy => {
            "check HTTPS_PROXY and HTTP_PROXY, and list hosts that need no proxy in NO_PROXY"
                .to_owned()
        }
        Remedy::RaiseTimeout => "try again, or allow more time in the configuration".to_owned(),
        Remedy::CheckAddress(provider) => format!(
            "check {} if it is set: the provider's own is `{}`",
            provider.base_url_variable(),
            provider.own_base_url()
        ),
        Remedy::CorrectAddress(provider) => format!(
            "write it as `{}`, in {} or the configuration",
            provider.own_base_url(),
            provider.base_url_variable()
        ),
        Remedy::FollowRedirect(provider) => format!(
            "set {} to its new address, if you trust that",
            provider.base_url_variable()
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ikigai_provider::{FailureKind, Provider};

    use super::*;

    #[test]
    fn every_remedy_as_it_is_shown() {
        let provider = Provider::Anthropic;
        let remedies = [
            Remedy::SetKey(provider),
            Remedy::CheckKey(provider),
            Remedy::CheckPermissions,
            Remedy::CheckBilling,
            Remedy::ChooseModel(provider),
            Remedy::ChooseModelForImages,
            Remedy::ShortenConversation,
            Remedy::WaitFor(Duration::from_millis(500)),
            Remedy::WaitFor(Duration::from_secs(61)),
            Remedy::WaitOrChooseModel,
            Remedy::TryAgain,
            Remedy::CheckNetwork(provider),
            Remedy::CheckRoute(provider),
            Remedy::StartServer(provider),
            Remedy::TrustCertificate(provider),
            Remedy::CheckProxy,
            Remedy::RaiseTimeout,
            Remedy::CheckAddress(provider),
            Remedy::CorrectAddress(provider),
            Remedy::FollowRedirect(provider),
        ];
        insta::assert_snapshot!(remedies.map(sentence).join("\n"));
    }

    #[test]
    fn a_failure_without_a_remedy_has_no_hint() {
        let failure = |status| Failure::new(Provider::Google, FailureKind::Refused { status });
        assert_eq!(hint(&failure(400)), None);
        assert!(hint(&failure(308)).is_some_and(|hint| hint.contains("GEMINI_BASE_URL")));
    }
}
