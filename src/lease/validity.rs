//! Leases: how long what is held is valid. Rules 9 and 10 of docs/PROTOCOL.md.

use std::borrow::Cow;
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use futures::future::select_all;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::backend::Script;
use crate::base::clock::{millis, Clock, Moment};
use crate::base::config::Confirm;
use crate::base::janitor::contain;
use crate::base::keys::{Key, Keys};
use crate::error::{Lost, LostReason};
use crate::events::{Event, Herald};
use crate::lease::observer::{Observer, Observers};
pub use crate::lease::standing::HoldState;
pub(crate) use crate::lease::standing::{Place, Standing};
use crate::metrics::Held;

/// How long a lock is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// The watchdog's, renewed until given back or for `max_hold`.
    Watched { lease: Duration, max_hold: Option<Duration> },
    /// Once.
    Fixed(Duration),
}

impl Lease {
    pub(crate) fn duration(self) -> Duration {
        match self {
            Self::Watched { lease, .. } | Self::Fixed(lease) => lease,
        }
    }

    /// What it is renewed to, and when its `max_hold` is over, if it was taken at this moment. `None`: it is not
    /// renewed.
    fn renewal(self, at: Moment) -> Option<Renewal> {
        match self {
            Self::Watched { lease, max_hold } => Some((lease, max_hold.map(|limit| at.after(limit)))),
            Self::Fixed(_) => None,
        }
    }

    /// This one's watchdog, for as long as the other says; or the other.
    pub(crate) fn changed(self, to: Self) -> Self {
        match (self, to) {
            (Self::Watched { lease, .. }, Self::Watched { max_hold, .. }) => Self::Watched { lease, max_hold },
            _ => to,
        }
    }

    /// What is left to ask for of one that was taken so long ago. `None`: it is not renewed, or not any more.
    pub(crate) fn rest(self, ago: Duration) -> Option<Self> {
        let Self::Watched { lease, max_hold } = self else { return None };
        match max_hold.map(|limit| limit.saturating_sub(ago)) {
            Some(Duration::ZERO) => None,
            max_hold => Some(Self::Watched { lease, max_hold }),
        }
    }
}

/// A lease is judged this much shorter than it is: the millisecond that the server rounds, and the drift of two clocks.
pub(crate) fn margin(lease: Duration) -> Duration {
    (lease / 100).max(Duration::from_millis(2))
}

/// The lease that a share is renewed to, and the end of that.
type Renewal = (Duration, Option<Moment>);

struct Validity {
    until: Moment,
    /// The lease is being set to this, exactly: copies of that may run until then, and shorten what was confirmed
    /// meanwhile.
    change: Option<(Duration, Moment)>,
    /// When the last change was over, if there was one: what was not sent later says nothing of what is left.
    changed: Option<Moment>,
    uncertain: bool,
    lost: Option<LostReason>,
    /// The shares that are to be renewed, until they are given back, oldest first. (Mostly one: a map would take 400
    /// bytes more.)
    renewals: Vec<(u64, Renewal)>,
    /// Whether nobody but its owner's memory keeps a share of it: no guard.
    bare: bool,
    lease: Duration,
    /// The longest that was ever asked for: so long the server may have it after the last call.
    longest: Duration,
    /// By whom its renewals and changes have to be confirmed: as the strictest of its acquisitions asked for.
    confirm: Option<Confirm>,
    /// Where the watchdog has it in its queue.
    due: Option<Moment>,
    renewing: bool,
    held: Held,
}

/// What a renewal came to, for one hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Renewed {
        sent: Moment,
    },
    /// The server does not have it.
    Refused,
    /// It does not have what stood for the hold before it was moved.
    Moved,
    Unknown,
}

/// A lease: what the watchdog looks after, and how long it is valid.
pub(crate) struct Leased {
    /// Tells one of a process from every other. Its first share has the same number.
    pub(crate) id: u64,
    /// Of the lock, or of the semaphore.
    pub(crate) keys: Arc<Keys>,
    /// Whose it is, for logs.
    pub(crate) holder: Arc<str>,
    /// What stood for it on the server as it was taken.
    first_mark: Arc<str>,
    /// Whether that is its holder by now.
    place: Mutex<Place>,
    /// What a renewal of it counts for, of 500 in a script: some 2 us of the server's time.
    pub(crate) weight: usize,
    pub(crate) since: Moment,
    /// What renews it, with others.
    pub(crate) renew: &'static Script,
    validity: Mutex<Validity>,
    /// Rung when the validity changes.
    pub(crate) changed: Notify,
    observers: Mutex<Observers>,
    /// Whether the long bare hold was reported.
    pub(crate) reported: AtomicBool,
    /// Whether its loss was.
    loss_reported: AtomicBool,
}

