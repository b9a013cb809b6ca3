//! What holders are in while they hold, and whether there ever were more of them than may be at once.

use std::sync::atomic::{AtomicU64, Ordering};

/// A room with places. A writer takes all of them.
pub struct Room {
    places: u64,
    taken: AtomicU64,
    overfull: AtomicU64,
}

impl Room {
    pub fn new(places: u64) -> Self {
        Self { places, taken: AtomicU64::new(0), overfull: AtomicU64::new(0) }
    }

    /// Somebody is in for so long that others run meanwhile.
    pub async fn visit(&self, places: u64) {
        let before = self.taken.fetch_add(places, Ordering::SeqCst);
        self.overfull.fetch_add(u64::from(before + places > self.places), Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.taken.fetch_sub(places, Ordering::SeqCst);
    }

    /// When all are out.
    pub fn check(&self) {
        assert_eq!(self.overfull.load(Ordering::SeqCst), 0, "more were in at once than may be");
    }
}
