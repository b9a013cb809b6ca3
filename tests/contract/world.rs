//! Where a case runs: on real servers or on the embedded one, seen through the same few questions.

use std::task::Poll;

use async_trait::async_trait;
use lockson::kind::{Fenceable, Fenced, Owned};
use lockson::{FencedGuard, GroupLock, Holder, Lock, ReadLock, SpinLock, WriteLock};
pub use lockson::{InvalidLease, Request};
pub use support::kinds::VALUE;
pub use support::prelude::*;
use support::{deployment, server, By, Deployment, Topology};
pub use tokio::time::Instant;

/// Shared with nobody in the embedded case and with every case in the real one.
pub enum World {
    Real(&'static Deployment),
    Embedded(EmbeddedServer),
}

/// When a copy comes: in time, or too late.
pub const SOON: i64 = 60_000;
pub const LATE: i64 = -1;

type LockFactory = fn(&Locks, &str) -> Arc<dyn RLock>;
type FencedFactory = fn(&Locks, &str) -> Arc<dyn FencedLock>;
type OwnedFactory = fn(&Locks, &str) -> Arc<dyn OwnedLock>;

/// A kind of lock, as the cases see it.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Makes one, by any client.
    pub lock: LockFactory,
    /// The same, with what its owner on the server adds; `None` for those that have none there.
    pub owned: Option<OwnedFactory>,
    /// Of kinds whose holds have a token: the same with it, and the kind without.
    pub fenced: Option<(FencedFactory, LockFactory)>,
    /// What its field has behind the owner.
    pub suffix: &'static str,
}

macro_rules! value {
    ($make:expr, $suffix:literal) => {
        crate::contract::Kind {
            lock: |locks, name| std::sync::Arc::new($make(locks, name)),
            owned: None,
            fenced: None,
            suffix: $suffix,
        }
    };
}

macro_rules! hash {
    ($make:expr, $suffix:literal) => {
        crate::contract::Kind {
            owned: Some(|locks, name| std::sync::Arc::new($make(locks, name))),
            ..crate::contract::world::value!($make, $suffix)
        }
    };
}

/// A hash, and tokens.
macro_rules! tokens {
    ($unfenced:expr, $suffix:literal) => {
        crate::contract::Kind {
            fenced: Some((
                |locks, name| std::sync::Arc::new($unfenced(locks, name).fenced()),
                |locks, name| std::sync::Arc::new($unfenced(locks, name)),
            )),
            ..crate::contract::world::hash!(|locks, name| $unfenced(locks, name).fenced(), $suffix)
        }
    };
}

pub(crate) use {hash, tokens, value};

/// What some kinds add to the verbs of all, as a trait that their locks share.
macro_rules! added {
    ($name:ident for $lock:ty, $kind:path: $($verb:ident($($arg:ident: $of:ty)?) -> $answer:ty $(, $how:ident)?;)*) => {
        #[async_trait]
        pub trait $name: Send + Sync {
            fn of(&self, owner: &Owner) -> Arc<dyn $name>;
            fn verbs(&self) -> &dyn RLock;
            $(async fn $verb(&self, $($arg: $of)?) -> $answer;)*
        }

        #[async_trait]
        impl<K: $kind> $name for $lock {
            fn of(&self, owner: &Owner) -> Arc<dyn $name> {
                Arc::new(self.owned_by(owner))
            }

            fn verbs(&self) -> &dyn RLock {
                self
            }

            $(async fn $verb(&self, $($arg: $of)?) -> $answer {
                Lock::$verb(self, $($arg)?).await$(.$how())?
            })*
        }
    };
}

// Those whose owner is on the server.
added! {
    OwnedLock for Lock<K>, Owned:
    hold_count() -> u64, unwrap;
    holder() -> Option<Holder>, unwrap;
    is_locked() -> bool, unwrap;
    remaining_ttl() -> Option<Duration>, unwrap;
    force_unlock() -> bool, unwrap;
    force_unlock_if(field: &str) -> bool, unwrap;
}

