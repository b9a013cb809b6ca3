//! The oracle: it sees what begins, what is held and what the servers do, and says where a promise of
//! docs/GUARANTEES.md is broken. What a fault may break is noted as a damage, and nothing else is excused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::gate::Gate;
use crate::plan::{Fault, Kind, CLIENTS, TIMEOUT};
use crate::trace::Trace;
use crate::waits::{Waits, SETTLED};

/// Who works under a hold that is lost is told so soon.
const TOLD: u64 = 500;

/// For so long a client goes on from one owner to the next without a script: all of them have what the first one took.
const RUN: u64 = 20;

/// A name, and which of the two members of a lock of several.
pub type Key = (usize, usize);

/// What is seen of what a task has: by its handle, or from what a process said.
pub trait Seen: Send + Sync {
    /// Whether it says that it may be used.
    fn is_valid(&self) -> bool;
    fn permits(&self) -> usize;
    fn token(&self) -> Option<u64>;
    /// For how long it says that it may be used, if nothing renews it.
    fn left(&self) -> Duration;
}

/// What an alive client says that it has, and no fault may have taken away.
pub struct Claim {
    pub task: usize,
    pub kind: Kind,
    pub keys: Vec<Key>,
    pub left: Duration,
    pub permits: usize,
}

/// Something that a task has.
pub struct Hold {
    pub task: usize,
    pub kind: Kind,
    pub keys: Vec<Key>,
    /// When it was asked for, and when its last lease was.
    pub asked: u64,
    pub sent: u64,
    /// The longest lease that it may have.
    pub lease: u64,
    /// It is not renewed.
    pub is_fixed: bool,
    /// It is, all the time.
    pub is_renewed: bool,
    /// Of a red lock: since when it is seen to be lost.
    pub over: Option<u64>,
    /// Since when it is seen to be lost, while it is worked on as if it were not.
    pub lost: Option<u64>,
    pub is_worked: bool,
    pub held: Arc<dyn Seen>,
}

impl Hold {
    fn excludes(&self) -> bool {
        self.kind < Kind::Semaphore
    }

    /// How long before it was asked for its client may have taken it, or a lock of it.
    fn run(&self) -> u64 {
        let has_runs = matches!(self.kind, Kind::Lock | Kind::Mutex | Kind::Plain | Kind::Multi | Kind::Transaction);
        if has_runs && !self.is_fixed {
            RUN
        } else {
            0
        }
    }
}

/// A fault that may take holds away: of `key`, or of all; those that were there, unless they are as old as what came
/// back.
#[derive(Debug, Clone, Copy)]
pub struct Damage {
    pub key: Option<usize>,
    pub from: u64,
    pub until: u64,
    pub kept: u64,
    /// Whether tokens may go down.
    pub is_clock: bool,
    /// Whether a red lock suffers too: the servers that vote make up for one that loses its data, and not for one whose
    /// clock jumps ahead.
    pub also_red: bool,
}

impl Damage {
    /// To all that is held in this span.
    pub fn of_all(from: u64, until: u64) -> Self {
        Self { key: None, from, until, kept: 0, is_clock: false, also_red: false }
    }
}

#[derive(Default)]
struct Latch {
    needed: usize,
    begun: usize,
    done: usize,
    unknown: usize,
    /// Java opened it and set it anew: nobody knows how often it is to be counted down.
    is_foreign: bool,
}

pub struct Judge {
    /// Milliseconds of true time since it began.
    clock: Box<dyn Fn() -> u64 + Send>,
    pub gates: Vec<Arc<Gate>>,
    pub trace: Trace,
    pub scripts: usize,
    pub taken: usize,
    pub failures: Vec<String>,
    pub damages: Vec<Damage>,
    holds: Vec<Hold>,
    /// The highest token of a name, and whose it was.
    tokens: BTreeMap<usize, (u64, usize)>,
    /// A server went back to older data.
    pub went_back: bool,
    permits: BTreeMap<usize, usize>,
    latches: BTreeMap<usize, Latch>,
    lease: u64,
    /// A replica has what is granted, so that a failover takes none of it.
    pub is_confirmed: bool,
    /// Whether it prints what it notes.
    pub loud: bool,
    pub waits: Waits,
    /// How often a client stood still: what it waits for may take longer.
    pub stalls: [usize; CLIENTS],
    /// Whether a fault has begun yet: until then nothing goes wrong.
    pub is_calm: bool,
    /// Until then a fault may keep each client from renewing what it has, or take that away.
    troubled: [u64; CLIENTS],
}

