//! Hints for a failed request to a model, in the words of this program: its flags, its commands,
//! its configuration. The provider's library only knows the kind of remedy.

use ikigai_provider::{FailureRemedy, RequestFailure};

/// Returns the hint for a failure, without a full stop.
pub(crate) fn hint(failure: &RequestFailure) -> Option<String> {
    failure.remedy().map(sentence)
}

fn sentence(remedy: FailureRemedy) -> String {
    match remedy {
        FailureRemedy::SetKey(provider) => format!(
            "set {}, or {} for a server that needs no key",
            provider.key_variable(),
            provider.base_url_variable()
        ),
        FailureRemedy::CheckKey(provider) => {
            format!("check {}: it may belong to another provider, or be revoked", provider.key_variable())
        }
        FailureRemedy::CheckPermissions => {
            "check which models your account can use, or choose another model with --model".to_owned()
        }
        FailureRemedy::CheckBilling => {
            "check your account's plan and billing; waiting does not help".to_owned()
        }
        FailureRemedy::ChooseModel(provider) => format!(
            "choose another model with --model, and check {} if it is set",
            provider.base_url_variable()
        ),
        FailureRemedy::ChooseModelForImages => {
            "choose a model that takes images with /model or --model, or ask without them; /compact \
             leaves out those of older turns"
                .to_owned()
        }
        FailureRemedy::ShortenConversation => {
            "shorten the conversation with /compact, or choose a model with a larger window with \
             /model or --model"
                .to_owned()
        }
        FailureRemedy::WaitFor(wait) => format!("try again in {} s", wait.as_secs().max(1)),
        FailureRemedy::WaitOrChooseModel => {
            "try again later, or choose another model with --model".to_owned()
        }
        FailureRemedy::TryAgain => "try again".to_owned(),
        FailureRemedy::CheckNetwork(provider) => {
            format!("check the network, and {} if it is set", provider.base_url_variable())
        }
        FailureRemedy::CheckRoute(provider) => format!(
            "check the network, whether a proxy is needed, and {} if it is set",
            provider.base_url_variable()
        ),
        FailureRemedy::StartServer(provider) => {
            format!(
                "start the server, or check {}: its host and port",
                provider.base_url_variable()
            )
        }
        FailureRemedy::TrustCertificate(provider) => format!(
            "if your company's proxy replaces certificates, set SSL_CERT_FILE to a file with its CA \
             certificate; if there are no certificates, install the package ca-certificates; for a server \
            without TLS, use http:// in {}",
            provider.base_url_variable()
        ),
        FailureRemedy::CheckProxy => {
            "check HTTPS_PROXY and HTTP_PROXY, and list hosts that need no proxy in NO_PROXY"
                .to_owned()
        }
        FailureRemedy::RaiseTimeout => "try again, or allow more time in the configuration".to_owned(),
        FailureRemedy::CheckAddress(provider) => format!(
            "check {} if it is set: the provider's own is `{}`",
            provider.base_url_variable(),
            provider.own_base_url()
        ),
        FailureRemedy::CorrectAddress(provider) => format!(
            "write it as `{}`, in {} or the configuration",
            provider.own_base_url(),
            provider.base_url_variable()
        ),
        FailureRemedy::FollowRedirect(provider) => format!(
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
            FailureRemedy::SetKey(provider),
            FailureRemedy::CheckKey(provider),
            FailureRemedy::CheckPermissions,
            FailureRemedy::CheckBilling,
            FailureRemedy::ChooseModel(provider),
            FailureRemedy::ChooseModelForImages,
            FailureRemedy::ShortenConversation,
            FailureRemedy::WaitFor(Duration::from_millis(500)),
            FailureRemedy::WaitFor(Duration::from_secs(61)),
            FailureRemedy::WaitOrChooseModel,
            FailureRemedy::TryAgain,
            FailureRemedy::CheckNetwork(provider),
            FailureRemedy::CheckRoute(provider),
            FailureRemedy::StartServer(provider),
            FailureRemedy::TrustCertificate(provider),
            FailureRemedy::CheckProxy,
            FailureRemedy::RaiseTimeout,
            FailureRemedy::CheckAddress(provider),
            FailureRemedy::CorrectAddress(provider),
            FailureRemedy::FollowRedirect(provider),
        ];
        insta::assert_snapshot!(remedies.map(sentence).join("\n"));
    }

    #[test]
    fn a_failure_without_a_remedy_has_no_hint() {
        let failure =
            |status| RequestFailure::new(Provider::Google, FailureKind::Refused { status });
        assert_eq!(hint(&failure(400)), None);
        assert!(hint(&failure(308)).is_some_and(|hint| hint.contains("GEMINI_BASE_URL")));
    }
}
