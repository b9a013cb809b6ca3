//! Clusters and sentinels as the tests start them: that they fail over, and that slots move, as the tests believe.

mod cluster;
mod moving;
mod sentinels;

use support::Reply;

/// What a server says: its answer, or the first word of its error.
fn told(answer: Result<Reply, String>) -> String {
    match answer {
        Ok(reply) => reply.text(),
        Err(error) => error.split(' ').next().unwrap().to_owned(),
    }
}
