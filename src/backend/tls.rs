//! Whom a connection by TLS trusts, and what it shows of itself.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::base::fault::ConnectError;

/// What the builder has for it, as PEM.
#[derive(Clone, Default)]
pub(crate) struct Pem {
    /// Root certificates in place of the system's.
    pub(crate) ca: Option<Vec<u8>>,
    /// The client's certificates, its own first, and its key.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

/// With ring by name: rustls' own way panics where two providers are in one build.
pub(super) fn config(pem: &Pem) -> Result<ClientConfig, ConnectError> {
    let mut roots = RootCertStore::empty();
    let wrong = |error: &dyn std::fmt::Display| ConnectError::Tls(error.to_string());
    match &pem.ca {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                roots.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
            }
        }
        None => {
            let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(ConnectError::Tls("no root certificate was found: give one by `ca_pem`".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?
        .with_root_certificates(roots);
    let Some((certificates, key)) = &pem.client else { return Ok(config.with_no_client_auth()) };
    let wrong = |error: &dyn std::fmt::Display| ConnectError::Tls(format!("`client_pem`: {error}"));
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
    let certificates = certificates.map_err(|error| wrong(&error))?;
    if certificates.is_empty() {
        return Err(wrong(&"no certificate was found"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| wrong(&error))?;
    config.with_client_auth_cert(certificates, key).map_err(|error| wrong(&error))
}
