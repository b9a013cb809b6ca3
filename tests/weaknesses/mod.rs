//! Redisson's locks lose wake-ups, leave holds and hide lost locks in ways that were reproduced on the jar. Each test
//! here is named after the id of one in docs/WEAKNESSES.md and shows on real servers that lockson does not have it.
//! What another suite shows already is named there, and has no test here.

mod composite;
mod holds;
mod kinds;
mod permits;
mod read_write;
mod wakeups;

use support::prelude::*;

/// Leases of 1.2 s in place of 30 s, so that "for ever" can be told from "in time".
fn short() -> Builder {
    Locks::builder().command_timeout(ms(400)).watchdog_lease(ms(1200))
}

/// Only a message wakes this client's waiters in time.
fn deaf_but_for_messages() -> Builder {
    Locks::builder().wait_cap(secs(60))
}

async fn connect(builder: Builder) -> Locks {
    builder.connect(&Server::shared().url()).await.unwrap()
}

/// A client behind a proxy, and a name.
async fn behind_a_proxy(builder: Builder) -> (Proxy, Locks, String) {
    let proxy = Proxy::start(Server::shared().port());
    let locks = builder.connect(&proxy.url()).await.unwrap();
    (proxy, locks, unique("weakness"))
}

async fn raw() -> Raw {
    Server::shared().raw().await
}
