//! Starts processes that do not outlive the test process.

use std::fs::File;
use std::io::ErrorKind;
use std::process::{Child, Command, Stdio};
use std::sync::{mpsc, Mutex, OnceLock};
use std::thread;

/// A command line, the file of its complaints, and where its process goes.
type Order = (Vec<String>, File, mpsc::Sender<Child>);

/// Starts redis-server with these arguments; its stderr goes to `errors`.
///
/// The kernel kills it with the thread that started it: one that lasts as long as the test process.
pub fn spawn(args: Vec<String>, errors: File) -> Child {
    static ORDERS: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<Order>();
        let obey = || receiver.into_iter().for_each(|(args, errors, answer)| drop(answer.send(launch(&args, &errors))));
        thread::Builder::new().name("spawner".into()).spawn(obey).unwrap();
        Mutex::new(sender)
    });
    let (answer, child) = mpsc::channel();
    orders.lock().unwrap().send((args, errors, answer)).unwrap();
    child.recv().expect("redis-server is there; install it, as with: sudo apt-get install redis-server")
}

fn launch(args: &[String], errors: &File) -> Child {
    let quiet = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        let stderr = errors.try_clone().unwrap();
        command.args(&words[1..]).args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn()
    };
    match quiet(&["setpriv", "--pdeathsig", "KILL", "redis-server"]) {
        Err(error) if error.kind() == ErrorKind::NotFound => quiet(&["redis-server"]).unwrap(),
        launched => launched.unwrap(),
    }
}
