//! All that commands work on: the keys, the connections and the server's own data.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Clock;
use crate::hub::Hub;
use crate::keyspace::Keyspace;
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
}

impl Store {
    pub(crate) fn new() -> Self {
        let clock = Clock::new();
        let now_us = clock.now_us();
        let mut keys = Keyspace::default();
        keys.set_now(now_us / 1000);
        Self { keys, hub: Hub::default(), touched: None, clock, now_us, started_us: now_us, run_id: fresh_run_id() }
    }

    /// Reads the clock, once for each command or script that comes from outside.
    pub(crate) fn tick(&mut self) {
        self.now_us = self.clock.now_us();
        self.keys.set_now(self.now_us / 1000);
    }

    pub(crate) fn set_clock_ahead(&mut self, by: Duration) {
        self.clock.set_ahead(by);
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

    /// What a restart without persistence does to the data.
    pub(crate) fn restart(&mut self) {
        self.tick();
        self.keys.clear();
        self.started_us = self.now_us;
        self.run_id = fresh_run_id();
    }
}

/// Forty hexadecimal digits that no other server of this process has; not random, so that a simulation repeats.
fn fresh_run_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    sha1_hex(format!("embedded server {}", COUNT.fetch_add(1, Ordering::Relaxed)))
}