impl Judge {
    pub fn new(lease: u64, gates: Vec<Arc<Gate>>, clock: impl Fn() -> u64 + Send + 'static) -> Self {
        Self {
            clock: Box::new(clock),
            gates,
            trace: Trace::default(),
            scripts: 0,
            taken: 0,
            failures: Vec::new(),
            damages: Vec::new(),
            holds: Vec::new(),
            tokens: BTreeMap::new(),
            went_back: false,
            permits: BTreeMap::new(),
            latches: BTreeMap::new(),
            lease,
            is_confirmed: false,
            loud: false,
            waits: Waits::default(),
            stalls: [0; CLIENTS],
            is_calm: true,
            troubled: [0; CLIENTS],
        }
    }

    /// Milliseconds of true time since the schedule began.
    pub fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Whether nothing may have taken away what is known of this name.
    pub fn is_sound(&self, name: usize) -> bool {
        self.damages.iter().all(|damage| damage.key.is_some_and(|damaged| damaged != name))
    }

    /// Whether a replica took the server's place: places in queues, and what was given back, may be as before.
    pub fn failed_over(&self) -> bool {
        self.is_confirmed && self.went_back
    }

    /// Something that was seen, for the trace.
    pub fn note(&mut self, what: &str) {
        let now = self.now();
        if self.loud {
            println!("{now:>6} {what}");
        }
        self.trace.add(now.to_le_bytes());
        self.trace.add(what);
    }

    pub fn fails(&mut self, what: String) {
        let what = format!("at {} ms: {what}", self.now());
        self.note(&what);
        self.failures.push(what);
    }

    /// The worst that a fault may do to what is held now.
    fn damage_of(&self, hold: &Hold, now: u64) -> Option<u64> {
        let can = |damage: &&Damage| {
            (damage.also_red || hold.kind != Kind::Red)
                && damage.key.is_none_or(|name| hold.keys.iter().any(|key| key.0 == name))
                && hold.asked <= damage.until + hold.run()
                && damage.from <= now
                && !(hold.is_fixed && hold.sent < damage.kept)
        };
        self.damages.iter().filter(can).map(|damage| damage.until).max()
    }

    /// A fault may have taken it away. It is not renewed any more, so it ends with its lease.
    fn is_excused(&self, hold: &Hold, now: u64) -> bool {
        self.damage_of(hold, now).is_some_and(|until| now <= until + hold.lease + TIMEOUT)
    }

    pub fn claims(&self) -> Vec<Claim> {
        let now = self.now();
        // Votes that are lost with a server's data keep it from voting for others.
        let is_sound = |hold: &&Hold| match hold.kind {
            Kind::Red => self.damages.is_empty(),
            _ => !self.is_excused(hold, now),
        };
        let claim = |hold: &Hold| Claim {
            task: hold.task,
            kind: hold.kind,
            keys: hold.keys.clone(),
            left: hold.held.left(),
            permits: hold.held.permits(),
        };
        let sound = self.holds.iter().filter(|hold| self.is_alive(hold)).filter(is_sound);
        sound.map(claim).filter(|claim| !claim.left.is_zero()).collect()
    }

    fn is_alive(&self, hold: &Hold) -> bool {
        !self.gates[hold.task % CLIENTS].is_dead()
    }

    /// Work that is run under a hold ends soon when that is lost.
    fn look_at_work(&mut self, now: u64, wrong: &mut Vec<String>) {
        for hold in &mut self.holds {
            let gate = &self.gates[hold.task % CLIENTS];
            if !hold.is_worked || gate.is_stopped() || hold.held.is_valid() {
                hold.lost = None;
                continue;
            }
            let since = *hold.lost.get_or_insert(now);
            if now - since > TOLD {
                wrong.push(format!("task {} works on, {} ms after its hold was lost", hold.task, now - since));
                hold.is_worked = false;
            }
        }
    }

