//! Lost answers and late requests: the count on the server is exactly right, for every kind (rules 4 to 6, 10).

use support::prelude::*;
use support::sites::*;

const COMMAND_TIMEOUT: Duration = secs(1);
/// Where no lease asks for less.
const PATIENT_TIMEOUT: Duration = secs(3);
/// Renewed each second; the longest row of cuts takes about half a second on an idle machine.
const LEASE: Duration = secs(3);

/// The short run does so many times less of everything: six tests, and each for every kind.
const SHORT: usize = 50;

/// What a machine with two busy cores may add; what nobody gives back stays for its lease of 30 s.
const NOISE: Duration = secs(10);

fn builder() -> Builder {
    Locks::builder().command_timeout(COMMAND_TIMEOUT)
}

/// A call that a busy machine answers late would leave a doubt of its own, beside those that are made here.
fn patient_builder() -> Builder {
    Locks::builder().command_timeout(PATIENT_TIMEOUT)
}

/// Which half of a round trip the cut connection loses.
#[derive(Clone, Copy)]
enum Lost {
    Request,
    Answer,
}

impl Lost {
    /// Four of five rows of cuts lose answers.
    fn by(number: usize) -> Self {
        if number % 5 == 4 {
            Lost::Request
        } else {
            Lost::Answer
        }
    }

    /// The next `cuts` calls of a kind's script about `name` are cut.
    fn cut(self, site: &Site, cuts: usize, kind: &Kind, verb: &str, name: &str) -> Fault {
        let filter = kind.script(verb).with(name);
        match self {
            Lost::Request => site.proxy.cut_before(cuts, filter),
            Lost::Answer => site.proxy.cut_after(cuts, filter),
        }
    }
}

fn depth(kind: &Kind, rng: &mut Rng) -> u64 {
    1 + rng.u64(..kind.deepest)
}

fn cuts(rng: &mut Rng) -> usize {
    1 + rng.usize(..5)
}

/// The owner gives all back, and nothing is left.
async fn give_back(site: &Site, own: &Own, times: u64) -> Result<(), String> {
    own.unlock_times(times).await?;
    expect("a key is there", site.exists(own).await, false)
}

/// One acquisition with cuts.
async fn acquire(site: &Site, lost: Lost, rng: &mut Rng, once: bool) -> Result<usize, String> {
    let (depth, cuts) = (depth(site.kind, rng), cuts(rng));
    let own = site.own();
    own.lock_times(depth - 1).await;
    let fault = lost.cut(site, cuts, site.kind, "acquire", &own.name);
    own.take(once).await?;
    fault.done().await;
    expect("count", site.count(&own).await, depth)?;
    expect("a lease", site.pttl(&own).await > 20_000, true)?;
    give_back(site, &own, depth).await?;
    Ok(1)
}

/// One unlock with cuts. The last one can't be confirmed once its answer is lost: absence proves nothing (rule 5).
async fn unlock(site: &Site, lost: Lost, rng: &mut Rng) -> Result<usize, String> {
    let (depth, cuts) = (depth(site.kind, rng), cuts(rng));
    let own = site.own();
    own.lock_times(depth).await;
    let fault = lost.cut(site, cuts, site.kind, "release", &own.name);
    let answer = own.lock.unlock().await;
    fault.done().await;
    match (lost, depth) {
        (Lost::Answer, 1) => {
            let unconfirmed = matches!(answer, Err(UnlockError::Unconfirmed { .. }));
            expect("unconfirmed", unconfirmed, true)?;
        }
        _ => expect("unlock", answer, Ok(()))?,
    }
    expect("count", site.count(&own).await, depth - 1)?;
    give_back(site, &own, depth - 1).await?;
    Ok(1)
}

/// Gives a hold back when the next one waits where it can be handed it: in the client's line, or in the server's queue.
async fn give_to(site: &Site, from: &Own, to: &Own) -> Result<(), UnlockError> {
    if from.kind.queues() {
        eventually(secs(20), "the heir hears of its turn", || site.listens(to)).await;
    }
    from.lock.unlock().await
}

