//! What commands and scripts answer.

use std::borrow::Cow;

/// The text of an error reply, without its leading `-`.
pub(crate) type Text = Cow<'static, str>;

/// What a command gives.
pub(crate) type Answer<T = Value> = Result<T, Text>;

/// A value of RESP2: what a command or a script answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// No value.
    Nil,
    /// A whole number.
    Int(i64),
    /// A string.
    Bulk(Vec<u8>),
    /// A status such as `OK`.
    Status(Vec<u8>),
    /// An error inside of a list.
    Error(Vec<u8>),
    /// A list.
    List(Vec<Value>),
}

impl Value {
    pub(crate) const EMPTY: Self = Self::List(Vec::new());

    pub(crate) fn ok() -> Self {
        Self::Status(b"OK".to_vec())
    }

    pub(crate) fn bulk(text: impl Into<Vec<u8>>) -> Self {
        Self::Bulk(text.into())
    }

    pub(crate) fn bool(yes: bool) -> Self {
        Self::Int(i64::from(yes))
    }

    /// A count of things in memory.
    pub(crate) fn count(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub(crate) fn optional(found: Option<Vec<u8>>) -> Self {
        found.map_or(Self::Nil, Self::Bulk)
    }

    pub(crate) fn list<T: Into<Vec<u8>>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::List(items.into_iter().map(|item| Self::Bulk(item.into())).collect())
    }
}

pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
