//! One copy of a script call, and what became of it: its answer, or what the lack of one means.

use std::iter;
use std::sync::OnceLock;

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
    /// Which of the bodies of lua/group.lua it is, if calls of it may go with others.
    pub(crate) body: Option<&'static str>,
    sha: OnceLock<String>,
}

impl Script {
    pub(crate) const fn new(name: &'static str, text: &'static str, keys: &'static [Key]) -> Self {
        Self { name, text, keys, body: None, sha: OnceLock::new() }
    }

    /// The same as a body of lua/group.lua.
    pub(crate) const fn in_groups(mut self, body: &'static str) -> Self {
        self.body = Some(body);
        self
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
    /// Whether its node is asked for keys that are on their way to it, after an ASK: for this copy alone.
    pub(crate) asking: bool,
    /// How many replicas have to have what it wrote, and for how many milliseconds they are waited for.
    pub(crate) confirm: Option<(u32, i64)>,
}

impl<'a> Call<'a> {
    /// Which of the names stand for this, of one lock after the other.
    fn named(&self, key: Key) -> impl Iterator<Item = &'a str> + Clone {
        let of_one = self.script.keys;
        let named = move |(at, _): &(usize, &&str)| of_one.get(at % of_one.len().max(1)) == Some(&key);
        self.names.iter().enumerate().filter(named).map(|(_, name)| *name)
    }

    /// KEYS.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'a str> {
        let channel = self.script.keys.iter().position(|key| *key == Key::Channel);
        let value = self.script.keys.iter().position(|key| *key == Key::Value).zip(Some(self.script.keys.len()));
        let is_key = move |at: usize| Some(at) != channel && value.is_none_or(|(value, of_one)| at % of_one != value);
        self.names.iter().enumerate().filter(move |(at, _)| is_key(*at)).map(|(_, name)| *name)
    }

    /// ARGV behind the first two, but for what the script announces.
    pub(crate) fn argv(&self) -> impl Iterator<Item = &'a str> + Clone {
        self.named(Key::Value).chain(self.args.iter().copied())
    }

    /// What stands at the end of ARGV, if the script announces anything: by this command, and where.
    pub(crate) fn announces(&self, publish: &'a str) -> impl Iterator<Item = &'a str> + Clone {
        let channel = self.named(Key::Channel).next();
        channel.into_iter().flat_map(move |channel| [publish, channel])
    }
}

/// One element of a script's reply, which is a flat array, or one text of the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Int(i64),
    Text(String),
    Nil,
}

impl Item {
    /// Those of a reply that is one text, as lua/begin.lua has it; all further lines are one.
    pub(crate) fn of_text(text: &str) -> Vec<Self> {
        let (line, lines) = text.split_once('\n').map_or((text, None), |(line, lines)| (line, Some(lines)));
        let mut words = line.split(' ');
        let status = words.next().unwrap_or_default();
        let status = status.parse().map_or_else(|_| Self::Text(status.to_owned()), Self::Int);
        iter::once(status).chain(words.chain(lines).map(|word| Self::Text(word.to_owned()))).collect()
    }
}

/// Whether the answer of a script says that something is held now.
pub(crate) fn grants(items: &[Item]) -> bool {
    items.first() == Some(&Item::Int(1))
}

/// How a node begins that says that its cluster is down.
pub(super) const CLUSTER_DOWN: &str = "CLUSTERDOWN";

/// What became of one copy that has no answer. Nothing below this seam sends a call twice (rule 4 of docs/PROTOCOL.md).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It came after its `not_after`: it wrote nothing, and the server's clock is known now.
    Late,
    /// It did not run and never will: no connection took it, or the server is not ready (LOADING, BUSY, CLUSTERDOWN,
    /// ...). Worth another try.
    NotSent(String),
    /// NOSCRIPT: it did not run, the server has to be sent the script's text.
    UnknownScript,
    /// It did not run: the node at this address (`host:port`) has the key.
    Moved(String),
    /// It did not run: the key is on its way to the node at this address, which has to be asked, this once.
    Ask(String),
    /// It did not run: of its keys, which are on their way to another node, some have come there and others have not.
    TryAgain(String),
    /// It did not run and never will.
    Refused(Refused),
    /// It may have run, may run later, or neither.
    Doubtful(String),
}

/// What one copy came to: its answer, or else its fate.
pub(crate) type Outcome = Result<Vec<Item>, Fate>;

impl Fate {
    /// Whether the node says that its cluster is down: it answers at once, and nobody tells when it is up again.
    pub(crate) fn is_down(&self) -> bool {
        matches!(self, Self::NotSent(why) | Self::Doubtful(why) if why.starts_with(CLUSTER_DOWN))
    }

    /// Whether it is an answer that may have been said of another call.
    #[cfg(feature = "redis")]
    pub(super) fn is_told(&self) -> bool {
        matches!(self, Self::Doubtful(why) if Self::of_error(why).is_some())
    }

    /// The same of a call that no other was beside: it was said of this one, so it did not run.
    #[cfg(feature = "redis")]
    pub(super) fn said_of_it(self) -> Self {
        match self {
            Self::Doubtful(why) => Self::of_error(&why).unwrap_or(Self::Doubtful(why)),
            fate => fate,
        }
    }

    /// As a label of metrics.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::NotSent(_) => "not_sent",
            Self::UnknownScript | Self::Refused(_) => "refused",
            Self::Moved(_) | Self::Ask(_) | Self::TryAgain(_) => "moved",
            Self::Doubtful(_) => "in_doubt",
        }
    }

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
            "MOVED" => text.split(' ').nth(2).map(|address| Self::Moved(address.to_owned())),
            "ASK" => text.split(' ').nth(2).map(|address| Self::Ask(address.to_owned())),
            "NOAUTH" | "WRONGPASS" => Some(Self::Refused(Refused::NotAuthenticated(text.to_owned()))),
            "READONLY" => Some(Self::Refused(Refused::ReadOnly)),
            "OOM" => Some(Self::Refused(Refused::OutOfMemory)),
            "TRYAGAIN" => Some(Self::TryAgain(text.to_owned())),
            "LOADING" | "BUSY" | "MASTERDOWN" | "NOREPLICAS" | "MISCONF" | CLUSTER_DOWN => {
                Some(Self::NotSent(text.to_owned()))
            }
            _ => None,
        }
    }

    /// Reads an error reply to a script. One that was raised in the script, which servers mark, may have come behind a
    /// write. (Not a wrong type: scripts look at types before they write.)
    pub(crate) fn of_reply(text: &str) -> Self {
        let is_raised = text.starts_with("ERR ") && (text.contains(", on @") || text.contains("non local key"));
        match Self::of_error(text) {
            Some(fate) => fate,
            None if is_raised => Self::Doubtful(text.to_owned()),
            None => Self::refused(text),
        }
    }

    /// Any other refusal, in the server's words.
    pub(crate) fn refused(text: &str) -> Self {
        Self::Refused(Refused::Other(text.to_owned()))
    }
}
