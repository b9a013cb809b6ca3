//! The layer that makes each request an owner of locks.

use std::future::Future;
use std::mem::replace;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Extensions, Request};
use lockson::Owner;
use tower_layer::Layer;
use tower_service::Service;

/// Makes each request an [`Owner`] of its own, in whose scope the inner service runs. A server may run many requests of
/// one connection in one task, and without this they are one owner, which enters its own locks again.
///
/// The owner is in the request's extensions too. A request that has one there runs as that: an outer layer may put one
/// of its own choice in, [`Owner::named`] by the id of the request say.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnerLayer;

impl<S> Layer<S> for OwnerLayer {
    type Service = Owned<S>;

    fn layer(&self, inner: S) -> Owned<S> {
        Owned { inner }
    }
}

/// The service of [`OwnerLayer`].
#[derive(Debug, Clone)]
pub struct Owned<S> {
    inner: S,
}

pub(crate) type Answer<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// The owner of a request: the one that it has, or from now on a fresh one.
pub(crate) fn owner_of(extensions: &mut Extensions) -> Owner {
    extensions.get_or_insert_with(Owner::unique).clone()
}

/// The service that was asked whether it is ready; another one takes its place.
pub(crate) fn ready_one<S: Clone>(service: &mut S) -> S {
    let next = service.clone();
    replace(service, next)
}

impl<S, B> Service<Request<B>> for Owned<S>
where
    S: Service<Request<B>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Answer<S::Response, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let (owner, mut inner) = (owner_of(request.extensions_mut()), ready_one(&mut self.inner));
        Box::pin(owner.scope(async move { inner.call(request).await }))
    }
}
