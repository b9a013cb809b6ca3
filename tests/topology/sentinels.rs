//! Sentinels find a successor for a primary that is dead, frozen, or told to go.

use support::prelude::*;
use support::Sentinels;

#[test]
fn sentinels_replace_a_killed_primary_and_take_it_in_again() {
    let all = Sentinels::start(ms(500));
    assert!((0..3).all(|sentinel| all.named_by(sentinel) == Some(0)) && all.is_primary(0));
    all.sentinels[0].kill();
    all.servers[0].kill();
    let heir = all.switched(0);
    all.sentinels[0].restart();
    all.servers[0].restart();
    assert_eq!(all.switched(0), heir, "the sentinel that was away says so too");
    all.demoted(0);
}

#[test]
fn sentinels_replace_a_frozen_primary() {
    let all = Sentinels::start(ms(500));
    all.servers[0].freeze();
    assert_ne!(all.switched(0), 0);
    all.servers[0].thaw();
    all.demoted(0);
}

#[test]
fn sentinels_replace_a_primary_that_lives_when_they_are_told() {
    let all = Sentinels::start(ms(1_000));
    all.fail_over();
    assert_ne!(all.switched(0), 0);
    all.demoted(0);
}
