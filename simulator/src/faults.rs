//! The faults of a plan, each begun and ended at its moment.

use lockson::{Locks, Reply};
use lockson_embedded::Snapshot;
use tokio::time::{sleep_until, timeout, Duration, Instant};

use crate::judge::Damage;
use crate::plan::{Fault, Kind, Plan, TIMEOUT};
use crate::road::Weather;
use crate::take::{name_of, VALUES};
use crate::world::World;

enum Act {
    /// What a later rollback brings back.
    Save,
    Begin,
    End,
}

pub struct Weatherman<'a> {
    world: &'a World,
    /// When which fault begins or ends.
    acts: Vec<(u64, usize, Act)>,
    faults: Vec<Fault>,
    saved: Vec<Option<(u64, Snapshot)>>,
}

impl<'a> Weatherman<'a> {
    pub fn new(world: &'a World) -> Self {
        let mut acts = Vec::new();
        let mut faults = Vec::new();
        for (number, (at, fault)) in world.plan.faults().enumerate() {
            if let Fault::Rollback { age, .. } = fault {
                acts.push((kept(&world.plan, at, *age), number, Act::Save));
            }
            acts.push((at, number, Act::Begin));
            if let Some(lasts) = lasts(fault) {
                acts.push((at + lasts, number, Act::End));
            }
            faults.push(fault.clone());
        }
        acts.sort_by_key(|(at, ..)| *at);
        let saved = faults.iter().map(|_| None).collect();
        Self { world, acts, faults, saved }
    }

    pub async fn run(mut self, begun: Instant) {
        for (at, number, act) in std::mem::take(&mut self.acts) {
            sleep_until(begun + Duration::from_millis(at)).await;
            let fault = self.faults[number].clone();
            match act {
                Act::Save => {
                    let Fault::Rollback { server, .. } = fault else { continue };
                    self.saved[number] = self.world.servers.get(server).map(|server| (at, server.snapshot()));
                }
                Act::Begin => {
                    {
                        let mut judge = self.world.judge.lock().unwrap();
                        judge.note(&format!("{fault:?}"));
                        let lasts = lasts(&fault).unwrap_or(0);
                        judge.disturbs(&fault, lasts);
                        judge.troubles(&fault, lasts);
                        judge.look();
                    }
                    self.begin(number, &fault).await;
                }
                Act::End => self.end(&fault),
            }
        }
    }

    async fn begin(&mut self, number: usize, fault: &Fault) {
        let world = self.world;
        match fault {
            Fault::Calls { client, count, fate } => self.roads(|road| {
                road.calls[*client].extend((0..*count).map(|_| *fate));
            }),
            Fault::Messages { client, count, late } => self.roads(|road| {
                road.messages[*client].extend((0..*count).map(|_| *late));
            }),
            Fault::Weather { lost, unanswered, again, silent, delay, .. } => {
                let mut seed = world.plan.seed ^ number as u64;
                self.roads(|road| {
                    seed = seed.wrapping_add(1);
                    let chance = fastrand::Rng::with_seed(seed);
                    let (lost, unanswered, again, silent, delay) = (*lost, *unanswered, *again, *silent, *delay);
                    road.weather = Some(Weather { chance, lost, unanswered, again, silent, delay });
                });
            }
            Fault::Crash { client } => world.gates[*client].kill(),
            Fault::Pause { client, .. } => {
                world.judge.lock().unwrap().stalls[*client] += 1;
                world.gates[*client].stop();
            }
            Fault::Polls { client, .. } => {
                let seed = world.plan.seed.rotate_left(17) ^ number as u64;
                world.gates[*client].shuffles(Some(fastrand::Rng::with_seed(seed)));
            }
            Fault::Stray { name } => self.stray(*name),
            Fault::Suspend { span } => {
                world.judge.lock().unwrap().stalls.iter_mut().for_each(|stalls| *stalls += 1);
                world.servers.iter().for_each(|server| server.suspend(Duration::from_millis(*span)));
            }
            Fault::Force { client, name, kind } => {
                // Each try of it, and a copy of each, ends what is held by then.
                let asked = self.damage(Damage { key: Some(*name), until: u64::MAX / 2, ..self.now() });
                // A client that is dead asks nobody.
                if !world.gates[*client].is_dead() {
                    let name = name_of((*name, 0));
                    let forced = force(&name, *kind, &world.clients[*client][0]);
                    let _ = timeout(Duration::from_millis(TIMEOUT * 4), forced).await;
                }
                let mut judge = world.judge.lock().unwrap();
                judge.damages[asked].until = judge.now() + 2 * TIMEOUT;
            }
            Fault::Flush { servers } => {
                servers.iter().filter_map(|server| world.servers.get(*server)).for_each(|server| {
                    let done = server.command(&["FLUSHALL"]);
                    assert!(done.is_ok(), "an operator has all rights: {done:?}");
                });
                self.damage(self.now());
            }
            Fault::Slow { client, server, there, back, .. } => {
                self.slow(*client, *server, [*there, *back].map(Duration::from_millis));
            }
            Fault::Silent { .. } => world.servers[0].silence_replica(true),
            Fault::Reopen { name } => self.reopen(*name),
            Fault::Delete { name } => {
                let [key, other] = [name_of((*name, 0)), name_of((*name, 1))];
                // All of an expirable semaphore.
                let found = world.servers[0].command(&["DEL", &key, &other, &format!("{{{key}}}:timeout")]);
                if found.is_ok_and(|found| format!("{found:?}") != "Int(0)") {
                    world.judge.lock().unwrap().deleted(*name);
                }
                self.damage(Damage { key: Some(*name), ..self.now() });
                if !world.gates[0].is_stopped() {
                    let _ = timeout(Duration::from_millis(TIMEOUT * 4), world.set(Some(*name))).await;
                }
            }
            _ => self.befalls(number, fault),
        }
    }

