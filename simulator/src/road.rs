//! The network between the clients and a server: it does to calls and messages what the plan says.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use lockson_embedded::{Network, Trip};

use crate::plan::{Fate, CLIENTS};

/// Faults by chance, of a thousand calls each.
#[derive(Clone)]
pub struct Weather {
    pub chance: Rng,
    pub lost: u32,
    pub unanswered: u32,
    pub again: u32,
    pub silent: u32,
    pub delay: u64,
}

/// What is to befall the next calls and messages.
#[derive(Default)]
pub struct Road {
    pub calls: [VecDeque<Fate>; CLIENTS],
    pub messages: [VecDeque<Option<u64>>; CLIENTS],
    pub weather: Option<Weather>,
    /// How long each client's calls are on their way there and back.
    pub slow: [[Duration; 2]; CLIENTS],
}

impl Weather {
    fn happens(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.chance.u32(..1000) < per_mille
    }

    fn late(&mut self) -> Duration {
        if self.delay == 0 {
            return Duration::ZERO;
        }
        Duration::from_micros(self.chance.u64(..=self.delay * 1000))
    }
}

impl Road {
    fn trip(&mut self, client: usize) -> Trip {
        match self.calls[client].pop_front() {
            Some(Fate::Lost) => return Trip { arrives: false, ..Trip::GOOD },
            Some(Fate::Unanswered) => return Trip { is_answered: false, ..Trip::GOOD },
            Some(Fate::Late(there, back)) => {
                return Trip { delays: [there, back].map(Duration::from_millis), ..Trip::GOOD };
            }
            Some(Fate::Again(later)) => {
                return Trip { is_answered: false, again: Some(Duration::from_millis(later)), ..Trip::GOOD };
            }
            Some(Fate::Cut(later)) => {
                return Trip { is_cut: true, delays: [Duration::from_millis(later), Duration::ZERO], ..Trip::GOOD };
            }
            None => {}
        }
        let Some(weather) = &mut self.weather else { return Trip { delays: self.slow[client], ..Trip::GOOD } };
        let (arrives, is_answered) = (!weather.happens(weather.lost), !weather.happens(weather.unanswered));
        let again = weather.happens(weather.again).then(|| weather.late());
        let is_answered = is_answered && again.is_none();
        Trip { arrives, is_answered, again, delays: [weather.late(), weather.late()], ..Trip::GOOD }
    }
}

/// The road to one server.
pub struct To(pub Arc<Mutex<Road>>);

fn client_of(connection: u64) -> usize {
    usize::try_from(connection).map_or(0, |connection| connection.saturating_sub(1) % CLIENTS)
}

impl Network for To {
    fn call(&mut self, connection: u64) -> Trip {
        self.0.lock().unwrap().trip(client_of(connection))
    }

    fn message(&mut self, connection: u64) -> Option<Duration> {
        let mut road = self.0.lock().unwrap();
        match (road.messages[client_of(connection)].pop_front(), &mut road.weather) {
            (Some(late), _) => late.map(Duration::from_millis),
            (None, Some(weather)) => {
                let silent = weather.silent;
                (!weather.happens(silent)).then_some(Duration::ZERO)
            }
            (None, None) => Some(Duration::ZERO),
        }
    }

    fn subscription(&mut self, connection: u64) -> [Duration; 2] {
        self.0.lock().unwrap().slow[client_of(connection)]
    }
}
