//! The program `lockson` on what Redisson holds: it lists, shows, watches and ends it, and is kept out by it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use support::process::Process;

use crate::*;

/// The program, beside this one. It is built with the tests of the workspace; where only these were, it is built here,
/// which takes minutes, and no case may run meanwhile.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        // This program may have been copied to another place, as the soak does.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let program = target.join("debug/lockson");
        let built = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified());
        let sources = std::fs::read_dir(support::root().join("cli/src")).unwrap();
        let newest = sources.map(|file| built(&file.unwrap().path()).unwrap()).max().unwrap();
        if built(&program).ok() < Some(newest) {
            let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
            let words = ["build", "--quiet", "--workspace", "--all-features", "--bin", "lockson"];
            assert!(cargo.args(words).current_dir(support::root()).status().unwrap().success());
        }
        program
    })
}

fn command(world: &World, words: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["--url", &world.place.url()]).args(words).env_remove("LOCKSON_PREFIX");
    command
}

/// What it printed, if it ended with this.
#[track_caller]
fn lockson(world: &World, words: &[&str], code: i32) -> impl Future<Output = String> {
    let (mut command, words) = (tokio::process::Command::from(command(world, words)), words.join(" "));
    let caller = std::panic::Location::caller();
    async move {
        let ran = command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
        let [out, err] = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(ran.status.code(), Some(code), "{words} (at {caller}): {out}{err}");
        out
    }
}

/// One that prints an event a line.
struct Watch(Process);

impl Watch {
    fn start(world: &World, name: &str) -> Watch {
        Watch(Process::of(command(world, &["watch", name, "--interval", "50ms", "--json"])))
    }

    /// The next event of this sort, and of whom it is.
    async fn until(&self, what: &str) -> String {
        let next = async {
            loop {
                let event: Value = serde_json::from_str(&self.0.line_within(SOON).await).unwrap();
                if event["event"] == what {
                    return event["owner"].as_str().unwrap_or_default().to_owned();
                }
            }
        };
        tokio::time::timeout(SOON, next).await.unwrap_or_else(|_| panic!("no event {what:?}"))
    }
}

/// What Java calls it, what `ls` does, and as what `run` is kept out.
const KINDS: [(&str, &str, &str); 4] =
    [("lock", "lock", "lock"), ("fair_lock", "fair", "fair"), ("read", "read", "write"), ("write", "write", "read")];

pub async fn the_program_sees_and_ends_what_java_holds(world: Arc<World>) {
    let (java, of) = (world.java("").await, unique("command"));
    let id = java.must("t", "client", "-", "id").await;
    let name = |kind: &str| format!("{of}:{kind}");
    let who = |kind: &str| format!("holder-{of}-{kind}");
    let permits = name("permits");
    assert!(java.get::<bool>(&of, "permits", &permits, "try_set_permits 1").await);
    let permit = java.must(&of, "permits", &permits, "try_acquire 1 0 60000").await;
    let mut owners = Vec::new();
    for (object, ..) in KINDS {
        java.must(&who(object), object, &name(object), "lock").await;
        owners.push(format!("{id}:{}", java.must(&who(object), "client", "-", "thread").await));
    }
    // A fair lock is known from others while somebody waits.
    let rival = who("rival");
    let waiter = spawn_local(java.must(&rival, "fair_lock", &name("fair_lock"), "lock"));
    until_listening(world.place.server_of(&name("fair_lock")), &name("fair_lock")).await;

    let listed = lockson(&world, &["ls", &format!("{of}:*"), "--json"], 0).await;
    let listed: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds = listed.iter().map(|found| (found["name"].as_str().unwrap(), found["kind"].as_str().unwrap()));
    let mut expected: Vec<_> = KINDS.iter().map(|(object, kind, _)| (name(object), *kind)).collect();
    expected.push((permits.clone(), "permits"));
    expected.sort();
    assert_eq!(kinds.map(|(name, kind)| (name.to_owned(), kind)).collect::<Vec<_>>(), expected);

    for ((object, kind, other), owner) in KINDS.iter().zip(&owners) {
        let name = name(object);
        let shown: Value = serde_json::from_str(&lockson(&world, &["show", &name, "--json"], 0).await).unwrap();
        let holder = &shown["holders"][0];
        let field = holder["owner"].as_str().unwrap();
        assert!(shown["kind"] == *kind && field.starts_with(owner.as_str()) && holder["client"] == id, "{shown}");
        assert!((1..=30_000).contains(&holder["lease_ms"].as_u64().unwrap()), "{shown}");
        assert_eq!(shown["waiting"], u64::from(*kind == "fair"), "{shown}");
        lockson(&world, &["run", &name, "--kind", other, "--wait", "0", "--", "true"], 75).await;
        lockson(&world, &["force", &name, "--owner", &format!("{field}9"), "--yes"], 1).await;
        assert!(java.get::<bool>(&who(object), object, &name, "held").await, "another one's was meant");
        let watch = Watch::start(&world, &name);
        assert_eq!(watch.until("held").await, field);
        lockson(&world, &["force", &name, "--yes"], 0).await;
        assert_eq!(watch.until("released").await, field);
        assert!(!java.get::<bool>(&who(object), object, &name, "held").await, "{name}");
    }
    patient("the next in the queue", waiter).await.unwrap();
    java.must(&rival, "fair_lock", &name("fair_lock"), "unlock").await;

    let shown: Value = serde_json::from_str(&lockson(&world, &["show", &permits, "--json"], 0).await).unwrap();
    assert!(shown["permits"][0]["id"] == permit && shown["number"] == 0, "{shown}");
    lockson(&world, &["run", &permits, "--kind", "semaphore:1", "--wait", "0", "--", "true"], 75).await;
    let watch = Watch::start(&world, &permits);
    assert_eq!(watch.until("held").await, permit);
    lockson(&world, &["force", &permits, "--yes"], 0).await;
    assert_eq!(watch.until("released").await, permit);
    assert!(java.call(&of, "permits", &permits, &format!("release {permit}")).await.is_err(), "it was ended");

    // What nobody holds any more, `run` takes, and Java is kept out.
    let lock = name("lock");
    let watch = Watch::start(&world, &lock);
    watch.until("free").await;
    let mut running = Process::of(command(&world, &["run", &lock, "--", "sh", "-c", "read -r end"]));
    watch.until("held").await;
    assert!(!java.get::<bool>(&who("lock"), "lock", &lock, "try_lock").await, "`run` holds it");
    running.say("end");
    assert!(running.ends_within(SOON).await);
    assert!(java.get::<bool>(&who("lock"), "lock", &lock, "try_lock").await, "`run` has given it back");
    java.must(&who("lock"), "lock", &lock, "unlock").await;
}
