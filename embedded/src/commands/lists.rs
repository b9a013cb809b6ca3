//! Commands for lists.

use super::{command, head, int, is, natural, slice, wrong_arity, Command, NOT_POSITIVE, SYNTAX};
use crate::keyspace::List;
use crate::numbers::parse_int;
use crate::store::Store;
use crate::value::{Answer, Text, Value};

pub(super) const COMMANDS: &[Command] = &[
    command("lpush", -3, |store, args| push(store, args, List::push_front)),
    command("rpush", -3, |store, args| push(store, args, List::push_back)),
    command("lpop", -2, |store, args| pop(store, args, "lpop", List::pop_front)),
    command("rpop", -2, |store, args| pop(store, args, "rpop", List::pop_back)),
    command("lrange", 4, lrange),
    command("lindex", 3, lindex),
    command("lrem", 4, lrem),
    command("llen", 2, llen),
    command("lpos", -3, lpos),
];

fn push(store: &mut Store, args: &[Vec<u8>], push: fn(&mut List, Vec<u8>)) -> Answer {
    let ([key], elements) = head(args)?;
    store.keys.write(key, |list: &mut List| {
        elements.iter().for_each(|element| push(list, element.clone()));
        Ok(Value::count(list.len()))
    })
}

fn pop(store: &mut Store, args: &[Vec<u8>], name: &str, pop: fn(&mut List) -> Option<Vec<u8>>) -> Answer {
    let ([key], rest) = head(args)?;
    let count = match rest {
        [] => None,
        [count] => Some(natural(count, NOT_POSITIVE)?),
        _ => return Err(wrong_arity(name)),
    };
    let popped = store.keys.update(key, |list: &mut List| {
        Ok(match count {
            None => Value::optional(pop(list)),
            Some(count) => Value::list((0..count).map_while(|_| pop(list))),
        })
    })?;
    Ok(popped.unwrap_or(Value::Nil))
}

fn lrange(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, start, stop], _) = head(args)?;
    let (start, stop) = (int(start)?, int(stop)?);
    let Some(list) = store.keys.read::<List>(key)? else { return Ok(Value::EMPTY) };
    let (skip, take) = slice(start, stop, list.len());
    Ok(Value::list(list.iter().skip(skip).take(take).cloned()))
}

fn lindex(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, index], _) = head(args)?;
    let Some(list) = store.keys.read::<List>(key)? else { return Ok(Value::Nil) };
    let index = int(index)?;
    let place = if index < 0 { index.checked_add_unsigned(list.len() as u64) } else { Some(index) };
    let found = place.and_then(|place| usize::try_from(place).ok()).and_then(|place| list.get(place));
    Ok(Value::optional(found.cloned()))
}

fn lrem(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, count, element], _) = head(args)?;
    let count = int(count)?;
    let limit = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let removed = store.keys.update(key, |list: &mut List| {
        let mut removed = 0;
        let mut keep = |other: &Vec<u8>| {
            let hit = removed < limit && other == element;
            removed += u64::from(hit);
            !hit
        };
        if count < 0 {
            let kept: Vec<_> = list.drain(..).rev().filter(&mut keep).collect();
            list.extend(kept.into_iter().rev());
        } else {
            list.retain(&mut keep);
        }
        Ok(removed)
    })?;
    Ok(Value::Int(i64::try_from(removed.unwrap_or(0)).unwrap_or(i64::MAX)))
}

fn llen(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key], _) = head(args)?;
    Ok(Value::count(store.keys.read::<List>(key)?.map_or(0, List::len)))
}

/// The options of LPOS.
struct Search {
    /// Which match comes first; negative: counted from the end.
    rank: i64,
    count: Option<usize>,
    /// How many elements are looked at; 0: all.
    limit: usize,
}

impl Search {
    fn parse(args: &[Vec<u8>]) -> Answer<Self> {
        const ZERO_RANK: Text = Text::Borrowed(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
             or use negative to start from the end of the list",
        );
        let mut search = Self { rank: 1, count: None, limit: 0 };
        for pair in args.chunks(2) {
            let [option, value] = pair else { return Err(SYNTAX) };
            if is(option, "RANK") {
                search.rank = parse_int(value).ok_or(super::NOT_INTEGER)?;
                if search.rank == 0 {
                    return Err(ZERO_RANK);
                }
            } else if is(option, "COUNT") {
                search.count = Some(natural(value, Text::Borrowed("ERR COUNT can't be negative"))?);
            } else if is(option, "MAXLEN") {
                search.limit = natural(value, Text::Borrowed("ERR MAXLEN can't be negative"))?;
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(search)
    }

    /// The places of the matches, the best first.
    fn run<'a>(&self, list: &'a List, element: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let backwards = self.rank < 0;
        let looked_at = if self.limit == 0 { list.len() } else { self.limit.min(list.len()) };
        let skip = usize::try_from(self.rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
        let place = move |step: usize| if backwards { list.len() - 1 - step } else { step };
        let hit = move |place: &usize| list.get(*place).is_some_and(|other| other == element);
        (0..looked_at).map(place).filter(hit).skip(skip)
    }
}

fn lpos(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, element], rest) = head(args)?;
    let search = Search::parse(rest)?;
    let list = store.keys.read::<List>(key)?;
    let mut places = list.into_iter().flat_map(|list| search.run(list, element)).map(Value::count);
    Ok(match search.count {
        None => places.next().unwrap_or(Value::Nil),
        Some(0) => Value::List(places.collect()),
        Some(count) => Value::List(places.take(count).collect()),
    })
}
