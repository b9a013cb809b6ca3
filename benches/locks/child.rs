//! Other processes: this same program, told by its arguments what to do, or another one. Lines go both ways.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};

/// A child as its parent has it. It ends with this value.
pub struct Child {
    _process: tokio::process::Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// Starts one.
    pub fn start(args: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.arg("child").args(args);
        Self::of(command)
    }

    /// Starts another program.
    pub fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("a child");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        Self { _process: process, input, output }
    }

    /// Tells it to go on.
    pub async fn go(&mut self) {
        self.tell("go").await;
    }

    /// Says a line to it.
    pub async fn tell(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.expect("the child listens");
    }

    /// Its next line, as numbers.
    pub async fn numbers(&mut self) -> Vec<u64> {
        let line = self.output.next_line().await.expect("text").expect("the child says something");
        line.split_whitespace().map(|word| word.parse().expect("a number")).collect()
    }
}

/// The parent, as its child has it.
pub struct Parent {
    input: Lines<BufReader<tokio::io::Stdin>>,
}

impl Parent {
    /// The one of this process.
    pub fn mine() -> Self {
        Self { input: BufReader::new(tokio::io::stdin()).lines() }
    }

    /// Says numbers and waits for the parent to tell it to go on.
    pub async fn say(&mut self, numbers: &[u64]) {
        let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
        println!("{}", words.join(" "));
        // A parent that is gone says nothing.
        if !matches!(self.input.next_line().await, Ok(Some(_))) {
            std::process::exit(0);
        }
    }
}
