//! What the sources have of `tokio::sync`: its own, and a bell that is a point where another thread may go on. (Atomics
//! are none: what stands between two of them is not searched, but for bells and locks there.)

use std::sync::atomic::Ordering;

use shuttle::sync::atomic::AtomicBool;
pub use tokio_itself::sync::{futures, mpsc, oneshot, watch, Mutex, Semaphore};

/// Another thread may go on here.
fn point() {
    AtomicBool::default().load(Ordering::SeqCst);
}

#[derive(Debug, Default)]
pub struct Notify(tokio_itself::sync::Notify);

impl Notify {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn notified(&self) -> futures::Notified<'_> {
        point();
        self.0.notified()
    }

    pub fn notify_one(&self) {
        point();
        self.0.notify_one();
    }

    pub fn notify_waiters(&self) {
        point();
        self.0.notify_waiters();
    }
}
