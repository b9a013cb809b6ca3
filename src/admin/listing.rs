//! All locks, semaphores and latches of all servers, a page at a time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::description::What;
use super::pattern::{escaped, loose, matches};
use crate::backend::node::Node;
use crate::engine::Engine;
use crate::error::QueryError;
use crate::locks::lock::Holder;
use crate::wire::reply::Answer;
use crate::wire::table::script;

/// How many keys one script looks at.
const KEYS: &str = "40";
/// Of each that is found there are so many items.
const ITEMS: usize = 7;

/// One that was found by [`Admin::list`](super::Admin::list).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Its name, without the client's prefix.
    pub name: String,
    /// What it is.
    pub what: What,
    /// What is left of its lease; `None`: it has none.
    pub ttl: Option<Duration>,
    /// Who holds it: of a read lock one of those who do. `None` of what has no owner.
    pub holder: Option<Holder>,
    /// How many hold it, those among them whose leases have ended.
    pub holders: u64,
    /// How many wait in its fair queue.
    pub waiting: u64,
    /// How many permits are free, or what a latch counts yet: the number that is there.
    pub number: Option<i64>,
}

impl Listed {
    /// Of the items of `lua/admin/list.lua`; `None`: they are none.
    fn read(prefix: &str, answer: &Answer, at: usize) -> Option<Self> {
        let [key, what, value] = [at, at + 1, at + 3].map(|at| answer.text(at));
        let (name, value, waiting) = (key?.strip_prefix(prefix)?.to_owned(), value?, answer.count(at + 6));
        let what = What::read(what?, waiting)?;
        let ttl = answer.millis(at + 2);
        let holders = answer.count(at + 5);
        let holder = Holder::of(value, answer.known(at + 4), ttl).filter(|_| what.has_owners() && holders > 0);
        Some(Self { name, what, ttl, holder, holders, waiting, number: value.parse().ok().filter(|_| what.counts()) })
    }
}

/// A walk over all keys of all servers: [`Admin::list`](super::Admin::list) begins it.
pub struct Listing {
    engine: Arc<Engine>,
    prefix: String,
    /// What names are like.
    pattern: Vec<char>,
    /// What the server is asked for: all of that, and more.
    asked: String,
    /// Those that are not done yet; `None` before the first page.
    nodes: Option<Vec<Arc<Node>>>,
    cursor: String,
    scanned: u64,
    hidden: u64,
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing").field("cursor", &self.cursor).field("scanned", &self.scanned).finish_non_exhaustive()
    }
}

impl Listing {
    pub(super) fn new(engine: Arc<Engine>, pattern: &str) -> Self {
        let prefix = engine.settings.naming.prefix.clone();
        let chars: Vec<char> = pattern.chars().collect();
        // The names of queues have more in front of the name, and behind it.
        let asked = format!("*{}{}*", escaped(&prefix), loose(&chars));
        let cursor = "0".to_owned();
        Self { engine, prefix, pattern: chars, asked, nodes: None, cursor, scanned: 0, hidden: 0 }
    }

    /// The next page, which may be empty; `None` when all have been seen.
    ///
    /// # Errors
    /// [`QueryError`]: the page was not seen, and is asked for again by the next call.
    /// [`QueryError::Unreachable`] after three command timeouts.
    ///
    /// # Cancel safety
    /// Safe: the next call asks for the same page.
    pub async fn next(&mut self) -> Result<Option<Vec<Listed>>, QueryError> {
        self.engine.ready()?;
        let nodes = self.nodes.take().map_or_else(|| self.engine.nodes(), Ok)?;
        let node = nodes.last().cloned();
        self.nodes = Some(nodes);
        let Some(node) = node else { return Ok(None) };
        let answer = self.page(&node).await?;
        let found = (3..answer.items().len()).step_by(ITEMS);
        let page = found.filter_map(|at| Listed::read(&self.prefix, &answer, at));
        let page = page.filter(|listed| matches(&self.pattern, &listed.name.chars().collect::<Vec<_>>())).collect();
        self.scanned += answer.count::<u64>(1);
        self.hidden += answer.count::<u64>(2);
        self.cursor = answer.text(0).unwrap_or("0").to_owned();
        if self.cursor == "0" {
            self.nodes.get_or_insert_default().pop();
        }
        Ok(Some(page))
    }

    /// How many keys like the pattern were looked at so far, those that belong to nothing here among them.
    pub fn scanned(&self) -> u64 {
        self.scanned
    }

    /// How many of those this user may not read: nobody knows what they are.
    pub fn hidden(&self) -> u64 {
        self.hidden
    }

    async fn page(&self, node: &Arc<Node>) -> Result<Answer, QueryError> {
        let script = script!("admin/list" after "admin/what", []);
        let args = [self.cursor.clone(), self.asked.clone(), KEYS.to_owned()];
        self.engine.ask_at(node, script, args).await
    }
}
