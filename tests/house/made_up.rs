//! The reading itself, on small trees: what it must find is found.

use super::arrows::Arrows;
use super::drawing;
use super::rooms::{arrow_up, circle, too_high, Rooms};
use super::source::Tree;
use super::types::Index;
use super::walks::Walk;

/// `a -> b: x y`, one for each pair of files.
fn arrows_of(files: &[(&str, &str)]) -> Vec<String> {
    let arrows = Arrows::of(&Tree::of(files));
    let text = |names: &std::collections::BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(" ");
    arrows.all().map(|(from, to, names)| format!("{from} -> {to}: {}", text(names))).collect()
}

/// What one file imports of `b.rs`.
fn imported(text: &str) -> Vec<String> {
    arrows_of(&[("lib.rs", "mod a; mod b;"), ("a.rs", text), ("b.rs", "pub struct B; pub fn f() {} pub enum E { V }")])
}

#[test]
fn imports_are_read_wherever_they_stand() {
    let of = |names: &str| vec![format!("a.rs -> b.rs: {names}")];
    assert_eq!(imported("use crate::b::B;"), of("B"));
    assert_eq!(imported("use crate::{b::{self, B as C, E::{V}}}; fn g() { b::f() }"), of("B E f"));
    assert_eq!(imported("use super::b::*;"), of("*"));
    assert_eq!(imported("fn g(b: &crate::b::B) -> u8 { 0 }"), of("B"));
    assert_eq!(imported("fn g() { if true { crate::b::f::<u8>(); } }"), of("f"));
    assert_eq!(imported("fn g() { use crate::b::f; f() }"), of("f"));
    assert_eq!(imported("macro_rules! m { () => { $crate::b::f() }; }"), of("f"));
    assert_eq!(imported("fn g() { vec![super::b::f()]; }"), of("f"));
    assert_eq!(imported("mod inner { use super::super::b::B; }"), of("B"));
    assert_eq!(imported("fn g<T: Into<crate::b::B>>() where T: From<crate::b::E> {}"), of("B E"));
    assert_eq!(imported("#[cfg(not(test))] use crate::b::B;"), of("B"));
    assert_eq!(imported("#[derive(crate::b::B)] struct A;"), of("B"));
    assert_eq!(imported("#[cfg(test)] fn x<A, B>() { crate::b::f() } use crate::b::B;"), of("B"));
}

