//! The members of a multi-lock, one by one, in the one order in which every client takes them.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::millis;
use crate::base::owner::Owner;
use crate::engine::Session;
use crate::error::{LockError, QueryError};
use crate::hold::entry::Line;
use crate::wire::reply::{Answer, Status};
use crate::wire::table::{script, Role};

/// How long a server's id is kept after it was asked for last.
const ID_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// A lock that is taken as one, for the owner that it is taken for, and its place among others.
pub struct Leaf<L: ?Sized> {
    pub(crate) lock: Arc<L>,
    pub(crate) session: Arc<Session>,
    pub(crate) line: Arc<Line>,
    pub(crate) field: Arc<str>,
    pub(crate) role: Role,
    /// Whether these are those of its first server, of several that vote.
    pub(crate) votes: bool,
    /// Tells its server from another. Asked for only where the names of two clients' locks are the same.
    pub(crate) server: Option<String>,
}

impl<L: ?Sized> Leaf<L> {
    /// What it is on its server: its key, and of a group's the value.
    pub(crate) fn key(&self) -> (&str, &str) {
        (&self.line.keys.lock, &self.line.keys.value)
    }

    pub(crate) fn owner(&self) -> Owner {
        self.session.engine.owner_of(&self.field)
    }

    pub(crate) fn is_client_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.session, &other.session)
    }

    /// Whether it is the very same lock, of the same client and owner.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.is_client_of(other) && self.order() == other.order() && self.field == other.field
    }

    /// What every client of these servers orders locks by.
    pub(crate) fn order(&self) -> ((&str, &str), Option<&str>, u8, bool) {
        let role = match self.role {
            Role::Exclusive => 0,
            // The other way round it would be an upgrade.
            Role::Write => 1,
            Role::Read => 2,
        };
        (self.key(), self.server.as_deref(), role, self.votes)
    }

    /// Whether its owner has a bare hold of it.
    pub(crate) fn has_bare_hold(&self) -> bool {
        let entry = self.line.entry(&self.field);
        entry.has(None).is_some() || entry.elected.get().is_some_and(|elected| !elected.holds.lock().is_empty())
    }

    /// Asks the server for its id. Two clients of one server get the same.
    pub(crate) async fn ask_server_id(&self) -> Result<String, LockError> {
        let (engine, keys) = (&self.session.engine, &self.line.keys);
        let name = keys.name.to_string();
        let (key, fresh, ttl) = (keys.server_id(), engine.ids.fresh().to_string(), millis(ID_TTL).to_string());
        engine.ready()?;
        let of = engine.clone();
        // Carried, so that its answer is read even if nobody waits for it any more.
        let work = engine.janitor.carry(|abandoned| async move {
            let script = script!("multi/server_id", []);
            of.wire.call(script, &[&key], &[&fresh, &ttl], &of.patience().unless(abandoned)).await
        });
        let called = work.await;
        let answer = Answer::of(called.result, &name, engine.is_closing())?;
        match answer.text(0) {
            Some(id) if answer.status == Status::Done => Ok(id.to_owned()),
            _ => Err(QueryError::Unreachable { name, detail: "the server has no id".to_owned() }.into()),
        }
    }
}
