//! All that commands work on: the keys, the connections and the server's own data.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Clock;
use crate::hub::Hub;
use crate::keyspace::{Keyspace, Snapshot};
use crate::sha1_hex;
use crate::touched::Touched;

/// The data of one server.
pub(crate) struct Store {
    pub(crate) keys: Keyspace,
    pub(crate) hub: Hub,
    /// What the script that runs touches, if somebody wants to know.
    pub(crate) touched: Option<Touched>,
    clock: Clock,
    now_us: i64,
    started_us: i64,
    run_id: String,
    /// What its run ids are made of, and how many there were, where a simulation says so.
    runs: Option<(u64, u64)>,
    limits: Limits,
}

/// What scripts may not do.
#[derive(Default)]
struct Limits {
    /// There is no room for a script's first write.
    full: bool,
    /// The script that runs has written.
    wrote: bool,
    /// A command that nobody may call.
    denied: Option<String>,
}

impl Store {
    pub(crate) fn new() -> Self {
        let clock = Clock::new();
        let now_us = clock.now_us();
        let mut keys = Keyspace::default();
        keys.set_now(now_us / 1000);
        Self {
            keys,
            hub: Hub::default(),
            touched: None,
            clock,
            now_us,
            started_us: now_us,
            run_id: fresh_run_id(),
            runs: None,
            limits: Limits::default(),
        }
    }

    /// A store whose run ids are made of this number.
    pub(crate) fn numbered(number: u64) -> Self {
        let mut store = Self { runs: Some((number, 0)), ..Self::new() };
        store.run();
        store
    }

    /// It is another run from here on.
    fn run(&mut self) {
        self.run_id = match &mut self.runs {
            None => fresh_run_id(),
            Some((number, count)) => {
                *count += 1;
                sha1_hex(format!("embedded server {number}, run {count}"))
            }
        };
    }

    pub(crate) fn set_full(&mut self, full: bool) {
        self.limits.full = full;
    }

    pub(crate) fn deny(&mut self, command: Option<&str>) {
        self.limits.denied = command.map(str::to_lowercase);
    }

    pub(crate) fn allows(&self, command: &str) -> bool {
        self.limits.denied.as_deref() != Some(command)
    }

    /// A script begins.
    pub(crate) fn begin(&mut self) {
        self.limits.wrote = false;
        if self.runs.is_some() {
            // The next one begins later, as any of a real server does.
            self.clock.set_ahead(1);
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.limits.full
    }

    /// Whether a full server has room for what a script does now. As in Redis only its first write may be refused.
    pub(crate) fn has_room(&mut self, grows: bool, writes: bool) -> bool {
        let has = !grows || self.limits.wrote;
        self.limits.wrote |= writes && has;
        has
    }

    /// Reads the clock, once for each command or script that comes from outside.
    pub(crate) fn tick(&mut self) {
        self.now_us = self.clock.now_us();
        self.keys.set_now(self.now_us / 1000);
    }

    pub(crate) fn set_clock_ahead(&mut self, by_us: i64) {
        self.clock.set_ahead(by_us);
    }

    pub(crate) fn set_clock_rate(&mut self, fast: i32) {
        self.clock.set_rate(fast);
    }

    pub(crate) fn set_clock(&mut self, now_us: i64) {
        self.clock.set(now_us);
        self.tick();
    }

    pub(crate) fn now_us(&self) -> i64 {
        self.now_us
    }

    /// As Redis reckons it, from whole seconds: up to one too many.
    pub(crate) fn uptime_seconds(&self) -> i64 {
        self.now_us / 1_000_000 - self.started_us / 1_000_000
    }

    pub(crate) fn run_id(&self) -> &str {
        &self.run_id
    }

    /// What a restart with these data does.
    pub(crate) fn restart(&mut self, snapshot: &Snapshot) {
        self.keys.restore(snapshot);
        self.tick();
        self.started_us = self.now_us;
        self.run();
    }
}

/// Forty hexadecimal digits that no other server of this process has; not random, so that a simulation repeats.
fn fresh_run_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    sha1_hex(format!("embedded server {}", COUNT.fetch_add(1, Ordering::Relaxed)))
}
