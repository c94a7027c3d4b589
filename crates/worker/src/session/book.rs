//! Which node each attempt belongs to, and until when.
//!
//! The worker itself knows what it has in hand; here stands beside each attempt who assigned it, so that what it says
//! goes to whoever can settle it, and so that it is stopped when that node has not heard the worker for a lease: by
//! then the node has given it up, and may have started it elsewhere.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, Report};
use punctual_core::ids::{RunId, Token};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::time::Instant;

use super::LinkId;

pub(crate) type Key = (RunId, Token);

/// An assignment is in the worker's hand by then, or never will be.
const TAKEN_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Book {
    entries: FxHashMap<Key, Entry>,
    /// Attempts that are not over.
    busy: usize,
}

#[derive(Debug)]
struct Entry {
    /// Who assigned it last.
    owner: LinkId,
    lease: Duration,
    /// When it was last assigned: the node knew then that we live.
    since: Instant,
    started: Option<Timestamp>,
    ended: bool,
    /// Its outcome was sent before.
    told: bool,
    /// Chunks of its output that nobody has acknowledged.
    unwritten: usize,
    /// Its outcome, which waits for its output to be kept.
    held: Option<(Report, Instant)>,
}

impl Book {
    /// Attempts that take a slot.
    pub(crate) fn busy(&self) -> usize {
        self.busy
    }

    /// It may have been assigned before, by this node or another.
    pub(crate) fn assigned(&mut self, assignment: &Assignment, owner: LinkId, now: Instant) {
        let key = (assignment.run, assignment.token);
        if let Some(known) = self.entries.get_mut(&key) {
            (known.owner, known.since, known.lease) = (owner, now, assignment.lease);
            return;
        }
        self.busy += 1;
        let entry = Entry {
            owner,
            lease: assignment.lease,
            since: now,
            started: None,
            ended: false,
            told: false,
            unwritten: 0,
            held: None,
        };
        self.entries.insert(key, entry);
    }

    pub(crate) fn forget(&mut self, key: Key) {
        if let Some(entry) = self.entries.remove(&key) {
            self.busy -= usize::from(!entry.ended);
        }
    }

    /// The worker says what it has in hand. What was assigned a while ago and is not there, it does not have.
    pub(crate) fn reconcile(&mut self, in_hand: &[Key], now: Instant) {
        let named: FxHashSet<Key> = in_hand.iter().copied().collect();
        let busy = &mut self.busy;
        self.entries.retain(|key, entry| {
            let stays = named.contains(key) || now.duration_since(entry.since) < TAKEN_MAX;
            *busy -= usize::from(!stays && !entry.ended);
            stays
        });
    }

    /// Who assigned an attempt.
    pub(crate) fn owner(&self, key: Key) -> Option<LinkId> {
        self.entries.get(&key).map(|entry| entry.owner)
    }

    /// A report on its way out: to whom, and whether it may go now. None: it is held until its output is kept.
    pub(crate) fn says(&mut self, report: Report, now: Instant) -> Option<(Audience, Report)> {
        match &report {
            Report::Started { run, token, at } => {
                let Some(entry) = self.entries.get_mut(&(*run, *token)) else {
                    return Some((Audience::Everyone, report));
                };
                entry.started = Some(*at);
                Some((Audience::Owner(entry.owner), report))
            }
            Report::Progress { run, token, .. } => {
                Some((self.owner((*run, *token)).map_or(Audience::Everyone, Audience::Owner), report))
            }
            Report::Finished { run, token, .. } => {
                let Some(entry) = self.entries.get_mut(&(*run, *token)) else {
                    return Some((Audience::Everyone, report));
                };
                self.busy -= usize::from(!std::mem::replace(&mut entry.ended, true));
                if entry.unwritten > 0 && !entry.told {
                    entry.held = Some((report, now));
                    return None;
                }
                // Nobody acknowledged it: whoever assigned it may not be the one to do so any more.
                let again = std::mem::replace(&mut entry.told, true);
                let audience = if again { Audience::Everyone } else { Audience::Owner(entry.owner) };
                Some((audience, report))
            }
            _ => Some((Audience::Everyone, report)),
        }
    }

    /// A chunk of output is on its way.
    pub(crate) fn prints(&mut self, key: Key) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.unwritten += 1;
        }
    }

    /// A chunk is kept, or lost. Gives the outcome that waited for it.
    pub(crate) fn printed(&mut self, key: Key) -> Option<(Audience, Report)> {
        let entry = self.entries.get_mut(&key)?;
        entry.unwritten = entry.unwritten.saturating_sub(1);
        if entry.unwritten > 0 {
            return None;
        }
        Self::release(entry)
    }

    fn release(entry: &mut Entry) -> Option<(Audience, Report)> {
        let (report, _) = entry.held.take()?;
        entry.told = true;
        Some((Audience::Owner(entry.owner), report))
    }

    /// The outcomes whose output has not been kept for so long: they go without it.
    pub(crate) fn held_since(&mut self, before: Instant) -> Vec<(Audience, Report)> {
        let entries = self.entries.values_mut();
        let late = entries.filter(|entry| entry.held.as_ref().is_some_and(|(_, since)| *since <= before));
        late.filter_map(Self::release).collect()
    }

    /// When the first outcome began to wait for its output.
    pub(crate) fn first_held(&self) -> Option<Instant> {
        self.entries.values().filter_map(|entry| entry.held.as_ref().map(|(_, since)| *since)).min()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The starts of what is under way for a node: it may have missed them.
    pub(crate) fn starts(&self, owner: LinkId) -> Vec<Report> {
        let running = self.entries.iter().filter(|(_, entry)| !entry.ended && entry.owner == owner);
        running
            .filter_map(|(&(run, token), entry)| Some(Report::Started { run, token, at: entry.started? }))
            .collect()
    }

    /// The attempts that nobody who could settle them has heard us about for a lease. `heard` says when a node last
    /// did.
    pub(crate) fn overdue(&self, now: Instant, heard: impl Fn(LinkId) -> Option<Instant>) -> Vec<Key> {
        let mut overdue: Vec<Key> = self
            .entries
            .iter()
            .filter(|(_, entry)| !entry.ended && entry.deadline(&heard) <= now)
            .map(|(key, _)| *key)
            .collect();
        overdue.sort_unstable();
        overdue
    }
}

