//! Who owns a hold.

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::future::Future;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use tokio::task::Id;

use super::host::random;

/// The longest owner, in bytes; within a transaction, that and the transaction's id each.
const LONGEST: usize = 256;
/// What marks the field of a writer.
const WRITER: &str = "write";
/// What the field of a run begins with, behind the client's id: a number follows.
const RUN: &str = "run-";

tokio::task_local! {
    static SCOPE: Owner;
}

/// Who owns a hold: the part of Redisson's owner field that follows the client id.
///
/// Locks are reentrant by owner: the same owner enters again, another waits. Which owner a call acts for is decided at
/// its first poll, in this order:
///
/// 1. the one given to the handle by `owned_by`;
/// 2. the one whose [`scope`](Owner::scope) the code runs in;
/// 3. the tokio task (as Redisson's is the thread);
/// 4. outside any task, the thread.
///
/// Futures that are joined inside one task share its owner, so they do not exclude each other. Some HTTP servers run
/// many requests of one connection in one task. Give such futures scopes of their own:
///
/// ```
/// # async fn handle() {}
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use lockson::Owner;
/// Owner::unique().scope(handle()).await;
/// # });
/// ```
///
/// `Display` and `FromStr` round-trip. Owners of different clients differ on the server even when they are equal here:
/// the field holds the client's id too.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(Arc<str>);

impl Owner {
    /// An owner that no one else is: a fresh uuid.
    pub fn unique() -> Self {
        Self(format!("unique-{}", random().simple()).into())
    }

    /// An owner known by an id of yours, so that several tasks can share one hold.
    ///
    /// ```
    /// # async fn f(lock: lockson::ReentrantLock) -> Result<(), Box<dyn std::error::Error>> {
    /// use lockson::Owner;
    /// let owner = Owner::named("request-17")?;
    /// owner.scope(async { lock.guard().await }).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// An id that is empty, longer than 250 bytes, or that has a colon or a control character.
    pub fn named(id: impl AsRef<str>) -> Result<Self, InvalidOwner> {
        if id.as_ref().contains(':') {
            return Err(InvalidOwner);
        }
        format!("named-{}", id.as_ref()).parse()
    }

    /// The owner that code at this place acts for.
    pub fn current() -> Self {
        if let Ok(scoped) = SCOPE.try_with(Clone::clone) {
            return scoped;
        }
        match tokio::task::try_id() {
            Some(task) => Self(task.to_string().into()),
            None => Self(format!("thread-{}", thread_number()).into()),
        }
    }

    /// Runs a future in which this is the owner. What the future spawns is outside of it.
    ///
    /// # Cancel safety
    /// As the future's.
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        SCOPE.scope(self, future).await
    }

    /// This owner within a transaction.
    pub(crate) fn within(&self, transaction: &Self) -> Self {
        Self(format!("{}:{}", self.0, transaction.0).into())
    }

    /// This owner as a writer, as Redisson writes it.
    pub(crate) fn as_writer(&self) -> Self {
        Self(format!("{}:{WRITER}", self.0).into())
    }

    /// The owner whose field this is: a writer is the same owner as the reader. Of a run that is nobody that a call
    /// could act for.
    pub(crate) fn of_field(text: &str) -> Result<Self, InvalidOwner> {
        if is_run(text) {
            return Ok(Self(text.into()));
        }
        let parts: Vec<&str> = text.split(':').filter(|part| *part != WRITER).collect();
        parts.join(":").parse()
    }

    /// The owner, as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether these are the words for a run of turns.
fn is_run(text: &str) -> bool {
    text.strip_prefix(RUN)
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// `std::thread::ThreadId` has no stable number.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Owner {
    type Err = InvalidOwner;

    /// Reads what `Display` wrote, or what another client (Java's thread id) has on the server. Not `run-` and a
    /// number: that is in the owner's place while a client hands a lock on from task to task.
    fn from_str(text: &str) -> Result<Self, InvalidOwner> {
        // An owner within a transaction is two, with a colon between.
        let bad = |part: &str| matches!(part, "" | "named-" | WRITER) || part.len() > LONGEST;
        if text.split(':').any(bad) || text.contains(char::is_control) || is_run(text) {
            return Err(InvalidOwner);
        }
        Ok(Self(text.into()))
    }
}

/// An owner is 1 to 256 bytes without control characters; a name or an id in it has no colon, which parts it from
/// others. Within a transaction the owner and the id are as long each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an owner is 1 to 256 bytes without control characters, and a name in it has no ':'")]
pub struct InvalidOwner;

/// The field of a run of turns of one client: of whichever of its tasks has the turn.
pub(crate) fn run_field(client_id: &str, number: u64) -> Arc<str> {
    format!("{client_id}:{RUN}{number}").into()
}

/// The field of one owner of one client, as Redisson writes it.
pub(crate) fn field(client_id: &str, owner: &Owner) -> Arc<str> {
    [client_id, ":", &owner.0].concat().into()
}

/// The same of the owner that code at this place acts for.
pub(crate) fn current_field(client_id: &str) -> Arc<str> {
    let task = tokio::task::try_id().filter(|_| SCOPE.try_with(|_| ()).is_err());
    task.map_or_else(|| field(client_id, &Owner::current()), |task| field_of_task(client_id, task))
}

