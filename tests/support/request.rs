//! The commands clients send, and which of them a fault is meant for.

use super::files::sent;
use super::reply::Reply;
use super::sha1;

/// One command as a client sent it: its name and its arguments, as text.
#[derive(Debug, Clone)]
pub struct Request(pub Vec<String>);

impl Request {
    /// Reads one whole command from the front of `bytes`, with its length.
    pub(super) fn read(bytes: &[u8]) -> Option<(Request, usize)> {
        if bytes.first() == Some(&b'*') {
            let (words, len) = Reply::read(bytes)?;
            return Some((Request(words.texts()), len));
        }
        // A line of words, as fred says HELLO.
        let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let words = String::from_utf8_lossy(&bytes[..end]).split(' ').map(str::to_owned).collect();
        Some((Request(words), end + 2))
    }

    pub fn name(&self) -> String {
        self.arg(0).to_uppercase()
    }

    /// One argument; 0 is the name, and what is not there is empty.
    pub fn arg(&self, index: usize) -> &str {
        self.0.get(index).map_or("", String::as_str)
    }

    fn is_one_of(&self, names: &[&str]) -> bool {
        names.contains(&self.name().as_str())
    }

    pub fn is_subscribe(&self) -> bool {
        self.is_one_of(&["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"])
    }

    pub fn is_unsubscribe(&self) -> bool {
        self.is_one_of(&["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"])
    }

    /// Whether it sets up the connection, so that a later one needs it too.
    pub(super) fn is_prelude(&self) -> bool {
        self.is_one_of(&["HELLO", "AUTH", "SELECT"])
    }
}

/// Which requests a fault or a count is for.
#[derive(Debug, Clone)]
pub enum Filter {
    /// Every request, also those that set up a connection.
    Any,
    Script,
    /// Calls of the script with this SHA-1.
    ScriptOf(String),
    Subscribe,
    /// One command by its name, such as `HELLO`.
    Command(&'static str),
    /// Those of the filter that have an argument which contains this text.
    With(Box<Filter>, String),
}

impl Filter {
    /// Calls of a script of lua/, such as `fair/acquire`.
    pub fn of(script: &str) -> Filter {
        Filter::script_of(&sent(script))
    }

    /// The same by its text.
    pub fn script_of(text: &str) -> Filter {
        Filter::ScriptOf(sha1(text))
    }

    /// The same, of requests with an argument that contains `text`.
    pub fn with(self, text: impl Into<String>) -> Filter {
        Filter::With(Box::new(self), text.into())
    }

    pub fn picks(&self, request: &Request) -> bool {
        match self {
            Filter::Any => true,
            Filter::Script => request.is_one_of(&["EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO"]),
            // A client that does not know whether the server has the script sends its text.
            Filter::ScriptOf(sha) => {
                Filter::Script.picks(request) && (request.arg(1) == sha || sha1(request.arg(1)) == *sha)
            }
            Filter::Subscribe => request.is_subscribe(),
            Filter::Command(name) => request.name().eq_ignore_ascii_case(name),
            Filter::With(filter, text) => filter.picks(request) && request.0.iter().any(|arg| arg.contains(text)),
        }
    }
}
