//! Starts processes that do not outlive the test process.

use std::fs::File;
use std::io::ErrorKind;
use std::process::{Child, Command, Stdio};
use std::sync::{mpsc, Mutex, OnceLock};
use std::thread;

/// A command line, the file of its complaints, and where its process goes.
type Order = (Vec<String>, File, mpsc::Sender<Child>);

/// Starts the program that these words begin with; its stderr goes to `errors`.
///
/// The kernel kills it with the thread that started it: one that lasts as long as the test process.
pub fn spawn(words: Vec<String>, errors: File) -> Child {
    static ORDERS: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<Order>();
        let obey = || {
            for (words, errors, answer) in receiver {
                drop(answer.send(launch(&words, &errors)));
            }
        };
        thread::Builder::new().name("spawner".into()).spawn(obey).unwrap();
        Mutex::new(sender)
    });
    let (answer, child) = mpsc::channel();
    orders.lock().unwrap().send((words, errors, answer)).unwrap();
    child.recv().expect("redis-server is there; install it, as with: sudo apt-get install redis-server")
}

fn launch(words: &[String], errors: &File) -> Child {
    let quiet = |before: &[&str]| {
        let words: Vec<&str> = before.iter().copied().chain(words.iter().map(String::as_str)).collect();
        let mut command = Command::new(words[0]);
        let stderr = errors.try_clone().unwrap();
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn()
    };
    match quiet(&["setpriv", "--pdeathsig", "KILL"]) {
        Err(error) if error.kind() == ErrorKind::NotFound => quiet(&[]).unwrap(),
        launched => launched.unwrap(),
    }
}
