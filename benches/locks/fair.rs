//! The fair lock: the server's time in each script while many wait, and how often a crowd asks.

use std::time::Duration;

use crate::table::{median, Goal, Ratio, Row};
use lockson::{FairLock, Locks, Owner};
use support::kinds::text;
use support::{unique, Raw, Server};

/// Owners in the queue.
const LENGTHS: [u64; 5] = [10, 100, 1_000, 10_000, 50_000];
/// Calls of each script with each length; the middle one counts.
const CALLS: usize = 101;
/// Rounds of what follows.
const ROUNDS: usize = 5;
/// Tasks that want one fair lock all the time, and for how long.
const CONTENDERS: [usize; 2] = [64, 1_000];
const CONTENDED: Duration = Duration::from_secs(3);
/// Acquisitions that follow each other while the longest queue waits.
const TURNS: u64 = 400;
/// What the server may take for an acquisition and its release, in microseconds.
const PROMISED: f64 = 40.0;
/// Tasks of one process that wait while the scripts are counted, and for how long: longer than a round of refreshes.
const CROWD: usize = 10_000;
const SPAN: Duration = Duration::from_secs(30);

/// A queue of another client's waiters, each of which was heard of just now; the scores are what they were.
const FILL: &str = "local time = redis.call('TIME') local now = time[1] * 1000 \
    redis.call('DEL', KEYS[2], KEYS[3], KEYS[4]) \
    for i = 1, ARGV[1] do local owner = ARGV[2] .. ':' .. i \
      redis.call('RPUSH', KEYS[2], owner) redis.call('ZADD', KEYS[3], now + i * 300000, owner) \
      redis.call('ZADD', KEYS[4], now, owner) end \
    redis.call('ZADD', KEYS[4], now, ARGV[2]) return 1";
/// One owner goes to the head.
const FIRST: &str = "local time = redis.call('TIME') local now = time[1] * 1000 \
    redis.call('LPUSH', KEYS[2], ARGV[1]) redis.call('ZADD', KEYS[3], now + 300000, ARGV[1]) \
    return redis.call('ZADD', KEYS[4], now, ARGV[1])";

/// Microseconds in scripts, by what they do.
#[derive(Default)]
struct Times {
    acquire: Vec<f64>,
    release: Vec<f64>,
    join: Vec<f64>,
    refresh: Vec<f64>,
    give_up: Vec<f64>,
    pass: f64,
}

/// A queue that is looked at.
struct Queue<'a> {
    server: &'a Server,
    raw: Raw,
    keys: [String; 6],
    length: u64,
}

