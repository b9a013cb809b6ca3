//! Requests as they come in: lists of strings, or lines of words.
//!
//! They are read here and not by the protocol's crate, which takes anything: a peer's lists of lists of lists would
//! use up the stack, and a length that never comes the patience of both.

use bytes::{Buf, BytesMut};

/// As Redis has it: the most words of a request.
const MOST_WORDS: usize = 1 << 20;
/// The longest word. (Redis: 512 MB.)
const LONGEST_WORD: usize = 64 << 20;
/// As Redis has it: the longest line.
const LONGEST_LINE: usize = 64 << 10;

/// A command with its arguments.
pub(crate) type Words = Vec<Vec<u8>>;

/// What came and is not a whole request yet.
#[derive(Default)]
pub(crate) struct Requests {
    pub(crate) buffer: BytesMut,
    /// The words of a request that goes on.
    words: Words,
    /// How many are still to come.
    left: usize,
    /// Of how many bytes the next one is, where that is known.
    length: Option<usize>,
}

impl Requests {
    /// The next request, once it is there as a whole; empty ones are left out.
    ///
    /// # Errors
    /// Why what comes can't be understood. Nothing that comes later can be.
    pub(crate) fn next(&mut self) -> Result<Option<Words>, String> {
        while self.left > 0 || self.begin()? {
            while self.left > 0 {
                let Some(word) = self.word()? else { return Ok(None) };
                self.words.push(word);
                self.left -= 1;
            }
            let words = std::mem::take(&mut self.words);
            if !words.is_empty() {
                return Ok(Some(words));
            }
        }
        Ok(None)
    }

    /// Reads how a request begins. `false` when that is not there yet.
    fn begin(&mut self) -> Result<bool, String> {
        let is_list = self.buffer.first() == Some(&b'*');
        let too_long = if is_list { "too big mbulk count string" } else { "too big inline request" };
        let Some(line) = self.line(too_long)? else { return Ok(false) };
        if is_list {
            let count = number(&line).filter(|count| *count <= MOST_WORDS as i64).ok_or("invalid multibulk length")?;
            // Fewer than none are none.
            self.left = usize::try_from(count).unwrap_or(0);
        } else {
            let words = <[u8]>::split(&line, u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            self.words = words.map(<[u8]>::to_vec).collect();
        }
        Ok(true)
    }

    fn word(&mut self) -> Result<Option<Vec<u8>>, String> {
        let length = match self.length {
            Some(length) => length,
            None => {
                match self.buffer.first() {
                    None => return Ok(None),
                    Some(b'$') => {}
                    Some(other) => return Err(format!("expected '$', got '{}'", char::from(*other).escape_default())),
                }
                let Some(line) = self.line("too big bulk count string")? else { return Ok(None) };
                let length = number(&line).and_then(|length| usize::try_from(length).ok());
                length.filter(|length| *length <= LONGEST_WORD).ok_or("invalid bulk length")?
            }
        };
        self.length = Some(length);
        if self.buffer.len() < length + 2 {
            return Ok(None);
        }
        self.length = None;
        let word = self.buffer.split_to(length).to_vec();
        self.buffer.advance(2);
        Ok(Some(word))
    }

    /// The next line, without its end.
    fn line(&mut self, too_long: &str) -> Result<Option<BytesMut>, String> {
        match self.buffer.iter().take(LONGEST_LINE).position(|byte| *byte == b'\n') {
            Some(end) => {
                let mut line = self.buffer.split_to(end);
                self.buffer.advance(1);
                if line.last() == Some(&b'\r') {
                    line.truncate(end - 1);
                }
                Ok(Some(line))
            }
            None if self.buffer.len() >= LONGEST_LINE => Err(too_long.to_owned()),
            None => Ok(None),
        }
    }
}

/// What stands behind the first byte of a line.
fn number(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line.get(1..)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes in pieces of so many bytes.
    fn read(text: &[u8], piece: usize) -> Result<Vec<Vec<String>>, String> {
        let (mut requests, mut found) = (Requests::default(), Vec::new());
        for piece in text.chunks(piece) {
            requests.buffer.extend_from_slice(piece);
            while let Some(words) = requests.next()? {
                found.push(words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect());
            }
        }
        Ok(found)
    }

    #[test]
    fn requests_are_whole_however_they_come() {
        let text = b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n\r\n*0\r\n*-1\r\n PING  x\r\n\
            *1\r\n$0\r\n\r\nlast\n*2\r\n$1\r\nx\r\n$9";
        for piece in 1..=text.len() {
            let found = read(text, piece).unwrap();
            assert_eq!(found, [vec!["GET", "a\r\nb"], vec!["PING", "x"], vec![""], vec!["last"]], "{piece}");
        }
    }

    #[test]
    fn what_can_not_be_a_request_is_refused_before_it_costs_anything() {
        let long = [b'x'; LONGEST_LINE];
        let nested = b"*1\r\n".repeat(100_000);
        let cases: [(&[u8], &str); 9] = [
            (b"*1048577\r\n", "invalid multibulk length"),
            (b"*99999999999999999999\r\n", "invalid multibulk length"),
            (b"*x\r\n", "invalid multibulk length"),
            (b"*1\r\n$99999999999\r\n", "invalid bulk length"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n:1\r\n", "expected '$', got ':'"),
            (b"*1\r\n\0", "expected '$', got '\\u{0}'"),
            (&nested, "expected '$', got '*'"),
            (&long, "too big inline request"),
        ];
        for (text, why) in cases {
            assert_eq!(read(text, 4096), Err(why.to_owned()));
        }
    }
}
