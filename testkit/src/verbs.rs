//! What a client says about itself: its protocol, its name, and what it listens to.

use std::collections::BTreeSet;

use lockson_embedded::{Topic, Value, REDIS_VERSION};

use crate::reply::{lossy, Protocol, Reply, Shape};

const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. \
    Are you sure your configuration is correct?";
const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_PROTOCOL: &str = "NOPROTO unsupported protocol version";

/// What is known of a client.
pub(crate) struct Client {
    number: i64,
    pub(crate) protocol: Protocol,
    name: Vec<u8>,
    topics: BTreeSet<Topic>,
}

/// What became of a request here.
pub(crate) enum Done {
    /// Nothing: it is for the server.
    Not,
    Said(Vec<Reply>),
    Subscribed(Vec<Topic>, Vec<Reply>),
    Unsubscribed(Vec<Topic>, Vec<Reply>),
    Quit(Reply),
}

/// What a client subscribes to by one command. Shards are counted apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Channels,
    Patterns,
    Shards,
}

impl Sort {
    fn of(topic: &Topic) -> Self {
        match topic {
            Topic::Channel(_) => Self::Channels,
            Topic::Pattern(_) => Self::Patterns,
            Topic::Shard(_) => Self::Shards,
        }
    }

    fn topic(self, name: &[u8]) -> Option<Topic> {
        let name = String::from_utf8(name.to_vec()).ok()?;
        Some(match self {
            Self::Channels => Topic::Channel(name),
            Self::Patterns => Topic::Pattern(name),
            Self::Shards => Topic::Shard(name),
        })
    }
}

fn name_of(topic: &Topic) -> &str {
    match topic {
        Topic::Channel(name) | Topic::Pattern(name) | Topic::Shard(name) => name,
    }
}

fn said(reply: Reply) -> Done {
    Done::Said(vec![reply])
}

fn error(text: impl Into<String>) -> Done {
    said(Reply::error(text.into()))
}

fn wrong_arity(verb: &str) -> Done {
    error(format!("ERR wrong number of arguments for '{verb}' command"))
}

fn is(word: &[u8], option: &str) -> bool {
    word.eq_ignore_ascii_case(option.as_bytes())
}

fn bulk(text: impl Into<Vec<u8>>) -> Value {
    Value::Bulk(text.into())
}

impl Client {
    pub(crate) fn new(number: i64) -> Self {
        Self { number, protocol: Protocol::Resp2, name: Vec::new(), topics: BTreeSet::new() }
    }

    /// Does what is to be done here.
    pub(crate) fn ask(&mut self, words: &[Vec<u8>]) -> Done {
        let Some((verb, args)) = words.split_first() else { return Done::Not };
        let verb = lossy(verb).to_lowercase();
        let listens = self.protocol == Protocol::Resp2 && !self.topics.is_empty();
        match verb.as_str() {
            "subscribe" => self.subscribe(Sort::Channels, &verb, args),
            "psubscribe" => self.subscribe(Sort::Patterns, &verb, args),
            "ssubscribe" => self.subscribe(Sort::Shards, &verb, args),
            "unsubscribe" => self.unsubscribe(Sort::Channels, &verb, args),
            "punsubscribe" => self.unsubscribe(Sort::Patterns, &verb, args),
            "sunsubscribe" => self.unsubscribe(Sort::Shards, &verb, args),
            "quit" => Done::Quit(Reply::ok()),
            "ping" if listens && args.len() < 2 => {
                let text = args.first().cloned().unwrap_or_default();
                said(Reply::plain(Value::List(vec![bulk("pong"), Value::Bulk(text)])))
            }
            _ if listens => error(format!(
                "ERR Can't execute '{verb}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed \
                 in this context"
            )),
            "hello" => self.hello(args),
            "auth" => match args {
                [_] => error(NO_PASSWORD),
                [user, _] if user != b"default" => error(WRONG_PASSWORD),
                [_, _] => said(Reply::ok()),
                _ => wrong_arity(&verb),
            },
            "select" => match args {
                [database] if database == b"0" => said(Reply::ok()),
                [_] => error("ERR DB index is out of range"),
                _ => wrong_arity(&verb),
            },
            "client" => self.client(args),
            // What there is the server says when it is asked for something else.
            "command" => said(Reply::plain(Value::List(Vec::new()))),
            _ => Done::Not,
        }
    }

