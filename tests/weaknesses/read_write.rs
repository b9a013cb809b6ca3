//! 6.E and what 6.A and 6.B have of the read/write lock.

use crate::weaknesses::*;

/// A nested read release, and `readLock().forceUnlock()`, ended the write hold's renewal: it expired in two leases.
#[tokio::test(flavor = "multi_thread")]
async fn id_6_b_3_a_read_release_keeps_the_write_hold_renewed() {
    let locks = connect(short()).await;
    for is_forced in [false, true] {
        let lock = locks.read_write_lock(&unique("6b3"));
        let (read, write) = (lock.read(), lock.write());
        let guard = write.guard().await.unwrap();
        if is_forced {
            assert!(!read.force_unlock().await.unwrap());
        } else {
            read.lock().await.unwrap();
            read.unlock().await.unwrap();
        }
        sleep(ms(3600)).await;
        assert_eq!(guard.state(), HoldState::Held);
        guard.unlock().await.unwrap();
    }
}
