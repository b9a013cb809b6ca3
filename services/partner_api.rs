//! A partner's API takes ten calls at once, over all of our processes: an expirable semaphore keeps to that, and the
//! permits of a process that dies come back.
//!
//! A server that restarts without its data has forgotten which permits are taken: whoever sets the limit anew lets as
//! many in again, while the first calls are open. So up to twice the limit may be inside, until the holders are told,
//! as soon as they are connected again, and at the latest until the first leases end. A partner who must never see
//! that needs a server with replicas and `Builder::confirm`, or half the limit.
//!
//! ```sh
//! cargo run -p services --bin partner_api
//! cargo run -p services --bin partner_api -- --url redis://127.0.0.1:6379
//! cargo run -p services --bin partner_api -- --url redis://127.0.0.1:6379 --partner 127.0.0.1:80 --calls 100
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use lockson::{EmbeddedServer, Latch, Locks, PermitSemaphore, WaitOutcome};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const LIMIT: u32 = 10;
const CALLS: u32 = 300;
/// For so long the permits of a process that died are nobody's. The default is 30 s.
const LEASE: Duration = Duration::from_secs(3);

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// The partner, who counts how many calls come at once.
#[derive(Default)]
struct Partner {
    /// Of a real one: a call is a connection.
    address: Option<SocketAddr>,
    open: AtomicUsize,
    most: AtomicUsize,
}

impl Partner {
    async fn call(&self) -> Result<()> {
        if let Some(address) = self.address {
            TcpStream::connect(address).await?.read_to_end(&mut Vec::new()).await?;
            return Ok(());
        }
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(open, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.open.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

/// One call within the limit. The permit is renewed while the call takes, and given back when the guard is dropped.
async fn call(partner: Arc<Partner>, permits: PermitSemaphore, done: Latch) -> Result<()> {
    let Some(permit) = permits.acquire(1).wait(Duration::from_secs(30)).guard().await? else {
        return Err("the partner is busy for too long".into());
    };
    // Stopped if the permit is lost: somebody else may call in our place then.
    permit.run(partner.call()).await??;
    // The call counts, whatever becomes of the release.
    if let Err(error) = permit.release_within(Duration::from_secs(1)).await {
        eprintln!("{error}");
    }
    done.count_down().await?;
    Ok(())
}

/// A call that is made again until it went through, whatever becomes of servers.
async fn insist(locks: Locks, partner: Arc<Partner>) {
    let (permits, done) = (locks.permit_semaphore("partner:calls"), locks.latch("partner:batch"));
    while let Err(error) = call(partner.clone(), permits.clone(), done.clone()).await {
        eprintln!("once more: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A server that lost its data has no limit any more, and gives out nothing: whoever comes first sets it anew.
async fn keep_limit(locks: Locks) {
    loop {
        if let Err(error) = locks.permit_semaphore("partner:calls").try_set_permits(LIMIT).await {
            eprintln!("no limit can be set: {error}");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// One of many processes.
async fn make_calls(url: &str, address: SocketAddr, calls: u32) -> Result<()> {
    let locks = Locks::builder().watchdog_lease(LEASE).connect(url).await?;
    locks.permit_semaphore("partner:calls").try_set_permits(LIMIT).await?;
    println!("{LIMIT} calls at once");
    let limit = tokio::spawn(keep_limit(locks.clone()));
    let partner = Arc::new(Partner { address: Some(address), ..Partner::default() });
    let mut tasks = JoinSet::new();
    for _ in 0..calls {
        tasks.spawn(insist(locks.clone(), partner.clone()));
    }
    tasks.join_all().await;
    limit.abort();
    println!("{calls} calls");
    Ok(locks.shutdown(Duration::from_secs(5)).await?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // Three clients stand for three processes.
    let mut clients = Vec::new();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--url", url, "--partner", address, "--calls", calls] => {
            return make_calls(url, address.parse()?, calls.parse()?).await;
        }
        ["--url", url] => {
            for _ in 0..3 {
                clients.push(Locks::connect(url).await?);
            }
        }
        [] => {
            let server = EmbeddedServer::new();
            clients.extend((0..3).map(|_| server.connect()));
        }
        _ => return Err("arguments: none, or --url and a server's, or besides --partner and --calls".into()),
    }

    // Whoever comes first sets the limit.
    for client in &clients {
        if client.permit_semaphore("partner:calls").try_set_permits(LIMIT).await? {
            println!("{LIMIT} calls at once");
        }
    }
    // A process takes five permits for a moment and is never heard of again: that only costs time.
    let crashed = clients[0].permit_semaphore("partner:calls").acquire(5).ids(Duration::from_millis(100)).await?;
    println!("{} permits are with a process that crashed", crashed.map_or(0, |ids| ids.len()));

    clients[0].latch("partner:batch").try_set_count(CALLS).await?;
    let partner = Arc::new(Partner::default());
    for number in 0..CALLS {
        let client = &clients[number as usize % clients.len()];
        let (permits, done) = (client.permit_semaphore("partner:calls"), client.latch("partner:batch"));
        tokio::spawn(call(partner.clone(), permits, done));
    }
    let waited = clients[1].latch("partner:batch").wait_for(Duration::from_secs(60)).await?;
    let most = partner.most.load(Ordering::SeqCst);
    println!("{CALLS} calls: {waited:?}, at most {most} at once");
    assert!(waited == WaitOutcome::Opened && most <= LIMIT as usize);

    // The permits of the crashed process come back when their lease ends.
    let all = clients[2].permit_semaphore("partner:calls").guard(LIMIT).await?;
    println!("{} permits are free again", all.count());
    all.release().await?;
    for client in clients {
        client.shutdown(Duration::from_secs(5)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lockson_testkit::TestServer;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_limit_holds_and_comes_back_from_the_dead() {
        let server = TestServer::new();
        let (permits, done) = (server.connect().permit_semaphore("calls"), server.connect().latch("done"));
        permits.try_set_permits(LIMIT).await.unwrap();
        done.try_set_count(CALLS).await.unwrap();
        // A process that takes all and dies: the others wait for as long as its lease.
        permits.acquire(LIMIT).ids(Duration::from_secs(20)).await.unwrap().unwrap();
        let partner = Arc::new(Partner::default());
        for _ in 0..CALLS {
            let own = server.connect();
            tokio::spawn(call(partner.clone(), own.permit_semaphore("calls"), own.latch("done")));
        }
        assert_eq!(done.wait_for(Duration::from_secs(25)).await.unwrap(), WaitOutcome::Opened);
        assert_eq!(partner.most.load(Ordering::SeqCst), LIMIT as usize);
        // And where its lease is longer than a caller's patience, the caller is told.
        permits.acquire(LIMIT).ids(Duration::from_secs(60)).await.unwrap().unwrap();
        assert!(call(partner, permits, done).await.is_err());
    }
}