    fn hello(&mut self, args: &[Vec<u8>]) -> Done {
        let (mut protocol, mut name, mut rest) = (self.protocol, None, args);
        if let [version, options @ ..] = args {
            protocol = match version.as_slice() {
                b"2" => Protocol::Resp2,
                b"3" => Protocol::Resp3,
                other if lossy(other).parse::<i64>().is_ok() => return error(NO_PROTOCOL),
                _ => return error("ERR Protocol version is not an integer or out of range"),
            };
            rest = options;
        }
        while let [option, more @ ..] = rest {
            rest = match more {
                [user, _, ..] if is(option, "AUTH") && user != b"default" => return error(WRONG_PASSWORD),
                [_, _, others @ ..] if is(option, "AUTH") => others,
                [wanted, others @ ..] if is(option, "SETNAME") => {
                    name = Some(wanted);
                    others
                }
                _ => return error(format!("ERR Syntax error in HELLO option '{}'", lossy(option))),
            };
        }
        self.protocol = protocol;
        self.name = name.unwrap_or(&self.name).clone();
        let version = if protocol == Protocol::Resp2 { 2 } else { 3 };
        let facts = [
            ("server", bulk("redis")),
            ("version", bulk(REDIS_VERSION)),
            ("proto", Value::Int(version)),
            ("id", Value::Int(self.number)),
            ("mode", bulk("standalone")),
            ("role", bulk("master")),
            ("modules", Value::List(Vec::new())),
        ];
        let value = Value::List(facts.into_iter().flat_map(|(name, value)| [bulk(name), value]).collect());
        said(Reply { shape: Shape::Map, value })
    }

    fn client(&mut self, args: &[Vec<u8>]) -> Done {
        let Some((verb, args)) = args.split_first() else { return wrong_arity("client") };
        match args {
            [] if is(verb, "ID") => said(Reply::plain(Value::Int(self.number))),
            [] if is(verb, "GETNAME") && self.name.is_empty() => said(Reply::plain(Value::Nil)),
            [] if is(verb, "GETNAME") => said(Reply::plain(Value::Bulk(self.name.clone()))),
            [name] if is(verb, "SETNAME") => {
                if name.iter().any(|byte| !byte.is_ascii_graphic()) {
                    return error("ERR Client names cannot contain spaces, newlines or special characters.");
                }
                self.name.clone_from(name);
                said(Reply::ok())
            }
            [_, _] if is(verb, "SETINFO") => said(Reply::ok()),
            [_] if is(verb, "NO-EVICT") || is(verb, "NO-TOUCH") => said(Reply::ok()),
            _ => error(format!("ERR unknown subcommand '{}'. Try CLIENT HELP.", lossy(verb))),
        }
    }

    /// One confirmation, with the number of what it is subscribed to now.
    fn confirm(&self, sort: Sort, verb: &str, name: Value) -> Reply {
        let is_counted = |topic: &&Topic| (Sort::of(topic) == Sort::Shards) == (sort == Sort::Shards);
        let count = self.topics.iter().filter(is_counted).count();
        let value = Value::List(vec![bulk(verb), name, Value::Int(i64::try_from(count).unwrap_or(i64::MAX))]);
        Reply { shape: Shape::Push, value }
    }

    fn subscribe(&mut self, sort: Sort, verb: &str, args: &[Vec<u8>]) -> Done {
        if args.is_empty() {
            return wrong_arity(verb);
        }
        let Some(topics) = args.iter().map(|name| sort.topic(name)).collect::<Option<Vec<_>>>() else {
            return error("ERR a name of a channel is UTF-8 here");
        };
        let confirm = |topic: &Topic| {
            self.topics.insert(topic.clone());
            self.confirm(sort, verb, bulk(name_of(topic)))
        };
        let replies = topics.iter().map(confirm).collect();
        Done::Subscribed(topics, replies)
    }

    fn unsubscribe(&mut self, sort: Sort, verb: &str, args: &[Vec<u8>]) -> Done {
        let topics: Vec<Topic> = match args {
            [] => self.topics.iter().filter(|topic| Sort::of(topic) == sort).cloned().collect(),
            names => names.iter().filter_map(|name| sort.topic(name)).collect(),
        };
        let confirm = |topic: &Topic| {
            self.topics.remove(topic);
            self.confirm(sort, verb, bulk(name_of(topic)))
        };
        let mut replies: Vec<Reply> = topics.iter().map(confirm).collect();
        if replies.is_empty() {
            replies.push(self.confirm(sort, verb, Value::Nil));
        }
        Done::Unsubscribed(topics, replies)
    }
}
