//! What a whole process says: nothing at a clean end, and one line for each event of an outage.

use support::prelude::*;
use support::process::alone;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_end_is_quiet() {
    if !alone("quiet::a_clean_end_is_quiet") {
        return;
    }
    let logs = Logs::install();
    logs.clear();
    for round in 0..20 {
        let locks = Server::shared().locks().await;
        let guard = locks.lock(&unique("quiet")).guard().await.unwrap();
        match round % 2 {
            0 => guard.unlock().await.unwrap(),
            _ => drop(guard),
        }
        if round % 4 < 2 {
            locks.shutdown(secs(5)).await.unwrap();
            assert!(matches!(locks.lock("after").lock().await, Err(LockError::Query(QueryError::Closed))));
        }
    }
    let clients = async || {
        let list = Server::shared().raw().await.must(&["CLIENT", "LIST"]).await.text();
        list.lines().filter(|client| !client.contains("cmd=client|list")).count()
    };
    eventually(secs(20), "all connections are closed", async || clients().await == 0).await;
    sleep(ms(200)).await;
    // Each client says once where it is, and nothing else.
    let (connected, others): (Vec<_>, Vec<_>) =
        logs.lines().into_iter().partition(|line| line.starts_with("INFO lockson: connected "));
    assert_eq!((connected.len(), others), (20, Vec::new()));
}

/// Its beginning and its end, once each, for a client without a lock, a waiter or a hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_an_idle_client_is_told() {
    if !alone("quiet::an_outage_of_an_idle_client_is_told") {
        return;
    }
    let logs = Logs::install();
    let server = Server::start();
    let locks = Locks::builder().command_timeout(ms(300)).connect(&server.url()).await.unwrap();
    logs.clear();
    server.freeze();
    let begun = patient("the gap", logs.wait_for("gap: messages may be missing")).await;
    assert!(begun.starts_with("WARN"), "{begun}");
    sleep(secs(2)).await;
    server.thaw();
    let ended = patient("its end", logs.wait_for("gap ended")).await;
    assert!(ended.starts_with("INFO") && ended.contains("after="), "{ended}");
    sleep(secs(1)).await;
    let said = |fragment: &str| {
        logs.lines().iter().filter(|line| line.contains("lockson:") && line.contains(fragment)).count()
    };
    assert_eq!(said("gap"), said("gap ended") * 2, "{:?}", logs.lines());
    drop(locks);
}

/// A subscription that fails is tried again after a pause. (Paused time stands still while anything runs: the thread.)
#[test]
fn a_failed_subscription_is_slept_on() {
    if !alone("quiet::a_failed_subscription_is_slept_on") {
        return;
    }
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let server = EmbeddedServer::new();
            let builder = Locks::builder().command_timeout(ms(400));
            let (locks, other) = (server.connect_with(builder).unwrap(), server.connect());
            let _left = other.lock("left").guard().await.unwrap();
            let held = other.lock("wanted").guard().await.unwrap();
            let wanted = locks.lock("wanted");
            let waiter = tokio::spawn(async move { wanted.guard().await.map(drop) });
            assert!(!locks.lock("left").acquire().wait(secs(1)).await.unwrap().is_acquired());
            server.stop();
            // It is noticed, and what is subscribed to anew then meets nobody.
            server.start();
            server.stop();
            sleep(secs(10)).await;
            server.start();
            held.unlock().await.unwrap();
            waiter.await.unwrap().unwrap();
        });
        done.send(()).unwrap();
    });
    ended.recv_timeout(secs(60)).expect("time goes on");
}