/// One hand-over between two owners of one client with cuts; the heir enters up to the same depth. Where it is one
/// script, it is worth nothing when the line let other processes in instead (20 ms, rule 16). Elsewhere the release is
/// cut: it can't be confirmed once its answer is lost, and the heir gets in by its message.
async fn hand_over(site: &Site, lost: Lost, rng: &mut Rng) -> Result<usize, String> {
    let cuts = cuts(rng);
    let to = site.own();
    let from = to.rival(&site.locks);
    let depth = depth(if from.kind.deepest < to.kind.deepest { from.kind } else { to.kind }, rng);
    let verb = if from.kind.hands_over { "hand_over" } else { "release" };
    from.lock_times(depth).await;
    from.unlock_times(depth - 1).await?;
    let fault = lost.cut(site, cuts, from.kind, verb, &from.name);
    // A plain lock goes on without a script (rule 27), but not to a lease of its own.
    let lease = if to.kind.anonymous { Request::default().lease(secs(60)) } else { Request::default() };
    let mut waiting = to.lock.acquire_with(lease);
    expect("it waits", begin(&mut waiting).await, true)?;
    let (given, taken) = join(give_to(site, &from, &to), waiting).await;
    match (lost, from.kind.hands_over) {
        (Lost::Answer, false) => {
            expect("unconfirmed", matches!(given, Err(UnlockError::Unconfirmed { .. })), true)?;
        }
        _ => expect("unlock", given, Ok(()))?,
    }
    expect("lock", taken, Ok(Acquired))?;
    let handed_over = fault.hits() > 0;
    if handed_over {
        fault.done().await;
        expect("the old owner's count", site.count(&from).await, 0)?;
    }
    site.proxy.heal();
    to.lock_times(depth - 1).await;
    // Asked about, it is there by its own name, and not by that of a run.
    expect("it is held", to.lock.is_held().await, Ok(true))?;
    expect("the heir's count", site.count(&to).await, depth)?;
    give_back(site, &to, depth).await?;
    Ok(usize::from(handed_over))
}

/// Holds at one site that are renewed in one batch.
const BATCH: usize = 8;

/// One renewal of a batch of holds, with cuts.
async fn renewal(site: &Site, lost: Lost, rng: &mut Rng) -> Result<usize, String> {
    let mut holds: Vec<(Own, Vec<Guard>)> = Vec::new();
    for _ in 0..BATCH {
        let (own, depth) = (site.own(), depth(site.kind, rng));
        let mut guards = Vec::new();
        for _ in 0..depth {
            guards.push(own.lock.guard().await.unwrap());
        }
        holds.push((own, guards));
    }
    let fault = lost.cut(site, cuts(rng), site.kind, "renew", "");
    fault.done().await;
    // Not all in one moment: a busy machine may have taken them apart.
    let mut stale: Vec<&Guard> = holds.iter().flat_map(|(_, guards)| guards).collect();
    let renewed = async || {
        stale.retain(|guard| guard.remaining() <= LEASE * 9 / 10 && guard.state() != HoldState::Lost);
        stale.is_empty()
    };
    eventually(LEASE * 3, "the renewal after the cuts", renewed).await;
    for (own, guards) in holds {
        expect("state", guards[0].state(), HoldState::Held)?;
        expect("count", site.count(&own).await, guards.len() as u64)?;
        expect("renewed on the server", site.pttl(&own).await > LEASE.as_millis() as i64 / 2, true)?;
        for guard in guards {
            expect("unlock", guard.unlock().await, Ok(()))?;
        }
        expect("a key is there", site.exists(&own).await, false)?;
    }
    Ok(BATCH)
}

/// 2,000 verbs of each kind with 1 to 5 lost answers, and 500 with lost requests, have counted once (rules 4 and 5).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verb_counts_once_whatever_is_cut() {
    let _turn = turn().await;
    let case = async |site: &Site, number: usize, rng: &mut Rng| match number / 5 % 3 {
        0 => unlock(site, Lost::by(number), rng).await,
        verb => acquire(site, Lost::by(number), rng, verb == 1).await,
    };
    drive_every_kind("verbs cut", soak_part(7500, SHORT), (8, patient_builder()), case).await;
}

/// 2,000 hand-overs of each kind with lost answers, 500 with lost requests: one hold goes to one heir (rules 5 and 16).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_happens_once_whatever_is_cut() {
    let _turn = turn().await;
    let case = async |site: &Site, number: usize, rng: &mut Rng| hand_over(site, Lost::by(number), rng).await;
    drive_every_kind("hand-overs cut", soak_part(2500, SHORT), (2, patient_builder()), case).await;
}

