//! What is left when all is over: nothing but what has a bounded life, and what stays by rule.

use std::time::Duration;

use lockson_embedded::Value;
use tokio::time::sleep;

use crate::plan::{Fault, Kind, Turn, PROBE, TURN};
use crate::queue::texts;
use crate::road::Road;
use crate::take::{name_of, owner_of, take, RED_LEASE};
use crate::world::{World, PERMITS};

/// What is given back in the background takes so long at most.
const SOON: u64 = 6_000;
/// By then all that ends by itself has.
const LATE: Duration = Duration::from_secs(3 * 24 * 60 * 60);

pub struct Left<'a>(pub &'a World);

impl Left<'_> {
    pub async fn check(self) {
        let Self(world) = self;
        world.roads.iter().for_each(|road| *road.lock().unwrap() = Road::default());
        sleep(Duration::from_millis(SOON)).await;
        // What a process left that died, or what came back after it was given back, ends with its lease.
        let dies =
            |fault: &Fault| matches!(fault, Fault::Crash { .. } | Fault::Rollback { .. } | Fault::ClockBack { .. });
        if world.plan.faults().any(|(_, fault)| dies(fault)) {
            let longest = world.plan.turns().filter_map(|(_, turn)| turn.lease).max().unwrap_or(0);
            let back = |(_, fault): (u64, &Fault)| match fault {
                Fault::ClockBack { by, .. } => *by,
                _ => 0,
            };
            let back: u64 = world.plan.faults().map(back).sum();
            sleep(Duration::from_millis(longest.max(world.plan.lease).max(5_000) * 11 / 10 + back + SOON)).await;
        }
        // What a reader left that may not go, and died, is in nobody's way.
        let is_denied = world.plan.faults().any(|(_, fault)| matches!(fault, Fault::Deny { .. }));
        let has_readers =
            is_denied && world.plan.kinds().iter().any(|(_, kind)| matches!(kind, Kind::Read | Kind::Downgrade));
        let outlasts = |fault: &Fault| matches!(fault, Fault::Stop { .. } | Fault::Suspend { .. });
        let may_die = world.plan.faults().any(|(_, fault)| outlasts(fault));
        let is_left = |key: &str| is_lock(key) && !has_readers && !(may_die && self.is_of_the_dead(key));
        self.look("a lock is left", |key, ttl| is_left(key) || (ttl == -1 && !stays(key)));
        self.counts();
        self.permits();
        self.probe().await;
        sleep(LATE).await;
        self.look("it is left for ever", |key, _| !stays(key));
        self.look_at_counted();
    }

    /// One that is alive gets each lock, and all permits that come back by themselves.
    async fn probe(&self) {
        let world = self.0;
        let Some(client) = world.gates.iter().position(|gate| !gate.is_dead()) else { return };
        let is_had = |(name, kind): &(usize, Kind)| match kind {
            Kind::Semaphore | Kind::CountDown | Kind::Await => false,
            Kind::PermitSemaphore => world.judge.lock().unwrap().is_sound(*name),
            _ => true,
        };
        for (name, kind) in world.plan.kinds().into_iter().filter(is_had) {
            // No work: of permits it takes two, which are all. Each dead waiter of a fair lock may cost some seconds.
            let turn = Turn { task: PROBE, name, kind, wait: 60_000, work: 0, ..TURN };
            let ask = || owner_of(PROBE).scope(take(&turn, &world.clients[client]));
            if kind == Kind::Red {
                // Servers that lost their data vote again so long after they were asked.
                drop(ask().await);
                sleep(RED_LEASE).await;
            }
            match ask().await {
                Ok(Some(held)) => drop(held.give_back().await),
                Ok(None) => world.fails(format!("nobody gets {kind:?} {name} any more")),
                Err(error) => world.fails(format!("nobody gets {kind:?} {name} any more: {error}")),
            }
        }
    }

    fn look(&self, what: &str, is_wrong: impl Fn(&str, i64) -> bool) {
        for server in &self.0.servers {
            for key in texts((**server).command(&["KEYS", "*"])) {
                let Ok(Value::Int(ttl)) = (**server).command(&["PTTL", &key]) else { continue };
                if !self.is_counted(&key) && is_wrong(&key, ttl) {
                    self.0.fails(format!("{what}: {key}, for {ttl} ms"));
                }
            }
        }
    }

    /// Read holds alone, whose own leases are over: those that nobody could give back in time. The key lives on for a
    /// longer one that others gave back.
    fn is_of_the_dead(&self, key: &str) -> bool {
        let is_own = |turn: &Turn| name_of((turn.name, 0)) == key && turn.kind == Kind::Read && turn.lease.is_some();
        let ask = |words: &[&str]| (*self.0.servers[0]).command(words);
        let is_read = matches!(ask(&["HGET", key, "mode"]), Ok(Value::Bulk(mode)) if *mode == *b"read");
        let is_writers = |field: &String| field.ends_with(":write") || field == "write_end";
        is_read
            && self.0.plan.turns().any(|(_, turn)| is_own(turn))
            && !texts(ask(&["HKEYS", key])).iter().any(is_writers)
            && texts(ask(&["KEYS", &format!("{{{key}}}:*:rwlock_timeout:*")])).is_empty()
    }

    /// A semaphore or a latch.
    fn is_counted(&self, key: &str) -> bool {
        use Kind::{Await, CountDown, PermitSemaphore, Semaphore};
        let counted = [Await, CountDown, PermitSemaphore, Semaphore];
        let names = self.0.plan.turns().filter(|(_, turn)| counted.contains(&turn.kind));
        names.map(|(_, turn)| name_of((turn.name, 0))).any(|name| key == name || key.contains(&format!("{{{name}}}")))
    }

    /// A semaphore or a latch is one key for ever, and one for its ids or for who has it; no receipts.
    fn look_at_counted(&self) {
        let keys = texts((*self.0.servers[0]).command(&["KEYS", "*"]));
        let is_own = |key: &str| is_lock(key) || key.ends_with(":timeout") || key.contains("semaphore_life");
        for key in keys.into_iter().filter(|key| self.is_counted(key) && !is_own(key)) {
            self.0.fails(format!("it is left for ever: {key}"));
        }
    }

    /// All permits that nobody has are there: those without ids, where nobody died with them, or was refused to give
    /// them back.
    fn permits(&self) {
        let world = self.0;
        let may_keep = |fault: &Fault| matches!(fault, Fault::Crash { .. } | Fault::Deny { .. });
        if world.plan.faults().any(|(_, fault)| may_keep(fault)) {
            return;
        }
        for (name, _) in world.plan.kinds().into_iter().filter(|(_, kind)| *kind == Kind::Semaphore) {
            let judge = world.judge.lock().unwrap();
            let is_known = judge.is_sound(name) && !judge.went_back;
            drop(judge);
            let found = self.count(name);
            if is_known && found != PERMITS as usize {
                world.fails(format!("semaphore {name} has {found} permits left, of {PERMITS}"));
            }
        }
    }

    /// The number that a semaphore or a latch has on the server.
    fn count(&self, name: usize) -> usize {
        match (*self.0.servers[0]).command(&["GET", &name_of((name, 0))]) {
            Ok(Value::Bulk(text)) => String::from_utf8_lossy(&text).parse().unwrap_or(usize::MAX),
            _ => 0,
        }
    }

    /// What was counted must be what is left.
    fn counts(&self) {
        let counts = self.0.judge.lock().unwrap().counts_left();
        for (name, left) in counts {
            let found = self.count(name);
            if found != left {
                self.0.fails(format!("latch {name} has {found} left, and should have {left}"));
            }
        }
    }
}

/// The key of a lock itself.
fn is_lock(key: &str) -> bool {
    key.strip_prefix('n').is_some_and(|rest| rest.trim_end_matches('b').parse::<usize>().is_ok())
}

/// What stays by rule: the highest token of a name, which server this is, since when it has run.
fn stays(key: &str) -> bool {
    ["token", "server_id", "boot", "redisson_lock_token"].iter().any(|part| key.contains(part))
}
