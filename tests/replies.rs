//! Lost answers and late requests: the count on the server is exactly right (issue 3, "It must show" 3; PROTOCOL rules
//! 4 to 6 and 10).

mod sites;
mod support;

use std::time::{Duration, Instant};

use lockson::{Builder, Guard, Locks, State, UnlockError};
use sites::{begin, drive, expect, load_scripts, script, time_until, turn, Own, Site};
use support::{eventually, seed, soak, Fault, Filter, Held, Rng, Server};

const COMMAND_TIMEOUT: Duration = Duration::from_millis(500);
/// Renewed each second; the longest row of cuts takes about half a second on an idle machine.
const LEASE: Duration = Duration::from_secs(3);

fn builder() -> Builder {
    Locks::builder().command_timeout(COMMAND_TIMEOUT)
}

/// Which half of a round trip the cut connection loses.
#[derive(Clone, Copy)]
enum Lost {
    Request,
    Answer,
}

impl Lost {
    /// The next `cuts` calls of a script about `name` are cut.
    fn cut(self, site: &Site, cuts: usize, verb: &str, name: &str) -> Fault {
        let filter = script(verb).with(name);
        match self {
            Lost::Request => site.proxy.cut_before(cuts, filter),
            Lost::Answer => site.proxy.cut_after(cuts, filter),
        }
    }
}

fn depth(rng: &mut Rng) -> u64 {
    1 + rng.below(3)
}

fn cuts(rng: &mut Rng) -> usize {
    1 + rng.below(5) as usize
}

/// The owner gives all back, and the key is gone.
async fn give_back(site: &Site, own: &Own, times: u64) -> Result<(), String> {
    own.unlock_times(times).await?;
    expect("the key is there", site.exists(&own.name).await, false)
}

/// One acquisition with cuts.
async fn acquire(site: &Site, lost: Lost, rng: &mut Rng, once: bool) -> Result<usize, String> {
    let (depth, cuts) = (depth(rng), cuts(rng));
    let own = Own::fresh(&site.locks);
    own.lock_times(depth - 1).await;
    let fault = lost.cut(site, cuts, "acquire", &own.name);
    if once {
        expect("try_lock", own.lock.try_lock().await, Ok(true))?;
    } else {
        expect("lock", own.lock.lock().await, Ok(()))?;
    }
    fault.done().await;
    expect("count", site.count(&own.name, &own.owner).await, depth)?;
    expect("a lease", site.pttl(&own.name).await > 20_000, true)?;
    give_back(site, &own, depth).await?;
    Ok(1)
}

/// One unlock with cuts. The last one can't be confirmed once its answer is lost: absence proves nothing (rule 5).
async fn unlock(site: &Site, lost: Lost, rng: &mut Rng) -> Result<usize, String> {
    let (depth, cuts) = (depth(rng), cuts(rng));
    let own = Own::fresh(&site.locks);
    own.lock_times(depth).await;
    let fault = lost.cut(site, cuts, "release", &own.name);
    let answer = own.lock.unlock().await;
    fault.done().await;
    match (lost, depth) {
        (Lost::Answer, 1) => {
            let unconfirmed = matches!(answer, Err(UnlockError::Unconfirmed { .. }));
            expect("unconfirmed", unconfirmed, true)?;
        }
        _ => expect("unlock", answer, Ok(()))?,
    }
    expect("count", site.count(&own.name, &own.owner).await, depth - 1)?;
    give_back(site, &own, depth - 1).await?;
    Ok(1)
}

/// One hand-over between two owners of one client with cuts; the heir enters up to the same depth. Worth nothing when
/// the line let other processes in instead (20 ms, rule 16).
async fn hand_over(site: &Site, lost: Lost, rng: &mut Rng) -> Result<usize, String> {
    let (depth, cuts) = (depth(rng), cuts(rng));
    let from = Own::fresh(&site.locks);
    let to = heir_of(site, &from);
    let fault = lost.cut(site, cuts, "hand_over", &from.name);
    from.lock_times(depth).await;
    from.unlock_times(depth - 1).await?;
    let mut waiting = Box::pin(to.lock.lock());
    expect("it waits", begin(&mut waiting).await, true)?;
    let (given, taken) = tokio::join!(from.lock.unlock(), waiting);
    expect("unlock", given, Ok(()))?;
    expect("lock", taken, Ok(()))?;
    let handed_over = fault.hits() > 0;
    if handed_over {
        fault.done().await;
        expect("the old owner's count", site.count(&from.name, &from.owner).await, 0)?;
    }
    site.proxy.heal();
    to.lock_times(depth - 1).await;
    expect("the heir's count", site.count(&to.name, &to.owner).await, depth)?;
    give_back(site, &to, depth).await?;
    Ok(usize::from(handed_over))
}

