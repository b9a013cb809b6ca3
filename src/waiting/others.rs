//! The other processes that want a lock: how long this one stands aside for them behind a run of its own. Rule 16 of
//! docs/PROTOCOL.md.

use std::time::Duration;

use crate::base::clock::Moment;

/// How long a process stands aside for the next of the others at most, when the last one that it stood aside for came
/// ..
const LONGEST: Duration = Duration::from_millis(50);
/// .. and when none came for a while: whoever listens need not wait.
const SHORTEST: Duration = Duration::from_millis(2);
/// How often it stands aside in vain before it waits shorter than any of them was seen to need.
const PATIENCE: u32 = 8;
/// How long where no message tells whether anybody else waits.
const BLIND: Duration = Duration::from_micros(300);

/// Standing aside, now.
#[derive(Debug)]
struct Aside {
    /// When the last message came, at first our own release.
    since: Moment,
    /// When the next message has to come.
    until: Moment,
    /// Messages to come: one from each of the others, and one more when our own release is heard too. `None`: no
    /// message tells.
    left: Option<u32>,
    /// Runs of others that were heard of.
    came: u32,
    /// Whether our own release is still to be heard.
    own: bool,
}

/// What is known of them once one was heard of.
#[derive(Debug, Default)]
struct Known {
    aside: Option<Aside>,
    /// How many listened the last time.
    listeners: u32,
    /// How many came the last time that fewer came than listened.
    rivals: Option<u32>,
    /// How long the next of them is waited for; `None`: as long as any.
    span: Option<Duration>,
    /// The longest that one of them took to come, have its run and be heard of.
    need: Duration,
    /// How often none came since one did.
    vain: u32,
}

/// What is known of the other processes that want a lock: of most locks nothing, which takes no memory.
#[derive(Debug, Default)]
pub(crate) struct Others(Option<Box<Known>>);

impl Others {
    /// The last release of a run: each of the `listening` goes first. (The server tells all of them, but always in one
    /// order: whoever comes first in it would win every time.) Where nobody can tell (`None`), they get a chance, no
    /// more.
    pub(crate) fn begin(&mut self, now: Moment, own: bool, listening: Option<u32>) {
        if listening == Some(0) {
            self.0 = None;
            return;
        }
        let known = self.0.get_or_insert_default();
        let Some(listening) = listening else {
            known.aside = Some(Aside { since: now, until: now.after(BLIND), left: None, came: 0, own: false });
            return;
        };
        if listening > known.listeners {
            // Of a newcomer nothing is known, whatever the others did.
            (known.span, known.rivals, known.vain) = (None, None, 0);
        }
        known.listeners = listening;
        let left = known.rivals.map_or(listening, |rivals| rivals.clamp(1, listening)) + u32::from(own);
        known.aside = Some(Aside { since: now, until: now.after(known.span()), left: Some(left), came: 0, own });
    }

    /// A message came while standing aside.
    pub(crate) fn heard(&mut self, now: Moment) {
        if let Some(known) = &mut self.0 {
            known.heard(now);
        }
    }

    /// How many listened the last time.
    pub(super) fn listeners(&self) -> u32 {
        self.0.as_ref().map_or(0, |known| known.listeners)
    }

    /// Until when to stand aside, unless it is over before.
    pub(crate) fn until(&self) -> Option<Moment> {
        self.aside().map(|aside| aside.until)
    }

    /// Whether a message tells when it is over: else it is not worth a subscription.
    pub(crate) fn is_heard(&self) -> bool {
        self.aside().is_some_and(|aside| aside.left.is_some())
    }

    fn aside(&self) -> Option<&Aside> {
        self.0.as_ref()?.aside.as_ref()
    }

    /// This process has it.
    pub(super) fn stop(&mut self) {
        if let Some(known) = &mut self.0 {
            known.aside = None;
        }
    }

    /// No more of them come.
    pub(crate) fn end(&mut self) {
        if let Some(known) = &mut self.0 {
            known.end();
        }
    }

