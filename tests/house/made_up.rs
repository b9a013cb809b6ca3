//! The reading itself, on small trees: what it must find is found.

use super::rooms::House;
use super::source::Tree;
use super::types::Index;
use super::walks::{written, Walk};

/// `a -> b: x y`, one for each pair of files.
fn arrows_of(files: &[(&str, &str)]) -> Vec<String> {
    let text = |names: std::collections::BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(" ");
    let arrows = House::new("", &Tree::of(files.iter().copied())).arrows.into_iter();
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
    let by_room = [
        ("lib.rs", "mod room; mod user; pub use room::One;"),
        ("room/mod.rs", "mod one; mod two; pub use one::{One, Other as Second};"),
        ("room/one.rs", "pub struct One; pub struct Other;"),
        ("room/two.rs", "use super::One; use super::one::Other; use crate::room::Second;"),
        ("user.rs", "use crate::One; use crate::room::Second;"),
    ];
    let by_glob = [("lib.rs", "mod a; mod b; pub use a::*;"), ("a.rs", "pub struct A;"), ("b.rs", "use crate::A;")];
    let of_the_folder =
        [("lib.rs", "mod r;"), ("r/mod.rs", "mod one; pub struct Here;"), ("r/one.rs", "use super::Here;")];
    let (one, user) = ("lib.rs -> room/one.rs: One", "user.rs -> room/one.rs: One Other");
    for (files, found) in [
        (
            &by_room[..],
            &[one, "room/mod.rs -> room/one.rs: One Other", "room/two.rs -> room/one.rs: One Other", user][..],
        ),
        (&by_glob, &["b.rs -> a.rs: A", "lib.rs -> a.rs: *"]),
        (&of_the_folder, &["r/one.rs -> r/mod.rs: Here"]),
    ] {
        assert_eq!(arrows_of(files), found);
    }
}

/// Rooms and their files by letters: `room/ ab` is a room with `a.rs`, which imports `b.rs`. Only the document has
/// `-a`, and `-` is no room.
fn house(rooms: &str) -> House {
    let (mut document, mut files) = ("| room | | |\n|---|\n".to_owned(), Vec::new());
    for row in rooms.split("; ") {
        let (room, names) = row.split_once(' ').unwrap();
        let listed: Vec<&str> = names.split(' ').map(|file| &file.trim_start_matches('-')[..1]).collect();
        document += &format!("| {room} | | `{}` |\n", listed.join("` `"));
        for file in names.split(' ').filter(|file| !file.starts_with('-')) {
            let uses: String = file[1..].chars().map(|other| format!("use crate::{other}::X;")).collect();
            files.push((format!("{}.rs", &file[..1]), format!("pub struct X; {uses}")));
        }
    }
    let document = document.lines().filter(|row| !row.starts_with("| - ")).collect::<Vec<_>>().join("\n");
    House::new(&document, &Tree::of(files.iter().map(|(name, text)| (&**name, &**text))))
}

#[test]
fn what_is_wrong_is_found() {
    let letters: Vec<char> = ('a'..='o').collect();
    let tower: Vec<String> = letters.windows(2).map(|pair| format!("{}.rs {0}{}", pair[0], pair[1])).collect();
    let tower = format!("{}; o.rs o", tower.join("; "));
    let one_missing = "middle has 2 files, not 3 to 9; middle: x.rs is only in the document or only in src/";
    for (rooms, wrong) in [
        ("top.rs abcd; middle/ bcd cd x; `d.rs` d", ""),
        (
            "top.rs abcd; middle/ bc cb x; d.rs d",
            "in a circle: b.rs imports X of c.rs; in a circle: c.rs imports X of b.rs",
        ),
        ("top.rs abcd; middle/ bc c x; d.rs db", "runs up: d.rs imports X of b.rs"),
        ("top.rs abcd; middle/ bcd cd -x; d.rs d", one_missing),
        ("top.rs abcd; middle/ bcd cd x; d.rs d; - y", "src/y.rs is in no room"),
        ("room/ a b c d e f g h i j", "room has 10 files, not 3 to 9"),
        ("room/ b c d e f g h i j", ""),
        (&tower, "15 rooms stand on one another, more than 14"),
        (&tower["a.rs ab; ".len()..], ""),
    ] {
        assert_eq!(house(rooms).wrong().join("; "), wrong, "{rooms}");
    }
    assert_eq!(house("a/ ab bc cd da").wrong().len(), 4, "a circle is found by each of its arrows");
    let files = ["room/mod.rs", "room/one.rs", "room/two.rs", "hall/one.rs", "lib/one.rs", "lib.rs"];
    let tree = Tree::of(files.map(|file| (file, "")));
    let wrong = House::new("| room | | |\n|---|\n| lib.rs | | lib |\n| room/ | | mod one two |\n", &tree).wrong();
    assert_eq!(wrong, ["src/hall/one.rs is in no room", "src/lib/one.rs is in no room"]);
}

#[test]
fn what_is_right_is_drawn() {
    let drawn = "                3  2  1\n  3 top         ·  ▼  ▼\n  2 middle         ·  ▼\n  1 d                 ·";
    assert_eq!(house("top.rs abcd; middle/ bcd cd x; d.rs d").drawing(), drawn);
    assert!(house("top.rs abcd; middle/ bc c x; d.rs db").drawing().ends_with("\n  1 d              ▲  ·"));
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
    let tree = Tree::of([("lib.rs", "mod lock; mod low;"), ("lock.rs", LOCK), ("low.rs", LOW)]);
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
}

#[test]
fn what_is_written_is_kept_with_what_was_before() {
    let house = house("a.rs a");
    let tree = Tree::of([("a.rs", "struct A; impl A { fn f(&self) {} }")]);
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
