//! Commands for keys of any type.

use super::{command, head, int, is, natural, Command, SYNTAX};
use crate::store::Store;
use crate::value::{Answer, Text, Value};

pub(super) const COMMANDS: &[Command] = &[
    command("del", -2, del),
    command("unlink", -2, del),
    command("exists", -2, exists),
    command("type", 2, type_of),
    command("keys", 2, keys),
    command("scan", -2, scan),
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

/// By the hash of the name, so that a key that is there all the time is seen whatever comes and goes.
fn scan(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([cursor], options) = head(args)?;
    let from = natural(cursor, Text::Borrowed("ERR invalid cursor"))?;
    let (mut count, mut pattern) = (10, None);
    for option in options.chunks(2) {
        match option {
            [name, value] if is(name, "COUNT") => {
                count = usize::try_from(int(value)?).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
            }
            [name, value] if is(name, "MATCH") => pattern = Some(value),
            _ => return Err(SYNTAX),
        }
    }
    let mut names: Vec<(usize, Vec<u8>)> = store.keys.names().into_iter().map(|name| (place(&name), name)).collect();
    names.sort();
    let (mut page, mut next) = (Vec::new(), 0);
    for (place, name) in names.into_iter().filter(|(place, _)| *place >= from) {
        // Those of one place come together.
        if count == 0 && place != next {
            let page = Value::list(page);
            return Ok(Value::List(vec![Value::bulk(place.to_string()), page]));
        }
        (count, next) = (count.saturating_sub(1), place);
        if pattern.is_none_or(|pattern| matches(pattern, &name)) {
            page.push(name);
        }
    }
    Ok(Value::List(vec![Value::bulk("0"), Value::list(page)]))
}

/// FNV-1a, in 32 bits, and never 0: that is the beginning.
fn place(name: &[u8]) -> usize {
    let hash = name.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    hash.max(1) as usize
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
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
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