impl Queue<'_> {
    async fn of<'a>(server: &'a Server, name: &str, length: u64) -> Queue<'a> {
        let tagged = |what: &str| format!("{what}:{{{name}}}");
        let [queue, timeouts, seen, state, channel] = [
            "redisson_lock_queue",
            "redisson_lock_timeout",
            "lockson:fair_seen",
            "lockson:fair_state",
            "redisson_lock__channel",
        ]
        .map(tagged);
        let mut queue = Queue {
            server,
            raw: server.raw().await,
            keys: [name.to_owned(), queue, timeouts, seen, state, channel],
            length,
        };
        queue.run(FILL, &[&length.to_string(), "crowd"]).await;
        queue
    }

    async fn run(&mut self, script: &str, args: &[&str]) {
        let keys: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        self.raw.must(&[&["EVAL", script, "6"], &keys[..], args].concat()).await;
    }

    /// Begins to count.
    fn reset(&self) {
        self.server.reset_stats();
    }

    /// Microseconds of one script since then.
    fn micros(&self, command: &str) -> f64 {
        let (calls, micros) = self.server.stats().get(command).copied().unwrap_or_default();
        micros as f64 / calls as f64
    }

    /// The head gets the free lock and gives it back.
    async fn turn(&mut self, locks: &Locks, times: &mut Times) {
        let field = format!("{}:named-me", locks.client_id());
        self.run(FIRST, &[&field]).await;
        let lock = fair(locks, &self.keys[0], "me");
        self.reset();
        lock.lock().await.expect("held");
        times.acquire.push(self.micros("evalsha"));
        self.reset();
        lock.unlock().await.expect("given back");
        times.release.push(self.micros("evalsha"));
    }

    /// Somebody waits behind all others and gives up, while the lock is held; the next time in the middle.
    async fn visit(&mut self, locks: &Locks, other: &Locks, times: &mut Times) {
        let field = format!("{}:named-holder", other.client_id());
        self.run(FIRST, &[&field]).await;
        let guard = fair(other, &self.keys[0], "holder").guard().await.expect("held");
        let tail = fair(locks, &self.keys[0], "tail");
        self.reset();
        let waiter = tokio::spawn(async move { tail.guard().await });
        self.until(self.length + 1).await;
        // The first of them joins, the second finds itself there.
        times.join.push(self.micros("evalsha"));
        let length = self.length.to_string();
        if times.join.len().is_multiple_of(2) {
            let middle = "local owner = redis.call('RPOP', KEYS[2]) \
                return redis.call('LINSERT', KEYS[2], 'BEFORE', redis.call('LINDEX', KEYS[2], ARGV[1] / 2), owner)";
            self.run(middle, &[&length]).await;
        }
        self.reset();
        waiter.abort();
        self.until(self.length).await;
        times.give_up.push(self.micros("evalsha"));
        guard.unlock().await.expect("given back");
    }

    async fn until(&mut self, length: u64) {
        while self.raw.must(&["LLEN", &self.keys[1]]).await.int() as u64 != length {}
        tokio::time::sleep(Duration::from_millis(3)).await;
    }

    /// What one script says for a hundred waiters, or for all.
    async fn refresh(&mut self, times: &mut Times) {
        let owners: Vec<String> = (1..=self.length.min(100)).map(|number| format!("crowd:{number}")).collect();
        let args: Vec<&str> =
            ["nonce", "99999999999999"].into_iter().chain(owners.iter().map(String::as_str)).collect();
        let script = text("fair", "refresh");
        self.run(&script, &args).await;
        self.reset();
        self.run(&script, &args).await;
        times.refresh.push(self.micros("eval"));
    }

    /// An acquisition that sets scores anew, as the next one's is far ahead of its place.
    async fn pass(&mut self, locks: &Locks, times: &mut Times) {
        let ahead = (3 * self.length * 300_000).to_string();
        let next = "return redis.call('ZINCRBY', KEYS[3], ARGV[1], redis.call('LINDEX', KEYS[2], 0))";
        self.run(next, &[&ahead]).await;
        let mut one = Times::default();
        self.turn(locks, &mut one).await;
        times.pass = median(&one.acquire);
    }
}

fn fair(locks: &Locks, name: &str, owner: &str) -> FairLock {
    locks.fair_lock(name).owned_by(&Owner::named(owner).expect("a name"))
}

/// The rows of this group.
pub async fn run() -> Vec<Row> {
    let server = Server::start();
    let (a, b) = (connect(&server).await, connect(&server).await);
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for length in LENGTHS {
        let (mut times, name) = (Times::default(), unique("fair"));
        let mut queue = Queue::of(&server, &name, length).await;
        for _ in 0..CALLS {
            queue.turn(&a, &mut times).await;
            queue.visit(&a, &b, &mut times).await;
            queue.refresh(&mut times).await;
        }
        queue.pass(&a, &mut times).await;
        let [acquire, release, join, refresh, give_up] =
            [&times.acquire, &times.release, &times.join, &times.refresh, &times.give_up].map(|times| median(times));
        rows.push(Row::new(
            format!("fair lock, {length} wait: server time"),
            format!(
                "acquire {acquire:.0} us, release {release:.0} us, to join and look again {join:.0} us, refresh of {} \
                 {refresh:.0} us, give-up {give_up:.0} us, the acquire that sets scores anew {:.0} us",
                length.min(100),
                times.pass
            ),
        ));
        all.push((length, acquire + release, give_up));
    }
    let at = |length: u64| all.iter().find(|(other, ..)| *other == length).copied().unwrap_or_default();
    let ((_, few, _), (_, many, give_up)) = (at(10), at(10_000));
    rows.push(
        Row::new("fair lock, 10000 wait: acquire + release", format!("{many:.0} us"))
            .beside(format!("10 wait: {few:.0} us"))
            .ratio(Ratio::single(many / few))
            .goal(Goal::AtMost(2.0)),
    );
    rows.push(
        Row::new("the same: give-up", format!("{give_up:.0} us"))
            .beside("300 us")
            .ratio(Ratio::single(give_up / 300.0))
            .goal(Goal::AtMost(1.0)),
    );
    for tasks in CONTENDERS {
        rows.push(contended(&server, &a, tasks).await);
    }
    rows.push(behind_each_other(&server, &a).await);
    rows.push(crowd(&server, &a, &b).await);
    rows
}

