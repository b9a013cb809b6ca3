//! What lockson's scripts answer, and what commands and callers' scripts do.

use std::time::Duration;

use crate::backend::{Fate, Item};
use crate::base::clock::{Moment, ServerTime};
use crate::base::fault::{Fault, Refused};
use crate::error::QueryError;
use crate::wire::confirm::Short;

/// In place of the milliseconds until more may be known; less than any that PTTL has.
const AGAIN: i64 = -3;

/// What a script says first. The headers in `lua/` say when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Status {
    Done,
    Busy,
    NotHeld,
    WrongType(String),
    Tampered(String),
    Refused(Refused),
    /// It was done, and too few replicas have it.
    NotConfirmed(Short),
}

/// A script's answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    /// The server's, as the script ran.
    pub(crate) time: ServerTime,
    /// What follows status, nonce and time.
    pub(super) rest: Vec<Item>,
    /// When the copy that answered was sent: leases count from here.
    pub(crate) sent: Moment,
}

impl Answer {
    /// One that says what became of the call; anything else is an error. `closed`: the client was being closed.
    pub(crate) fn of(result: Result<Self, Fault>, name: &str, closed: bool) -> Result<Self, QueryError> {
        let mut answer = result.map_err(|fault| QueryError::of_fault(name, fault, closed))?;
        let name = name.to_owned();
        match std::mem::replace(&mut answer.status, Status::Done) {
            Status::WrongType(detail) => Err(QueryError::WrongType { name, detail }),
            Status::Tampered(found) => Err(QueryError::Tampered { name, found }),
            Status::Refused(why) => Err(QueryError::Refused { name, why }),
            status => Ok(Self { status, ..answer }),
        }
    }

    pub(crate) fn int(&self, at: usize) -> Option<i64> {
        match self.rest.get(at)? {
            Item::Int(value) => Some(*value),
            Item::Text(text) => text.parse().ok(),
            Item::Nil => None,
        }
    }

    /// A number; one that `T` does not have, as those below zero, says that it is not known.
    pub(crate) fn known<T: TryFrom<i64>>(&self, at: usize) -> Option<T> {
        self.int(at).and_then(|number| T::try_from(number).ok())
    }

    /// A number that counts something: 0 where it is not known.
    pub(crate) fn count<T: TryFrom<i64> + Default>(&self, at: usize) -> T {
        self.known(at).unwrap_or_default()
    }

    /// A number of milliseconds.
    pub(crate) fn millis(&self, at: usize) -> Option<Duration> {
        self.known(at).map(Duration::from_millis)
    }

    /// The server's run, since when it has lost nothing, and how long that is: where an answer ends with that.
    pub(crate) fn run(&self) -> Option<(&str, ServerTime, Duration)> {
        match self.rest.as_slice() {
            [.., Item::Text(run), Item::Int(since)] => {
                let age = u64::try_from(self.time.saturating_sub(*since)).unwrap_or_default();
                Some((run, *since, Duration::from_millis(age)))
            }
            _ => None,
        }
    }

    /// Whether it is not confirmed, as there are more replicas than the `asked` that were waited for.
    pub(super) fn is_short_of(&self, asked: u32) -> bool {
        matches!(&self.status, Status::NotConfirmed(Short { wanted, .. }) if *wanted > asked)
    }

    /// Whether the script stopped half-way, as one call may touch only so many elements (rule 12): to be called again.
    pub(crate) fn goes_on(&self) -> bool {
        self.status == Status::Busy && self.int(0) == Some(AGAIN)
    }

    pub(crate) fn items(&self) -> &[Item] {
        &self.rest
    }

    pub(crate) fn text(&self, at: usize) -> Option<&str> {
        match self.rest.get(at)? {
            Item::Text(text) => Some(text),
            Item::Int(_) | Item::Nil => None,
        }
    }
}

/// The answer of a command or a script. Bytes that are not UTF-8 are replaced; an error inside of a list becomes its
/// text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// No value.
    Nil,
    /// A whole number.
    Int(i64),
    /// A string or a status such as `OK`.
    Text(String),
    /// A list.
    List(Vec<Reply>),
}

impl Reply {
    /// So many lists may be inside of each other: each is a call more on the stack, and so where the reply is dropped.
    const DEEPEST: usize = 128;

    /// Reads what `lua/fenced/run.lua` wrote; `None` if it did not, or lists are inside of more than `DEEPEST`. The
    /// `Err` side is the error that was raised.
    pub(crate) fn read(items: &[Item]) -> Option<Result<Self, String>> {
        match items {
            [Item::Text(kind), Item::Text(raised)] if kind == "error" => Some(Err(raised.clone())),
            _ => Self::take(&mut items.iter(), Self::DEEPEST).map(Ok),
        }
    }

    fn take<'a>(items: &mut impl Iterator<Item = &'a Item>, deeper: usize) -> Option<Self> {
        let Item::Text(kind) = items.next()? else { return None };
        if kind == "nil" {
            return Some(Self::Nil);
        }
        match (kind.as_str(), items.next()?) {
            ("int", Item::Int(value)) => Some(Self::Int(*value)),
            ("text", Item::Text(text)) => Some(Self::Text(text.clone())),
            ("list", Item::Int(length)) => {
                let deeper = deeper.checked_sub(1)?;
                (0..*length).map(|_| Self::take(items, deeper)).collect::<Option<_>>().map(Self::List)
            }
            _ => None,
        }
    }
}

