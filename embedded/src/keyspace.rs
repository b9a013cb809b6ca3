//! Keys, what they hold and when they expire.

use std::collections::{BTreeMap, VecDeque};

use crate::hash::Hash;
use crate::sorted_set::SortedSet;
use crate::value::{Answer, Text};

const WRONG_TYPE: Text = Text::Borrowed("WRONGTYPE Operation against a key holding the wrong kind of value");

/// The list type.
pub(crate) type List = VecDeque<Vec<u8>>;

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Data {
    String(Vec<u8>),
    Hash(Hash),
    List(List),
    SortedSet(SortedSet),
}

impl Data {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Hash(_) => "hash",
            Self::List(_) => "list",
            Self::SortedSet(_) => "zset",
        }
    }
}

/// A type that a key can hold.
pub(crate) trait Kind: Default {
    fn of(data: &Data) -> Option<&Self>;
    fn of_mut(data: &mut Data) -> Option<&mut Self>;
    fn wrap(self) -> Data;
    /// Whether a key that holds this vanishes.
    fn is_gone(&self) -> bool;
}

macro_rules! kind {
    ($type:ty, $variant:ident, $gone:expr) => {
        impl Kind for $type {
            fn of(data: &Data) -> Option<&Self> {
                if let Data::$variant(found) = data {
                    Some(found)
                } else {
                    None
                }
            }

            fn of_mut(data: &mut Data) -> Option<&mut Self> {
                if let Data::$variant(found) = data {
                    Some(found)
                } else {
                    None
                }
            }

            fn wrap(self) -> Data {
                Data::$variant(self)
            }

            fn is_gone(&self) -> bool {
                $gone(self)
            }
        }
    };
}

kind!(Vec<u8>, String, |_: &Self| false);
kind!(Hash, Hash, |hash: &Self| hash.len() == 0);
kind!(List, List, |list: &Self| list.is_empty());
kind!(SortedSet, SortedSet, |set: &Self| set.len() == 0);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry {
    data: Data,
    /// Milliseconds on the server's clock; the key lives through this one.
    expires: Option<i64>,
}

/// All keys of a server at one moment: what they hold, and when they expire. Two of them are equal if no command could
/// tell them apart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Snapshot(BTreeMap<Vec<u8>, Entry>);

/// All keys. An expired key is dropped when it is next looked at, by the time that was last set.
#[derive(Debug, Default, Clone)]
pub(crate) struct Keyspace {
    // Sorted, so that KEYS answers the same in every run.
    entries: BTreeMap<Vec<u8>, Entry>,
    now_ms: i64,
}

impl Keyspace {
    /// Sets the time for all that follows: a script sees one moment only.
    pub(crate) fn set_now(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.now_ms
    }

    fn live(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let expired = self.entries.get(key)?.expires.is_some_and(|at| self.now_ms > at);
        if expired {
            self.entries.remove(key);
        }
        self.entries.get_mut(key)
    }

    pub(crate) fn data(&mut self, key: &[u8]) -> Option<&Data> {
        self.live(key).map(|entry| &entry.data)
    }

    pub(crate) fn exists(&mut self, key: &[u8]) -> bool {
        self.live(key).is_some()
    }

    /// What a key holds, if anything; an error when that is of another type.
    pub(crate) fn read<K: Kind>(&mut self, key: &[u8]) -> Answer<Option<&K>> {
        match self.data(key) {
            None => Ok(None),
            Some(data) => K::of(data).map(Some).ok_or(WRONG_TYPE),
        }
    }

    /// Changes what a key holds; a missing key is made first, an empty container is dropped afterwards.
    pub(crate) fn write<K: Kind, R>(&mut self, key: &[u8], change: impl FnOnce(&mut K) -> Answer<R>) -> Answer<R> {
        if self.live(key).is_none() {
            let mut fresh = K::default();
            let result = change(&mut fresh)?;
            if !fresh.is_gone() {
                self.entries.insert(key.to_vec(), Entry { data: fresh.wrap(), expires: None });
            }
            return Ok(result);
        }
        self.update(key, change)?.ok_or(WRONG_TYPE)
    }

    /// Changes what a key holds; `None`, and nothing is done, when there is no such key.
    pub(crate) fn update<K: Kind, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut K) -> Answer<R>,
    ) -> Answer<Option<R>> {
        let Some(entry) = self.live(key) else { return Ok(None) };
        let found = K::of_mut(&mut entry.data).ok_or(WRONG_TYPE)?;
        let result = change(found);
        if found.is_gone() {
            self.entries.remove(key);
        }
        result.map(Some)
    }

    /// Puts a value in place of whatever the key held, without an expiry.
    pub(crate) fn put(&mut self, key: &[u8], data: Data) {
        self.entries.insert(key.to_vec(), Entry { data, expires: None });
    }

    /// `true` when there was such a key.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        self.exists(key) && self.entries.remove(key).is_some()
    }

    /// When a key expires: `None` without the key, `Some(None)` without an expiry.
    pub(crate) fn expiry(&mut self, key: &[u8]) -> Option<Option<i64>> {
        self.live(key).map(|entry| entry.expires)
    }

    /// Sets or removes the expiry of a key that exists.
    pub(crate) fn set_expiry(&mut self, key: &[u8], expires: Option<i64>) {
        if let Some(entry) = self.live(key) {
            entry.expires = expires;
        }
    }

    /// The names of all keys.
    pub(crate) fn names(&mut self) -> Vec<Vec<u8>> {
        let now_ms = self.now_ms;
        self.entries.retain(|_, entry| entry.expires.is_none_or(|at| now_ms <= at));
        self.entries.keys().cloned().collect()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// A copy of all keys that have not expired.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let alive = self.entries.iter().filter(|(_, entry)| entry.expires.is_none_or(|at| self.now_ms <= at));
        Snapshot(alive.map(|(key, entry)| (key.clone(), entry.clone())).collect())
    }

    /// Puts a copy in the place of all keys.
    pub(crate) fn restore(&mut self, snapshot: &Snapshot) {
        self.entries.clone_from(&snapshot.0);
    }
}
