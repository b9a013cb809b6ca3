//! Calls that have no owner on the server to tell their copies apart: a receipt there says what a call did. Rule 22 of
//! docs/PROTOCOL.md.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::Script;
use crate::clock::millis;
use crate::error::SyncError;
use crate::janitor::say;
use crate::keys::Key::{Channel, Life, Lock};
use crate::keys::Keys;
use crate::kind::script;
use crate::script::{Answer, Fault, Patience, Settled, Status};
use crate::session::Core;

/// Undoes a call that changed a number.
pub(crate) static CANCEL: &Script = script!("cancel" after "once", [Lock, Channel, Life]);

/// A receipt's key, for one call at a time.
struct Lane {
    key: String,
    /// The number of its last call.
    call: String,
}

/// One semaphore or latch, as this client calls it.
pub(crate) struct Ledger {
    pub(crate) keys: Keys,
    /// Lanes whose last call can have no copy on its way.
    free: Mutex<Vec<Lane>>,
}

/// A call that is done at most once.
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    pub(crate) args: Vec<String>,
    /// What undoes it, with what it has to be told, where a call must not be done behind its caller's back.
    pub(crate) cancel: Option<(&'static Script, Vec<String>)>,
    /// Whether its caller hears that it was not done only when no copy can do it any more.
    pub(crate) waits: bool,
}

impl Ledger {
    pub(crate) fn new(keys: Keys) -> Arc<Self> {
        Arc::new(Self { keys, free: Mutex::default() })
    }

    pub(crate) fn name(&self) -> String {
        self.keys.name.to_string()
    }

    fn free(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lane for a new call. Numbers are never used again by this client, so that a receipt of an earlier ledger of
    /// this name says nothing to a later one.
    fn lane(&self, core: &Core) -> Lane {
        let call = core.next_number().to_string();
        let free = self.free().pop();
        let key = free.map_or_else(|| self.keys.receipt(&core.client_id, &call), |lane| lane.key);
        Lane { key, call }
    }

    /// Calls until it is answered or patience ends. One that was not done, as far as its caller is told, but may have
    /// been or may yet be, is undone in the background.
    pub(crate) async fn once(
        self: &Arc<Self>,
        core: &Arc<Core>,
        call: Call,
        patience: Patience,
    ) -> Result<Answer, SyncError> {
        self.once_or_in_doubt(core, call, patience).await.0
    }

    /// And whether copies of it may have run that gave no answer.
    pub(crate) async fn once_or_in_doubt(
        self: &Arc<Self>,
        core: &Arc<Core>,
        call: Call,
        patience: Patience,
    ) -> (Result<Answer, SyncError>, bool) {
        let lane = self.lane(core);
        // No copy runs later than this and one command timeout, and no cancellation later than twice that: so long a
        // receipt has to live.
        let limit = core.settings.outage_limit;
        let life = millis(limit * 2 + core.settings.command_timeout * 4).to_string();
        let patience = patience.until(core.now().after(limit));
        let settled = self.send_once(core, call.script, &lane, &life, &call.args, &patience).await;
        let is_done = matches!(&settled.result, Ok(answer) if answer.status == Status::Done);
        match (settled.doubt, call.cancel) {
            (None, _) => self.free().push(lane),
            (Some(_), Some((script, args))) if !is_done => {
                let (ledger, to, owing) = (self.clone(), core.clone(), core.owed.note(&self.keys.name));
                let patience = core.patience().until(core.now().after(limit));
                let undone = async move {
                    let undone = ledger.send_once(&to, script, &lane, &life, &args, &patience).await;
                    drop(owing);
                    if let Err(fault) = undone.result {
                        let name = &*ledger.keys.name;
                        say(|| tracing::warn!(target: "lockson", name, ?fault, "a call in doubt was not taken back"));
                    }
                };
                if settled.result.is_ok() && call.waits {
                    undone.await;
                } else {
                    core.janitor.finish(undone);
                }
            }
            _ => {}
        }
        (self.read(core, settled.result), settled.doubt.is_some())
    }

    async fn send_once(
        &self,
        core: &Core,
        script: &'static Script,
        lane: &Lane,
        life: &str,
        args: &[String],
        patience: &Patience,
    ) -> Settled {
        let mut keys = self.keys.of(script.keys);
        keys.push(&lane.key);
        let args: Vec<&str> = [lane.call.as_str(), life].into_iter().chain(args.iter().map(String::as_str)).collect();
        core.wire.settle(script, &keys, &args, patience).await
    }

    /// Asks for something that may be asked for twice.
    pub(crate) async fn ask(
        &self,
        core: &Core,
        script: &'static Script,
        args: &[&str],
        patience: &Patience,
    ) -> Result<Answer, SyncError> {
        let settled = self.send(core, script, args, patience).await?;
        self.read(core, settled.result)
    }

    /// Asks a question of a caller's, which has a limit of its own.
    pub(crate) async fn look(
        self: &Arc<Self>,
        core: &Arc<Core>,
        script: &'static Script,
        args: Vec<String>,
    ) -> Result<Answer, SyncError> {
        core.ready()?;
        let (ledger, to) = (self.clone(), core.clone());
        // Carried, so that its answer is read, and counts as one, even if nobody waits for it any more.
        let work = core.janitor.carry(|abandoned| async move {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            ledger.ask(&to, script, &args, &to.patience().unless(abandoned)).await
        });
        let answer = tokio::time::timeout(core.look_limit(), work).await;
        answer.unwrap_or_else(|_| Err(SyncError::late(&self.keys.name)))
    }

    /// Sends what has no receipt.
    pub(crate) async fn send(
        &self,
        core: &Core,
        script: &'static Script,
        args: &[&str],
        patience: &Patience,
    ) -> Result<Settled, SyncError> {
        core.ready()?;
        Ok(core.wire.settle(script, &self.keys.of(script.keys), args, patience).await)
    }

    /// Changes something, once; goes on if the caller goes away.
    pub(crate) async fn change(self: &Arc<Self>, core: &Arc<Core>, call: Call) -> Result<Answer, SyncError> {
        core.ready()?;
        let (ledger, to) = (self.clone(), core.clone());
        core.janitor.carry(|_| async move { ledger.once(&to, call, to.patience()).await }).await
    }

    /// Done, busy or not held; anything else is an error.
    pub(crate) fn read(&self, core: &Core, result: Result<Answer, Fault>) -> Result<Answer, SyncError> {
        let name = self.name();
        let answer = result.map_err(|fault| SyncError::of_fault(&name, fault, core.is_closing()))?;
        match answer.status {
            Status::Done | Status::Busy | Status::NotHeld => Ok(answer),
            Status::WrongType(detail) | Status::Tampered(detail) => Err(SyncError::WrongType { name, detail }),
            Status::Refused(why) => Err(SyncError::Refused { name, why }),
        }
    }
}
