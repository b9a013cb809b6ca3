//! A kind of lock as data: its scripts, and the few facts in which kinds differ.

use std::time::Duration;

use crate::backend::Script;

/// A script of `lua/`, with its KEYS. What several share stands before it. `script!("outer" over "inner", ..)` has the
/// inner one as its function `acquire`, so that what takes a lock has no second text.
/// `script!("outer" of ("inner", ..), ..)` has them as its `bodies`: `script!("inner" as n, ..)` is the n-th of these.
/// One that is `quick` goes without lua/now.lua.
macro_rules! script {
    (@ $file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/lua/", $file, ".lua"))
    };
    (quick $($script:tt)+) => { $crate::wire::table::script!(@with "begin"; $($script)+) };
    (@with $($first:literal)+; $file:literal $(as $body:literal)? $(over $inner:literal)?
        $(of ($($bodies:literal),*))? $(after $shared:literal)*, [$($key:ident),*]) => {{
        static SCRIPT: $crate::backend::Script = $crate::backend::Script::new(
            concat!($file $(, " by ", $inner)?),
            concat!(
                $($crate::wire::table::script!(@ $first),)+
                $($crate::wire::table::script!(@ $shared),)*
                $("local function acquire()\n", $crate::wire::table::script!(@ $inner), "end\n",)?
                $("local bodies = {}\n", $(
                    "bodies[#bodies + 1] = function(KEYS, ARGV)\n",
                    $crate::wire::table::script!(@ $bodies),
                    "end\n",
                )*)?
                $crate::wire::table::script!(@ $file)
            ),
            &[$($key),*],
        )$(.in_groups(stringify!($body)))?;
        &SCRIPT
    }};
    ($($script:tt)+) => { $crate::wire::table::script!(@with "begin" "now"; $($script)+) };
}
pub(crate) use script;

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

/// How waiters stand in a queue that the server keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    /// Says that they are still there.
    pub(crate) refresh: &'static Script,
    /// Takes them out.
    pub(crate) leave: &'static Script,
}

/// The scripts for many locks of one slot at once.
#[derive(Debug, Clone, Copy)]
pub struct Together {
    /// Takes all that are free, or none.
    pub(crate) acquire: &'static Script,
    /// Gives the only hold of each back.
    pub(crate) release: &'static Script,
}

/// What stands for a run of turns on the server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Runs {
    /// The token of the hold that it began with: of no kind that has owners there.
    Token,
    /// A field of its own, until it is the owner's.
    Field {
        /// Puts the owner in its place.
        moves: &'static Script,
        /// Gives both back, where it is not known whether that was done.
        release: &'static Script,
    },
}

/// The scripts, and what sets the kind apart. `kinds/` has one table a kind.
#[derive(Debug)]
pub struct Table {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    /// Whether the same owner may enter again.
    pub(crate) reentrant: bool,
    /// Whether a release is announced on the channel, to all who wait.
    pub(crate) announces: bool,
    /// Whether each hold has a fencing token.
    pub(crate) fenced: bool,
    /// Whether the server has a random token of each hold, in place of its owner.
    pub(crate) anonymous: bool,
    /// Whether it may go from one owner to the next inside the process without a script (rule 27), and then how.
    pub(crate) runs: Option<Runs>,
    /// How long others let a waiter go first after each of its attempts, if they do.
    pub(crate) goes_first: Option<Duration>,
    /// Where waiters queue on the server; `None` where they queue in the process.
    pub(crate) queue: Option<Queue>,
    pub(crate) acquire: &'static Script,
    /// Makes that script's last argument, of kinds that have one behind the owner, the lease and the count: from the
    /// same owner's field in the other role, and whether the owner goes on waiting if the lock is busy.
    pub(crate) asks: fn(Option<&str>, bool) -> Option<String>,
    pub(crate) release: &'static Script,
    /// Gives it from one owner of this process to another, in one script: where waiters queue on the server, only to
    /// the next one there.
    pub(crate) hand_over: Option<&'static Script>,
    /// Takes it for many owners of this process who wait together, in one script.
    pub(crate) admit: Option<&'static Script>,
    /// For many locks at once.
    pub(crate) together: Option<Together>,
    pub(crate) renew: &'static Script,
    /// What the renewal of a hold counts for, of 500 in a script.
    pub(crate) weight: usize,
    /// Makes the count on the server what the registry says.
    pub(crate) settle: &'static Script,
    pub(crate) extend: &'static Script,
    pub(crate) inspect: &'static Script,
    pub(crate) force: &'static Script,
}
