//! The headers of the Lua files say what the scripts do: the keys and arguments, the answers, what Redisson has.

use std::collections::BTreeSet;

use support::files;

/// How a header lists the key that is not there, and that no script uses.
const ABSENT: &str = "] absent  names no key, see read_write.lua";

/// Commands without a key.
const KEYLESS: [&str; 4] = ["TIME", "INFO", "SCAN", "PUBSUB"];

struct Script {
    /// From `lua/` on.
    path: String,
    header: String,
    body: String,
    /// What stands before it beside `lua/begin.lua`: `begin.lua` of its folder, if its header says "KEYS as" that.
    shared: Option<Box<Script>>,
}

impl Script {
    fn read(path: &str) -> Script {
        let text = files::read(&format!("lua/{path}"));
        let in_header = |line: &&str| line.starts_with("--");
        let header: Vec<&str> = text.lines().take_while(in_header).map(|line| line[2..].trim()).collect();
        let body: Vec<&str> = text.lines().skip_while(in_header).map(without_comment).collect();
        let path = path.to_owned();
        let mut script = Script { path, header: header.join("\n"), body: body.join("\n"), shared: None };
        let shared = script.header.lines().find_map(|line| line.strip_prefix("KEYS as "));
        script.shared = shared.map(|other| Box::new(Script::read(other)));
        script
    }

    /// The indices in the header: its own, and for KEYS those of what it shares.
    fn listed(&self, table: &str) -> BTreeSet<String> {
        match &self.shared {
            Some(shared) if table == "KEYS" => {
                let own = indices(&self.body, table);
                assert!(own.is_empty(), "{}: its KEYS are named in {}: {own:?}", self.path, shared.path);
                shared.listed(table)
            }
            _ => indices(
                &self.header.lines().filter(|line| !line.ends_with(ABSENT)).collect::<Vec<_>>().join("\n"),
                table,
            ),
        }
    }

    fn used(&self, table: &str) -> BTreeSet<String> {
        let shared = self.shared.iter().flat_map(|shared| indices(&shared.body, table));
        indices(&self.body, table).into_iter().chain(shared).collect()
    }

    /// The names of keys in the body: `local lock, channel = KEYS[1], KEYS[2]` and `for i, lock in ipairs(KEYS)`.
    fn key_names(&self) -> BTreeSet<String> {
        let mut names = self.shared.as_ref().map(|shared| shared.key_names()).unwrap_or_default();
        for line in self.body.lines().map(str::trim) {
            if let Some((left, right)) = line.strip_prefix("local ").and_then(|line| line.split_once(" = ")) {
                let is_key = |value: &str| {
                    value.strip_prefix("KEYS[").is_some_and(|rest| rest.find(']') == Some(rest.len() - 1))
                };
                let pairs = left.split(", ").zip(right.split(", "));
                names.extend(pairs.filter(|(_, value)| is_key(value)).map(|(name, _)| name.to_owned()));
            }
            if let Some((names_of_loop, _)) = line.split_once(" in ipairs(KEYS)") {
                names.extend(names_of_loop.rsplit([' ', ',']).next().map(str::to_owned));
            }
        }
        names
    }

    /// The statuses that the header names, those of a script that it refers to included.
    fn documented(&self, all: &[Script]) -> BTreeSet<u8> {
        let returns: Vec<&str> = self.header.lines().skip_while(|line| !line.starts_with("Returns ")).collect();
        let mut found = statuses(&returns.join(" "));
        if let Some(rest) = returns.first().and_then(|line| line.strip_prefix("Returns as ")) {
            let other = rest.split([',', ' ', ';']).next().unwrap().trim_end_matches('.');
            found.extend(all.iter().find(|script| script.path == other).expect(other).documented(all));
        }
        found
    }
}

fn without_comment(line: &str) -> &str {
    line.split_once("--").map_or(line, |(code, _)| code)
}

/// What stands before those scripts that use it.
const FUNCTIONS: [&str; 10] = [
    "announce.lua",
    "silent.lua",
    "read_write.lua",
    "once.lua",
    "ids.lua",
    "boot.lua",
    "now.lua",
    "admin/what.lua",
    "grouped/hold.lua",
    "fair/wait.lua",
];

/// Every script.
fn scripts() -> Vec<Script> {
    let files = files::below("lua");
    assert!(files.iter().all(|path| path.ends_with(".lua")), "{files:?}");
    let is_script = |path: &&str| !path.ends_with("begin.lua") && !FUNCTIONS.contains(path);
    let scripts: Vec<_> =
        files.iter().map(|path| path.trim_start_matches("lua/")).filter(is_script).map(Script::read).collect();
    assert!(scripts.len() >= 9, "where are the scripts?");
    scripts
}

/// What stands in the brackets of `KEYS[..]` or `ARGV[..]`, without blanks and `*`. A bare `KEYS` counts as all, `i`.
fn indices(text: &str, table: &str) -> BTreeSet<String> {
    let is_word = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric());
    text.match_indices(table)
        .filter(|(at, _)| is_word(*at))
        .map(|(at, _)| match text[at + table.len()..].strip_prefix('[') {
            Some(rest) => rest[..rest.find(']').unwrap()].replace([' ', '*'], ""),
            None => "i".to_owned(),
        })
        .collect()
}

