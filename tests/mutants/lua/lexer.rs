//! The words of a Lua text, and where they stand: as much of the language as changes to it need.

use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Word,
    Number,
    Text,
    Sign,
}

#[derive(Debug, Clone)]
pub struct Token {
    pub kind: Kind,
    pub at: Range<usize>,
    /// Whether it is the first of its line.
    pub first: bool,
}

const LONG_SIGNS: [&str; 6] = ["...", "..", "==", "~=", "<=", ">="];

fn kind_of(rest: &str) -> (Kind, usize) {
    let run = |fits: fn(char) -> bool| rest.find(|c| !fits(c)).unwrap_or(rest.len());
    let first = rest.chars().next().unwrap_or(' ');
    if first.is_ascii_alphabetic() || first == '_' {
        return (Kind::Word, run(|c| c.is_ascii_alphanumeric() || c == '_'));
    }
    if first.is_ascii_digit() {
        return (Kind::Number, run(|c| c.is_ascii_alphanumeric() || c == '.'));
    }
    if first == '\'' {
        let end = rest[1..].find('\'').expect("a text ends on its line, and has no quote in it");
        return (Kind::Text, end + 2);
    }
    let long = LONG_SIGNS.iter().find(|sign| rest.starts_with(**sign));
    (Kind::Sign, long.map_or(first.len_utf8(), |sign| sign.len()))
}

/// All that is no comment and no blank.
pub fn tokens(text: &str) -> Vec<Token> {
    let (mut found, mut at, mut first) = (Vec::new(), 0, true);
    while let Some(next) = text[at..].chars().next() {
        if text[at..].starts_with("--") {
            at += text[at..].find('\n').unwrap_or(text.len() - at);
        } else if next.is_whitespace() {
            first |= next == '\n';
            at += next.len_utf8();
        } else {
            let (kind, length) = kind_of(&text[at..]);
            found.push(Token { kind, at: at..at + length, first });
            (at, first) = (at + length, false);
        }
    }
    found
}