    fn slow(&self, client: Option<usize>, server: usize, way: [Duration; 2]) {
        let Some(road) = self.world.roads.get(server) else { return };
        let mut road = road.lock().unwrap();
        let slow = road.slow.iter_mut().enumerate().filter(|(other, _)| client.is_none_or(|client| client == *other));
        slow.for_each(|(_, slow)| *slow = way);
    }

    /// What no release has sent, and what nobody can read.
    fn stray(&self, name: usize) {
        let key = name_of((name, 0));
        for channel in ["redisson_lock__channel", "redisson_rwlock", "redisson_sc", "lockson:plain"] {
            for message in ["0", "1", "nonsense"] {
                let told = self.world.servers[0].command(&["PUBLISH", &format!("{channel}:{{{key}}}"), message]);
                assert!(told.is_ok(), "{told:?}");
            }
        }
    }

    /// As Redisson does: it deletes the count at zero, and tells; and writes that of the next latch.
    fn reopen(&self, name: usize) {
        let (server, key) = (&self.world.servers[0], name_of((name, 0)));
        let channel = format!("redisson_countdownlatch__channel__{{{key}}}");
        let is_there = server.command(&["GET", &key]).is_ok_and(|count| count != Reply::Nil);
        if !is_there {
            return;
        }
        self.world.judge.lock().unwrap().reopened(name);
        for command in [["DEL", &key, ""], ["PUBLISH", &channel, "0"], ["SET", &key, "2"], ["PUBLISH", &channel, "1"]] {
            let words = command.iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>();
            let done = server.command(&words);
            assert!(done.is_ok(), "Java has all rights: {done:?}");
        }
    }

    /// What befalls a server.
    fn befalls(&mut self, number: usize, fault: &Fault) {
        let Some(server) = server_of(fault).and_then(|server| self.world.servers.get(server)) else { return };
        match fault {
            Fault::Cut { count, .. } => server.lose_replies(*count),
            Fault::Stop { .. } => server.stop(),
            Fault::Wipe { .. } => {
                server.wipe();
                self.damage(self.now());
            }
            Fault::Move { .. } => server.restart(&server.snapshot()),
            Fault::Rollback { .. } => {
                let Some((since, snapshot)) = self.saved[number].take() else { return };
                server.restart(&snapshot);
                if self.world.plan.confirmed.is_none() {
                    self.damage(Damage { kept: since, ..self.now() });
                }
                self.world.judge.lock().unwrap().went_back = true;
            }
            Fault::ClockAhead { by, .. } => {
                server.set_clock_ahead(Duration::from_millis(*by));
                self.damage(Damage { also_red: true, ..self.now() });
            }
            Fault::ClockBack { by, .. } => {
                server.set_clock_back(Duration::from_millis(*by));
                // What was sent before may pass for fresh for so long.
                let now = self.now();
                self.damage(Damage { until: now.from + by + 2 * TIMEOUT, is_clock: true, ..now });
            }
            Fault::Drift { fast, .. } => server.set_clock_rate(*fast),
            Fault::Full { .. } => server.set_full(true),
            Fault::Deny { command, .. } => server.deny(Some(command)),
            _ => {}
        }
    }

