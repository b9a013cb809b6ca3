//! What a child does, by its arguments.

use std::fs::OpenOptions;
use std::sync::Arc;
use std::time::Duration;

use crate::child::Parent;
use crate::hot::{contend, Contender, Counter};
use crate::{memory, names, waiting};

/// Does it, and ends.
pub async fn run(args: &[String]) {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut parent = Parent::mine();
    match *args {
        ["hot", which, url, name, tasks, millis, counter] => {
            let file = OpenOptions::new().read(true).write(true).open(counter).expect("the counter's file");
            let contender = Contender::connect(which, url, name).await;
            parent.say(&[]).await;
            let tasks = tasks.parse().expect("a number");
            let window = Duration::from_millis(millis.parse().expect("a number"));
            let run = contend(&contender, tasks, window, Arc::new(Counter::File(file))).await;
            let (low, high) = run.range();
            parent.say(&[run.rate as u64, low, high, run.turns.iter().sum(), run.all]).await;
        }
        ["memory", what, url, count] => {
            memory::child(what, url, count.parse().expect("a number"), &mut parent).await;
        }
        ["waiting", url, count] => {
            waiting::child(url, count.parse().expect("a number"), &mut parent).await;
        }
        ["names", what, url, count] => {
            names::child(what, url, count.parse().expect("a number"), &mut parent).await;
        }
        _ => panic!("not a child's work: {args:?}"),
    }
}
