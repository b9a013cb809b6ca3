//! What commands and callers' scripts answer.

use crate::backend::Item;

/// The answer of a command or a script. Bytes that are not UTF-8 are replaced; an error inside of a list becomes its
/// text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// No value.
    Nil,
    /// A whole number.
    Int(i64),
    /// A string or a status such as `OK`.
    Text(String),
    /// A list.
    List(Vec<Reply>),
}

impl Reply {
    /// Reads what `lua/fenced/run.lua` wrote; `None` if it did not. The `Err` side is the error that was raised.
    pub(crate) fn read(items: &[Item]) -> Option<Result<Self, String>> {
        match items {
            [Item::Text(kind), Item::Text(raised)] if kind == "error" => Some(Err(raised.clone())),
            _ => Self::take(&mut items.iter()).map(Ok),
        }
    }

    fn take<'a>(items: &mut impl Iterator<Item = &'a Item>) -> Option<Self> {
        let Item::Text(kind) = items.next()? else { return None };
        if kind == "nil" {
            return Some(Self::Nil);
        }
        match (kind.as_str(), items.next()?) {
            ("int", Item::Int(value)) => Some(Self::Int(*value)),
            ("text", Item::Text(text)) => Some(Self::Text(text.clone())),
            ("list", Item::Int(length)) => {
                (0..*length).map(|_| Self::take(items)).collect::<Option<_>>().map(Self::List)
            }
            _ => None,
        }
    }
}
