//! The rights of semaphores and latches.

use support::prelude::*;

use super::*;

/// Every script of both semaphores, or of a latch.
pub(super) async fn permits_work(server: &Server, kind: &str) -> Outcome {
    let (one, other) = (settings().connect(&server.url()).await?, settings().connect(&server.url()).await?);
    let soon = ms(100);
    if kind == "latch" {
        let latch = one.latch("acl");
        latch.try_set_count(2).await?;
        let waiting = spawn_with(other.latch("acl"), |there| async move { there.wait().await });
        latch.count_down().await?;
        latch.count_down().await?;
        assert_eq!(waiting.await??, WaitOutcome::Opened);
        latch.try_set_count(1).await?;
        latch.delete().await?;
    } else if kind == "semaphore" {
        let semaphore = one.semaphore("acl");
        semaphore.try_set_permits(2).await?;
        let guard = semaphore.guard(2).await?;
        let waiting = spawn_with(other.semaphore("acl"), |there| async move { there.guard(1).await?.release().await });
        sleep(soon).await;
        guard.release().await?;
        waiting.await??;
        semaphore.drain_permits().await?;
        semaphore.available_permits().await?;
    } else {
        let semaphore = one.permit_semaphore("acl");
        semaphore.try_set_permits(2).await?;
        semaphore.set_permits(2).await?;
        semaphore.acquire(2).ids(soon).await?;
        let guard = other.permit_semaphore("acl").guard(1).await?;
        let id = &guard.ids()[0];
        semaphore.set_lease(std::slice::from_ref(id), secs(1)).await?;
        semaphore.remaining_lease(id).await?;
        semaphore.available_permits().await?;
        sleep(ms(1200)).await;
        assert!(guard.is_valid(), "it was not renewed");
        guard.release().await?;
    }
    other.shutdown(secs(5)).await?;
    Ok(one.shutdown(secs(5)).await?)
}

#[tokio::test]
async fn semaphores_and_latches_need_their_own_rights() {
    let counted = "+decrby +get +incrby +set ~lockson:receipt:*";
    let kinds = [
        ("semaphore", vec![counted]),
        ("permit_semaphore", vec![counted, "+zadd +zcard"]),
        ("latch", vec!["+decrby +get +incrby +set ~lockson:*"]),
    ];
    for (kind, beginnings) in kinds {
        let own = beginnings.iter().copied().flat_map(rights);
        // INCRBY of a latch is for a call in doubt.
        let is_optional = |right: &&str| right.starts_with('&') || (kind, *right) == ("latch", "+incrby");
        let (optional, needed): (Vec<_>, Vec<_>) = own.partition(is_optional);
        each_is_needed(&needed, &optional, async |server: &Server| permits_work(server, kind).await).await;
    }
}
