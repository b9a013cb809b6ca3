//! What commands and scripts answer.

use std::borrow::Cow;

use crate::reply::Reply;

/// The text of an error reply, without its leading `-`.
pub(super) type Text = Cow<'static, str>;

/// What a command gives.
pub(super) type Answer<T = Value> = Result<T, Text>;

/// An answer inside the server, where strings are bytes and the kinds that Lua tells apart are apart.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Nil,
    Int(i64),
    Bulk(Vec<u8>),
    Status(Vec<u8>),
    Error(Vec<u8>),
    List(Vec<Value>),
}

impl Value {
    pub(super) const EMPTY: Self = Self::List(Vec::new());

    pub(super) fn ok() -> Self {
        Self::Status(b"OK".to_vec())
    }

    pub(super) fn bulk(text: impl Into<Vec<u8>>) -> Self {
        Self::Bulk(text.into())
    }

    pub(super) fn bool(yes: bool) -> Self {
        Self::Int(i64::from(yes))
    }

    /// A count of things in memory.
    pub(super) fn count(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub(super) fn optional(found: Option<Vec<u8>>) -> Self {
        found.map_or(Self::Nil, Self::Bulk)
    }

    pub(super) fn list<T: Into<Vec<u8>>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::List(items.into_iter().map(|item| Self::Bulk(item.into())).collect())
    }

    /// An error as the whole answer becomes the `Err` side.
    pub(super) fn into_reply(self) -> Result<Reply, String> {
        match self {
            Self::Error(text) => Err(lossy(&text)),
            other => Ok(other.flatten()),
        }
    }

    fn flatten(self) -> Reply {
        match self {
            Self::Nil => Reply::Nil,
            Self::Int(value) => Reply::Int(value),
            Self::Bulk(text) | Self::Status(text) | Self::Error(text) => Reply::Text(lossy(&text)),
            Self::List(items) => Reply::List(items.into_iter().map(Self::flatten).collect()),
        }
    }
}

pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
