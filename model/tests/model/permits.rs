//! Semaphores.

use lockson_model::permits::{Kind, Scope, Step, Without, ALL_BACK, MOST};
use lockson_model::search::search;
use Step::{Give, Set, Take};

use crate::soak;

const SETS: &[Step] = &[Set, Take, Give];
const TAKES: &[Step] = &[Take, Give];
const TWICE: &[Step] = &[Take, Give, Take, Give];

#[test]
fn semaphore() {
    let kind = Kind::semaphore();
    search("semaphore: 2 clients, 1 permit", Scope::new(kind.clone(), &[SETS, TAKES], 1, 1, 1)).holds();
    search("semaphore: set twice", Scope::new(kind.clone(), &[&[Set, Set, Take], TAKES], 1, 1, 1)).holds();
    if soak() {
        search("semaphore: 2 clients, 1 permit, 2 faults", Scope::new(kind.clone(), &[SETS, TAKES], 1, 2, 3)).holds();
        search("semaphore: twice", Scope::new(kind.clone(), &[SETS, TWICE], 1, 1, 4)).holds();
        search("semaphore: 3 clients, 2 permits", Scope::new(kind, &[SETS, TAKES, TAKES], 2, 1, 2)).holds();
    }
}

#[test]
fn permit_semaphore() {
    let kind = Kind::permit_semaphore();
    search("permit semaphore: 2 clients, 1 permit", Scope::new(kind.clone(), &[SETS, TAKES], 1, 1, 1)).holds();
    if soak() {
        let two = Scope::new(kind.clone(), &[SETS, TAKES], 1, 2, 4);
        search("permit semaphore: 2 clients, 1 permit, 2 faults", two).holds();
        search("permit semaphore: twice", Scope::new(kind.clone(), &[SETS, TWICE], 1, 1, 5)).holds();
        search("permit semaphore: 3 clients, 2 permits", Scope::new(kind, &[SETS, TAKES, TAKES], 2, 1, 2)).holds();
    }
}

#[test]
fn no_permit_stands_without_its_rule() {
    let broken = |name: &str, scope: Scope, property: &str| search(name, scope).breaks(property);
    let counted = |kind: &Kind| Scope::new(kind.clone(), &[SETS, TAKES], 1, 1, 3);
    let kind = Kind::semaphore();
    let mut forgets = kind.clone();
    forgets.take =
        forgets.take.with("local before, back, of = done_before(receipt, ARGV[3])", "local before, back, of");
    broken("without a receipt: take", counted(&forgets), ALL_BACK);
    let mut forgets = kind.clone();
    forgets.give = forgets.give.with("if done_before(receipt, ARGV[3]) then return {1, nonce, now} end", "");
    broken("without a receipt: give", counted(&forgets), MOST);
    let mut stranger = kind.clone();
    stranger.give = stranger
        .give
        .with("if mode == 'same' and (redis.call('GET', made) or 'none') ~= ARGV[7] then", "if false then");
    let again = Scope::new(stranger, &[&[Set, Take, Give], &[Set]], 1, 1, 3);
    broken("without what made it", again, MOST);
    broken("without undoing", counted(&kind).without(Without::Cancel), ALL_BACK);
    broken("with a receipt of two calls", counted(&kind).without(Without::OwnReceipt), ALL_BACK);
    let kind = Kind::permit_semaphore();
    broken("without undoing ids", Scope::new(kind.clone(), &[SETS, TAKES], 1, 1, 1).without(Without::Cancel), ALL_BACK);
    broken("without fresh ids", Scope::new(kind.clone(), &[SETS, TWICE], 1, 1, 4).without(Without::FreshIds), MOST);
    broken("without the first copy", counted(&kind).without(Without::FirstCopy), MOST);
}
