//! The answers of a server, and how they are read off the wire.

/// One answer of a server, of RESP2 or RESP3; text is made UTF-8 with losses.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Nil,
    /// A whole number; booleans of RESP3 are 0 and 1.
    Int(i64),
    /// A status line, a bulk string, or another scalar of RESP3.
    Text(String),
    /// An array, set, push, or a map laid flat.
    List(Vec<Reply>),
    /// An error the server gave, without its leading `-`.
    Error(String),
}

impl Reply {
    /// The number; text that spells one counts too.
    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Reply::Int(value) => *value,
            Reply::Text(text) => text.parse().unwrap(),
            other => panic!("no number: {other:?}"),
        }
    }

    /// The text; a number is spelled out.
    #[track_caller]
    pub fn text(&self) -> String {
        match self {
            Reply::Text(text) => text.clone(),
            Reply::Int(value) => value.to_string(),
            other => panic!("no text: {other:?}"),
        }
    }

    /// The text, or nothing where the server has no value.
    #[track_caller]
    pub fn optional(&self) -> Option<String> {
        match self {
            Reply::Nil => None,
            other => Some(other.text()),
        }
    }

    #[track_caller]
    pub fn list(&self) -> Vec<Reply> {
        match self {
            Reply::List(items) => items.clone(),
            other => panic!("no list: {other:?}"),
        }
    }

    /// The members of a list, as text.
    #[track_caller]
    pub fn texts(&self) -> Vec<String> {
        self.list().iter().map(Reply::text).collect()
    }

    /// An error becomes the `Err` side.
    pub fn result(self) -> Result<Reply, String> {
        match self {
            Reply::Error(text) => Err(text),
            other => Ok(other),
        }
    }

    /// Reads one whole answer from the front of `bytes`, with its length; `None` while some of it is missing.
    pub fn read(bytes: &[u8]) -> Option<(Reply, usize)> {
        let mut at = 0;
        let reply = value(bytes, &mut at)?;
        Some((reply, at))
    }
}

/// The line from `at` to the next line end, which is stepped over.
fn line<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let rest = &bytes[*at..];
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    *at += end + 2;
    Some(&rest[..end])
}

/// `len` bytes and the line end after them.
fn bulk<'a>(bytes: &'a [u8], at: &mut usize, len: usize) -> Option<&'a [u8]> {
    let found = bytes.get(*at..*at + len)?;
    bytes.get(*at + len..*at + len + 2)?;
    *at += len + 2;
    Some(found)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn value(bytes: &[u8], at: &mut usize) -> Option<Reply> {
    let head = line(bytes, at)?;
    let (kind, rest) = head.split_first().expect("a reply line is never empty");
    let number = || -> i64 { lossy(rest).parse().unwrap_or_else(|_| panic!("not RESP: {:?}", lossy(head))) };
    Some(match kind {
        b'+' | b',' | b'(' => Reply::Text(lossy(rest)),
        b'-' => Reply::Error(lossy(rest)),
        b':' => Reply::Int(number()),
        b'#' => Reply::Int(i64::from(rest == b"t")),
        b'_' => Reply::Nil,
        b'$' | b'=' | b'!' => match usize::try_from(number()) {
            Err(_) => Reply::Nil,
            Ok(len) => {
                let text = lossy(bulk(bytes, at, len)?);
                match kind {
                    b'!' => Reply::Error(text),
                    b'=' => Reply::Text(text.chars().skip(4).collect()),
                    _ => Reply::Text(text),
                }
            }
        },
        b'*' | b'~' | b'>' => match usize::try_from(number()) {
            Err(_) => Reply::Nil,
            Ok(len) => Reply::List(values(bytes, at, len)?),
        },
        b'%' => Reply::List(values(bytes, at, 2 * number() as usize)?),
        b'|' => {
            values(bytes, at, 2 * number() as usize)?;
            value(bytes, at)?
        }
        _ => panic!("not RESP: {:?}", lossy(head)),
    })
}

fn values(bytes: &[u8], at: &mut usize, len: usize) -> Option<Vec<Reply>> {
    (0..len).map(|_| value(bytes, at)).collect()
}

/// The bytes of a command: an array of bulk strings.
pub fn encode<T: AsRef<[u8]>>(args: &[T]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        out.extend(format!("${}\r\n", arg.as_ref().len()).into_bytes());
        out.extend(arg.as_ref());
        out.extend(b"\r\n");
    }
    out
}

/// A real server's answer in the words of the embedded one, which makes text of an error inside of a list.
impl From<Reply> for lockson::Reply {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Nil => Self::Nil,
            Reply::Int(value) => Self::Int(value),
            Reply::Text(text) | Reply::Error(text) => Self::Text(text),
            Reply::List(items) => Self::List(items.into_iter().map(Self::from).collect()),
        }
    }
}
