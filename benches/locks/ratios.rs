//! The ratios that a busy machine moves least: CPU of this process for each acquisition, over that of what is beside
//! it. `scripts/ratios` compares them with benches/ratios.txt.

use std::time::Duration;

use rustix::time::ClockId;

use crate::table::{interleave_rounds, Cell, Figure, Ratio};
use crate::uncontended::lean;
use crate::{distinct, hot, permits, read_write, uncontended};
use lockson::Locks;
use support::Server;

/// Their names there, in the order in which they are measured.
pub const NAMES: [&str; 6] = ["pair", "pair_lean", "distinct", "hot", "read_write", "permits"];
const ROUNDS: u32 = 5;
const TASKS: usize = 64;
/// One turn of so many is a write.
const MIX: u64 = 20;

/// lockson, and what is beside it: raw scripts, but beside the hot lock, which asks for hardly any, tokio's.
async fn cells(name: &str, server: &Server) -> [Cell; 2] {
    let (clock, cpu) = (ClockId::ProcessCPUTime, Figure::Cpu);
    let hot = |which: &'static str| hot::cell(which, server, TASKS, |run| run.cpu);
    match name {
        "pair" => [uncontended::lockson(server, false, clock).await, uncontended::raw(server, clock).await],
        "pair_lean" => [uncontended::by(lean(), server, false, clock).await, uncontended::raw(server, clock).await],
        "distinct" => {
            [distinct::lockson(Locks::builder(), server, TASKS, cpu).await, distinct::fred(server, TASKS, cpu).await]
        }
        "hot" => [hot("lockson").await, hot("tokio").await],
        "read_write" => [read_write::lockson(server, MIX, cpu).await, read_write::raw(server, MIX, cpu).await],
        _ => permits::cells("counted", server, cpu).await,
    }
}

/// The median of the rounds.
pub async fn measure(name: &'static str, seconds: Duration) -> f64 {
    let server = Server::start();
    let figures = interleave_rounds(ROUNDS, seconds, &cells(name, &server).await).await;
    Ratio::of(&figures[0], &figures[1]).median
}
