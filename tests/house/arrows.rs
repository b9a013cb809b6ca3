//! Which file imports which, and what that says of them: circles, levels.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::source::Tree;

/// What a file imports, by the file that declares it.
pub struct Arrows {
    from: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Arrows {
    pub fn of(tree: &Tree) -> Self {
        let mut from: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> =
            tree.files.keys().map(|file| (file.clone(), BTreeMap::new())).collect();
        for module in tree.modules.values() {
            for (to, name) in module.named.iter().filter_map(|route| tree.find(route)) {
                if to.file != module.file {
                    let names = from.entry(module.file.clone()).or_default().entry(to.file.clone()).or_default();
                    names.insert(name);
                }
            }
        }
        Self { from }
    }

    pub fn files(&self) -> impl Iterator<Item = &String> {
        self.from.keys()
    }

    /// Each pair of files, with the names for which the first imports the second.
    pub fn all(&self) -> impl Iterator<Item = (&String, &String, &BTreeSet<String>)> {
        self.from.iter().flat_map(|(from, all)| all.iter().map(move |(to, names)| (from, to, names)))
    }

    fn next<'a>(&'a self, from: &str) -> impl Iterator<Item = &'a String> {
        self.from.get(from).into_iter().flat_map(BTreeMap::keys)
    }

    /// The shortest way from a file to itself.
    fn circle(&self, start: &String) -> Option<Vec<String>> {
        let mut came: BTreeMap<&String, &String> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(file) = queue.pop_front() {
            for to in self.next(file) {
                if to == start {
                    let mut way = vec![start.clone(), file.clone()];
                    while let Some(before) = came.get(&way[way.len() - 1]) {
                        way.push((*before).clone());
                    }
                    way.reverse();
                    return Some(way);
                }
                if !came.contains_key(to) {
                    came.insert(to, file);
                    queue.push_back(to);
                }
            }
        }
        None
    }

    /// The shortest circle of all, which begins and ends with the same file.
    pub fn shortest_circle(&self) -> Option<Vec<String>> {
        self.files().filter_map(|file| self.circle(file)).min_by_key(Vec::len)
    }

    fn reaches(&self, start: &str) -> BTreeSet<&String> {
        let (mut reached, mut todo) = (BTreeSet::new(), vec![start]);
        while let Some(file) = todo.pop() {
            for to in self.next(file) {
                if reached.insert(to) {
                    todo.push(to);
                }
            }
        }
        reached
    }

    /// Files that import one another, the most of them first. A file that stands alone is not listed.
    pub fn knots(&self) -> Vec<BTreeSet<&String>> {
        let reached: BTreeMap<&String, BTreeSet<&String>> =
            self.files().map(|file| (file, self.reaches(file))).collect();
        let mut knots: Vec<BTreeSet<&String>> = Vec::new();
        for (file, all) in &reached {
            if all.contains(*file) && !knots.iter().any(|knot| knot.contains(*file)) {
                knots.push(all.iter().copied().filter(|other| reached[*other].contains(*file)).collect());
            }
        }
        knots.sort_by_key(|knot| std::cmp::Reverse(knot.len()));
        knots
    }

    /// The level of each file: one above the highest that it imports. The files of a circle share one.
    pub fn levels(&self) -> BTreeMap<&String, usize> {
        let knots = self.knots();
        let mut levels = BTreeMap::new();
        for file in self.files() {
            self.level(file, &knots, &mut levels);
        }
        levels
    }

    fn level<'a>(
        &'a self,
        file: &'a String,
        knots: &[BTreeSet<&'a String>],
        levels: &mut BTreeMap<&'a String, usize>,
    ) -> usize {
        if let Some(level) = levels.get(file) {
            return *level;
        }
        let alone = BTreeSet::from([file]);
        let knot = knots.iter().find(|knot| knot.contains(file)).unwrap_or(&alone);
        let below: Vec<&String> =
            knot.iter().flat_map(|file| self.next(file)).filter(|to| !knot.contains(to)).collect();
        let level = below.into_iter().map(|to| self.level(to, knots, levels)).max().unwrap_or(0) + 1;
        levels.extend(knot.iter().map(|file| (*file, level)));
        level
    }
}
