//! Calls that are done once. Permits and latches have no owner on the server by which the copies of a call could be
//! told from another call, so a receipt there says what a call did. Rule 22 of docs/PROTOCOL.md.

use std::future::Future;
use std::sync::Arc;

use futures::future::FutureExt;
use parking_lot::Mutex;
use scopeguard::ScopeGuard;

use crate::backend::Script;
use crate::base::clock::millis;
use crate::base::config::Confirm;
use crate::base::fault::Refused;
use crate::base::janitor::say;
use crate::base::keys::Key::{Channel, Lock, Made};
use crate::base::keys::Keys;
use crate::engine::Engine;
use crate::error::{QueryError, SyncError};
use crate::wire::confirm::{check, Short};
use crate::wire::reply::{Answer, Status};
use crate::wire::script::{Called, Fault, Patience, Query};
use crate::wire::table::script;

/// Undoes a call that changed a number.
pub(crate) static CANCEL: &Script = script!("cancel" after "announce" after "once", [Lock, Made, Channel]);

/// The most permits in one call, and the largest count of a latch, as Java's are.
pub(crate) const MOST: u32 = i32::MAX.unsigned_abs();

/// A number that a call can be about.
pub(crate) fn number(asked: u32, most: u32) -> Result<u32, SyncError> {
    if asked == 0 || asked > most {
        return Err(SyncError::Count { asked: asked.into(), max: most });
    }
    Ok(asked)
}

/// Whether an answer says that the change was made.
pub(crate) fn is_done(answer: &Answer) -> bool {
    answer.status == Status::Done
}

/// Whether it was refused for want of a right, which may be given again.
pub(crate) fn is_forbidden<T>(result: &Result<T, SyncError>) -> bool {
    matches!(result, Err(SyncError::Query(QueryError::Refused { why: Refused::NoPermission(_), .. })))
}

/// Whether it may be done yet: it was not answered, also by a client that is closing, or not allowed now.
fn is_open<T>(result: &Result<T, SyncError>) -> bool {
    match result {
        Err(SyncError::Query(QueryError::Refused { why, .. })) => why.may_end(),
        Err(SyncError::Query(error)) => matches!(error, QueryError::Unreachable { .. } | QueryError::Closed),
        _ => false,
    }
}

/// One semaphore or latch, as this client calls it.
pub(crate) struct Ledger {
    pub(crate) engine: Arc<Engine>,
    pub(crate) keys: Arc<Keys>,
    /// The keys of receipts whose last call can have no copy on its way: each is for one call at a time.
    free: Mutex<Vec<String>>,
}

/// A call that is done at most once.
pub(crate) struct OnceCall {
    pub(crate) script: &'static Script,
    pub(crate) args: Vec<String>,
    /// By whom what it takes has to be confirmed.
    pub(crate) confirm: Option<Confirm>,
    /// What undoes it, with what it has to be told, where a call must not be done behind its caller's back.
    pub(crate) cancel: Option<(&'static Script, Vec<String>)>,
    /// Whether it takes permits.
    pub(crate) takes: bool,
    /// Whether its caller hears that it was not done only when no copy can do it any more.
    pub(crate) waits: bool,
}

impl OnceCall {
    /// One that gives back: it takes nothing, and nothing undoes it.
    pub(crate) fn back(script: &'static Script, args: Vec<String>) -> Self {
        Self { script, args, confirm: None, cancel: None, takes: false, waits: false }
    }
}

impl Ledger {
    pub(crate) fn new(engine: &Arc<Engine>, keys: Keys) -> Arc<Self> {
        Arc::new(Self { engine: engine.clone(), keys: Arc::new(keys), free: Mutex::default() })
    }

    pub(crate) fn name(&self) -> String {
        self.keys.name.to_string()
    }

    /// Calls until it is answered or patience ends, and says whether copies may have run that gave no answer. One that
    /// was not done, as far as its caller is told, but may have been or may yet be, is undone in the background.
    pub(crate) async fn once(
        self: &Arc<Self>,
        mut call: OnceCall,
        patience: Patience,
    ) -> (Result<Answer, SyncError>, bool) {
        let engine = &self.engine;
        if let Err(why) = check(&*engine.wire.backend, &self.keys.lock, call.confirm).await {
            return (Err(QueryError::Refused { name: self.name(), why }.into()), false);
        }
        // Never used again by this client, so that a receipt of an earlier ledger of this name says nothing here.
        let number = engine.next_number().to_string();
        let free = self.free.lock().pop();
        let key = free.unwrap_or_else(|| self.keys.receipt(&engine.client_id, &number));
        // No copy runs later than this and one command timeout, and no cancellation later than twice that: so long a
        // receipt has to live.
        let limit = engine.settings.outage_limit;
        let life = millis(limit * 2 + engine.settings.command_timeout * 4).to_string();
        let patience = patience.until(engine.now().after(limit));
        // Where this panics, as the timers do of a runtime that has ended.
        let unheard = scopeguard::guard((call.cancel.take(), [key, number, life]), |(cancel, receipt)| {
            if let Some((script, args)) = cancel {
                engine.janitor.finish(self.clone().undo(OnceCall::back(script, args), receipt).map(drop));
            }
        });
        let called = self.send_once(&call, unheard.1.each_ref().map(String::as_str), &patience).await;
        let (cancel, receipt) = ScopeGuard::into_inner(unheard);
        let short = match &called.result {
            Ok(Answer { status: Status::NotConfirmed(short), .. }) => Some(*short),
            _ => None,
        };
        let was_done = called.result.as_ref().is_ok_and(is_done);
        let in_doubt = !called.doubt.is_empty();
        let mut given_back = false;
        match (in_doubt || short.is_some(), cancel) {
            (false, _) => {
                let [key, ..] = receipt;
                self.free.lock().push(key);
            }
            (true, Some((script, args))) if !was_done => {
                let undone = self.clone().undo(OnceCall::back(script, args), receipt);
                if short.is_some() || called.result.is_ok() && call.waits {
                    given_back = undone.await && !in_doubt;
                } else {
                    let undone = undone.map(drop);
                    engine.janitor.finish(undone);
                }
            }
            _ => {}
        }
        let result = match short {
            Some(Short { acked, wanted }) => {
                Err(SyncError::NotConfirmed { name: self.name(), acked, wanted, given_back })
            }
            None => self.read(called.result),
        };
        (result, in_doubt)
    }

