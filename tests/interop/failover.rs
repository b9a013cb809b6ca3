//! The primary that both sides have their holds on is killed, and a replica takes its place: all goes on there.

use futures::future::LocalBoxFuture;
use support::permits;

use crate::*;

/// What gives something back.
type Give = LocalBoxFuture<'static, ()>;

/// What somebody of one side wants.
enum Want {
    Lock(Side),
    /// A permit of a semaphore of this kind.
    Permit(Peer, &'static str),
    /// The end of a latch.
    Open(Peer),
    /// To be the one that a latch waits for.
    Count(Peer),
}

/// What one side has, and the other waits for.
struct Stake {
    cell: Cell,
    name: String,
    give: Give,
    waiter: JoinHandle<()>,
    /// Somebody else of the waiter's side.
    passer: Want,
}

/// Holds and waiters of every kind, in both directions. Leases and caps are a minute: who waits is woken by a message.
pub async fn the_primary_is_killed(world: Arc<World>) {
    let [java, rust] = world.both().await;
    let mut stakes = Vec::new();
    for (holder, other) in [(&java, &rust), (&rust, &java)] {
        for kind in PAIRS.iter().map(|pair| pair.row).chain([composite::ROW, group::ROW]).chain(synchronizers::ROWS) {
            stakes.push(Stake::new(&world, kind, holder, other).await);
        }
    }
    for stake in &stakes {
        stake.is_heard(&world).await;
    }
    let (killed, its) = (Instant::now(), world.clone());
    tokio::task::spawn_blocking(move || its.place.fail_over()).await.unwrap();
    println!("{}: a successor after {:.1?}", world.place.name(), killed.elapsed());
    let mut waits = Vec::new();
    for stake in stakes {
        stake.is_heard(&world).await;
        let Stake { cell, name, give, waiter, passer } = stake;
        let what = format!("{} {}", cell.kind, cell.direction);
        assert!(!waiter.is_finished(), "{what}: got what is held");
        eventually(SOON, "an answer of the new primary", async || match passer.take(&name, "passer", ms(0)).await {
            Ok(taken) => {
                assert!(taken.is_none(), "{what}: another got what is held");
                true
            }
            Err(why) => {
                println!("{what}: {why}");
                false
            }
        })
        .await;
        let began = Instant::now();
        give.await;
        tokio::time::timeout(SOON, waiter).await.unwrap_or_else(|_| panic!("{what}: not woken")).unwrap();
        waits.push((began.elapsed(), what));
        cell.shows(&["failover"]);
    }
    println!("{}: the slowest hand-over behind a failover is {:?}", world.place.name(), waits.iter().max());
}

impl Stake {
    async fn new(world: &World, kind: &'static str, holder: &Peer, other: &Peer) -> Stake {
        let (name, cell) = (world.place.doomed_name(&kind.replace(':', "-")), world.cell(kind, holder.towards(other)));
        let members = [name.clone(), unique("elsewhere"), unique("elsewhere")];
        let want = |peer: &Peer, holds: bool, who: &str| match kind {
            "semaphore" | "permits" => Want::Permit(peer.clone(), kind),
            "latch" if holds => Want::Count(peer.clone()),
            "latch" => Want::Open(peer.clone()),
            composite::ROW => Want::Lock(composite::side(peer, &members, who)),
            group::ROW => Want::Lock(group::side(peer, (&name, &group::TWO), who)),
            _ => {
                let pair = PAIRS.iter().find(|pair| pair.row == kind).unwrap();
                Want::Lock(peer.lock(if holds { pair.kind } else { pair.rival }, &name, &format!("{who}-{name}")))
            }
        };
        let locks = world.rust(client()).await;
        match kind {
            "semaphore" => assert!(locks.semaphore(&name).try_set_permits(1).await.unwrap()),
            "permits" => assert!(locks.permit_semaphore(&name).try_set_permits(1).await.unwrap()),
            "latch" => assert!(locks.latch(&name).try_set_count(1).await.unwrap()),
            _ => {}
        }
        let give = want(holder, true, "holder").take(&name, "holder", SOON).await.unwrap().expect("it is free");
        let (waits, of) = (want(other, false, "waiter"), name.clone());
        let what = format!("{} {}", cell.kind, cell.direction);
        let waiter = spawn_local(async move {
            let taken = loop {
                match waits.take(&of, "waiter", LONG).await {
                    Ok(taken) => break taken,
                    Err(why) => {
                        // A spin lock of Redisson's throws; all others wait on.
                        assert_eq!(what, "spin_lock R>J", "a wait is ended by the failover: {why}");
                        println!("{what}: waits again: {why}");
                    }
                }
            };
            taken.expect("woken").await
        });
        let passer = want(other, false, "passer");
        Stake { cell, name, give, waiter, passer }
    }

    /// The waiter hears of a release, where it is now.
    async fn is_heard(&self, world: &World) {
        // One asks again and again, the other does that of one member after the other.
        if !["spin_lock", composite::ROW].contains(&self.cell.kind) {
            until_listening(world.place.server_of(&self.name), &self.name).await;
        }
    }
}

impl Want {
    /// `None`: it was not to be had in this time.
    async fn take(&self, name: &str, who: &str, wait: Duration) -> Result<Option<Give>, String> {
        let (who, name, limit) = (format!("{who}-{name}"), name.to_owned(), wait.as_millis());
        let free: Give = match self {
            Want::Lock(lock) => {
                let lock = lock.clone();
                let taken = lock.try_lock(wait, Some(LONG)).await?;
                let give: Give = Box::pin(async move { drop(lock.unlock().await.result.unwrap()) });
                return Ok(taken.then_some(give));
            }
            Want::Permit(Peer::Rust(locks), kind) => {
                let kind = if *kind == "semaphore" { "counted" } else { "leased" };
                let taken = permits::Kind::of(kind, locks, &name).guard(1, wait).await;
                let Some(guard) = taken.map_err(|error| error.to_string())? else { return Ok(None) };
                Box::pin(async move { guard.release().await.unwrap() })
            }
            Want::Permit(Peer::Java(java), kind) => {
                let lease = if *kind == "permits" { " 60000" } else { "" };
                let taken = java.call(&who, kind, &name, &format!("try_acquire 1 {limit}{lease}")).await?;
                let permit = if taken == "true" { "1" } else { &taken };
                if ["", "false"].contains(&permit) {
                    return Ok(None);
                }
                let (java, kind, verb) = (java.clone(), *kind, format!("release {permit}"));
                Box::pin(async move { drop(java.must(&who, kind, &name, &verb).await) })
            }
            Want::Open(Peer::Rust(locks)) => {
                let waited = locks.latch(&name).wait_for(wait.max(ms(10))).await.map_err(|error| error.to_string())?;
                return Ok((waited == WaitOutcome::Opened).then(|| Box::pin(async {}) as Give));
            }
            Want::Open(Peer::Java(java)) => {
                let opened = java.call(&who, "latch", &name, &format!("await {limit}")).await?;
                return Ok((opened == "true").then(|| Box::pin(async {}) as Give));
            }
            Want::Count(Peer::Rust(locks)) => {
                let latch = locks.latch(&name);
                Box::pin(async move { assert_eq!(latch.count_down().await.unwrap(), Some(0)) })
            }
            Want::Count(Peer::Java(java)) => {
                let java = java.clone();
                Box::pin(async move { drop(java.must(&who, "latch", &name, "count_down").await) })
            }
        };
        Ok(Some(free))
    }
}
