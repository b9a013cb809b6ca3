//! What a kind of lock is to its users: which verbs its locks have, and what guards them. The kinds are lockson's own.

use crate::backend::Script;
use crate::locks::guard::Guards;
use crate::wire::table::Table;

/// A kind of lock, as in [`Lock<K>`](crate::Lock). Nobody else makes kinds: what they are data of has no name outside.
pub trait Kind: Clone + Send + Sync + 'static {
    /// The data.
    #[doc(hidden)]
    const TABLE: &'static Table;

    /// [`Guard`](crate::Guard), or where holds have a token [`FencedGuard`](crate::FencedGuard).
    type Guard: Guards;
}

/// The kinds whose owner is on the server, with a count: all but [`Plain`](crate::kind::Plain).
pub trait Owned: Kind {}

/// The kinds that several servers can vote on, as in [`RedLock<K>`](crate::RedLock): their holds need nothing that one
/// server alone can give.
pub trait Votes: Kind {
    /// The kind's acquire script, which tells the server's run too.
    #[doc(hidden)]
    fn vote() -> &'static Script;
}

/// The kinds whose holds can have a token, as in [`Fenced<K>`](crate::kind::Fenced): the exclusive ones that are on one
/// server in their owner's name, but for the values of a group. (A token of the plain lock is random, and the votes of
/// a red lock have no order.)
pub trait Fenceable: Owned {
    /// The data of the kind with tokens.
    #[doc(hidden)]
    const FENCED: &'static Table;
}

/// A kind whose owner is on the server: its data, and those of the kind with tokens if its holds can have one.
macro_rules! kind {
    ($(#[$doc:meta])* $kind:ident is $table:ident $(, fenced by $fenced:ident)?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub enum $kind {}

        impl $crate::locks::traits::Kind for $kind {
            const TABLE: &'static $crate::wire::table::Table = &$table;
            type Guard = $crate::locks::guard::Guard;
        }

        impl $crate::locks::traits::Owned for $kind {}

        $(impl $crate::locks::traits::Fenceable for $kind {
            const FENCED: &'static $crate::wire::table::Table = &$fenced;
        })?
    };
}
pub(crate) use kind;
