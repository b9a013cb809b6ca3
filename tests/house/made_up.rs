//! The reading itself, on small trees: what it must find is found.

use super::rooms::House;
use super::source::Tree;
use super::types::Index;
use super::walks::{written, Walk};

/// `a -> b: x y`, one for each pair of files.
fn arrows_of(files: &[(&str, &str)]) -> Vec<String> {
    let text = |names: std::collections::BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(" ");
    let arrows = House::new("", &Tree::of(files)).arrows.into_iter();
    arrows.map(|((from, to), names)| format!("{from} -> {to}: {}", text(names))).collect()
}

/// What one file imports of `b.rs`.
fn imported(text: &str) -> Vec<String> {
    arrows_of(&[("lib.rs", "mod a; mod b;"), ("a.rs", text), ("b.rs", "pub struct B; pub fn f() {} pub enum E { V }")])
}

#[test]
fn imports_are_read_wherever_they_stand_and_nothing_else_is() {
    for (text, names) in [
        ("use crate::b::B;", "B"),
        ("use crate::{b::{self, B as C, E::{V}}}; fn g() { b::f() }", "B E f"),
        ("use super::b::*;", "*"),
        ("fn g(b: &crate::b::B) -> u8 { 0 }", "B"),
        ("fn g() { if true { crate::b::f::<u8>(); } }", "f"),
        ("fn g() { use crate::b::f; f() }", "f"),
        ("macro_rules! m { () => { $crate::b::f() }; }", "f"),
        ("fn g() { vec![super::b::f()]; }", "f"),
        ("mod inner { use super::super::b::B; }", "B"),
        ("fn g<T: Into<crate::b::B>>() where T: From<crate::b::E> {}", "B E"),
        ("#[cfg(not(test))] use crate::b::B;", "B"),
        ("#[derive(crate::b::B)] struct A;", "B"),
        ("#[cfg(test)] fn x<A, B>() { crate::b::f() } use crate::b::B;", "B"),
        ("struct A { b: crate::b::B }", "B"),
        ("/// See [`crate::b::B`].\nstruct A;", ""),
        ("//! [B]: crate::b::B", ""),
        ("// use crate::b::B;", ""),
        ("const TEXT: &str = \"crate::b::B\";", ""),
        ("#[cfg(test)] use crate::b::B;", ""),
        ("#[cfg(test)] mod tests { use crate::b::B; }", ""),
        ("#[cfg(all(test, feature = \"x\"))] fn g() { crate::b::f() }", ""),
        ("struct A { #[cfg(test)] b: crate::b::B, c: u8 }", ""),
        ("impl A { #[cfg(test)] pub(crate) fn g(&self) { crate::b::f() } }", ""),
        ("pub(in crate::b) struct A;", ""),
        ("use std::b::B; use b::C;", ""),
        ("use crate::a::A; use self::A as C;", ""),
    ] {
        let arrow = (!names.is_empty()).then(|| format!("a.rs -> b.rs: {names}"));
        assert_eq!(imported(text), Vec::from_iter(arrow), "{text}");
    }
}

#[test]
fn a_name_is_found_where_it_is_declared() {
    let inside = ("room/one.rs", "pub struct One; pub struct Other;");
    let found = arrows_of(&[
        ("lib.rs", "mod room; mod user; pub use room::One;"),
        ("room/mod.rs", "mod one; mod two; pub use one::{One, Other as Second};"),
        inside,
        ("room/two.rs", "use super::One; use super::one::Other; use crate::room::Second;"),
        ("user.rs", "use crate::One; use crate::room::Second;"),
    ]);
    let expected = [
        "lib.rs -> room/one.rs: One",
        "room/mod.rs -> room/one.rs: One Other",
        "room/two.rs -> room/one.rs: One Other",
        "user.rs -> room/one.rs: One Other",
    ];
    assert_eq!(found, expected);
    let by_glob =
        arrows_of(&[("lib.rs", "mod a; mod b; pub use a::*;"), ("a.rs", "pub struct A;"), ("b.rs", "use crate::A;")]);
    assert_eq!(by_glob, ["b.rs -> a.rs: A", "lib.rs -> a.rs: *"]);
    let of_the_folder = arrows_of(&[
        ("lib.rs", "mod room;"),
        ("room/mod.rs", "mod one; pub struct Here;"),
        ("room/one.rs", "use super::Here;"),
    ]);
    assert_eq!(of_the_folder, ["room/one.rs -> room/mod.rs: Here"]);
}

