//! What holds of any bytes that others send. `scripts/fuzz` puts this file into a copy of lockson.

#![allow(missing_docs)]

use std::collections::BTreeSet;

use redis_protocol::resp3::decode::complete::decode;

use crate::backend::call::{Fate, Item};
use crate::backend::url::{Endpoint, HostPort};
use crate::base::keys::{Key, Keys, Naming};
use crate::base::owner::Owner;
use crate::connections::resp::{frame, heard, Heard};
use crate::topology::slots::{best, completed, followers, ranges, redirected, uncovered, Range, SLOTS};
use crate::wire::reply::Reply;

pub const PROPERTIES: [(&str, fn(&[u8])); 7] = [
    ("answer", an_answer_is_read_or_refused),
    ("slots", slots_are_those_of_a_cluster),
    ("script", a_script_says_what_it_says),
    ("value", a_value_is_read_to_an_end),
    ("url", a_url_keeps_its_password),
    ("owner", an_owner_comes_back),
    ("name", two_names_share_nothing),
];

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// And it is not refused for its depth where it has fewer lists than that.
fn an_answer_is_read_or_refused(bytes: &[u8]) {
    match frame(bytes) {
        Ok(Some((frame, length))) => {
            assert!(0 < length && length <= bytes.len(), "{length}");
            if let Heard::Answer(Ok(reply)) = heard(frame) {
                assert!(reply.get("x").is_none() || reply.items().len() > 1);
            }
        }
        Ok(None) => {}
        Err(_) if bytes.iter().filter(|byte| b"*~>%|".contains(byte)).count() < 32 => assert!(decode(bytes).is_err()),
        Err(_) => {}
    }
}

fn covered(ranges: &[Range]) -> BTreeSet<u16> {
    ranges.iter().flat_map(|range| range.first..=range.last).collect()
}

/// Of two answers one behind the other: what was known of other slots stays known.
fn slots_are_those_of_a_cluster(bytes: &[u8]) {
    let asked = HostPort { host: "asked".to_owned(), port: 1 };
    let (mut rest, mut known) = (bytes, Vec::new());
    while let Ok(Some((frame, length))) = frame(rest) {
        rest = &rest[length..];
        let Heard::Answer(Ok(reply)) = heard(frame) else { continue };
        known.push(ranges(&reply, &asked, None));
    }
    assert!(known.iter().flatten().all(|range| range.first <= range.last && range.last < SLOTS && range.primary.port > 0));
    if let [before, now, ..] = known.as_slice() {
        let both = &covered(before) | &covered(now);
        let expected = if uncovered(now).is_none() { covered(now) } else { both };
        assert_eq!(covered(&completed(now, before)), expected);
    }
    assert_eq!(best(&known).is_none(), known.is_empty());
    let text = text(bytes);
    assert!(followers(text) as usize <= text.lines().count());
    assert!(redirected(text, &asked, None).is_none_or(|place| !place.host.is_empty()));
}

/// A reply that is one text is cut into its words and lines; an error is one that a server gives, or none.
fn a_script_says_what_it_says(bytes: &[u8]) {
    let text = text(bytes);
    let items = Item::of_text(text);
    assert!(!items.is_empty() && items.iter().skip(1).all(|item| matches!(item, Item::Text(_))));
    if let Some(fate) = Fate::of_error(text) {
        assert!(!fate.label().is_empty());
    }
}

/// A byte is a part of it.
fn a_value_is_read_to_an_end(bytes: &[u8]) {
    let word = |word: &str| Item::Text(word.to_owned());
    let item = |byte: &u8| match byte % 8 {
        0 => Item::Nil,
        1 => word("nil"),
        2 => word("int"),
        3 => word("text"),
        4 => word("list"),
        5 => word("error"),
        6 => Item::Int(i64::from(byte / 8)),
        _ => Item::Int(i64::MAX - i64::from(byte / 8)),
    };
    let items: Vec<Item> = bytes.iter().map(item).collect();
    // The server says so for 128 levels; it may say so for many more.
    let nested: Vec<Item> = std::iter::repeat_n([word("list"), Item::Int(1)], bytes.len()).flatten().collect();
    let _ = (Reply::read(&items), Reply::read(&nested));
}

fn a_url_keeps_its_password(bytes: &[u8]) {
    let text = text(bytes);
    match Endpoint::parse(text) {
        Ok(endpoint) => drop(format!("{endpoint:?}")),
        Err(error) => assert_ne!(error.to_string(), ""),
    }
    if let Some(place) = HostPort::parse(text) {
        assert_eq!(HostPort::parse(&place.to_string()), Some(place));
    }
    // What a URL leaves out may join the parts of a word that is there by itself.
    if text.contains("unter") || text.chars().any(char::is_control) {
        return;
    }
    let told = match Endpoint::parse(&format!("redis://u:hunter2@{text}")) {
        Ok(endpoint) => format!("{endpoint:?}"),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!told.contains("hunter2"), "{told}");
}

fn an_owner_comes_back(bytes: &[u8]) {
    let text = text(bytes);
    let Ok(owner) = text.parse::<Owner>() else { return };
    assert_eq!(owner.as_str(), text);
    assert_eq!(owner.to_string().parse().as_ref(), Ok(&owner));
    assert_eq!(Owner::of_field(owner.as_writer().as_str()).as_ref(), Ok(&owner));
    assert_eq!(Owner::of_field(text), Ok(owner));
}

/// All keys of a lock that are used for one name.
fn keys_of(name: &str) -> Option<BTreeSet<String>> {
    use Key::{Absent, Ended, Expiries, Front, Lock, Made, Queue, Seen, Timeouts, Token, Turn, Writers};
    let own = Keys::new(&Naming::default(), name).ok()?;
    assert!(!own.tag().is_empty());
    let every = [Lock, Absent, Ended, Expiries, Front, Made, Queue, Seen, Timeouts, Token, Turn, Writers];
    let mut all: BTreeSet<String> = own.of(&every).into_iter().map(str::to_owned).collect();
    all.extend([own.receipt("c", "1"), own.first_hold("c:1"), own.server_id()]);
    assert!(all.iter().all(|key| own.share_slot(key)), "{all:?}");
    Some(all)
}

/// The bytes are two names, with a line's end between them.
fn two_names_share_nothing(bytes: &[u8]) {
    let Some((one, other)) = text(bytes).split_once('\n') else { return };
    if let (Some(keys), Some(others), true) = (keys_of(one), keys_of(other), one != other) {
        assert!(keys.is_disjoint(&others), "{one:?} and {other:?}: {:?}", &keys & &others);
    }
}
