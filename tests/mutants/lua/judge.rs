//! Whether the tests see a mutant: they run on it until the first that fails.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use super::list::Mutant;
use super::patch::Copy;
use crate::book::Verdict;

/// So much of a core no run needs by far, of the quick stories or of others: what needs more does not end.
const CPU_SECONDS: [u32; 2] = [20, 240];

/// All stories once more for each right: 16 s, where all else of them is 1 s.
const SLOW_STORY: &str = "lua::without_a_right_it_is_all_or_nothing";

/// Suites about texts: they say nothing of what a script does.
const ABOUT_TEXTS: [&str; 4] = ["house::", "tidy::", "scripts::", "choosing::"];
/// Suites that take longest, and so come last.
const LONG: [&str; 5] = ["simulation::", "turns::", "wakeups::", "red_schedules::", "cancellation::"];

/// What only real servers have: memory that ends, an operator's view, and where asked for, rights that are missing and
/// replicas.
const WITH_SERVERS: [&str; 5] = ["lua::out_of_memory", OPERATORS, "acl::", "memory::", "topology::confirm::"];
/// Says something of the scripts of `lua/admin` alone.
const OPERATORS: &str = "admin::";

/// Held while a program is written, or started: one that is open for writing, here or in a child, can't be.
static LOCK: Mutex<()> = Mutex::new(());

/// Who judges: these tests, without any server but the embedded one, and then these with real ones.
pub struct Judges {
    pub embedded: Vec<String>,
    pub with_servers: Vec<String>,
}

/// One run of the program: which, on which scripts, whether it may start servers, and for how long it may compute.
struct Run<'a> {
    program: &'a Path,
    lua: &'a Path,
    servers: bool,
    cpu_seconds: u32,
}