#[test]
fn what_is_no_import_is_not_read() {
    let nothing: Vec<String> = Vec::new();
    for text in [
        "/// See [`crate::b::B`].\nstruct A;",
        "//! [B]: crate::b::B",
        "// use crate::b::B;",
        "const TEXT: &str = \"crate::b::B\";",
        "#[cfg(test)] use crate::b::B;",
        "#[cfg(test)] mod tests { use crate::b::B; }",
        "#[cfg(all(test, feature = \"x\"))] fn g() { crate::b::f() }",
        "struct A { #[cfg(test)] b: crate::b::B, c: u8 }",
        "impl A { #[cfg(test)] pub(crate) fn g(&self) { crate::b::f() } }",
        "pub(in crate::b) struct A;",
        "use std::b::B; use b::C;",
        "use crate::a::A; use self::A as C;",
    ] {
        assert_eq!(imported(text), nothing, "{text}");
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

/// Files that import others, by letters: `ab` is `a.rs` with an import of `b.rs`.
fn tree(imports: &[&str]) -> Tree {
    let file = |text: &&str| {
        let (name, others) = text.split_at(1);
        let uses: String = others.chars().map(|other| format!("use crate::{other}::X;")).collect();
        (format!("{name}.rs"), format!("pub struct X; {uses}"))
    };
    let files: Vec<(String, String)> = imports.iter().map(file).collect();
    Tree::of(&files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect::<Vec<_>>())
}

#[test]
fn the_shortest_circle_is_found() {
    let arrows = Arrows::of(&tree(&["ab", "bc", "cad", "de", "ed", "f"]));
    assert_eq!(circle(&arrows).unwrap(), "files import one another: d.rs -> e.rs -> d.rs");
    let knots: Vec<usize> = arrows.knots().iter().map(std::collections::BTreeSet::len).collect();
    assert_eq!(knots, [3, 2]);
    let long = Arrows::of(&tree(&["ab", "bc", "cd", "da"]));
    assert_eq!(circle(&long).unwrap(), "files import one another: a.rs -> b.rs -> c.rs -> d.rs -> a.rs");
    assert_eq!(circle(&Arrows::of(&tree(&["abcd", "bcd", "cd", "d"]))), None);
}

#[test]
fn files_have_levels() {
    let arrows = Arrows::of(&tree(&["abd", "bc", "cb", "d", "ea"]));
    let levels: String = arrows.levels().values().map(ToString::to_string).collect();
    assert_eq!(levels, "21113");
}

#[test]
fn an_arrow_up_is_found() {
    let rooms = Rooms::of(&[("`top.rs`", "`a`"), ("`middle/`", "`b` `c`"), ("`d.rs`", "`d`")]);
    let arrows = Arrows::of(&tree(&["abcd", "bcd", "cd", "d"]));
    assert_eq!(arrow_up(&rooms, &arrows), None);
    assert_eq!(rooms.levels(&arrows), 3);
    assert_eq!(
        drawing::drawing(&rooms, &arrows),
        "                3  2  1\n  3 top         ·  ▼  ▼\n  2 middle         ·  ▼\n  1 d                 ·"
    );
    let arrows = Arrows::of(&tree(&["abcd", "bc", "c", "db"]));
    assert_eq!(arrow_up(&rooms, &arrows).unwrap(), "1 arrows run up; the first: d.rs (d) imports X of b.rs (middle)");
    assert!(drawing::drawing(&rooms, &arrows).ends_with("\n  1 d              ▲  ·"));
}

#[test]
fn the_rooms_of_folders_and_files_are_told_apart() {
    let rooms = Rooms::of(&[("lib.rs", "lib"), ("room/", "mod one two"), ("base/", "low")]);
    let files = [("lib.rs", ""), ("room/mod.rs", ""), ("room/one.rs", ""), ("room/two.rs", ""), ("low.rs", "")];
    let room = |file: &str| rooms.room_of(file).map(|room| rooms.0[room].name.as_str());
    assert_eq!(files.map(|(file, _)| room(file).unwrap()), ["lib", "room", "room", "room", "base"]);
    assert_eq!((room("hall/one.rs"), room("stray.rs"), room("lib/one.rs")), (None, None, None));
    assert_eq!(rooms.misfits(&Arrows::of(&Tree::of(&files))), ["base has 1 files, not 3 to 9"]);
}

#[test]
fn misfits_are_found() {
    let misfits =
        |rooms: &[(&str, &str)], files: &[(&str, &str)]| Rooms::of(rooms).misfits(&Arrows::of(&Tree::of(files)));
    let stray = misfits(&[("lib.rs", "lib")], &[("lib.rs", ""), ("stray.rs", ""), ("hall/one.rs", "")]);
    assert_eq!(stray, ["src/hall/one.rs is in no room", "src/stray.rs is in no room"]);
    let differs =
        misfits(&[("room/", "one two old")], &[("room/one.rs", ""), ("room/two.rs", ""), ("room/new.rs", "")]);
    assert_eq!(differs, ["room has no old.rs, but the document lists it", "room/new.rs is not listed in the document"]);
    let ten: Vec<String> = ('a'..='j').map(|name| format!("room/{name}.rs")).collect();
    let ten: Vec<(&str, &str)> = ten.iter().map(|name| (name.as_str(), "")).collect();
    assert_eq!(misfits(&[("room/", "a b c d e f g h i j")], &ten), ["room has 10 files, not 3 to 9"]);
    assert_eq!(misfits(&[("room/", "a b c d e f g h i")], &ten[..9]), Vec::<String>::new());
}

#[test]
fn a_high_house_is_found() {
    let letters: Vec<char> = ('a'..='o').collect();
    let imports: Vec<String> = letters.windows(2).map(|pair| pair.iter().collect()).chain(["o".to_owned()]).collect();
    let names: Vec<String> = letters.iter().map(|name| format!("{name}.rs")).collect();
    let bare: Vec<String> = letters.iter().map(ToString::to_string).collect();
    let rooms: Vec<(&str, &str)> = names.iter().zip(&bare).map(|(name, bare)| (name.as_str(), bare.as_str())).collect();
    let arrows = Arrows::of(&tree(&imports.iter().map(String::as_str).collect::<Vec<_>>()));
    assert_eq!(too_high(&Rooms::of(&rooms), &arrows).unwrap(), "15 rooms stand on one another, more than 14");
    let lower = Arrows::of(&tree(&imports[1..].iter().map(String::as_str).collect::<Vec<_>>()));
    assert_eq!(too_high(&Rooms::of(&rooms[1..]), &lower), None);
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
    assert_eq!(lines("`lock::Lock::lock`"), ["Lock", "Outcome", "Low", "Slot", "Mail", "Prize"]);
    assert_eq!(lines("- a: `Low::sum`, `Some` text, `low::helper`"), ["Low", "Total", "Other"]);
    assert_eq!(walks("`Lock::lock`")[0].count(&index), Ok([1, 6, 2]));
    assert_eq!(walks("`Lock::gone`")[0].count(&index), Err("take: no function `Lock::gone`".to_owned()));
    let text = walks("`Lock::lock`")[0].print(&index).unwrap();
    assert!(text.contains("with all that they call: 7 types in 2 files, by 2 functions:\n    low::helper"), "{text}");
}

#[test]
fn what_is_written_is_kept_with_what_was_before() {
    let (rooms, arrows) = (Rooms::of(&[("a.rs", "a")]), Arrows::of(&tree(&["a"])));
    let tree = Tree::of(&[("a.rs", "struct A; impl A { fn f(&self) {} }")]);
    let begin = |name: &str| format!("<!-- written by tests/house: {name} -->\n");
    let table = "| walk | before | now |\n|---|---|---|\n| x | 9 types in 8 files |";
    let document = |drawn: &str, now: &str| {
        let walks = format!("{}{table}{now}\n<!-- end -->\n\n## Walks\n\n### x\n`A::f`\n", begin("walks"));
        format!("text\n{}{drawn}\n<!-- end -->\n{walks}", begin("drawing"))
    };
    let written = drawing::written(&document("old", " old |"), &rooms, &arrows, &Index::of(&tree)).unwrap();
    let drawn = format!("```text\n{}\n```", drawing::drawing(&rooms, &arrows));
    assert_eq!(written, document(&drawn, " 1 types in 1 files |"));
    let missing = drawing::written("text", &rooms, &arrows, &Index::of(&tree));
    assert!(missing.unwrap_err().starts_with("the document has no"));
}