// Those whose holds have a token.
added! {
    FencedLock for Lock<Fenced<K>>, Fenceable:
    lock_and_get_token() -> Result<u64, LockError>;
    guard() -> Result<FencedGuard, LockError>;
}

/// A case's tools: a server, the kind under test, and a name that nobody else uses.
pub struct Case {
    pub world: World,
    pub by: By,
    pub kind: Kind,
    pub name: String,
}

impl Case {
    pub fn real(kind: Kind) -> Self {
        Self::on(kind, Deployment::shared(Topology::Single, &server::program()), By::Url)
    }

    pub fn on(kind: Kind, deployment: &'static Deployment, by: By) -> Self {
        Self { world: World::Real(deployment), by, kind, name: support::unique("contract") }
    }

    pub fn embedded(kind: Kind) -> Self {
        Self { world: World::Embedded(EmbeddedServer::new()), by: By::Url, kind, name: support::unique("contract") }
    }

    /// A client, as another process would have it.
    pub async fn client(&self) -> Locks {
        self.client_with(Locks::builder()).await
    }

    pub async fn client_with(&self, builder: Builder) -> Locks {
        match &self.world {
            World::Real(deployment) => self.by.connect(builder, &deployment.url()).await,
            World::Embedded(server) => server.connect_with(builder).unwrap(),
        }
    }

    /// A client that no polling saves: its waiters need to be told.
    pub async fn sleepy_client(&self) -> Locks {
        self.client_with(Locks::builder().wait_cap(secs(60))).await
    }

    /// The lock under test, by a client.
    pub fn lock(&self, locks: &Locks) -> Arc<dyn RLock> {
        (self.kind.lock)(locks, &self.name)
    }

    /// The same with what its owner on the server adds.
    pub fn owned(&self, locks: &Locks) -> Arc<dyn OwnedLock> {
        self.kind.owned.expect("a kind whose owner is on the server")(locks, &self.name)
    }

    /// The same with tokens, of a new client.
    pub async fn fenced(&self) -> Arc<dyn FencedLock> {
        self.fenced_of(&self.client().await)
    }

    pub fn fenced_of(&self, locks: &Locks) -> Arc<dyn FencedLock> {
        self.kind.fenced.expect("a kind with tokens").0(locks, &self.name)
    }

    /// The same without tokens.
    pub fn unfenced_of(&self, locks: &Locks) -> Arc<dyn RLock> {
        self.kind.fenced.expect("a kind with tokens").1(locks, &self.name)
    }

    /// A lock that the lock under test keeps out: another of its kind, but for readers a writer.
    pub fn rival(&self, locks: &Locks) -> Arc<dyn RLock> {
        if self.is_kind(locks, "read") {
            return Arc::new(locks.read_write_lock(&self.name).write());
        }
        self.lock(locks)
    }

    /// An upper bound: exact where time is paused; on a real server as long as [`support::patient`] waits.
    pub fn bound(&self, exact: Duration) -> Duration {
        match self.world {
            World::Embedded(_) => exact,
            World::Real(_) => secs(20),
        }
    }

    /// Scripts that the server ran so far. Of a real one nobody knows: it has those of other cases too.
    pub fn calls(&self) -> Option<u64> {
        match &self.world {
            World::Embedded(server) => Some(server.calls()),
            World::Real(_) => None,
        }
    }

    /// How many it ran since there were so many.
    pub fn calls_since(&self, before: Option<u64>) -> Option<u64> {
        Some(self.calls()? - before?)
    }

    /// The field of an owner.
    pub fn field(&self, locks: &Locks, owner: &str) -> String {
        format!("{}:{owner}{}", locks.client_id(), self.kind.suffix)
    }

    /// An owner as errors and guards of this kind name it: with the transaction.
    pub fn owner(&self, owner: &Owner) -> String {
        format!("{owner}{}", self.kind.suffix.trim_start_matches(":write"))
    }

