//! Which server of a cluster has which slot: read from CLUSTER SLOTS and from redirections, whose addresses may be odd.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::backend::url::HostPort;
use crate::base::janitor::contain;
use crate::connections::resp::Reply;

/// How many slots a cluster has.
pub(super) const SLOTS: u16 = 16384;

/// Where a client reaches the server that the cluster says is there. `None`: where it says.
pub(crate) type AddressMap = Arc<dyn Fn(&str, u16) -> Option<(String, u16)> + Send + Sync>;

/// Slots, the first and the last of them, and their primary.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) primary: HostPort,
}

/// The slot that a key is in.
pub(crate) fn slot(key: &str) -> u16 {
    redis_protocol::redis_keyslot(key.as_bytes())
}

/// Channels by their slots.
pub(super) type BySlot = HashMap<u16, Vec<String>>;

pub(super) fn by_slot(channels: &[String]) -> BySlot {
    let mut sorted = BySlot::new();
    channels.iter().for_each(|channel| sorted.entry(slot(channel)).or_default().push(channel.clone()));
    sorted
}

/// One for each slot: the server takes no other.
pub(super) fn commands(verb: &str, by_slot: BySlot) -> Vec<Vec<String>> {
    by_slot.into_values().map(|channels| std::iter::once(verb.to_owned()).chain(channels).collect()).collect()
}

/// Whether a server says that it is part of none, or is a sentinel.
pub(super) fn is_no_cluster(why: &str) -> bool {
    why.starts_with("ERR This instance has cluster support disabled")
        || why.starts_with("ERR unknown command 'CLUSTER'")
}

/// A short text that is in this slot: in braces it puts any key there.
pub(super) fn tag(of: u16) -> String {
    (0_u32..).map(|number| number.to_string()).find(|tag| slot(tag) == of).unwrap_or_default()
}

/// Where to dial, by what a cluster or a sentinel says: nothing for a host is the one that was asked. A map that panics
/// says nothing.
pub(super) fn place(host: &str, port: u16, asked: &HostPort, map: Option<&AddressMap>) -> Option<HostPort> {
    let host = if host.is_empty() { &asked.host } else { host };
    if port == 0 || host == "?" {
        return None;
    }
    let (host, port) = map.and_then(|map| contain(|| map(host, port))?).unwrap_or_else(|| (host.to_owned(), port));
    Some(HostPort { host, port })
}

/// Where to dial after a redirection to `host:port`.
pub(super) fn redirected(address: &str, asked: &HostPort, map: Option<&AddressMap>) -> Option<HostPort> {
    let HostPort { host, port } = HostPort::parse(address)?;
    place(&host, port, asked, map)
}

/// Reads the answer to CLUSTER SLOTS. Slots whose primary has no address that can be dialled are left out.
pub(super) fn ranges(answer: &Reply, asked: &HostPort, map: Option<&AddressMap>) -> Vec<Range> {
    let range = |entry: &Reply| {
        let [first, last, primary, ..] = entry.items() else { return None };
        let number = |reply: &Reply| reply.int().and_then(|number| u16::try_from(number).ok());
        let (first, last) = (number(first)?, number(last)?);
        let [host, port, rest @ ..] = primary.items() else { return None };
        let host = match host.text() {
            // It has no name for itself, but maybe an address.
            Some("?") => rest.iter().find_map(|more| more.get("ip")?.text()).unwrap_or("?"),
            host => host.unwrap_or_default(),
        };
        let primary = place(host, number(port)?, asked, map)?;
        (first <= last && last < SLOTS).then_some(Range { first, last, primary })
    };
    let mut ranges: Vec<Range> = answer.items().iter().filter_map(range).collect();
    ranges.sort();
    ranges
}

/// How many nodes follow the one that says this of its cluster (CLUSTER NODES).
pub(super) fn followers(nodes: &str) -> u32 {
    // `id address flags primary ..`
    let lines: Vec<Vec<&str>> = nodes.lines().map(|line| line.split(' ').collect()).collect();
    let is_own = |line: &&Vec<&str>| line.get(2).is_some_and(|flags| flags.split(',').any(|flag| flag == "myself"));
    let Some(own) = lines.iter().find(is_own).and_then(|line| line.first()) else { return 0 };
    u32::try_from(lines.iter().filter(|line| line.get(3) == Some(own)).count()).unwrap_or(u32::MAX)
}

/// Who has slots now and had none before, if anything was known then.
pub(super) fn newcomers<'a>(before: &[Range], now: &'a [Range]) -> BTreeSet<&'a HostPort> {
    let had_slots: BTreeSet<&HostPort> = before.iter().map(|range| &range.primary).collect();
    now.iter().map(|range| &range.primary).filter(|at| !before.is_empty() && !had_slots.contains(at)).collect()
}

/// The first slot that none of these covers.
pub(super) fn uncovered(ranges: &[Range]) -> Option<u16> {
    let mut next = 0;
    for range in ranges {
        if range.first > next {
            break;
        }
        next = next.max(range.last + 1);
    }
    (next < SLOTS).then_some(next)
}

