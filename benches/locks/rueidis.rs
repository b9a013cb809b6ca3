//! rueidislock, the lock of a Go client that hears of a release by client-side caching: two clients of it in a process
//! of their own, the program in benches/rueidislock.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use futures::future::FutureExt;
use tokio::sync::Mutex;

use crate::child::Child;
use crate::table::{keep, Cell, Samples};
use support::Server;

/// Builds the program; says why where that fails.
fn program() -> Result<PathBuf, String> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rueidislock");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/rueidislock");
    let built = Command::new("go").args(["build", "-C", folder, "-o"]).arg(&path).arg(".").status();
    match built {
        Ok(status) if status.success() => Ok(path),
        Ok(status) => Err(format!("go build: {status}")),
        Err(error) => Err(format!("go: {error}")),
    }
}

/// Its hand-overs; none where it can't be built.
pub fn cell(server: &Server, samples: Samples) -> Option<Cell> {
    let program = program().inspect_err(|why| eprintln!("  without rueidislock: {why}")).ok()?;
    let mut command = tokio::process::Command::new(program);
    command.arg(format!("127.0.0.1:{}", server.port()));
    let child = Arc::new(Mutex::new(Child::of(command)));
    Some(Box::new(move |slice| {
        let (child, samples) = (child.clone(), samples.clone());
        async move {
            let mut child = child.lock().await;
            child.tell(&slice.as_millis().to_string()).await;
            let micros: Vec<f64> = child.numbers().await.into_iter().map(|nanos| nanos as f64 / 1e3).collect();
            keep(&samples, &micros)
        }
        .boxed()
    }))
}
