//! What a server says of keys, and of lockson's scripts, while their slot moves key by key.

use support::prelude::*;
use support::{files, Cluster, Reply};

use super::told;

#[test]
fn a_slot_moves_key_by_key() {
    let cluster = Cluster::start(0, ms(2_000));
    let name = cluster.name_on(0, "topology");
    let slot = cluster.slot_of(&name);
    let keys = [name.clone(), format!("{{{name}}}:second"), format!("{{{name}}}:third")];
    for key in &keys {
        cluster.nodes[0].control(&["SET", key, "x"]);
    }
    let moving = cluster.move_slot(slot, 2);
    assert_eq!((moving.from, moving.to, moving.left().len()), (0, 2, 3));
    assert!(moving.take(&keys[1]) && !moving.take(&keys[1]));
    let at = |node: usize, words: &[&str]| told(cluster.nodes[node].try_control(words));
    assert_eq!((at(0, &["GET", &keys[0]]), at(0, &["GET", &keys[1]])), ("x".into(), "ASK".into()));
    assert_eq!(
        (at(0, &["EXISTS", &keys[0], &keys[1]]), at(2, &["GET", &keys[1]])),
        ("TRYAGAIN".into(), "MOVED".into())
    );
    moving.finish();
    assert_eq!(cluster.primary_of(slot), 2);
    assert_eq!(
        (at(0, &["GET", &keys[0]]), at(2, &["EXISTS", &keys[0], &keys[1], &keys[2]])),
        ("MOVED".into(), "3".into())
    );
}

/// The status of an answer, or the first word of the error.
pub fn run(node: &Server, script: &str, keys: &[&str], args: &[&str]) -> String {
    let (text, count) = (files::sent(script), keys.len().to_string());
    let announces: &[&str] = if files::announces(script) { &["PUBLISH", "channel"] } else { &[] };
    let words = [&["EVAL", &text, &count], keys, &["n", "9999999999999"], args, announces].concat();
    match node.try_control(&words) {
        Ok(Reply::Text(words)) => words.split(' ').next().unwrap_or_default().to_owned(),
        Ok(reply) => reply.list().iter().map(|item| item.optional().unwrap_or_default()).next().unwrap(),
        Err(error) => told(Err(error)),
    }
}

/// A channel among the keys made every release wait for the end of the move.
#[test]
fn a_release_runs_while_its_slot_moves() {
    let cluster = Cluster::start(0, ms(2_000));
    let node = &cluster.nodes[0];
    for (script, setup, args) in [
        ("reentrant/release", ["HSET", "o", "1"], &["o", "30000", "1"][..]),
        ("reentrant/settle", ["HSET", "o", "1"], &["o", "0"]),
        ("reentrant/force", ["HSET", "o", "1"], &[""]),
        ("plain/release", ["SET", "token", "NX"], &["token"]),
        ("plain/settle", ["SET", "token", "NX"], &["token", "0"]),
        ("plain/force", ["SET", "token", "NX"], &[]),
    ] {
        let name = cluster.name_on(0, "topology");
        node.control(&[setup[0], &name, setup[1], setup[2]]);
        let moving = cluster.move_slot(cluster.slot_of(&name), 1);
        assert_eq!(run(node, script, &[&name], args), "1", "{script}");
        assert!(moving.left().is_empty(), "{script}");
        moving.finish();
    }
}

/// What derives keys would end with an error half-way when one of them has moved and another has not.
#[test]
fn no_script_of_a_read_write_lock_runs_half_way_while_its_slot_moves() {
    let cluster = Cluster::start(0, ms(2_000));
    let (from, to) = (&cluster.nodes[0], &cluster.nodes[1]);
    let name = cluster.name_on(0, "topology");
    let [writers, turn, absent] =
        ["lockson:writers", "lockson:readers_turn", "lockson:absent"].map(|word| format!("{word}:{{{name}}}"));
    let hold = |owner: &str, number: u8| format!("{{{name}}}:{owner}:rwlock_timeout:{number}");
    let whole = [name.as_str(), &writers, &turn, &absent];
    for (owner, n) in [("a", "0"), ("a", "1"), ("b", "0")] {
        assert_eq!(run(from, "read/acquire", &whole, &[owner, "60000", n, "a:write"]), "1");
    }
    let moving = cluster.move_slot(cluster.slot_of(&name), 1);
    let before = |node: &Server| node.try_control(&["HGETALL", &name]).map(|reply| reply.texts());
    let calls: [(&str, &[&str], &[&str]); 9] = [
        ("read/acquire", &whole, &["c", "60000", "0", "c:write"]),
        ("read/admit", &whole, &["c", "60000"]),
        ("read/release", &[&name, &absent], &["a", "60000", "2"]),
        ("read/settle", &[&name, &absent], &["a", "0"]),
        ("read/extend", &[&name, &absent], &["a", "90000"]),
        ("read/force", &[&name, &absent], &[""]),
        ("read/inspect", &[&name, &absent], &["", "0"]),
        ("write/acquire", &[&name, &writers, &absent], &["w:write", "60000", "0", "2000"]),
        ("write/settle", &whole, &["w:write", "0"]),
    ];
    let renew = |node: &Server, owner: &str| run(node, "read/renew", &[&name, &hold(owner, 1)], &[owner, "60000"]);
    assert!(moving.take(&hold("a", 2)) && moving.take(&hold("b", 1)));
    let state = before(from);
    for (script, keys, args) in &calls {
        assert_eq!(run(from, script, keys, args), "TRYAGAIN", "{script}");
    }
    assert_eq!(before(from), state);
    assert_eq!((renew(from, "a"), renew(from, "b")), ("1".into(), "TRYAGAIN".into()));
    assert!(moving.take(&hold("a", 1)) && moving.take(&name));
    for (script, keys, args) in &calls {
        assert_eq!(run(from, script, keys, args), "ASK", "{script}");
    }
    moving.finish();
    assert_eq!((before(to), renew(to, "b")), (state, "1".into()));
}

/// A key that a script deletes it can't write again while the slot moves: the script ends there.
#[test]
fn no_script_of_a_semaphore_or_latch_runs_half_way_while_its_slot_moves() {
    let cluster = Cluster::start(0, ms(2_000));
    let node = &cluster.nodes[0];
    let calls: [(&str, &[&str]); 5] = [
        ("semaphore/change", &["3", "60000", "1", "always"]),
        ("cancel", &["2", "60000"]),
        ("latch/count_down", &["3", "60000"]),
        ("latch/cancel", &["2", "60000"]),
        ("latch/delete", &["3", "60000"]),
    ];
    for (script, args) in calls {
        let name = cluster.name_on(0, "topology");
        let keys = [name.clone(), format!("lockson:other:{{{name}}}"), format!("lockson:receipt:{{{name}}}")];
        // The receipt is of call 2.
        for (key, value) in keys.iter().zip(["5", "other", "2 1 1 other"]) {
            node.control(&["SET", key, value]);
        }
        let moving = cluster.move_slot(cluster.slot_of(&name), 1);
        assert_eq!(run(node, script, &keys.each_ref().map(String::as_str), args), "1", "{script}");
        moving.finish();
    }
}
