//! Scripts as clients send them: EVAL, EVALSHA and SCRIPT, and those that they may name by their SHA-1.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::commands::{is, wrong_arity, NOT_INTEGER};
use crate::numbers::parse_int;
use crate::sha1_hex;
use crate::value::{lossy, Answer, Text, Value};

type Words = [Vec<u8>];

/// What a client asks for.
pub(crate) enum Asked<'a> {
    /// A command that has nothing to do with scripts, if there is one of this name.
    Command,
    /// What is known at once.
    Answer(Value),
    /// To remember this one, by its SHA-1.
    Load(String, &'a [u8]),
    Run {
        sha: String,
        text: Cow<'a, [u8]>,
        keys: &'a Words,
        args: &'a Words,
    },
}

/// The texts by their SHA-1. A server that restarts has forgotten them.
#[derive(Default)]
pub(crate) struct Scripts(HashMap<String, Vec<u8>>);

impl Scripts {
    pub(crate) fn add(&mut self, sha: &str, text: &[u8]) {
        if !self.0.contains_key(sha) {
            self.0.insert(sha.to_owned(), text.to_vec());
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// What these words ask for.
    pub(crate) fn asked<'a>(&mut self, words: &'a Words) -> Answer<Asked<'a>> {
        let Some((name, args)) = words.split_first() else { return Ok(Asked::Command) };
        match args {
            _ if is(name, "SCRIPT") => self.script(args),
            [text, count, rest @ ..] if is(name, "EVAL") => {
                let (keys, args) = parted(count, rest)?;
                Ok(Asked::Run { sha: sha1_hex(text), text: text.into(), keys, args })
            }
            [sha, count, rest @ ..] if is(name, "EVALSHA") => {
                let (keys, args) = parted(count, rest)?;
                let sha = lossy(sha).to_lowercase();
                let text = self.0.get(&sha).ok_or("NOSCRIPT No matching script. Please use EVAL.")?;
                Ok(Asked::Run { text: text.clone().into(), sha, keys, args })
            }
            _ if is(name, "EVAL") => Err(wrong_arity("eval")),
            _ if is(name, "EVALSHA") => Err(wrong_arity("evalsha")),
            _ => Ok(Asked::Command),
        }
    }

    fn script<'a>(&mut self, args: &'a Words) -> Answer<Asked<'a>> {
        let Some((verb, rest)) = args.split_first() else { return Err(wrong_arity("script")) };
        match rest {
            [text] if is(verb, "LOAD") => Ok(Asked::Load(sha1_hex(text), text)),
            [_, ..] if is(verb, "EXISTS") => {
                let is_there = |sha: &Vec<u8>| Value::bool(self.0.contains_key(&lossy(sha).to_lowercase()));
                Ok(Asked::Answer(Value::List(rest.iter().map(is_there).collect())))
            }
            [] | [_] if is(verb, "FLUSH") => {
                if rest.iter().any(|mode| !is(mode, "SYNC") && !is(mode, "ASYNC")) {
                    return Err(Text::Borrowed("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
                }
                self.clear();
                Ok(Asked::Answer(Value::ok()))
            }
            [] if is(verb, "KILL") => Err(Text::Borrowed("NOTBUSY No scripts in execution right now.")),
            _ => Err(format!("ERR unknown subcommand '{}'. Try SCRIPT HELP.", lossy(verb)).into()),
        }
    }
}

/// The keys and the arguments of a script.
fn parted<'a>(count: &[u8], rest: &'a Words) -> Answer<(&'a Words, &'a Words)> {
    let count = parse_int(count).ok_or(NOT_INTEGER)?;
    let count = usize::try_from(count).map_err(|_| "ERR Number of keys can't be negative")?;
    rest.split_at_checked(count).ok_or(Text::Borrowed("ERR Number of keys can't be greater than number of args"))
}
