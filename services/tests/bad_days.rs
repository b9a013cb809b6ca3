//! Each service as processes on a real server: one is killed, or stands still for longer than its lease, or the server
//! restarts without its data. The others go on, and who comes back learns what it has lost and goes on too.

use std::process::Command;
use std::sync::Mutex;

use support::prelude::*;
use support::process::{Process, Signal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A lease of 3 s and what a busy machine takes.
const PATIENCE: Duration = secs(30);

/// What befalls a service.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Day {
    Killed,
    Stopped,
    Restarted,
}

const DAYS: [Day; 3] = [Day::Killed, Day::Stopped, Day::Restarted];

impl Day {
    fn begins(self, process: &mut Process, server: &Server) {
        match self {
            Self::Killed => process.kill(),
            Self::Stopped => process.signal(Signal::STOP),
            Self::Restarted => server.restart(),
        }
    }

    /// `false`: nobody is left to go on.
    fn ends(self, process: &Process) -> bool {
        if self == Self::Stopped {
            process.signal(Signal::CONT);
        }
        self != Self::Killed
    }
}

/// One process of a service.
fn process(program: &str, server: &Server, words: &[&str]) -> Process {
    let mut command = Command::new(program);
    command.args(["--url", &server.url()]).args(words);
    Process::of(command)
}

/// Its next line that is like that.
async fn line(process: &Process, is_like: impl Fn(&str) -> bool) -> String {
    loop {
        let line = process.line_within(PATIENCE).await;
        if is_like(&line) {
            return line;
        }
    }
}

