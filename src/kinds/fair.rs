//! The fair lock (Redisson's `getFairLock`) and the non-reentrant one (`getNonReentrantFairLock`): first come, first
//! served, by a queue on the server. Rule 17 of docs/PROTOCOL.md.

use crate::backend::Script;
use crate::base::keys::Key::{Channel, Front, Lock as Key, Queue, Seen, Timeouts, Token};
use crate::error::QueryError;
use crate::kinds::fenced::Fenced;
use crate::kinds::reentrant::REENTRANT;
use crate::locks::lock::Lock;
use crate::locks::traits::{kind, Fenceable, Kind};
use crate::wire::table::{self, script, Table};

/// A script with all that belongs to the queue.
macro_rules! queue_script {
    ($file:literal $($shared:literal)?) => {
        script!($file after "announce" after "fair/begin" $(after $shared)?,
            [Key, Queue, Timeouts, Seen, Front, Channel])
    };
}

static FAIR: Table = Table {
    name: "fair",
    acquire: queue_script!("fair/acquire" "fair/wait"),
    asks: |_, waits| Some(u8::from(waits).to_string()),
    release: queue_script!("fair/release"),
    hand_over: Some(queue_script!("fair/hand_over")),
    together: None,
    renew: script!("fair/renew", [Key, Queue, Timeouts]),
    weight: 5,
    settle: queue_script!("fair/settle"),
    extend: queue_script!("fair/extend"),
    force: queue_script!("fair/force"),
    // Its channel is that of the next one alone.
    announces: false,
    queue: Some(table::Queue {
        refresh: queue_script!("fair/refresh" "fair/wait"),
        leave: queue_script!("fair/leave"),
    }),
    ..REENTRANT
};

static FENCED_FAIR: Table = Table {
    name: "fenced_fair",
    fenced: true,
    acquire: script!("fenced/fence" over "fair/acquire" after "announce" after "fair/begin" after "fair/wait",
        [Key, Queue, Timeouts, Seen, Front, Token, Channel]),
    hand_over: Some(script!("fenced/fence" over "fair/hand_over" after "announce" after "fair/begin",
        [Key, Queue, Timeouts, Seen, Front, Token, Channel])),
    ..FAIR
};

static NON_REENTRANT_FAIR: Table = Table { name: "fair_mutex", reentrant: false, ..FAIR };

static FENCED_FAIR_MUTEX: Table = Table { name: "fenced_fair_mutex", reentrant: false, ..FENCED_FAIR };

static PLACE: &Script = queue_script!("fair/place");

kind! {
    /// The kind of [`Locks::fair_lock`](crate::Locks::fair_lock). Every waiter of every process has a place of its own
    /// in a queue on the server, from its first attempt on, and only the first of the queue gets the lock. An owner
    /// that enters again does not queue, and one attempt ([`try_lock`](Lock::try_lock)) succeeds only when nobody
    /// waits. A waiter that is cancelled or at its limit leaves the queue; one that died costs the next 3 s. It costs
    /// more than [`Locks::lock`](crate::Locks::lock): each hand-over is a script, and to another process a release, a
    /// message and an acquire.
    ///
    /// It is the same lock on the server as [`Locks::lock`](crate::Locks::lock) of that name, whose users do not look
    /// at the queue.
    Fair is FAIR, fenced by FENCED_FAIR
}

kind! {
    /// The kind of [`Locks::fair_mutex`](crate::Locks::fair_mutex): as [`Fair`], but a second acquisition by the owner
    /// is an error at once.
    NonReentrantFair is NON_REENTRANT_FAIR, fenced by FENCED_FAIR_MUTEX
}

/// The kinds that have a queue on the server.
pub trait Queued: Kind {}

impl Queued for Fair {}

impl Queued for NonReentrantFair {}

impl<K: Fenceable + Queued> Queued for Fenced<K> {}

impl<K: Queued> Lock<K> {
    /// How many waiters of all processes are in the queue. One script, which writes nothing.
    ///
    /// # Errors
    /// As [`is_held`](Lock::is_held)'s; so is its cancel safety.
    pub async fn queue_len(&self) -> Result<u64, QueryError> {
        let answer = self.query(PLACE).await?;
        Ok(answer.count(0))
    }

