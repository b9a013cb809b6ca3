//! From one client to another: one holds and one waits; from the call of unlock to the return of the waiter.

use std::time::{Duration, Instant};

use fred::prelude::*;
use fred::types::CustomCommand;
use futures::future::FutureExt;

use crate::floor::{self, Ready};
use crate::rueidis;
use crate::table::{interleave, keep, quantile, Cell, Goal, Ratio, Row, Samples};
use crate::uncontended::lean;
use lockson::{Builder, Locks, Owner, ReentrantLock};
use support::{unique, Server};

/// Time for the waiter to ask once and to fall asleep.
const PARK: Duration = Duration::from_millis(2);

async fn lockson(builder: Builder, server: &Server, samples: Samples) -> Cell {
    // Who listened in another cell is waited for.
    let (name, mut handles) = (unique("hand-over"), Vec::new());
    for _ in 0..2 {
        let locks = builder.clone().connect(&server.url()).await.expect("a client");
        handles.push(locks.lock(&name).owned_by(&Owner::unique()));
    }
    Box::new(move |slice| {
        let (handles, samples) = (handles.clone(), samples.clone());
        async move { keep(&samples, &pass_lockson(handles[0].clone(), handles[1].clone(), slice).await) }.boxed()
    })
}

async fn pass_lockson(mut holder: ReentrantLock, mut waiter: ReentrantLock, slice: Duration) -> Vec<f64> {
    let (end, mut samples) = (Instant::now() + slice, Vec::new());
    holder.lock().await.expect("held");
    while Instant::now() < end {
        let waiting = waiter.clone();
        let wait = tokio::spawn(async move {
            waiting.lock().await.expect("held");
            Instant::now()
        });
        tokio::time::sleep(PARK).await;
        let began = Instant::now();
        holder.unlock().await.expect("given back");
        samples.push((wait.await.expect("the waiter returns") - began).as_secs_f64() * 1e6);
        std::mem::swap(&mut holder, &mut waiter);
    }
    holder.unlock().await.expect("given back");
    samples
}

/// One side of the floor: connections as a lockson client has them, and the one script.
#[derive(Clone)]
struct Side {
    commands: Client,
    subscriber: Client,
    acquire: Ready,
}

async fn raw(server: &Server, samples: Samples) -> Cell {
    let mut sides = Vec::new();
    for task in 0..2 {
        let subscriber = floor::client(server).await;
        subscriber.subscribe(floor::channel("raw")).await.expect("subscribed");
        subscriber.ping::<Value>(None).await.expect("an answer");
        let acquire = Ready::acquire(server, "raw", &floor::owner(task));
        sides.push(Side { commands: floor::client(server).await, subscriber, acquire });
    }
    Box::new(move |slice| {
        let (sides, samples) = (sides.clone(), samples.clone());
        async move { keep(&samples, &pass_raw(sides[0].clone(), sides[1].clone(), slice).await) }.boxed()
    })
}

async fn pass_raw(mut holder: Side, mut waiter: Side, slice: Duration) -> Vec<f64> {
    let (end, mut samples) = (Instant::now() + slice, Vec::new());
    let channel = floor::channel("raw");
    holder.acquire.send(&holder.commands).await;
    for number in 0_u64.. {
        if Instant::now() >= end {
            break;
        }
        let waiting = waiter.clone();
        let mut messages = waiting.subscriber.message_rx();
        let wait = tokio::spawn(async move {
            // Both sides hear every message; one may be late from the pass before.
            while messages.recv().await.expect("a message").value.as_u64() != Some(number) {}
            waiting.acquire.send(&waiting.commands).await;
            Instant::now()
        });
        tokio::time::sleep(PARK).await;
        let began = Instant::now();
        // Both are on their way before the first is answered.
        let told = holder.commands.publish::<i64, _, _>(&channel, number.to_string());
        let (deleted, told) = tokio::join!(delete(&holder.commands), told);
        assert!(deleted.is_ok() && told.is_ok());
        samples.push((wait.await.expect("the waiter returns") - began).as_secs_f64() * 1e6);
        std::mem::swap(&mut holder, &mut waiter);
    }
    delete(&holder.commands).await.expect("deleted");
    samples
}

async fn delete(client: &Client) -> FredResult<i64> {
    client.custom(CustomCommand::new_static("DEL", None, false), vec!["raw"]).await
}

/// The rows of this group.
pub async fn run(seconds: Duration) -> Vec<Row> {
    let server = Server::start();
    let samples: [Samples; 4] = Default::default();
    let mut cells = vec![
        lockson(Locks::builder(), &server, samples[0].clone()).await,
        raw(&server, samples[1].clone()).await,
        lockson(lean(), &server, samples[2].clone()).await,
    ];
    cells.extend(rueidis::cell(&server, samples[3].clone()));
    let figures = interleave(seconds * 2, &cells).await;
    let samples = samples.map(|samples| samples.lock().expect("no panic").clone());
    let at = |cell: usize, share: f64| quantile(&samples[cell], share);
    let p50 = |what: &str, ours: usize, name: &str, theirs: usize| {
        Row::new(what, format!("{:.0} us", at(ours, 0.5)))
            .beside(format!("{name}: {:.0} us", at(theirs, 0.5)))
            .ratio(Ratio::of(&figures[ours], &figures[theirs]))
    };
    let p99 = |name: &str, theirs: usize| {
        Row::new(format!("the same, p99 of {}", samples[0].len()), format!("{:.0} us", at(0, 0.99)))
            .beside(format!("{name}: {:.0} us", at(theirs, 0.99)))
            .ratio(Ratio::single(at(0, 0.99) / at(theirs, 0.99)))
    };
    let first = "hand-over between two clients, p50";
    let mut rows = vec![
        p50(first, 0, "DEL + PUBLISH, message, EVALSHA, raw", 1).goal(Goal::AtMost(1.3)),
        p50("the same by lean connections", 2, "raw", 1),
        p99("raw", 1),
    ];
    if cells.len() > 3 {
        rows.push(p50(first, 0, "rueidislock", 3).goal(Goal::AtMost(0.8)));
        rows.push(p50("the same by lean connections", 2, "rueidislock", 3));
        rows.push(p99("rueidislock", 3));
    }
    rows
}