    /// What the server has: all of it, in words.
    pub async fn stored(&self, locks: &Locks) -> String {
        let command = if self.is_kind(locks, "plain") { "GET" } else { "HGETALL" };
        self.ask(&[command, &self.name]).await
    }

    /// Makes it held by somebody who left no lease, or one that outlives everybody.
    pub async fn take_without_lease(&self, locks: &Locks) {
        if self.is_kind(locks, "plain") {
            self.ask(&["SET", &self.name, "somebody's"]).await;
        } else if self.is_kind(locks, "grouped") {
            let [until, count] = ["expire_time", "lock_count"].map(|what| format!("{VALUE}:java:1:{what}"));
            self.ask(&["HSET", &self.name, VALUE, "java:1", &until, "9999999999999", &count, "1"]).await;
        } else {
            self.ask(&["HSET", &self.name, "java:1", "1"]).await;
        }
    }

    /// The field that has the count of a hold.
    pub fn count_field(&self, locks: &Locks, owner: &str) -> String {
        let field = self.field(locks, owner);
        if self.is_kind(locks, "grouped") {
            format!("{VALUE}:{field}:lock_count")
        } else {
            field
        }
    }

    pub fn is_kind(&self, locks: &Locks, kind: &str) -> bool {
        format!("{:?}", self.lock(locks)).contains(&format!("kind: \"{kind}\""))
    }

    /// Awaits that a waiter of this client has subscribed. Spin and red locks don't: they get a moment.
    pub async fn until_waiting(&self, client: &Locks) {
        let spins = self.is_kind(client, "spin") || self.is_kind(client, "fenced_spin");
        if spins || format!("{:?}", self.lock(client)).starts_with("RedLock") {
            return sleep(ms(50)).await;
        }
        while client.health().subscriptions == 0 {
            sleep(ms(1)).await;
        }
    }

    /// Asks the server itself. Nothing is `nil`, a list is its members with blanks between.
    pub async fn ask(&self, args: &[&str]) -> String {
        match &self.world {
            World::Real(deployment) => {
                let answer = deployment.command(args, &self.name).await;
                answer.map_or_else(|error| error, |reply| text_of(&reply.into()))
            }
            World::Embedded(server) => server.command(args).map_or_else(|error| error, |reply| text_of(&reply)),
        }
    }

    /// Hears what is said on these channels, which are in one slot. At the embedded server nobody can.
    pub async fn listen(&self, channels: &[&str]) -> Option<Listener> {
        match &self.world {
            World::Real(deployment) => Some(deployment.listen(channels).await),
            World::Embedded(_) => None,
        }
    }

