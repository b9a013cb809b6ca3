//! Whom a connection by TLS trusts.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use crate::base::fault::ConnectError;

/// These root certificates, or else the system's. With ring by name: rustls' own way panics where two providers are in
/// one build.
pub(super) fn config(ca_pem: Option<&[u8]>) -> Result<ClientConfig, ConnectError> {
    let mut roots = RootCertStore::empty();
    let wrong = |error: &dyn std::fmt::Display| ConnectError::Tls(error.to_string());
    match ca_pem {
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
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
