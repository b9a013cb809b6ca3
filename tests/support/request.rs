//! The commands clients send, and which of them a fault is meant for.

use super::sha1;
use std::fmt;
use std::sync::Arc;

/// One command as a client sent it.
#[derive(Debug, Clone)]
pub struct Request {
    /// The connection it came by; the proxy counts them from 1.
    pub connection: u64,
    /// The name of the command and its arguments.
    pub args: Vec<Vec<u8>>,
    /// The text of the script it calls, once the proxy has seen that text in an EVAL or SCRIPT LOAD.
    pub script: Option<Arc<str>>,
}

impl Request {
    /// Reads one whole command from the front of `bytes`, with its length.
    pub(super) fn read(bytes: &[u8], connection: u64) -> Option<(Request, usize)> {
        let mut at = 0;
        let head = line(bytes, &mut at)?;
        let mut args = Vec::new();
        match head.strip_prefix(b"*") {
            None => args.extend(head.split(|byte| *byte == b' ').map(<[u8]>::to_vec)),
            Some(count) => {
                for _ in 0..number(count) {
                    let head = line(bytes, &mut at)?;
                    let len = number(head.strip_prefix(b"$").expect("a bulk string"));
                    bytes.get(at..at + len + 2)?;
                    args.push(bytes[at..at + len].to_vec());
                    at += len + 2;
                }
            }
        }
        let request = Request { connection, args, script: None };
        Some((request, at))
    }

    /// The name of the command, in upper case.
    pub fn name(&self) -> String {
        self.arg(0).to_uppercase()
    }

    /// One argument as text; 0 is the name, and what is not there is empty.
    pub fn arg(&self, index: usize) -> String {
        let arg = self.args.get(index).map_or(&[][..], Vec::as_slice);
        String::from_utf8_lossy(arg).into_owned()
    }

    /// All arguments as text.
    pub fn texts(&self) -> Vec<String> {
        (0..self.args.len()).map(|index| self.arg(index)).collect()
    }

    /// Whether it calls a script.
    pub fn is_script(&self) -> bool {
        matches!(self.name().as_str(), "EVAL" | "EVALSHA" | "EVAL_RO" | "EVALSHA_RO" | "FCALL" | "FCALL_RO")
    }

    /// Whether it subscribes to a channel.
    pub fn is_subscribe(&self) -> bool {
        matches!(self.name().as_str(), "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE")
    }

    /// Whether it ends subscriptions.
    pub fn is_unsubscribe(&self) -> bool {
        matches!(self.name().as_str(), "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "SUNSUBSCRIBE")
    }

    /// Whether it sets up the connection, so that a later one needs it too.
    pub(super) fn is_prelude(&self) -> bool {
        matches!(self.name().as_str(), "HELLO" | "AUTH" | "SELECT")
    }

    /// The script text it carries.
    pub(super) fn carried_script(&self) -> Option<String> {
        match self.name().as_str() {
            "EVAL" | "EVAL_RO" => Some(self.arg(1)),
            "SCRIPT" if self.arg(1).eq_ignore_ascii_case("load") => Some(self.arg(2)),
            _ => None,
        }
    }
}

/// The line from `at` to the next line end, which is stepped over.
fn line<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let rest = &bytes[*at..];
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    *at += end + 2;
    Some(&rest[..end])
}

fn number(digits: &[u8]) -> usize {
    String::from_utf8_lossy(digits).parse().expect("a length")
}

/// Which requests a fault or a count is for.
#[derive(Clone)]
pub enum Filter {
    /// Every request, also those that set up a connection.
    Any,
    /// Every call of a script.
    Script,
    /// Calls of one script, by its SHA-1, its whole text, or a fragment of its text. By a fragment, an EVALSHA is known
    /// only after the proxy saw the text pass; by the whole text or the SHA-1, always.
    ScriptNamed(String),
    /// Subscriptions of any kind.
    Subscribe,
    /// PING.
    Ping,
    /// One command by its name, such as `HELLO`.
    Command(&'static str),
    /// Requests with an argument that contains this text.
    Holds(String),
    /// Requests both filters are for.
    Both(Box<Filter>, Box<Filter>),
    /// Whatever a function picks; see [`Filter::on`].
    Custom(Arc<dyn Fn(&Request) -> bool + Send + Sync>),
}

impl Filter {
    /// The requests for which `pick` is true.
    pub fn on(pick: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Filter {
        Filter::Custom(Arc::new(pick))
    }

    /// Calls of one script; see [`Filter::ScriptNamed`].
    pub fn script(name: impl Into<String>) -> Filter {
        Filter::ScriptNamed(name.into())
    }

    /// The same of a script whose whole text this is.
    pub fn script_of(text: &str) -> Filter {
        Filter::script(sha1(text))
    }

    /// The requests that this filter and `other` are for.
    pub fn and(self, other: Filter) -> Filter {
        Filter::Both(Box::new(self), Box::new(other))
    }

    /// The same, of requests with an argument that contains `text`.
    pub fn with(self, text: impl Into<String>) -> Filter {
        self.and(Filter::Holds(text.into()))
    }

    /// Whether it is for this request.
    pub fn picks(&self, request: &Request) -> bool {
        match self {
            Filter::Any => true,
            Filter::Script => request.is_script(),
            Filter::ScriptNamed(name) => request.is_script() && names(request, name),
            Filter::Subscribe => request.is_subscribe(),
            Filter::Ping => request.name() == "PING",
            Filter::Command(name) => request.name().eq_ignore_ascii_case(name),
            Filter::Holds(text) => request.texts().iter().any(|arg| arg.contains(text)),
            Filter::Both(one, other) => one.picks(request) && other.picks(request),
            Filter::Custom(pick) => pick(request),
        }
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::Any => write!(out, "any"),
            Filter::Script => write!(out, "script"),
            Filter::ScriptNamed(name) => write!(out, "script {name:?}"),
            Filter::Subscribe => write!(out, "subscribe"),
            Filter::Ping => write!(out, "ping"),
            Filter::Command(name) => write!(out, "{name}"),
            Filter::Holds(text) => write!(out, "holds {text:?}"),
            Filter::Both(one, other) => write!(out, "{one:?} and {other:?}"),
            Filter::Custom(_) => write!(out, "custom"),
        }
    }
}

/// Whether `name` is the SHA-1, the text, or a part of the text of the script a request calls.
fn names(request: &Request, name: &str) -> bool {
    let called = request.arg(1);
    called.contains(name)
        || called == sha1(name)
        || request.script.as_ref().is_some_and(|text| text.contains(name) || sha1(text) == name)
}