    /// Undoes a call in doubt, which this client owes from now on. Where that is not allowed now, it is tried again as
    /// long as the receipt lives, also behind a try without an answer.
    fn undo(self: Arc<Self>, cancel: OnceCall, receipt: [String; 3]) -> impl Future<Output = bool> + Send + 'static {
        let owing = self.engine.owed.note(&self.keys.name);
        let over = self.engine.now().after(self.engine.settings.outage_limit);
        async move {
            let undone = self.try_undo(&cancel, &receipt, self.engine.patience().until(over)).await;
            if !is_open(&undone) {
                return self.is_undone(undone);
            }
            let engine = self.engine.clone();
            engine.janitor.finish(async move {
                let last = Mutex::new(undone);
                let again = || async {
                    let undone = self.try_undo(&cancel, &receipt, self.engine.brief()).await;
                    let is_over = !is_open(&undone);
                    *last.lock() = undone;
                    is_over
                };
                self.engine.insist(&self.keys.lock, Some(over), again).await;
                self.is_undone(last.into_inner());
                drop(owing);
            });
            false
        }
    }

    async fn try_undo(
        &self,
        cancel: &OnceCall,
        receipt: &[String; 3],
        patience: Patience,
    ) -> Result<Answer, SyncError> {
        let undone = self.send_once(cancel, receipt.each_ref().map(String::as_str), &patience).await;
        self.read(undone.result)
    }

    /// Says so if it is not, as it is not tried again.
    fn is_undone(&self, undone: Result<Answer, SyncError>) -> bool {
        if let Err(error) = &undone {
            let name = &*self.keys.name;
            say(|| tracing::warn!(target: "lockson", name, %error, "a call in doubt was not taken back"));
        }
        undone.is_ok()
    }

    /// With the key of a receipt, the number of the call, and how many milliseconds the receipt lives.
    async fn send_once(&self, call: &OnceCall, [receipt, number, life]: [&str; 3], patience: &Patience) -> Called {
        let OnceCall { script, confirm, takes, .. } = *call;
        let mut keys = self.keys.of(script.keys);
        keys.push(receipt);
        let args: Vec<&str> = [number, life].into_iter().chain(call.args.iter().map(String::as_str)).collect();
        self.engine.wire.grant(&Query { script, keys: &keys, args: &args, confirm, takes }, patience).await
    }

    /// Asks a question of a caller's, which has a limit of its own.
    pub(crate) async fn look(&self, script: &'static Script, args: &[&str]) -> Result<Answer, SyncError> {
        Ok(self.engine.ask(&self.keys.name, script, &self.keys.of(script.keys), args).await?)
    }

    /// Waits no longer than one question is waited for.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = Result<T, SyncError>>) -> Result<T, SyncError> {
        let answer = tokio::time::timeout(self.engine.look_limit(), work).await;
        answer.unwrap_or_else(|_| Err(QueryError::late(&self.keys.name).into()))
    }

    /// Sends what has no receipt, as it may be done twice.
    pub(crate) async fn send(
        &self,
        script: &'static Script,
        args: &[&str],
        patience: &Patience,
    ) -> Result<Called, SyncError> {
        self.engine.ready()?;
        Ok(self.engine.wire.call(script, &self.keys.of(script.keys), args, patience).await)
    }

    /// Changes something, once, and goes on if the caller goes away; or `cancel` undoes it.
    pub(crate) async fn change(
        self: &Arc<Self>,
        script: &'static Script,
        args: Vec<String>,
        cancel: Option<&'static Script>,
    ) -> Result<Answer, SyncError> {
        self.engine.ready()?;
        let call = OnceCall {
            script,
            args,
            confirm: None,
            cancel: cancel.map(|script| (script, Vec::new())),
            takes: false,
            waits: true,
        };
        let ledger = self.clone();
        let work = self.engine.janitor.carry(|_| async move {
            let _owing = ledger.engine.owed.note(&ledger.keys.name);
            ledger.once(call, ledger.engine.patience()).await.0
        });
        work.await
    }

    /// Done, busy or not held; anything else is an error.
    pub(crate) fn read(&self, result: Result<Answer, Fault>) -> Result<Answer, SyncError> {
        Ok(Answer::of(result, &self.keys.name, self.engine.is_closing())?)
    }
}
