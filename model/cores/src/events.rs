//! What the channels tell a program of: that messages may be missing, and that they come again, in turn.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

pub(crate) enum Event {
    GapBegan { channels: usize, why: Option<String> },
    GapEnded { channels: usize, after: Duration },
}

/// Whether there is a gap, as far as was told.
#[derive(Clone, Default)]
pub(crate) struct Herald(Arc<Mutex<bool>>);

impl Herald {
    pub(crate) fn tell(&self, event: Event) {
        let begins = matches!(event, Event::GapBegan { .. });
        let before = std::mem::replace(&mut *self.0.lock(), begins);
        assert_ne!(before, begins, "a gap was told of twice, or its end");
    }

    pub(crate) fn is_gap(&self) -> bool {
        *self.0.lock()
    }
}
