//! Who is told what becomes of a lease.

use std::sync::{Arc, Weak};

/// Who is told what becomes of a lease (the hold that has it, and what that is a part of), or of what it was handed.
pub(crate) trait Observer: Send + Sync {
    /// The lease was renewed.
    fn renewed(self: Arc<Self>) {}

    /// The lease is over, however it ended.
    fn ended(self: Arc<Self>) {}

    /// Whether it stands without this lease, which was lost.
    fn stands(&self) -> bool {
        false
    }

    /// It was handed something a while ago. Whoever has not taken it by now loses it to the next.
    fn lapsed(self: Arc<Self>) {}
}

/// Those who are told of one lease: mostly one, for whom no memory is asked for.
#[derive(Clone, Default)]
pub(super) struct Observers {
    first: Option<Weak<dyn Observer>>,
    others: Vec<Weak<dyn Observer>>,
}

impl Observers {
    /// One more, in the place of whoever is gone.
    pub(super) fn tell(&mut self, observer: Weak<impl Observer + 'static>) {
        self.others.retain(|other| other.strong_count() > 0);
        match &mut self.first {
            Some(first) if first.strong_count() > 0 => self.others.push(observer),
            first => *first = Some(observer),
        }
    }

    /// Those that are there yet.
    pub(super) fn all(self) -> impl Iterator<Item = Arc<dyn Observer>> {
        self.first.into_iter().chain(self.others).filter_map(|observer| observer.upgrade())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Someone;

    impl Observer for Someone {}

    /// A re-entered hold is told of, over and over: whoever is gone is not kept.
    #[test]
    fn observers_that_are_gone_are_forgotten() {
        let (mut observers, stays) = (Observers::default(), [(); 2].map(|()| Arc::new(Someone)));
        for stays in &stays {
            observers.tell(Arc::downgrade(stays));
            for _ in 0..3 {
                observers.tell(Arc::downgrade(&Arc::new(Someone)));
            }
        }
        assert_eq!((observers.others.len(), observers.clone().all().count()), (2, 2));
        let [first, second] = stays;
        drop(first);
        observers.tell(Arc::downgrade(&Arc::new(Someone)));
        assert_eq!((observers.others.len(), observers.all().count()), (1, 1));
        drop(second);
    }
}