    /// What is renewed, and no fault's, is not lost.
    fn look_at_renewed(&mut self, now: u64, wrong: &mut Vec<String>) {
        for hold in &mut self.holds {
            let client = hold.task % CLIENTS;
            if hold.held.is_valid() || self.gates[client].is_stopped() {
                continue;
            }
            if hold.kind == Kind::Red {
                hold.over.get_or_insert(now);
            }
            if std::mem::take(&mut hold.is_renewed) && self.troubled[client] <= hold.asked {
                wrong.push(format!("task {} lost {:?} {:?} for nothing", hold.task, hold.kind, hold.keys));
            }
        }
    }

    /// Red locks that are lost for so long that no server has a vote of them, unless it is renewed: whose, and which.
    pub fn spent(&self) -> Vec<(usize, usize)> {
        let now = self.now();
        // What is set back lasts longer.
        let is_sound = !self.damages.iter().any(|damage| damage.is_clock);
        let ends = |hold: &Hold| Some(hold.over? + hold.lease * 101 / 100 + 4 * TIMEOUT);
        let spent = self.holds.iter().filter(|hold| is_sound && ends(hold).is_some_and(|ends| ends < now));
        spent.map(|hold| (hold.task, hold.keys[0].0)).collect()
    }

    /// A fault may keep clients from renewing what they have, or take it away.
    pub fn troubles(&mut self, fault: &Fault, lasts: u64) {
        let settled = self.now() + lasts + SETTLED;
        let (client, until) = match fault {
            Fault::Messages { .. } | Fault::Slow { .. } | Fault::Drift { .. } | Fault::Reopen { .. } => return,
            Fault::Polls { .. } | Fault::Stray { .. } => return,
            Fault::Full { .. } | Fault::Crash { .. } | Fault::Move { .. } => return,
            Fault::Rollback { .. } if self.is_confirmed => return,
            // Nobody knows when these calls are made.
            Fault::Calls { client, .. } => (Some(*client), u64::MAX),
            Fault::Cut { .. } => (None, u64::MAX),
            Fault::Pause { client, .. } => (Some(*client), settled),
            // What was sent before may pass for fresh.
            Fault::ClockBack { by, .. } => (None, settled + by),
            _ => (None, settled),
        };
        for (other, troubled) in self.troubled.iter_mut().enumerate() {
            if client.is_none_or(|client| client == other) {
                *troubled = until.max(*troubled);
            }
        }
    }

    /// Work under a hold begins or ends.
    pub fn works(&mut self, task: usize, is_worked: bool) {
        if let Some(hold) = self.holds.iter_mut().find(|hold| hold.task == task) {
            (hold.is_worked, hold.lost) = (is_worked, None);
        }
    }

    /// Whatever is held must be held rightly.
    pub fn look(&mut self) {
        let now = self.now();
        let mut wrong = Vec::new();
        self.look_at_work(now, &mut wrong);
        self.look_at_renewed(now, &mut wrong);
        let valid: Vec<&Hold> = self.holds.iter().filter(|hold| self.is_alive(hold) && hold.held.is_valid()).collect();
        for (at, hold) in valid.iter().enumerate().filter(|(_, hold)| hold.excludes()) {
            for other in &valid[..at] {
                let both_read = hold.kind == Kind::Read && other.kind == Kind::Read;
                let same = hold.keys.iter().any(|key| other.keys.contains(key));
                if !same || both_read || !other.excludes() {
                    continue;
                }
                if ![hold, other].iter().any(|hold| self.is_excused(hold, now)) {
                    wrong.push(format!("tasks {} and {} are both inside {:?}", other.task, hold.task, hold.keys));
                }
            }
        }
        for (name, most) in &self.permits {
            let counts =
                |hold: &&Hold| hold.kind != Kind::PermitSemaphore || (self.is_alive(hold) && hold.held.is_valid());
            let here = self.holds.iter().filter(|hold| hold.keys[0].0 == *name).filter(counts);
            // What was only counted is counted wrong.
            let is_miscounted = |hold: &Hold| self.went_back && !self.is_confirmed && hold.kind == Kind::Semaphore;
            let sound = here.filter(|hold| self.damage_of(hold, now).is_none() && !is_miscounted(hold));
            let taken: usize = sound.map(|hold| hold.held.permits()).sum();
            if taken > *most {
                wrong.push(format!("{taken} permits of {most} are taken of name {name}"));
            }
        }
        wrong.into_iter().for_each(|what| self.fails(what));
    }