/// What is known from now on: who knows less than all slots does not say that the others are gone.
pub(super) fn completed(now: &[Range], before: &[Range]) -> Vec<Range> {
    if uncovered(now).is_none() {
        return now.to_vec();
    }
    let mut primaries: Vec<Option<&HostPort>> = vec![None; usize::from(SLOTS)];
    for Range { first, last, primary } in before.iter().chain(now) {
        let slots = primaries.iter_mut().take(usize::from(*last) + 1).skip(usize::from(*first));
        slots.for_each(|slot| *slot = Some(primary));
    }
    let mut ranges: Vec<Range> = Vec::new();
    for (slot, primary) in (0..SLOTS).zip(primaries) {
        let Some(primary) = primary else { continue };
        match ranges.last_mut().filter(|range| range.last + 1 == slot && range.primary == *primary) {
            Some(range) => range.last = slot,
            None => ranges.push(Range { first: slot, last: slot, primary: primary.clone() }),
        }
    }
    ranges
}

/// The answer to go by: one that covers all slots, of these the one that most servers gave, of these the first.
pub(super) fn best(answers: &[Vec<Range>]) -> Option<&Vec<Range>> {
    let votes = |answer: &Vec<Range>| answers.iter().filter(|other| *other == answer).count();
    // `max_by_key` takes the last of equals.
    answers.iter().rev().max_by_key(|answer| (uncovered(answer).is_none(), !answer.is_empty(), votes(answer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> HostPort {
        HostPort { host: host.to_owned(), port }
    }

    fn text(text: &str) -> Reply {
        Reply::Text(text.to_owned())
    }

    fn entry(first: i64, last: i64, host: Reply, port: i64, more: Vec<Reply>) -> Reply {
        let primary = Reply::List(vec![host, Reply::Int(port), text("id"), Reply::List(more)]);
        Reply::List(vec![Reply::Int(first), Reply::Int(last), primary])
    }

    fn range(first: u16, last: u16, host: &str) -> Range {
        Range { first, last, primary: at(host, 7000) }
    }

    #[test]
    fn odd_endpoints() {
        let asked = at("seed", 6379);
        let answer = Reply::List(vec![
            entry(200, 299, text(""), 7001, vec![]),
            entry(0, 99, text("10.0.0.1"), 7000, vec![text("hostname"), text("a.example")]),
            entry(100, 199, Reply::Nil, 7000, vec![]),
            entry(300, 399, text("?"), 7000, vec![text("ip"), text("10.0.0.9")]),
            entry(400, 499, text("?"), 7000, vec![]),
            entry(500, 599, text("h"), 0, vec![]),
            entry(16000, 16384, text("h"), 7000, vec![]),
            Reply::Nil,
        ]);
        let expected = vec![
            range(0, 99, "10.0.0.1"),
            range(100, 199, "seed"),
            Range { first: 200, last: 299, primary: at("seed", 7001) },
            range(300, 399, "10.0.0.9"),
        ];
        assert_eq!(ranges(&answer, &asked, None), expected);
        assert_eq!(uncovered(&expected), Some(400));
        let map: AddressMap = Arc::new(|host, port| (host == "10.0.0.1").then(|| ("outside".to_owned(), port + 1)));
        let mapped = ranges(&answer, &asked, Some(&map));
        assert_eq!(mapped.first().map(|range| &range.primary), Some(&at("outside", 7001)));
        let broken: AddressMap = Arc::new(|_, _| panic!("this server is not in the table"));
        assert_eq!(ranges(&answer, &asked, Some(&broken)), expected);
    }

    #[test]
    fn replicas_that_failed_count() {
        let nodes = "a 127.0.0.1:1@2 master - 0 0 1 connected 0-99\n\
            b 127.0.0.1:2@3 slave c 0 0 1 connected\n\
            c 127.0.0.1:3@4 myself,master - 0 0 2 connected 100-16383\n\
            d 127.0.0.1:4@5 slave,fail c 0 0 2 disconnected\n\
            e 127.0.0.1:5@6 slave a 0 0 1 connected\n";
        assert_eq!((followers(nodes), followers("")), (2, 0));
    }

    #[test]
    fn redirections() {
        let asked = at("seed", 6379);
        let redirected = |text| redirected(text, &asked, None);
        assert_eq!(redirected("10.0.0.1:7000"), Some(at("10.0.0.1", 7000)));
        assert_eq!(redirected(":7000"), Some(at("seed", 7000)));
        assert_eq!(redirected("a.example:7000"), Some(at("a.example", 7000)));
        assert_eq!(redirected("::1:7000"), Some(at("::1", 7000)));
        for nowhere in ["", "a", "?:7000", "a:x", "a:0"] {
            assert_eq!(redirected(nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn the_best_answer_is_whole_then_common_then_first() {
        let (whole, other) = (vec![range(0, 16383, "a")], vec![range(0, 8000, "a"), range(8001, 16383, "b")]);
        let torn = vec![range(0, 8000, "a")];
        assert_eq!(best(&[torn.clone(), torn.clone(), whole.clone()]), Some(&whole));
        assert_eq!(best(&[whole.clone(), other.clone(), other.clone()]), Some(&other));
        assert_eq!(best(&[other.clone(), whole.clone()]), Some(&other));
        assert_eq!(best(&[vec![], torn.clone()]), Some(&torn));
        assert_eq!(best(&[]), None);
        // One that knows of a failover and not of all slots says what it knows.
        let known = [range(100, 8000, "c"), range(9000, 16383, "b")];
        let all = [range(0, 99, "a"), range(100, 8000, "c"), range(8001, 16383, "b")];
        assert_eq!(completed(&known, &other), all);
        assert_eq!(completed(&whole, &other), whole);
        assert_eq!(completed(&known, &[]), known);
        assert_eq!((slot("{a}:b"), uncovered(&whole)), (slot("a"), None));
        assert_eq!(slot(&format!("lockson:boot:{{{}}}", tag(16_383))), 16_383);
    }
}