/// Of leases and their shares.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Leased {
    /// Its part of a renewing script's KEYS.
    pub(crate) fn keys_of(&self, keys: &[Key]) -> Vec<Cow<'_, str>> {
        let own = keys.contains(&Key::FirstHold).then(|| self.keys.first_hold(&self.holder));
        self.keys.of(keys).into_iter().map(Cow::from).chain(own.map(Cow::from)).collect()
    }

    /// Taken by a call that was sent at `sent`.
    pub(crate) fn new(
        keys: Arc<Keys>,
        [holder, mark]: [Arc<str>; 2],
        weight: usize,
        renew: &'static Script,
        sent: Moment,
        lease: Lease,
    ) -> Arc<Self> {
        let (id, held) = (next_number(), Held::begin(&keys.class, LostReason::Released.label()));
        Arc::new(Self {
            id,
            keys,
            holder,
            first_mark: mark,
            place: Mutex::new(Place::First),
            weight,
            since: sent,
            renew,
            validity: Mutex::new(Validity {
                until: sent.after(lease.duration() - margin(lease.duration())),
                change: None,
                changed: None,
                uncertain: false,
                lost: None,
                renewals: lease.renewal(sent).map(|renewal| (id, renewal)).into_iter().collect(),
                bare: false,
                lease: lease.duration(),
                longest: lease.duration(),
                confirm: None,
                due: None,
                renewing: false,
                held,
            }),
            changed: Notify::new(),
            observers: Mutex::default(),
            reported: AtomicBool::new(false),
            loss_reported: AtomicBool::new(false),
        })
    }

    /// The next of a run: what stands for this one on the server stands for that one from now on, for as long as it did
    /// for this. Whether that may be is `is_whole`'s to say.
    pub(crate) fn next(&self, holder: Arc<str>, renew: &'static Script, lease: Lease, now: Moment) -> Arc<Self> {
        let owners = [holder, self.first_mark.clone()];
        let next = Self::new(self.keys.clone(), owners, self.weight, renew, self.since, lease);
        let before = self.validity.lock();
        let mut validity = next.validity.lock();
        validity.renewals = lease.renewal(now).map(|renewal| (next.id, renewal)).into_iter().collect();
        (validity.until, validity.changed, validity.confirm) = (before.until, before.changed, before.confirm);
        drop(validity);
        next
    }

    /// Whether both are of one run: what stands for them on the server was taken by one script.
    pub(crate) fn is_of_run(&self, other: &Self) -> bool {
        self.first_mark == other.first_mark && self.since == other.since
    }

    /// What stands for it on the server.
    pub(crate) fn mark(&self) -> &Arc<str> {
        self.marks().0
    }

    /// The same, and its holder where that may stand for it already.
    pub(crate) fn marks(&self) -> (&Arc<str>, Option<&Arc<str>>) {
        match self.place() {
            Place::First => (&self.first_mark, None),
            Place::Moving => (&self.first_mark, Some(&self.holder)),
            Place::Own => (&self.holder, None),
        }
    }

    pub(crate) fn place(&self) -> Place {
        *self.place.lock()
    }

    /// Before what moves it is sent, and behind that.
    pub(crate) fn moves(&self, place: Place) {
        *self.place.lock() = place;
    }

    /// Whether nothing is known against it, it was never asked for with another lease than this watchdog's, and half of
    /// that is left.
    pub(crate) fn is_whole(&self, lease: Lease, now: Moment) -> bool {
        let Lease::Watched { lease, .. } = lease else { return false };
        let mut validity = self.validity.lock();
        let is_watched = !validity.renewals.is_empty() && validity.lease == lease && validity.longest == lease;
        let is_sure = !validity.uncertain && validity.change.is_none() && validity.lost(now).is_none();
        is_watched && is_sure && validity.until.since(now) >= lease / 2
    }

    /// It was taken once more: the lease only grows. Never revives a hold that was lost meanwhile. Returns the share.
    pub(crate) fn entered(&self, sent: Moment, lease: Lease, now: Moment) -> u64 {
        let mut validity = self.validity.lock();
        let share = next_number();
        validity.longest = validity.longest.max(lease.duration());
        if let Some(renewal) = lease.renewal(sent) {
            validity.renewals.push((share, renewal));
            validity.lease = renewal.0;
        }
        validity.confirm(sent, lease.duration(), now, true);
        share
    }

    /// An acquisition of it was confirmed like that: from here on all that moves its validity has to be.
    pub(crate) fn confirmed(&self, confirm: Option<Confirm>) {
        let mut validity = self.validity.lock();
        validity.confirm = validity.confirm.max(confirm);
    }

    pub(crate) fn confirm(&self) -> Option<Confirm> {
        self.validity.lock().confirm
    }

    /// This share was given back, or is not to be renewed any more.
    pub(crate) fn stop_renewing(&self, share: u64) {
        let mut validity = self.validity.lock();
        if let Some(at) = validity.renewal(share) {
            validity.renewals.remove(at);
        }
    }

    /// This share is renewed until then, if it is.
    pub(crate) fn renew_until(&self, share: u64, end: Option<Moment>) {
        let mut validity = self.validity.lock();
        let at = validity.renewal(share);
        if let Some((_, renewal)) = at.and_then(|at| validity.renewals.get_mut(at)) {
            renewal.1 = end;
        }
    }

    /// The server confirmed a lease that was sent at `sent`. Never revives a hold that was lost meanwhile.
    pub(crate) fn renewed(&self, sent: Moment, lease: Duration, now: Moment) {
        let mut validity = self.validity.lock();
        if !validity.confirm(sent, lease, now, false) {
            return;
        }
        drop(validity);
        self.ring();
        self.observers().for_each(|observer| observer.renewed());
    }

    /// Tells this one what becomes of it.
    pub(crate) fn tell(&self, observer: Weak<impl Observer + 'static>) {
        self.observers.lock().tell(observer);
    }

    /// (Not under the lock: what they do may ask for it.)
    fn observers(&self) -> impl Iterator<Item = Arc<dyn Observer>> {
        self.observers.lock().clone().all()
    }

    /// Its holder is about to set the lease exactly: from here on the shorter one counts.
    pub(crate) fn begin_change(&self, now: Moment, lease: Duration) {
        let mut validity = self.validity.lock();
        validity.until = validity.until.min(now.after(lease - margin(lease)));
        validity.longest = validity.longest.max(lease);
        validity.change = Some((lease, Moment::from_nanos(u64::MAX)));
        drop(validity);
        self.ring();
    }

    /// The change is over: confirmed by the copy sent at `sent`, if by any. Other copies may run until `doubt`.
    pub(crate) fn end_change(&self, sent: Option<Moment>, now: Moment, doubt: Option<Moment>) {
        let mut validity = self.validity.lock();
        let Some((lease, _)) = validity.change.take() else { return };
        if let Some(sent) = sent.filter(|_| validity.lost(now).is_none()) {
            validity.until = sent.after(lease - margin(lease));
        }
        validity.changed = Some(now);
        validity.change = doubt.map(|until| (lease, until));
        drop(validity);
        self.ring();
    }

    /// A renewal failed. `true`: that is new.
    pub(crate) fn doubted(&self) -> bool {
        let new = self.begin_doubt();
        self.ring();
        new
    }

    /// The same under a lock: nobody is rung for yet.
    pub(crate) fn begin_doubt(&self) -> bool {
        let mut validity = self.validity.lock();
        let new = !validity.uncertain && validity.lost.is_none();
        validity.uncertain = true;
        new
    }

    /// Whoever waits for a change looks. Wakers are anybody's code.
    pub(crate) fn ring(&self) {
        contain(|| self.changed.notify_waiters());
    }

    /// It is over.
    pub(crate) fn end(&self, why: LostReason) {
        let mut validity = self.validity.lock();
        let (why, held) = (*validity.lost.get_or_insert(why), validity.held.take());
        drop(validity);
        held.end(&self.keys.class, why.label());
        self.ring();
        self.observers().for_each(|observer| observer.ended());
    }

    /// Tells that it was lost: once, and not of one that was given back, or ended by force: who does that tells so.
    pub(crate) fn report_lost(&self, herald: &Herald) {
        self.ring();
        let why = self.validity.lock().lost.filter(|why| !matches!(why, LostReason::Released | LostReason::Forced));
        let Some(why) = why.filter(|_| !self.loss_reported.swap(true, Ordering::Relaxed)) else { return };
        let (name, owner) = (self.keys.name.to_string(), self.holder.to_string());
        herald.tell(match self.observers().any(|observer| observer.stands()) {
            true => Event::VoteLost { name, owner, why },
            false => Event::Lost { name, owner, why },
        });
    }

    pub(crate) fn standing(&self, now: Moment) -> Standing {
        let mut validity = self.validity.lock();
        match validity.lost(now) {
            Some(why) => Standing::over(why),
            None => Standing { sure: !validity.uncertain, left: validity.until.since(now), lost: None },
        }
    }

    pub(crate) fn state(&self, now: Moment) -> HoldState {
        self.standing(now).state()
    }

    /// Why it is lost, if it is.
    pub(crate) fn lost(&self, now: Moment) -> Option<LostReason> {
        self.validity.lock().lost(now)
    }

    /// What begins only while it is not lost.
    pub(crate) fn check(&self, now: Moment) -> Result<(), Lost> {
        self.lost(now).map_or(Ok(()), |why| Err(Lost { why }))
    }

    /// The lease that an inner release refreshes to, in milliseconds.
    pub(crate) fn lease_millis(&self) -> String {
        millis(self.validity.lock().lease).to_string()
    }

    /// So long the server may have it after the last call for it.
    pub(crate) fn longest(&self) -> Duration {
        self.validity.lock().longest
    }

    pub(crate) fn valid_until(&self) -> Moment {
        self.validity.lock().until
    }

    /// The lease to renew it by, if any of its shares wants that.
    pub(crate) fn renewable(&self, now: Moment) -> Option<Duration> {
        let validity = self.validity.lock();
        let wanted = validity.renewals.iter().filter(|(_, (_, end))| end.is_none_or(|end| now < end));
        wanted.map(|(_, (lease, _))| *lease).max()
    }

    /// What is left of its lease, if that is not sure: to be confirmed, where it is not renewed.
    pub(crate) fn unconfirmed(&self, now: Moment) -> Option<Duration> {
        let validity = self.validity.lock();
        Some(validity.until.since(now)).filter(|left| validity.uncertain && !left.is_zero())
    }

    pub(crate) fn is_bare(&self) -> bool {
        self.validity.lock().bare
    }

    pub(crate) fn set_bare(&self, bare: bool) {
        self.validity.lock().bare = bare;
    }

    /// Puts it at `due` in the watchdog's queue (`None`: takes it out), and says where it was.
    pub(crate) fn reschedule(&self, due: Option<Moment>) -> Option<Moment> {
        std::mem::replace(&mut self.validity.lock().due, due)
    }

    /// Whether the watchdog looks after it: it is not lost, as far as is known, nor on its way back.
    pub(crate) fn is_watched(&self) -> bool {
        self.validity.lock().due.is_some()
    }

    /// `true` when no renewal of it was under way.
    pub(crate) fn begin_renewal(&self) -> bool {
        !std::mem::replace(&mut self.validity.lock().renewing, true)
    }

    pub(crate) fn end_renewal(&self) {
        self.validity.lock().renewing = false;
    }

    /// Resolves when it is lost, and before the server would give it to another.
    pub(crate) async fn until_lost(self: Arc<Self>, clock: Clock) -> Lost {
        until_lost(|| vec![self.clone()], || self.standing(clock.now())).await
    }

    /// Runs work that must not outlive it.
    pub(crate) async fn run<F: Future>(self: &Arc<Self>, clock: Clock, work: F) -> Result<F::Output, Lost> {
        while_held(|| self.lost(clock.now()), self.clone().until_lost(clock), work).await
    }
}

