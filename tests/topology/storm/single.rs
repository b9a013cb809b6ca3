//! The bad days of one server that writes down what it does.

use std::thread::sleep;

use support::prelude::{ms, unique, Rng, Server};

use super::faults::Fault::{FlushScripts, FreezePrimary, KillPrimary, RestartAll};
use super::faults::{Deployment, Fault, Switch, OF_CLIENTS};

impl Deployment for Server {
    fn url(&self) -> String {
        Server::url(self)
    }

    fn servers(&self) -> Vec<&Server> {
        vec![self]
    }

    fn deck(&self) -> Vec<Fault> {
        [&[KillPrimary, FreezePrimary, RestartAll, FlushScripts][..], &OF_CLIENTS].concat()
    }

    fn primary(&self, _key: &str) -> usize {
        0
    }

    fn name(&self, _third: usize, beginning: &str) -> String {
        unique(beginning)
    }

    fn replicas(&self, _primary: usize) -> Vec<usize> {
        Vec::new()
    }

    /// Who listens listens here.
    fn strays(&self) -> Vec<String> {
        Vec::new()
    }

    fn strike(&mut self, fault: Fault, _key: &str, rng: &mut Rng) -> Switch {
        let a_while = ms(rng.u64(..1_500));
        match fault {
            KillPrimary => {
                self.kill();
                sleep(a_while);
                self.restart();
            }
            RestartAll => {
                self.shut_down();
                sleep(a_while);
                self.restart();
            }
            FreezePrimary => {
                self.freeze();
                sleep(a_while);
                self.thaw();
            }
            FlushScripts => drop(self.control(&["SCRIPT", "FLUSH"])),
            _ => unreachable!(),
        }
        None
    }
}
