//! Readers who wait together come in by one script: each is in once, who left leaves nothing (rules 5 to 7, 10, 16).

use support::prelude::*;
use support::sites::*;

const READERS: usize = 6;
const COMMAND_TIMEOUT: Duration = secs(1);
/// What a machine with two busy cores may add.
const NOISE: Duration = secs(2);

/// Readers of one client, and the writer of another that they wait for.
struct Crowd {
    readers: Vec<Own>,
    writer: Own,
}

impl Crowd {
    async fn new(site: &Site, direct: &Locks) -> Crowd {
        let name = fresh_name();
        let readers: Vec<Own> = (0..READERS).map(|_| Own::new(site.kind, &site.locks, &name)).collect();
        let writer = readers[0].rival(direct);
        writer.lock_times(1).await;
        Crowd { readers, writer }
    }

    fn name(&self) -> &str {
        &self.writer.name
    }

    /// All of them stand in line before the writer goes.
    async fn come_in(&self, site: &Site) -> Result<(), String> {
        let mut waits: Vec<_> = self.readers.iter().map(|own| own.lock.lock()).collect();
        for wait in &mut waits {
            expect("it waits", begin(wait).await, true)?;
        }
        let (given, taken) = join(self.let_go(site), patient("the readers", join_all(waits))).await;
        given?;
        expect("lock", taken, vec![Ok(()); READERS])
    }

    async fn let_go(&self, site: &Site) -> Result<(), String> {
        eventually(secs(20), "they listen", || site.listens(&self.readers[0])).await;
        self.writer.unlock_times(1).await
    }

    async fn counts(&self, site: &Site) -> Vec<u64> {
        join_all(self.readers.iter().map(|own| site.count(own))).await
    }

    async fn give_back(&self) -> Result<(), String> {
        for own in &self.readers {
            own.unlock_times(1).await?;
        }
        Ok(())
    }

    async fn exists(&self, site: &Site) -> bool {
        join_all(self.readers.iter().map(|own| site.exists(own))).await.contains(&true)
    }

    /// Nothing is left when no copy can come any more.
    async fn gone(&self, site: &Site, timeout: Duration) -> Result<(), String> {
        let gone = time_until(timeout + NOISE, || async { !self.exists(site).await }).await;
        expect("a hold stays", gone.is_none(), false)
    }
}

/// Runs cases for both kinds that read, each at sites of its own.
async fn drive_all(
    label: &str,
    full: usize,
    builder: Builder,
    case: impl AsyncFn(&Site, &Locks, &mut Rng) -> Result<usize, String>,
) {
    let _turn = half_turn().await;
    let server = Server::start();
    load_scripts(&server).await;
    let direct = server.locks().await;
    for kind in KINDS.iter().filter(|kind| kind.name.starts_with("read")) {
        let sites = Site::many(&server, kind, 4, builder.clone()).await;
        let run = async |site: &Site, _: usize, rng: &mut Rng| case(site, &direct, rng).await;
        drive(&format!("{}: {label}", kind.name), soak(full), seed(), &sites, run).await;
    }
}

/// A call that a busy machine answers late would leave a doubt of its own, beside those that are made here.
fn patient_builder() -> Builder {
    Locks::builder().command_timeout(COMMAND_TIMEOUT * 5)
}

/// One to three scripts for many are cut in a row, before the server read them or after: each reader has one hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_is_in_once_whatever_is_cut() {
    drive_all("scripts for many cut", 500, patient_builder(), async |site, direct, rng| {
        let crowd = Crowd::new(site, direct).await;
        let (cuts, filter) = (1 + rng.usize(..3), site.kind.script("admit").with(crowd.name()));
        let fault = match rng.f64() < 0.7 {
            true => site.proxy.cut_after(cuts, filter),
            false => site.proxy.cut_before(cuts, filter),
        };
        crowd.come_in(site).await?;
        let worth = usize::from(fault.hits() > 0);
        site.proxy.heal();
        expect("counts", crowd.counts(site).await, vec![1; READERS])?;
        crowd.give_back().await?;
        expect("a hold stays", crowd.exists(site).await, false)?;
        Ok(worth)
    })
    .await;
}