/// Resolves when what stands by these leases is lost. Where the machine slept its timer is late: the watchdog, which
/// looks again and again, judges the deadlines in its place and rings.
pub(crate) async fn until_lost(leases: impl Fn() -> Vec<Arc<Leased>>, standing: impl Fn() -> Standing) -> Lost {
    loop {
        let leases = leases();
        let mut changed: Vec<_> = leases.iter().map(|leased| Box::pin(leased.changed.notified())).collect();
        for change in &mut changed {
            change.as_mut().enable();
        }
        let Standing { left, lost, .. } = standing();
        if let Some(why) = lost {
            return Lost { why };
        }
        tokio::select! {
            biased;
            _ = select_all(changed) => {}
            () = tokio::time::sleep(left) => {}
        }
    }
}

/// Runs work that must not outlive what is held: it is dropped when that is `lost`. Every poll judges first, and once
/// more when the work is done.
pub(crate) async fn while_held<F: Future>(
    why_lost: impl Fn() -> Option<LostReason>,
    lost: impl Future<Output = Lost>,
    work: F,
) -> Result<F::Output, Lost> {
    let (mut lost, mut work) = (pin!(lost), pin!(work));
    poll_fn(|context| {
        if let Poll::Ready(lost) = lost.as_mut().poll(context) {
            return Poll::Ready(Err(lost));
        }
        if let Some(why) = why_lost() {
            return Poll::Ready(Err(Lost { why }));
        }
        let output = std::task::ready!(work.as_mut().poll(context));
        Poll::Ready(why_lost().map_or(Ok(output), |why| Err(Lost { why })))
    })
    .await
}

