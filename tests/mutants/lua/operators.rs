//! What a mistake in a Lua script would be: each operator makes changes of one kind, of which a mutant has one.
//!
//! Left alone are the places of KEYS and ARGV, the names of commands, what errors say, how much a scan looks at, and
//! the numbers in a question for a right: no command gets them.

use std::ops::Range;

use super::lexer::{tokens, Kind, Token};

/// Takes the place of what stands at `at`.
#[derive(Debug, Clone)]
pub struct Change {
    pub at: Range<usize>,
    pub new: String,
    pub operator: &'static str,
}

/// Words for words: each stands for the next one.
const SWAPS: [(&str, &str, &str); 19] = [
    ("<", "<=", "compare"),
    ("<=", "<", "compare"),
    (">", ">=", "compare"),
    (">=", ">", "compare"),
    ("==", "~=", "compare"),
    ("~=", "==", "compare"),
    ("+", "-", "count"),
    ("*", "/", "count"),
    ("and", "or", "logic"),
    ("or", "and", "logic"),
    ("true", "false", "logic"),
    ("false", "true", "logic"),
    ("min", "max", "swap"),
    ("max", "min", "swap"),
    ("'read'", "'write'", "swap"),
    ("'write'", "'read'", "swap"),
    ("'NX'", "'XX'", "swap"),
    ("'GT'", "'CH'", "swap"),
    ("'CH'", "'GT'", "swap"),
];

/// Texts that are not a name of ours.
const FOREIGN: [&str; 8] =
    ["'ERR '", "'its hash has too many fields'", "'table'", "'number'", "'string'", "'err'", "'ok'", "'none'"];
/// What tells others, and answers how many heard it.
const TELLS: [&str; 5] = ["announce", "announce_writer", "after_reader", "tell", "wake"];
/// What asks for a right.
const ASKS: [&str; 2] = ["acl_check_cmd", "forbidden"];
const WRITES: [&str; 20] = [
    "DECRBY",
    "DEL",
    "HDEL",
    "HINCRBY",
    "HSET",
    "INCRBY",
    "LPOP",
    "LREM",
    "PEXPIRE",
    "PUBLISH",
    "RPUSH",
    "SET",
    "SPUBLISH",
    "UNLINK",
    "ZADD",
    "ZINCRBY",
    "ZREM",
    "ZREMRANGEBYRANK",
    "HMSET",
    "INCR",
];

struct Source<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    changes: Vec<Change>,
}

/// All changes that the operators make of a text.
pub fn changes(text: &str) -> Vec<Change> {
    let mut source = Source { text, tokens: tokens(text), changes: Vec::new() };
    for at in 0..source.tokens.len() {
        source.swap(at);
        source.count(at);
        source.rename(at);
        source.decide(at);
        source.call(at);
        source.assign(at);
    }
    source.changes
}

