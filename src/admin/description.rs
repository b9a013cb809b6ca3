//! What is under one name: what it is, who holds it, who waits.

use std::fmt;
use std::time::Duration;

use crate::error::QueryError;
use crate::locks::lock::Holder;
use crate::permits::permit_semaphore::PermitId;
use crate::wire::reply::Answer;

/// What a name is of, as far as its keys tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum What {
    /// Nothing: a lock that nobody holds, a latch that is open.
    Free,
    /// A lock, mutex, spin or fenced lock: on the server they are one. So is a fair lock for which nobody waits.
    Lock,
    /// A fair lock, or fair mutex, for which somebody waits.
    Fair,
    /// A read/write lock that is held for reading.
    Read,
    /// A read/write lock that is held for writing.
    Write,
    /// A plain lock, of lockson, redis-py or another library whose tokens are 32 hexadecimal digits.
    Plain,
    /// A semaphore; an expirable one while no permit of it is taken.
    Semaphore,
    /// An expirable semaphore of which permits are taken.
    PermitSemaphore,
    /// A latch that somebody waits for.
    Latch,
    /// A number without a lease: a semaphore, an expirable semaphore, a latch, or the counter of another program. The
    /// keys do not tell.
    Number,
    /// Nothing of lockson's or Redisson's.
    Foreign,
}

impl What {
    /// As the scripts of `lua/admin/` have it.
    pub(super) fn read(word: &str, waiting: u64) -> Option<Self> {
        Some(match word {
            "none" | "queue" if waiting > 0 => Self::Fair,
            "none" => Self::Free,
            "lock" if waiting > 0 => Self::Fair,
            "lock" => Self::Lock,
            "read" => Self::Read,
            "write" => Self::Write,
            "plain" => Self::Plain,
            "number" => Self::Number,
            "semaphore" => Self::Semaphore,
            "permits" => Self::PermitSemaphore,
            "foreign" => Self::Foreign,
            _ => return None,
        })
    }

    /// Whether the server has the owner of a hold.
    pub(super) fn has_owners(self) -> bool {
        matches!(self, Self::Lock | Self::Fair | Self::Read | Self::Write)
    }

    /// Whether it is a number.
    pub(super) fn counts(self) -> bool {
        matches!(self, Self::Number | Self::Semaphore | Self::PermitSemaphore | Self::Latch)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Free => "free",
            Self::Lock => "lock",
            Self::Fair => "fair",
            Self::Read => "read",
            Self::Write => "write",
            Self::Plain => "plain",
            Self::Semaphore => "semaphore",
            Self::PermitSemaphore => "permits",
            Self::Latch => "latch",
            Self::Number => "number",
            Self::Foreign => "foreign",
        })
    }
}

/// One that waits, and that the server knows of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The owner as the server has it: the client's id, a colon, and the owner.
    pub field: String,
    /// How long ago it was heard of last. `None` of a writer, and of one of Redisson.
    pub silent: Option<Duration>,
}

/// A permit that is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permit {
    /// Its id.
    pub id: PermitId,
    /// What is left of its lease.
    pub left: Duration,
}

/// What is under a name, by [`Admin::describe`](super::Admin::describe).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The name, without the client's prefix.
    pub name: String,
    /// What it is.
    pub what: What,
    /// What is left of the lease of its key; `None`: it has none, or there is no key.
    pub ttl: Option<Duration>,
    /// Who holds it: the first hundred.
    pub holders: Vec<Holder>,
    /// How many hold it, those among them whose leases have ended.
    pub held: u64,
    /// Who waits for a fair lock, or to write, the next one first: the first hundred. Others who wait are not known to
    /// the server.
    pub waiters: Vec<Waiter>,
    /// How many of those there are.
    pub waiting: u64,
    /// How many connections listen for its release, those of waiters among them; the waiters of a fair lock listen
    /// elsewhere. `None`: this user may not ask, or the server can't say.
    pub listening: Option<u64>,
    /// The last fencing token.
    pub token: Option<u64>,
    /// Of a plain lock: the token of the hold.
    pub token_of_hold: Option<String>,
    /// How many permits are free, without those that have expired since somebody looked; what a latch counts yet. Below
    /// zero it is a debt: so many are given back before one is free.
    pub number: Option<i64>,
    /// The permits that are taken: the first hundred, those that end first at the beginning.
    pub permits: Vec<Permit>,
    /// How many of those there are. `None`: it has no such permits.
    pub taken: Option<u64>,
    /// How the last latch of this name ended, if that was today: `opened` or `deleted`.
    pub ended: Option<String>,
    /// Of what is foreign: its type, in the server's words.
    pub foreign: Option<String>,
}

/// Where the rows of `lua/admin/describe.lua` begin.
const ROWS: usize = 15;

impl Description {
    pub(super) fn read(name: &str, answer: &Answer) -> Result<Self, QueryError> {
        let text = |at: usize| answer.text(at).unwrap_or_default();
        let listening: [Option<u64>; 5] = [10, 11, 12, 13, 14].map(|at| answer.known(at));
        let [locks, read_write, plain, semaphores, latches] = listening;
        let (queued, writing): (u64, u64) = (answer.count(8), answer.count(9));
        let taken: Option<u64> = answer.known(6);
        let Some(mut what) = What::read(text(0), queued) else {
            let detail = format!("the server said that it is {:?}", text(0));
            return Err(QueryError::WrongType { name: name.to_owned(), detail });
        };
        if what == What::Number {
            what = match () {
                () if taken.is_some() => What::PermitSemaphore,
                () if answer.int(4) == Some(1) || semaphores > Some(0) => What::Semaphore,
                () if latches > Some(0) => What::Latch,
                () => What::Number,
            };
        }
        let mut at = ROWS;
        let mut rows = |width: usize| -> Vec<usize> {
            let (first, count) = (at + 1, answer.count::<usize>(at).min(answer.items().len()));
            at = first + count * width;
            (0..count).map(|row| first + row * width).collect()
        };
        let [holders, waiters, permits] = [rows(3), rows(2), rows(2)];
        let holder = |at: usize| Holder::of(text(at), answer.known(at + 1), answer.millis(at + 2));
        let waiter = |at: usize| Waiter { field: text(at).to_owned(), silent: answer.millis(at + 1) };
        let permit =
            |at: usize| Some(Permit { id: text(at).parse().ok()?, left: answer.millis(at + 1).unwrap_or_default() });
        let value = Some(text(2).to_owned());
        Ok(Self {
            name: name.to_owned(),
            what,
            ttl: answer.millis(1),
            holders: holders.into_iter().filter_map(holder).collect(),
            held: answer.count(7),
            waiters: waiters.into_iter().map(waiter).collect(),
            waiting: queued + writing,
            listening: match what {
                What::Read | What::Write => read_write,
                What::Plain => plain,
                What::Semaphore | What::PermitSemaphore => semaphores,
                What::Latch => latches,
                What::Lock | What::Fair => locks,
                What::Free | What::Number | What::Foreign => listening.into_iter().flatten().reduce(|a, b| a + b),
            },
            token: text(3).parse().ok(),
            token_of_hold: value.clone().filter(|_| what == What::Plain),
            number: text(2).parse().ok().filter(|_| what.counts()),
            permits: permits.into_iter().filter_map(permit).collect(),
            taken,
            ended: text(5).split_once(' ').map(|(_, how)| how.to_owned()),
            foreign: value.filter(|_| what == What::Foreign),
        })
    }

    /// Whether a holder's field is a writer's.
    pub(super) fn writes(&self, field: &str) -> bool {
        self.what == What::Write && format!("{field}:").contains(":write:")
    }
}
