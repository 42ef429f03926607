//! Remedies: the actions that the user can take after a failure. The caller chooses the words,
//! including a program's flags and commands.

use std::time::Duration;

use super::{Failure, FailureKind};
use crate::Provider;

/// An action that the user can take after a [`Failure`].
///
/// A remedy refers to the variables of its provider: [`Provider::key_variable`] and
/// [`Provider::base_url_variable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
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

impl Failure {
    /// Returns what to do next, if there is anything to do.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        let provider = self.provider;
        Some(match &self.kind {
            FailureKind::NoKey { .. } => Remedy::SetKey(provider),
            FailureKind::Key => Remedy::CheckKey(provider),
            FailureKind::Forbidden => Remedy::CheckPermissions,
            FailureKind::Quota => Remedy::CheckBilling,
            FailureKind::UnknownModel { .. } => Remedy::ChooseModel(provider),
            FailureKind::Images { .. } => Remedy::ChooseModelForImages,
            FailureKind::TooLong { .. } => Remedy::ShortenConversation,
            FailureKind::RateLimited | FailureKind::Overloaded => {
                self.retry_after.map_or(Remedy::WaitOrChooseModel, Remedy::WaitFor)
            }
            FailureKind::Server { .. } | FailureKind::Cut => Remedy::TryAgain,
            FailureKind::Network { .. } => Remedy::CheckNetwork(provider),
            FailureKind::NoServer { .. } => Remedy::StartServer(provider),
            FailureKind::Tls { .. } => Remedy::TrustCertificate(provider),
            FailureKind::Proxy { .. } => Remedy::CheckProxy,
            FailureKind::ConnectTimeout(_) => Remedy::CheckRoute(provider),
            FailureKind::SilenceTimeout(_) => Remedy::RaiseTimeout,
            FailureKind::Malformed => Remedy::CheckAddress(provider),
            FailureKind::Address => Remedy::CorrectAddress(provider),
            FailureKind::Refused { status: 300..400 } => Remedy::FollowRedirect(provider),
            FailureKind::Refused { .. } | FailureKind::TooLarge { .. } => return None,
        })
    }
}
