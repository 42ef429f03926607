//! Remedies: the actions that the user can take after a failure. The caller chooses the words,
//! including a program's flags and commands.

use std::time::Duration;

use super::{FailureKind, RequestFailure};
use crate::Provider;

/// An action that the user can take after a [`RequestFailure`].
///
/// A remedy refers to the variables of its provider: [`Provider::key_variable`] and
/// [`Provider::base_url_variable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureRemedy {
    /// Set the key, or the address of a server that needs none.
    SetKey(Provider),
    /// Check that the key belongs to this provider and is still valid.
    CheckKey(Provider),
    /// Check what the account may use, or choose another model.
    CheckPermissions,
    /// Check the plan and the billing of the account; waiting does not help.
    CheckBilling,
    /// Choose another model, or check the address if it is set.
    ChooseModel(Provider),
    /// Choose a model that takes images, or ask without them.
    ChooseModelForImages,
    /// Shorten the conversation, or choose a model with a larger window.
    ShortenConversation,
    /// Wait as long as the server asks, then try again.
    WaitFor(Duration),
    /// Wait for as long as it takes, or choose another model.
    WaitOrChooseModel,
    /// Try again.
    TryAgain,
    /// Check the network, and the address if it is set.
    CheckNetwork(Provider),
    /// Check the network, whether it needs a proxy, and the address if it is set.
    CheckRoute(Provider),
    /// Start the server, or correct the host and port of the address.
    StartServer(Provider),
    /// Make the server's certificate trusted, or use an address without TLS.
    TrustCertificate(Provider),
    /// Check the variables that name a proxy.
    CheckProxy,
    /// Try again, or allow more time without data.
    RaiseTimeout,
    /// Check the address if it is set: what answers there is not this provider.
    CheckAddress(Provider),
    /// Write the address like [`Provider::own_base_url`].
    CorrectAddress(Provider),
    /// Set the address to the place that the server redirects to, if that place is trusted.
    FollowRedirect(Provider),
}

impl RequestFailure {
    /// Returns what to do next, if there is anything to do.
    #[must_use]
    pub fn remedy(&self) -> Option<FailureRemedy> {
        let provider = self.provider;
        Some(match &self.kind {
            FailureKind::NoKey { .. } => FailureRemedy::SetKey(provider),
            FailureKind::Key => FailureRemedy::CheckKey(provider),
            FailureKind::Forbidden => FailureRemedy::CheckPermissions,
            FailureKind::Quota => FailureRemedy::CheckBilling,
            FailureKind::UnknownModel { .. } => FailureRemedy::ChooseModel(provider),
            FailureKind::Images { .. } => FailureRemedy::ChooseModelForImages,
            FailureKind::TooLong { .. } => FailureRemedy::ShortenConversation,
            FailureKind::RateLimited | FailureKind::Overloaded => {
                self.retry_after.map_or(FailureRemedy::WaitOrChooseModel, FailureRemedy::WaitFor)
            }
            FailureKind::Server { .. } | FailureKind::Cut => FailureRemedy::TryAgain,
            FailureKind::Network { .. } => FailureRemedy::CheckNetwork(provider),
            FailureKind::NoServer { .. } => FailureRemedy::StartServer(provider),
            FailureKind::Tls { .. } => FailureRemedy::TrustCertificate(provider),
            FailureKind::Proxy { .. } => FailureRemedy::CheckProxy,
            FailureKind::ConnectTimeout(_) => FailureRemedy::CheckRoute(provider),
            FailureKind::SilenceTimeout(_) => FailureRemedy::RaiseTimeout,
            FailureKind::Malformed => FailureRemedy::CheckAddress(provider),
            FailureKind::Address => FailureRemedy::CorrectAddress(provider),
            FailureKind::Refused { status: 300..400 } => FailureRemedy::FollowRedirect(provider),
            FailureKind::Refused { .. } | FailureKind::TooLarge { .. } => return None,
        })
    }
}
