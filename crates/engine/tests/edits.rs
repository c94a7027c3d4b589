//! Edits at the very fire time: either the old or the new definition decides each due time, never both, never neither.

use std::sync::Arc;

use proptest::prelude::*;
use punctual_core::Timestamp;
use punctual_core::change::{Row, RowKey, SkipReason};
use punctual_core::command::{Answer, Command, Expect, Made, PutJob, Refusal};
use punctual_core::ids::JobId;
use punctual_core::job::{Definition, Job, Misfire, MisfirePolicy, Overlap, State};
use punctual_core::run::{Origin, Run, Status};
use punctual_core::schedule::Schedule;

use crate::support::{Rig, at, delete, every, manual, on, once_at, pause, put, resume, seconds, span};

fn revision(run: &Run) -> u32 {
    match run.origin {
        Origin::Job { revision, .. } => revision,
        Origin::AdHoc(_) => 0,
    }
}

#[test]
fn a_due_time_at_the_edit_is_the_old_definitions() {
    let mut rig = Rig::new(0);
    rig.put("job", on([every("10s")]));
    rig.pass("10s");
    rig.put("job", on([every("5s")]));
    rig.advance("10s");
    let decided: Vec<_> = rig.runs("job").iter().map(|run| (seconds(run.due), revision(run))).collect();
    assert_eq!(decided, [(10, 1), (15, 2), (20, 2)]);
}

#[test]
fn a_pause_at_the_due_time_comes_after_the_fire_and_a_resume_before_it() {
    let mut rig = Rig::new(0);
    rig.put("job", on([every("10s")]));
    rig.pass("10s");
    rig.ask(pause("job")).expect("paused");
    rig.pass("20s");
    rig.ask(resume("job")).expect("resumed");
    assert_eq!((rig.dues("job"), rig.skipped()), (vec![10], vec![(20, 30)]));
    assert!(rig.skips().iter().all(|skip| skip.reason == SkipReason::Paused));
    rig.advance("10s");
    assert_eq!(rig.dues("job"), [10, 40]);
}

#[test]
fn a_delete_at_the_due_time_comes_after_the_fire() {
    let mut rig = Rig::new(0);
    rig.put("job", on([every("10s")]));
    rig.pass("10s");
    rig.ask(delete("job")).expect("deleted");
    rig.advance("1m");
    assert_eq!((rig.dues("job"), rig.statuses("job")), (vec![10], vec![Status::Cancelled]));
}

#[test]
fn an_edit_between_a_due_time_and_its_jitter_loses_nothing() {
    for edit in [put("job", on([every("1h")])), pause("job"), delete("job")] {
        let mut rig = Rig::new(0);
        let job = rig.put("job", on([Schedule { jitter: span("30m"), ..once_at("10s") }]));
        assert!(job.cursor.wake_at > Some(at("11s")), "a due time that hash puts off");
        rig.advance("11s");
        rig.ask(edit).expect("edited");
        assert_eq!(rig.dues("job"), [10]);
    }
}

#[test]
fn what_fell_into_a_pause_is_on_record_over_an_edit() {
    let mut rig = Rig::new(0);
    rig.put("job", on([every("10s")]));
    rig.ask(pause("job")).expect("paused");
    rig.advance("25s");
    rig.put("job", on([every("6s")]));
    rig.advance("10s");
    rig.ask(resume("job")).expect("resumed");
    assert_eq!(rig.skipped(), [(10, 20), (30, 30)]);
}

#[test]
fn a_planned_due_time_that_an_edit_drops_is_on_record() {
    let mut rig = Rig::new(0);
    rig.put("job", on([once_at("100s")]));
    rig.advance("10s");
    rig.put("job", on([once_at("200s")]));
    let dropped: Vec<_> =
        rig.skips().iter().map(|skip| (skip.revision, seconds(skip.from), skip.reason)).collect();
    assert_eq!(dropped, [(1, 100, SkipReason::Edited)]);
    // Back to the first schedule and away again: the same instant, under another revision.
    rig.put("job", on([once_at("100s")]));
    rig.put("job", on([once_at("300s")]));
    let dropped: Vec<_> = rig.skips().iter().map(|skip| (skip.revision, seconds(skip.from))).collect();
    assert_eq!(dropped, [(1, 100), (2, 200), (3, 100)]);
}

#[test]
fn an_edit_that_keeps_the_planned_due_time_drops_nothing() {
    let mut rig = Rig::new(0);
    rig.put("job", on([every("10s")]));
    rig.put("job", on([every("5s")]));
    rig.put("job", Definition { priority: 7, ..on([every("5s")]) });
    rig.ask(pause("job")).expect("paused");
    rig.put("job", on([every("7s")]));
    assert_eq!(rig.skips(), []);
}

#[test]
fn a_pause_a_resume_and_a_deletion_are_revisions() {
    let mut rig = Rig::new(0);
    let job = rig.put("job", on([every("10s")]));
    rig.advance("1s");
    rig.ask(pause("job")).expect("paused");
    rig.ask(pause("job")).expect("paused already");
    rig.advance("1s");
    rig.ask(resume("job")).expect("resumed");
    rig.advance("1s");
    rig.ask(delete("job")).expect("deleted");
    let revisions = rig.rows.all().filter_map(|row| match row {
        Row::Revision(revision) => Some((revision.revision, seconds(revision.at), revision.state)),
        _ => None,
    });
    let mut revisions: Vec<_> = revisions.collect();
    revisions.sort_by_key(|revision| revision.0);
    let expected =
        [(1, 0, State::Active), (2, 1, State::Paused), (3, 2, State::Active), (4, 3, State::Deleted)];
    assert_eq!(revisions, expected);
    assert_eq!(job.revision, 1);
}

