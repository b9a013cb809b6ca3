//! A time after a failover in which a node grants nothing: what the one before it granted last may be lost, and its
//! holder not told yet. Rule 25 of docs/PROTOCOL.md.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;

use crate::backend::node::Node;
use crate::backend::{Call, Fate, QUARANTINE};
use crate::base::fault::Refused;
use crate::wire::script::{Answer, Sent, Status, Wire};
use crate::wire::table::script;

impl Wire {
    /// Whether a node may be sent this call: one that takes something may not as long as that node may have lost what
    /// it, or the one before it, granted. It is asked when something is to be taken there for the first time.
    pub(super) async fn may_take(&self, takes: bool, node: &Arc<Node>, key: &str) -> Result<(), Fate> {
        let Some(quarantine) = self.quarantine.filter(|_| takes) else { return Ok(()) };
        let from = match node.grants_from() {
            Some(from) => from,
            None => {
                // It is rare, so it takes no room in every call.
                let age = self.age(node, key).boxed().await?;
                node.grant_from(self.clock.now().after(quarantine.saturating_sub(age)))
            }
        };
        match from.since(self.clock.now()) {
            Duration::ZERO => Ok(()),
            left => Err(Fate::Refused(Refused::Quarantine(left))),
        }
    }

    /// How long ago a node may have lost something last.
    async fn age(&self, node: &Arc<Node>, key: &str) -> Result<Duration, Fate> {
        let script = script!("quarantine" after "boot", []);
        let marker = self.backend.marker(QUARANTINE, key);
        let mut is_late = false;
        loop {
            let (at, nonce) = (self.clock.now(), self.nonce.fetch_add(1, Ordering::Relaxed));
            let not_after = self.latest(node, at);
            let (names, sent) = ([&*marker], Sent { node: node.clone(), at, nonce, not_after, confirm: None });
            let call = Call {
                script,
                names: &names,
                nonce,
                not_after,
                args: &[],
                in_full: false,
                asking: false,
                confirm: None,
            };
            let answer = self.send_to(node, call, at).await;
            match answer.and_then(|items| self.read(script.name, items, &sent)) {
                // Now its clock is known.
                Err(Fate::Late) if !is_late => is_late = true,
                Ok(Answer { status: Status::Refused(why), .. }) => return Err(Fate::Refused(why)),
                Ok(answer) => return Ok(answer.run().map(|(_, _, age)| age).unwrap_or_default()),
                // What was to be granted was not sent.
                Err(Fate::Doubtful(why)) => return Err(Fate::NotSent(why)),
                Err(fate) => return Err(fate),
            }
        }
    }
}
