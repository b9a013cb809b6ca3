//! The seam: all that lockson asks of a server. Two implementations stand behind it, [`fred`] for real servers and
//! [`embedded`](super) for one inside the process; both run the same Lua files.

#[cfg(feature = "embedded")]
pub(crate) mod embedded;
#[cfg(feature = "redis")]
pub(crate) mod fred;
#[cfg(feature = "redis")]
pub(crate) mod url;

use std::sync::OnceLock;

use ::futures::future::BoxFuture;

use crate::base::clock::ServerTime;
use crate::base::fault::Refused;
use crate::base::keys::Key;

/// A Lua file of `lua/`, as it is sent.
#[derive(Debug)]
pub struct Script {
    /// `folder/verb`, for messages.
    pub(crate) name: &'static str,
    /// The text, joined at compile time.
    pub(crate) text: &'static str,
    /// Of one lock: its KEYS, and the channel, if it announces anything.
    pub(crate) keys: &'static [Key],
    sha: OnceLock<String>,
}

impl Script {
    pub(crate) const fn new(name: &'static str, text: &'static str, keys: &'static [Key]) -> Self {
        Self { name, text, keys, sha: OnceLock::new() }
    }

    /// What EVALSHA names it by: the SHA-1 of its text.
    pub(crate) fn sha(&self) -> &str {
        self.sha.get_or_init(|| sha1_smol::Sha1::from(self.text).digest().to_string())
    }
}

/// One copy of one script call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) script: &'static Script,
    /// As [`Script::keys`] has them, of one lock or more; behind them what one call has of its own.
    pub(crate) names: &'a [&'a str],
    /// The first two of its ARGV, as lua/begin.lua reads them.
    pub(crate) nonce: u64,
    pub(crate) not_after: ServerTime,
    /// What follows them.
    pub(crate) args: &'a [&'a str],
    /// Whether the script's text goes along, for a server that does not know it.
    pub(crate) in_full: bool,
}

impl<'a> Call<'a> {
    fn channel_at(&self) -> Option<usize> {
        self.script.keys.iter().position(|key| *key == Key::Channel)
    }

    /// KEYS.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'a str> {
        let channel = self.channel_at();
        self.names.iter().enumerate().filter(move |(at, _)| Some(*at) != channel).map(|(_, name)| *name)
    }

    /// What stands at the end of ARGV, if the script announces anything: by this command, and where.
    pub(crate) fn announces(&self, publish: &'a str) -> impl Iterator<Item = &'a str> {
        let channel = self.channel_at().and_then(|at| self.names.get(at));
        channel.into_iter().flat_map(move |channel| [publish, channel])
    }
}

/// One element of a script's reply, which is always a flat array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Int(i64),
    Text(String),
    Nil,
}

/// What became of one copy that has no answer. Nothing below this seam sends a call twice (rule 4 of docs/PROTOCOL.md).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It came after its `not_after`: it wrote nothing, and the server's clock is known now.
    Late,
    /// It did not run and never will: no connection took it, or the server is not ready (LOADING, BUSY, MASTERDOWN,
    /// ...). Worth another try.
    NotSent(String),
    /// NOSCRIPT: it did not run, the server has to be sent the script's text.
    UnknownScript,
    /// It did not run and never will.
    Refused(Refused),
    /// It may have run, may run later, or neither.
    Doubtful(String),
}

/// What one copy came to: its answer, or else its fate.
pub(crate) type Outcome = Result<Vec<Item>, Fate>;

impl Fate {
    /// Reads the text of an error reply. `None`: it is none of those that a server gives before it writes.
    pub(crate) fn of_error(text: &str) -> Option<Self> {
        // What a script's user may not use, in the words of Redis 7.0, and in those of Redis 7.2 and Valkey.
        let in_a_script = ["The user executing the script can't", "ACL failure in script"];
        if text.starts_with("NOPERM") || in_a_script.iter().any(|words| text.contains(words)) {
            return Some(Self::Refused(Refused::NoPermission(text.to_owned())));
        }
        let word = text.split(' ').next().unwrap_or_default();
        if text.starts_with("NOSCRIPT No matching script") {
            return Some(Self::UnknownScript);
        }
        // Redis 7 keeps the prefix of an error raised inside a script; older servers wrap it.
        match word {
            "NOAUTH" | "WRONGPASS" => Some(Self::Refused(Refused::NotAuthenticated(text.to_owned()))),
            "READONLY" => Some(Self::Refused(Refused::ReadOnly)),
            "OOM" => Some(Self::Refused(Refused::OutOfMemory)),
            "LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "NOREPLICAS" | "MISCONF" => {
                Some(Self::NotSent(text.to_owned()))
            }
            _ => None,
        }
    }

    /// Any other refusal, in the server's words.
    pub(crate) fn refused(text: &str) -> Self {
        Self::Refused(Refused::Other(text.to_owned()))
    }
}

/// What a backend reports of its subscriptions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Signal {
    /// A message arrived on this channel; `zero` if it says `0`.
    Message { channel: String, zero: bool },
    /// Messages may have been missed and no subscription may be left: subscribe again, then let every waiter try again.
    Gap,
    /// The server answers where messages come from.
    Whole,
}

/// A server, as seen by one client. Calls of one client that are polled in order reach the server in that order, as
/// long as its connection lives.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Sends one copy, once, and answers within the command timeout. Nothing is sent before the first poll. Dropping
    /// the future does not take the copy back.
    fn call(&self, call: Call<'_>) -> BoxFuture<'static, Outcome>;

    /// Subscribes and confirms it: a message published after this returned `Ok` is reported, or a [`Signal::Gap`] is.
    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), String>>;

    /// Ends subscriptions.
    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, ()>;

    /// Drops the connection and makes a new one: an answer did not belong to its question.
    fn reset(&self);

    /// Ends every task and socket.
    fn close(&self) -> BoxFuture<'static, ()>;
}