fn heir_of(site: &Site, own: &Own) -> Own {
    Own::new(&site.locks, &own.name)
}

/// Holds at one site that are renewed in one batch.
const BATCH: usize = 8;

/// One renewal of a batch of holds, with cuts.
async fn renewal(site: &Site, lost: Lost, rng: &mut Rng) -> Result<usize, String> {
    let mut holds: Vec<(Own, Vec<Guard>)> = Vec::new();
    for _ in 0..BATCH {
        let (own, depth) = (Own::fresh(&site.locks), depth(rng));
        let mut guards = Vec::new();
        for _ in 0..depth {
            guards.push(own.lock.guard().await.unwrap());
        }
        holds.push((own, guards));
    }
    let fault = lost.cut(site, cuts(rng), "renew", "");
    fault.done().await;
    let renewed = || async {
        let fresh = |guard: &Guard| guard.remaining() > LEASE * 9 / 10 || guard.state() == State::Lost;
        holds.iter().all(|(_, guards)| guards.iter().all(fresh))
    };
    eventually(LEASE * 3, "the renewal after the cuts", renewed).await;
    for (own, guards) in holds {
        expect("state", guards[0].state(), State::Held)?;
        expect("count", site.count(&own.name, &own.owner).await, guards.len() as u64)?;
        expect("renewed on the server", site.pttl(&own.name).await > LEASE.as_millis() as i64 / 2, true)?;
        for guard in guards {
            expect("unlock", guard.unlock().await, Ok(()))?;
        }
        expect("the key is there", site.exists(&own.name).await, false)?;
    }
    Ok(BATCH)
}

async fn sites(count: usize, builder: Builder) -> (Server, Vec<Site>) {
    let server = Server::start();
    load_scripts(&server).await;
    let sites = Site::many(&server, count, builder).await;
    (server, sites)
}

/// 2,000 each: after 1 to 5 lost answers in a row `lock`, `try_lock` and `unlock` have counted once, at depth 1 to 3,
/// and then the key goes (item 3; rules 4 and 5). And 500 each with lost requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verb_counts_once_whatever_is_cut() {
    let _turn = turn().await;
    let (_server, sites) = sites(24, builder()).await;
    for (lost, label, full) in [(Lost::Answer, "answers", 2000), (Lost::Request, "requests", 500)] {
        let seed = seed();
        let case = async |site: &Site, _: usize, rng: &mut Rng| acquire(site, lost, rng, false).await;
        drive(&format!("lock with {label} cut"), soak(full), seed, &sites, case).await;
        let case = async |site: &Site, _: usize, rng: &mut Rng| acquire(site, lost, rng, true).await;
        drive(&format!("try_lock with {label} cut"), soak(full), seed, &sites, case).await;
        let case = async |site: &Site, _: usize, rng: &mut Rng| unlock(site, lost, rng).await;
        drive(&format!("unlock with {label} cut"), soak(full), seed, &sites, case).await;
    }
}

/// 2,000 hand-overs in one script with 1 to 5 lost answers in a row: exactly one hold goes to exactly one heir (item 3;
/// rules 5 and 16). And 500 with lost requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_happens_once_whatever_is_cut() {
    let _turn = turn().await;
    let (_server, sites) = sites(6, builder()).await;
    for (lost, label, full) in [(Lost::Answer, "answers", 2000), (Lost::Request, "requests", 500)] {
        let case = async |site: &Site, _: usize, rng: &mut Rng| hand_over(site, lost, rng).await;
        drive(&format!("hand-over with {label} cut"), soak(full), seed(), &sites, case).await;
    }
}

/// 2,000 renewals with 1 to 5 lost answers in a row leave the counts alone and the holds held (item 3; rules 9 and 11).
/// And 500 with lost requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_changes_no_count_whatever_is_cut() {
    let _turn = turn().await;
    let (_server, sites) = sites(16, builder().watchdog_lease(LEASE)).await;
    for (lost, label, full) in [(Lost::Answer, "answers", 2000), (Lost::Request, "requests", 500)] {
        let case = async |site: &Site, _: usize, rng: &mut Rng| renewal(site, lost, rng).await;
        drive(&format!("renewal with {label} cut"), soak(full), seed(), &sites, case).await;
    }
}