    /// A task has something from now on.
    pub fn enters(&mut self, hold: Hold) {
        let now = self.now();
        let what = format!("task {} has {:?} {:?}", hold.task, hold.kind, hold.keys);
        self.note(&what);
        self.taken += 1;
        if let Some(token) = hold.held.token() {
            let (highest, whose) = self.tokens.get(&hold.keys[0].0).copied().unwrap_or_default();
            self.trace.add(token.to_le_bytes());
            let is_excused = self.damage_of(&hold, now).is_some() || self.damages.iter().any(|damage| damage.is_clock);
            // It goes on with its last hold, of which an entry was still on its way back.
            let goes_on = token == highest && whose == hold.task;
            if token <= highest && !goes_on && hold.held.is_valid() && !is_excused {
                self.fails(format!("task {} has token {token}, after {highest}", hold.task));
            }
            if token > highest {
                self.tokens.insert(hold.keys[0].0, (token, hold.task));
            }
        }
        if hold.excludes() && !hold.held.is_valid() && self.damage_of(&hold, now).is_none() {
            self.fails(format!("task {} is told that it holds {:?}, and does not", hold.task, hold.keys));
        }
        self.holds.push(hold);
        self.look();
    }

    /// Its lease is set anew from now on, of some of its parts before others: no server that goes back has all of it.
    pub fn extends(&mut self, task: usize) {
        let extended = self.holds.iter_mut().filter(|hold| hold.task == task);
        extended.for_each(|hold| (hold.is_renewed, hold.sent) = (false, u64::MAX));
    }

    /// It was, at any moment until now: a server that goes back may know it as it was before.
    pub fn extended(&mut self, task: usize, lease: u64) {
        let now = self.now();
        if let Some(hold) = self.holds.iter_mut().find(|hold| hold.task == task) {
            (hold.sent, hold.lease) = (now, hold.lease.max(lease));
        }
    }

    /// It begins to give back what it has.
    pub fn leaves(&mut self, task: usize) {
        self.look();
        self.note(&format!("task {task} leaves"));
        self.holds.retain(|hold| hold.task != task);
    }

    /// The longest lease that a hold can have.
    pub fn longest(&self, own: Option<u64>) -> u64 {
        own.unwrap_or(0).max(self.lease)
    }

    pub fn set_permits(&mut self, name: usize, permits: usize) {
        self.permits.insert(name, permits);
    }

    pub fn set_latch(&mut self, name: usize, needed: usize) {
        self.latches.insert(name, Latch { needed, ..Latch::default() });
    }

    /// Java opens a latch, and sets it anew at once.
    pub fn reopened(&mut self, name: usize) {
        self.waits.reopened(self.now(), name);
        self.latches.entry(name).or_default().is_foreign = true;
    }

    pub fn counts_down(&mut self, name: usize) {
        self.note("counts down");
        self.latches.entry(name).or_default().begun += 1;
        self.latches.entry(name).or_default().unknown += 1;
    }

    /// What a call that counts came to: `None`, the latch was open.
    pub fn counted(&mut self, name: usize, left: Option<u32>) {
        self.note(&format!("counted: {left:?}"));
        let damaged = !self.is_sound(name);
        let latch = self.latches.entry(name).or_default();
        latch.unknown -= 1;
        latch.done += usize::from(left.is_some());
        let (done, begun, needed) = (latch.done, latch.begun, latch.needed);
        if damaged || latch.is_foreign {
            return;
        }
        if left.is_none() && begun <= needed {
            self.fails(format!("latch {name} was open after {begun} of {needed}"));
        }
        if done > needed {
            self.fails(format!("latch {name} counted {done} down from {needed}"));
        }
    }

    pub fn opened(&mut self, name: usize) {
        self.note("opened");
        let Some(latch) = self.latches.get(&name) else { return };
        if latch.begun < latch.needed && !latch.is_foreign && self.is_sound(name) {
            let (begun, needed) = (latch.begun, latch.needed);
            self.fails(format!("latch {name} opened after {begun} of {needed}"));
        }
    }

    /// What is left of the latches at the end, where nothing was lost: the count if it must be one.
    pub fn counts_left(&self) -> Vec<(usize, usize)> {
        let is_known = |latch: &Latch| latch.unknown == 0 && !latch.is_foreign;
        let known = self.latches.iter().filter(|(name, latch)| is_known(latch) && self.is_sound(**name));
        known.map(|(name, latch)| (*name, latch.needed.saturating_sub(latch.done))).collect()
    }
}
