//! Where clients knock that speak Redis's protocol: a listening socket, and one session for each client.

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::task::{Context, Poll};
use std::time::Duration;

use lockson_embedded::Server;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

use crate::session::serve;

/// After an error of `accept`, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket that clients of any language connect to, to reach the same keys as the test's own clients. It is closed,
/// with all its connections, when this is dropped. [`TestServer::door`](crate::TestServer::door) opens one.
///
/// It speaks RESP2 and RESP3, knows scripts, messages and the commands of the server inside the process, which are
/// those that locks need, and answers others as Redis answers what it does not know. It has no MULTI, no modules, no
/// database but 0, and no passwords: any is good. While the server is stopped it lets clients in and is silent; when
/// the server comes back their connections are closed, as after a real outage.
///
/// Behind a door time has to be real: tokio's paused clock runs ahead whenever all tasks wait, also for a socket.
#[derive(Debug)]
pub struct Door {
    url: String,
    address: Option<SocketAddr>,
    path: Option<PathBuf>,
    listening: AbortHandle,
}

impl Door {
    pub(crate) fn tcp(server: &Server) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let url = format!("redis://{address}");
        let listening = listen(server.clone(), move |context| {
            let accepted = listener.poll_accept(context);
            accepted.map_ok(|(stream, _)| {
                // Without it answers are late, no more.
                drop(stream.set_nodelay(true));
                stream
            })
        });
        Ok(Self { url, address: Some(address), path: None, listening })
    }

    #[cfg(unix)]
    pub(crate) fn unix(server: &Server, path: &std::path::Path) -> io::Result<Self> {
        let bad = || io::Error::new(io::ErrorKind::InvalidInput, "the path of a door is absolute, and UTF-8");
        let text = path.to_str().filter(|_| path.is_absolute()).ok_or_else(bad)?;
        let listener = tokio::net::UnixListener::bind(path)?;
        let listening =
            listen(server.clone(), move |context| listener.poll_accept(context).map_ok(|(stream, _)| stream));
        Ok(Self { url: format!("redis+unix://{text}"), address: None, path: Some(path.to_owned()), listening })
    }

    /// What `Locks::connect` takes: `redis://127.0.0.1:..`, or `redis+unix:///..`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where a TCP door is.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.listening.abort();
        if let Some(path) = &self.path {
            // Whoever removed it before had a reason.
            drop(std::fs::remove_file(path));
        }
    }
}

/// Lets clients in until it is aborted, and all of them out then.
fn listen<S>(
    server: Server,
    accept: impl Fn(&mut Context<'_>) -> Poll<io::Result<S>> + Send + Sync + 'static,
) -> AbortHandle
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let work = async move {
        let (mut sessions, mut number) = (JoinSet::new(), 0);
        loop {
            tokio::select! {
                accepted = poll_fn(&accept) => match accepted {
                    Ok(stream) => {
                        number += 1;
                        sessions.spawn(serve(stream, server.clone(), number));
                    }
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                Some(_) = sessions.join_next() => {}
            }
        }
    };
    tokio::spawn(work).abort_handle()
}