/// What a late copy must leave alone.
struct Before {
    count: u64,
    pttl: i64,
    at: Instant,
}

impl Before {
    async fn look(site: &Site, own: &Own) -> Before {
        let at = Instant::now();
        Before { count: site.count(&own.name, &own.owner).await, pttl: site.pttl(&own.name).await, at }
    }

    /// Delivers the late copies: same count, and a lease that only time made shorter.
    async fn unchanged(self, site: &Site, own: &Own, held: &Held) -> Result<(), String> {
        let replies = held.release().await;
        expect("late copies", replies.len(), 1)?;
        let (count, pttl) = (site.count(&own.name, &own.owner).await, site.pttl(&own.name).await);
        let told = format!("after the late copy was answered {:?}", replies[0]);
        expect(&format!("count {told}"), count, self.count)?;
        // The server rounds to milliseconds, and so does this.
        let least = self.pttl - self.at.elapsed().as_millis() as i64 - 2;
        expect(&format!("PTTL {pttl} is at least {least} {told}"), pttl >= least, true)
    }
}

/// The next call of a script about `name` is held back, and its connection cut.
fn hold_back(site: &Site, verb: &str, name: &str) -> Held {
    site.proxy.hold_back(1, script(verb).with(name))
}

async fn late_acquire(site: &Site, rng: &mut Rng, once: bool) -> Result<usize, String> {
    let (own, depth) = (Own::fresh(&site.locks), depth(rng));
    own.lock_times(depth - 1).await;
    let held = hold_back(site, "acquire", &own.name);
    if once {
        expect("try_lock", own.lock.try_lock().await, Ok(true))?;
    } else {
        expect("lock", own.lock.lock().await, Ok(()))?;
    }
    own.unlock_times(1).await?;
    own.lock_times(1).await;
    let before = Before::look(site, &own).await;
    expect("count", before.count, depth)?;
    before.unchanged(site, &own, &held).await?;
    give_back(site, &own, depth).await?;
    Ok(1)
}

async fn late_unlock(site: &Site, rng: &mut Rng) -> Result<usize, String> {
    let (own, depth) = (Own::fresh(&site.locks), depth(rng));
    own.lock_times(depth).await;
    let held = hold_back(site, "release", &own.name);
    own.unlock_times(1).await?;
    own.lock_times(1).await;
    let before = Before::look(site, &own).await;
    expect("count", before.count, depth)?;
    before.unchanged(site, &own, &held).await?;
    give_back(site, &own, depth).await?;
    Ok(1)
}

/// A hand-over whose first copy is late; the old owner, or the heir with a longer lease, has locked again meanwhile.
async fn late_hand_over(site: &Site, rng: &mut Rng) -> Result<usize, String> {
    let from = Own::fresh(&site.locks);
    let to = heir_of(site, &from);
    let held = hold_back(site, "hand_over", &from.name);
    from.lock_times(1).await;
    let request = to.lock.acquire().wait(Duration::from_secs(20)).lease(LEASE / 2);
    let mut waiting = std::future::IntoFuture::into_future(request);
    expect("it waits", begin(&mut waiting).await, true)?;
    let (given, taken) = tokio::join!(from.lock.unlock(), waiting);
    expect("unlock", given, Ok(()))?;
    expect("lock", taken, Ok(true))?;
    to.unlock_times(1).await?;
    if held.count() == 0 {
        site.proxy.heal();
        return Ok(0);
    }
    let (again, other) = if rng.chance(0.5) { (&from, &to) } else { (&to, &from) };
    again.lock_times(1).await;
    let before = Before::look(site, again).await;
    expect("count", before.count, 1)?;
    before.unchanged(site, again, &held).await?;
    expect("the other's count", site.count(&other.name, &other.owner).await, 0)?;
    give_back(site, again, 1).await?;
    Ok(1)
}

async fn late_renewal(site: &Site, rng: &mut Rng) -> Result<usize, String> {
    let (own, depth) = (Own::fresh(&site.locks), depth(rng));
    let held = hold_back(site, "renew", &own.name);
    own.lock_times(depth).await;
    held.wait_for(1).await;
    let renewed = || async { site.pttl(&own.name).await > LEASE.as_millis() as i64 * 9 / 10 };
    eventually(LEASE * 3, "the renewal after the one held back", renewed).await;
    own.unlock_times(1).await?;
    own.lock_times(1).await;
    let before = Before::look(site, &own).await;
    expect("count", before.count, depth)?;
    before.unchanged(site, &own, &held).await?;
    give_back(site, &own, depth).await?;
    Ok(1)
}

