//! Commands for hashes.

use super::{command, head, int, is, natural, wrong_arity, Command, NOT_POSITIVE, SYNTAX};
use crate::hash::Hash;
use crate::numbers::parse_int;
use crate::store::Store;
use crate::value::{Answer, Text, Value};

pub(super) const COMMANDS: &[Command] = &[
    command("hget", 3, hget),
    command("hset", -4, |store, args| hset(store, args, "hset")),
    command("hmset", -4, |store, args| hset(store, args, "hmset").map(|_| Value::ok())),
    command("hsetnx", 4, hsetnx),
    command("hdel", -3, hdel),
    command("hexists", 3, hexists),
    command("hgetall", 2, hgetall),
    command("hkeys", 2, hkeys),
    command("hvals", 2, hvals),
    command("hlen", 2, hlen),
    command("hstrlen", 3, hstrlen),
    command("hrandfield", 3, hrandfield),
    command("hincrby", 4, hincrby),
    command("hmget", -3, hmget),
    command("hscan", -3, hscan),
];

/// Up to so many fields a real server keeps and lists in one piece (`hash-max-listpack-entries`).
const SMALL: usize = 512;

const NOT_INTEGER: Text = Text::Borrowed("ERR hash value is not an integer");

/// The value of a field, if there is a hash and in it the field.
fn field(hash: Option<&Hash>, field: &[u8]) -> Value {
    Value::optional(hash.and_then(|hash| hash.get(field)).map(<[u8]>::to_vec))
}

fn hget(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, name], _) = head(args)?;
    Ok(field(store.keys.read(key)?, name))
}

fn hmget(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key], names) = head(args)?;
    let hash = store.keys.read(key)?;
    Ok(Value::List(names.iter().map(|name| field(hash, name)).collect()))
}

fn hset(store: &mut Store, args: &[Vec<u8>], name: &str) -> Answer {
    let ([key], pairs) = head(args)?;
    let pairs = pairs.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(wrong_arity(name));
    }
    store.keys.write(key, |hash: &mut Hash| {
        let mut added = 0;
        for pair in pairs {
            let ([field, value], _) = head(pair)?;
            added += i64::from(hash.set(field, value.clone()));
        }
        Ok(Value::Int(added))
    })
}

fn hsetnx(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, field, value], _) = head(args)?;
    store.keys.write(key, |hash: &mut Hash| {
        let fresh = !hash.contains(field);
        if fresh {
            hash.set(field, value.clone());
        }
        Ok(Value::bool(fresh))
    })
}

fn hdel(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key], fields) = head(args)?;
    let removed =
        store.keys.update(key, |hash: &mut Hash| Ok(fields.iter().filter(|field| hash.remove(field)).count()))?;
    Ok(Value::count(removed.unwrap_or(0)))
}

fn hexists(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, field], _) = head(args)?;
    Ok(Value::bool(store.keys.read::<Hash>(key)?.is_some_and(|hash| hash.contains(field))))
}

/// Lists what `pick` takes of every field and value.
fn listed<const N: usize>(store: &mut Store, args: &[Vec<u8>], pick: fn([&[u8]; 2]) -> [&[u8]; N]) -> Answer {
    let ([key], _) = head(args)?;
    let hash = store.keys.read::<Hash>(key)?;
    Ok(Value::list(hash.into_iter().flat_map(Hash::iter).flat_map(|(field, value)| pick([field, value]))))
}

fn hgetall(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    listed(store, args, |pair| pair)
}

fn hkeys(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    listed(store, args, |[field, _]| [field])
}

fn hvals(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    listed(store, args, |[_, value]| [value])
}

/// A small hash comes in one page, as a real server gives it. Of the options only COUNT is known.
fn hscan(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, cursor], options) = head(args)?;
    let from = natural(cursor, Text::Borrowed("ERR invalid cursor"))?;
    // The options of a key that is not there are not looked at.
    let Some(hash) = store.keys.read::<Hash>(key)? else {
        return Ok(Value::List(vec![Value::bulk("0"), Value::EMPTY]));
    };
    let count = match options {
        [] => 10,
        [option, count] if is(option, "COUNT") => natural(count, SYNTAX)?.max(1),
        _ => return Err(SYNTAX),
    };
    let most = if hash.len() <= SMALL { SMALL } else { count };
    let mut entries = hash.iter_from(from as u64);
    let page = Value::list(entries.by_ref().take(most).flat_map(|(_, field, value)| [field, value]));
    let next = entries.next().map_or(0, |(place, ..)| place);
    Ok(Value::List(vec![Value::bulk(next.to_string()), page]))
}

fn hlen(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key], _) = head(args)?;
    Ok(Value::count(store.keys.read::<Hash>(key)?.map_or(0, Hash::len)))
}

fn hstrlen(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, name], _) = head(args)?;
    let value = store.keys.read::<Hash>(key)?.and_then(|hash| hash.get(name));
    Ok(Value::count(value.map_or(0, <[u8]>::len)))
}

/// Not by chance, so that a simulation repeats: the first fields.
fn hrandfield(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, count], _) = head(args)?;
    let count = natural(count, NOT_POSITIVE)?;
    let hash = store.keys.read::<Hash>(key)?;
    Ok(Value::list(hash.into_iter().flat_map(Hash::iter).take(count).map(|(field, _)| field)))
}

fn hincrby(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, field, by], _) = head(args)?;
    let by = int(by)?;
    store.keys.write(key, |hash: &mut Hash| {
        let old = match hash.get(field) {
            Some(text) => parse_int(text).ok_or(NOT_INTEGER)?,
            None => 0,
        };
        let new = old.checked_add(by).ok_or(super::OVERFLOW)?;
        hash.set(field, new.to_string().into_bytes());
        Ok(Value::Int(new))
    })
}
