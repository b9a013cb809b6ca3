//! Calls under way by one connection, and which of them was alone there: what a server says of one, fred tells to all.

use parking_lot::Mutex;

use super::{Fate, Outcome};

#[derive(Default)]
pub(super) struct UnderWay(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    begun: u64,
    open: usize,
    /// So many had begun when one was left without an answer. It may be under way until one behind it is answered.
    left: Option<u64>,
}

/// One of them. Dropped, it is left.
pub(super) struct Turn<'a> {
    all: &'a UnderWay,
    /// How many had begun, with it.
    number: u64,
    began_alone: bool,
    is_over: bool,
}

impl UnderWay {
    /// Before anything is sent.
    pub(super) fn begin(&self) -> Turn<'_> {
        let mut calls = self.0.lock();
        let began_alone = calls.open == 0 && calls.left.is_none();
        calls.begun += 1;
        calls.open += 1;
        Turn { all: self, number: calls.begun, began_alone, is_over: false }
    }
}

impl Turn<'_> {
    /// What it came to: CLUSTERDOWN proves that it did not run, if no other was under way beside it.
    pub(super) fn came_to(mut self, outcome: Outcome) -> Outcome {
        let is_down = outcome.as_ref().is_err_and(Fate::is_down);
        if matches!(outcome, Err(Fate::Doubtful(_))) && !is_down {
            return outcome;
        }
        let was_alone = self.ends(outcome.is_ok());
        match outcome {
            Err(Fate::Doubtful(why)) if was_alone => Err(Fate::NotSent(why)),
            outcome => outcome,
        }
    }

    /// Whether none was beside it.
    fn ends(&mut self, is_answered: bool) -> bool {
        self.is_over = true;
        let mut calls = self.all.0.lock();
        calls.open -= 1;
        if is_answered && calls.left.is_some_and(|left| left < self.number) {
            calls.left = None;
        }
        self.began_alone && calls.begun == self.number
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let mut calls = self.all.0.lock();
            calls.open -= 1;
            calls.left = Some(calls.begun);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down() -> Outcome {
        Err(Fate::Doubtful("CLUSTERDOWN The cluster is down".to_owned()))
    }

    fn proves(turn: Turn<'_>) -> bool {
        matches!(turn.came_to(down()), Err(Fate::NotSent(_)))
    }

    #[test]
    fn it_is_said_of_one_that_was_alone() {
        let calls = UnderWay::default();
        assert!(proves(calls.begin()) && proves(calls.begin()));
        let lost = Fate::Doubtful("the connection broke".to_owned());
        assert_eq!(calls.begin().came_to(Err(lost.clone())), Err(lost));
    }

    #[test]
    fn it_is_told_to_all_that_overlap() {
        let calls = UnderWay::default();
        let (first, second) = (calls.begin(), calls.begin());
        assert!(!proves(first), "the second began beside it");
        let third = calls.begin();
        assert!(!proves(second) && !proves(third));
        assert!(proves(calls.begin()));
    }

    /// Whoever waited for it has left, or its answer took too long: the server may have it before it, or later.
    #[test]
    fn what_was_left_counts_until_one_behind_it_is_answered() {
        let calls = UnderWay::default();
        let before = calls.begin();
        drop(calls.begin());
        assert!(!proves(calls.begin()));
        assert!(before.came_to(Ok(Vec::new())).is_ok());
        assert!(!proves(calls.begin()), "that one was before it");
        assert!(calls.begin().came_to(Err(Fate::Doubtful("late".to_owned()))).is_err());
        assert!(!proves(calls.begin()));
        assert!(calls.begin().came_to(Ok(Vec::new())).is_ok());
        assert!(proves(calls.begin()));
    }
}
