//! Figures, ratios and the one table.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use rustix::time::{clock_gettime, ClockId};

/// One contender: each call is one slice of its cell and gives its figure.
pub type Cell = Box<dyn Fn(Duration) -> BoxFuture<'static, f64> + Send + Sync>;

/// What a clock says: the wall's (`Monotonic`), or the CPU time of this process (`ProcessCPUTime`). Other jobs move the
/// second less.
pub fn time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

/// What of many turns a cell is about.
#[derive(Clone, Copy)]
pub enum Figure {
    /// Turns a second.
    Rate,
    /// Microseconds of this process's CPU for each.
    Cpu,
}

/// A time in which turns are counted, from when it is opened.
pub struct Window {
    began: Instant,
    cpu: Duration,
}

impl Window {
    pub fn open() -> Self {
        Self { began: Instant::now(), cpu: time(ClockId::ProcessCPUTime) }
    }

    /// What so many turns came to.
    pub fn figure(&self, figure: Figure, turns: u64) -> f64 {
        match figure {
            Figure::Rate => turns as f64 / self.began.elapsed().as_secs_f64(),
            Figure::Cpu => (time(ClockId::ProcessCPUTime) - self.cpu).as_secs_f64() * 1e6 / turns as f64,
        }
    }
}

/// Slices that a cell is cut into.
const ROUNDS: u32 = 11;

/// Runs contenders in turn, A B C A B C .., after one round that does not count. Gives each one's figures, by round.
pub async fn interleave(seconds: Duration, cells: &[Cell]) -> Vec<Vec<f64>> {
    interleave_rounds(ROUNDS, seconds, cells).await
}

/// The same with a number of rounds.
pub async fn interleave_rounds(rounds: u32, seconds: Duration, cells: &[Cell]) -> Vec<Vec<f64>> {
    let slice = seconds / rounds;
    let mut figures = vec![Vec::new(); cells.len()];
    for round in 0..=rounds {
        for (cell, figures) in cells.iter().zip(&mut figures) {
            let figure = tokio::spawn(cell(slice)).await.expect("a slice runs");
            if round > 0 {
                figures.push(figure);
            }
        }
    }
    figures
}

/// The value that this share of the values is below or at.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// The middle one.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// What each turn of a contender took, in microseconds, over all rounds.
pub type Samples = Arc<Mutex<Vec<f64>>>;

/// Keeps the samples of one slice, and gives their median.
pub fn keep(samples: &Samples, slice: &[f64]) -> f64 {
    samples.lock().expect("no panic").extend(slice);
    median(slice)
}

/// A ratio: its median over the rounds and its range.
#[derive(Debug, Clone, Copy)]
pub struct Ratio {
    pub median: f64,
    range: Option<(f64, f64)>,
}

impl Ratio {
    /// Round by round.
    pub fn of(ours: &[f64], theirs: &[f64]) -> Self {
        let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
        Self { median: median(&ratios), range: Some((quantile(&ratios, 0.0), quantile(&ratios, 1.0))) }
    }

    /// Of two numbers.
    pub fn single(value: f64) -> Self {
        Self { median: value, range: None }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}", self.median)?;
        match self.range {
            Some((low, high)) => write!(f, " ({low:.2}-{high:.2})"),
            None => Ok(()),
        }
    }
}

/// What a ratio should be.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
    Exactly(f64),
}

impl Goal {
    fn is_met(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(limit) => ratio <= limit,
            Self::AtLeast(limit) => ratio >= limit,
            Self::Exactly(value) => (ratio - value).abs() < 0.000_5,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "<= {limit}"),
            Self::AtLeast(limit) => write!(f, ">= {limit}"),
            Self::Exactly(value) => write!(f, "= {value}"),
        }
    }
}

/// One line of the table.
#[derive(Debug, Default)]
pub struct Row {
    what: String,
    lockson: String,
    beside: String,
    ratio: Option<Ratio>,
    goal: Option<Goal>,
}

impl Row {
    /// A figure of lockson's, said with its unit.
    pub fn new(what: impl Into<String>, lockson: impl Into<String>) -> Self {
        Self { what: what.into(), lockson: lockson.into(), ..Self::default() }
    }

    /// What was measured beside it in the same rounds.
    pub fn beside(mut self, beside: impl Into<String>) -> Self {
        self.beside = beside.into();
        self
    }

    /// lockson over what is beside it.
    pub fn ratio(mut self, ratio: Ratio) -> Self {
        self.ratio = Some(ratio);
        self
    }

    /// What the ratio should be.
    pub fn goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self
    }

    fn met(&self) -> Option<bool> {
        Some(self.goal?.is_met(self.ratio?.median))
    }
}

/// Prints rows as they come.
pub struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Prints the head.
    pub fn new() -> Self {
        println!("| what | lockson | beside it | ratio: median (range) | goal | met |");
        println!("|---|---|---|---|---|---|");
        Self { rows: Vec::new() }
    }

    /// Prints more rows.
    pub fn add(&mut self, rows: Vec<Row>) {
        for row in rows {
            let ratio = row.ratio.map(|ratio| ratio.to_string()).unwrap_or_default();
            let goal = row.goal.map(|goal| goal.to_string()).unwrap_or_default();
            let met = row.met().map_or("", |met| if met { "yes" } else { "NO" });
            println!("| {} | {} | {} | {ratio} | {goal} | {met} |", row.what, row.lockson, row.beside);
            self.rows.push(row);
        }
    }

    /// Says how many goals were met.
    pub fn summary(&self) {
        let judged: Vec<bool> = self.rows.iter().filter_map(Row::met).collect();
        let met = judged.iter().filter(|met| **met).count();
        println!("\n{met} of {} goals met in this run", judged.len());
    }
}
