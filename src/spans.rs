//! What a subscriber of `tracing` sees around the work: a span for each acquisition, each release, and the work that a
//! hold covers, with what OpenTelemetry's conventions call such calls. Where nobody listens they cost next to nothing.

use std::fmt::Display;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::{BoxFuture, FutureExt};
use tracing::field::{debug, display, Empty};
use tracing::{Instrument, Span};

use crate::base::clock::Clock;
use crate::error::{Lost, Passing};
use crate::metrics::{Acquiring, Class};

/// How most acquisitions end.
const HELD: &str = "held";

/// Runs an acquisition in a span that says of it what it is told, and the attempts that it counts. (No `async fn`: that
/// would have room for the acquisition twice.)
#[inline]
pub(crate) fn acquiring<'a, T: 'a, E: Passing + Display + 'a>(
    kind: &'static str,
    [name, owner]: [&'a str; 2],
    class: &'a Class,
    clock: Clock,
    attempts: &'a AtomicU32,
    acquisition: impl Future<Output = Result<Option<T>, E>> + Send + 'a,
) -> impl Future<Output = Result<Option<T>, E>> + Send + 'a {
    let span = tracing::debug_span!(
        target: "lockson", "acquire", otel.kind = "client", db.system.name = "redis", db.operation.name = "acquire",
        kind, name, owner, attempts = Empty, waited = Empty, outcome = Empty, error.type = Empty
    );
    let acquiring = Acquiring::begin(kind, class, HELD);
    let acquisition = acquisition.inspect(move |outcome| acquiring.end(kind, class, word(outcome)));
    if span.is_disabled() {
        return acquisition.left_future();
    }
    let began = clock.now();
    // Boxed: who waits without a span would have room for it.
    let told = acquisition.instrument(span.clone()).inspect(move |outcome| {
        span.record("attempts", attempts.load(Ordering::Relaxed));
        span.record("waited", debug(clock.now().since(began)));
        match outcome {
            Ok(_) => drop(span.record("outcome", word(outcome))),
            Err(error) => fails(&span, word(outcome), error),
        }
    });
    told.boxed().right_future()
}

/// As a label of metrics.
fn word<T, E: Passing>(outcome: &Result<Option<T>, E>) -> &'static str {
    match outcome {
        Ok(Some(_)) => HELD,
        Ok(None) => "busy",
        Err(error) if error.is_away() => "unreachable",
        Err(_) => "refused",
    }
}

fn fails(span: &Span, what: &'static str, error: &dyn Display) {
    span.record("error.type", what);
    span.record("outcome", display(error));
}

/// Runs a release in a span of the caller's, whoever carries it out.
pub(crate) fn releasing<'a, T: 'a, E: Display + 'a>(
    [name, owner]: [&str; 2],
    release: BoxFuture<'a, Result<T, E>>,
) -> BoxFuture<'a, Result<T, E>> {
    let span = tracing::debug_span!(
        target: "lockson", "release", otel.kind = "client", db.system.name = "redis", db.operation.name = "release",
        name, owner, outcome = Empty, error.type = Empty
    );
    if span.is_disabled() {
        return release;
    }
    ending(span, "released", "not_released", release).boxed()
}

/// Runs the work that a hold covers in a span.
pub(crate) fn holding<T>(
    [name, owner]: [&str; 2],
    work: impl Future<Output = Result<T, Lost>>,
) -> impl Future<Output = Result<T, Lost>> {
    let span = tracing::debug_span!(target: "lockson", "hold", name, owner, outcome = Empty, error.type = Empty);
    if span.is_disabled() {
        return work.left_future();
    }
    ending(span, "done", "lost", work).right_future()
}

/// Runs what ends well or with an error in its span, which says which.
fn ending<T, E: Display>(
    span: Span,
    well: &'static str,
    ill: &'static str,
    work: impl Future<Output = Result<T, E>>,
) -> impl Future<Output = Result<T, E>> {
    work.instrument(span.clone()).inspect(move |outcome| match outcome {
        Ok(_) => drop(span.record("outcome", well)),
        Err(error) => fails(&span, ill, error),
    })
}
