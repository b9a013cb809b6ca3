//! Commands for keys of any type.

use super::{command, head, is, Command, SYNTAX};
use crate::store::Store;
use crate::value::{Answer, Value};

pub(super) const COMMANDS: &[Command] = &[
    command("del", -2, del),
    command("unlink", -2, del),
    command("exists", -2, exists),
    command("type", 2, type_of),
    command("keys", 2, keys),
    command("dbsize", 1, dbsize),
    command("flushall", -1, flushall),
];

fn del(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    Ok(Value::count(args.iter().filter(|key| store.keys.remove(key)).count()))
}

fn exists(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    Ok(Value::count(args.iter().filter(|key| store.keys.exists(key)).count()))
}

fn type_of(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key], _) = head(args)?;
    Ok(Value::Status(store.keys.data(key).map_or("none", |data| data.type_name()).into()))
}

fn keys(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([pattern], _) = head(args)?;
    Ok(Value::list(store.keys.names().into_iter().filter(|name| matches(pattern, name))))
}

fn dbsize(store: &mut Store, _: &[Vec<u8>]) -> Answer {
    Ok(Value::count(store.keys.names().len()))
}

fn flushall(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    match args {
        [] => {}
        [mode] if is(mode, "SYNC") || is(mode, "ASYNC") => {}
        _ => return Err(SYNTAX),
    }
    store.keys.clear();
    Ok(Value::ok())
}

/// Whether a name matches a pattern with `*`, `?`, `[a-c]`, `[^a]` and `\`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], _) => name.is_empty(),
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|skip| name.get(skip..).is_some_and(|tail| matches(rest, tail))),
        (_, []) => false,
        ([b'?', rest @ ..], [_, tail @ ..]) => matches(rest, tail),
        ([b'[', rest @ ..], [byte, tail @ ..]) => {
            let (within, rest) = class(rest, *byte);
            within && matches(rest, tail)
        }
        ([b'\\', wanted, rest @ ..] | [wanted, rest @ ..], [byte, tail @ ..]) => wanted == byte && matches(rest, tail),
    }
}

/// Whether a byte is in the class that `pattern` starts with, and what follows the class.
fn class(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, pattern),
    };
    let mut within = false;
    loop {
        rest = match rest {
            [] => return (within != negated, rest),
            [b']', rest @ ..] => return (within != negated, rest),
            [b'\\', one, rest @ ..] => {
                within |= *one == byte;
                rest
            }
            [low, b'-', high, rest @ ..] => {
                within |= (*low.min(high)..=*low.max(high)).contains(&byte);
                rest
            }
            [one, rest @ ..] => {
                within |= *one == byte;
                rest
            }
        };
    }
}
