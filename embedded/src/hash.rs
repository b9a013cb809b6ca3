//! The hash type: fields in the order in which they came.

use std::collections::{BTreeMap, HashMap};

/// A small hash of Redis lists its fields in the order in which they were added, and scripts may take the first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hash {
    places: HashMap<Vec<u8>, u64>,
    entries: BTreeMap<u64, (Vec<u8>, Vec<u8>)>,
    next: u64,
}

/// By what commands can see: the fields in their order.
impl PartialEq for Hash {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Hash {}

impl std::hash::Hash for Hash {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.iter().for_each(|entry| entry.hash(state));
    }
}

impl Hash {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<&[u8]> {
        let (_, value) = self.entries.get(self.places.get(field)?)?;
        Some(value)
    }

    pub(crate) fn contains(&self, field: &[u8]) -> bool {
        self.places.contains_key(field)
    }

    /// Sets a field in its place; `true` when it is new.
    pub(crate) fn set(&mut self, field: &[u8], value: Vec<u8>) -> bool {
        if let Some((_, old)) = self.places.get(field).and_then(|place| self.entries.get_mut(place)) {
            *old = value;
            return false;
        }
        self.places.insert(field.to_vec(), self.next);
        self.entries.insert(self.next, (field.to_vec(), value));
        self.next += 1;
        true
    }

    /// `true` when there was such a field.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        self.places.remove(field).and_then(|place| self.entries.remove(&place)).is_some()
    }

    /// Fields and values from a place on, each with its place.
    pub(crate) fn iter_from(&self, place: u64) -> impl Iterator<Item = (u64, &[u8], &[u8])> {
        self.entries.range(place..).map(|(place, (field, value))| (*place, field.as_slice(), value.as_slice()))
    }

    /// All fields and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries.values().map(|(field, value)| (field.as_slice(), value.as_slice()))
    }
}
