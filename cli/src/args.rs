//! What can be typed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args as Group, Parser, Subcommand, ValueEnum};

/// Exit codes beside 0, 1 and those of the command that is run. BSD's sysexits.h has them.
pub const BUSY: u8 = 75;
pub const LOST: u8 = 74;
pub const UNREACHABLE: u8 = 69;
/// As shells have them.
pub const NOT_EXECUTABLE: u8 = 126;
pub const NOT_FOUND: u8 = 127;

/// See, force and hold distributed locks on Redis and Valkey: lockson's and Redisson's.
#[derive(Debug, Parser)]
#[command(name = "lockson", version, after_help = AFTER)]
pub struct Args {
    #[command(flatten)]
    pub server: Server,
    /// JSON in place of text: one object a line
    #[arg(long, global = true)]
    pub json: bool,
    /// Colours
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    #[command(subcommand)]
    pub verb: Verb,
}

const AFTER: &str = "Exit codes: 0 done; 1 it is not there, or changed hands; 2 wrong usage; 69 the server can't be \
reached, or refused. `run` ends as its command does (128 and the signal's number, if one ended it), or with 75 if the \
lock was busy, 74 the hold was lost and the command ended, 126 and 127 the command can't be started.";

/// Where a server is that is started without a configuration.
const LOCAL: &str = "redis://127.0.0.1:6379";

/// Which server, and how it is reached.
#[derive(Debug, Group)]
pub struct Server {
    /// redis://, rediss://, redis-sentinel://a,b/name, redis-cluster://a,b, ..
    #[arg(long, global = true, env = "LOCKSON_URL", hide_env_values = true, default_value = LOCAL)]
    pub url: String,
    /// User, if the URL has none
    #[arg(long, global = true, env = "LOCKSON_USER", hide_env_values = true)]
    pub user: Option<String>,
    // Not on the command line: everybody on the machine would see it.
    /// Password, if the URL has none: by this variable alone
    #[arg(skip = std::env::var("LOCKSON_PASSWORD").ok())]
    pub password: Option<String>,
    /// What stands before every name on the server (`key_prefix`)
    #[arg(long, global = true, env = "LOCKSON_PREFIX")]
    pub prefix: Option<String>,
    /// The certificates, as PEM, by which the server is trusted
    #[arg(long, global = true, env = "LOCKSON_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// How long to wait for a connection
    #[arg(long, global = true, default_value = "5s", value_parser = duration)]
    pub timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    Ls(Ls),
    Show(Show),
    Force(Force),
    Run(Run),
    Doctor(Doctor),
    Watch(Watch),
    Top(Top),
    /// Print completions for a shell
    Completions {
        shell: clap_complete::Shell,
    },
    /// Print the man page, with all commands
    Man,
}

/// Say what about the servers endangers locks, and what to do about it
///
/// Exit code 1: something does.
#[derive(Debug, Group)]
pub struct Doctor {
    /// Which server; in place of --url and LOCKSON_URL
    #[arg(id = "at", value_name = "URL")]
    pub at: Option<String>,
}

/// List locks, semaphores and latches
///
/// Every node that has keys is walked over by SCAN, about forty keys at a time. A number without a lease may be a
/// semaphore, a latch, or another program's counter: the keys do not tell, so it is listed as `number`.
#[derive(Debug, Group)]
pub struct Ls {
    /// What names are like: `*`, `?`, `[a-c]`, `[^a]`
    #[arg(default_value = "*")]
    pub pattern: String,
    /// Only these kinds
    #[arg(long, value_delimiter = ',', value_name = "KIND")]
    pub kind: Vec<String>,
}

/// Show what is under a name: who holds it, who waits, tokens, permits
#[derive(Debug, Group)]
pub struct Show {
    pub name: String,
}