impl Run<'_> {
    /// Runs the tests of these names, or that have this in their names, and gives each result to `saw` until that says
    /// that it is enough. Whether all passed.
    fn run(&self, tests: &[String], exact: bool, mut saw: impl FnMut(&str, bool) -> bool) -> bool {
        let mut command = Command::new("bash");
        command
            .args(["-c", &format!("ulimit -t {}; exec \"$0\" \"$@\"", self.cpu_seconds)])
            .arg(self.program)
            .args(["--test-threads", "1", "--skip", "red_schedules::"])
            .args(tests)
            .args(exact.then_some("--exact"))
            .env("LOCKSON_SEED", "7")
            .env("LOCKSON_LUA", self.lua)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if !self.servers {
            command.envs(["LOCKSON_REDIS_SERVER", "LOCKSON_OTHER_SERVER"].map(|name| (name, "/none")));
        }
        let mut child = {
            let _held = LOCK.lock().unwrap();
            command.spawn().unwrap()
        };
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for line in lines.map_while(Result::ok) {
            let Some((name, result)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) else {
                continue;
            };
            if saw(name, result != "ok") {
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
        child.wait().unwrap().success()
    }

    /// Who of these fails first.
    fn killer(&self, tests: &[String]) -> Option<String> {
        let mut killer = None;
        let passed = self.run(tests, true, |name, failed| {
            if failed {
                killer = Some(name.to_owned());
            }
            failed
        });
        (!passed).then(|| killer.unwrap_or_else(|| "it does not end, or ends the program".to_owned()))
    }
}

/// The tests that pass where there is no server but the embedded one, and those of the first so many of `WITH_SERVERS`.
/// They run on scripts with other comments: a test that sees that would see any mutant, and says nothing.
pub fn judges(copy: &Copy<'_>, beginning: &str, servers: usize) -> Judges {
    copy.write_other_comments();
    let passing = |servers: bool, filters: &[&str]| {
        let (mut found, filters) = (Vec::new(), filters.iter().map(|&filter| filter.to_owned()).collect::<Vec<_>>());
        Run { program: &copy.program, lua: &copy.lua, servers, cpu_seconds: 3600 }.run(
            &filters,
            false,
            |name, failed| {
                if !failed && !ABOUT_TEXTS.iter().any(|suite| name.starts_with(suite)) && name != "part" {
                    found.push(name.to_owned());
                }
                false
            },
        );
        found
    };
    let mut embedded = passing(false, &[beginning]);
    embedded.retain(|name| name.starts_with(beginning));
    let suites: Vec<&str> = WITH_SERVERS.into_iter().take(servers).collect();
    let with_servers = if suites.is_empty() { Vec::new() } else { passing(true, &suites) };
    Judges { embedded, with_servers }
}

/// Those that know a folder of `lua/` best, and how else it is called there.
fn near(script: &str) -> &[&str] {
    match script.split('/').next().unwrap_or_default() {
        "reentrant" => &["contract::lock::"],
        "plain" => &["plain_lock"],
        "fair" => &["contract::fair_lock::", "fair"],
        "read" => &["contract::read::", "read_in_transaction"],
        "write" | "read_write" => &["contract::read::", "contract::write::", "write"],
        "fenced" => &["contract::fenced"],
        "red" | "boot" => &["red"],
        "multi" => &["multi"],
        "group" => &["groups::"],
        "grouped" => &["contract::group_lock::"],
        "silent" => &["contract::spin_lock::"],
        "latch" => &["latch"],
        "semaphore" | "permit_semaphore" | "ids" | "once" | "cancel" => &["synchronizers", "permits"],
        _ => &[],
    }
}

/// The tests in the order in which they judge a script: the stories of its folder, all quick ones, the slow one, the
/// tests near it, the rest, those that take long.
fn stages(tests: &[String], script: &str) -> [Vec<String>; 6] {
    let stories = format!("lua::{}::", script.split('/').next().unwrap_or_default());
    let mut stages = [const { Vec::new() }; 6];
    for test in tests {
        let stage = match test.as_str() {
            test if test.starts_with(&stories) => 0,
            SLOW_STORY => 2,
            test if test.starts_with("lua::") => 1,
            test if LONG.iter().any(|suite| test.starts_with(suite)) => 5,
            test if near(script).iter().any(|part| test.contains(part)) => 3,
            _ => 4,
        };
        stages[stage].push(test.clone());
    }
    stages
}

/// Of one that is listed as equivalent, only the quick stories are asked: all others would say nothing, at length.
pub fn judge(copy: &Copy<'_>, mutant: &Mutant, judges: &Judges) -> Verdict {
    let Mutant { script, text, .. } = mutant;
    {
        let _held = LOCK.lock().unwrap();
        copy.write(script, text);
    }
    let run = |servers, cpu_seconds| Run { program: &copy.program, lua: &copy.lua, servers, cpu_seconds };
    // Real time goes on, so it has to fail twice.
    let with_servers = |tests: &[String]| {
        let run = run(true, CPU_SECONDS[1]);
        // None of a name would be all.
        let killer = if tests.is_empty() { None } else { run.killer(tests) };
        killer.filter(|killer| run.killer(std::slice::from_ref(killer)).is_some())
    };
    let (operators, others): (Vec<_>, Vec<_>) =
        judges.with_servers.iter().cloned().partition(|test| test.starts_with(OPERATORS));
    // An operator's scripts have stories, and no other suite uses them.
    let (rounds, last) = match (&mutant.equivalent, script.starts_with("admin/")) {
        (Some(_), _) => (2, Vec::new()),
        (None, true) => (3, operators),
        (None, false) => (usize::MAX, others),
    };
    let stages = stages(&judges.embedded, script).into_iter().enumerate().take(rounds);
    let embedded = stages
        .filter(|(_, stage)| !stage.is_empty())
        .map(|(at, stage)| run(false, CPU_SECONDS[usize::from(at > 1)]).killer(&stage));
    let killer = embedded.chain(std::iter::once_with(|| with_servers(&last))).find_map(|killer| killer);
    let _held = LOCK.lock().unwrap();
    copy.restore(script);
    killer.map_or(Verdict::Survived, Verdict::Killed)
}
