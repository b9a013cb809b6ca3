//! Whether the tests see a mutant: they run on it until the first that fails.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::patch::Copy;

/// So much of a core no run needs by far, of the stories or of others: what needs more does not end.
const CPU_SECONDS: [u32; 2] = [20, 240];

/// Suites about texts: they say nothing of what a script does.
const ABOUT_TEXTS: [&str; 4] = ["house::", "tidy::", "scripts::", "choosing::"];
/// Suites that take longest, and so come last.
const LONG: [&str; 5] = ["simulation::", "turns::", "wakeups::", "red_schedules::", "cancellation::"];

/// Held while a program is written, or started: one that is open for writing, here or in a child, can't be.
static LOCK: Mutex<()> = Mutex::new(());

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// By this test.
    Killed(String),
    Survived,
}

/// Runs these tests, and gives each result to `saw` until that says that it is enough.
fn run(
    program: &Path,
    lua: Option<&Path>,
    tests: &[String],
    exact: bool,
    mut saw: impl FnMut(&str, bool) -> bool,
) -> bool {
    let stories = tests.iter().all(|test| test.starts_with("lua::"));
    // No program of a server: what needs one is no judge here.
    let mut command = Command::new("bash");
    command
        .args(["-c", &format!("ulimit -t {}; exec \"$0\" \"$@\"", CPU_SECONDS[usize::from(!stories)])])
        .arg(program)
        .args(["--test-threads", "1", "--skip", "red_schedules::"])
        .args(tests)
        .envs(["LOCKSON_REDIS_SERVER", "LOCKSON_OTHER_SERVER"].map(|name| (name, "/none")))
        .env("LOCKSON_SEED", "7")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if exact {
        command.arg("--exact");
    }
    if let Some(lua) = lua {
        command.env("LOCKSON_LUA", lua);
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
        if saw(name.split(" - ").next().unwrap_or(name), result != "ok") {
            let _ = child.kill();
            let _ = child.wait();
            return false;
        }
    }
    child.wait().unwrap().success()
}

/// The tests that need no server but the embedded one: those that pass where there is no other.
pub fn tests(program: &Path, beginning: &str) -> Vec<String> {
    let mut found = Vec::new();
    run(program, None, &[beginning.to_owned()], false, |name, failed| {
        if !failed
            && name.starts_with(beginning)
            && !ABOUT_TEXTS.iter().any(|suite| name.starts_with(suite))
            && name != "part"
        {
            found.push(name.to_owned());
        }
        false
    });
    found
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
        "silent" => &["contract::spin_lock::"],
        "latch" => &["latch"],
        "semaphore" | "permit_semaphore" | "ids" | "once" | "cancel" => &["synchronizers", "permits"],
        _ => &[],
    }
}

/// The tests in the order in which they judge a script: the stories of its folder, all stories, the tests near it, the
/// rest, those that take long.
fn stages<'a>(tests: &'a [String], script: &str) -> [Vec<&'a String>; 5] {
    let stories = format!("lua::{}::", script.split('/').next().unwrap_or_default());
    let mut stages = [const { Vec::new() }; 5];
    for test in tests {
        let stage = match test {
            test if test.starts_with(&stories) => 0,
            test if test.starts_with("lua::") => 1,
            test if LONG.iter().any(|suite| test.starts_with(suite)) => 4,
            test if near(script).iter().any(|part| test.contains(part)) => 2,
            _ => 3,
        };
        stages[stage].push(test);
    }
    stages
}

pub fn judge(copy: &Copy<'_>, script: &str, text: &str, tests: &[String]) -> Verdict {
    {
        let _held = LOCK.lock().unwrap();
        copy.write(script, text);
    }
    let mut verdict = Verdict::Survived;
    for stage in stages(tests, script) {
        let stage: Vec<String> = stage.into_iter().cloned().collect();
        if stage.is_empty() {
            continue;
        }
        let mut killer = None;
        let passed = run(&copy.program, Some(&copy.lua), &stage, true, |name, failed| {
            if failed {
                killer = Some(name.to_owned());
            }
            failed
        });
        if !passed {
            verdict = Verdict::Killed(killer.unwrap_or_else(|| "it does not end, or ends the program".to_owned()));
            break;
        }
    }
    let _held = LOCK.lock().unwrap();
    copy.restore(script);
    verdict
}
