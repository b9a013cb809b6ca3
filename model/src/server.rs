//! The shipped scripts, and the server that runs one of them on given keys at a given time, and says what came of it.

use std::path::Path;
use std::sync::Mutex;

use lockson_embedded::{Server, Snapshot, Value};
use tokio::runtime::{Builder, Runtime};

/// The server's time at which every search begins, in milliseconds since 1970.
pub const BEGIN: i64 = 1_700_000_000_000;

/// A script as it is sent.
#[derive(Debug, Clone)]
pub struct Script {
    text: String,
    announces: bool,
}

impl Script {
    /// The script of this file of `lua/`, behind `begin.lua`, `now.lua`, what else it shares, and what it wraps.
    pub fn new(file: &str, shared: &[&str]) -> Self {
        let text: String = ["begin", "now"].iter().chain(shared).chain([&file]).map(|file| lua(file)).collect();
        Self { text, announces: shared.contains(&"announce") }
    }

    /// The same with the other one as its function `acquire`.
    pub fn over(file: &str, inner: &str, shared: &[&str]) -> Self {
        let mut script = Self::new(inner, shared);
        let own = lua(inner);
        let before = script.text.strip_suffix(own.as_str()).unwrap_or_default();
        script.text = format!("{before}local function acquire()\n{own}end\n{}", lua(file));
        script
    }

    /// The same with other words in the place of some: a fault that a search has to find.
    ///
    /// # Panics
    /// Where it does not have these words once.
    #[must_use]
    pub fn with(mut self, words: &str, others: &str) -> Self {
        assert_eq!(self.text.matches(words).count(), 1, "{words}");
        self.text = self.text.replace(words, others);
        self
    }
}

fn lua(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../lua/{file}.lua"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What a script answered: its status, and what stands behind the server's time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Answer {
    pub status: i64,
    pub rest: Vec<String>,
}

impl Answer {
    pub fn int(&self, place: usize) -> i64 {
        self.rest.get(place).and_then(|text| text.parse().ok()).unwrap_or(-1)
    }
}

/// What is sent behind the nonce.
pub struct Call<'a> {
    pub script: &'a Script,
    pub keys: &'a [&'a str],
    pub not_after: i64,
    pub args: &'a [&'a str],
}

/// Servers, one for each run of each that a search knows: their run ids are their own. They have no state of their own.
pub struct Servers {
    /// Its clock stands still.
    runtime: Runtime,
    servers: Mutex<Vec<Server>>,
}

impl Servers {
    /// # Panics
    /// Where there can be no runtime.
    pub fn new(count: usize) -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let servers = {
            let _guard = runtime.enter();
            (0..count).map(|_| Server::new()).collect()
        };
        Self { runtime, servers: Mutex::new(servers) }
    }

    /// Does something on a server that has these keys at this time, in milliseconds from the beginning.
    ///
    /// # Panics
    /// Where there are not so many servers.
    pub fn at<R>(&self, server: usize, keys: &Snapshot, now: i64, act: impl FnOnce(&Server) -> R) -> R {
        let servers = self.servers.lock().unwrap();
        let _guard = self.runtime.enter();
        let server = &servers[server];
        server.set_clock(BEGIN + now);
        server.restore(keys);
        act(server)
    }

    /// Runs a script. What it answers, and what the keys are then.
    ///
    /// # Panics
    /// Where the script ends with an error: none of the shipped ones does.
    pub fn run(&self, server: usize, keys: &Snapshot, now: i64, call: &Call<'_>) -> (Answer, Snapshot) {
        let not_after = (BEGIN + call.not_after).to_string();
        let mut args = vec!["nonce", &not_after];
        args.extend(call.args);
        if call.script.announces {
            args.extend(["PUBLISH", "channel"]);
        }
        let (value, after) =
            self.at(server, keys, now, |server| (server.eval(&call.script.text, call.keys, &args), server.snapshot()));
        let words: Vec<String> = match &value {
            Ok(Value::List(items)) => items.iter().map(word).collect(),
            Ok(text @ Value::Bulk(_)) => word(text).split(' ').map(str::to_owned).collect(),
            other => panic!("{other:?}"),
        };
        (Answer { status: words[0].parse().unwrap(), rest: words[3..].to_vec() }, after)
    }
}

/// What a command answers, as words.
///
/// # Panics
/// Where it is refused.
pub fn words(server: &Server, command: &[&str]) -> Vec<String> {
    match server.command(command).unwrap() {
        Value::List(items) => items.iter().map(word).collect(),
        one => vec![word(&one)],
    }
}

/// The same, of one number; a missing value is 0.
pub fn number(server: &Server, command: &[&str]) -> i64 {
    words(server, command).first().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn word(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::Bulk(text) | Value::Status(text) | Value::Error(text) => String::from_utf8_lossy(text).into_owned(),
        Value::Nil => String::new(),
        Value::List(items) => items.iter().map(word).collect::<Vec<_>>().join(" "),
    }
}
