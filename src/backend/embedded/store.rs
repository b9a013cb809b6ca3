//! All that commands work on: the keys, the connections and the server's own data.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::clock::Clock;
use super::hub::Hub;
use super::keyspace::Keyspace;
use super::sha1::sha1_hex;
use super::touched::Touched;

/// The data of one server.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) keys: Keyspace,
    pub(super) hub: Hub,
    /// What the script that runs touches, if somebody wants to know.
    pub(super) touched: Option<Touched>,
    clock: Clock,
    now_us: i64,
    started_us: i64,
    run_id: String,
}

impl Store {
    pub(super) fn new() -> Self {
        let clock = Clock::new();
        let now_us = clock.now_us();
        let mut keys = Keyspace::default();
        keys.set_now(now_us / 1000);
        Self { keys, hub: Hub::default(), touched: None, clock, now_us, started_us: now_us, run_id: fresh_run_id() }
    }

    /// Reads the clock, once for each command or script that comes from outside.
    pub(super) fn tick(&mut self) {
        self.now_us = self.clock.now_us();
        self.keys.set_now(self.now_us / 1000);
    }

    pub(super) fn set_clock_ahead(&mut self, by: Duration) {
        self.clock.set_ahead(by);
    }

    pub(super) fn now_us(&self) -> i64 {
        self.now_us
    }

    /// As Redis reckons it, from whole seconds: up to one too many.
    pub(super) fn uptime_seconds(&self) -> i64 {
        self.now_us / 1_000_000 - self.started_us / 1_000_000
    }

    pub(super) fn run_id(&self) -> &str {
        &self.run_id
    }

    /// What a restart without persistence does to the data.
    pub(super) fn restart(&mut self) {
        self.tick();
        self.keys.clear();
        self.started_us = self.now_us;
        self.run_id = fresh_run_id();
    }
}

/// Forty hexadecimal digits that no other server of this process has; not random, so that a simulation repeats.
fn fresh_run_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    sha1_hex(format!("lockson embedded server {}", COUNT.fetch_add(1, Ordering::Relaxed)).as_bytes())
}
