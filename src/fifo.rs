//! Those who wait, in the order of their arrival. Each is found by its number, from wherever it leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) struct Fifo<T> {
    waiting: BTreeMap<u64, Arc<T>>,
    next: u64,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), next: 0 }
    }
}

impl<T> Fifo<T> {
    /// Behind all others, with a number that nobody else has.
    pub(crate) fn join(&mut self, make: impl FnOnce(u64) -> T) -> Arc<T> {
        let number = self.next;
        self.next += 1;
        let joined = Arc::new(make(number));
        self.waiting.insert(number, joined.clone());
        joined
    }

    pub(crate) fn first(&self) -> Option<&Arc<T>> {
        self.waiting.first_key_value().map(|(_, first)| first)
    }

    pub(crate) fn first_number(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(number, _)| *number)
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Arc<T>> {
        self.waiting.remove(&number)
    }

    /// To where it was.
    pub(crate) fn put_back(&mut self, number: u64, back: Arc<T>) {
        self.waiting.insert(number, back);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.waiting.values()
    }

    /// Numbers go on.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_leaves_from_wherever_it_stands() {
        let mut fifo = Fifo::default();
        for number in 0..5 {
            assert_eq!(*fifo.join(|number| number), number);
        }
        let first = fifo.remove(0).unwrap();
        assert!(fifo.remove(0).is_none() && fifo.remove(3).is_some());
        assert_eq!(fifo.first_number(), Some(1));
        fifo.put_back(0, first);
        assert_eq!(fifo.iter().map(|number| **number).collect::<Vec<_>>(), [0, 1, 2, 4]);
        assert_eq!((*fifo.join(|number| number), fifo.first().map(|first| **first)), (5, Some(0)));
    }
}
