//! A client's tasks, which can be made to stand still as a stopped process does: timers, calls and messages go on, and
//! nothing of it is polled.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use fastrand::Rng;

#[derive(Default)]
struct State {
    /// So many stops are in force: they may overlap.
    stops: usize,
    dead: bool,
    /// By which a task lets others go first, while that is wanted.
    chance: Option<Rng>,
    waiting: Vec<Waker>,
}

/// Where the tasks of one client pass at each poll.
#[derive(Default)]
pub struct Gate(Mutex<State>);

impl Gate {
    pub fn stop(&self) {
        self.0.lock().unwrap().stops += 1;
    }

    pub fn go_on(&self) {
        let woken = {
            let mut state = self.0.lock().unwrap();
            state.stops -= 1;
            if state.stops > 0 {
                return;
            }
            std::mem::take(&mut state.waiting)
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// The process is gone.
    pub fn kill(&self) {
        let mut state = self.0.lock().unwrap();
        (state.stops, state.dead) = (state.stops + 1, true);
    }

    /// From here on tasks take their turns by this chance, or as they come.
    pub fn shuffles(&self, chance: Option<Rng>) {
        self.0.lock().unwrap().chance = chance;
    }

    pub fn is_stopped(&self) -> bool {
        self.0.lock().unwrap().stops > 0
    }

    pub fn is_dead(&self) -> bool {
        self.0.lock().unwrap().dead
    }

    fn is_closed(&self, context: &Context<'_>) -> bool {
        let mut state = self.0.lock().unwrap();
        if state.stops > 0 {
            state.waiting.push(context.waker().clone());
            return true;
        }
        let lets_others_go_first = state.chance.as_mut().is_some_and(Rng::bool);
        if lets_others_go_first {
            context.waker().wake_by_ref();
        }
        lets_others_go_first
    }
}

/// Work behind a gate.
pub struct Gated<F> {
    gate: Arc<Gate>,
    work: Pin<Box<F>>,
}

impl<F> Gated<F> {
    pub fn new(gate: Arc<Gate>, work: F) -> Self {
        Self { gate, work: Box::pin(work) }
    }
}

impl<F: Future> Future for Gated<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if self.gate.is_closed(context) {
            return Poll::Pending;
        }
        self.work.as_mut().poll(context)
    }
}
