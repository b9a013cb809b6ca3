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
/// The kernel kills it when the thread that started it ends, so that is a
/// thread of its own which lasts as long as the test process.
pub fn spawn(args: Vec<String>, errors: File) -> Child {
    static ORDERS: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<Order>();
        thread::Builder::new()
            .name("spawner".into())
            .spawn(move || {
                for (args, errors, answer) in receiver {
                    if let Some(child) = launch(&args, &errors) {
                        let _ = answer.send(child);
                    }
                }
            })
            .unwrap();
        Mutex::new(sender)
    });
    let (answer, child) = mpsc::channel();
    orders.lock().unwrap().send((args, errors, answer)).unwrap();
    child
        .recv()
        .unwrap_or_else(|_| panic!("redis-server is missing; install it, as with: sudo apt-get install redis-server"))
}

/// The process, or `None` when there is no redis-server.
fn launch(args: &[String], errors: &File) -> Option<Child> {
    let found = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
    };
    if !found("redis-server") {
        return None;
    }
    let mut guarded = Command::new("setpriv");
    guarded.args(["--pdeathsig", "KILL", "redis-server"]);
    match quiet(&mut guarded, errors).args(args).spawn() {
        Ok(child) => Some(child),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let mut plain = Command::new("redis-server");
            Some(quiet(&mut plain, errors).args(args).spawn().unwrap())
        }
        Err(error) => panic!("setpriv: {error}"),
    }
}

/// No input, and nothing said into the output of the tests.
fn quiet<'a>(command: &'a mut Command, errors: &File) -> &'a mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors.try_clone().unwrap())
}
