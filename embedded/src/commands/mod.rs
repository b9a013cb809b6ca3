//! The commands: a table, and how one is found and checked.

mod expiry;
mod hashes;
mod keys;
mod lists;
mod server;
mod sorted_sets;
mod strings;
mod zrange;

pub(crate) use keys::matches;
pub use server::REDIS_VERSION;

use crate::numbers::{parse_float, parse_int};
use crate::store::Store;
use crate::value::{lossy, Answer, Text};

/// One row of the table.
pub(super) struct Command {
    pub(super) name: &'static str,
    /// How many words it takes with its name; negative: at least so many.
    arity: isize,
    run: fn(&mut Store, &[Vec<u8>]) -> Answer,
}

const TABLES: [&[Command]; 7] = [
    strings::COMMANDS,
    keys::COMMANDS,
    expiry::COMMANDS,
    hashes::COMMANDS,
    lists::COMMANDS,
    sorted_sets::COMMANDS,
    server::COMMANDS,
];

/// A row, written short.
const fn command(name: &'static str, arity: isize, run: fn(&mut Store, &[Vec<u8>]) -> Answer) -> Command {
    Command { name, arity, run }
}

/// Finds a command by its name in any case.
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    let same = |command: &&Command| name.eq_ignore_ascii_case(command.name.as_bytes());
    TABLES.iter().flat_map(|table| table.iter()).find(same)
}

impl Command {
    /// Whether it takes so many words, its name among them.
    pub(super) fn takes(&self, words: usize) -> bool {
        if self.arity < 0 {
            words >= self.arity.unsigned_abs()
        } else {
            words == self.arity.unsigned_abs()
        }
    }

    /// Whether it may need memory, as Redis flags its commands `denyoom`, and whether it writes at all.
    pub(super) fn writes(&self) -> (bool, bool) {
        const GROW: [&str; 14] = [
            "hset", "hmset", "hsetnx", "hincrby", "lpush", "rpush", "zadd", "zincrby", "set", "setnx", "incr", "decr",
            "incrby", "decrby",
        ];
        const SHRINK: [&str; 17] = [
            "expire",
            "pexpire",
            "expireat",
            "pexpireat",
            "persist",
            "hdel",
            "del",
            "unlink",
            "flushall",
            "lpop",
            "rpop",
            "lrem",
            "zrem",
            "zremrangebyscore",
            "zremrangebyrank",
            "zpopmin",
            "getdel",
        ];
        let grows = GROW.contains(&self.name);
        (grows, grows || SHRINK.contains(&self.name))
    }

    /// Runs it; `args` are the words after the name.
    pub(super) fn run(&self, store: &mut Store, args: &[Vec<u8>]) -> Answer {
        (self.run)(store, args)
    }
}

/// Runs a command as a client sends it.
pub(super) fn execute(store: &mut Store, words: &[Vec<u8>]) -> Answer {
    let (name, args) = words.split_first().ok_or(Text::Borrowed("ERR no command"))?;
    let command = find(name).ok_or_else(|| unknown(name, args))?;
    if !command.takes(words.len()) {
        return Err(wrong_arity(command.name));
    }
    command.run(store, args)
}

fn unknown(name: &[u8], args: &[Vec<u8>]) -> Text {
    const LIMIT: usize = 128;
    let mut listed = String::new();
    for arg in args {
        if listed.len() >= LIMIT {
            break;
        }
        listed += &format!("'{}' ", printable(arg, LIMIT - listed.len()));
    }
    format!("ERR unknown command '{}', with args beginning with: {listed}", printable(name, LIMIT)).into()
}

/// An argument as it appears in an error text: C's strings end at a NUL, and an error is one line.
fn printable(arg: &[u8], limit: usize) -> String {
    let text = arg.split(|byte| *byte == 0).next().unwrap_or_default();
    lossy(text.get(..limit).unwrap_or(text)).replace(['\r', '\n'], " ")
}

/// The error texts that more than one command uses.
const SYNTAX: Text = Text::Borrowed("ERR syntax error");
pub(super) const NOT_INTEGER: Text = Text::Borrowed("ERR value is not an integer or out of range");
const NOT_FLOAT: Text = Text::Borrowed("ERR value is not a valid float");
const NOT_POSITIVE: Text = Text::Borrowed("ERR value is out of range, must be positive");
const OVERFLOW: Text = Text::Borrowed("ERR increment or decrement would overflow");
const NAN: Text = Text::Borrowed("ERR resulting score is not a number (NaN)");

pub(super) fn wrong_arity(name: &str) -> Text {
    format!("ERR wrong number of arguments for '{name}' command").into()
}

/// One word of a command.
type Word = Vec<u8>;

/// The first `N` arguments and the rest. The arity check lets nothing shorter through; the error is for the compiler.
fn head<const N: usize>(args: &[Word]) -> Answer<(&[Word; N], &[Word])> {
    args.split_first_chunk().ok_or(SYNTAX)
}

fn int(bytes: &[u8]) -> Answer<i64> {
    parse_int(bytes).ok_or(NOT_INTEGER)
}

fn float(bytes: &[u8]) -> Answer<f64> {
    parse_float(bytes).ok_or(NOT_FLOAT)
}

/// A count of 0 or more.
fn natural(bytes: &[u8], complaint: Text) -> Answer<usize> {
    parse_int(bytes).and_then(|value| usize::try_from(value).ok()).ok_or(complaint)
}

/// Whether an argument is this option, in any case.
pub(super) fn is(arg: &[u8], option: &str) -> bool {
    arg.eq_ignore_ascii_case(option.as_bytes())
}

/// The elements from `start` through `stop` of `len`, both of which may count from the end, as (skip, take).
fn slice(start: i64, stop: i64, len: usize) -> (usize, usize) {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let from_front = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let (start, stop) = (from_front(start).max(0), from_front(stop).min(len - 1));
    let take = if start > stop { 0 } else { stop - start + 1 };
    (usize::try_from(start).unwrap_or(usize::MAX), usize::try_from(take).unwrap_or(0))
}
