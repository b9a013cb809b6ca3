//! The shipped line of waiters, compiled with the locks of [shuttle](https://docs.rs/shuttle), which tries schedules of
//! threads; and who plays on it.

// The sources are the library's: they have its features, and more than is played with.
#![allow(dead_code, unexpected_cfgs)]

#[path = "../../../src/base"]
mod base {
    pub(crate) mod clock;
}

mod waiting {
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

pub mod play;
