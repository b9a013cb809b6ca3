//! What is said on a connection to one server: commands, and its answers and pushes, by the parser of `redis-protocol`.

use std::time::Duration;

use redis_protocol::resp3::decode::complete::decode;
use redis_protocol::resp3::types::OwnedFrame;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::backend::fred_config::{without_ours, Dial, CREDENTIALS};
use crate::backend::url::HostPort;

/// Whoever is asked for credentials has so many times the limit of an answer, at most.
pub(crate) const ASKS: u32 = 3;

/// Before the words of an error of TLS.
pub(crate) const TLS: &str = "TLS: ";

/// What a server answers, or says unasked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Int(i64),
    Text(String),
    Nil,
    /// A map too: its keys and values in turn.
    List(Vec<Reply>),
}

impl Reply {
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Nothing, where it is no list.
    pub(crate) fn items(&self) -> &[Reply] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// The value of a key, where this is a map.
    pub(crate) fn get(&self, key: &str) -> Option<&Reply> {
        self.items().chunks_exact(2).find_map(|pair| match pair {
            [name, value] if name.text() == Some(key) => Some(value),
            _ => None,
        })
    }
}

/// An answer, or the server's words, or why there is none.
pub(crate) type Answer = Result<Reply, String>;

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Dial {
    /// A connection that has said who it is, and speaks RESP3; and what the server answered to a question more.
    pub(crate) async fn connect(&self, to: &HostPort, question: &[&str]) -> Result<(Talk, Answer), String> {
        let late = |_| format!("{CREDENTIALS}the provider said nothing");
        let (username, password) = timeout(self.limit * ASKS, self.login.ask(to)).await.map_err(late)??;
        let opened = timeout(self.connect, async {
            let mut talk = Talk { stream: self.open(to).await.map_err(|error| error.to_string())?, read: Vec::new() };
            let mut hello = vec!["HELLO", "3"];
            if let Some(password) = &password {
                hello.extend(["AUTH", username.as_deref().unwrap_or("default"), password]);
            }
            hello.extend(["SETNAME", &self.name]);
            talk.send(&[hello, question.to_vec()], self.limit).await?;
            talk.next().await?.map_err(|why| without_ours(&why))?;
            let answer = talk.next().await?;
            Ok((talk, answer))
        });
        opened.await.unwrap_or_else(|_| Err(format!("no answer within {:?}", self.connect)))
    }

    async fn open(&self, to: &HostPort) -> std::io::Result<Box<dyn Stream>> {
        #[cfg(unix)]
        if let Some(path) = &self.socket {
            return Ok(Box::new(tokio::net::UnixStream::connect(path).await?));
        }
        let stream = TcpStream::connect((to.host.as_str(), to.port)).await?;
        stream.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if let Some(connector) = &self.tls {
            let name = rustls::pki_types::ServerName::try_from(to.host.clone()).map_err(std::io::Error::other)?;
            let secret = connector.connect(name, stream).await;
            return Ok(Box::new(secret.map_err(|error| std::io::Error::other(format!("{TLS}{error}")))?));
        }
        Ok(Box::new(stream))
    }
}

/// An open connection.
pub(crate) struct Talk {
    pub(crate) stream: Box<dyn Stream>,
    /// What came of the next answer.
    pub(crate) read: Vec<u8>,
}

impl Talk {
    /// All in one write. A server that does not read for so long is dead.
    pub(crate) async fn send<W: AsRef<str>>(
        &mut self,
        commands: &[impl AsRef<[W]>],
        limit: Duration,
    ) -> Result<(), String> {
        let mut text = String::new();
        for words in commands.iter().map(AsRef::as_ref) {
            text.push_str(&format!("*{}\r\n", words.len()));
            for word in words.iter().map(AsRef::as_ref) {
                text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
            }
        }
        match timeout(limit, self.stream.write_all(text.as_bytes())).await {
            Ok(written) => written.map_err(|error| error.to_string()),
            Err(_) => Err(format!("nothing was taken for {limit:?}")),
        }
    }

