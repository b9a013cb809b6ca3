//! `run`: whatever becomes of `lockson`, the command's group is gone before its key's lease ends on the server.

use std::time::Instant;

use rustix::process::{Pid, Signal};
use support::prelude::*;
use support::soak;

use super::program::{lives, pttl, until, Running};

/// The lease of each run.
const LEASE: &str = "5s";
/// So many runs at once.
const AT_ONCE: usize = 3;

/// Ignores SIGTERM, as its children do.
const STUBBORN: &str = "trap '' TERM INT HUP; echo $$; sleep 1000 & sleep 1000 & while :; do sleep 0.05; done";

/// One command that runs under a lock, for some time.
fn start(server: &Server, name: &str, rng: &mut Rng) -> (Running, Pid) {
    let words = ["run", name, "--lease", LEASE, "--grace", "200ms", "--", "sh", "-c", STUBBORN];
    let mut running = Running::start(&server.url(), &words);
    let group = running.pid();
    std::thread::sleep(ms(rng.u64(0..1500)));
    assert!(lives(group) && pttl(server, name) > 0);
    (running, group)
}

/// Looks until the key is gone: by then the group has to be. How long before the end of the lease it was, in
/// milliseconds.
fn gone_before(server: &Server, name: &str, group: Pid) -> Result<i64, String> {
    let began = Instant::now();
    loop {
        // In this order: what is left now was left when the group is looked at, or less.
        let is_gone = !lives(group);
        let left = pttl(server, name);
        match (is_gone, left) {
            (true, left @ 1..) => return Ok(left),
            (true, left) => return Err(format!("{left} ms were left when the group was seen to be gone")),
            (false, ..=0) => return Err("the group outlives the lease".to_owned()),
            (false, _) if began.elapsed() > secs(20) => return Err("neither ends".to_owned()),
            (false, _) => std::thread::sleep(ms(2)),
        }
    }
}

/// Does it to so many commands, a few at a time.
fn each(label: &str, case: impl Fn(&Server, &str, &mut Rng) -> Result<i64, String> + Sync) {
    let (asked, seed, server) = (soak(50), seed(), Server::start());
    let (mut done, mut failures, mut least) = (0, 0, i64::MAX);
    while done < asked && failures == 0 {
        let results: Vec<_> = std::thread::scope(|scope| {
            let runs: Vec<_> = (done..asked.min(done + AT_ONCE))
                .map(|number| {
                    let (case, server) = (&case, &server);
                    scope.spawn(move || {
                        let mut rng = Rng::with_seed(seed ^ number as u64);
                        case(server, &format!("deadline:{number}"), &mut rng)
                    })
                })
                .collect();
            runs.into_iter().map(|run| run.join().unwrap_or_else(|_| Err("it panicked".to_owned()))).collect()
        });
        for result in results {
            match result {
                Ok(left) => least = least.min(left),
                Err(error) => {
                    println!("{label}: {error}");
                    failures += 1;
                }
            }
            done += 1;
        }
    }
    println!("{label}: at least {least} ms of the lease were left");
    report(label, done, asked, failures, seed);
}

#[test]
fn lockson_is_killed() {
    each("killed", |server, name, rng| {
        let (running, group) = start(server, name, rng);
        running.signal(Signal::KILL);
        gone_before(server, name, group)
    });
}

#[test]
fn lockson_is_stopped_past_the_lease() {
    each("stopped", |server, name, rng| {
        let (running, group) = start(server, name, rng);
        running.signal(Signal::STOP);
        let left = gone_before(server, name, group);
        until(secs(20), "the lease ends", || pttl(server, name) < 0);
        running.signal(Signal::CONT);
        let ran = running.end();
        if ran.code != Some(74) {
            return Err(format!("it did not say that the hold was lost: {ran:?}"));
        }
        left
    });
}

/// The server is stopped right after a renewal: its key's end is known then, and is not put off any more.
#[test]
fn the_server_is_lost() {
    each("server", |_, name, rng| {
        let server = Server::start();
        let (running, group) = start(&server, name, rng);
        let end = || server.control(&["PEXPIRETIME", name]).int();
        let before = end();
        until(secs(20), "it is renewed", || end() > before);
        let ends = end();
        server.freeze();
        until(secs(20), "the group is gone", || !lives(group));
        let left = ends - support::process::epoch() as i64;
        server.thaw();
        let ran = running.end();
        match (left, ran.code) {
            (1.., Some(74)) => Ok(left),
            _ => Err(format!("{left} ms were left, {ran:?}")),
        }
    });
}

/// The command goes on in spite of SIGTERM, and its hold is ended by force: SIGKILL follows.
#[test]
fn a_command_that_heeds_no_sigterm() {
    each("stubborn", |server, name, rng| {
        let (running, group) = start(server, name, rng);
        running.signal(Signal::TERM);
        std::thread::sleep(ms(100));
        if !lives(group) {
            return Err("it heeded the signal".to_owned());
        }
        running.signal(Signal::KILL);
        gone_before(server, name, group)
    });
}
