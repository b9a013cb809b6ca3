//! The sorted set type: members by score, then by bytes.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

/// A score that is no NaN.
#[derive(Debug, Clone, Copy)]
struct Score(f64);

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        // Not total_cmp: to Redis -0 and 0 are the same score.
        self.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal)
    }
}

/// A range of scores, each end within or without.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) min: Bound,
    pub(crate) max: Bound,
}

/// One end of a range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) score: f64,
    pub(crate) exclusive: bool,
}

impl Range {
    pub(crate) fn contains(&self, score: f64) -> bool {
        let above = if self.min.exclusive { score > self.min.score } else { score >= self.min.score };
        let below = if self.max.exclusive { score < self.max.score } else { score <= self.max.score };
        above && below
    }
}

/// Members with their scores.
#[derive(Debug, Clone, Default)]
pub(crate) struct SortedSet {
    scores: HashMap<Vec<u8>, f64>,
    order: BTreeSet<(Score, Vec<u8>)>,
}

impl PartialEq for SortedSet {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for SortedSet {}

impl std::hash::Hash for SortedSet {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.order.iter().for_each(|(score, member)| (score.0.to_bits(), member).hash(state));
    }
}

impl SortedSet {
    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Sets a member's score, which must be no NaN.
    pub(crate) fn set(&mut self, member: &[u8], score: f64) {
        self.remove(member);
        // A small sorted set of Redis keeps whole scores as integers, which have no -0; the sum makes it 0.
        let score = score + 0.0;
        self.scores.insert(member.to_vec(), score);
        self.order.insert((Score(score), member.to_vec()));
    }

    /// `true` when there was such a member.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let Some(score) = self.scores.remove(member) else { return false };
        self.order.remove(&(Score(score), member.to_vec()))
    }

    /// All members from the lowest.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], f64)> {
        self.order.iter().map(|(score, member)| (member.as_slice(), score.0))
    }

    /// The members of a range, from the lowest.
    pub(crate) fn within(&self, range: Range) -> impl DoubleEndedIterator<Item = (&[u8], f64)> {
        self.iter().filter(move |(_, score)| range.contains(*score))
    }
}
