//! How many elements a script touches: for tests that it stays bounded as its keys grow.

use std::collections::HashSet;

use crate::keyspace::{Data, Keyspace};
use crate::value::{Answer, Value};

/// An element touched twice is one. A key without elements, or as a whole, counts as one.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    elements: HashSet<(Vec<u8>, Vec<u8>)>,
    /// Those that no answer names.
    nameless: usize,
}

impl Touched {
    pub(crate) fn count(&self) -> usize {
        self.elements.len() + self.nameless
    }

    /// Before a command runs: what it goes through without naming it.
    pub(crate) fn before(&mut self, keys: &mut Keyspace, command: &str, args: &[Vec<u8>]) {
        self.nameless += match (command, args) {
            ("del", keys_of) => keys_of.iter().map(|key| keys.data(key).map_or(0, size)).sum(),
            ("lrem" | "lpos", [key, ..]) => keys.data(key).map_or(0, size),
            _ => 0,
        };
    }

    /// Behind it: what it was about.
    pub(crate) fn after(&mut self, command: &str, args: &[Vec<u8>], answer: &Answer) {
        let Some((key, rest)) = args.split_first() else { return };
        let listed = match answer {
            Ok(Value::List(items)) => items.as_slice(),
            _ => &[],
        };
        match command {
            "zremrangebyscore" | "zremrangebyrank" => {
                self.nameless += match answer {
                    Ok(Value::Int(removed)) => usize::try_from(*removed).unwrap_or_default(),
                    _ => 0,
                };
            }
            "hgetall" => self.add_values(key, listed.iter().step_by(2)),
            "hscan" => {
                if let [_, Value::List(page)] = listed {
                    self.add_values(key, page.iter().step_by(2));
                }
            }
            "hkeys" | "hvals" | "lrange" | "zrange" | "zrangebyscore" | "zpopmin" => {
                self.add_values(key, listed.iter())
            }
            "hget" | "hexists" | "hdel" | "hmget" | "zrem" | "zscore" | "zmscore" | "hincrby" => {
                self.add(key, rest.iter())
            }
            "hset" => self.add(key, rest.iter().step_by(2)),
            "zadd" => {
                let options = ["xx", "nx", "gt", "lt", "ch", "incr"];
                let is_option =
                    |word: &&Vec<u8>| options.iter().any(|option| word.eq_ignore_ascii_case(option.as_bytes()));
                self.add(key, rest.iter().skip_while(is_option).skip(1).step_by(2));
            }
            "zincrby" => self.add(key, rest.iter().skip(1)),
            "exists" | "del" | "unlink" => args.iter().for_each(|key| self.add(key, [&Vec::new()])),
            _ => self.add(key, [&Vec::new()]),
        }
    }

    fn add<'a>(&mut self, key: &[u8], members: impl IntoIterator<Item = &'a Vec<u8>>) {
        self.elements.extend(members.into_iter().map(|member| (key.to_vec(), member.clone())));
    }

    fn add_values<'a>(&mut self, key: &[u8], values: impl IntoIterator<Item = &'a Value>) {
        for value in values {
            if let Value::Bulk(member) = value {
                self.add(key, [member]);
            }
        }
    }
}

/// How many elements it has.
fn size(data: &Data) -> usize {
    match data {
        Data::String(_) => 0,
        Data::Hash(hash) => hash.len(),
        Data::List(list) => list.len(),
        Data::SortedSet(set) => set.len(),
    }
}
