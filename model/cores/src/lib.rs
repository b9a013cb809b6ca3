//! The shipped line of waiters, the queue and the channels, compiled with the locks of
//! [shuttle](https://docs.rs/shuttle), which tries schedules of threads; and who plays on them.

// The sources are the library's: they have its features, and more than is played with.
#![allow(dead_code, unexpected_cfgs)]

// Where the sources say `tokio` they find what stands here under that name.
extern crate self as tokio;
pub use tokio_itself::select;
pub mod sync;
pub mod time;

#[path = "../../../src/base"]
mod base {
    pub(crate) mod clock;
    pub(crate) mod registry;

    /// Nothing that panics is to be contained here: it is to be seen.
    pub(crate) mod janitor {
        pub(crate) fn say(log: impl FnOnce()) {
            log();
        }

        pub(crate) fn contain<T>(work: impl FnOnce() -> T) -> Option<T> {
            Some(work())
        }
    }
}

#[path = "../../../src/messages"]
mod messages {
    mod batch;
    pub(crate) mod channels;
    mod ear;
    pub(crate) mod pump;
}

mod waiting {
    #[path = "../../../../src/waiting/crowd.rs"]
    pub(crate) mod crowd;
    #[path = "../../../../src/waiting/others.rs"]
    pub(crate) mod others;
    #[path = "../../../../src/waiting/row.rs"]
    pub(crate) mod row;
    #[path = "../../../../src/waiting/turns.rs"]
    pub(crate) mod turns;
    pub(crate) mod wait;
    #[path = "../../../../src/waiting/waiters.rs"]
    pub(crate) mod waiters;
}

/// What the sources above name, and these searches have no use for.
mod error {
    #[derive(Debug)]
    pub(crate) enum QueryError {
        Closed,
    }

    #[derive(Debug)]
    pub(crate) struct SyncError(pub(crate) QueryError);

    impl From<QueryError> for SyncError {
        fn from(error: QueryError) -> Self {
            Self(error)
        }
    }
}

mod wire {
    pub(crate) mod table {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Role {
            Exclusive,
            Read,
            Write,
        }
    }
}

mod backend;
mod events;
pub mod listeners;
pub mod play;
pub mod queue;
