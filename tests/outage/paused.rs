//! The same limits by a clock that is paused, on an embedded server: no machine is too busy to keep them there.

use lockson::Faults;
use support::prelude::*;
use tokio::time::Instant;

use super::{every_verb, quick, tasks, timed, NO_LIMIT};

/// Timers count whole milliseconds, and a call has more than one.
const SLACK: Duration = ms(5);

#[derive(Debug, Clone, Copy)]
enum Ill {
    Stopped,
    LostCalls,
    LostReplies,
}

const OUTAGES: [Ill; 3] = [Ill::Stopped, Ill::LostCalls, Ill::LostReplies];

impl Ill {
    fn befall(self, server: &EmbeddedServer) {
        match self {
            Self::Stopped => server.stop(),
            Self::LostCalls => server.inject(Faults::seeded(7).lose_calls(1000)),
            Self::LostReplies => server.inject(Faults::seeded(7).lose_replies(1000)),
        }
    }
}

#[track_caller]
fn assert_exact(took: Duration, limit: Duration, outage: Ill) {
    assert!(took >= limit && took <= limit + SLACK, "{outage:?}: {took:?} instead of {limit:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_limit_is_kept_to_the_millisecond() {
    for outage in OUTAGES {
        let server = EmbeddedServer::new();
        let locks = server.connect_with(quick().outage_limit(NO_LIMIT)).unwrap();
        let other = server.connect();
        other.lock("busy").lock().await.unwrap();
        let during = spawn_with(locks.lock("busy"), |busy| async move { timed(busy.acquire().wait(ms(900))).await });
        sleep(ms(100)).await;
        outage.befall(&server);
        // Less than a command timeout, one, and many.
        for limit in [ms(50), ms(300), ms(2000)] {
            let (took, tried) = timed(locks.lock(&unique("limit")).acquire().wait(limit)).await;
            assert_matches!(tried, Err(LockError::Query(QueryError::Unreachable { .. })), outage);
            assert_exact(took, limit, outage);
        }
        let (took, during) = during.await.unwrap();
        assert_matches!(during, Err(LockError::Query(QueryError::Unreachable { .. })), outage);
        assert_exact(took, ms(900), outage);
    }
}

/// And for one call more, which is on its way when the limit comes, and has a command timeout.
#[tokio::test(start_paused = true)]
async fn the_outage_limit_is_kept_by_every_verb() {
    for outage in OUTAGES {
        let server = EmbeddedServer::new();
        let locks = server.connect_with(quick()).unwrap();
        let [asked, looked] = every_verb(&locks, outage, || outage.befall(&server)).await;
        for took in asked {
            assert!(took >= ms(1000) && took <= ms(1300) + SLACK, "{outage:?}: {took:?}");
        }
        // Three command timeouts.
        for took in looked {
            assert_exact(took, ms(900), outage);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_at_its_limit() {
    for (outage, limit) in OUTAGES.into_iter().flat_map(|outage| [(outage, ms(400)), (outage, ms(3000))]) {
        let server = EmbeddedServer::new();
        let locks = server.connect_with(quick()).unwrap();
        let dropped = locks.lock("b").guard().await.unwrap();
        locks.lock("a").lock().await.unwrap();
        outage.befall(&server);
        drop(dropped);
        let (took, left) = timed(locks.shutdown(limit)).await;
        let mut names = left.unwrap_err().names;
        names.sort();
        assert_eq!(names, ["a", "b"], "{outage:?}");
        assert!(took <= limit + SLACK, "{outage:?}: {took:?} instead of {limit:?}");
    }
}

/// A client whose last handle is gone: one to drain, and here are no connections to part from.
#[tokio::test(start_paused = true)]
async fn no_task_is_left_after_a_command_timeout() {
    for outage in OUTAGES {
        let before = tasks();
        let server = EmbeddedServer::new();
        let locks = server.connect_with(quick()).unwrap();
        locks.lock("held").lock().await.unwrap();
        outage.befall(&server);
        let (lock, question) = (locks.lock("wanted"), locks.lock("wanted"));
        let call = tokio::spawn(async move { tokio::join!(lock.lock(), question.is_locked()) });
        sleep(ms(50)).await;
        call.abort();
        drop(locks);
        assert!(tasks() > before);
        let gone = Instant::now();
        while tasks() > before {
            assert!(gone.elapsed() <= ms(300) + SLACK, "{outage:?}: {} tasks", tasks() - before);
            sleep(ms(1)).await;
        }
    }
}
