//! The drawing of rooms and arrows, what is counted beside it, and their places in the document.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::arrows::Arrows;
use super::rooms::Rooms;
use super::source::Tree;
use super::types::{shared_fields, Index};
use super::walks::Walk;

/// A row for each room, and a mark under the number of each room that it imports: `▼` runs down, `▲` runs up.
pub fn drawing(rooms: &Rooms, arrows: &Arrows) -> String {
    let between = rooms.between(arrows);
    let count = rooms.0.len();
    let heads: String = (0..count).map(|column| format!("{:>3}", count - column)).collect();
    let mut text = format!("{:>14}{heads}", "");
    for (row, room) in rooms.0.iter().enumerate() {
        let mut line = format!("{:>3} {:<10}", count - row, room.name);
        for column in 0..count {
            let mark = match between.contains(&(row, column)) {
                _ if row == column => "·",
                true if row < column => "▼",
                true => "▲",
                false => "",
            };
            write!(line, "{mark:>3}").unwrap();
        }
        write!(text, "\n{}", line.trim_end()).unwrap();
    }
    text
}

/// What is counted of a tree.
pub fn figures(tree: &Tree, rooms: &Rooms, arrows: &Arrows) -> Vec<(&'static str, usize)> {
    let knots = arrows.knots();
    vec![
        ("files", tree.files.len()),
        ("files side by side in `src/`", tree.files.keys().filter(|file| !file.contains('/')).count()),
        ("lines, with unit tests", tree.files.values().map(|text| text.lines().count()).sum()),
        ("imports, file to file", arrows.all().count()),
        ("imports that run up", rooms.arrows_up(arrows).len()),
        ("files in circles of imports", knots.iter().map(BTreeSet::len).sum()),
        ("levels of rooms", rooms.levels(arrows)),
        ("levels of files (a circle is one)", arrows.levels().into_values().max().unwrap_or(0)),
        ("`pub(crate)` fields", tree.files.values().map(|text| shared_fields(text)).sum()),
        ("types", Index::of(tree).types()),
    ]
}

/// The counts of the walks; what was counted before the house was built stays as the document has it.
pub fn walks(document: &str, index: &Index) -> Result<String, String> {
    let cells = |row: &str| row.split('|').skip(1).map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let before: BTreeMap<String, String> = block(document, "walks")?
        .lines()
        .map(cells)
        .filter(|cells| cells.len() > 1)
        .map(|cells| (cells[0].clone(), cells[1].clone()))
        .collect();
    let mut text = String::from("| walk | before | now |\n|---|---|---|\n");
    for walk in Walk::read(document) {
        let [_, types, files] = walk.count(index)?;
        let now = format!("{types} types in {files} files");
        writeln!(text, "| {} | {} | {now} |", walk.name, before.get(&walk.name).unwrap_or(&now)).unwrap();
    }
    Ok(text)
}

fn marks(name: &str) -> [String; 2] {
    [format!("<!-- written by tests/house: {name} -->\n"), "<!-- end -->".to_owned()]
}

/// The part of the document that this code writes.
fn block<'a>(document: &'a str, name: &str) -> Result<&'a str, String> {
    let [begin, end] = marks(name);
    let (_, text) = document.split_once(&begin).ok_or(format!("the document has no `{}`", begin.trim()))?;
    Ok(text.split(&end).next().unwrap_or(text))
}

/// The document with all that this code writes in it as it is now.
pub fn written(document: &str, rooms: &Rooms, arrows: &Arrows, index: &Index) -> Result<String, String> {
    let parts =
        [("drawing", format!("```text\n{}\n```\n", drawing(rooms, arrows))), ("walks", walks(document, index)?)];
    let mut written = document.to_owned();
    for (name, now) in parts {
        let [begin, end] = marks(name);
        let old = format!("{begin}{}{end}", block(document, name)?);
        written = written.replace(&old, &format!("{begin}{now}{end}"));
    }
    Ok(written)
}