    /// The next answer; pushes are skipped.
    async fn next(&mut self) -> Result<Answer, String> {
        loop {
            if let Heard::Answer(answer) = self.hear().await? {
                return Ok(answer);
            }
        }
    }

    /// The next answer or push. May be dropped: what was read stays.
    pub(crate) async fn hear(&mut self) -> Result<Heard, String> {
        loop {
            if let Some((frame, length)) = frame(&self.read)? {
                self.read.drain(..length);
                return Ok(heard(frame));
            }
            if self.stream.read_buf(&mut self.read).await.map_err(|error| error.to_string())? == 0 {
                return Err("the server closed the connection".to_owned());
            }
        }
    }
}

/// No answer that is wanted is nested so deeply. The parser goes down a call for each level, and the stack ends.
const DEEPEST: usize = 32;
/// What is open at first: one frame.
const FRAME: [u64; DEEPEST] = {
    let mut open = [0; DEEPEST];
    open[0] = 1;
    open
};

/// The first frame and how long it is, if it has come whole.
pub(super) fn frame(bytes: &[u8]) -> Result<Option<(OwnedFrame, usize)>, String> {
    if is_too_deep(bytes) {
        return Err("an answer is nested too deeply".to_owned());
    }
    decode(bytes).map_err(|error| error.to_string())
}

/// Whether the first frame is, as far as it has come.
fn is_too_deep(bytes: &[u8]) -> bool {
    // How many parts each list has yet that is open; the first is for the frame itself.
    let (mut open, mut depth, mut rest) = (FRAME, 0, bytes);
    loop {
        let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { return false };
        let Some((kind, number)) = rest.get(..end).and_then(<[u8]>::split_first) else { return false };
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse::<u64>().ok());
        let text = match kind {
            b'$' | b'!' | b'=' => number.map_or(0, |length| length.saturating_add(2)),
            _ => 0,
        };
        let behind = usize::try_from(text).ok().and_then(|text| rest.get((end + 2).checked_add(text)?..));
        let Some(behind) = behind else { return false };
        rest = behind;
        // What is said of a part stands before it, and is none.
        if let Some(parts) = open.get_mut(depth).filter(|_| *kind != b'|') {
            *parts = parts.saturating_sub(1);
        }
        let parts = match kind {
            b'*' | b'~' | b'>' => Some(number.unwrap_or(u64::MAX)),
            b'%' | b'|' => Some(number.map_or(u64::MAX, |pairs| pairs.saturating_mul(2))),
            _ => None,
        };
        if let Some(parts) = parts {
            depth += 1;
            let Some(level) = open.get_mut(depth) else { return true };
            *level = parts;
        }
        while open.get(depth) == Some(&0) {
            let Some(above) = depth.checked_sub(1) else { return false };
            depth = above;
        }
    }
}

pub(crate) enum Heard {
    Answer(Answer),
    Push(Vec<Reply>),
}

pub(crate) fn heard(frame: OwnedFrame) -> Heard {
    match frame {
        OwnedFrame::Push { data, .. } => Heard::Push(data.into_iter().map(reply).collect()),
        OwnedFrame::SimpleError { data, .. } => Heard::Answer(Err(data)),
        OwnedFrame::BlobError { data, .. } => Heard::Answer(Err(lossy(data))),
        other => Heard::Answer(Ok(reply(other))),
    }
}

