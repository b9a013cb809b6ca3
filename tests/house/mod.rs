//! The house: what the files of `src/` import, held against the rooms in docs/ARCHITECTURE.md; and the walks, which
//! count what a reader meets on the way of a call. `scripts/house` prints both.

mod arrows;
mod drawing;
mod made_up;
mod rooms;
mod source;
mod types;
mod walks;

use std::path::{Path, PathBuf};

use self::arrows::Arrows;
use self::rooms::Rooms;
use self::source::Tree;
use self::types::Index;
use self::walks::Walk;

const DOCUMENT: &str = "docs/ARCHITECTURE.md";

fn this() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().find(|folder| folder.join(DOCUMENT).exists()).unwrap().to_owned()
}

/// This repository, or another checkout of it that LOCKSON_HOUSE names, to compare the two.
fn root() -> PathBuf {
    std::env::var_os("LOCKSON_HOUSE").map_or_else(this, PathBuf::from)
}

fn document() -> String {
    std::fs::read_to_string(root().join(DOCUMENT)).unwrap()
}

fn house() -> (Rooms, Arrows) {
    let mut rooms = Rooms::read(&document());
    if rooms.0.is_empty() {
        // A checkout from before there were rooms.
        rooms = Rooms::read(&std::fs::read_to_string(this().join(DOCUMENT)).unwrap());
    }
    (rooms, Arrows::of(&Tree::read(&root())))
}

#[track_caller]
fn none(found: Option<String>) {
    assert!(found.is_none(), "{}", found.unwrap_or_default());
}

#[test]
fn no_file_imports_itself_through_others() {
    none(rooms::circle(&house().1));
}

#[test]
fn imports_run_down() {
    let (rooms, arrows) = house();
    none(rooms::arrow_up(&rooms, &arrows));
}

#[test]
fn the_house_is_not_too_high() {
    let (rooms, arrows) = house();
    none(rooms::too_high(&rooms, &arrows));
}

#[test]
fn every_file_is_in_its_room() {
    let (rooms, arrows) = house();
    let found = rooms.misfits(&arrows);
    assert!(found.is_empty(), "{DOCUMENT} and src/ differ:\n  {}", found.join("\n  "));
}

#[test]
fn the_document_has_what_is_drawn_and_counted_now() {
    let (document, tree) = (document(), Tree::read(&root()));
    let (rooms, arrows) = house();
    let written = drawing::written(&document, &rooms, &arrows, &Index::of(&tree)).unwrap_or_else(|why| panic!("{why}"));
    if std::env::var_os("LOCKSON_BLESS").is_some() {
        std::fs::write(root().join(DOCUMENT), &written).unwrap();
        return;
    }
    let differs = document.lines().zip(written.lines()).find(|(old, new)| old != new);
    let (old, new) = differs.unwrap_or(("", ""));
    let how = "LOCKSON_BLESS=1 ./scripts/test --test suites house::the_document";
    assert!(document == written, "{DOCUMENT} says\n  {old}\nand now it is\n  {new}\n`{how}` writes it anew");
}

/// For `scripts/house`.
#[test]
fn print_the_house() {
    let (tree, (rooms, arrows)) = (Tree::read(&root()), house());
    println!("{}\n", drawing::drawing(&rooms, &arrows));
    for (what, count) in drawing::figures(&tree, &rooms, &arrows) {
        println!("{count:>6} {what}");
    }
    for knot in arrows.knots() {
        println!("a circle of {}: {}", knot.len(), knot.into_iter().cloned().collect::<Vec<_>>().join(" "));
    }
    for wrong in [rooms::circle(&arrows), rooms::too_high(&rooms, &arrows)].into_iter().flatten() {
        println!("{wrong}");
    }
    for (from, to, names) in rooms.arrows_up(&arrows) {
        println!("up: {from} imports {} of {to}", names.join(", "));
    }
    for (file, level) in arrows.levels() {
        println!("level {level:>2}: {file}");
    }
    println!("{}", rooms.misfits(&arrows).join("\n"));
}

/// For `scripts/house`.
#[test]
fn print_the_walks() {
    let tree = Tree::read(&root());
    let index = Index::of(&tree);
    for walk in Walk::read(&document()) {
        println!("{}", walk.print(&index).unwrap_or_else(|why| panic!("{why}")));
    }
}
