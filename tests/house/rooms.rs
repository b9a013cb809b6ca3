//! The rooms in their order, as docs/ARCHITECTURE.md lists them; which file imports which; and what is wrong with both.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::source::Tree;

/// Files of a folder.
const FEWEST: usize = 3;
const MOST: usize = 9;
/// From the lowest room to the highest, each of which imports the one below.
const LEVELS: usize = 14;

/// A folder of `src/`, or a file beside them.
struct Room {
    name: String,
    is_folder: bool,
    /// Its files, as the document lists them, without `.rs`.
    files: BTreeSet<String>,
}

pub struct House {
    /// From the highest to the lowest.
    rooms: Vec<Room>,
    files: Vec<String>,
    /// The names for which the first file imports the second.
    pub arrows: BTreeMap<(String, String), BTreeSet<String>>,
}

impl House {
    pub fn new(document: &str, tree: &Tree) -> Self {
        let mut house = Self { rooms: rooms(document), files: tree.files(), arrows: BTreeMap::new() };
        for module in tree.modules.values() {
            for (to, name) in module.named.iter().filter_map(|route| tree.find(route)) {
                if to.file != module.file {
                    house.arrows.entry((module.file.clone(), to.file.clone())).or_default().insert(name);
                }
            }
        }
        house
    }

    /// The room of a file, 0 for the highest. A folder is a room; so is a file beside them, unless another lists it.
    fn room_of(&self, file: &str) -> Option<usize> {
        let bare = file.trim_end_matches(".rs");
        let folder = bare.split_once('/').map(|(folder, _)| folder);
        let is_it = |room: &Room| room.is_folder == folder.is_some() && room.name == folder.unwrap_or(bare);
        let lists = |room: &Room| folder.is_none() && room.files.contains(bare);
        self.rooms.iter().position(is_it).or_else(|| self.rooms.iter().position(lists))
    }

    /// The rooms, by their places, of which one imports the other.
    fn between(&self) -> BTreeSet<(usize, usize)> {
        let both = self.arrows.keys().filter_map(|(from, to)| Some((self.room_of(from)?, self.room_of(to)?)));
        both.filter(|(from, to)| from != to).collect()
    }

    /// How many rooms stand on one another. Arrows up don't count.
    fn levels(&self) -> usize {
        let (between, mut levels) = (self.between(), vec![0; self.rooms.len()]);
        for room in (0..levels.len()).rev() {
            let below = between.iter().filter(|(from, to)| *from == room && to > from).map(|(_, to)| levels[*to]);
            levels[room] = below.max().unwrap_or(0) + 1;
        }
        levels.into_iter().max().unwrap_or(0)
    }

    /// Whether a file imports itself through others.
    fn is_in_circle(&self, file: &String) -> bool {
        let (mut reached, mut todo) = (BTreeSet::new(), vec![file]);
        while let Some(file) = todo.pop() {
            let next = self.arrows.keys().filter(|(from, _)| from == file).map(|(_, to)| to);
            todo.extend(next.filter(|to| reached.insert(*to)));
        }
        reached.contains(file)
    }

    /// Circles, arrows from a lower room to a higher one, files without a room, rooms without files or with too many.
    pub fn wrong(&self) -> Vec<String> {
        let circles: BTreeSet<&String> = self.files.iter().filter(|file| self.is_in_circle(file)).collect();
        let mut wrong: Vec<String> = Vec::new();
        for ((from, to), names) in &self.arrows {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let arrow = format!("{from} imports {} of {to}", names.join(", "));
            let is_up = matches!((self.room_of(from), self.room_of(to)), (Some(from), Some(to)) if to < from);
            wrong.extend((circles.contains(from) && circles.contains(to)).then(|| format!("in a circle: {arrow}")));
            wrong.extend(is_up.then(|| format!("runs up: {arrow}")));
        }
        let strays = self.files.iter().filter(|file| self.room_of(file).is_none());
        wrong.extend(strays.map(|file| format!("src/{file} is in no room")));
        for (at, room) in self.rooms.iter().enumerate() {
            let files = self.files.iter().filter(|file| self.room_of(file) == Some(at));
            let bare = |file: &String| Some(file.rsplit('/').next()?.trim_end_matches(".rs").to_owned());
            let files: BTreeSet<String> = files.filter_map(bare).collect();
            let (few, many) = if room.is_folder { (FEWEST, MOST) } else { (1, 1) };
            if !(few..=many).contains(&files.len()) {
                wrong.push(format!("{} has {} files, not {few} to {many}", room.name, files.len()));
            }
            let differ = room.files.symmetric_difference(&files);
            wrong
                .extend(differ.map(|file| format!("{}: {file}.rs is only in the document or only in src/", room.name)));
        }
        let levels = self.levels();
        wrong.extend((levels > LEVELS).then(|| format!("{levels} rooms stand on one another, more than {LEVELS}")));
        wrong
    }

    /// A row for each room, and a mark under the number of each room that it imports: `▼` runs down, `▲` runs up.
    pub fn drawing(&self) -> String {
        let (between, count) = (self.between(), self.rooms.len());
        let heads: String = (0..count).map(|column| format!("{:>3}", count - column)).collect();
        let mut text = format!("{:>14}{heads}", "");
        for (row, room) in self.rooms.iter().enumerate() {
            let marks = (0..count).map(|column| match between.contains(&(row, column)) {
                _ if row == column => "  ·",
                true if row < column => "  ▼",
                true => "  ▲",
                false => "   ",
            });
            let line = format!("{:>3} {:<10}{}", count - row, room.name, marks.collect::<String>());
            write!(text, "\n{}", line.trim_end()).unwrap();
        }
        text
    }

    /// What is counted beside the drawing.
    pub fn figures(&self) -> [(&'static str, usize); 6] {
        let up = self.wrong().iter().filter(|wrong| wrong.starts_with("runs up")).count();
        [
            ("files", self.files.len()),
            ("files side by side in `src/`", self.files.iter().filter(|file| !file.contains('/')).count()),
            ("imports, file to file", self.arrows.len()),
            ("imports that run up", up),
            ("files in circles of imports", self.files.iter().filter(|file| self.is_in_circle(file)).count()),
            ("levels of rooms", self.levels()),
        ]
    }
}

/// From the table with the head `| room | what it is | files |`: `hold/` is a folder, `error.rs` a file.
fn rooms(document: &str) -> Vec<Room> {
    let cell = |text: &str| text.trim().replace('`', "");
    let rows = document.lines().skip_while(|line| !line.starts_with("| room |")).skip(2);
    let rooms = rows.map_while(|row| row.strip_prefix('|')).filter_map(|row| {
        let mut cells = row.split('|');
        let (name, files) = (cell(cells.next()?), cell(cells.nth(1)?));
        Some(Room {
            is_folder: name.ends_with('/'),
            name: name.trim_end_matches('/').trim_end_matches(".rs").to_owned(),
            files: files.split_whitespace().map(str::to_owned).collect(),
        })
    });
    rooms.collect()
}
