//! Commands for the time that keys live.

use super::{command, head, int, is, printable, Command};
use crate::store::Store;
use crate::value::{Answer, Text, Value};

pub(super) const COMMANDS: &[Command] = &[
    command("expire", -3, |store, args| expire(store, args, Unit::SECONDS, "expire")),
    command("pexpire", -3, |store, args| expire(store, args, Unit::MILLIS, "pexpire")),
    command("expireat", -3, |store, args| expire(store, args, Unit::SECONDS_AT, "expireat")),
    command("pexpireat", -3, |store, args| expire(store, args, Unit::MILLIS_AT, "pexpireat")),
    command("persist", 2, persist),
    command("ttl", 2, |store, args| ttl(store, args, |left| (left + 500) / 1000)),
    command("pttl", 2, |store, args| ttl(store, args, |left| left)),
];

/// How a time is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    /// Milliseconds to one of it.
    millis: i64,
    /// Counted from 1970, not from now.
    absolute: bool,
}

impl Unit {
    const SECONDS: Self = Self { millis: 1000, absolute: false };
    const MILLIS: Self = Self { millis: 1, absolute: false };
    const SECONDS_AT: Self = Self { millis: 1000, absolute: true };
    const MILLIS_AT: Self = Self { millis: 1, absolute: true };

    /// The unit that an option of SET names.
    pub(super) fn of_option(option: &[u8]) -> Option<Self> {
        let named =
            [("EX", Self::SECONDS), ("PX", Self::MILLIS), ("EXAT", Self::SECONDS_AT), ("PXAT", Self::MILLIS_AT)];
        named.into_iter().find(|(name, _)| is(option, name)).map(|(_, unit)| unit)
    }
}

/// The moment that `amount` means; `command` is for the error text. Only `positive` amounts are times to SET.
pub(super) fn deadline(amount: i64, unit: Unit, now_ms: i64, command: &str, positive: bool) -> Answer<i64> {
    let base = if unit.absolute { 0 } else { now_ms };
    let sound = !positive || amount > 0;
    let at = amount.checked_mul(unit.millis).and_then(|millis| millis.checked_add(base)).filter(|_| sound);
    at.ok_or_else(|| format!("ERR invalid expire time in '{command}' command").into())
}

/// The conditions of EXPIRE.
#[derive(Default)]
struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Conditions {
    fn parse(args: &[Vec<u8>]) -> Answer<Self> {
        let mut found = Self::default();
        for arg in args {
            match arg.to_ascii_lowercase().as_slice() {
                b"nx" => found.nx = true,
                b"xx" => found.xx = true,
                b"gt" => found.gt = true,
                b"lt" => found.lt = true,
                _ => return Err(format!("ERR Unsupported option {}", printable(arg, arg.len())).into()),
            }
        }
        if found.nx && (found.xx || found.gt || found.lt) {
            return Err(Text::Borrowed("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if found.gt && found.lt {
            return Err(Text::Borrowed("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(found)
    }

    fn allow(&self, current: Option<i64>, at: i64) -> bool {
        let blocked = match current {
            None => self.xx || self.gt,
            Some(current) => self.nx || (self.gt && at <= current) || (self.lt && at >= current),
        };
        !blocked
    }
}

fn expire(store: &mut Store, args: &[Vec<u8>], unit: Unit, name: &str) -> Answer {
    let ([key, amount], rest) = head(args)?;
    let conditions = Conditions::parse(rest)?;
    let at = deadline(int(amount)?, unit, store.keys.now_ms(), name, false)?;
    let Some(current) = store.keys.expiry(key) else { return Ok(Value::Int(0)) };
    if !conditions.allow(current, at) {
        return Ok(Value::Int(0));
    }
    if at <= store.keys.now_ms() {
        store.keys.remove(key);
    } else {
        store.keys.set_expiry(key, Some(at));
    }
    Ok(Value::Int(1))
}

fn persist(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([key], _) = head(args)?;
    let had = store.keys.expiry(key).flatten().is_some();
    store.keys.set_expiry(key, None);
    Ok(Value::bool(had))
}

fn ttl(store: &mut Store, args: &[Vec<u8>], scale: fn(i64) -> i64) -> Answer {
    let ([key], _) = head(args)?;
    Ok(Value::Int(match store.keys.expiry(key) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => scale(at.saturating_sub(store.keys.now_ms()).max(0)),
    }))
}