impl Entry {
    fn deadline(&self, heard: impl Fn(LinkId) -> Option<Instant>) -> Instant {
        heard(self.owner).map_or(self.since, |heard| heard.max(self.since)) + self.lease
    }
}

/// Who is to hear a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    Owner(LinkId),
    Everyone,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual_core::attempt::Outcome;
    use punctual_core::job::Definition;
    use punctual_core::name::Namespace;
    use punctual_core::run::{Part, Trigger};
    use punctual_core::task::{Params, Task};

    use super::*;

    const LEASE: Duration = Duration::from_secs(15);
    const A: LinkId = LinkId(1);
    const B: LinkId = LinkId(2);
    const KEY: Key = (RunId(1), Token(1));

    fn assignment((run, token): Key) -> Assignment {
        Assignment {
            run,
            token,
            attempt: 1,
            namespace: Namespace::default(),
            job: None,
            revision: None,
            trigger: Trigger::Manual,
            key: None,
            due: Timestamp::from_millis(7),
            late_from: Timestamp::from_millis(7),
            definition: Arc::new(Definition::of(Task::Noop)),
            params: Params::default(),
            part: Part::default(),
            lease: LEASE,
            again: false,
        }
    }

    fn finished((run, token): Key) -> Report {
        Report::Finished { run, token, outcome: Outcome::succeeded(Timestamp::from_millis(7)) }
    }

    fn book(now: Instant) -> Book {
        let mut book = Book::default();
        book.assigned(&assignment(KEY), A, now);
        book
    }

    #[test]
    fn an_attempt_is_overdue_when_its_node_has_not_heard_us_for_a_lease() {
        let now = Instant::now();
        let book = book(now);
        assert_eq!(book.overdue(now + LEASE, |_| None), [KEY]);
        let heard = |link| (link == A).then_some(now + LEASE / 2);
        assert!(book.overdue(now + LEASE, heard).is_empty());
        assert_eq!(book.overdue(now + LEASE * 3 / 2, heard), [KEY]);
    }

    #[test]
    fn whoever_offers_it_again_is_the_one_to_hear_us() {
        let now = Instant::now();
        let mut book = book(now);
        book.assigned(&assignment(KEY), B, now + LEASE / 2);
        assert_eq!((book.busy(), book.owner(KEY)), (1, Some(B)));
        assert!(book.overdue(now + LEASE, |_| None).is_empty());
    }

    #[test]
    fn an_outcome_goes_to_whoever_assigned_it_and_then_to_everyone() {
        let now = Instant::now();
        let mut book = book(now);
        assert_eq!(book.says(finished(KEY), now), Some((Audience::Owner(A), finished(KEY))));
        assert_eq!(book.busy(), 0, "its slot is free");
        assert_eq!(book.says(finished(KEY), now), Some((Audience::Everyone, finished(KEY))));
        assert!(
            book.overdue(now + LEASE, |_| None).is_empty(),
            "an outcome is kept until it is acknowledged"
        );
    }

    #[test]
    fn an_outcome_waits_for_its_output_but_not_for_ever() {
        let now = Instant::now();
        let mut book = book(now);
        book.prints(KEY);
        book.prints(KEY);
        assert_eq!(book.says(finished(KEY), now), None);
        assert_eq!(book.printed(KEY), None);
        assert_eq!(book.printed(KEY), Some((Audience::Owner(A), finished(KEY))));
        let other = (RunId(2), Token(1));
        book.assigned(&assignment(other), A, now);
        book.prints(other);
        assert_eq!(book.says(finished(other), now), None);
        assert_eq!(book.first_held(), Some(now));
        assert_eq!(book.held_since(now), [(Audience::Owner(A), finished(other))]);
    }

    #[test]
    fn what_the_worker_does_not_have_is_not_waited_for() {
        let now = Instant::now();
        let mut book = book(now);
        let later = (RunId(2), Token(1));
        book.assigned(&assignment(later), A, now + TAKEN_MAX);
        book.reconcile(&[], now + TAKEN_MAX);
        assert_eq!(
            (book.owner(KEY), book.owner(later), book.busy()),
            (None, Some(A), 1),
            "that one may be under way"
        );
        book.reconcile(&[later], now + 3 * TAKEN_MAX);
        assert_eq!(book.owner(later), Some(A));
    }
}
