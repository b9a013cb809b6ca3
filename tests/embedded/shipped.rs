//! The shipped scripts, and calls of them by chance, for `tests/embedded.rs`.

use super::pick;
use support::files;
use support::prelude::*;

/// The nonce of each call: the time on the clock of its server.
const NOW: &str = "@0";

/// A script that takes what time it is from its nonce, and leaves nothing that ends in a moment: two servers that run
/// it one after the other find the same due, and have the same.
pub fn timed_by_nonce(script: &str) -> String {
    let time = "{string.sub(ARGV[1], 1, -4), string.sub(ARGV[1], -3) .. '000'}";
    script.replace("redis.call('TIME')", time).replace("'PX', 100)", "'PX', 5000000)")
}

/// All scripts, each as it is sent.
pub fn shipped() -> Vec<(String, String)> {
    let names = files::below("lua").into_iter().map(|path| path["lua/".len()..path.len() - ".lua".len()].to_owned());
    // What others share is no script; two answer with INFO, and each server has an order of its own for SCAN.
    let left_out =
        "admin/list admin/server admin/what announce begin boot fair/begin fair/wait grouped/begin grouped/hold ids \
        now once preflight read_write silent";
    names
        .filter(|name| !left_out.split(' ').any(|script| script == name))
        .map(|name| (name.clone(), files::sent(&name)))
        .collect()
}

/// The arguments of a call: nonce, not_after, and the rest by the names that the header gives them, or by chance.
pub fn shipped_args(rng: &mut Rng, text: &str) -> Vec<String> {
    let mut args = vec![NOW.to_owned(), pick(rng, &["@600000", "@600000", "@600000", "@-600000"]).to_owned()];
    let by_header = rng.f64() < 0.8;
    // Two for each of the six keys, or so many as any script has.
    let in_pairs = text.contains("ARGV[2i + 1] ");
    // Or three, or these behind one for each key.
    let [in_threes, behind] = ["ARGV[3i + 1] ", "ARGV[count + 2i + 1] "].map(|third| text.contains(third));
    for place in 3..if in_threes || behind { 21 } else { [12, 15][usize::from(in_pairs)] } {
        let named = match place {
            _ if in_pairs => format!("ARGV[2i + {}] ", 2 - place % 2),
            _ if in_threes => ["ARGV[3i] ", "ARGV[3i + 1] ", "ARGV[3i + 2] "][place % 3].to_owned(),
            ..9 if behind => "ARGV[2 + i] ".to_owned(),
            _ if behind => format!("ARGV[count + 2i + {}] ", 2 - place % 2),
            _ => format!("ARGV[{place}] "),
        };
        let after = text.split(&named).nth(1).unwrap_or_default();
        let name = after.split_whitespace().next().unwrap_or_default();
        if name == "cursor" {
            // What comes of one that no server gave, Redis does not say.
            args.push("0".to_owned());
            continue;
        }
        let name = if by_header { name } else { "" };
        let owner = ["owner", "from", "to", "id"].iter().any(|part| name.contains(part));
        let time = ["ms", "lease", "ttl", "time", "wait"].iter().any(|part| name.contains(part));
        let chance = rng.u64(..8);
        args.push(match (owner, time) {
            (true, _) => pick(rng, &["o1", "o2", "o3"]).to_owned(),
            (_, true) => ((1 + rng.u64(..9)) * 1_000_000).to_string(),
            // What may be a lease is no small number: no key is to expire while the two are compared.
            _ if name.is_empty() && chance < 3 => pick(rng, &["o1", "o2", "o3"]).to_owned(),
            _ if name.is_empty() && chance < 6 => ((1 + rng.u64(..9)) * 1_000_000).to_string(),
            _ if name.is_empty() => pick(rng, &["0", "-1", "", "x"]).to_owned(),
            _ => pick(rng, &["0", "1", "1", "2", "3", "-1", "", "x"]).to_owned(),
        });
    }
    args
}

/// Those of a call for each of the six keys, by any body, or none.
pub fn group_args(rng: &mut Rng) -> Vec<String> {
    let mut args = [NOW, pick(rng, &["@600000", "@600000", "@600000", "@-600000"])].map(str::to_owned).to_vec();
    for _ in 1..=6 {
        let body = rng.usize(..=files::BODIES.len()).to_string();
        let (lease, n) = (((1 + rng.u64(..9)) * 1_000_000).to_string(), pick(rng, &["0", "1", "1", "2", "", "x"]));
        args.push([&body, "channel", pick(rng, &["o1", "o2", "o3"]), &lease, n].join("\n"));
    }
    args
}
