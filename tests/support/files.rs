//! The files of the repository: tests read its sources, documents and scripts.

use std::path::Path;

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in a folder of it")
}

/// The scripts are those of another folder for a mutant of them (`tests/mutants`).
pub fn read(path: &str) -> String {
    let mutant = path.strip_prefix("lua/").zip(std::env::var_os("LOCKSON_LUA"));
    let place = mutant.map_or_else(|| root().join(path), |(script, folder)| Path::new(&folder).join(script));
    std::fs::read_to_string(place).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files of a folder and those in it, by their paths from the root, sorted.
pub fn below(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join(folder)).into_iter().flatten().map(Result::unwrap) {
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        match entry.path().is_dir() {
            true => found.extend(below(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// What `Locks` makes: the names of its factories.
pub fn factories() -> Vec<String> {
    let source = read("src/client/factory.rs");
    let public = source.lines().filter_map(|line| line.trim().strip_prefix("pub fn "));
    let ends = ["name", "group"].map(|named| format!("(&self, {named}: &str"));
    let factory = |line: &str| ends.iter().find_map(|end| Some(line.split_once(end)?.0.to_owned()));
    public.filter_map(factory).collect()
}

/// Those that are sent without lua/now.lua.
const QUICK: [&str; 4] = ["reentrant/acquire", "reentrant/release", "plain/acquire", "plain/release"];

/// A script of lua/, such as `fair/acquire`, as the client sends it: behind what it shares with others.
pub fn sent(script: &str) -> String {
    joined(script, QUICK.contains(&script))
}

fn joined(script: &str, is_quick: bool) -> String {
    let lua = |script: &str| read(&format!("lua/{script}.lua"));
    let shared: &[&str] = match script.split_once('/') {
        Some(("read" | "write", _)) => &["read_write"],
        Some(("fair", "acquire" | "refresh")) => &["fair/begin", "fair/wait"],
        Some(("fair", verb)) if verb != "renew" => &["fair/begin"],
        Some(("grouped", "acquire_all" | "release_all" | "renew")) => &["grouped/hold"],
        Some(("grouped", _)) => &["grouped/hold", "grouped/begin"],
        Some(("permit_semaphore", "extend" | "renew")) => &["ids"],
        Some(("permit_semaphore", "acquire" | "cancel" | "release")) => &["once", "ids"],
        Some(("semaphore" | "permit_semaphore" | "latch", _)) => &["once"],
        Some(("admin", "list")) => &["admin/what"],
        Some(("admin", "describe")) => &["read_write", "admin/what"],
        None if script == "cancel" => &["once"],
        None if script == "quarantine" => &["boot"],
        _ => &[],
    };
    // They stand behind the script of a kind.
    match script {
        "fenced/fence" => return fenced("reentrant/acquire"),
        "red/vote" => return voting("reentrant/acquire"),
        "group" => return group(),
        _ => {}
    }
    let announce = announces(script).then_some("announce");
    let first: &[&str] = if is_quick { &["begin"] } else { &["begin", "now"] };
    first.iter().copied().chain(announce).chain(shared.iter().copied()).chain([script]).map(lua).collect()
}

/// Many calls of scripts in one, as they are sent: the bodies by their numbers, from 1 on.
fn group() -> String {
    let bodies = BODIES.map(|script| {
        let text = read(&format!("lua/{script}.lua"));
        format!("bodies[#bodies + 1] = function(KEYS, ARGV)\n{text}end\n")
    });
    let [begin, announce, own] = ["begin", "announce", "group"].map(|file| read(&format!("lua/{file}.lua")));
    format!("{begin}{announce}local bodies = {{}}\n{}{own}", bodies.concat())
}

/// The scripts whose calls may go together.
pub const BODIES: [&str; 4] = ["reentrant/acquire", "reentrant/release", "plain/acquire", "plain/release"];

/// Whether it sends a message: then the last two of its ARGV are the command and the channel.
pub fn announces(script: &str) -> bool {
    let says = |script: &str| read(&format!("lua/{script}.lua")).contains("\n-- Announces as announce.lua");
    says(script) || script.starts_with("fair/") && script != "fair/renew" && says("fair/begin")
}

/// The same of a script that tells nobody.
pub fn silenced(text: &str) -> String {
    text.replace(&read("lua/announce.lua"), &read("lua/silent.lua"))
}

/// The same of a script that acquires, with a token.
pub fn fenced(script: &str) -> String {
    over(script, "", "fenced/fence")
}

/// The same of a script that acquires, as a vote.
pub fn voting(script: &str) -> String {
    over(script, &read("lua/boot.lua"), "red/vote")
}

fn over(inner: &str, shared: &str, outer: &str) -> String {
    let (text, own) = (joined(inner, false), read(&format!("lua/{inner}.lua")));
    let before = text.strip_suffix(&own).expect("its own text comes last");
    format!("{before}{shared}local function acquire()\n{own}end\n{}", read(&format!("lua/{outer}.lua")))
}
