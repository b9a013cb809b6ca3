//! An HTTP service that takes a lock for each request, and gives it back on every way out: an answer, an error, a
//! panic, a client that goes away. It starts on a free port, sends itself such requests, and ends.
//!
//! ```sh
//! cargo run -p services --bin http
//! cargo run -p services --bin http -- --url redis://127.0.0.1:6379   # serves, as one of many processes
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::{from_fn, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::Router;
use lockson::{LockError, Locks, Lost, Owner};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// For so long nobody can pay an order whose process has died. The default is 30 s.
const LEASE: Duration = Duration::from_secs(3);

#[derive(Clone)]
struct Shop {
    locks: Locks,
    /// Rung when a charge begins that takes long.
    slow: Arc<Notify>,
}

/// Every way in which a payment fails, as the client sees it.
#[derive(Debug)]
enum Failure {
    /// Another request has the order.
    Busy,
    Declined,
    /// The lock's server is away, or the hold was lost in the middle.
    Unavailable(String),
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Self {
        Self::Unavailable(lost.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Self::Busy => (StatusCode::CONFLICT, "another request has this order".to_owned()),
            Self::Declined => (StatusCode::PAYMENT_REQUIRED, "the card was declined".to_owned()),
            Self::Unavailable(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
        }
        .into_response()
    }
}

/// The recipe: each request is an owner. A server may run many requests of one connection in one task; by default they
/// would be one owner, who enters its own locks again.
async fn own_each_request(request: Request, next: Next) -> Response {
    Owner::unique().scope(next.run(request)).await
}

async fn pay(State(shop): State<Shop>, Path((order, card)): Path<(u64, String)>) -> Result<&'static str, Failure> {
    let lock = shop.locks.lock(&format!("order:{order}"));
    // A limit below that of the client, so that it gets an answer.
    let guard = lock.acquire().wait(Duration::from_secs(1)).guard().await?.ok_or(Failure::Busy)?;
    // From here on there is no way out that keeps the lock: the guard gives it back when it is dropped, by a `?`, by a
    // panic, or with this future when the client went away.
    guard.run(charge(&shop, &card)).await??;
    // Given back before the client is told, who waits no longer for that than this, however long the lock's server is
    // away. It is paid, whatever becomes of the release: what is on its way goes on, and the lease ends by itself.
    if let Err(error) = guard.unlock_within(Duration::from_millis(500)).await {
        eprintln!("{error}");
    }
    Ok("paid")
}

async fn charge(shop: &Shop, card: &str) -> Result<(), Failure> {
    match card {
        "good" => Ok(()),
        "declined" => Err(Failure::Declined),
        "slow" => {
            shop.slow.notify_one();
            std::future::pending().await
        }
        _ => panic!("no such card"),
    }
}

async fn who_am_i() -> String {
    Owner::current().to_string()
}

fn service(shop: Shop) -> Router {
    Router::new()
        .route("/orders/{order}/pay/{card}", post(pay))
        .route("/owner", get(who_am_i))
        .layer(from_fn(own_each_request))
        .with_state(shop)
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => show().await,
        ["--url", url] => serve(url).await,
        _ => Err("the arguments are: nothing, or --url redis://host:port".into()),
    }
}

/// Serves until it is ended.
async fn serve(url: &str) -> Result<()> {
    let locks = Locks::builder().watchdog_lease(LEASE).connect(url).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    axum::serve(listener, service(Shop { locks, slow: Arc::default() })).await?;
    Ok(())
}

