//! Commands for sorted sets, but for those that list a range.

use super::zrange::{self, range};
use super::{command, float, head, int, natural, slice, Command, NAN, NOT_POSITIVE, SYNTAX};
use crate::numbers::format_float;
use crate::sorted_set::SortedSet;
use crate::store::Store;
use crate::value::{Answer, Text, Value};

pub(super) const COMMANDS: &[Command] = &[
    command("zadd", -4, |store, args| zadd(store, args, false)),
    command("zincrby", 4, |store, args| zadd(store, args, true)),
    command("zrem", -3, zrem),
    command("zscore", 3, zscore),
    command("zmscore", -3, zmscore),
    command("zcard", 2, zcard),
    command("zrank", 3, zrank),
    command("zcount", 4, zcount),
    command("zremrangebyscore", 4, zremrangebyscore),
    command("zremrangebyrank", 4, zremrangebyrank),
    command("zpopmin", -2, zpopmin),
    command("zrange", -4, zrange::zrange),
    command("zrangebyscore", -4, zrange::zrangebyscore),
];

pub(super) fn score_text(score: f64) -> Value {
    Value::bulk(format_float(score))
}

/// The options of ZADD.
#[derive(Default)]
struct Options {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
    changed: bool,
    increment: bool,
}

impl Options {
    /// Reads the options and returns what follows them.
    fn parse(args: &[Vec<u8>]) -> Answer<(Self, &[Vec<u8>])> {
        let mut found = Self::default();
        let mut rest = args;
        while let [arg, tail @ ..] = rest {
            match arg.to_ascii_lowercase().as_slice() {
                b"nx" => found.nx = true,
                b"xx" => found.xx = true,
                b"gt" => found.gt = true,
                b"lt" => found.lt = true,
                b"ch" => found.changed = true,
                b"incr" => found.increment = true,
                _ => break,
            }
            rest = tail;
        }
        Ok((found, rest))
    }

    fn check(&self, members: usize) -> Answer<()> {
        let complaint = if self.nx && self.xx {
            "ERR XX and NX options at the same time are not compatible"
        } else if (self.nx && (self.gt || self.lt)) || (self.gt && self.lt) {
            "ERR GT, LT, and/or NX options at the same time are not compatible"
        } else if self.increment && members > 1 {
            "ERR INCR option supports a single increment-element pair"
        } else {
            return Ok(());
        };
        Err(Text::Borrowed(complaint))
    }

    /// The score that a member gets, or `None` when it stays as it is.
    fn next_score(&self, old: Option<f64>, given: f64) -> Answer<Option<f64>> {
        let Some(old) = old else { return Ok((!self.xx).then_some(given)) };
        if self.nx {
            return Ok(None);
        }
        let new = if self.increment { old + given } else { given };
        if new.is_nan() {
            return Err(NAN);
        }
        let blocked = (self.lt && new >= old) || (self.gt && new <= old);
        Ok((!blocked).then_some(new))
    }
}

/// What ZADD did.
#[derive(Default)]
struct Done {
    added: usize,
    updated: usize,
    last: Option<f64>,
}

fn zadd(store: &mut Store, args: &[Vec<u8>], incrby: bool) -> Answer {
    let ([key], rest) = head(args)?;
    let (options, rest) = match incrby {
        true => (Options { increment: true, ..Options::default() }, rest),
        false => Options::parse(rest)?,
    };
    let pairs = rest.chunks_exact(2);
    if rest.is_empty() || !pairs.remainder().is_empty() {
        return Err(SYNTAX);
    }
    options.check(pairs.len())?;
    let mut members = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let ([score, member], _) = head(pair)?;
        members.push((float(score)?, member));
    }
    let done = store.keys.write(key, |set: &mut SortedSet| {
        let mut done = Done::default();
        for (given, member) in members {
            let old = set.score(member);
            done.last = options.next_score(old, given)?;
            let Some(new) = done.last else { continue };
            done.added += usize::from(old.is_none());
            done.updated += usize::from(old.is_some_and(|old| old != new));
            if old != Some(new) {
                set.set(member, new);
            }
        }
        Ok(done)
    })?;
    Ok(match (options.increment, options.changed) {
        (true, _) => done.last.map_or(Value::Nil, score_text),
        (false, true) => Value::count(done.added + done.updated),
        (false, false) => Value::count(done.added),
    })
}

fn zrem(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key], members) = head(args)?;
    let removed =
        store.keys.update(key, |set: &mut SortedSet| Ok(members.iter().filter(|member| set.remove(member)).count()))?;
    Ok(Value::count(removed.unwrap_or(0)))
}

fn zscore(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, member], _) = head(args)?;
    let score = store.keys.read::<SortedSet>(key)?.and_then(|set| set.score(member));
    Ok(score.map_or(Value::Nil, score_text))
}

fn zmscore(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key], members) = head(args)?;
    let set = store.keys.read::<SortedSet>(key)?;
    let score = |member: &Vec<u8>| set.and_then(|set| set.score(member)).map_or(Value::Nil, score_text);
    Ok(Value::List(members.iter().map(score).collect()))
}

fn zcard(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key], _) = head(args)?;
    Ok(Value::count(store.keys.read::<SortedSet>(key)?.map_or(0, SortedSet::len)))
}

fn zrank(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, member], _) = head(args)?;
    let set = store.keys.read::<SortedSet>(key)?;
    let rank = set.and_then(|set| set.iter().position(|(other, _)| other == member.as_slice()));
    Ok(rank.map_or(Value::Nil, Value::count))
}

fn zcount(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, min, max], _) = head(args)?;
    let range = range(min, max)?;
    let set = store.keys.read::<SortedSet>(key)?;
    Ok(Value::count(set.map_or(0, |set| set.within(range).count())))
}

fn zremrangebyscore(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, min, max], _) = head(args)?;
    let range = range(min, max)?;
    let removed = store.keys.update(key, |set: &mut SortedSet| {
        let members: Vec<_> = set.within(range).map(|(member, _)| member.to_vec()).collect();
        Ok(members.iter().filter(|member| set.remove(member)).count())
    })?;
    Ok(Value::count(removed.unwrap_or(0)))
}

fn zremrangebyrank(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key, start, stop], _) = head(args)?;
    let (start, stop) = (int(start)?, int(stop)?);
    let removed = store.keys.update(key, |set: &mut SortedSet| {
        let (skip, take) = slice(start, stop, set.len());
        let members: Vec<_> = set.iter().skip(skip).take(take).map(|(member, _)| member.to_vec()).collect();
        Ok(members.iter().filter(|member| set.remove(member)).count())
    })?;
    Ok(Value::count(removed.unwrap_or(0)))
}

fn zpopmin(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key], rest) = head(args)?;
    let count = match rest {
        [] => 1,
        [count] => natural(count, NOT_POSITIVE)?,
        _ => return Err(SYNTAX),
    };
    let popped = store.keys.update(key, |set: &mut SortedSet| {
        let lowest: Vec<_> = set.iter().take(count).map(|(member, score)| (member.to_vec(), score)).collect();
        lowest.iter().for_each(|(member, _)| _ = set.remove(member));
        Ok(lowest)
    })?;
    let flat = popped.into_iter().flatten().flat_map(|(member, score)| [Value::Bulk(member), score_text(score)]);
    Ok(Value::List(flat.collect()))
}