pub(super) fn take_text(rest: &mut Vec<Item>) -> String {
    match rest.pop() {
        Some(Item::Text(text)) => text,
        Some(Item::Int(value)) => value.to_string(),
        Some(Item::Nil) | None => String::new(),
    }
}

/// The command that would tell the type may be the one that is not allowed.
pub(super) fn wrong_type(text: String) -> Status {
    match Fate::of_error(&text) {
        Some(Fate::Refused(why)) => Status::Refused(why),
        Some(_) => Status::Refused(Refused::Other(text)),
        None => Status::WrongType(text),
    }
}

pub(super) fn refused_in_words(text: String) -> Refused {
    match Fate::of_error(&text) {
        Some(Fate::Refused(why)) => why,
        _ => Refused::Other(text),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn items() -> impl Strategy<Value = Vec<Item>> {
        let words = "(nil|int|text|list|error|[0-9-]{0,20}|.{0,5})".prop_map(Item::Text);
        let number = prop_oneof![any::<i64>(), -4i64..4].prop_map(Item::Int);
        prop::collection::vec(prop_oneof![words, number, Just(Item::Nil)], 0..8)
    }

    fn replies() -> impl Strategy<Value = Reply> {
        let one = prop_oneof![Just(Reply::Nil), any::<i64>().prop_map(Reply::Int), ".{0,4}".prop_map(Reply::Text)];
        one.prop_recursive(4, 32, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Reply::List))
    }

    /// As `lua/fenced/run.lua` writes it.
    fn write(reply: &Reply, items: &mut Vec<Item>) {
        let kind = |text: &str| Item::Text(text.to_owned());
        match reply {
            Reply::Nil => items.push(kind("nil")),
            Reply::Int(value) => items.extend([kind("int"), Item::Int(*value)]),
            Reply::Text(text) => items.extend([kind("text"), Item::Text(text.clone())]),
            Reply::List(list) => {
                items.extend([kind("list"), Item::Int(i64::try_from(list.len()).unwrap())]);
                list.iter().for_each(|reply| write(reply, items));
            }
        }
    }

    #[test]
    fn an_error_is_read_by_its_words() {
        let denied = "NOPERM this user has no permissions to run the 'pexpire' command";
        assert_eq!(refused_in_words(denied.to_owned()), Refused::NoPermission(denied.to_owned()));
        assert_eq!(refused_in_words("OOM command not allowed".to_owned()), Refused::OutOfMemory);
        assert_eq!(refused_in_words("LOADING".to_owned()), Refused::Other("LOADING".to_owned()));
    }

    #[test]
    fn an_answer_is_short_of_those_that_were_asked_where_there_are_more() {
        let answer = |status| Answer { status, time: 0, rest: Vec::new(), sent: Moment::from_nanos(0) };
        let short = |wanted| answer(Status::NotConfirmed(Short { acked: 1, wanted }));
        assert_eq!([1, 2, 3].map(|wanted| short(wanted).is_short_of(2)), [false, false, true]);
        assert!(!answer(Status::Done).is_short_of(0));
    }

    #[test]
    fn lists_in_lists_are_read_as_deep_as_the_stack_is_sure_to_go() {
        let nested = |depth| {
            let mut items = Vec::new();
            (0..depth).for_each(|_| items.extend([Item::Text("list".to_owned()), Item::Int(1)]));
            items.push(Item::Text("nil".to_owned()));
            Reply::read(&items)
        };
        assert!(nested(Reply::DEEPEST).is_some());
        assert_eq!([nested(Reply::DEEPEST + 1), nested(100_000)], [None, None]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_answer_is_read(rest in items(), time in any::<i64>(), at in 0usize..9) {
            let mut taken = rest.clone();
            prop_assert!(take_text(&mut taken).len() < 100);
            let answer = Answer { status: Status::Busy, time, rest, sent: Moment::from_nanos(0) };
            prop_assert_eq!(answer.goes_on(), answer.int(0) == Some(AGAIN));
            prop_assert_eq!(answer.millis(at).is_some(), answer.int(at).is_some_and(|ms| ms >= 0));
            prop_assert!(answer.count::<u32>(at) == 0 || answer.int(at) == Some(answer.count::<u32>(at).into()));
            if let Some((_, since, age)) = answer.run() {
                prop_assert_eq!(age.is_zero(), since >= time);
            }
        }

        #[test]
        fn any_items_of_a_callers_script_are_read(items in items()) {
            let _ = Reply::read(&items);
        }

        #[test]
        fn any_reply_of_a_callers_script_comes_back(reply in replies()) {
            let mut items = Vec::new();
            write(&reply, &mut items);
            prop_assert_eq!(Reply::read(&items), Some(Ok(reply)));
            items.pop();
            prop_assert!(!matches!(Reply::read(&items), Some(Ok(_))), "a part of it is none");
        }
    }
}
