//! Commands for strings.

use super::expiry::{deadline, Unit};
use super::{command, head, int, is, Command, OVERFLOW, SYNTAX};
use crate::keyspace::Data;
use crate::numbers::parse_int;
use crate::store::Store;
use crate::value::{Answer, Text, Value};

pub(super) const COMMANDS: &[Command] = &[
    command("get", 2, get),
    command("strlen", 2, strlen),
    command("set", -3, set),
    command("setnx", 3, setnx),
    command("getdel", 2, getdel),
    command("incr", 2, incr),
    command("decr", 2, decr),
    command("incrby", 3, incrby),
    command("decrby", 3, decrby),
];

fn string(store: &mut Store, key: &[u8]) -> Answer {
    Ok(Value::optional(store.keys.read::<Vec<u8>>(key)?.cloned()))
}

fn get(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key], _) = head(args)?;
    string(store, key)
}

fn strlen(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key], _) = head(args)?;
    Ok(Value::count(store.keys.read::<Vec<u8>>(key)?.map_or(0, Vec::len)))
}

fn getdel(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key], _) = head(args)?;
    let value = string(store, key)?;
    store.keys.remove(key);
    Ok(value)
}

fn setnx(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, value], _) = head(args)?;
    let fresh = !store.keys.exists(key);
    if fresh {
        store.keys.put(key, Data::String(value.clone()));
    }
    Ok(Value::bool(fresh))
}

/// The options of SET.
#[derive(Default)]
struct Options<'a> {
    /// `Some(true)`: only if the key exists; `Some(false)`: only if not.
    exists: Option<bool>,
    get: bool,
    keep_ttl: bool,
    expires: Option<(Unit, &'a [u8])>,
}

impl<'a> Options<'a> {
    fn parse(args: &'a [Vec<u8>]) -> Answer<Self> {
        let mut options = Self::default();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            if is(arg, "NX") && options.exists != Some(true) {
                options.exists = Some(false);
            } else if is(arg, "XX") && options.exists != Some(false) {
                options.exists = Some(true);
            } else if is(arg, "GET") {
                options.get = true;
            } else if is(arg, "KEEPTTL") && options.expires.is_none() {
                options.keep_ttl = true;
            } else {
                let unit = Unit::of_option(arg).ok_or(SYNTAX)?;
                let again = options.expires.as_ref().is_some_and(|(other, _)| *other != unit);
                let amount = rest.next().filter(|_| !options.keep_ttl && !again).ok_or(SYNTAX)?;
                options.expires = Some((unit, amount));
            }
        }
        Ok(options)
    }
}

fn set(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, value], rest) = head(args)?;
    let options = Options::parse(rest)?;
    let mut expires = None;
    if let Some((unit, amount)) = options.expires {
        expires = Some(deadline(int(amount)?, unit, store.keys.now_ms(), "set", true)?);
    }
    let old = if options.get { Some(string(store, key)?) } else { None };
    let found = store.keys.exists(key);
    if options.exists.is_some_and(|wanted| wanted != found) {
        return Ok(old.unwrap_or(Value::Nil));
    }
    if options.keep_ttl {
        expires = store.keys.expiry(key).flatten();
    }
    store.keys.put(key, Data::String(value.clone()));
    store.keys.set_expiry(key, expires);
    Ok(old.unwrap_or_else(Value::ok))
}

fn add(store: &mut Store, key: &[u8], by: i64) -> Answer {
    let old = match store.keys.read::<Vec<u8>>(key)? {
        Some(text) => int(text)?,
        None => 0,
    };
    let new = old.checked_add(by).ok_or(OVERFLOW)?;
    store.keys.write(key, |text: &mut Vec<u8>| {
        *text = new.to_string().into_bytes();
        Ok(Value::Int(new))
    })
}

fn incr(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key], _) = head(args)?;
    add(store, key, 1)
}

fn decr(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key], _) = head(args)?;
    add(store, key, -1)
}

fn incrby(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, by], _) = head(args)?;
    let by = int(by)?;
    add(store, key, by)
}

fn decrby(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, by], _) = head(args)?;
    let by = parse_int(by).ok_or(super::NOT_INTEGER)?;
    let by = by.checked_neg().ok_or(Text::Borrowed("ERR decrement would overflow"))?;
    add(store, key, by)
}