/// 2,000 requests that come after their retry was answered and the same owner has unlocked and locked again: nothing
/// changes, neither a count nor, downwards, a lease (item 3; rules 6 and 10).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_changes_nothing() {
    let _turn = turn().await;
    let (_server, sites) = sites(40, builder().watchdog_lease(LEASE)).await;
    let case = async |site: &Site, number: usize, rng: &mut Rng| match number % 5 {
        0 => late_acquire(site, rng, false).await,
        1 => late_acquire(site, rng, true).await,
        2 => late_unlock(site, rng).await,
        3 => late_hand_over(site, rng).await,
        _ => late_renewal(site, rng).await,
    };
    drive("requests held back", soak(2000), seed(), &sites, case).await;
}

/// An acquire that comes after the unlock takes the lock again for nobody: it is given back once no copy can come any
/// more (rule 6: "once more after `not_after`"), at depth 1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_acquire_after_the_unlock_is_taken_back() {
    let _turn = turn().await;
    let (_server, sites) = sites(20, builder()).await;
    let case = async |site: &Site, _: usize, _: &mut Rng| {
        let own = Own::fresh(&site.locks);
        let held = hold_back(site, "acquire", &own.name);
        own.lock_times(1).await;
        own.unlock_times(1).await?;
        held.release().await;
        taken_back(site, &own).await
    };
    drive("late acquire after the unlock", soak(500), seed(), &sites, case).await;
}

/// The same when the unlock's answer is lost too, so that it ends unconfirmed (rules 5 and 6).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_acquire_after_an_unconfirmed_unlock_is_taken_back() {
    let _turn = turn().await;
    let (_server, sites) = sites(20, builder()).await;
    let case = async |site: &Site, _: usize, _: &mut Rng| {
        let own = Own::fresh(&site.locks);
        let held = hold_back(site, "acquire", &own.name);
        own.lock_times(1).await;
        let fault = site.proxy.cut_after(1, Filter::Script.with(&own.name));
        let answer = own.lock.unlock().await;
        fault.done().await;
        expect("unconfirmed", matches!(answer, Err(UnlockError::Unconfirmed { .. })), true)?;
        held.release().await;
        taken_back(site, &own).await
    };
    drive("late acquire after an unconfirmed unlock", soak(500), seed(), &sites, case).await;
}

/// The key goes within a command timeout of the last copy, and a round trip; half a second is for a busy machine.
async fn taken_back(site: &Site, own: &Own) -> Result<usize, String> {
    let limit = COMMAND_TIMEOUT + Duration::from_millis(500);
    let gone = time_until(limit, || async { !site.exists(&own.name).await }).await;
    expect("an orphan stays", gone.is_none(), false)?;
    Ok(1)
}

/// An inner acquire that comes after the inner unlock raises no count for good: the outer unlocks go through and the
/// key goes (rule 6: "make the count what the registry says"), at depth 2 and 3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_inner_acquire_does_not_spoil_the_outer_unlock() {
    let _turn = turn().await;
    let (_server, sites) = sites(20, builder()).await;
    let case = async |site: &Site, _: usize, rng: &mut Rng| {
        let (own, depth) = (Own::fresh(&site.locks), 2 + rng.below(2));
        own.lock_times(depth - 1).await;
        let held = hold_back(site, "acquire", &own.name);
        own.lock_times(1).await;
        own.unlock_times(1).await?;
        held.release().await;
        if rng.chance(0.5) {
            let limit = COMMAND_TIMEOUT + Duration::from_millis(500);
            let right = || async { site.count(&own.name, &own.owner).await == depth - 1 };
            expect("the count is put right", time_until(limit, right).await.is_some(), true)?;
        }
        own.unlock_times(depth - 1).await?;
        let limit = COMMAND_TIMEOUT + Duration::from_millis(500);
        let gone = time_until(limit, || async { !site.exists(&own.name).await }).await;
        expect("an orphan stays", gone.is_none(), false)?;
        Ok(1)
    };
    drive("late inner acquire after the inner unlock", soak(500), seed(), &sites, case).await;
}
