//! Locks.

use lockson_model::locks::{Kind, Owner, Scope, Step, Verb, Without};
use lockson_model::search::search;
use Step::{Lock, LockOrLeave, Renew, TryLock, Unlock};

use crate::soak;

const ONCE: &[Step] = &[Lock, Unlock];
const NESTED: &[Step] = &[Lock, Lock, Unlock, Unlock];
const TWICE: &[Step] = &[Lock, Unlock, Lock, Unlock];
const EXCLUSION: &str = "at most one valid holder";
const COUNTS: &str = "the server's count is the registry's";
const TTL: &str = "every key ends by itself";
const ORDER: &str = "the fair order is the queue's";
const NOTHING_LEFT: &str = "nothing is left at the end";

/// Two owners of two processes.
fn two(kind: &Kind, a: &[Step], b: &[Step]) -> Vec<Owner> {
    vec![Owner::new(kind, "a:1", 0, a), Owner::new(kind, "b:1", 1, b)]
}

/// And one of a third.
fn three(kind: &Kind, steps: &[Step]) -> Vec<Owner> {
    let mut owners = two(kind, steps, steps);
    owners.push(Owner::new(kind, "c:1", 2, steps));
    owners
}

/// Two owners of one process.
fn beside(kind: &Kind, a: &[Step], b: &[Step]) -> Vec<Owner> {
    vec![Owner::new(kind, "a:1", 0, a), Owner::new(kind, "a:2", 0, b)]
}

fn readers_and_writers(readers: &[&'static str], writers: &[&'static str], steps: &[Step]) -> Vec<Owner> {
    let read = readers.iter().map(|field| (Kind::read(), *field));
    let all = read.chain(writers.iter().map(|field| (Kind::write(), *field)));
    all.enumerate().map(|(process, (kind, field))| Owner::new(&kind, field, process, steps)).collect()
}

/// One owner that writes and reads, and a rival that writes.
fn downgrade() -> Vec<Owner> {
    let mut owners = readers_and_writers(&["a:1"], &["a:1:write", "b:1:write"], ONCE);
    (owners[0].sibling, owners[1].sibling) = (Some(1), Some(0));
    (owners[0].process, owners[1].process) = (0, 0);
    owners
}

#[test]
fn reentrant() {
    let kind = Kind::reentrant();
    search("reentrant: 2 owners", Scope::new(two(&kind, ONCE, ONCE), 1, 4)).holds();
    search("reentrant: nested, and a rival", Scope::new(two(&kind, NESTED, &[TryLock, Unlock]), 1, 2)).holds();
    search("reentrant: renewed", Scope::new(two(&kind, &[Lock, Renew, Unlock], &[TryLock, Unlock]), 1, 3)).holds();
    if soak() {
        search("reentrant: 2 owners, 2 faults", Scope::new(two(&kind, ONCE, ONCE), 2, 6)).holds();
        search("reentrant: nested, and a rival", Scope::new(two(&kind, NESTED, ONCE), 1, 6)).holds();
        search("reentrant: twice, and a rival", Scope::new(two(&kind, TWICE, ONCE), 1, 7)).holds();
        search("reentrant: renewed", Scope::new(two(&kind, &[Lock, Renew, Renew, Unlock], ONCE), 1, 7)).holds();
        search("reentrant: 3 owners", Scope::new(three(&kind, ONCE), 1, 4)).holds();
    }
}

#[test]
fn handed_over() {
    let kind = Kind::reentrant();
    search("hand-over: 2 owners, and back", Scope::new(beside(&kind, TWICE, ONCE), 1, 2)).holds();
    if soak() {
        let mut owners = beside(&kind, ONCE, ONCE);
        owners.push(Owner::new(&kind, "b:1", 1, ONCE));
        search("hand-over: 2 owners, and a rival", Scope::new(owners, 1, 4)).holds();
        search("hand-over: 2 owners, and back, 2 faults", Scope::new(beside(&kind, TWICE, ONCE), 2, 5)).holds();
    }
}

#[test]
fn fair() {
    let kind = Kind::fair();
    search("fair: 2 owners", Scope::new(two(&kind, ONCE, ONCE), 1, 3)).holds();
    if soak() {
        search("fair: 2 owners", Scope::new(two(&kind, ONCE, ONCE), 1, 6)).holds();
        search("fair: 2 owners, one leaves", Scope::new(two(&kind, &[LockOrLeave, Unlock], ONCE), 1, 4)).holds();
        search("fair: 3 owners", Scope::new(three(&kind, ONCE), 0, 3)).holds();
    }
}

