//! The live heap of this process, to the byte: what the allocator keeps for itself, and the resident pages with it, say
//! nothing of a leak. Counted only where somebody asks, so that the other groups pay nothing for it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

static COUNTS: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicI64 = AtomicI64::new(0);

struct Counting;

#[global_allocator]
static HEAP: Counting = Counting;

fn count(size: usize, sign: i64) {
    if COUNTS.load(Ordering::Relaxed) {
        LIVE.fetch_add(size as i64 * sign, Ordering::Relaxed);
    }
}

// The one place without which it can't be counted; it adds nothing to what the system's allocator does.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        System.dealloc(at, layout);
    }
}

/// Counts from now on.
pub fn begin() {
    COUNTS.store(true, Ordering::Relaxed);
}

/// Bytes that were taken since [`begin`] and not given back.
pub fn live() -> i64 {
    LIVE.load(Ordering::Relaxed)
}
