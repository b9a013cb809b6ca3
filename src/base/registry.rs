//! Things that are shared by name: one for each name, as long as anybody has it. As the last one goes it strikes itself
//! out, so that nothing is left of names that nobody uses.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// A table of fewer is not worth giving back.
const SMALL: usize = 64;

/// What is registered, by its name.
struct Known<T> {
    /// One that stands outside of the table, which takes as much for one as for four: most tables have one.
    single: Option<(Arc<str>, Weak<T>)>,
    table: HashMap<Arc<str>, Weak<T>>,
}

impl<T> Known<T> {
    fn get(&self, name: &str) -> Option<&Weak<T>> {
        match &self.single {
            Some((single, known)) if **single == *name => Some(known),
            _ => self.table.get(name),
        }
    }

    fn insert(&mut self, name: &Arc<str>, known: Weak<T>) {
        match &mut self.single {
            Some((single, other)) if single == name => *other = known,
            // One that is about to strike itself out may be there yet.
            single @ None if !self.table.contains_key(name) => *single = Some((name.clone(), known)),
            _ => drop(self.table.insert(name.clone(), known)),
        }
    }

    fn remove(&mut self, name: &str) {
        if self.single.take_if(|(single, _)| **single == *name).is_none() {
            self.table.remove(name);
            shrink(&mut self.table);
        }
    }
}

pub(crate) struct Registry<T> {
    /// (Nothing that is registered is dropped under this lock: it would ask for it again.)
    known: Mutex<Known<T>>,
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Self { known: Mutex::new(Known { single: None, table: HashMap::new() }) }
    }
}

impl<T> Registry<T> {
    /// The one of this name. What is made has to strike itself out as it goes.
    pub(crate) fn of(&self, name: &Arc<str>, make: impl FnOnce() -> T) -> Arc<T> {
        let mut known = self.known.lock();
        if let Some(found) = known.get(name).and_then(Weak::upgrade) {
            return found;
        }
        let made = Arc::new(make());
        known.insert(name, Arc::downgrade(&made));
        made
    }

    /// The one of this name is gone, unless another was made since.
    pub(crate) fn strike(&self, name: &str) {
        let mut known = self.known.lock();
        if known.get(name).is_some_and(|found| found.strong_count() == 0) {
            known.remove(name);
        }
    }

    /// In the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let known = self.known.lock();
        let single = known.single.iter().map(|(name, known)| (name, known));
        let named = |(name, known): (&Arc<str>, &Weak<T>)| Some((name.clone(), known.upgrade()?));
        let mut all: Vec<_> = single.chain(&known.table).filter_map(named).collect();
        drop(known);
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all.into_iter().map(|(_, known)| known).collect()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let known = self.known.lock();
        known.table.len() + usize::from(known.single.is_some())
    }
}

/// Strikes out what has this, as it goes.
pub(crate) struct Listed<T> {
    name: Arc<str>,
    registry: Arc<Registry<T>>,
}

impl<T> Listed<T> {
    pub(crate) fn new(registry: &Arc<Registry<T>>, name: &Arc<str>) -> Self {
        Self { name: name.clone(), registry: registry.clone() }
    }
}

impl<T> Drop for Listed<T> {
    fn drop(&mut self) {
        self.registry.strike(&self.name);
    }
}

/// Gives back what a map that was large does not need any more.
pub(crate) fn shrink<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if map.capacity() > SMALL && map.len() < map.capacity() / 4 {
        map.shrink_to(map.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing {
        _listed: Listed<Thing>,
    }

    fn thing(registry: &Arc<Registry<Thing>>, name: &str) -> Arc<Thing> {
        let name: Arc<str> = name.into();
        registry.of(&name, || Thing { _listed: Listed::new(registry, &name) })
    }

    #[test]
    fn nothing_is_left_of_what_nobody_has() {
        let registry: Arc<Registry<Thing>> = Arc::default();
        let of = |name: &str| thing(&registry, name);
        let kept = of("kept");
        let others: Vec<_> = (0..10_000).map(|number| of(&number.to_string())).collect();
        assert!(Arc::ptr_eq(&kept, &of("kept")) && registry.len() == 10_001);
        drop(others);
        assert_eq!(registry.len(), 1);
        assert!(registry.known.lock().table.capacity() <= 2 * SMALL);
        drop(kept);
        assert_eq!((registry.len(), registry.all().len()), (0, 0));
    }

    /// What is about to strike itself out when another of its name is made, wherever the two stand.
    #[test]
    fn the_next_of_a_name_takes_the_place_of_the_last() {
        let registry: Arc<Registry<Thing>> = Arc::default();
        let of = |name: &str| thing(&registry, name);
        let dead = |name: &str| registry.known.lock().insert(&name.into(), Weak::new());
        let (first, second) = (of("first"), of("second"));
        drop(first);
        dead("second");
        let again = of("second");
        registry.strike("second");
        assert!(Arc::ptr_eq(&again, &of("second")) && registry.len() == 1, "the old one strikes nobody else out");
        drop((second, again));
        assert_eq!(registry.len(), 0);
        dead("first");
        let first = of("first");
        registry.strike("first");
        assert!(Arc::ptr_eq(&first, &of("first")) && registry.len() == 1);
        drop(first);
        assert_eq!(registry.len(), 0);
    }
}
