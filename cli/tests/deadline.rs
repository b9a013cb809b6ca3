//! `run`: whatever becomes of `lockson`, the command's group is gone before its key's lease ends on the server.

use std::time::Instant;

use rustix::process::{Pid, Signal};
use support::prelude::*;
use support::process::epoch;
use support::soak;

use super::program::{lives, lockson, pttl, until, Running};

/// The lease of each run, and what its command is given between SIGTERM and SIGKILL.
const LEASE: &str = "5s";
const GRACE: Duration = ms(200);
/// So many runs at once.
const AT_ONCE: usize = 3;

/// Ignores SIGTERM, as its children do.
const STUBBORN: &str = "trap '' TERM INT HUP; echo $$; sleep 1000 & sleep 1000 & while :; do sleep 0.05; done";

/// One command that runs under a lock, or a permit.
struct Case {
    name: String,
    kind: &'static str,
    running: Running,
    group: Pid,
}

/// The kind of a run by its number.
fn kind(number: usize) -> &'static str {
    ["lock", "semaphore:1"][number % 2]
}

/// One that has run for some time, `lockson` with its server at this URL.
fn start(server: &Server, url: &str, number: usize, rng: &mut Rng) -> Case {
    start_with(LEASE, server, url, number, rng)
}

fn start_with(lease: &str, server: &Server, url: &str, number: usize, rng: &mut Rng) -> Case {
    let (name, kind, grace) = (format!("deadline:{number}"), kind(number), format!("{}ms", GRACE.as_millis()));
    let words = ["run", &name, "--kind", kind, "--lease", lease, "--grace", &grace, "--", "sh", "-c", STUBBORN];
    let mut running = Running::start(url, &words);
    let group = running.pid();
    std::thread::sleep(ms(rng.u64(0..1500)));
    let case = Case { name, kind, running, group };
    assert!(lives(group) && case.left(server) > 0);
    case
}

impl Case {
    /// When the lease ends on the server, in milliseconds since 1970; 0 or less: it has none.
    fn ends(&self, server: &Server) -> i64 {
        match self.kind {
            "lock" => server.control(&["PEXPIRETIME", &self.name]).int(),
            // A permit has its end as a number in a set.
            _ => {
                let found = server.control(&["ZRANGE", &self.leases(), "0", "-1", "WITHSCORES"]).texts();
                found.get(1).map_or(0, |end| end.parse().unwrap())
            }
        }
    }

    fn leases(&self) -> String {
        format!("{{{}}}:timeout", self.name)
    }

    /// What is left of the lease on the server, in milliseconds.
    fn left(&self, server: &Server) -> i64 {
        match self.kind {
            "lock" => pttl(server, &self.name),
            _ => self.ends(server) - epoch() as i64,
        }
    }

    /// Looks until the lease is over: by then the group has to be gone. How long before that it was, in milliseconds.
    fn gone_before(&self, server: &Server) -> Result<i64, String> {
        let began = Instant::now();
        loop {
            // In this order: what is left now was left when the group is looked at, or less.
            let is_gone = !lives(self.group);
            let left = self.left(server);
            match (is_gone, left) {
                (true, left @ 1..) => return Ok(left),
                (true, left) => return Err(format!("{left} ms were left when the group was seen to be gone")),
                (false, ..=0) => return Err("the group outlives the lease".to_owned()),
                (false, _) if began.elapsed() > secs(20) => return Err("neither ends".to_owned()),
                (false, _) => std::thread::sleep(ms(2)),
            }
        }
    }

    /// `lockson` has to say that the hold was lost, if it is there to say it.
    fn says_so(self) -> Result<(), String> {
        let ran = self.running.end();
        match ran.code {
            Some(74) if ran.err.contains("the hold is lost") => Ok(()),
            _ => Err(format!("it did not say that the hold was lost: {ran:?}")),
        }
    }
}

