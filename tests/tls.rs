//! TLS: what is trusted, what is refused, and that nothing is ever sent in clear.

use std::sync::Mutex;

use support::prelude::*;
use support::Certs;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Passes bytes on to a port and keeps what each client sent.
struct Tap {
    port: u16,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Tap {
    async fn start(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tap = Self { port: listener.local_addr().unwrap().port(), sent: Arc::default() };
        let sent = tap.sent.clone();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(Self::carry(client, target, sent.clone()));
            }
        });
        tap
    }

    async fn carry(client: TcpStream, target: u16, sent: Arc<Mutex<Vec<Vec<u8>>>>) {
        let at = {
            let mut sent = sent.lock().unwrap();
            sent.push(Vec::new());
            sent.len() - 1
        };
        let server = TcpStream::connect(("127.0.0.1", target)).await.unwrap();
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let requests = async {
            let mut chunk = [0; 4096];
            while let Ok(len @ 1..) = from_client.read(&mut chunk).await {
                sent.lock().unwrap()[at].extend(&chunk[..len]);
                if to_server.write_all(&chunk[..len]).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = requests => {}
            _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
        }
    }

    /// How many connections sent something; each must have sent TLS records and nothing else.
    fn talks(&self) -> usize {
        let sent = self.sent.lock().unwrap();
        for bytes in sent.iter() {
            let mut rest = &bytes[..];
            while let [kind, 3, _, high, low, tail @ ..] = rest {
                assert!((20..=23).contains(kind), "not a TLS record: {kind}");
                rest = tail.get(usize::from(*high) * 256 + usize::from(*low)..).unwrap_or_default();
            }
            assert!(rest.is_empty(), "not TLS: {:?}", String::from_utf8_lossy(rest));
            assert!(!String::from_utf8_lossy(bytes).contains("hunter2"));
        }
        sent.iter().filter(|bytes| !bytes.is_empty()).count()
    }
}

fn trusting(certs: &Certs) -> Builder {
    Locks::builder().ca_pem(std::fs::read(&certs.ca).unwrap()).password("hunter2")
}

/// A certificate of a trusted authority for the host: the lock works, by name and by address, waiters are woken.
#[tokio::test]
async fn a_good_certificate_works() {
    let certs = Certs::make();
    let server = Server::tls(&certs.good);
    server.control(&["ACL", "SETUSER", "app", "on", ">hunter2", "~*", "&*", "+@all"]);
    let tap = Tap::start(server.tls_port()).await;
    for url in [format!("rediss://localhost:{}", tap.port), format!("valkeys://127.0.0.1:{}/0", tap.port)] {
        let builder = || trusting(&certs).username("app").wait_cap(secs(60));
        let (a, b) = (builder().connect(&url).await.unwrap(), builder().connect(&url).await.unwrap());
        let guard = a.lock("safe").acquire().lease(secs(60)).guard().await.unwrap().unwrap();
        let waiter = tokio::spawn(async move {
            let guard = b.lock("safe").guard().await.unwrap();
            guard.unlock().await.unwrap();
        });
        let mut raw = server.raw().await;
        let listens = async || server.raw().await.subscribers("redisson_lock__channel:{safe}").await == 1;
        eventually(secs(5), "the waiter listens", listens).await;
        guard.unlock().await.unwrap();
        patient("the lock", waiter).await.unwrap();
        assert!(!raw.exists("safe").await);
        let gone = async || server.raw().await.subscribers("redisson_lock__channel:{safe}").await == 0;
        eventually(secs(10), "the clients are gone", gone).await;
    }
    assert!(tap.talks() >= 8);
}

/// Another host's certificate, one that is over, an unknown authority: each is refused by name, no byte is in clear.
#[tokio::test]
async fn bad_certificates_are_refused() {
    let certs = Certs::make();
    // As fred prints the error, and as rustls does.
    let fred = ["notvalidforname", "expired", "invalidcertificate"].map(|reason| (reason, false));
    let lean = ["certificate not valid for name", "certificate expired", "invalid peer certificate"];
    let pairs = [&certs.wrong_host, &certs.expired, &certs.stranger].into_iter().cycle();
    for (pair, (reason, is_lean)) in pairs.zip(fred.into_iter().chain(lean.map(|reason| (reason, true)))) {
        let server = Server::tls(pair);
        let tap = Tap::start(server.tls_port()).await;
        let builder = trusting(&certs).lean_connections(is_lean);
        let refused = patient("an error", builder.connect(&format!("rediss://localhost:{}", tap.port))).await;
        let says = |error: &ConnectError| error.to_string().to_lowercase().contains(reason);
        assert_matches!(refused, Err(error @ (ConnectError::Tls(_) | ConnectError::Unreachable(_))) if says(&error));
        assert!(tap.talks() > 0);
        assert_eq!(server.calls("hello") + server.calls("auth") + server.calls("evalsha"), 0);
    }
}

/// An authority that is not PEM, or empty, is refused before any connection.
#[tokio::test]
async fn a_bad_authority_is_refused() {
    let tap = Tap::start(1).await;
    for pem in ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let refused = Locks::builder().ca_pem(pem).connect(&format!("rediss://localhost:{}", tap.port)).await;
        assert!(matches!(refused, Err(ConnectError::Tls(_))), "{refused:?}");
    }
    assert!(tap.sent.lock().unwrap().is_empty());
}

/// `rediss://` at a server that speaks no TLS is an error, never a plain connection; so is `redis://` at one that does.
#[tokio::test]
async fn the_scheme_is_kept_to() {
    let certs = Certs::make();
    let server = Server::tls(&certs.good);
    let tap = Tap::start(server.port()).await;
    let refused = patient("an error", trusting(&certs).connect(&format!("rediss://localhost:{}", tap.port))).await;
    assert!(matches!(refused, Err(ConnectError::Tls(_) | ConnectError::Unreachable(_))), "{refused:?}");
    assert!(tap.talks() > 0);
    let plain = patient("an error", Locks::connect(&format!("redis://localhost:{}", server.tls_port()))).await;
    assert!(matches!(plain, Err(ConnectError::Unreachable(_))), "{plain:?}");
}