/// Files that import others, by letters, in rooms: `ab` is `a.rs` with an import of `b.rs`.
fn house(rooms: &[(&str, &str)], imports: &[&str]) -> House {
    let file = |text: &&str| {
        let (name, others) = text.split_at(1);
        let uses: String = others.chars().map(|other| format!("use crate::{other}::X;")).collect();
        (format!("{name}.rs"), format!("pub struct X; {uses}"))
    };
    let files: Vec<(String, String)> = imports.iter().map(file).collect();
    let rows: String = rooms.iter().map(|(name, files)| format!("| {name} | | {files} |\n")).collect();
    let document = format!("| room | what it is | files |\n|---|---|---|\n{rows}");
    House::new(&document, &Tree::of(&files.iter().map(|(name, text)| (&**name, &**text)).collect::<Vec<_>>()))
}

const ROOMS: [(&str, &str); 3] = [("`top.rs`", "`a`"), ("`middle/`", "`b` `c` `x`"), ("`d.rs`", "`d`")];

#[test]
fn what_is_wrong_is_found() {
    let one_missing = "middle has 2 files, not 3 to 9; middle: x.rs is only in the document or only in src/";
    for (imports, wrong) in [
        (&["abcd", "bcd", "cd", "d", "x"][..], ""),
        (&["abcd", "bc", "cb", "d", "x"], "in a circle: b.rs imports X of c.rs; in a circle: c.rs imports X of b.rs"),
        (&["abcd", "bc", "c", "db", "x"], "runs up: d.rs imports X of b.rs"),
        (&["abcd", "bcd", "cd", "d"], one_missing),
        (&["abcd", "bcd", "cd", "d", "x", "y"], "src/y.rs is in no room"),
    ] {
        assert_eq!(house(&ROOMS, imports).wrong().join("; "), wrong);
    }
    let long = house(&[("a/", "a b c d")], &["ab", "bc", "cd", "da"]);
    assert_eq!(long.wrong().len(), 4, "a circle is found by each of its arrows");
    let ten: Vec<String> = ('a'..='j').map(String::from).collect();
    let ten: Vec<&str> = ten.iter().map(|name| &**name).collect();
    let large = |files: &[&str]| house(&[("room/", &files.join(" "))], files).wrong();
    assert_eq!((large(&ten), large(&ten[1..])), (vec!["room has 10 files, not 3 to 9".to_owned()], vec![]));
}

#[test]
fn what_is_right_is_drawn() {
    let drawn = "                3  2  1\n  3 top         ·  ▼  ▼\n  2 middle         ·  ▼\n  1 d                 ·";
    assert_eq!(house(&ROOMS, &["abcd", "bcd", "cd", "d", "x"]).drawing(), drawn);
    assert!(house(&ROOMS, &["abcd", "bc", "c", "db", "x"]).drawing().ends_with("\n  1 d              ▲  ·"));
}

#[test]
fn the_rooms_of_folders_and_files_are_told_apart() {
    let files = ["room/mod.rs", "room/one.rs", "room/two.rs", "hall/one.rs", "lib/one.rs", "lib.rs"];
    let tree = Tree::of(&files.map(|file| (file, "")));
    let wrong = House::new("| room | | |\n|---|\n| lib.rs | | lib |\n| room/ | | mod one two |\n", &tree).wrong();
    assert_eq!(wrong, ["src/hall/one.rs is in no room", "src/lib/one.rs is in no room"]);
}

