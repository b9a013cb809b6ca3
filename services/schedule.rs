//! Work on a schedule: three processes whose clocks differ have the same crontab, and at each tick one of them does the
//! work.
//!
//! ```sh
//! cargo run -p services --bin schedule
//! ```

use std::error::Error;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use croner::Cron;
use lockson::{EmbeddedServer, Locks, OncePer};
use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Every two seconds, so that this ends soon. (Seconds are the first of six fields.)
const CRONTAB: &str = "*/2 * * * * *";
/// More than the clocks differ, and less than from tick to tick.
const AT_LEAST: Duration = Duration::from_millis(1500);
/// More than the work takes.
const AT_MOST: Duration = Duration::from_secs(10);
const TICKS: usize = 3;

/// One run: whose, and when by its clock.
struct Run {
    by: &'static str,
    tick: DateTime<Utc>,
}

/// A process. Its clock is late by so much.
struct Process {
    name: &'static str,
    late: Duration,
    report: OncePer,
    runs: UnboundedSender<Run>,
}

impl Process {
    fn new(name: &'static str, late_ms: u64, locks: &Locks, runs: &UnboundedSender<Run>) -> Self {
        let report = locks.once_per("report", AT_LEAST, AT_MOST);
        Self { name, late: Duration::from_millis(late_ms), report, runs: runs.clone() }
    }

    /// The loop that a service has.
    async fn keep_schedule(self) -> Result<()> {
        let schedule: Cron = CRONTAB.parse()?;
        let late = TimeDelta::from_std(self.late)?;
        loop {
            let now = Utc::now() - late;
            let tick = schedule.find_next_occurrence(&now, false)?;
            tokio::time::sleep((tick - now).to_std()?).await;
            // Who comes much later, off a machine that was asleep, might do it again.
            if Utc::now() - late - tick > TimeDelta::from_std(AT_LEAST / 2)? {
                continue;
            }
            match self.report.run(self.send_report(tick)).await {
                Ok(Some(())) => {}
                Ok(None) => println!("{}: {} is another's", self.name, tick.time()),
                // The next tick may do better.
                Err(error) => println!("{}: {error}", self.name),
            }
        }
    }

    async fn send_report(&self, tick: DateTime<Utc>) {
        println!("{}: {} is mine", self.name, tick.time());
        // It fails only where nobody counts any more.
        let _ = self.runs.send(Run { by: self.name, tick });
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let server = EmbeddedServer::new();
    let (runs, mut seen) = unbounded_channel();
    let mut clients = Vec::new();
    for (name, late) in [("anna", 0), ("ben", 150), ("cleo", 300)] {
        let locks = server.connect();
        tokio::spawn(Process::new(name, late, &locks, &runs).keep_schedule());
        clients.push(locks);
    }
    let mut ticks = Vec::new();
    while ticks.len() < TICKS {
        let Run { by, tick } = seen.recv().await.ok_or("nobody keeps the schedule")?;
        assert!(!ticks.contains(&tick), "{by} does {tick} again");
        ticks.push(tick);
    }
    for locks in clients {
        // A run that is under way is stopped; the others find its tick taken.
        locks.shutdown(Duration::from_secs(5)).await?;
    }
    println!("{TICKS} ticks, each done once");
    Ok(())
}