/// The first numbers of the answers `{n, nonce, now ..}`, with `at` for the time too, and of those that are one text.
fn statuses(text: &str) -> BTreeSet<u8> {
    let found = |end: &str, begin: [char; 2]| {
        let before = text.match_indices(end).map(|(at, _)| text[..at].to_owned());
        let digits = before.map(move |text| text[text.rfind(begin).unwrap() + 1..].to_owned());
        digits.map(|digits| digits.parse().unwrap()).collect::<Vec<u8>>()
    };
    let lists = [", nonce, now", ", nonce, at"].map(|end| found(end, ['{', '{'])).concat();
    let texts = [" nonce at", " ' .. nonce"].map(|end| found(end, ['`', '\''])).concat();
    lists.into_iter().chain(texts).collect()
}

#[test]
fn a_header_says_what_the_script_takes_does_and_returns() {
    let all = scripts();
    for script in &all {
        let path = &script.path;
        let first = script.header.lines().next().unwrap_or_default();
        assert!(first.strip_prefix(&format!("{path}: ")).is_some_and(|what| what.len() > 10), "{path}: {first}");
        for table in ["KEYS", "ARGV"] {
            let (listed, used) = (script.listed(table), script.used(table));
            assert_eq!(listed, used, "{path}: {table} in the header, and in the body");
            let numbers: BTreeSet<usize> = used.iter().filter_map(|index| index.parse().ok()).collect();
            let first = if table == "ARGV" { 3 } else { 1 };
            let expected: BTreeSet<usize> = (first..first + numbers.len()).collect();
            assert_eq!(numbers, expected, "{path}: {table} has a gap, or takes what is begin.lua's");
        }
        let says = |word: &str| script.header.lines().any(|line| line.starts_with(word));
        assert!(says("Returns "), "{path}: no `Returns`");
        assert!(says("Redisson: ") || path == "preflight.lua", "{path}: no `Redisson:`");
        assert_eq!(script.documented(&all), statuses(&script.body), "{path}: the statuses");
        let derived =
            |line: &str| line.starts_with("Derives {lock}:") && line.ends_with(":rwlock_timeout:i, as Redisson does.");
        assert_eq!(script.header.lines().any(derived), derives(script), "{path}");
        let is_kept = script.header.lines().any(|line| line.starts_with("KEYS[") && line.ends_with(ABSENT));
        assert_eq!(is_kept, derives(script) && path != "read/renew.lua", "{path}");
    }
}

/// The keys of read holds, which are Redisson's and as many as there are holds: the exception of rule 18. Such a script
/// names the key that keeps it from running half-way in a slot that moves, unless what it derives can be left out.
fn derives(script: &Script) -> bool {
    let of_one_key = ["write/inspect.lua", "write/renew.lua"].contains(&script.path.as_str());
    let is_read_write = script.path.starts_with("read/") || script.path.starts_with("write/");
    is_read_write && !of_one_key || script.path == "admin/describe.lua"
}

/// What stands before scripts takes no keys, and answers only what is late.
#[test]
fn what_stands_before_scripts_takes_no_keys_and_answers_nothing() {
    let begin = files::read("lua/begin.lua");
    assert_eq!(indices(&begin, "ARGV"), BTreeSet::from(["1".to_owned(), "2".to_owned()]));
    assert_eq!((indices(&begin, "KEYS").len(), begin.matches("return").count()), (0, 1));
    assert!(begin.contains("then return {2, nonce, at} end"));
    for file in FUNCTIONS {
        // What announces takes its two words off the end.
        let body = Script::read(file).body.replace("#ARGV", "").replace("ARGV[last", "");
        assert!(indices(&body, "KEYS").is_empty() && indices(&body, "ARGV").is_empty(), "{file}");
        assert!(statuses(&body).is_empty(), "{file}");
        let derives = usize::from(file == "read_write.lua");
        assert_eq!(body.matches("rwlock_timeout").count(), derives, "{file}: the name of a derived key stands once");
    }
}

#[test]
fn every_key_is_declared() {
    for script in scripts() {
        // It looks at the keys that SCAN finds, and those beside them.
        if script.path == "admin/list.lua" {
            continue;
        }
        let names = script.key_names();
        for name in &names {
            let changed = script.body.lines().any(|line| line.trim().starts_with(&format!("{name} = ")));
            assert!(!changed, "{}: {name} is given another key", script.path);
        }
        for call in ["redis.call('", "redis.pcall('"] {
            for (at, _) in script.body.match_indices(call) {
                let words = &script.body[at + call.len()..];
                let (command, rest) = words.split_once('\'').unwrap();
                if KEYLESS.contains(&command) {
                    continue;
                }
                let key = rest.trim_start_matches(", ").split([',', ')']).next().unwrap();
                if derives(&script) && ["hold_key(lock", "key"].contains(&key) {
                    continue;
                }
                assert!(names.contains(key), "{}: {command} on {key:?}, which is not from KEYS", script.path);
            }
        }
    }
}

/// Whoever looks a script up finds it: as `kind/verb`, in a kind's list as `kind/one`, `/two`, or by its file.
#[test]
fn every_script_is_in_the_protocol() {
    let protocol = files::read("docs/PROTOCOL.md");
    let is_listed = |path: &str| {
        let (kind, verb) =
            path.trim_end_matches(".lua").rsplit_once('/').unwrap_or(("", path.trim_end_matches(".lua")));
        let in_list = |line: &str| line.contains(&format!("`{kind}/")) && line.contains(&format!("/{verb}`"));
        let alone = kind.is_empty() && protocol.contains(&format!("`{verb}`"));
        alone || protocol.contains(&format!("lua/{path}")) || protocol.lines().any(in_list)
    };
    let missing: Vec<_> = scripts().into_iter().map(|script| script.path).filter(|path| !is_listed(path)).collect();
    assert!(missing.is_empty(), "docs/PROTOCOL.md lacks {missing:?}");
}
