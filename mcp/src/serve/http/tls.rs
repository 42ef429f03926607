//! TLS of a server: its certificate and its key.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The certificate and the key of a server.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

/// The reason why a certificate and a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificates are not PEM.
    #[error("the certificate is not PEM: {0}")]
    Certificate(pem::Error),
    /// The file does not contain a certificate.
    #[error("the certificate file has no certificate")]
    NoCertificate,
    /// The key is not PEM, or is missing.
    #[error("the key is not PEM: {0}")]
    Key(pem::Error),
    /// The certificate and the key do not match, or have an unsupported type.
    #[error("the certificate and the key cannot be used together: {0}")]
    Unusable(rustls::Error),
}

impl Tls {
    /// Reads a certificate chain, with the server's own certificate first, and its key, both as
    /// PEM.
    ///
    /// # Errors
    ///
    /// Fails if they cannot be used.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(TlsError::Certificate)?;
        if certificates.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unusable)?
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .map_err(TlsError::Unusable)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.0).into()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}
