//! TLS to the peers of guests: rustls, against the certificates that this machine trusts.
//!
//! Those of the operating system, not a list of our own: who administers a machine adds
//! the authority of a company there and takes out one that is broken. `SSL_CERT_FILE` and
//! `SSL_CERT_DIR` name others.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// What connections are made with. Reads a few hundred certificates: some milliseconds,
/// and some hundred kilobytes for as long as it is kept.
///
/// # Errors
///
/// There is no certificate that could be trusted.
pub(super) fn config() -> Result<Arc<ClientConfig>, String> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!("a certificate of this machine was left out: {error}");
    }
    trusting(found.certs)
}

/// The same, against these certificates alone.
///
/// # Errors
///
/// None of them is one.
pub(super) fn trusting(
    certificates: Vec<CertificateDer<'static>>,
) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let (good, _) = roots.add_parsable_certificates(certificates);
    if good == 0 {
        return Err("this machine has no certificates to trust a server by; install the package \
                    ca-certificates, or name a file of them in SSL_CERT_FILE"
            .to_owned());
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A session that is taken up again would tie one call to the next.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}
