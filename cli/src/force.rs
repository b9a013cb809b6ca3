//! `force`: ends a hold, of the one that was shown and no other.

use std::io::{BufRead, IsTerminal};

use lockson::{Description, Forced, Locks};
use serde_json::json;

use crate::args::Force;
use crate::clients;
use crate::out::{clean, put, tell, Out};
use crate::show;
use crate::watch::holders;
use crate::{End, Failure, Outcome};

pub async fn run(locks: &Locks, out: &Out, args: Force) -> Outcome {
    let admin = locks.admin();
    let found = admin.describe(&args.name).await?;
    let owner = whose(&found, args.owner)?;
    if !args.yes {
        let clients = clients::of(locks, &found).await?;
        ask(&show::lines(&Out::new(false, crate::args::Color::Never), &found, &clients), &owner)?;
    }
    match admin.force(&args.name, &owner).await {
        Ok(Forced::Ended) => {
            if out.json {
                out.value(&json!({ "name": args.name, "owner": owner, "ended": true }))?;
            } else {
                out.line(&format!("ended: {} by {}", clean(&args.name), clean(&owner)))?;
            }
            Ok(End::Done)
        }
        Ok(_) => {
            if out.json {
                out.value(&json!({ "name": args.name, "owner": owner, "ended": false }))?;
            }
            Err(Failure(End::No, format!("{owner} does not hold it any more: nothing was changed")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whose hold is meant, where that is clear.
fn whose(found: &Description, asked: Option<String>) -> Result<String, Failure> {
    if let Some(owner) = asked {
        return Ok(owner);
    }
    let mut all = holders(found);
    let count = found.held.max(all.len() as u64);
    match all.pop_last() {
        Some((owner, _)) if count == 1 => Ok(owner),
        Some(_) => Err(Failure(End::Of(2), format!("{count} hold it: say whose hold with --owner, as `show` has it"))),
        None => Err(Failure(End::No, format!("nobody holds {:?}: it is {}", found.name, found.what))),
    }
}

fn ask(shown: &[String], owner: &str) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure(End::Of(2), "nobody can be asked here: say --yes".to_owned()));
    }
    tell(&shown.join("\n"));
    put(&format!("End the hold of {}? Its holder goes on until it notices. [y/N] ", clean(owner)));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    match answer.trim() {
        "y" | "Y" | "yes" if read.is_ok() => Ok(()),
        _ => Err(Failure(End::No, "left as it is".to_owned())),
    }
}