/// 2,000 renewals of each kind with lost answers, 500 with lost requests: counts and holds stay (rules 9 and 11).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_changes_no_count_whatever_is_cut() {
    let _turn = turn().await;
    let case = async |site: &Site, number: usize, rng: &mut Rng| renewal(site, Lost::by(number), rng).await;
    let renewed = builder().watchdog_lease(LEASE);
    drive_every_kind("renewals cut", soak_part(2500, SHORT), (10, renewed), case).await;
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
        Before { count: site.count(own).await, pttl: site.pttl(own).await, at }
    }

    /// Delivers the late copies: same count, and a lease that only time made shorter.
    async fn unchanged(self, site: &Site, own: &Own, held: &Held) -> Result<(), String> {
        let replies = held.release().await;
        expect("late copies", replies.len(), 1)?;
        let (count, pttl) = (site.count(own).await, site.pttl(own).await);
        let told = format!("after the late copy was answered {:?}", replies[0]);
        expect(&format!("count {told}"), count, self.count)?;
        // The server rounds to milliseconds, and so does this.
        let least = self.pttl - self.at.elapsed().as_millis() as i64 - 2;
        expect(&format!("PTTL {pttl} is at least {least} {told}"), pttl >= least, true)
    }
}

/// The owner gives one of its holds back and takes it again; then the late copy comes, and changes nothing.
async fn comes_late(site: &Site, own: &Own, depth: u64, held: &Held) -> Result<usize, String> {
    own.unlock_times(1).await?;
    own.lock_times(1).await;
    let before = Before::look(site, own).await;
    expect("count", before.count, depth)?;
    before.unchanged(site, own, held).await?;
    give_back(site, own, depth).await?;
    Ok(1)
}

/// The next call of a script about `name` is held back, and its connection cut.
fn hold_back(site: &Site, verb: &str, name: &str) -> Held {
    site.proxy.hold_back(1, site.kind.script(verb).with(name))
}

async fn late_acquire(site: &Site, rng: &mut Rng, once: bool) -> Result<usize, String> {
    let (own, depth) = (site.own(), depth(site.kind, rng));
    own.lock_times(depth - 1).await;
    let held = hold_back(site, "acquire", &own.name);
    own.take(once).await?;
    comes_late(site, &own, depth, &held).await
}

async fn late_unlock(site: &Site, rng: &mut Rng) -> Result<usize, String> {
    let (own, depth) = (site.own(), depth(site.kind, rng));
    own.lock_times(depth).await;
    let held = hold_back(site, "release", &own.name);
    comes_late(site, &own, depth, &held).await
}

/// A hand-over whose first copy is late; the old owner, or the heir with a longer lease, has locked again meanwhile.
async fn late_hand_over(site: &Site, rng: &mut Rng) -> Result<usize, String> {
    let from = site.own();
    let to = from.rival(&site.locks);
    let held = hold_back(site, "hand_over", &from.name);
    from.lock_times(1).await;
    let request = Request::default().wait(secs(20)).lease(LEASE / 2);
    let mut waiting = to.lock.acquire_with(request);
    expect("it waits", begin(&mut waiting).await, true)?;
    let (given, taken) = join(give_to(site, &from, &to), waiting).await;
    expect("unlock", given, Ok(()))?;
    expect("lock", taken, Ok(Acquired))?;
    to.unlock_times(1).await?;
    if held.count() == 0 {
        site.proxy.heal();
        return Ok(0);
    }
    let (again, other) = if rng.f64() < 0.5 { (&from, &to) } else { (&to, &from) };
    again.lock_times(1).await;
    let before = Before::look(site, again).await;
    expect("count", before.count, 1)?;
    before.unchanged(site, again, &held).await?;
    expect("the other's count", site.count(other).await, 0)?;
    give_back(site, again, 1).await?;
    Ok(1)
}

async fn late_renewal(site: &Site, rng: &mut Rng) -> Result<usize, String> {
    let (own, depth) = (site.own(), depth(site.kind, rng));
    let held = hold_back(site, "renew", &own.name);
    own.lock_times(depth).await;
    held.wait_for(1).await;
    let renewed = || async { site.pttl(&own).await > LEASE.as_millis() as i64 * 9 / 10 };
    eventually(LEASE * 3, "the renewal after the one held back", renewed).await;
    comes_late(site, &own, depth, &held).await
}