/// The status of a payment of one order; `None` when the connection ended without one.
async fn pay(at: &str, card: &str) -> Option<u16> {
    let mut client = TcpStream::connect(at).await.unwrap();
    let head =
        format!("POST /orders/42/pay/{card} HTTP/1.1\r\nhost: shop\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = client.read_to_string(&mut answer).await;
    answer.split(' ').nth(1).and_then(|status| status.parse().ok())
}

async fn pay_orders(day: Day) {
    let server = Server::start();
    let shop = || process(env!("CARGO_BIN_EXE_http"), &server, &[]);
    let (mut one, other) = (shop(), shop());
    let (at, other_at) = join(one.line_within(PATIENCE), other.line_within(PATIENCE)).await;
    let slow = tokio::spawn({
        let at = at.clone();
        async move { pay(&at, "slow").await }
    });
    let order = server.locks().await.lock("order:42");
    eventually(PATIENCE, "it is being paid", async || order.is_locked().await.unwrap()).await;
    assert_eq!(pay(&other_at, "good").await, Some(409));
    day.begins(&mut one, &server);
    eventually(PATIENCE, "another has paid it", async || pay(&other_at, "good").await == Some(200)).await;
    let goes_on = day.ends(&one);
    let slow = patient("the first payment", slow).await.unwrap();
    assert_eq!(slow, goes_on.then_some(503), "who lost the order says so");
    if goes_on {
        eventually(PATIENCE, "it pays the next one", async || pay(&at, "good").await == Some(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_paid_by_another_process() {
    join_all(DAYS.map(pay_orders)).await;
}

async fn do_jobs(day: Day) {
    let server = Server::start();
    let machine = server.locks().await.fair_lock("batch:machine");
    let job = |number: &str, takes: &str| {
        process(env!("CARGO_BIN_EXE_batch_jobs"), &server, &["--job", number, "--takes", takes])
    };
    let mut first = job("1", "600000");
    eventually(PATIENCE, "the first one works", async || machine.is_locked().await.unwrap()).await;
    let second = job("2", "20");
    eventually(PATIENCE, "the second waits", async || machine.queue_len().await.unwrap() == 1).await;
    let third = job("3", "500");
    eventually(PATIENCE, "the third waits", async || machine.queue_len().await.unwrap() == 2).await;
    day.begins(&mut first, &server);
    let order = Mutex::new(Vec::new());
    join_all([&second, &third].map(async |job| {
        let done = job.line_within(PATIENCE).await;
        order.lock().unwrap().push(done);
    }))
    .await;
    let mut order = order.into_inner().unwrap();
    if day == Day::Restarted {
        // The queue was lost with the data, and who came back first was the first.
        order.sort();
    }
    assert_eq!(order, ["2", "3"], "{day:?}");
    if day.ends(&first) {
        assert!(!first.ends_within(PATIENCE).await, "{day:?}: who lost the machine says so");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_done_in_order() {
    join_all(DAYS.map(do_jobs)).await;
}

/// Which of them says next that it leads.
async fn leader(candidates: &[Process]) -> usize {
    let mut found = None;
    eventually(PATIENCE, "a leader", async || {
        found = candidates.iter().position(|each| each.try_line().is_some_and(|line| line.ends_with(" leads")));
        found.is_some()
    })
    .await;
    found.unwrap()
}

async fn elect(day: Day) {
    let server = Server::start();
    let stand = |name: &str| process(env!("CARGO_BIN_EXE_leader"), &server, &["--stand", name]);
    let mut candidates = ["anna", "ben", "cleo"].map(stand);
    for candidate in &candidates {
        line(candidate, |line| line.ends_with(" stands for election")).await;
    }
    let first = leader(&candidates).await;
    day.begins(&mut candidates[first], &server);
    let next = leader(&candidates).await;
    assert!(next != first || day == Day::Restarted, "{day:?}");
    // Where the server restarted, it has said so by now, or leads again.
    if day.ends(&candidates[first]) && day == Day::Stopped {
        line(&candidates[first], |line| line.contains(" steps down: ")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_leads_and_who_led_steps_down() {
    join_all(DAYS.map(elect)).await;
}

/// How many calls are open at the partner, how many were at most, and how many there were.
#[derive(Default)]
struct Calls {
    open: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

async fn answer_calls(listener: TcpListener, calls: Arc<Calls>) {
    loop {
        let (call, _) = listener.accept().await.unwrap();
        let calls = calls.clone();
        tokio::spawn(async move {
            calls.all.fetch_add(1, Ordering::SeqCst);
            calls.most.fetch_max(calls.open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(ms(50)).await;
            calls.open.fetch_sub(1, Ordering::SeqCst);
            drop(call);
        });
    }
}

async fn call_partner(day: Day) {
    let server = Server::start();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, calls) = (listener.local_addr().unwrap().to_string(), Arc::<Calls>::default());
    tokio::spawn(answer_calls(listener, calls.clone()));
    let words = ["--partner", &address, "--calls", "100"];
    let caller = || process(env!("CARGO_BIN_EXE_partner_api"), &server, &words);
    let (mut one, other) = (caller(), caller());
    join(one.line_within(PATIENCE), other.line_within(PATIENCE)).await;
    eventually(PATIENCE, "some calls", async || calls.all.load(Ordering::SeqCst) >= 20).await;
    day.begins(&mut one, &server);
    other.line_within(PATIENCE).await;
    if day.ends(&one) {
        one.line_within(PATIENCE).await;
    }
    // The permits that a server lost are taken anew while their calls are open.
    let limit = if day == Day::Restarted { 20 } else { 10 };
    let most = calls.most.load(Ordering::SeqCst);
    assert!(most <= limit, "{day:?}: {most} at once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_calls_are_made_within_the_limit() {
    join_all(DAYS.map(call_partner)).await;
}

async fn change_config(day: Day) {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let part = |what: &str| {
        process(env!("CARGO_BIN_EXE_shared_config"), &server, &["--in", folder.path().to_str().unwrap(), what])
    };
    let (mut one, other, reader) = (part("--change"), part("--change"), part("--read"));
    let version = |line: &str| line.parse::<u64>().unwrap();
    join(other.line_within(PATIENCE), line(&one, |line| version(line) >= 3)).await;
    let seen = version(&line(&reader, |line| version(line) >= 3).await);
    day.begins(&mut one, &server);
    let then = version(&line(&reader, |line| version(line) >= seen + 10).await);
    if day.ends(&one) {
        line(&one, |line| version(line) > then).await;
        line(&reader, |line| version(line) > then).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_versions_are_read_and_come_on() {
    join_all(DAYS.map(change_config)).await;
}