async fn connect(server: &Server) -> Locks {
    Locks::connect(&server.url()).await.expect("a client")
}

/// Microseconds and scripts of each acquisition since the statistics were reset.
fn per_acquisition(server: &Server, acquisitions: u64) -> [f64; 2] {
    let (scripts, micros) = server.stats().get("evalsha").copied().unwrap_or_default();
    [micros, scripts].map(|sum| sum as f64 / acquisitions as f64)
}

fn row(what: String, rounds: &[[f64; 2]]) -> Row {
    let [micros, scripts] = [0, 1].map(|at| rounds.iter().map(|round| round[at]).collect::<Vec<_>>());
    Row::new(what, format!("{:.1} us in {:.2} scripts", median(&micros), median(&scripts)))
        .ratio(Ratio::of(&micros, &[PROMISED; ROUNDS]))
        .goal(Goal::AtMost(1.0))
}

/// What an acquisition and its release cost the server, all that its waiters ask included.
async fn contended(server: &Server, locks: &Locks, tasks: usize) -> Row {
    let (mut rounds, mut commands, mut turns) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let name = unique("contended");
        let until = tokio::time::Instant::now() + CONTENDED;
        server.reset_stats();
        let looping = (0..tasks).map(|number| {
            let lock = fair(locks, &name, &number.to_string());
            tokio::spawn(async move {
                let mut turns = 0;
                while tokio::time::Instant::now() < until {
                    lock.lock().await.expect("held");
                    turns += 1;
                    lock.unlock().await.expect("given back");
                }
                turns
            })
        });
        let looping: Vec<_> = looping.collect();
        let each = futures::future::join_all(looping).await;
        let each: Vec<u64> = each.into_iter().map(|turns| turns.expect("it ends")).collect();
        let acquisitions = each.iter().sum();
        rounds.push(per_acquisition(server, acquisitions));
        commands.push(server.commands_in_scripts() as f64 / acquisitions as f64);
        turns.extend(each);
    }
    let (least, most) = (turns.iter().min().unwrap_or(&0), turns.iter().max().unwrap_or(&0));
    row(format!("fair lock, {tasks} tasks want it: server time per acquisition"), &rounds)
        .beside(format!("{:.1} commands; fewest..most turns {least}..{most}", median(&commands)))
}

/// The same of who stands first of the longest queue, one behind the other.
async fn behind_each_other(server: &Server, locks: &Locks) -> Row {
    let (name, length) = (unique("long"), LENGTHS[LENGTHS.len() - 1]);
    let mut queue = Queue::of(server, &name, length).await;
    let lock = fair(locks, &name, "me");
    let field = format!("{}:named-me", locks.client_id());
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        server.reset_stats();
        for _ in 0..TURNS {
            queue.run(FIRST, &[&field]).await;
            lock.lock().await.expect("held");
            lock.unlock().await.expect("given back");
        }
        rounds.push(per_acquisition(server, TURNS));
    }
    row(format!("fair lock, {length} wait: server time per acquisition"), &rounds)
}

/// How often a process asks while its tasks wait.
async fn crowd(server: &Server, holder: &Locks, locks: &Locks) -> Row {
    let name = unique("crowd");
    let guard = fair(holder, &name, "holder").guard().await.expect("held");
    let tasks: Vec<_> = (0..CROWD)
        .map(|number| {
            let lock = fair(locks, &name, &number.to_string());
            tokio::spawn(async move { lock.guard().await })
        })
        .collect();
    let waiting = fair(holder, &name, "holder");
    while waiting.queue_len().await.expect("an answer") < CROWD as u64 || locks.health().subscriptions < CROWD {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    server.reset_stats();
    tokio::time::sleep(SPAN).await;
    let (calls, micros) = server.stats().get("evalsha").copied().unwrap_or_default();
    let a_second = calls as f64 / SPAN.as_secs_f64();
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    drop(guard);
    Row::new(format!("fair lock, {CROWD} tasks of one process wait: scripts"), format!("{a_second:.1}/s"))
        .beside(format!("{:.0} us of the server's time a second", micros as f64 / SPAN.as_secs_f64()))
        .ratio(Ratio::single(a_second))
        .goal(Goal::AtMost(20.0))
}