/// End a hold by force
///
/// The hold is ended only if the one that was shown has it yet. Its holder is not asked: it goes on until it notices,
/// and only a fencing token keeps out what it writes until then.
#[derive(Debug, Group)]
pub struct Force {
    pub name: String,
    /// Whose hold: as `show` has it. Needed where several hold it
    #[arg(long, value_name = "OWNER")]
    pub owner: Option<String>,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

/// Hold a lock while a command runs
///
/// The command is in a process group of its own, which is ended (SIGTERM, then SIGKILL) before the lease is over on the
/// server if the hold can't be kept: the server is away, the hold was ended by force, or this process was killed or
/// stopped. What the command leaves running in its group is ended too, before the lock is given back. What leaves the
/// group (setsid) is not.
#[derive(Debug, Group)]
pub struct Run {
    pub name: String,
    /// How long to wait for the lock; 0: not at all. Without it: until it is there
    #[arg(long, short, value_parser = duration, value_name = "TIME")]
    pub wait: Option<Duration>,
    /// The lease: how long the lock stays taken if this machine dies. It is renewed while the command runs
    #[arg(long, short, default_value = "30s", value_parser = lease, value_name = "TIME")]
    pub lease: Duration,
    /// What to take: lock, fair, read, write, fenced, plain, or semaphore:N for one of N permits
    #[arg(long, short, default_value = "lock", value_name = "KIND")]
    pub kind: Kind,
    /// How long the command may go on after SIGTERM, before SIGKILL. At most a quarter of the lease
    #[arg(long, default_value = "5s", value_parser = duration, value_name = "TIME")]
    pub grace: Duration,
    /// The exit code when the lock is busy
    #[arg(long, short = 'E', default_value_t = BUSY, value_name = "CODE")]
    pub busy_code: u8,
    /// The command, and its arguments
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// Watch what becomes of a lock: an event a line, until SIGINT or SIGTERM
///
/// A hold that is gone is `released`, unless its lease may have ended since the last look: then it is `lease ended`.
#[derive(Debug, Group)]
pub struct Watch {
    pub name: String,
    /// How often to look; what comes and goes between two looks is not seen
    #[arg(long, short, default_value = "1s", value_parser = duration, value_name = "TIME")]
    pub interval: Duration,
}

/// Show the longest queues, the longest holds, the busiest locks: live on a terminal, else as text
#[derive(Debug, Group)]
pub struct Top {
    /// What names are like: `*`, `?`, `[a-c]`, `[^a]`
    #[arg(default_value = "*")]
    pub pattern: String,
    /// How often to look
    #[arg(long, short, default_value = "2s", value_parser = duration, value_name = "TIME")]
    pub interval: Duration,
    /// What comes first
    #[arg(long, value_enum, default_value_t = Sort::Queue)]
    pub sort: Sort,
    /// So many looks as text, then end
    #[arg(long, value_name = "COUNT")]
    pub frames: Option<u32>,
}

/// What `top` has first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// The longest queues
    Queue,
    /// The longest holds
    Held,
    /// Those that change hands most often
    Busy,
}

/// What `run` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Lock,
    Fair,
    Read,
    Write,
    Fenced,
    Plain,
    /// One of so many permits.
    Semaphore(u32),
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "lock" => Self::Lock,
            "fair" => Self::Fair,
            "read" => Self::Read,
            "write" => Self::Write,
            "fenced" => Self::Fenced,
            "plain" => Self::Plain,
            _ => match text.strip_prefix("semaphore:").and_then(|count| count.parse().ok()) {
                Some(count @ 1..=0x7fff_ffff) => Self::Semaphore(count),
                _ => return Err("it is lock, fair, read, write, fenced, plain or semaphore:N".to_owned()),
            },
        })
    }
}

/// `250ms`, `5s`, `1m`, `2h`; a bare number is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("it is a number and ms, s, m or h, as in 5s".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "it is a number and ms, s, m or h, as in 5s".to_owned())?;
    Duration::try_from_secs_f64(number * unit).map_err(|error| error.to_string())
}

fn lease(text: &str) -> Result<Duration, String> {
    let lease = duration(text)?;
    let allowed = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
    allowed.contains(&lease).then_some(lease).ok_or_else(|| "a lease is 1s to 24h".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn what_can_be_typed_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn times_are_read() {
        for (text, ms) in [("5", 5000), ("250ms", 250), ("1.5s", 1500), ("2m", 120_000), ("1h", 3_600_000), ("0", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "5x", "-1", "1e3", "5 s", "99999999999999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(lease("999ms").is_err() && lease("25h").is_err() && lease("1s").is_ok());
    }

    #[test]
    fn kinds_are_read() {
        assert_eq!("semaphore:5".parse(), Ok(Kind::Semaphore(5)));
        assert!(["semaphore", "semaphore:0", "semaphore:x", "mutex", ""]
            .iter()
            .all(|text| text.parse::<Kind>().is_err()));
    }
}