impl Source<'_> {
    fn word(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &self.text[token.at.clone()])
    }

    fn before(&self, at: usize) -> &str {
        at.checked_sub(1).map_or("", |before| self.word(before))
    }

    fn span(&self, from: usize, to: usize) -> Range<usize> {
        self.tokens[from].at.start..self.tokens[to].at.end
    }

    fn change(&mut self, at: Range<usize>, operator: &'static str, new: impl Into<String>) {
        self.changes.push(Change { at, new: new.into(), operator });
    }

    /// Whether what stands there is an operand's end: then `-` behind it takes away.
    fn ends_operand(&self, at: usize) -> bool {
        let Some(token) = self.tokens.get(at) else { return false };
        match token.kind {
            Kind::Word => !["return", "and", "or", "not", "then", "do", "in"].contains(&self.word(at)),
            Kind::Sign => [")", "]", "}"].contains(&self.word(at)),
            Kind::Number | Kind::Text => true,
        }
    }

    fn swap(&mut self, at: usize) {
        let word = self.word(at).to_owned();
        let span = self.span(at, at);
        if word == "not" {
            self.change(span, "logic", "");
        } else if word == "-" {
            let takes = at > 0 && self.ends_operand(at - 1);
            self.change(span, "count", if takes { "+" } else { "" });
        } else if let Some((_, new, operator)) = SWAPS.iter().find(|(old, ..)| *old == word) {
            self.change(span, operator, *new);
        }
        if word == "pcall" && self.before(at) == "." {
            self.change(self.span(at, at), "error escapes", "call");
        }
    }

    /// Whether what stands there is an argument of such a question.
    fn is_asked(&self, at: usize) -> bool {
        let mut depth = 0_usize;
        for place in (0..at).rev() {
            match self.word(place) {
                ")" | "]" | "}" => depth += 1,
                "(" if depth == 0 => return ASKS.contains(&self.before(place)),
                "(" | "[" | "{" => match depth.checked_sub(1) {
                    Some(less) => depth = less,
                    None => return false,
                },
                _ => {}
            }
        }
        false
    }

    fn count(&mut self, at: usize) {
        if self.is_asked(at) {
            return;
        }
        let token = &self.tokens[at];
        let word = self.word(at).to_owned();
        let index = self.before(at) == "[" && ["KEYS", "ARGV"].contains(&self.before(at - 1));
        let hint = self.before(at) == "," && self.before(at - 1) == "'COUNT'";
        let number = match token.kind {
            Kind::Number if !index && !hint => word.parse::<u64>().ok(),
            _ => None,
        };
        let span = self.span(at, at);
        match number {
            Some(number @ 1000..) => {
                self.change(span.clone(), "length", (number * 2).to_string());
                self.change(span, "length", (number / 2).to_string());
            }
            Some(number) => {
                self.change(span.clone(), "off by one", (number + 1).to_string());
                if let Some(less) = number.checked_sub(1) {
                    self.change(span, "off by one", less.to_string());
                }
            }
            None => {}
        }
        let quoted = word.trim_matches('\'');
        if word.starts_with('\'') && quoted.parse::<i64>().is_ok() {
            self.change(self.span(at, at), "off by one", if quoted == "0" { "'1'" } else { "'0'" });
        }
    }

    /// A name of ours in the data.
    fn rename(&mut self, at: usize) {
        let word = self.word(at);
        let name = word.trim_matches('\'');
        let ours = |c: char| c.is_ascii_lowercase() || "_:#@. ".contains(c);
        let is_name = word.starts_with('\'') && !name.is_empty() && name.chars().all(ours);
        if is_name && !FOREIGN.contains(&word) && !["'read'", "'write'"].contains(&word) {
            let new = format!("'{name}x'");
            self.change(self.span(at, at), "name", new);
        }
    }

    /// The place of the word that ends what begins at `at`, brackets left out.
    fn until(&self, at: usize, ends: &[&str]) -> Option<usize> {
        let mut depth = 0_usize;
        for place in at..self.tokens.len() {
            let word = self.word(place);
            if depth == 0 && ends.contains(&word) {
                return Some(place);
            }
            match word {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.checked_sub(1)?,
                _ => {}
            }
        }
        None
    }

    /// Conditions that always are, or never.
    fn decide(&mut self, at: usize) {
        let answers: &[&str] = match self.word(at) {
            "if" | "elseif" => &["true", "false"],
            "while" => &["false"],
            _ => return,
        };
        let Some(end) = self.until(at + 1, &["then", "do"]) else { return };
        for answer in answers {
            self.change(self.span(at + 1, end - 1), "condition", *answer);
        }
    }

    /// Calls that are not made, and leases that are shorter or longer.
    fn call(&mut self, at: usize) {
        let starts = self.tokens[at].first || ["then", "else", "do"].contains(&self.before(at));
        let is_redis = self.word(at) == "redis" && ["call", "pcall"].contains(&self.word(at + 2));
        let open = if is_redis { at + 3 } else { at + 1 };
        let named = self.tokens[at].kind == Kind::Word && ![".", "function"].contains(&self.before(at));
        if !named || self.word(open) != "(" || ["if", "and", "or", "not", "return"].contains(&self.word(at)) {
            return;
        }
        let Some(close) = self.until(open + 1, &[")"]) else { return };
        let command = self.word(open + 1).trim_matches('\'').to_owned();
        let whole = self.span(at, close);
        if starts {
            self.change(whole.clone(), "no call", "");
        } else if is_redis && WRITES.contains(&command.as_str()) {
            self.change(whole.clone(), "no write", if command == "SET" { "{}" } else { "1" });
        } else if self.word(at) == "write_receipt" {
            self.change(whole.clone(), "no write", "nil");
        } else if TELLS.contains(&self.word(at)) {
            self.change(whole, "no message", "-1");
        }
        if is_redis
            && (command == "PEXPIRE" || self.last_comma(open, close).is_some_and(|at| self.before(at) == "'PX'"))
        {
            self.lease(open, close);
        }
    }

    fn last_comma(&self, open: usize, close: usize) -> Option<usize> {
        let mut last = None;
        let mut from = open + 1;
        while let Some(comma) = self.until(from, &[","]).filter(|comma| *comma < close) {
            last = Some(comma);
            from = comma + 1;
        }
        last
    }

    fn lease(&mut self, open: usize, close: usize) {
        let Some(comma) = self.last_comma(open, close) else { return };
        let span = self.span(comma + 1, close - 1);
        let lease = self.text[span.clone()].to_owned();
        self.change(span.clone(), "length", format!("math.floor(({lease}) / 2)"));
        self.change(span, "length", format!("({lease}) * 2"));
    }

    /// Assignments to what is there already that are left out.
    fn assign(&mut self, at: usize) {
        if !self.tokens[at].first || self.tokens[at].kind != Kind::Word || self.word(at) == "local" {
            return;
        }
        let line = self.text[self.tokens[at].at.start..].lines().next().unwrap_or_default();
        let whole = line.split(" --").next().unwrap_or_default().trim_end();
        let balanced = |open: char, close: char| whole.matches(open).count() == whole.matches(close).count();
        let assigns =
            whole.split_once(" = ").is_some_and(|(left, _)| !left.contains(['(', ' ']) || left.contains(", "));
        let is_statement = !["if", "for", "while", "return", "elseif", "until"].contains(&self.word(at));
        if assigns && is_statement && balanced('(', ')') && balanced('{', '}') && !whole.contains("function") {
            let start = self.tokens[at].at.start;
            self.change(start..start + whole.len(), "no assignment", "");
        }
    }
}
