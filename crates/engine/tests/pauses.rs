//! Pauses of jobs: with a reason, until an instant, and after failed runs in a row.

use punctual_core::Timestamp;
use punctual_core::change::Row;
use punctual_core::command::{Answer, Made, Refusal};
use punctual_core::job::{Definition, Overlap, State};
use punctual_core::limits::PAUSE_MAX;

use crate::support::{Rig, at, every, manual, on, pause, pause_for, resume, seconds, span};

fn every_ten_seconds() -> Definition {
    Definition { overlap: Overlap::Allow, ..on([every("10s")]) }
}

fn told(rig: &Rig) -> Option<String> {
    rig.job("job").expect("the job exists").pause.as_ref().map(|pause| pause.told())
}

fn until(rig: &Rig) -> Option<Timestamp> {
    rig.job("job").expect("the job exists").pause.as_ref().and_then(|pause| pause.until)
}

#[test]
fn a_pause_keeps_its_reason() {
    let mut rig = Rig::new(4);
    rig.put("job", every_ten_seconds());
    rig.ask(pause_for("job", "the bank is closed", None)).expect("paused");
    rig.reload();
    assert_eq!(told(&rig).as_deref(), Some("paused by ops: the bank is closed"));
    rig.ask(pause("job")).expect("paused already");
    assert_eq!(told(&rig).as_deref(), Some("paused by ops: the bank is closed"), "no reason replaces none");
    rig.ask(pause_for("job", "the bank is on strike", None)).expect("paused for another reason");
    assert_eq!(told(&rig).as_deref(), Some("paused by ops: the bank is on strike"));
    rig.ask(resume("job")).expect("resumed");
    assert_eq!(told(&rig), None);
}

#[test]
fn the_same_pause_twice_changes_nothing() {
    let mut rig = Rig::new(4);
    rig.put("job", every_ten_seconds());
    let ask = pause_for("job", "strike", Some(at("60s")));
    rig.ask(ask.clone()).expect("paused");
    rig.advance("5s");
    assert!(matches!(rig.ask(ask), Ok(Answer::Job { made: Made::Unchanged, .. })));
}

#[test]
fn a_pause_ends_at_its_instant() {
    let mut rig = Rig::new(9);
    rig.put("job", every_ten_seconds());
    rig.advance("15s");
    rig.ask(pause_for("job", "", Some(at("35s")))).expect("paused");
    rig.reload();
    rig.advance("40s");
    assert_eq!(rig.dues("job"), [10, 40, 50]);
    assert_eq!(rig.skipped(), [(20, 30)]);
    assert_eq!(told(&rig), None);
}

#[test]
fn due_times_after_the_end_of_a_pause_are_missed_not_paused() {
    let mut rig = Rig::new(9);
    rig.put("job", every_ten_seconds());
    rig.ask(pause_for("job", "", Some(at("25s")))).expect("paused");
    rig.outage("60s");
    assert_eq!(rig.dues("job"), [50, 60], "the misfire policy makes up for the newest");
    assert_eq!(rig.skipped(), [(10, 20), (30, 40)]);
}

#[test]
fn an_edit_after_the_end_of_a_pause_finds_the_job_active() {
    let mut rig = Rig::new(9);
    rig.put("job", every_ten_seconds());
    rig.ask(pause_for("job", "", Some(at("25s")))).expect("paused");
    rig.pass("25s");
    rig.put("job", Definition { priority: 7, ..every_ten_seconds() });
    let revisions = rig.rows.all().filter_map(|row| match row {
        Row::Revision(revision) => Some((revision.revision, seconds(revision.at), revision.state)),
        _ => None,
    });
    let mut revisions: Vec<_> = revisions.collect();
    revisions.sort_by_key(|revision| revision.0);
    let expected =
        [(1, 0, State::Active), (2, 0, State::Paused), (3, 25, State::Active), (4, 25, State::Active)];
    assert_eq!(revisions, expected);
}

#[test]
fn another_end_replaces_that_of_a_pause() {
    let mut rig = Rig::new(9);
    rig.put("job", every_ten_seconds());
    rig.ask(pause_for("job", "", Some(at("25s")))).expect("paused");
    rig.ask(pause_for("job", "", Some(at("45s")))).expect("paused for longer");
    rig.advance("40s");
    assert_eq!((rig.dues("job"), until(&rig)), (vec![], Some(at("45s"))));
    rig.advance("10s");
    assert_eq!(rig.dues("job"), [50]);
}

#[test]
fn a_pause_that_makes_no_sense_is_refused() {
    let mut rig = Rig::new(1);
    rig.put("job", every_ten_seconds());
    let too_late = rig.now + PAUSE_MAX + span("1s");
    for (reason, until, field) in
        [("", Some(rig.now), "until"), ("", Some(too_late), "until"), (&"x".repeat(1025), None, "reason")]
    {
        let refused = rig.ask(pause_for("job", reason, until));
        assert!(matches!(&refused, Err(Refusal::Invalid(error)) if error.field == field), "{refused:?}");
    }
    assert_eq!(told(&rig), None);
}

#[test]
fn failed_runs_in_a_row_pause_the_job() {
    let mut rig = Rig::new(1);
    rig.put("job", Definition { pause_after: Some(2), ..manual() });
    let fail = |rig: &mut Rig| {
        let run = rig.start("job");
        rig.fail(run);
        run
    };
    fail(&mut rig);
    let fine = rig.start("job");
    rig.succeed(fine);
    fail(&mut rig);
    rig.reload();
    assert_eq!(told(&rig), None, "a success in between counts");
    let last = fail(&mut rig);
    assert_eq!(told(&rig), Some(format!("paused: 2 failed runs in a row, the last is run {last}")));
    rig.ask(resume("job")).expect("resumed");
    fail(&mut rig);
    assert_eq!(told(&rig), None, "it counts from the resume");
    fail(&mut rig);
    assert!(told(&rig).is_some());
}

#[test]
fn a_retry_that_succeeds_is_no_failed_run() {
    let mut rig = Rig::new(1);
    let mut definition = Definition { pause_after: Some(1), ..manual() };
    definition.retry.attempts = 2;
    rig.put("job", definition);
    let run = rig.start("job");
    rig.fail(run);
    rig.advance("1m");
    rig.succeed(run);
    assert_eq!(told(&rig), None);
}

#[test]
fn a_job_that_pauses_itself_fires_no_more() {
    let mut rig = Rig::new(1);
    rig.put("job", Definition { pause_after: Some(1), ..every_ten_seconds() });
    rig.advance("10s");
    let run = rig.running()[0];
    rig.fail(run);
    rig.advance("30s");
    assert_eq!(rig.dues("job"), [10]);
    rig.ask(resume("job")).expect("resumed");
    assert_eq!(rig.skipped(), [(20, 40)]);
    rig.advance("10s");
    assert_eq!(rig.dues("job"), [10, 50]);
}