    /// How many are before this owner in the queue; `None` when it is not in it. A task that waits can't ask: ask by a
    /// handle that is [`owned_by`](Lock::owned_by) the same owner. One script, which writes nothing and reads the queue
    /// up to there.
    ///
    /// # Errors
    /// As [`is_held`](Lock::is_held)'s; so is its cancel safety.
    pub async fn queue_position(&self) -> Result<Option<u64>, QueryError> {
        Ok(self.query(PLACE).await?.known(1))
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use std::future::Future;
    use std::time::Duration;

    use futures::FutureExt;

    use crate::{EmbeddedServer, Reply};

    const MS: Duration = Duration::from_millis(1);

    /// It is polled until it has its place and hears of its turn.
    async fn waits<F: Future + Unpin>(wait: &mut F) {
        for _ in 0..10 {
            assert!(futures::poll!(&mut *wait).is_pending());
            tokio::time::sleep(MS).await;
        }
    }

    /// What one task gives back goes by the same script to the next in the server's queue, if that is of its process;
    /// else to that of another one.
    #[tokio::test(start_paused = true)]
    async fn the_next_in_the_queue_is_handed_the_lock() {
        let server = EmbeddedServer::new();
        let (other, locks) = (server.connect(), server.connect());
        let (first, mut waiting) = (locks.fair_lock("queue").guard().await.unwrap(), Vec::new());
        for locks in [&locks, &other, &locks, &locks] {
            let lock = locks.fair_lock("queue");
            waiting.push(tokio::spawn(async move { lock.guard().await.unwrap() }));
            tokio::time::sleep(MS).await;
        }
        let [second, third, fourth, fifth] = <[_; 4]>::try_from(waiting).unwrap();
        let before = server.calls();
        first.unlock().await.unwrap();
        let second = second.await.unwrap();
        assert_eq!(server.calls() - before, 1);
        second.unlock().await.unwrap();
        let third = third.await.unwrap();
        assert!(!fourth.is_finished() && !fifth.is_finished(), "the third was before them");
        third.unlock().await.unwrap();
        let fourth = fourth.await.unwrap();
        // Whoever goes away is not handed anything, and who was handed it and goes away gives it back.
        fifth.abort();
        fourth.unlock().await.unwrap();
        tokio::time::sleep(MS * 10).await;
        assert_eq!(server.command(&["KEYS", "*"]), Ok(Reply::List(Vec::new())));
    }

    /// Who was handed it and is not polled loses it to the next, and stands in the queue again when it is.
    #[tokio::test(start_paused = true)]
    async fn who_does_not_take_it_queues_again() {
        let locks = EmbeddedServer::new().connect();
        let of = |owner: &str| locks.fair_lock("queue").owned_by(&owner.parse().unwrap());
        let first = of("first").guard().await.unwrap();
        let lock = of("unpolled");
        let mut unpolled = lock.guard().boxed();
        waits(&mut unpolled).await;
        let next = of("next");
        let next = tokio::spawn(async move { next.guard().await.unwrap() });
        tokio::time::sleep(MS).await;
        first.unlock().await.unwrap();
        let next = next.await.unwrap();
        assert!(futures::poll!(&mut unpolled).is_pending());
        next.unlock().await.unwrap();
        unpolled.await.unwrap().unlock().await.unwrap();
    }

    /// The first of a process asks for all of it. Where that one is kept and not polled, another does, so that nobody
    /// who is polled loses its place, or waits on while the lock is free.
    #[tokio::test(start_paused = true)]
    async fn who_stands_behind_one_that_is_not_polled_is_served() {
        for others in [0, 1] {
            let server = EmbeddedServer::new();
            let (holder, locks, other) = (server.connect(), server.connect(), server.connect());
            let held = holder.fair_lock("queue").guard().await.unwrap();
            let lock = locks.fair_lock("queue").owned_by(&"unpolled".parse().unwrap());
            let mut unpolled = lock.guard().boxed();
            waits(&mut unpolled).await;
            let wait = |locks: &crate::Locks| {
                let lock = locks.fair_lock("queue");
                tokio::spawn(async move { lock.guard().await.unwrap() })
            };
            let next = wait(&locks);
            tokio::time::sleep(MS).await;
            let behind: Vec<_> = (0..others).map(|_| wait(&other)).collect();
            tokio::time::sleep(MS * 20_000).await;
            held.unlock().await.unwrap();
            let next = tokio::time::timeout(MS * 6_000, next).await.unwrap().unwrap();
            assert!(behind.iter().all(|waiter| !waiter.is_finished()), "in their order");
            next.unlock().await.unwrap();
            for waiter in behind {
                waiter.await.unwrap().unlock().await.unwrap();
            }
        }
    }

    /// Who goes away leaves the server's queue by one script; where the server was away, when it is there again: else
    /// who comes behind it would wait until it is taken for dead.
    #[tokio::test(start_paused = true)]
    async fn who_goes_away_leaves_the_queue_once() {
        let server = EmbeddedServer::new();
        let (holder, locks) = (server.connect(), server.connect());
        let guard = holder.fair_lock("queue").acquire().lease(MS * 600_000).guard().await.unwrap().unwrap();
        let queued = || match server.command(&["LLEN", "redisson_lock_queue:{queue}"]) {
            Ok(Reply::Int(queued)) => queued,
            other => panic!("{other:?}"),
        };
        let wait = || {
            let lock = locks.fair_lock("queue");
            tokio::spawn(async move { lock.guard().await })
        };
        let settled = || tokio::time::sleep(MS * 10);
        let first = wait();
        settled().await;
        assert_eq!(queued(), 1);
        first.abort();
        settled().await;
        assert_eq!(queued(), 0);
        let before = server.calls();
        tokio::time::sleep(MS * 5_000).await;
        assert_eq!(server.calls(), before, "it has left");
        let many = || (0..300).map(|_| wait()).collect::<Vec<_>>();
        let waiting = many();
        settled().await;
        assert_eq!(queued(), 300);
        let before = server.calls();
        waiting.iter().for_each(|waiting| waiting.abort());
        settled().await;
        assert_eq!(queued(), 0);
        let calls = server.calls() - before;
        assert!(calls < 10, "many leave by one script: {calls} for 300");
        let waiting = many();
        settled().await;
        assert_eq!(queued(), 300);
        server.stop();
        waiting.iter().for_each(|waiting| waiting.abort());
        tokio::time::sleep(locks.engine().settings.outage_limit * 5).await;
        server.start();
        tokio::time::sleep(MS * 10_000).await;
        assert_eq!(queued(), 0);
        drop(guard);
    }

    /// Of a long queue a script looks through no more places than so many, and the next one goes on.
    #[tokio::test(start_paused = true)]
    async fn who_leaves_from_within_a_long_queue_leaves_part_by_part() {
        const OTHERS: i64 = 15_000;
        let server = EmbeddedServer::new();
        let (holder, locks) = (server.connect(), server.connect());
        let _held = holder.fair_lock("queue").acquire().lease(MS * 600_000).guard().await.unwrap().unwrap();
        let lock = locks.fair_lock("queue");
        let mut waiting = Vec::new();
        for _ in 0..10 {
            let lock = lock.clone();
            waiting.push(tokio::spawn(async move { lock.guard().await }));
            tokio::time::sleep(MS).await;
        }
        let keys = ["redisson_lock_queue:{queue}", "redisson_lock_timeout:{queue}"];
        let text = "local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2]
            for i = 1, ARGV[1] do
                redis.call('RPUSH', KEYS[1], 'java:' .. i) redis.call('ZADD', KEYS[2], last + i, 'java:' .. i)
            end";
        server.eval(text, &keys, &[&OTHERS.to_string()]).unwrap();
        let before = server.calls();
        waiting.iter().skip(1).for_each(|waiting| waiting.abort());
        tokio::time::sleep(MS * 10).await;
        assert_eq!(lock.queue_len().await.unwrap(), OTHERS as u64 + 1);
        assert_eq!(server.calls() - before, 3 + 1, "three by a script, and the question");
    }
}