async fn show() -> Result<()> {
    // One line in place of the report of a panic that is meant to be.
    std::panic::set_hook(Box::new(|panic| eprintln!("(a handler panicked: {panic})")));
    let shop = Shop { locks: Locks::embedded(), slow: Arc::new(Notify::new()) };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let served = axum::serve(listener, service(shop.clone())).with_graceful_shutdown(async {
        let _ = stopped.await;
    });
    let server = tokio::spawn(async move { served.await });

    visit(address, &shop).await?;

    // First the requests end, then the client: it gives back what is left, and says if it could not.
    let _ = stop.send(());
    server.await??;
    shop.locks.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

/// The requests, and what they must do.
async fn visit(address: SocketAddr, shop: &Shop) -> Result<()> {
    expect("an answer", pay_by(address, "good").await?, 200);
    is_given_back("an answer", shop).await?;

    expect("an error", pay_by(address, "declined").await?, 402);
    is_given_back("an error", shop).await?;

    // A panic ends the connection without an answer.
    assert_eq!(pay_by(address, "unknown").await?, None);
    is_given_back("a panic", shop).await?;

    // A client that goes away. Until it does, others are told that the order is busy.
    let mut client = TcpStream::connect(address).await?;
    client.write_all(head("POST", "/orders/42/pay/slow", true).as_bytes()).await?;
    shop.slow.notified().await;
    expect("while a request has it", pay_by(address, "good").await?, 409);
    drop(client);
    is_given_back("a client that went away", shop).await?;

    // Two requests of one connection are two owners.
    let both = head("GET", "/owner", false) + &head("GET", "/owner", true);
    let answers = talk(address, &both).await?;
    let owners: Vec<&str> = answers.lines().filter_map(|line| line.split("unique-").nth(1)).collect();
    assert!(matches!(owners[..], [one, other] if one != other), "{answers}");
    println!("two requests of one connection: two owners");
    Ok(())
}

fn expect(what: &str, status: Option<u16>, expected: u16) {
    println!("{what}: {status:?}");
    assert_eq!(status, Some(expected));
}

/// The lease is 30 s and renewed: whoever gets the lock sooner, gets it because it was given back.
async fn is_given_back(after: &str, shop: &Shop) -> Result<()> {
    let lock = shop.locks.lock("order:42").owned_by(&Owner::unique());
    let guard = lock.acquire().wait(Duration::from_secs(20)).guard().await?;
    guard.ok_or_else(|| format!("still held after {after}"))?.unlock().await?;
    println!("  given back after {after}");
    Ok(())
}

fn head(method: &str, path: &str, last: bool) -> String {
    let connection = if last { "close" } else { "keep-alive" };
    format!("{method} {path} HTTP/1.1\r\nhost: shop\r\ncontent-length: 0\r\nconnection: {connection}\r\n\r\n")
}

/// The status of a payment; `None` when the connection ended without one.
async fn pay_by(address: SocketAddr, card: &str) -> Result<Option<u16>> {
    let answer = talk(address, &head("POST", &format!("/orders/42/pay/{card}"), true)).await?;
    Ok(answer.split(' ').nth(1).and_then(|status| status.parse().ok()))
}

async fn talk(address: SocketAddr, requests: &str) -> Result<String> {
    let mut client = TcpStream::connect(address).await?;
    client.write_all(requests.as_bytes()).await?;
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).await?;
    Ok(String::from_utf8(answers)?)
}

#[cfg(test)]
mod tests {
    use lockson_testkit::TestServer;

    use super::*;

    /// As the router calls it: each request is an owner.
    async fn paid_by(shop: &Shop, card: &str) -> Result<&'static str, Failure> {
        Owner::unique().scope(pay(State(shop.clone()), Path((42, card.to_owned())))).await
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_is_for_one_request_at_a_time_on_a_bad_day_too() {
        let server = TestServer::new();
        let shop = Shop { locks: server.connect(), slow: Arc::default() };
        let slow = tokio::spawn({
            let shop = shop.clone();
            async move { paid_by(&shop, "slow").await }
        });
        shop.slow.notified().await;
        assert!(matches!(paid_by(&shop, "good").await, Err(Failure::Busy)));
        assert!(server.lose("order:42"));
        assert!(matches!(slow.await.unwrap(), Err(Failure::Unavailable(_))), "it is stopped");
        assert!(matches!(paid_by(&shop, "good").await, Ok("paid")));
        drop(server.outage(Duration::from_secs(60)));
        assert!(matches!(paid_by(&shop, "good").await, Err(Failure::Unavailable(_))));
    }
}
