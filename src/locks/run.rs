//! A caller's script under a hold: it is sent once, as nobody knows whether it may run twice.

use crate::backend::Script;
use crate::error::{Lost, LostReason, RunError};
use crate::hold::ticket::Ticket;
use crate::wire::script::{Answer, Fault, Status};

impl Ticket {
    /// Runs a script that looks for this owner's field first: its answer, if it ran.
    pub(crate) async fn run_script(
        &self,
        script: &'static Script,
        mut keys: Vec<String>,
        mut args: Vec<String>,
    ) -> Result<Answer, RunError> {
        let Self { engine, entry, hold, .. } = self;
        hold.leased.check(engine.now())?;
        engine.ready()?;
        let name = entry.line.keys.name.to_string();
        keys.splice(..0, entry.line.keys.of(script.keys).into_iter().map(str::to_owned));
        args.insert(0, entry.field.to_string());
        let (to, patience) =
            (engine.clone(), engine.patience().until(engine.now().after(engine.look_limit())).one_copy());
        // Carried, so that its answer is read even if nobody waits for it any more.
        let work = engine.janitor.carry(|abandoned| async move {
            let [keys, args] = [&keys, &args].map(|texts| texts.iter().map(String::as_str).collect::<Vec<_>>());
            to.wire.call(script, &keys, &args, &patience.unless(abandoned)).await
        });
        let called = work.await;
        if let (Err(Fault::Unreachable(detail)), false) = (&called.result, called.doubt.is_empty()) {
            return Err(RunError::Unknown { name, detail: detail.clone() });
        }
        let answer = Answer::of(called.result, &name, engine.is_closing())?;
        match answer.status {
            Status::Done => Ok(answer),
            _ => {
                self.refused();
                Err(Lost { why: LostReason::Server }.into())
            }
        }
    }
}