pub(super) fn reply(frame: OwnedFrame) -> Reply {
    match frame {
        OwnedFrame::BlobString { data, .. }
        | OwnedFrame::BlobError { data, .. }
        | OwnedFrame::SimpleString { data, .. }
        | OwnedFrame::BigNumber { data, .. }
        | OwnedFrame::VerbatimString { data, .. } => Reply::Text(lossy(data)),
        OwnedFrame::SimpleError { data, .. } => Reply::Text(data),
        OwnedFrame::Number { data, .. } => Reply::Int(data),
        OwnedFrame::Boolean { data, .. } => Reply::Int(data.into()),
        OwnedFrame::Double { data, .. } => Reply::Text(data.to_string()),
        OwnedFrame::Array { data, .. } | OwnedFrame::Push { data, .. } => {
            Reply::List(data.into_iter().map(reply).collect())
        }
        OwnedFrame::Set { data, .. } => Reply::List(data.into_iter().map(reply).collect()),
        OwnedFrame::Map { data, .. } => {
            Reply::List(data.into_iter().flat_map(|(key, value)| [reply(key), reply(value)]).collect())
        }
        _ => Reply::Nil,
    }
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]

    use proptest::prelude::*;
    use redis_protocol::resp3::encode::complete::encode;

    use super::*;

    fn frames() -> impl Strategy<Value = OwnedFrame> {
        let text = "[ -~]{0,6}";
        let one = prop_oneof![
            any::<i64>().prop_map(|data| OwnedFrame::Number { data, attributes: None }),
            any::<bool>().prop_map(|data| OwnedFrame::Boolean { data, attributes: None }),
            text.prop_map(|text| OwnedFrame::SimpleString { data: text.into_bytes(), attributes: None }),
            prop::collection::vec(any::<u8>(), 0..8).prop_map(|data| OwnedFrame::BlobString { data, attributes: None }),
            Just(OwnedFrame::Null),
        ];
        one.prop_recursive(3, 16, 4, |inner| {
            let list = prop::collection::vec(inner, 0..4);
            list.prop_map(|data| OwnedFrame::Array { data, attributes: None })
        })
    }

    fn encoded(frame: &OwnedFrame) -> Vec<u8> {
        let mut bytes = vec![0; 1024];
        let length = encode(&mut bytes, frame, false).unwrap();
        bytes.truncate(length);
        bytes
    }

    /// A thousandth of them ends a worker's stack.
    #[test]
    fn what_is_nested_too_deeply_is_refused() {
        for level in
            ["*1\r\n", "*2\r\n$3\r\nabc\r\n", "%1\r\n:1\r\n", "|0\r\n*1\r\n", "*2\r\n*1\r\n:7\r\n", "~1\r\n", ">1\r\n"]
        {
            let refused = frame(level.repeat(1_000_000).as_bytes());
            assert_eq!(refused, Err("an answer is nested too deeply".to_owned()), "{level}");
        }
        assert!(frame("*1\r\n".repeat(20).as_bytes()).is_ok_and(|frame| frame.is_none()));
        let flat = format!("*1000\r\n{}", "*1\r\n:1\r\n".repeat(1_000));
        assert!(frame(flat.as_bytes()).is_ok_and(|frame| frame.is_some()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_read_or_refused(bytes in "[-+:$*%~>_#,(=!|0-9a-c\r\n]{0,24}", more in any::<Vec<u8>>()) {
            for bytes in [bytes.as_bytes(), &more] {
                if let Ok(Some((frame, length))) = decode(bytes) {
                    prop_assert!(0 < length && length <= bytes.len());
                    let _ = heard(frame);
                }
            }
        }

        #[test]
        fn any_answer_is_not_too_deep(frame in frames(), cut in any::<prop::sample::Index>()) {
            let bytes = encoded(&frame);
            prop_assert!(!is_too_deep(&bytes) && !is_too_deep(&bytes[..cut.index(bytes.len())]));
        }

        #[test]
        fn any_answer_comes_whole_or_later(frame in frames(), cut in any::<prop::sample::Index>()) {
            let bytes = encoded(&frame);
            prop_assert_eq!(decode(&bytes).unwrap(), Some((frame.clone(), bytes.len())));
            prop_assert_eq!(decode(&bytes[..cut.index(bytes.len())]).unwrap(), None);
            match heard(frame) {
                Heard::Answer(Ok(reply)) => prop_assert!(reply.get("x").is_none() || reply.items().len() > 1),
                Heard::Answer(Err(_)) | Heard::Push(_) => prop_assert!(false, "it is an answer"),
            }
        }
    }
}