/// 2,000 requests of each kind that come behind the next hold change no count and shorten no lease (rules 6, 10).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_changes_nothing() {
    let _turn = turn().await;
    let case = async |site: &Site, number: usize, rng: &mut Rng| match number % 5 {
        0 => late_acquire(site, rng, false).await,
        1 => late_acquire(site, rng, true).await,
        4 if site.kind.hands_over => late_hand_over(site, rng).await,
        2 | 4 => late_unlock(site, rng).await,
        _ => late_renewal(site, rng).await,
    };
    let renewed = builder().watchdog_lease(LEASE);
    drive_every_kind("requests held back", soak_part(2000, SHORT), (16, renewed), case).await;
}

/// An acquire that comes after the unlock, confirmed or not, is given back once no copy can come any more (rules 5, 6).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_acquire_after_the_unlock_is_taken_back() {
    let case = async |site: &Site, number: usize, _: &mut Rng| late_orphan(site, number.is_multiple_of(2)).await;
    drive_every_kind("late acquire after an unlock", soak_part(1000, SHORT), (24, patient_builder()), case).await;
}

/// With an unlock that is confirmed or not.
async fn late_orphan(site: &Site, confirmed: bool) -> Result<usize, String> {
    let own = site.own();
    let held = hold_back(site, "acquire", &own.name);
    own.lock_times(1).await;
    if confirmed {
        own.unlock_times(1).await?;
    } else {
        let fault = site.proxy.cut_after(1, Filter::Script.with(&own.name));
        let answer = own.lock.unlock().await;
        fault.done().await;
        expect("unconfirmed", matches!(answer, Err(UnlockError::Unconfirmed { .. })), true)?;
    }
    held.release().await;
    taken_back(site, &own).await
}

/// The key goes within a command timeout of the last copy, and a round trip.
async fn taken_back(site: &Site, own: &Own) -> Result<usize, String> {
    let gone = time_until(PATIENT_TIMEOUT + NOISE, || async { !site.exists(own).await }).await;
    expect("an orphan stays", gone.is_none(), false)?;
    Ok(1)
}

/// An inner acquire that comes after the inner unlock raises no count for good: the outer ones free the lock (rule 6).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_inner_acquire_does_not_spoil_the_outer_unlock() {
    let case = async |site: &Site, _: usize, rng: &mut Rng| {
        let (own, depth) = (site.own(), 2 + rng.u64(..2));
        own.lock_times(depth - 1).await;
        let held = hold_back(site, "acquire", &own.name);
        own.lock_times(1).await;
        own.unlock_times(1).await?;
        held.release().await;
        if rng.f64() < 0.5 {
            let right = || async { site.count(&own).await == depth - 1 };
            let put_right = time_until(PATIENT_TIMEOUT + NOISE, right).await.is_some();
            expect("the count is put right", put_right, true)?;
        }
        own.unlock_times(depth - 1).await?;
        taken_back(site, &own).await
    };
    every_kind_at_a_server(async |server, kind| {
        if kind.deepest > 1 {
            let sites = Site::many(server, kind, 24, patient_builder()).await;
            drive(&format!("{}: late inner acquire", kind.name), soak_part(500, SHORT), seed(), &sites, case).await;
        }
    })
    .await;
}

/// In the contract's list alone: locks of other locks (see `multi`, `red_schedules`), and kinds with another's scripts.
const TESTED_ELSEWHERE: [&str; 6] =
    ["multi", "red", "fenced_mutex", "fenced_spin", "fenced_fair_mutex", "fenced_write in a transaction"];

/// A kind that is in the contract's list, and not in that of the fault tests, fails here.
#[test]
fn every_kind_of_the_contract_is_in_the_list() {
    let listed = crate::contract::KINDS.iter().map(|name| name.replace("_in_transaction", " in a transaction"));
    let (elsewhere, mut here): (Vec<String>, Vec<String>) =
        listed.partition(|name| TESTED_ELSEWHERE.contains(&name.as_str()));
    let mut kinds: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    kinds.sort_unstable();
    here.sort_unstable();
    assert_eq!(here, kinds, "the contract's list, and the one in tests/support/kinds.rs");
    assert_eq!(elsewhere, TESTED_ELSEWHERE);
}