    /// The command that messages are sent by.
    pub fn publish(&self) -> &'static str {
        match &self.world {
            World::Real(deployment) => deployment.publish(),
            World::Embedded(_) => "PUBLISH",
        }
    }

    /// Whether another server may take the place of one.
    pub fn fails_over(&self) -> bool {
        matches!(self.world, World::Real(Deployment::Sentinel(_) | Deployment::Cluster(_)))
    }

    /// A key in the slot of the name.
    pub fn beside(&self, key: &str) -> String {
        format!("{{{}}}:{key}", self.name)
    }

    /// Runs a script of lua/ by hand, as a copy that the network delayed would run it.
    pub async fn eval(&self, text: &str, keys: &[&str], args: &[&str]) -> String {
        match &self.world {
            World::Real(_) => self.ask(&[&["EVAL", text, &keys.len().to_string()], keys, args].concat()).await,
            World::Embedded(server) => server.eval(text, keys, args).map_or_else(|error| error, |it| text_of(&it)),
        }
    }

    /// A copy of a call that comes so many milliseconds before its `not_after`: its status and what it answers.
    pub async fn copy(&self, script: &str, ahead: i64, keys: &[&str], args: &[&str]) -> String {
        let not_after = (self.time().await + ahead).to_string();
        let answer = self.eval(script, keys, &[&["nonce", &not_after], args].concat()).await;
        match answer.split(' ').collect::<Vec<_>>()[..] {
            [status, "nonce", _now, ref rest @ ..] => [&[status], rest].concat().join(" "),
            _ => answer,
        }
    }

    /// The lease of the lock under test, in milliseconds: of a group's value no longer than the key's.
    pub async fn pttl(&self) -> i64 {
        let ttl = self.pttl_of(&self.name).await;
        let owner = self.ask(&["HGET", &self.name, VALUE]).await;
        let until = self.ask(&["HGET", &self.name, &format!("{VALUE}:{owner}:expire_time")]).await;
        match until.parse::<i64>() {
            Ok(until) => ttl.min(until - self.time().await),
            Err(_) => ttl,
        }
    }

    /// The lease of a key, in milliseconds.
    pub async fn pttl_of(&self, key: &str) -> i64 {
        self.ask(&["PTTL", key]).await.parse().unwrap()
    }

    /// The keys of the members where it is made of some, in the order that they are taken in; the first is any lock's.
    pub fn members(&self) -> [String; 3] {
        ["", ":m", ":z"].map(|member| format!("{}{member}", self.name))
    }

    pub async fn is_free(&self) -> bool {
        for member in self.members() {
            if self.ask(&["EXISTS", &member]).await != "0" {
                return false;
            }
        }
        true
    }

    /// The server's time in milliseconds.
    pub async fn time(&self) -> i64 {
        let reply = self.ask(&["TIME"]).await;
        let (secs, micros) = reply.split_once(' ').unwrap();
        secs.parse::<i64>().unwrap() * 1000 + micros.parse::<i64>().unwrap() / 1000
    }
}

/// The way to the servers, which may be closed.
pub struct Way(pub Option<deployment::Way>);

impl Way {
    pub fn new(case: &Case) -> Self {
        match &case.world {
            World::Real(deployment) => Self(Some(deployment.way())),
            World::Embedded(_) => Self(None),
        }
    }

    /// A client that goes by it.
    pub async fn client(&self, case: &Case, builder: Builder) -> Locks {
        match &self.0 {
            Some(way) => way.connect(builder, case.by).await,
            None => case.client_with(builder).await,
        }
    }

    pub fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.0.iter().flat_map(deployment::Way::proxies)
    }

    pub fn open(&self, case: &Case, yes: bool) {
        match (&case.world, &self.0) {
            (World::Embedded(server), _) if yes => server.start(),
            (World::Embedded(server), _) => server.stop(),
            (World::Real(_), way) => way.as_ref().unwrap().close(!yes),
        }
    }
}

/// Polls a future so often, each time after others have run; what it came to, if it did.
pub async fn poll_times<F: Future + Unpin>(polls: usize, mut future: F) -> Option<F::Output> {
    for _ in 0..polls {
        if let Poll::Ready(output) = futures::poll!(&mut future) {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

pub async fn unlock_all(guards: impl IntoIterator<Item = Guard>) {
    for guard in guards {
        guard.unlock().await.unwrap();
    }
}

fn text_of(reply: &lockson::Reply) -> String {
    match reply {
        lockson::Reply::Nil => "nil".to_owned(),
        lockson::Reply::Int(number) => number.to_string(),
        lockson::Reply::Text(text) => text.clone(),
        lockson::Reply::List(items) => items.iter().map(text_of).collect::<Vec<_>>().join(" "),
        other => panic!("{other:?}"),
    }
}

pub fn spin_lock(locks: &Locks, name: &str) -> SpinLock {
    locks.spin_lock(name, lockson::Backoff::default())
}

pub fn group_value(locks: &Locks, name: &str) -> GroupLock {
    locks.group_lock(name, "value")
}

pub fn read(locks: &Locks, name: &str) -> ReadLock {
    locks.read_write_lock(name).read()
}

pub fn write(locks: &Locks, name: &str) -> WriteLock {
    locks.read_write_lock(name).write()
}

pub fn write_in_transaction(locks: &Locks, name: &str) -> WriteLock {
    write(locks, name).in_transaction("t1").unwrap()
}
