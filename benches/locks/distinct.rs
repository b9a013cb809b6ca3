//! Many locks at once, each of one task alone: the commonest case of a service.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, FutureExt};

use crate::floor::{self, Ready};
use crate::hot::rslock_manager;
use crate::plot::Chart;
use crate::table::{interleave_rounds, median, Cell, Figure, Goal, Ratio, Row, Window};
use crate::uncontended::lean;
use lockson::{Builder, Locks};
use support::{unique, Server};

const ROUNDS: u32 = 5;
const TASKS: [usize; 4] = [1, 64, 512, 4096];
/// The time before the measured window.
const WARM: Duration = Duration::from_millis(100);

/// Lets tasks loop, each by its own `pair`, and gives what a window of it came to.
pub async fn pace<P, F>(pairs: Vec<P>, length: Duration, figure: Figure) -> f64
where
    P: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send,
{
    let (count, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let looping = pairs.into_iter().map(|pair| {
        let (count, stop) = (count.clone(), stop.clone());
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                pair().await;
                count.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let looping: Vec<_> = looping.collect();
    tokio::time::sleep(WARM).await;
    let (window, before) = (Window::open(), count.load(Ordering::Relaxed));
    tokio::time::sleep(length).await;
    let figure = window.figure(figure, count.load(Ordering::Relaxed) - before);
    stop.store(true, Ordering::Relaxed);
    for ended in join_all(looping).await {
        ended.expect("no task fails");
    }
    figure
}

fn names(tasks: usize) -> Vec<String> {
    (0..tasks).map(|_| unique("distinct")).collect()
}

pub async fn lockson(builder: Builder, server: &Server, tasks: usize, figure: Figure) -> Cell {
    let locks = builder.connect(&server.url()).await.expect("a client");
    Box::new(move |length| {
        let locks = locks.clone();
        async move {
            let pair = |name: String| {
                let lock = locks.lock(&name);
                move || {
                    let lock = lock.clone();
                    async move {
                        lock.lock().await.expect("held");
                        lock.unlock().await.expect("given back");
                    }
                }
            };
            pace(names(tasks).into_iter().map(pair).collect(), length, figure).await
        }
        .boxed()
    })
}

/// The two scripts of each task.
fn scripts(server: &Server, tasks: usize) -> Vec<Arc<(Ready, Ready)>> {
    let owner = floor::owner(1);
    let first = (Ready::acquire(server, "raw", &owner), Ready::release(server, "raw", &owner));
    let of = |name: &String| Arc::new((first.0.of(name, &owner), first.1.of(name, &owner)));
    names(tasks).iter().map(of).collect()
}

pub async fn fred(server: &Server, tasks: usize, figure: Figure) -> Cell {
    let (client, scripts) = (floor::client(server).await, scripts(server, tasks));
    Box::new(move |length| {
        let (client, scripts) = (client.clone(), scripts.clone());
        async move {
            let pair = |scripts: Arc<(Ready, Ready)>| {
                let client = client.clone();
                move || {
                    let (client, scripts) = (client.clone(), scripts.clone());
                    async move {
                        scripts.0.send(&client).await;
                        scripts.1.send(&client).await;
                    }
                }
            };
            pace(scripts.into_iter().map(pair).collect(), length, figure).await
        }
        .boxed()
    })
}

async fn send(connection: &mut redis::aio::MultiplexedConnection, command: &redis::Cmd) {
    let answer = command.query_async::<String>(connection).await.expect("an answer");
    assert!(answer.starts_with("1 "), "{answer}");
}

async fn redis_rs(server: &Server, tasks: usize) -> Cell {
    let client = redis::Client::open(server.url()).expect("a url");
    let connection = client.get_multiplexed_async_connection().await.expect("a connection");
    let commands = scripts(server, tasks).into_iter();
    let commands: Vec<_> = commands.map(|pair| Arc::new((pair.0.command(), pair.1.command()))).collect();
    Box::new(move |length| {
        let (connection, commands) = (connection.clone(), commands.clone());
        async move {
            let pair = |commands: Arc<(redis::Cmd, redis::Cmd)>| {
                let connection = connection.clone();
                move || {
                    let (mut connection, commands) = (connection.clone(), commands.clone());
                    async move {
                        send(&mut connection, &commands.0).await;
                        send(&mut connection, &commands.1).await;
                    }
                }
            };
            pace(commands.into_iter().map(pair).collect(), length, Figure::Rate).await
        }
        .boxed()
    })
}

fn rslock(server: &Server, tasks: usize) -> Cell {
    let manager = rslock_manager(&server.url());
    Box::new(move |length| {
        let manager = manager.clone();
        async move {
            let pair = |name: String| {
                let manager = manager.clone();
                move || {
                    let (manager, name) = (manager.clone(), name.clone());
                    async move {
                        let lock = manager.lock(name.as_str(), Duration::from_secs(30)).await.expect("held");
                        manager.unlock(&lock).await;
                    }
                }
            };
            pace(names(tasks).into_iter().map(pair).collect(), length, Figure::Rate).await
        }
        .boxed()
    })
}

/// What lockson's rate should be over the two scripts by redis-rs, and over rslock, with so many tasks.
fn goals(tasks: usize) -> Option<[f64; 2]> {
    match tasks {
        64 => Some([1.0, 1.0]),
        512 => Some([1.5, 1.4]),
        _ => None,
    }
}

/// The rows of this group.
pub async fn run(seconds: Duration) -> Vec<Row> {
    let server = Server::start();
    let (mut rows, mut chart) = (
        Vec::new(),
        Chart::new(&["lockson", "redis-rs: the two EVALSHA", "rslock", "fred: the two EVALSHA", "lockson, lean"]),
    );
    for tasks in TASKS {
        let cells = [
            lockson(Locks::builder(), &server, tasks, Figure::Rate).await,
            redis_rs(&server, tasks).await,
            rslock(&server, tasks),
            fred(&server, tasks, Figure::Rate).await,
            lockson(lean(), &server, tasks, Figure::Rate).await,
        ];
        let figures = interleave_rounds(ROUNDS, seconds, &cells).await;
        chart.add(tasks, &figures);
        let said = |cell: usize| format!("{:.0}/s", median(&figures[cell]));
        for (ours, how) in [(0, ""), (4, ", lean")] {
            let row = |what: &str, cell: usize| {
                let task = if tasks == 1 { "task" } else { "tasks" };
                Row::new(format!("{tasks} {task} on distinct locks{how}"), said(ours))
                    .beside(format!("{what}: {}", said(cell)))
                    .ratio(Ratio::of(&figures[ours], &figures[cell]))
            };
            let (by_redis, by_rslock) = (row("the two EVALSHA by redis-rs", 1), row("rslock", 2));
            let (by_redis, by_rslock) = match goals(tasks) {
                Some([raw, peer]) => (by_redis.goal(Goal::AtLeast(raw)), by_rslock.goal(Goal::AtLeast(peer))),
                None => (by_redis, by_rslock),
            };
            rows.extend([by_redis, by_rslock, row("the two EVALSHA by fred", 3)]);
        }
    }
    chart.write("distinct", "Lock + unlock a second: each task has a lock of its own");
    rows
}