/// What a thread keeps: the field that it was asked for last, and room to write others in.
struct Last {
    text: String,
    field: Option<(Id, Arc<str>)>,
}

/// A task that unlocks is often the one that locked: the last that this thread was asked for is kept.
fn field_of_task(client_id: &str, task: Id) -> Arc<str> {
    thread_local! {
        static LAST: RefCell<Last> = const { RefCell::new(Last { text: String::new(), field: None }) };
    }
    let write = |text: &mut String| {
        text.clear();
        let _ = write!(text, "{client_id}:{task}");
        Arc::<str>::from(&**text)
    };
    let is_of = |field: &str| field.rsplit_once(':').is_some_and(|(client, _)| client == client_id);
    let of_thread = |last: &RefCell<Last>| {
        let Last { text, field } = &mut *last.borrow_mut();
        match field {
            Some((of, field)) if *of == task && is_of(field) => field.clone(),
            field => field.insert((task, write(text))).1.clone(),
        }
    };
    // Of a thread that ends nothing is kept.
    LAST.try_with(of_thread).unwrap_or_else(|_| write(&mut String::new()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_refused_or_comes_back(text in ".{0,20}|[a-c:\\-]{0,8}|named-.{0,4}|([a-c]|write|:){0,6}") {
            if let Ok(owner) = text.parse::<Owner>() {
                prop_assert_eq!(owner.as_str(), &text);
                prop_assert_eq!(owner.to_string().parse(), Ok(owner.clone()));
                prop_assert_eq!(Owner::of_field(owner.as_writer().as_str()), Ok(owner.clone()));
                prop_assert_eq!(Owner::of_field(&text), Ok(owner));
            }
        }

        #[test]
        fn any_two_owners_have_two_fields(ids in prop::array::uniform4("[ab\\-]{1,2}")) {
            let [a, b, c, d] = ids.each_ref().map(|id| Owner::named(id).unwrap());
            let owners = [a.clone(), b.clone(), a.within(&c), b.within(&d)];
            let fields = owners.map(|owner| [owner.clone(), owner.as_writer()]);
            prop_assert_eq!(fields[0] == fields[1], a == b);
            prop_assert_eq!(fields[2] == fields[3], a == b && c == d);
            let all: Vec<_> = [&fields[0], &fields[2]].into_iter().flatten().map(|owner| field("c", owner)).collect();
            let distinct: std::collections::BTreeSet<_> = all.iter().collect();
            prop_assert_eq!(distinct.len(), all.len());
        }
    }

    #[test]
    fn display_and_from_str_round_trip_and_refuse_the_same() {
        for owner in [Owner::unique(), Owner::named("request-17").unwrap(), Owner::current()] {
            assert_eq!(owner.to_string().parse::<Owner>(), Ok(owner));
        }
        assert_eq!("57".parse::<Owner>().map(|owner| owner.to_string()), Ok("57".to_owned()));
        for id in ["", "a:b", "a\nb", &"x".repeat(300)] {
            assert_eq!(Owner::named(id), Err(InvalidOwner));
        }
        for text in ["", "57:write", "named-", "run-7"] {
            assert_eq!(text.parse::<Owner>(), Err(InvalidOwner));
        }
    }

    #[test]
    fn a_writer_is_the_same_owner() {
        let owner: Owner = "57:a1".parse().unwrap();
        assert_eq!(Owner::of_field(owner.as_writer().as_str()), Ok(owner));
        let task: Owner = "57".parse().unwrap();
        assert_eq!(&*field("c", &task.as_writer().within(&"writer".parse().unwrap())), "c:57:write:writer");
        assert_eq!(Owner::of_field("57:write:writer").unwrap().as_str(), "57:writer");
    }

    #[test]
    fn an_owner_in_a_transaction_is_itself_however_long() {
        let owner = Owner::named("o".repeat(250)).unwrap().within(&"t".repeat(256).parse().unwrap());
        assert_eq!(Owner::of_field(owner.as_writer().as_str()), Ok(owner.clone()));
        assert_eq!(owner.to_string().parse(), Ok(owner));
    }

    /// Tasks that take turns on one thread, for clients of which one's name begins as the other's.
    #[tokio::test]
    async fn each_task_has_a_field_of_its_own_with_each_client() {
        let fields = || async {
            let task = tokio::task::id();
            for client in ["c", "c:1", "c", "d"] {
                for _ in 0..2 {
                    assert_eq!(*current_field(client), format!("{client}:{task}"));
                    tokio::task::yield_now().await;
                }
            }
            let scoped = Owner::named("scoped").unwrap();
            scoped.scope(async { assert_eq!(&*current_field("d"), "d:named-scoped") }).await;
        };
        let tasks = [(); 3].map(|()| tokio::spawn(fields()));
        for task in tasks {
            task.await.unwrap();
        }
    }

    #[test]
    fn a_thread_is_never_taken_for_a_task() {
        let here = Owner::current();
        assert_eq!(here, Owner::current());
        assert!(here.as_str().starts_with("thread-"));
        assert_ne!(std::thread::spawn(Owner::current).join().unwrap(), here);
    }
}
