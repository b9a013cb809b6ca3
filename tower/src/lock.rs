//! The layer that takes a lock before the inner service is called.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use lockson::{Guard, LockError, Lost, QueryError, RLock};
use tokio::time::{timeout, timeout_at, Instant};
use tower_layer::Layer;
use tower_service::Service;

use crate::owner::{owner_of, ready_one, Answer};

/// How long an answer waits for the lock to be given back.
const RELEASE_LIMIT: Duration = Duration::from_secs(1);

/// In a request's extensions: nobody waits for the answer after this instant, so the lock is not waited for either. The
/// layer's wait limit counts too. What the inner service does is not cut short by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(pub Instant);

/// Takes a lock for each request, before the inner service is called, and gives it back when the response is there or
/// its future is dropped (the client went away). What the response's body does later is not under the lock.
///
/// The lock's owner is the request's, as [`OwnerLayer`](crate::OwnerLayer) has it; without that layer this one makes
/// the request an owner. So the inner service may enter the lock again, and other requests may not.
///
/// | the answer without the inner service's | when |
/// |---|---|
/// | 409 Conflict | another owner had the lock until the wait limit, or this one has it and can't enter it again |
/// | 503 Service Unavailable | the lock's server is away or refuses; the [`Deadline`] came first; the hold was lost |
/// | 400 Bad Request | the lock has a name that no lock may have |
///
/// The inner service was not called, but for a lost hold: then its future was dropped half-way.
/// Such an answer has an empty body, and a [`Rejection`] in its extensions, which says why.
pub struct LockLayer<F> {
    lock: Arc<F>,
    wait: Duration,
}

impl<F> LockLayer<F> {
    /// `lock` says which lock a request takes, of any kind and client; `None`: none.
    pub fn new<B, L>(lock: F) -> Self
    where
        F: Fn(&Request<B>) -> Option<L>,
        L: Into<Arc<dyn RLock>>,
    {
        Self { lock: Arc::new(lock), wait: Duration::ZERO }
    }

    /// How long a request waits for its lock. Default: it does not.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.wait = limit;
        self
    }
}

impl<F> Clone for LockLayer<F> {
    fn clone(&self) -> Self {
        Self { lock: self.lock.clone(), wait: self.wait }
    }
}

impl<F> fmt::Debug for LockLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockLayer").field("wait", &self.wait).finish_non_exhaustive()
    }
}

impl<S, F> Layer<S> for LockLayer<F> {
    type Service = Locked<S, F>;

    fn layer(&self, inner: S) -> Locked<S, F> {
        Locked { inner, layer: self.clone() }
    }
}

/// The service of [`LockLayer`].
#[derive(Debug)]
pub struct Locked<S, F> {
    inner: S,
    layer: LockLayer<F>,
}

impl<S: Clone, F> Clone for Locked<S, F> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

/// Why a request has no answer of the inner service: in the response's extensions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// Another request has the lock.
    #[error("another request has the lock")]
    Busy,
    /// The request's [`Deadline`] came before its lock.
    #[error("the deadline of the request came before its lock")]
    Deadline,
    /// The lock was not taken.
    #[error("{0}")]
    Lock(#[from] LockError),
    /// The hold was lost, and the inner service stopped: what it did is done, in part.
    #[error("{0}")]
    Lost(#[from] Lost),
}

impl Rejection {
    /// What the client is told.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Busy | Self::Lock(LockError::AlreadyHeld { .. } | LockError::Upgrade { .. }) => StatusCode::CONFLICT,
            Self::Lock(LockError::Query(QueryError::Name(_))) => StatusCode::BAD_REQUEST,
            Self::Lock(_) | Self::Lost(_) | Self::Deadline => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn response<B: Default>(self) -> Response<B> {
        let mut response = Response::new(B::default());
        *response.status_mut() = self.status();
        response.extensions_mut().insert(self);
        response
    }
}

async fn take(lock: &dyn RLock, mut wait: Duration, deadline: Option<Deadline>) -> Result<Guard, Rejection> {
    let Some(Deadline(deadline)) = deadline else {
        return lock.guard_with(lockson::Request::default().wait(wait)).await?.ok_or(Rejection::Busy);
    };
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Rejection::Deadline);
    }
    wait = wait.min(left);
    let taken = timeout_at(deadline, lock.guard_with(lockson::Request::default().wait(wait))).await;
    // Where both end at once, either may be seen first.
    let busy = || if Instant::now() < deadline { Rejection::Busy } else { Rejection::Deadline };
    taken.map_err(|_| Rejection::Deadline)??.ok_or_else(busy)
}

/// Runs the inner service under the lock.
async fn under<T>(guard: Guard, answer: impl Future<Output = T>) -> Result<T, Rejection> {
    let answer = guard.run(answer).await?;
    // It is done, whatever becomes of the lock: what is on its way goes on, and the lease ends by itself.
    let _ = timeout(RELEASE_LIMIT, guard.unlock()).await;
    Ok(answer)
}

impl<S, F, L, B, R> Service<Request<B>> for Locked<S, F>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    F: Fn(&Request<B>) -> Option<L>,
    L: Into<Arc<dyn RLock>>,
    B: Send + 'static,
    R: Default + Send,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Answer<Response<R>, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let lock = (self.layer.lock)(&request).map(Into::into);
        let deadline = request.extensions().get().copied();
        let (owner, mut inner) = (owner_of(request.extensions_mut()), ready_one(&mut self.inner));
        let wait = self.layer.wait;
        Box::pin(owner.scope(async move {
            let Some(lock) = lock else { return inner.call(request).await };
            let done = match take(&*lock, wait, deadline).await {
                Ok(guard) => under(guard, async { inner.call(request).await }).await,
                Err(rejection) => Err(rejection),
            };
            done.unwrap_or_else(|rejection| Ok(rejection.response()))
        }))
    }
}