/// Does it to so many commands, a few at a time.
fn each(label: &str, case: impl Fn(&Server, usize, &mut Rng) -> Result<i64, String> + Sync) {
    let (asked, seed, server) = (soak(50), seed(), Server::start());
    let (mut done, mut failures, mut least) = (0, 0, i64::MAX);
    while done < asked && failures == 0 {
        let results: Vec<_> = std::thread::scope(|scope| {
            let runs: Vec<_> = (done..asked.min(done + AT_ONCE))
                .map(|number| {
                    let (case, server) = (&case, &server);
                    scope.spawn(move || {
                        let mut rng = Rng::with_seed(seed ^ number as u64);
                        case(server, number, &mut rng)
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
    println!("{label}: at least {least} ms were left");
    report(label, done, asked, failures, seed);
}

#[test]
fn lockson_is_killed() {
    each("killed", |server, number, rng| {
        let case = start(server, &server.url(), number, rng);
        case.running.signal(Signal::KILL);
        case.gone_before(server)
    });
}

#[test]
fn lockson_is_stopped_past_the_lease() {
    each("stopped", |server, number, rng| {
        let case = start(server, &server.url(), number, rng);
        case.running.signal(Signal::STOP);
        let left = case.gone_before(server)?;
        until(secs(20), "the lease ends", || case.left(server) <= 0);
        case.running.signal(Signal::CONT);
        case.says_so().map(|()| left)
    });
}

/// The server is stopped right after a renewal: its key's end is known then, and is not put off any more.
#[test]
fn the_server_is_lost() {
    each("server", |_, number, rng| {
        let server = Server::start();
        let case = start(&server, &server.url(), number, rng);
        let before = case.ends(&server);
        until(secs(20), "it is renewed", || case.ends(&server) > before);
        let ends = case.ends(&server);
        server.freeze();
        until(secs(20), "the group is gone", || !lives(case.group));
        let left = ends - epoch() as i64;
        server.thaw();
        case.says_so()?;
        if left > 0 {
            Ok(left)
        } else {
            Err(format!("{left} ms were left"))
        }
    });
}

/// The server goes on, and says by its own clock what is left.
#[test]
fn the_way_to_the_server_is_cut() {
    each("cut", |server, number, rng| {
        let proxy = Proxy::start(server.port());
        let case = start(server, &proxy.url(), number, rng);
        proxy.refuse(true);
        let left = case.gone_before(server)?;
        case.says_so().map(|()| left)
    });
}

/// `lockson` lives, its connections do too, and its renewals go unheard: SIGTERM does nothing, SIGKILL has to follow.
#[test]
fn a_command_that_ignores_sigterm_is_killed_before_the_lease_ends() {
    each("stubborn, unheard", |server, number, rng| {
        let proxy = Proxy::start(server.port());
        let case = start(server, &proxy.url(), number, rng);
        proxy.black_hole_requests(true);
        let left = case.gone_before(server)?;
        case.says_so().map(|()| left)
    });
}

/// The same with a hold that is ended by force. No lease is left on the server then: `lockson` hears of it at its next
/// renewal, and it is the time between SIGTERM and SIGKILL that is kept. Its own deadline is later: that is not what
/// ends the group.
#[test]
fn a_command_that_ignores_sigterm_is_killed_after_its_grace() {
    // Renewed each third: the deadline that is known is never less than two thirds away, less the margin of a tenth.
    let (lease, deadline) = ("12s", ms(8000 - 1200));
    each("stubborn, forced", |server, number, rng| {
        let case = start_with(lease, server, &server.url(), number, rng);
        lockson(&server.url(), &["force", &case.name, "--yes"]).expect(0);
        let began = Instant::now();
        until(secs(20), "the group is gone", || !lives(case.group));
        let took = began.elapsed();
        case.says_so()?;
        let left = deadline.as_millis() as i64 - took.as_millis() as i64;
        if left > 0 {
            Ok(left)
        } else {
            Err(format!("it took {took:?}"))
        }
    });
}