    fn end(&self, fault: &Fault) {
        match fault {
            Fault::Weather { .. } => self.roads(|road| road.weather = None),
            Fault::Pause { client, .. } => self.world.gates[*client].go_on(),
            Fault::Polls { client, .. } => self.world.gates[*client].shuffles(None),
            // Not while another of them goes on.
            Fault::Silent { .. } => {
                let now = self.now().from;
                let goes_on = silences(&self.world.plan).any(|(from, until)| from <= now && now < until);
                self.world.servers[0].silence_replica(goes_on);
            }
            Fault::Slow { client, server, .. } => self.slow(*client, *server, [Duration::ZERO; 2]),
            _ => {}
        }
        let Some(server) = server_of(fault).and_then(|server| self.world.servers.get(server)) else { return };
        match fault {
            Fault::Stop { .. } => server.start(),
            Fault::Full { .. } => server.set_full(false),
            Fault::Deny { .. } => server.deny(None),
            _ => {}
        }
    }

    fn roads(&self, mut change: impl FnMut(&mut crate::road::Road)) {
        self.world.roads.iter().for_each(|road| change(&mut road.lock().unwrap()));
    }

    /// All that is held at this moment may be lost.
    fn now(&self) -> Damage {
        let now = self.world.judge.lock().unwrap().now();
        Damage::of_all(now, now)
    }

    /// Its number.
    fn damage(&self, damage: Damage) -> usize {
        let mut judge = self.world.judge.lock().unwrap();
        judge.damages.push(damage);
        judge.damages.len() - 1
    }
}

/// The moment of which a rollback brings the data back: so long ago or, where a replica takes over that says what it
/// has, so long before it fell silent.
fn kept(plan: &Plan, at: u64, age: u64) -> u64 {
    let Some(lag) = plan.confirmed else { return at.saturating_sub(age) };
    // Backwards through all that follow on each other.
    let mut from = at;
    while let Some((earlier, _)) = silences(plan).find(|(earlier, until)| *earlier < from && from <= *until) {
        from = earlier;
    }
    from.saturating_sub(lag)
}

/// From when until when the replica is silent.
fn silences(plan: &Plan) -> impl Iterator<Item = (u64, u64)> + '_ {
    plan.faults().filter_map(|(from, fault)| match fault {
        Fault::Silent { lasts } => Some((from, from + lasts)),
        _ => None,
    })
}

async fn force(name: &str, kind: Kind, locks: &Locks) {
    let _ = match kind {
        Kind::Fair | Kind::FairMutex | Kind::FencedFair | Kind::Mixed => locks.fair_lock(name).force_unlock().await,
        Kind::Read => locks.read_write_lock(name).read().force_unlock().await,
        Kind::Write | Kind::FencedWrite | Kind::Downgrade => locks.read_write_lock(name).write().force_unlock().await,
        Kind::Plain => locks.plain_lock(name).force_unlock().await,
        Kind::Value | Kind::Group => locks.group_lock(name, VALUES[0]).force_unlock().await,
        Kind::Semaphore | Kind::PermitSemaphore | Kind::CountDown | Kind::Await | Kind::Red => Ok(false),
        _ => locks.lock(name).force_unlock().await,
    };
}

fn lasts(fault: &Fault) -> Option<u64> {
    match fault {
        Fault::Weather { lasts, .. }
        | Fault::Slow { lasts, .. }
        | Fault::Stop { lasts, .. }
        | Fault::Pause { lasts, .. }
        | Fault::Polls { lasts, .. }
        | Fault::Silent { lasts }
        | Fault::Full { lasts, .. }
        | Fault::Deny { lasts, .. } => Some(*lasts),
        _ => None,
    }
}

fn server_of(fault: &Fault) -> Option<usize> {
    match fault {
        Fault::Cut { server, .. }
        | Fault::Stop { server, .. }
        | Fault::Wipe { server }
        | Fault::Move { server }
        | Fault::Rollback { server, .. }
        | Fault::ClockAhead { server, .. }
        | Fault::ClockBack { server, .. }
        | Fault::Drift { server, .. }
        | Fault::Full { server, .. }
        | Fault::Deny { server, .. } => Some(*server),
        _ => None,
    }
}