#[test]
fn read_write() {
    let pair = readers_and_writers(&["a:1"], &["b:1:write"], ONCE);
    search("read/write: a reader and a writer", Scope::new(pair, 1, 3)).holds();
    search("read/write: down from write, and a rival", Scope::new(downgrade(), 0, 2)).holds();
    if soak() {
        let three = readers_and_writers(&["a:1", "b:1"], &["c:1:write"], ONCE);
        search("read/write: two readers and a writer", Scope::new(three, 1, 4)).holds();
        let writers = readers_and_writers(&[], &["a:1:write", "b:1:write"], &[LockOrLeave, Unlock]);
        search("read/write: two writers that may leave", Scope::new(writers, 1, 5)).holds();
        let nested = readers_and_writers(&["a:1"], &["b:1:write"], NESTED);
        search("read/write: nested", Scope::new(nested, 1, 4)).holds();
        search("read/write: down from write, and a rival", Scope::new(downgrade(), 1, 3)).holds();
    }
}

const NOT_AFTER: &str = "if time[1] * 1000 + time[2] / 1000 >= not_after + 1 then";

#[test]
fn nothing_stands_without_its_rule() {
    let kind = Kind::reentrant();
    let broken = |name: &str, scope: Scope, property: &str| search(name, scope).breaks(property);
    let late = kind.clone().with(Verb::Acquire, NOT_AFTER, "if false then");
    broken("without not_after", Scope::new(two(&late, ONCE, ONCE), 1, 4), NOTHING_LEFT);
    let adds = "if found == n then redis.call('HINCRBY', lock, owner, '1') end";
    let twice = kind.clone().with(Verb::Acquire, adds, "redis.call('HINCRBY', lock, owner, '1')");
    broken("without absolute counts: acquire", Scope::new(two(&twice, ONCE, ONCE), 1, 4), COUNTS);
    let looks = "local found = redis.pcall('HGET', lock, owner)";
    let lower = kind.clone().with(Verb::Release, looks, &format!("{looks}\nn = found or n"));
    broken("without absolute counts: release", Scope::new(two(&lower, NESTED, ONCE), 1, 4), COUNTS);
    let ever = kind.clone().with(Verb::Acquire, "if lengthens or found ~= n then", "if false then");
    broken("without a TTL", Scope::new(two(&ever, ONCE, ONCE), 1, 4), TTL);
    let blind = kind.clone().with(Verb::Renew, "if redis.pcall('HEXISTS', lock, owner) == 1 then", "do");
    let renewed = two(&blind, &[Lock, Renew, Unlock], ONCE);
    broken("without the owner in a renewal", Scope::new(renewed, 1, 4), COUNTS);
    let left_out = |without, a: &[Step]| Scope::new(two(&kind, a, ONCE), 1, 5).without(without);
    broken("without the second settle", left_out(Without::SecondSettle, ONCE), NOTHING_LEFT);
    broken("without the wait for a release in doubt", left_out(Without::Waiting, TWICE), COUNTS);
    broken("without a settle while in doubt", left_out(Without::SettleInDoubt, NESTED), COUNTS);
    broken("the same, of a given up acquire", left_out(Without::GivenUpInDoubt, NESTED), COUNTS);
    broken("without the instant of sending", left_out(Without::SendInstant, ONCE), COUNTS);
    let heir = Scope::new(beside(&kind, TWICE, ONCE), 1, 3).without(Without::HeirCheck);
    broken("without the look at what an heir owes", heir, COUNTS);
}

#[test]
fn no_queue_and_no_mode_stand_without_theirs() {
    let passes = Kind::fair().with(Verb::Acquire, "if ttl ~= -2 or (head and head ~= owner) then", "if ttl ~= -2 then");
    search("fair, without the head", Scope::new(two(&passes, ONCE, ONCE), 1, 4)).breaks(ORDER);
    let stays = Kind::fair().with(Verb::Settle, "if not waits then remove(owner, head) end", "");
    search("fair, without leaving", Scope::new(two(&stays, ONCE, ONCE), 1, 3)).breaks(NOTHING_LEFT);
    let mut owners = readers_and_writers(&["a:1"], &["b:1:write"], ONCE);
    owners[0].kind = Kind::read().with(Verb::Acquire, "if is_busy then return {0, nonce, now, ttl} end", "");
    search("read/write, without the mode", Scope::new(owners, 1, 4)).breaks(EXCLUSION);
}
