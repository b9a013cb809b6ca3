//! The rooms of the house in their order, as the document lists them, and what is wrong with the files and arrows.

use std::collections::{BTreeMap, BTreeSet};

use super::arrows::Arrows;

/// Files of a folder.
const FEWEST: usize = 3;
const MOST: usize = 9;
/// From the lowest room to the highest, each of which imports the one below.
const LEVELS: usize = 14;

/// A folder of `src/`, or a file beside them.
pub struct Room {
    pub name: String,
    is_folder: bool,
    /// Its files, as the document lists them, without `.rs`.
    files: Vec<String>,
}

/// From the highest to the lowest.
pub struct Rooms(pub Vec<Room>);

impl Rooms {
    /// From the table with the head `| room | what it is | files |`: `hold/` is a folder, `error.rs` a file.
    pub fn read(document: &str) -> Self {
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
        Self(rooms.collect())
    }

    pub fn of(rooms: &[(&str, &str)]) -> Self {
        let rows: String = rooms.iter().map(|(name, files)| format!("| {name} | | {files} |\n")).collect();
        Self::read(&format!("| room | what it is | files |\n|---|---|---|\n{rows}"))
    }

    /// The room of a file, 0 for the highest. A folder is a room; so is a file beside them, unless the document lists
    /// it in another one, as before the folders were made.
    pub fn room_of(&self, file: &str) -> Option<usize> {
        let bare = file.trim_end_matches(".rs");
        if let Some((folder, _)) = bare.split_once('/') {
            return self.0.iter().position(|room| room.is_folder && room.name == folder);
        }
        let lists = |room: &Room| room.files.iter().any(|listed| listed == bare);
        let is_it = |room: &Room| !room.is_folder && room.name == bare;
        self.0.iter().position(is_it).or_else(|| self.0.iter().position(lists))
    }

    /// Arrows from a lower room to a higher one.
    pub fn arrows_up<'a>(&self, arrows: &'a Arrows) -> Vec<(&'a String, &'a String, Vec<&'a str>)> {
        let up = arrows.all().filter(|(from, to, _)| match (self.room_of(from), self.room_of(to)) {
            (Some(from), Some(to)) => to < from,
            _ => false,
        });
        up.map(|(from, to, names)| (from, to, names.iter().map(String::as_str).collect())).collect()
    }

    /// The rooms, by their places, of which one imports the other.
    pub fn between(&self, arrows: &Arrows) -> BTreeSet<(usize, usize)> {
        let both = arrows.all().filter_map(|(from, to, _)| Some((self.room_of(from)?, self.room_of(to)?)));
        both.filter(|(from, to)| from != to).collect()
    }

    /// How many rooms stand on one another. Arrows up don't count.
    pub fn levels(&self, arrows: &Arrows) -> usize {
        let between = self.between(arrows);
        let mut levels = vec![0; self.0.len()];
        for room in (0..levels.len()).rev() {
            let below = between.iter().filter(|(from, to)| *from == room && to > from).map(|(_, to)| levels[*to]);
            levels[room] = below.max().unwrap_or(0) + 1;
        }
        levels.into_iter().max().unwrap_or(0)
    }

    /// Files without a room, rooms without files, folders that are too large or too small, and where the list and the
    /// files differ.
    pub fn misfits(&self, arrows: &Arrows) -> Vec<String> {
        let mut found = Vec::new();
        let mut present: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for file in arrows.files() {
            match self.room_of(file) {
                None => found.push(format!("src/{file} is in no room")),
                Some(room) => {
                    let bare = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".rs");
                    present.entry(room).or_default().push(bare.to_owned());
                }
            }
        }
        for (at, room) in self.0.iter().enumerate() {
            let files = present.remove(&at).unwrap_or_default();
            let (few, many) = if room.is_folder { (FEWEST, MOST) } else { (1, 1) };
            if !(few..=many).contains(&files.len()) {
                found.push(format!("{} has {} files, not {few} to {many}", room.name, files.len()));
            }
            let absent = room.files.iter().filter(|file| !files.contains(file));
            found.extend(absent.map(|file| format!("{} has no {file}.rs, but the document lists it", room.name)));
            let unlisted = files.iter().filter(|file| !room.files.contains(file));
            found.extend(unlisted.map(|file| format!("{}/{file}.rs is not listed in the document", room.name)));
        }
        found
    }
}

/// The shortest circle of imports, if there is one.
pub fn circle(arrows: &Arrows) -> Option<String> {
    Some(format!("files import one another: {}", arrows.shortest_circle()?.join(" -> ")))
}

pub fn arrow_up(rooms: &Rooms, arrows: &Arrows) -> Option<String> {
    let up = rooms.arrows_up(arrows);
    let (from, to, names) = up.first()?;
    let name = |file: &str| rooms.room_of(file).map_or("?", |room| &rooms.0[room].name).to_owned();
    let names = names.join(", ");
    let (low, high) = (name(from), name(to));
    Some(format!("{} arrows run up; the first: {from} ({low}) imports {names} of {to} ({high})", up.len()))
}

pub fn too_high(rooms: &Rooms, arrows: &Arrows) -> Option<String> {
    let levels = rooms.levels(arrows);
    (levels > LEVELS).then(|| format!("{levels} rooms stand on one another, more than {LEVELS}"))
}
