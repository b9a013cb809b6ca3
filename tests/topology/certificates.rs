//! Servers that ask clients for certificates, of a private authority, in each topology.

use support::prelude::*;
use support::server::program;
use support::{Certs, Cluster, Pair, Sentinels};

fn showing(certs: &Certs, pair: &Pair) -> Builder {
    let read = |file| std::fs::read(file).unwrap();
    Locks::builder().ca_pem(read(&certs.ca)).client_pem(read(&pair.cert), read(&pair.key))
}

/// A good certificate works, for calls and for messages; another one, or none, is an error that says so.
async fn certificates_are_asked_for(certs: &Certs, url: &str) {
    let client = || async { showing(certs, &certs.good).wait_cap(secs(60)).connect(url).await.unwrap() };
    let (locks, other) = (client().await, client().await);
    let name = unique("certified");
    let guard = locks.lock(&name).guard().await.unwrap();
    let waiter = spawn_with((other.clone(), name), async move |(other, name)| {
        other.lock(&name).guard().await.unwrap().unlock().await.unwrap();
    });
    eventually(secs(20), "the waiter listens", async || other.health().subscriptions > 0).await;
    guard.unlock().await.unwrap();
    patient("the waiter", waiter).await.unwrap();
    let none = Locks::builder().ca_pem(std::fs::read(&certs.ca).unwrap());
    for (refused, words) in [
        (showing(certs, &certs.stranger), "DecryptError"),
        (showing(certs, &certs.expired), "CertificateExpired"),
        (none, "CertificateRequired"),
    ] {
        let refused = patient("an error", refused.connect(url)).await;
        assert_matches!(refused, Err(ConnectError::ClientCertificate(why)) if why.contains(words), (url, words));
    }
    for locks in [locks, other] {
        locks.shutdown(secs(5)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_asks_for_certificates() {
    let certs = Certs::make();
    let server = Server::with(&certs.good.settings());
    certificates_are_asked_for(&certs, &format!("rediss://127.0.0.1:{}", server.tls_port())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_their_servers_ask_for_certificates() {
    let certs = Certs::make();
    let all = Sentinels::of(&program(), secs(5), &certs.good.settings());
    let [one, other] = [0, 1].map(|sentinel| all.sentinels[sentinel].tls_port());
    certificates_are_asked_for(&certs, &format!("rediss-sentinel://localhost:{one},127.0.0.1:{other}/mymaster")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_asks_for_certificates() {
    let certs = Certs::make();
    let cluster = Cluster::of(&program(), 0, ms(2_000), &certs.good.settings());
    let url = format!("rediss-cluster://127.0.0.1:{}", cluster.nodes[0].tls_port());
    certificates_are_asked_for(&certs, &url).await;
}

/// Before any connection is made.
#[tokio::test]
async fn what_is_no_certificate_is_refused() {
    let certs = Certs::make();
    let read = |file| std::fs::read(file).unwrap();
    let (cert, key, other) = (read(&certs.good.cert), read(&certs.good.key), read(&certs.expired.key));
    for (cert, key) in [(b"".to_vec(), key.clone()), (cert.clone(), b"no key".to_vec()), (cert, other)] {
        let builder = Locks::builder().ca_pem(read(&certs.ca)).client_pem(cert, key);
        let shown = format!("{builder:?}");
        assert!(!shown.contains("PRIVATE KEY") && !shown.contains("client_pem"), "{shown}");
        let refused = builder.connect("rediss://127.0.0.1:1").await;
        assert_matches!(refused, Err(ConnectError::Tls(why)) if why.contains("client_pem"));
    }
}
