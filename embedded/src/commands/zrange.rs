//! Commands that list a range of a sorted set.

use super::sorted_sets::score_text;
use super::{head, int, is, slice, SYNTAX};
use crate::numbers::parse_float;
use crate::sorted_set::{Bound, Range, SortedSet};
use crate::store::Store;
use crate::value::{Answer, Text, Value};

const NOT_FLOAT: Text = Text::Borrowed("ERR min or max is not a float");

/// Reads a range of scores, where `(` leaves an end out.
pub(super) fn range(min: &[u8], max: &[u8]) -> Answer<Range> {
    Ok(Range { min: bound(min)?, max: bound(max)? })
}

fn bound(text: &[u8]) -> Answer<Bound> {
    let (exclusive, number) = match text {
        [b'(', number @ ..] => (true, number),
        number => (false, number),
    };
    // An end that is empty is 0: strtod, which reads it in Redis, used up all there is.
    let score = if number.is_empty() { Some(0.0) } else { parse_float(number) };
    score.map(|score| Bound { score, exclusive }).ok_or(NOT_FLOAT)
}

/// The options of ZRANGE.
#[derive(Default)]
struct Options {
    by_score: bool,
    reverse: bool,
    with_scores: bool,
    /// (offset, count); a negative count is no limit.
    limit: Option<(i64, i64)>,
}

impl Options {
    fn parse(args: &[Vec<u8>], by_score: bool) -> Answer<Self> {
        let mut options = Self { by_score, ..Self::default() };
        let mut rest = args;
        while let [arg, tail @ ..] = rest {
            rest = tail;
            if is(arg, "WITHSCORES") {
                options.with_scores = true;
            } else if is(arg, "LIMIT") {
                let [offset, count, tail @ ..] = tail else { return Err(SYNTAX) };
                options.limit = Some((int(offset)?, int(count)?));
                rest = tail;
            } else if is(arg, "REV") && !by_score {
                options.reverse = true;
            } else if is(arg, "BYSCORE") && !options.by_score {
                options.by_score = true;
            } else {
                return Err(SYNTAX);
            }
        }
        if !options.by_score && options.limit.is_some_and(|(_, count)| count != -1) {
            let complaint = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
            return Err(Text::Borrowed(complaint));
        }
        Ok(options)
    }

    /// How many to skip and how many to take.
    fn window(&self) -> (usize, usize) {
        let (offset, count) = self.limit.unwrap_or((0, -1));
        // A negative offset skips all of them, in Redis too.
        (usize::try_from(offset).unwrap_or(usize::MAX), usize::try_from(count).unwrap_or(usize::MAX))
    }
}

pub(super) fn zrange(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    list(store, args, false)
}

pub(super) fn zrangebyscore(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    list(store, args, true)
}

fn list(store: &mut Store, args: &[Vec<u8>], by_score: bool) -> Answer {
    let ([key, start, stop], rest) = head(args)?;
    let options = Options::parse(rest, by_score)?;
    if !options.by_score {
        let (start, stop) = (int(start)?, int(stop)?);
        let Some(set) = store.keys.read::<SortedSet>(key)? else { return Ok(Value::EMPTY) };
        let (skip, take) = slice(start, stop, set.len());
        return Ok(shown(set.iter(), &options, skip, take));
    }
    let range = if options.reverse { range(stop, start)? } else { range(start, stop)? };
    let Some(set) = store.keys.read::<SortedSet>(key)? else { return Ok(Value::EMPTY) };
    let (skip, take) = options.window();
    Ok(shown(set.within(range), &options, skip, take))
}

/// Lists a part of `members`, in the order and with the scores that were asked for.
fn shown<'a>(
    members: impl DoubleEndedIterator<Item = (&'a [u8], f64)>,
    options: &Options,
    skip: usize,
    take: usize,
) -> Value {
    let ordered: Vec<_> = if options.reverse { members.rev().collect() } else { members.collect() };
    let mut listed = Vec::new();
    for (member, score) in ordered.into_iter().skip(skip).take(take) {
        listed.push(Value::bulk(member));
        if options.with_scores {
            listed.push(score_text(score));
        }
    }
    Value::List(listed)
}