impl Validity {
    /// Where this share is among those that are to be renewed.
    fn renewal(&self, share: u64) -> Option<usize> {
        self.renewals.binary_search_by_key(&share, |(number, _)| *number).ok()
    }

    /// Judged on every read: once lost, lost for good.
    fn lost(&mut self, now: Moment) -> Option<LostReason> {
        if self.lost.is_none() && now >= self.until {
            self.lost = Some(LostReason::Deadline);
        }
        self.lost
    }

    /// The server has given it this lease, or more, by a call that was sent at `sent`, alone or maybe beside a change.
    /// `false`: it was lost before.
    fn confirm(&mut self, sent: Moment, lease: Duration, now: Moment, is_alone: bool) -> bool {
        if self.lost(now).is_some() {
            return false;
        }
        self.uncertain = false;
        if !is_alone && self.changed.is_some_and(|changed| sent <= changed) {
            return true;
        }
        if self.change.as_ref().is_some_and(|(_, until)| *until < sent) {
            self.change = None;
        }
        let lease = self.change.map_or(lease, |(exact, _)| lease.min(exact));
        // Of a lease that is almost over less is left than the margin.
        self.until = self.until.max(sent.after(lease.saturating_sub(margin(lease))));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::keys::Naming;

    const LEASE: Duration = Duration::from_secs(30);
    const BEGAN: Moment = Moment::from_nanos(1);
    static SCRIPT: Script = Script::new("renew", "", &[]);

    fn leased(mark: &str, sent: Moment, lease: Lease) -> Arc<Leased> {
        let keys = Arc::new(Keys::new(&Naming::default(), "thing").unwrap());
        Leased::new(keys, ["holder".into(), mark.into()], 1, &SCRIPT, sent, lease)
    }

    fn watched(lease: Duration) -> Lease {
        Lease::Watched { lease, max_hold: None }
    }

    #[test]
    fn one_run_has_one_mark_and_one_beginning() {
        let of = |mark, sent| leased(mark, sent, watched(LEASE));
        let (first, later) = (of("run-1", BEGAN), BEGAN.after(LEASE));
        assert!(first.is_of_run(&of("run-1", BEGAN)));
        assert!(!first.is_of_run(&of("run-2", BEGAN)) && !first.is_of_run(&of("run-1", later)));
    }

    /// What may go on to another task without a script is renewed, by one lease all the time, and sure; half of it is
    /// left.
    #[test]
    fn what_is_whole_may_be_handed_on() {
        let lease = watched(LEASE);
        let whole = || leased("run-1", BEGAN, lease);
        assert!(whole().is_whole(lease, BEGAN));
        assert!(!whole().is_whole(Lease::Fixed(LEASE), BEGAN), "a lease of its own is not this one");
        assert!(!whole().is_whole(watched(LEASE * 2), BEGAN), "another lease");
        assert!(!leased("run-1", BEGAN, Lease::Fixed(LEASE)).is_whole(lease, BEGAN), "nobody renews it");
        let half = BEGAN.after(LEASE / 2);
        assert!(!whole().is_whole(lease, half), "less than half is left");
        let doubted = whole();
        doubted.doubted();
        assert!(!doubted.is_whole(lease, BEGAN));
        let lost = whole();
        lost.end(LostReason::Server);
        assert!(!lost.is_whole(lease, BEGAN));
        let longer = whole();
        longer.begin_change(BEGAN, LEASE * 2);
        assert!(!longer.is_whole(lease, BEGAN), "it is being changed");
        longer.end_change(Some(BEGAN), BEGAN, None);
        assert!(!longer.is_whole(lease, BEGAN), "the server may have it for longer");
        let given_back = whole();
        given_back.stop_renewing(given_back.id);
        assert!(!given_back.is_whole(lease, BEGAN));
    }

    #[test]
    fn a_change_shortens_at_once_and_lengthens_when_it_is_confirmed() {
        let hold = leased("mark", BEGAN, watched(LEASE));
        let (short, long) = (LEASE / 10, LEASE * 2);
        hold.begin_change(BEGAN, long);
        assert_eq!(hold.valid_until(), BEGAN.after(LEASE - margin(LEASE)));
        hold.end_change(Some(BEGAN), BEGAN, None);
        assert_eq!(hold.valid_until(), BEGAN.after(long - margin(long)));
        hold.begin_change(BEGAN, short);
        assert_eq!(hold.valid_until(), BEGAN.after(short - margin(short)), "before it is answered");
        assert_eq!(hold.longest(), long);
    }

    /// Copies of a change may run until then, and shorten what was confirmed meanwhile.
    #[test]
    fn a_change_without_an_answer_counts_until_no_copy_can_run() {
        let (hold, short) = (leased("mark", BEGAN, watched(LEASE)), LEASE / 10);
        let [last, behind] = [1, 2].map(|ms| BEGAN.after(Duration::from_millis(ms)));
        hold.begin_change(BEGAN, short);
        hold.end_change(None, BEGAN, Some(last));
        hold.renewed(last, LEASE, last);
        assert_eq!(hold.valid_until(), last.after(short - margin(short)));
        hold.renewed(behind, LEASE, behind);
        assert_eq!(hold.valid_until(), behind.after(LEASE - margin(LEASE)));
    }

    /// By the clock a renewal may have been sent at the very moment at which the change ended, and have come before it.
    #[test]
    fn what_was_not_sent_behind_a_change_says_nothing_of_it() {
        let (hold, short) = (leased("mark", BEGAN, watched(LEASE)), LEASE / 10);
        let [ended, behind] = [1, 2].map(|ms| BEGAN.after(Duration::from_millis(ms)));
        hold.begin_change(BEGAN, short);
        hold.end_change(Some(BEGAN), ended, None);
        hold.renewed(ended, LEASE, ended);
        assert_eq!(hold.valid_until(), BEGAN.after(short - margin(short)));
        hold.renewed(behind, LEASE, behind);
        assert_eq!(hold.valid_until(), behind.after(LEASE - margin(LEASE)));
    }

    #[test]
    fn what_is_unsure_is_confirmed_while_something_is_left() {
        let hold = leased("mark", BEGAN, Lease::Fixed(LEASE));
        assert_eq!(hold.unconfirmed(BEGAN), None);
        assert!(hold.doubted() && !hold.doubted(), "new once");
        assert_eq!(hold.unconfirmed(BEGAN), Some(LEASE - margin(LEASE)));
        assert_eq!(hold.unconfirmed(BEGAN.after(LEASE)), None);
    }

    /// Less than the margin may be left of it, which is added to nothing then.
    #[test]
    fn what_is_almost_over_is_confirmed_for_nothing_more() {
        let hold = leased("mark", BEGAN, Lease::Fixed(LEASE));
        let (until, left) = (hold.valid_until(), Duration::from_millis(1));
        let almost = BEGAN.after(LEASE - margin(LEASE) - left);
        assert!(hold.doubted());
        assert_eq!(hold.unconfirmed(almost), Some(left));
        hold.renewed(almost, left, almost);
        assert_eq!(hold.valid_until(), until);
    }

    #[test]
    fn a_changed_lease_keeps_its_own_length_where_both_are_watched() {
        let limit = Some(Duration::from_secs(5));
        let (own, other) = (watched(LEASE), Lease::Watched { lease: LEASE * 2, max_hold: limit });
        let Lease::Watched { lease, max_hold } = own.changed(other) else { panic!("it is watched") };
        assert_eq!((lease, max_hold), (LEASE, limit));
        assert!(matches!(own.changed(Lease::Fixed(LEASE / 2)), Lease::Fixed(fixed) if fixed == LEASE / 2));
    }

    /// Up to its end, and not at it.
    #[test]
    fn what_is_renewed_for_a_while_is_not_any_more() {
        let limit = Duration::from_secs(7);
        let limited = leased("mark", BEGAN, Lease::Watched { lease: LEASE, max_hold: Some(limit) });
        let last = BEGAN.after(limit - Duration::from_nanos(1));
        assert_eq!((limited.renewable(last), limited.renewable(BEGAN.after(limit))), (Some(LEASE), None));
    }
}
