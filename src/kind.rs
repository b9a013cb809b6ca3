//! What a kind of lock is: data that the one path runs on.

use crate::backend::Script;
use crate::guard::Guard;

/// A script of `lua/`, with its KEYS. What several share stands before it.
macro_rules! script {
    ($file:literal $(after $shared:literal)*, [$($key:ident),*]) => {{
        static SCRIPT: $crate::backend::Script = $crate::backend::Script::new(
            $file,
            concat!(
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/lua/begin.lua")),
                $(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/lua/", $shared, ".lua")),)*
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/lua/", $file, ".lua"))
            ),
            &[$($key),*],
        );
        &SCRIPT
    }};
}
pub(crate) use script;

/// The acquire script of a kind as one that votes: no second text of it.
macro_rules! vote_script {
    ($file:literal, [$($key:ident),*]) => {{
        static SCRIPT: $crate::backend::Script = $crate::backend::Script::new(
            concat!("red/vote by ", $file),
            concat!(
                include_str!("../../lua/begin.lua"),
                "local function acquire()\n",
                include_str!(concat!("../../lua/", $file, ".lua")),
                "end\n",
                include_str!("../../lua/red/vote.lua")
            ),
            &[$($key),*],
        );
        &SCRIPT
    }};
}
pub(crate) use vote_script;

/// The script of a kind that takes the lock as one that gives the hold a token: no second text of it.
macro_rules! fenced_script {
    ($file:literal $(after $shared:literal)*, [$($key:ident),*]) => {{
        static SCRIPT: $crate::backend::Script = $crate::backend::Script::new(
            concat!("fenced/fence by ", $file),
            concat!(
                include_str!("../../lua/begin.lua"),
                $(include_str!(concat!("../../lua/", $shared, ".lua")),)*
                "local function acquire()\n",
                include_str!(concat!("../../lua/", $file, ".lua")),
                "end\n",
                include_str!("../../lua/fenced/fence.lua")
            ),
            &[$($key),*],
        );
        &SCRIPT
    }};
}
pub(crate) use fenced_script;

/// Whom a hold keeps out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Everybody.
    Exclusive,
    /// Writers.
    Read,
    /// Everybody, but for read holds of its own owner.
    Write,
}

impl Role {
    /// The other role that the same owner may have in the same lock.
    pub(crate) fn sibling(self) -> Option<Self> {
        match self {
            Self::Exclusive => None,
            Self::Read => Some(Self::Write),
            Self::Write => Some(Self::Read),
        }
    }
}

/// The scripts, and what sets the kind apart. `kinds/` has one table a kind.
#[derive(Debug)]
pub struct Table {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    /// Whether the same owner may enter again.
    pub(crate) reentrant: bool,
    /// Whether a release is announced on the channel.
    pub(crate) announces: bool,
    /// Whether each hold has a fencing token.
    pub(crate) fenced: bool,
    /// Whether the server has a random token of each hold, in place of its owner.
    pub(crate) anonymous: bool,
    /// How waiters that queue on the server say that they are still there; `None` where they queue in the process.
    pub(crate) refresh: Option<&'static Script>,
    pub(crate) acquire: &'static Script,
    pub(crate) release: &'static Script,
    /// From one owner of this process to another, in one script.
    pub(crate) hand_over: Option<&'static Script>,
    /// For many owners of this process who wait together.
    pub(crate) admit: Option<&'static Script>,
    pub(crate) renew: &'static Script,
    /// Makes the count on the server what the registry says.
    pub(crate) settle: &'static Script,
    pub(crate) extend: &'static Script,
    pub(crate) inspect: &'static Script,
    pub(crate) force: &'static Script,
}

/// Kinds are lockson's own.
pub trait Sealed: Send + Sync + 'static {
    /// The data.
    const TABLE: &'static Table;
}

/// The kinds that several servers can vote on, as in [`RedLock<K>`](crate::RedLock): their holds need nothing that one
/// server alone can give.
pub trait Votes: Kind + Ballot {}

/// What a vote is asked for with.
pub trait Ballot {
    /// The kind's acquire script, which tells the server's run too.
    const VOTE: &'static Script;
}

/// The kinds whose holds can have a token, as in [`Fenced<K>`](crate::Fenced): the exclusive ones that are on one
/// server in their owner's name. (A token of the plain lock is random, and the votes of a red lock have no order.)
pub trait Fenceable: Owned + Fences {}

/// The kind with tokens.
pub trait Fences {
    /// The data.
    const FENCED: &'static Table;
}

/// A guard of a hold that a lock of the kind has just taken.
pub struct Fresh(pub(crate) Guard);

/// What holds are guarded by: a guard, or one that knows tokens.
pub trait Guards: Sized + Send + Sync + 'static {
    /// Nobody else makes a [`Fresh`] one.
    fn of(fresh: Fresh) -> Self;
}

impl Guards for Guard {
    fn of(fresh: Fresh) -> Self {
        fresh.0
    }
}

/// A kind of lock, as in [`Lock<K>`](crate::Lock).
pub trait Kind: Sealed {
    /// [`Guard`], or where holds have a token [`FencedGuard`](crate::FencedGuard).
    type Guard: Guards;
}

/// The kinds whose owner is on the server, with a count: all but [`Plain`](crate::Plain).
pub trait Owned: Kind {}
