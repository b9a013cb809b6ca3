//! Values of a group as one: Redisson's `getMultiLock(group, values)`, and lockson's multi-lock of the same values.

use crate::*;

pub const ROW: &str = "group";

pub const ABSENT: Absent = &[("group", "forces", "here its values are forced, one by one: see `lock`")];

/// A group and the values of it that are taken.
pub type Values<'a> = (&'a str, &'a [&'a str]);

/// Those that are taken where nothing depends on them.
pub const TWO: [&str; 2] = ["a", "b"];

/// One side's lock of some values, for one owner.
pub fn side(peer: &Peer, (group, values): Values<'_>, who: &str) -> Side {
    match peer {
        Peer::Java(java) => {
            let (who, name) = (format!("{who}-{group}"), [&[group], values].concat().join("/"));
            Side::Java { java: java.clone(), who, object: "group", name }
        }
        Peer::Rust(locks) => {
            let all = MultiLock::new(values.iter().map(|value| locks.group_lock(group, value)));
            Side::Rust(Arc::new(all.owned_by(&Owner::named(who).unwrap())))
        }
    }
}

/// How often each value of the group is held, one after the other by who takes it.
async fn counts(world: &World, group: &str) -> Vec<String> {
    let fields = world.raw(group).await.hgetall(group).await;
    let mut held: Vec<String> =
        fields.iter().filter(|(name, _)| name.ends_with(":lock_count")).cloned().map(|(_, count)| count).collect();
    held.resize(3, String::new());
    held
}

pub async fn group_locks_keep_each_other_out(world: Arc<World>) {
    let [java, rust] = world.both().await;
    let short = world.both_short().await;
    tokio::join!(keeps_out(&world, &java, &rust, &short[0]), keeps_out(&world, &rust, &java, &short[1]));
}

async fn keeps_out(world: &World, holder: &Peer, other: &Peer, renewed: &Peer) {
    let (cell, name) = (world.cell(ROW, holder.towards(other)), unique("group"));
    // They overlap in one value.
    let (mine, theirs) = (side(holder, (&name, &["a", "b"]), "mine"), side(other, (&name, &["b", "c"]), "theirs"));
    let until_waiting = until_listening(world.place.server_of(&name), &name);
    let counts = async || counts(world, &name).await;
    composite::verbs(cell, [&mine, &theirs], ms(999), (counts, ["1", "1", ""]), until_waiting).await;
    let third = side(other, (&name, &["c"]), "third");
    mine.must_lock(None).await;
    assert!(third.take(ms(0), None).await, "a value that nobody has");
    third.unlock().await.result.unwrap();
    mine.unlock().await.result.unwrap();
    leaves_nothing(world, &name).await;
    let name = unique("group");
    let (mine, theirs) = (side(holder, (&name, &TWO), "mine"), side(other, (&name, &TWO), "theirs"));
    composite::expires(cell, [&mine, &theirs], ms(1500), true).await;
    leaves_nothing(world, &name).await;
    let name = unique("group");
    let (mine, theirs) = (side(renewed, (&name, &TWO), "mine"), side(other, (&name, &["b", "c"]), "theirs"));
    composite::renews(world, cell, [&mine, &theirs]).await;
    leaves_nothing(world, &name).await;
}
