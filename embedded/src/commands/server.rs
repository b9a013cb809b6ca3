//! Commands about the server, and messages.

use super::{command, head, wrong_arity, Command};
use crate::store::Store;
use crate::value::{Answer, Value};

/// The version of Redis that the server says it is.
pub const REDIS_VERSION: &str = "7.0.15";

pub(super) const COMMANDS: &[Command] = &[
    command("publish", 3, publish),
    command("spublish", 3, spublish),
    command("time", 1, time),
    command("ping", -1, ping),
    command("info", -1, info),
];

fn publish(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([channel, text], _) = head(args)?;
    Ok(Value::count(store.hub.publish(channel, text, false)))
}

fn spublish(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let ([channel, text], _) = head(args)?;
    Ok(Value::count(store.hub.publish(channel, text, true)))
}

fn time(store: &mut Store, _: &[Vec<u8>]) -> Answer {
    let now_us = store.now_us();
    Ok(Value::list([(now_us / 1_000_000).to_string(), (now_us % 1_000_000).to_string()]))
}

fn ping(_: &mut Store, args: &[Vec<u8>]) -> Answer {
    match args {
        [] => Ok(Value::Status(b"PONG".to_vec())),
        [text] => Ok(Value::Bulk(text.clone())),
        _ => Err(wrong_arity("ping")),
    }
}

fn info(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let (run_id, uptime) = (store.run_id(), store.uptime_seconds());
    let sections = [
        (
            "server",
            format!(
                "# Server\r\nredis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\nrun_id:{run_id}\r\n\
                 uptime_in_seconds:{uptime}\r\n"
            ),
        ),
        // A run has no history but its own.
        ("replication", format!("# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_replid:{run_id}\r\n")),
        ("memory", "# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n".to_owned()),
    ];
    let all = |arg: &Vec<u8>| ["all", "default", "everything"].iter().any(|name| super::is(arg, name));
    let wanted = |name: &str| args.is_empty() || args.iter().any(|arg| all(arg) || super::is(arg, name));
    let shown: Vec<_> = sections.into_iter().filter(|(name, _)| wanted(name)).map(|(_, text)| text).collect();
    Ok(Value::bulk(shown.join("\r\n")))
}
