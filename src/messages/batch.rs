//! Channels that a server is asked for at once; where it refuses some of them, which refuses all, each half again.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::future::FutureExt;

use crate::backend::Backend;

/// Asks for these, and tells of each part what became of it, and whether it is one name that is refused. Where `whole`,
/// there is one part. Whether all is well, by what `told` says of each.
pub(super) fn ask(
    backend: Arc<dyn Backend>,
    mut names: Vec<Arc<str>>,
    whole: bool,
    mut told: impl FnMut(&[Arc<str>], Result<(), String>, bool) -> bool + Send,
) -> impl Future<Output = bool> + Send {
    let mut subscribed = backend.subscribe(texts(&names));
    async move {
        let (mut rest, mut is_well) = (Vec::new(), true);
        loop {
            let result = AssertUnwindSafe(subscribed).catch_unwind().await;
            let result = result.unwrap_or_else(|_| Err("it panicked".to_owned()));
            let is_refused = !whole && result.as_ref().is_err_and(|why| why.contains("NOPERM"));
            if is_refused && names.len() > 1 {
                let half = names.split_off(names.len() / 2);
                rest.extend([half, names]);
            } else {
                is_well &= told(&names, result, is_refused);
            }
            let Some(next) = rest.pop() else { return is_well };
            subscribed = backend.subscribe(texts(&next));
            names = next;
        }
    }
}

pub(super) fn texts(names: &[Arc<str>]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}
