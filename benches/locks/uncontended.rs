//! One task, one name: lock and unlock.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::FutureExt;
use rustix::time::ClockId;

use crate::floor::{self, Ready};
use crate::hot::rslock_manager;
use crate::table::{interleave, median, time, Cell, Goal, Ratio, Row};
use lockson::{Builder, Locks};
use support::Server;

/// Microseconds of a clock per pair while `slice` lasts.
pub async fn pairs<F: Future<Output = ()>>(slice: Duration, clock: ClockId, mut pair: impl FnMut() -> F) -> f64 {
    let (began, before) = (Instant::now(), time(clock));
    let mut count = 0_u32;
    while began.elapsed() < slice {
        pair().await;
        count += 1;
    }
    (time(clock) - before).as_secs_f64() * 1e6 / f64::from(count)
}

/// lockson's pairs: bare holds, or guards.
pub async fn lockson(server: &Server, guards: bool, clock: ClockId) -> Cell {
    by(Locks::builder(), server, guards, clock).await
}

pub async fn by(builder: Builder, server: &Server, guards: bool, clock: ClockId) -> Cell {
    let locks = builder.connect(&server.url()).await.expect("a client");
    Box::new(move |slice| {
        let locks = locks.clone();
        async move {
            let lock = locks.lock("uncontended");
            if guards {
                pairs(slice, clock, || async {
                    let guard = lock.guard().await.expect("held");
                    guard.unlock().await.expect("given back");
                })
                .await
            } else {
                pairs(slice, clock, || async {
                    lock.lock().await.expect("held");
                    lock.unlock().await.expect("given back");
                })
                .await
            }
        }
        .boxed()
    })
}

pub async fn raw(server: &Server, clock: ClockId) -> Cell {
    let client = floor::client(server).await;
    let owner = floor::owner(1);
    let scripts = Arc::new((Ready::acquire(server, "raw", &owner), Ready::release(server, "raw", &owner)));
    Box::new(move |slice| {
        let (client, scripts) = (client.clone(), scripts.clone());
        async move {
            pairs(slice, clock, || async {
                scripts.0.send(&client).await;
                scripts.1.send(&client).await;
            })
            .await
        }
        .boxed()
    })
}

fn rslock(server: &Server, clock: ClockId) -> Cell {
    let manager = rslock_manager(&server.url());
    Box::new(move |slice| {
        let manager = manager.clone();
        async move {
            pairs(slice, clock, || async {
                let lock = manager.lock("rslock", Duration::from_secs(30)).await.expect("held");
                manager.unlock(&lock).await;
            })
            .await
        }
        .boxed()
    })
}

/// A client whose scripts go by a connection of lockson's own.
pub fn lean() -> Builder {
    Locks::builder().lean_connections(true)
}

/// The rows of this group.
pub async fn run(seconds: Duration) -> Vec<Row> {
    let server = Server::start();
    let (wall, cpu) = (ClockId::Monotonic, ClockId::ProcessCPUTime);
    let cells = [
        lockson(&server, false, wall).await,
        raw(&server, wall).await,
        lockson(&server, true, wall).await,
        rslock(&server, wall),
        lockson(&server, false, cpu).await,
        raw(&server, cpu).await,
        by(lean(), &server, false, wall).await,
        by(lean(), &server, false, cpu).await,
    ];
    let figures = interleave(seconds, &cells).await;
    let said = |cell: usize| format!("{:.0} us", median(&figures[cell]));
    vec![
        Row::new("uncontended: lock + unlock", said(0))
            .beside(format!("the two EVALSHA raw: {}", said(1)))
            .ratio(Ratio::of(&figures[0], &figures[1]))
            .goal(Goal::AtMost(1.05)),
        Row::new("the same by a guard", said(2))
            .beside(format!("the two EVALSHA raw: {}", said(1)))
            .ratio(Ratio::of(&figures[2], &figures[1])),
        Row::new("the same", said(0))
            .beside(format!("rslock's lock + unlock: {}", said(3)))
            .ratio(Ratio::of(&figures[0], &figures[3])),
        Row::new("CPU of this process per lock + unlock", said(4))
            .beside(format!("the two EVALSHA raw: {}", said(5)))
            .ratio(Ratio::of(&figures[4], &figures[5])),
        Row::new("by a lean connection: lock + unlock", said(6))
            .beside(format!("the two EVALSHA raw: {}", said(1)))
            .ratio(Ratio::of(&figures[6], &figures[1]))
            .goal(Goal::AtMost(0.85)),
        Row::new("the same", said(6))
            .beside(format!("rslock's lock + unlock: {}", said(3)))
            .ratio(Ratio::of(&figures[6], &figures[3])),
        Row::new("CPU of this process, the same", said(7))
            .beside(format!("the two EVALSHA raw: {}", said(5)))
            .ratio(Ratio::of(&figures[7], &figures[5])),
    ]
}