/// A script for many that comes late changes nothing; what it takes for who has given back is given back again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_is_nobodys() {
    let builder = Locks::builder().command_timeout(COMMAND_TIMEOUT);
    drive_all("scripts for many kept back", 300, builder, async |site, direct, rng| {
        let crowd = Crowd::new(site, direct).await;
        let held = site.proxy.hold_back(1, site.kind.script("admit").with(crowd.name()));
        crowd.come_in(site).await?;
        if held.count() == 0 {
            site.proxy.heal();
            crowd.give_back().await?;
            return Ok(0);
        }
        if rng.f64() < 0.5 {
            expect("late copies", held.release().await.len(), 1)?;
            expect("counts", crowd.counts(site).await, vec![1; READERS])?;
            crowd.give_back().await?;
        } else {
            crowd.give_back().await?;
            held.release().await;
        }
        crowd.gone(site, COMMAND_TIMEOUT).await?;
        Ok(1)
    })
    .await;
}

/// Some go away at any moment, while scripts for many are cut or not: those who stay get in, and nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_goes_away_leaves_nothing() {
    drive_all("readers who go away", 1000, patient_builder(), async |site, direct, rng| {
        let crowd = Crowd::new(site, direct).await;
        if rng.f64() < 0.3 {
            let _ = site.proxy.cut_after(1, site.kind.script("admit").with(crowd.name()));
        }
        let waits = crowd.readers.iter().enumerate().map(|(number, own)| {
            let (polls, after) = (rng.usize(..8), Duration::from_micros(rng.u64(..5000)));
            let by_polls = rng.f64() < 0.5;
            async move {
                let held = match (number < 2, by_polls) {
                    (true, _) => Some(patient("one who stays", own.lock.lock()).await),
                    (_, true) => give_up_after(polls, own.lock.lock()).await,
                    (_, false) => tokio::time::timeout(after, own.lock.lock()).await.ok(),
                };
                match held {
                    Some(Ok(())) => own.unlock_times(1).await.map(|()| 0),
                    Some(Err(error)) => Err(format!("{error:?}")),
                    None => Ok(1),
                }
            }
        });
        let waits = join_all(waits.collect::<Vec<_>>());
        let delay = Duration::from_micros(rng.u64(..4000));
        let release = async {
            sleep(delay).await;
            crowd.writer.unlock_times(1).await
        };
        let (left, released) = join(waits, release).await;
        released?;
        site.proxy.heal();
        let left: usize = left.into_iter().sum::<Result<usize, String>>()?;
        crowd.gone(site, COMMAND_TIMEOUT * 5).await?;
        Ok(left)
    })
    .await;
}

/// What comes of an attempt that nobody awaits any more is no hold: its owner may write, or waits for others.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_gave_up_reading_may_write() {
    const OWNERS: u64 = 16;
    let (rounds, seed) = (soak(10_000), seed());
    let server = lockson::EmbeddedServer::new();
    let locks = server.connect();
    let mut owners = tokio::task::JoinSet::new();
    for number in 0..OWNERS {
        let (lock, owner) = (locks.read_write_lock("l"), Owner::unique());
        let sides: [Box<dyn RLock>; 2] =
            [Box::new(lock.read().owned_by(&owner)), Box::new(lock.write().owned_by(&owner))];
        let mut rng = Rng::with_seed(seed ^ number << 32);
        owners.spawn(async move {
            for _ in 0..rounds {
                for side in &sides {
                    let soon = Request::default().wait(Duration::from_micros(1 + rng.u64(..900)));
                    match side.guard_with(soon).await {
                        Ok(Some(guard)) => guard.unlock().await.unwrap(),
                        // That soon there may be no answer yet.
                        Ok(None) | Err(LockError::Query(QueryError::Unreachable { .. })) => {}
                        Err(error) => panic!("{error} (seed {seed})"),
                    }
                }
            }
        });
    }
    owners.join_all().await;
    locks.shutdown(secs(5)).await.unwrap();
    let lock = server.connect().read_write_lock("l");
    assert!(!lock.read().is_locked().await.unwrap() && !lock.write().is_locked().await.unwrap(), "seed {seed}");
}
