//! What clients are told, in the protocol that each of them speaks.

use bytes::BytesMut;
use lockson_embedded::Value;
use redis_protocol::resp2::encode::extend_encode as encode2;
use redis_protocol::resp2::types::BytesFrame as Frame2;
use redis_protocol::resp3::encode::complete::extend_encode as encode3;
use redis_protocol::resp3::types::{BytesFrame as Frame3, VerbatimStringFormat};

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Resp2,
    Resp3,
}

/// What a value is in RESP3, which has more types. RESP2 shows the value as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Plain,
    /// A list of keys and values.
    Map,
    /// What nobody asked for.
    Push,
    Double,
    /// A list of texts and scores.
    Scored,
    /// The same, in a list for each.
    ScoredPairs,
    /// Lines for people.
    Verbatim,
}

/// A value, and what it is.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) shape: Shape,
    pub(crate) value: Value,
}

impl Reply {
    pub(crate) fn plain(value: Value) -> Self {
        Self { shape: Shape::Plain, value }
    }

    pub(crate) fn ok() -> Self {
        Self::plain(Value::Status(b"OK".to_vec()))
    }

    pub(crate) fn error(text: impl Into<Vec<u8>>) -> Self {
        Self::plain(Value::Error(text.into()))
    }

    /// Writes it behind what is there.
    pub(crate) fn write(self, protocol: Protocol, out: &mut BytesMut) {
        let before = out.len();
        let written = match protocol {
            Protocol::Resp2 => encode2(out, &frame2(self.value), false),
            Protocol::Resp3 => encode3(out, &shaped(self.shape, self.value), false),
        };
        if written.is_err() {
            out.truncate(before);
            out.extend_from_slice(b"-ERR the answer can't be written\r\n");
        }
    }
}

/// What the server answers to these words is of this shape in RESP3.
pub(crate) fn shape(words: &[Vec<u8>]) -> Shape {
    let Some((name, args)) = words.split_first() else { return Shape::Plain };
    let has = |option: &str| args.iter().skip(1).any(|arg| arg.eq_ignore_ascii_case(option.as_bytes()));
    match name.to_ascii_lowercase().as_slice() {
        b"hgetall" => Shape::Map,
        b"info" => Shape::Verbatim,
        b"zscore" | b"zmscore" | b"zincrby" => Shape::Double,
        b"zadd" if has("INCR") => Shape::Double,
        b"zrange" | b"zrangebyscore" if has("WITHSCORES") => Shape::ScoredPairs,
        b"zpopmin" if args.len() > 1 => Shape::ScoredPairs,
        b"zpopmin" => Shape::Scored,
        _ => Shape::Plain,
    }
}

fn frame2(value: Value) -> Frame2 {
    match value {
        Value::Nil => Frame2::Null,
        Value::Int(number) => Frame2::Integer(number),
        Value::Bulk(text) => Frame2::BulkString(text.into()),
        Value::Status(text) => Frame2::SimpleString(text.into()),
        Value::Error(text) => Frame2::Error(lossy(&text).into()),
        Value::List(items) => Frame2::Array(items.into_iter().map(frame2).collect()),
    }
}

fn frame3(value: Value) -> Frame3 {
    let attributes = None;
    match value {
        Value::Nil => Frame3::Null,
        Value::Int(data) => Frame3::Number { data, attributes },
        Value::Bulk(text) => Frame3::BlobString { data: text.into(), attributes },
        Value::Status(text) => Frame3::SimpleString { data: text.into(), attributes },
        Value::Error(text) => Frame3::SimpleError { data: lossy(&text).into(), attributes },
        Value::List(items) => list3(items.into_iter().map(frame3).collect()),
    }
}

fn list3(data: Vec<Frame3>) -> Frame3 {
    Frame3::Array { data, attributes: None }
}

fn shaped(shape: Shape, value: Value) -> Frame3 {
    let attributes = None;
    match (shape, value) {
        (Shape::Double, Value::List(items)) => list3(items.into_iter().map(double).collect()),
        (Shape::Double, value) => double(value),
        (Shape::Verbatim, Value::Bulk(text)) => {
            Frame3::VerbatimString { data: text.into(), format: VerbatimStringFormat::Text, attributes }
        }
        (Shape::Push, Value::List(items)) => Frame3::Push { data: items.into_iter().map(frame3).collect(), attributes },
        (Shape::Map, Value::List(items)) => {
            let pairs = pairs(items).into_iter().map(|[key, value]| (frame3(key), frame3(value)));
            Frame3::Map { data: pairs.collect(), attributes }
        }
        (Shape::Scored, Value::List(items)) => {
            list3(pairs(items).into_iter().flat_map(|[text, score]| [frame3(text), double(score)]).collect())
        }
        (Shape::ScoredPairs, Value::List(items)) => {
            list3(pairs(items).into_iter().map(|[text, score]| list3(vec![frame3(text), double(score)])).collect())
        }
        (_, value) => frame3(value),
    }
}

fn pairs(items: Vec<Value>) -> Vec<[Value; 2]> {
    let mut items = items.into_iter();
    std::iter::from_fn(|| Some([items.next()?, items.next()?])).collect()
}

/// A score.
fn double(value: Value) -> Frame3 {
    let Value::Bulk(text) = &value else { return frame3(value) };
    match lossy(text).parse() {
        Ok(data) => Frame3::Double { data, attributes: None },
        Err(_) => frame3(value),
    }
}

pub(crate) fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
