//! The imports of `src/`, held against the rooms in docs/ARCHITECTURE.md; and the walks. `scripts/house` prints both.

mod made_up;
mod rooms;
mod source;
mod types;
mod walks;

use support::files;

use self::rooms::House;
use self::source::Tree;
use self::types::Index;
use self::walks::{written, Walk};

const DOCUMENT: &str = "docs/ARCHITECTURE.md";

fn read() -> (String, House, Tree) {
    let files: Vec<_> = files::below("src")
        .into_iter()
        .filter(|path| path.ends_with(".rs"))
        .map(|path| (files::read(&path), path))
        .collect();
    let tree = Tree::of(files.iter().map(|(text, path)| (&path["src/".len()..], &**text)));
    let document = files::read(DOCUMENT);
    let house = House::new(&document, &tree);
    (document, house, tree)
}

#[test]
fn every_file_is_in_its_room_and_imports_run_down() {
    let wrong = read().1.wrong();
    assert!(wrong.is_empty(), "{DOCUMENT} and src/:\n  {}", wrong.join("\n  "));
}

#[test]
fn the_document_has_what_is_drawn_and_counted_now() {
    let (document, house, tree) = read();
    let now = written(&document, &house, &Index::of(&tree)).unwrap();
    if std::env::var_os("LOCKSON_BLESS").is_some() {
        std::fs::write(support::root().join(DOCUMENT), &now).unwrap();
        return;
    }
    let differs = document.lines().zip(now.lines()).find(|(old, new)| old != new);
    let (old, new) = differs.unwrap_or_default();
    let how = "LOCKSON_BLESS=1 ./scripts/test --test suites house::the_document";
    assert!(document == now, "{DOCUMENT} says\n  {old}\nand now it is\n  {new}\n`{how}` writes it anew");
}

/// For `scripts/house`.
#[test]
fn print_the_house() {
    let (_, house, tree) = read();
    let index = Index::of(&tree);
    println!("{}\n", house.drawing());
    let of_types = [("`pub(crate)` fields", index.shared_fields), ("types", index.types.len())];
    for (what, count) in house.figures().into_iter().chain(of_types) {
        println!("{count:>6} {what}");
    }
    println!("{}", house.wrong().join("\n"));
}

/// For `scripts/walk`.
#[test]
fn print_the_walks() {
    let (document, _, tree) = read();
    let index = Index::of(&tree);
    for walk in Walk::read(&document) {
        println!("{}", walk.print(&index).unwrap());
    }
}
