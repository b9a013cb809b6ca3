//! The command `lockson`: sees, forces and holds locks on Redis and Valkey.

mod args;
mod clients;
mod doctor;
mod force;
mod json;
mod ls;
mod man;
mod out;
mod run;
mod show;
mod top;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use lockson::{Locks, QueryError};

use args::{Args, Server, Verb};

/// How the command ends. A command that is run ends as it does: `run` alone has others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Done,
    /// What was asked for is not there, or was not done: nobody holds it, it changed hands.
    No,
    /// The lock was busy for as long as was to be waited.
    Busy(u8),
    /// The hold was lost while the command ran, which was ended.
    Lost,
    /// The server can't be reached, or refused.
    Unreachable,
    /// As the command that was run.
    Of(u8),
}

impl End {
    fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::No => 1,
            Self::Busy(code) | Self::Of(code) => code,
            Self::Lost => args::LOST,
            Self::Unreachable => args::UNREACHABLE,
        }
    }
}

/// What went wrong, in words, and how the command ends.
#[derive(Debug)]
pub struct Failure(pub End, pub String);

impl Failure {
    pub fn unreachable(error: impl std::fmt::Display) -> Self {
        Self(End::Unreachable, error.to_string())
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        let end = if matches!(error, QueryError::Name(_)) { End::Of(2) } else { End::Unreachable };
        Self(end, error.to_string())
    }
}

pub type Outcome = Result<End, Failure>;

fn main() -> ExitCode {
    // The processes that `run` is made of: they have their own words, and no runtime with threads.
    let mut words = std::env::args_os().skip(1);
    let helper = words.next().and_then(|first| Some((first.into_string().ok()?, words.collect::<Vec<_>>())));
    if let Some(code) = helper.and_then(|(first, rest)| run::helper(&first, rest)) {
        return ExitCode::from(code);
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if error.use_stderr() && is_json_asked() => {
            return say(&Failure(End::Of(2), error.to_string()), true);
        }
        Err(error) => error.exit(),
    };
    let json = args.json;
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return say(&Failure::unreachable(error), json),
    };
    match runtime.block_on(dispatch(args)) {
        Ok(end) => ExitCode::from(end.code()),
        Err(failure) => say(&failure, json),
    }
}

/// Whether it was, where what was typed is not understood. Behind `--` are the words of the command that is run.
fn is_json_asked() -> bool {
    std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json")
}

fn say(Failure(end, words): &Failure, json: bool) -> ExitCode {
    if *end != End::Done {
        out::failed(json, words, end.code());
    }
    ExitCode::from(end.code())
}

async fn dispatch(args: Args) -> Outcome {
    let out = out::Out::new(args.json, args.color);
    match args.verb {
        Verb::Ls(verb) => ls::run(&connect(&args.server, None).await?, &out, verb).await,
        Verb::Show(verb) => show::run(&connect(&args.server, None).await?, &out, verb).await,
        Verb::Force(verb) => force::run(&connect(&args.server, None).await?, &out, verb).await,
        Verb::Run(verb) => run::run(&args.server, &out, verb).await,
        Verb::Doctor(verb) => {
            let url = verb.at.unwrap_or_else(|| args.server.url.clone());
            doctor::run(&connect(&Server { url, ..args.server }, None).await?, &out).await
        }
        Verb::Watch(verb) => watch::run(&connect(&args.server, None).await?, &out, verb).await,
        Verb::Top(verb) => top::run(&connect(&args.server, None).await?, &out, verb).await,
        Verb::Completions { shell } => {
            // Behind a pipe that nobody reads any more it would panic.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "lockson", &mut script);
            out.line(String::from_utf8_lossy(&script).trim_end())?;
            Ok(End::Done)
        }
        Verb::Man => man::run(&out),
    }
}

/// A client; `lease`: what it holds is renewed, with this one.
async fn connect(server: &Server, lease: Option<Duration>) -> Result<Locks, Failure> {
    let mut builder = Locks::builder().label("cli").allow_eviction();
    if let Some(prefix) = &server.prefix {
        builder = builder.key_prefix(prefix);
    }
    if let Some(user) = &server.user {
        builder = builder.username(user);
    }
    if let Some(password) = &server.password {
        builder = builder.password(password);
    }
    if let Some(path) = &server.ca {
        let pem = std::fs::read(path).map_err(|error| Failure(End::No, format!("{}: {error}", path.display())))?;
        builder = builder.ca_pem(pem);
    }
    if let Some(lease) = lease {
        // A renewal that is not answered is tried again well before the lease ends.
        builder = builder.watchdog_lease(lease).max_lease(lease.max(Duration::from_secs(60)));
        builder = builder.command_timeout((lease / 10).clamp(Duration::from_millis(100), Duration::from_secs(1)));
    }
    builder.connect_timeout(server.timeout).connect(&server.url).await.map_err(Failure::unreachable)
}
