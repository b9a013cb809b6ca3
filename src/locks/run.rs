//! A caller's script under a hold: it is sent once, as nobody knows whether it may run twice.

use crate::backend::Script;
use crate::error::{Lost, LostReason, QueryError, RunError};
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
        if let Some(why) = hold.leased.lost(engine.now()) {
            return Err(Lost { why }.into());
        }
        engine.ready().map_err(QueryError::from)?;
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
        let answer = match (called.result, called.doubt) {
            (Ok(answer), _) => answer,
            (Err(Fault::Unreachable(detail)), Some(_)) => return Err(RunError::Unknown { name, detail }),
            (Err(fault), _) => return Err(QueryError::of_fault(&name, fault, engine.is_closing()).into()),
        };
        match &answer.status {
            Status::Done => Ok(answer),
            Status::Refused(why) => Err(QueryError::Refused { name, why: why.clone() }.into()),
            Status::WrongType(detail) => Err(QueryError::WrongType { name, detail: detail.clone() }.into()),
            _ => {
                self.refused();
                Err(Lost { why: LostReason::Server }.into())
            }
        }
    }
}