#[test]
fn a_high_house_is_found() {
    let letters: Vec<char> = ('a'..='o').collect();
    let imports: Vec<String> = letters.windows(2).map(|pair| pair.iter().collect()).chain(["o".to_owned()]).collect();
    let imports: Vec<&str> = imports.iter().map(|text| &**text).collect();
    let wrong = |imports: &[&str]| {
        let rooms: Vec<String> = imports.iter().map(|text| format!("{}.rs", &text[..1])).collect();
        let rooms: Vec<(&str, &str)> = rooms.iter().map(|room| (&**room, &room[..1])).collect();
        house(&rooms, imports).wrong()
    };
    assert_eq!(wrong(&imports), ["15 rooms stand on one another, more than 14"]);
    assert!(wrong(&imports[1..]).is_empty());
}

const LOCK: &str = "
    use std::sync::Arc;
    use crate::low::{Low, Mail, helper};
    pub struct Lock { low: Arc<Low>, unused: Unused }
    struct Unused;
    struct Error;
    type Outcome = Result<(), Error>;
    impl Lock {
        pub fn lock(&self) -> Outcome {
            match self.low.mail.lock().take() {
                Mail::Given(_) => Ok(()),
                _ => helper(),
            }
        }
    }
    #[cfg(test)]
    struct OfTests;
";
const LOW: &str = "
    pub struct Low { pub mail: Slot, pub counts: Counts }
    pub struct Slot;
    pub struct Counts { total: Total }
    pub struct Total;
    pub enum Mail { Given(Prize), Nothing(Never) }
    pub struct Prize; pub struct Never;
    impl Low { fn counts(&self) -> &Counts { &self.counts } fn sum(&self) { let c = self.counts(); c.total.get(); } }
    pub fn helper() { crate::low::Other { }; }
    pub struct Other;
";

#[test]
fn a_walk_meets_what_is_named() {
    let tree = Tree::of(&[("lib.rs", "mod lock; mod low;"), ("lock.rs", LOCK), ("low.rs", LOW)]);
    let index = Index::of(&tree);
    let walks = |functions: &str| Walk::read(&format!("# A\n\n## Walks\n\nText.\n\n### take\n\n{functions}\n\n## B\n"));
    let lines = |functions: &str| -> Vec<String> {
        let text = walks(functions)[0].print(&index).unwrap();
        let types = text.lines().filter(|line| line.ends_with(".rs"));
        types.map(|line| line.split_whitespace().nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(lines("`lock::Lock::lock`"), ["Lock", "Error", "Low", "Slot", "Mail", "Prize"]);
    assert_eq!(lines("- a: `Low::sum`, `Some` text, `low::helper`"), ["Low", "Total", "Other"]);
    assert_eq!(walks("`Lock::lock`")[0].count(&index), Ok("6 types in 2 files".to_owned()));
    assert_eq!(walks("`Lock::gone`")[0].count(&index), Err("take: no function `Lock::gone`".to_owned()));
    let text = walks("`Lock::lock`")[0].print(&index).unwrap();
    assert!(text.contains("with all that they call: 7 types in 2 files, by 2 functions:\n    low::helper"), "{text}");
}

#[test]
fn what_is_written_is_kept_with_what_was_before() {
    let house = house(&[("a.rs", "a")], &["a"]);
    let tree = Tree::of(&[("a.rs", "struct A; impl A { fn f(&self) {} }")]);
    let document = |drawn: &str, now: &str| {
        let table = format!("| walk | before | now |\n|---|---|---|\n| x | 9 types in 8 files | {now} |\n");
        let [drawing, walks] = ["drawing", "walks"].map(|name| format!("<!-- written by tests/house: {name} -->"));
        format!("text\n{drawing}\n{drawn}\n<!-- end -->\n{walks}\n{table}<!-- end -->\n\n## Walks\n\n### x\n`A::f`\n")
    };
    let written = |document: &str| written(document, &house, &Index::of(&tree));
    let drawn = format!("```text\n{}\n```", house.drawing());
    assert_eq!(written(&document("old", "old")), Ok(document(&drawn, "1 types in 1 files")));
    assert!(written("text").unwrap_err().starts_with("the document has no"));
}