#[test]
fn a_definition_put_again_changes_nothing() {
    let mut rig = Rig::new(0);
    rig.put("job", on([every("10s")]));
    let batches = rig.batches.len();
    let answer = rig.ask(put("job", on([every("10s")])));
    assert!(matches!(answer, Ok(Answer::Job { made: Made::Unchanged, .. })));
    assert_eq!(rig.batches.len(), batches);
}

#[test]
fn an_edit_that_expects_another_revision_is_refused() {
    let mut rig = Rig::new(0);
    rig.put("job", manual());
    let expecting = |expect| match put("job", on([every("10s")])) {
        Command::PutJob(put) => Command::PutJob(PutJob { expect, ..put }),
        other => other,
    };
    assert!(matches!(rig.ask(expecting(Expect::Absent)), Err(Refusal::JobExists(_))));
    assert!(matches!(rig.ask(expecting(Expect::Revision(7))), Err(Refusal::WrongRevision { .. })));
    assert!(rig.ask(expecting(Expect::Revision(1))).is_ok());
}

#[test]
fn a_job_made_again_under_its_name_is_another_job() {
    let mut rig = Rig::new(0);
    let old = rig.put("job", on([every("10s")]));
    rig.pass("10s");
    rig.ask(delete("job")).expect("deleted");
    let new = rig.put("job", on([every("10s")]));
    assert_ne!(old.id, new.id);
    assert!(matches!(rig.rows.get(new.shard(), &RowKey::Job(new.id)), Some(Row::Job(_))));
    rig.advance("10s");
    assert_eq!(rig.dues("job"), [10, 20]);
}

/// What decides due times: a revision of a job, active or paused, after one instant and up to another.
#[derive(Debug)]
struct Reign {
    job: Arc<Job>,
    from: Timestamp,
    to: Timestamp,
}

/// What became of a due time: the job and revision that decided it, and whether it was passed over.
type Fate = (JobId, Timestamp, u32, bool);

impl Reign {
    /// The due times after one instant and up to another.
    fn dues(&self, after: Timestamp, to: Timestamp) -> Vec<Timestamp> {
        let schedules = &self.job.definition.schedules;
        let next =
            |after: &Timestamp| schedules.iter().filter_map(|s| s.next(*after, self.job.created_at)).min();
        std::iter::successors(next(&after), next).take_while(|due| *due <= to).collect()
    }

    fn fates(&self) -> impl Iterator<Item = Fate> {
        let dues = self.dues(self.from, self.to).into_iter();
        dues.map(|due| (self.job.id, due, self.job.revision, self.job.is_paused()))
    }
}

/// What the rows say: every run, and every due time within a range record.
fn recorded(rig: &Rig, reigns: &[Reign]) -> Vec<Fate> {
    let runs =
        rig.runs("job").into_iter().filter_map(|run| Some((run.job()?, run.due, revision(&run), false)));
    // A planned due time that an edit dropped had not come: no revision decided it.
    let passed_over = rig.skips().into_iter().filter(|skip| skip.reason != SkipReason::Edited);
    let skips = passed_over.flat_map(|skip| {
        let of = reigns.iter().find(|reign| (reign.job.id, reign.job.revision) == (skip.job, skip.revision));
        let dues = of.expect("a revision that was").dues(skip.from.before(span("1ms")), skip.to);
        dues.into_iter().map(move |due| (skip.job, due, skip.revision, true))
    });
    let mut fates: Vec<Fate> = runs.chain(skips).collect();
    fates.sort();
    fates
}

fn definition(index: usize) -> Definition {
    let schedules = match index {
        0 => vec![every("2s")],
        1 => vec![every("5s"), every("3s")],
        2 => vec![once_at("20s"), once_at("41s")],
        3 => vec![Schedule { start: Some(at("7s")), end: Some(at("50s")), ..every("4s") }],
        4 => vec![Schedule { jitter: span("4s"), ..every("3s") }],
        _ => vec![],
    };
    let misfire = Misfire { policy: MisfirePolicy::All, ..Misfire::default() };
    Definition { misfire, overlap: Overlap::Allow, ..on(schedules) }
}

fn edit(number: usize) -> Command {
    match number {
        6 => pause("job"),
        7 => resume("job"),
        8 => delete("job"),
        index => put("job", definition(index)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whole seconds, so that most edits meet a due time; timers are looked at on the way or only after the edit.
    #[test]
    fn each_due_time_is_decided_once(
        edits in prop::collection::vec((0usize..9, 0u64..7, any::<bool>(), any::<bool>()), 1..30),
    ) {
        let mut rig = Rig::new(1);
        let mut reigns: Vec<Reign> = Vec::new();
        for (number, wait, looks, reloads) in edits {
            let wait = format!("{wait}s");
            if looks { rig.advance(&wait) } else { rig.pass(&wait) }
            if reloads {
                rig.reload();
            }
            // An edit of a missing job is refused and changes nothing.
            let _ = rig.ask(edit(number));
            let (from, to) = (rig.now, Timestamp::MAX);
            reigns.iter_mut().for_each(|reign| reign.to = reign.to.min(from));
            reigns.extend(rig.job("job").map(|job| Reign { job, from, to }));
        }
        rig.advance("20s");
        let end = rig.now;
        reigns.iter_mut().for_each(|reign| reign.to = reign.to.min(end));
        // What fell into a last pause is on record when it ends, and what jitter put off has come a little later.
        let _ = rig.ask(resume("job"));
        rig.advance("5s");

        let mut expected: Vec<Fate> = reigns.iter().flat_map(Reign::fates).collect();
        expected.sort();
        let seen: Vec<Fate> = recorded(&rig, &reigns).into_iter().filter(|(_, due, ..)| *due <= end).collect();
        prop_assert_eq!(seen, expected);
    }
}
