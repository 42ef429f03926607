//! TLS to the peers of guests: rustls, with the certificates that this machine trusts.
//!
//! These are the operating system's, not a list in the program: administrators add a company's
//! authority there and remove a broken one. `SSL_CERT_FILE` and `SSL_CERT_DIR` name others.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// Returns the configuration of connections, with the machine's certificates. It reads a few
/// hundred certificates, which takes some milliseconds, and some hundred kilobytes for as long as
/// the configuration is kept.
///
/// # Errors
///
/// Fails if the machine has no certificate.
pub(in crate::exec) fn config() -> Result<Arc<ClientConfig>, String> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!("a certificate of this machine was left out: {error}");
    }
    trusting(found.certs)
}

/// Returns the configuration of connections, with only these certificates.
///
/// # Errors
///
/// Fails if none of the certificates can be parsed.
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
    // A session that is resumed would link one call to the next.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}