    /// Another process has it: it came.
    pub(super) fn have_it(&mut self) {
        if let Some(known) = &mut self.0 {
            (known.aside, known.span, known.rivals, known.vain) = (None, None, None, 0);
        }
    }
}

impl Known {
    fn span(&self) -> Duration {
        self.span.unwrap_or(LONGEST)
    }

    fn heard(&mut self, now: Moment) {
        let span = self.span();
        let Some(Aside { since, until, left: Some(left), came, own }) = &mut self.aside else { return };
        *left -= 1;
        if !std::mem::take(own) {
            *came += 1;
            self.need = self.need.max(now.since(*since).min(LONGEST));
            self.vain = 0;
            *since = now;
            *until = now.after(span);
        }
        if *left == 0 {
            self.aside = None;
            self.span = None;
        }
    }

    /// Who comes rarely is far away, or listens only: it is waited for no longer than it needs, and one that never
    /// comes not even so long.
    fn end(&mut self) {
        let Some(Aside { left: Some(_), came, .. }) = self.aside.take() else { return };
        self.rivals = Some(came);
        if came > 0 {
            self.span = None;
            return;
        }
        self.vain += 1;
        let least = if self.vain > PATIENCE { SHORTEST } else { self.need.max(SHORTEST) };
        self.span = Some((self.span() / 2).max(least));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Stands aside for one that does not come, and says for how long.
    fn in_vain(others: &mut Others, now: Moment, listening: u32) -> Duration {
        others.begin(now, false, Some(listening));
        let span = others.until().map(|until| until.since(now));
        others.end();
        span.unwrap_or_default()
    }

    #[test]
    fn a_distant_rival_is_waited_for_as_long_as_it_needs() {
        let (mut others, now) = (Others::default(), Moment::from_nanos(1));
        others.begin(now, true, Some(1));
        // Our own release is heard first.
        others.heard(now.after(MS));
        others.heard(now.after(11 * MS));
        assert!(others.until().is_none());
        for span in [50 * MS, 25 * MS, 25 * MS / 2, 11 * MS, 11 * MS, 11 * MS, 11 * MS, 11 * MS, 11 * MS] {
            assert_eq!(in_vain(&mut others, now, 1), span);
        }
        let last = (0..10).map(|_| in_vain(&mut others, now, 1)).last();
        assert_eq!(last, Some(SHORTEST), "one that never comes costs little");
    }

    /// Three listened and two came: two are waited for from then on, and as long as any.
    #[test]
    fn as_many_are_waited_for_as_came() {
        let (mut others, now) = (Others::default(), Moment::from_nanos(1));
        others.begin(now, false, Some(3));
        (0..2).for_each(|_| others.heard(now));
        others.end();
        others.begin(now, false, Some(3));
        assert_eq!(others.until(), Some(now.after(LONGEST)));
        others.heard(now);
        assert!(others.until().is_some());
        others.heard(now);
        assert!(others.until().is_none());
    }

    #[test]
    fn a_newcomer_is_waited_for_however_rarely_the_others_came() {
        let (mut others, now) = (Others::default(), Moment::from_nanos(1));
        for _ in 0..20 {
            in_vain(&mut others, now, 1);
        }
        assert_eq!(in_vain(&mut others, now, 1), SHORTEST);
        assert_eq!(in_vain(&mut others, now, 2), LONGEST);
    }

    #[test]
    fn who_says_nothing_is_not_listened_to() {
        let (mut others, now) = (Others::default(), Moment::from_nanos(1));
        others.begin(now, false, None);
        assert!(others.until() == Some(now.after(BLIND)) && !others.is_heard());
        others.heard(now);
        assert!(others.until().is_some(), "a message is of somebody else");
        others.end();
        others.begin(now, false, Some(1));
        assert!(others.is_heard());
    }

    #[test]
    fn who_is_alone_does_not_stand_aside() {
        let (mut others, now) = (Others::default(), Moment::from_nanos(1));
        in_vain(&mut others, now, 1);
        others.begin(now, true, Some(0));
        assert!(others.until().is_none());
        assert_eq!(in_vain(&mut others, now, 1), LONGEST);
    }
}
