//! Copies of calls without an answer, and until when they may run. Rules 6 and 24 of docs/PROTOCOL.md.

use std::sync::Arc;

use crate::backend::node::Node;
use crate::base::clock::{Moment, ServerTime};

/// Copies without an answer: each may run until a moment of the clock of the node that it was sent to. Mostly there are
/// none, which takes no memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Doubt(Vec<(Arc<Node>, ServerTime)>);

impl Doubt {
    pub(crate) fn new(node: Arc<Node>, not_after: ServerTime) -> Self {
        Self(vec![(node, not_after)])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These copies and those.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (node, time) in &other.0 {
            match self.0.iter_mut().find(|(own, _)| Arc::ptr_eq(own, node)) {
                Some((_, own)) => *own = (*own).max(*time),
                None => self.0.push((node.clone(), *time)),
            }
        }
    }

    /// The same without copies that run no later than those.
    pub(crate) fn forget(&mut self, other: &Self) {
        self.0.retain(|(node, time)| !other.0.iter().any(|(its, until)| Arc::ptr_eq(its, node) && time <= until));
    }

    /// Takes them out, if there are any.
    pub(crate) fn take(&mut self) -> Option<Self> {
        Some(std::mem::take(self)).filter(|taken| !taken.is_empty())
    }

    /// Whether none of them can run any more.
    pub(crate) fn is_past(&self) -> bool {
        self.0.iter().all(|(node, time)| node.is_past(*time))
    }

    /// When none of them can run any more. `None`: there are none.
    pub(crate) fn passes(&self) -> Option<Moment> {
        self.0.iter().map(|(node, time)| node.passes(*time)).max()
    }

    /// Waits until none of them can run any more.
    pub(crate) async fn pass(&self) {
        for (node, time) in &self.0 {
            node.pass(*time).await;
        }
    }

    /// Whether a node that got one of them is so many milliseconds further by its clock than that copy may run.
    pub(crate) fn is_past_by(&self, millis: i64) -> bool {
        self.0.iter().any(|(node, time)| node.is_past(time.saturating_add(millis)))
    }
}
