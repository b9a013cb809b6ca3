//! Throw-away certificates for servers that speak TLS.

use super::Server;
use rcgen::{date_time_ymd, BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The PEM files of a certificate and of its key.
#[derive(Debug, Clone)]
pub struct Pair {
    pub cert: PathBuf,
    pub key: PathBuf,
    /// The authority that signed it.
    pub ca: PathBuf,
}

/// An authority nobody trusts yet, and certificates it signed; the files are gone with the value.
pub struct Certs {
    dir: TempDir,
    /// The certificate of the authority.
    pub ca: PathBuf,
    /// Right for `localhost` and 127.0.0.1.
    pub good: Pair,
    /// For `elsewhere.example` only.
    pub wrong_host: Pair,
    /// For `localhost` and 127.0.0.1, and over since 2021.
    pub expired: Pair,
    /// Right for the host, but signed by another authority of the same name.
    pub stranger: Pair,
}

impl Certs {
    pub fn make() -> Certs {
        let dir = TempDir::with_prefix("lockson-certs-").unwrap();
        let here = ["localhost", "127.0.0.1"];
        let (ca, issuer) = authority(dir.path(), "ca");
        let (other, other_issuer) = authority(dir.path(), "other-ca");
        let make = |name: &str, hosts: &[&str], end: i32| sign(dir.path(), name, &params(hosts, end), &issuer, &ca);
        Certs {
            good: make("good", &here, 2100),
            wrong_host: make("wrong-host", &["elsewhere.example"], 2100),
            expired: make("expired", &here, 2021),
            stranger: sign(dir.path(), "stranger", &params(&here, 2100), &other_issuer, &other),
            ca,
            dir,
        }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Server {
    /// A server that also speaks TLS, at [`Server::tls_port`], with this certificate; it asks clients for none.
    pub fn tls(pair: &Pair) -> Server {
        Server::with(&[&pair.settings()[..], &[("tls-auth-clients", "no")]].concat())
    }
}

impl Pair {
    /// Of a server that speaks TLS by it, and asks clients for certificates; so do servers among themselves.
    pub fn settings(&self) -> [(&str, &str); 6] {
        fn path(path: &Path) -> &str {
            path.to_str().unwrap()
        }
        [
            ("tls-port", "auto"),
            ("tls-cert-file", path(&self.cert)),
            ("tls-key-file", path(&self.key)),
            ("tls-ca-cert-file", path(&self.ca)),
            ("tls-replication", "yes"),
            ("tls-cluster", "yes"),
        ]
    }
}

fn authority(dir: &Path, name: &str) -> (PathBuf, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "lockson test authority");
    let key = KeyPair::generate().unwrap();
    let path = dir.join(format!("{name}.pem"));
    std::fs::write(&path, params.self_signed(&key).unwrap().pem()).unwrap();
    (path, Issuer::new(params, key))
}

/// What a certificate for these hosts says, valid until the year `end`.
fn params(hosts: &[&str], end: i32) -> CertificateParams {
    let names: Vec<String> = hosts.iter().map(|host| host.to_string()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, "lockson test server");
    params.not_after = date_time_ymd(end, 1, 1);
    params
}

fn sign(dir: &Path, name: &str, params: &CertificateParams, issuer: &Issuer<'static, KeyPair>, ca: &Path) -> Pair {
    let key = KeyPair::generate().unwrap();
    let cert = params.signed_by(&key, issuer).unwrap();
    let pair =
        Pair { cert: dir.join(format!("{name}.pem")), key: dir.join(format!("{name}-key.pem")), ca: ca.to_path_buf() };
    std::fs::write(&pair.cert, cert.pem()).unwrap();
    std::fs::write(&pair.key, key.serialize_pem()).unwrap();
    pair
}
