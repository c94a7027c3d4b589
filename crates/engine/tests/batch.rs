//! What one batch carries: each row once, as it is in the end; and what the world sees of it, in order, afterwards.

use punctual_core::attempt::{Order, Report};
use punctual_core::change::{Batch, Change, Row, RowKey};
use punctual_core::command::Command;
use punctual_core::job::{Definition, Overlap};
use punctual_core::progress::Progress;
use punctual_core::run::{Status, What};
use punctual_engine::Effect;

use crate::support::{Rig, delete, every, manual, on, put, start, submit};

/// A batch in words, one a row. Rows of statistics are left out: `statistics.rs` is about them.
fn words(batch: &Batch) -> Vec<String> {
    let changes = batch.changes.iter().filter_map(|(key, change)| {
        let row = match key {
            RowKey::Statistics(_) | RowKey::RecentCounts(_) => return None,
            RowKey::Job(_) => "job",
            RowKey::DeletedJob(_) => "deleted job",
            RowKey::Revision(..) => "revision",
            RowKey::Run(_) => "run",
            RowKey::History(_) => "history",
            RowKey::Step(_) => "step",
            RowKey::Listener(_) => "listener",
            RowKey::Hold(_) => "hold",
            RowKey::Incident(_) => "incident",
            RowKey::Approval(_) => "approval",
            RowKey::DeadLetter(_) => "dead letter",
            RowKey::Unique(_) => "unique",
            RowKey::Skip(..) => "skip",
            RowKey::Term(_) => "term",
            RowKey::Queue(_) => "queue",
            RowKey::Message(..) => "message",
            RowKey::Lock(_) => "lock",
        };
        Some(match change {
            Change::Insert(Row::Run(run) | Row::History(run)) => format!("insert {row} {}", run.status()),
            Change::Update(Row::Run(run)) => format!("update {row} {}", run.status()),
            Change::Insert(_) => format!("insert {row}"),
            Change::Update(_) => format!("update {row}"),
            Change::Delete => format!("delete {row}"),
        })
    });
    changes.collect()
}

/// What the rig's last step wrote, as one batch.
fn check<T>(rig: &mut Rig, step: impl FnOnce(&mut Rig) -> T, expected: &[&str]) {
    let before = rig.batches.len();
    step(rig);
    let written: Vec<_> = rig.batches[before..].iter().map(words).collect();
    assert_eq!(written, [expected]);
}

#[test]
fn a_run_born_while_a_slot_is_free_is_one_insert() {
    let mut rig = Rig::new(1);
    check(&mut rig, |rig| rig.submit(manual()), &["insert run running"]);
    check(&mut rig, |rig| rig.submit(manual()), &["insert run ready"]);
}

#[test]
fn a_fire_is_its_run_and_its_cursor_in_one_batch() {
    let mut rig = Rig::new(1);
    check(&mut rig, |rig| rig.put("job", on([every("10s")])), &["insert job", "insert revision"]);
    check(&mut rig, |rig| rig.advance("10s"), &["update job", "insert run running"]);
}

#[test]
fn a_fire_that_is_skipped_is_only_history() {
    let mut rig = Rig::new(1);
    rig.put("job", on([every("10s")]));
    rig.advance("10s");
    check(&mut rig, |rig| rig.advance("10s"), &["update job", "insert history skipped"]);
}

#[test]
fn an_end_and_the_start_of_the_next_run_are_one_batch() {
    let mut rig = Rig::new(1);
    rig.put("job", Definition { overlap: Overlap::Queue, ..manual() });
    let first = rig.start("job");
    rig.start("job");
    let both = ["delete run", "update run running", "insert history succeeded"];
    check(&mut rig, |rig| rig.succeed(first), &both);
}

#[test]
fn a_dead_letter_comes_with_its_run() {
    let mut rig = Rig::new(1);
    let run = rig.submit(manual());
    // It is found by the words of its error.
    let rows = ["delete run", "insert history failed", "insert dead letter", "insert term", "insert term"];
    check(&mut rig, |rig| rig.fail(run), &rows);
}

#[test]
fn a_job_that_came_and_went_is_only_known_as_deleted() {
    let mut rig = Rig::new(1);
    rig.begin(put("job", manual()));
    rig.begin(delete("job"));
    rig.settle();
    assert!(rig.job("job").is_none());
    let of_jobs: Vec<String> =
        rig.batches.iter().flat_map(words).filter(|word| word.ends_with(" job")).collect();
    assert_eq!(of_jobs, ["insert deleted job"]);
}

#[test]
fn several_edits_in_one_batch_are_one_row_with_all_revisions() {
    let mut rig = Rig::new(1);
    let edits = |rig: &mut Rig| {
        for period in ["10s", "20s", "30s"] {
            rig.begin(put("job", on([every(period)])));
        }
        rig.settle();
    };
    let rows = [&["insert job"][..], &["insert revision"; 3], &["insert skip"; 2]].concat();
    check(&mut rig, edits, &rows);
    assert_eq!(rig.job("job").map(|job| job.revision), Some(3));
}

#[test]
fn a_batch_is_numbered_after_the_one_before() {
    let mut rig = Rig::new(1);
    for _ in 0..5 {
        rig.submit(manual());
    }
    let numbers: Vec<_> = rig.batches.iter().map(|batch| batch.commit).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
}

#[test]
fn effects_are_seen_after_their_commit_and_in_order() {
    let mut rig = Rig::new(2);
    rig.hold_commits();
    let tickets = [(); 2].map(|()| rig.begin(Command::Submit(submit(manual()))));
    rig.settle();
    let refused = rig.begin(Command::RunJob(start("nobody")));
    rig.settle();
    assert!(rig.effects.is_empty(), "not even a refusal");
    rig.let_commits_through();
    let seen: Vec<_> = rig
        .effects
        .iter()
        .map(|effect| match effect {
            Effect::Answer { ticket, .. } => format!("answer {}", ticket.0),
            Effect::Order { order: Order::Assign(assignment), .. } => {
                format!("assign {}", assignment.attempt)
            }
            Effect::Order { order, .. } => format!("{order:?}"),
            Effect::CrossShard(request) => format!("{request:?}"),
        })
        .collect();
    let [first, second] = tickets.map(|ticket| format!("answer {}", ticket.0));
    assert_eq!(seen, [first, second, "assign 1".into(), "assign 1".into(), format!("answer {}", refused.0)]);
}

#[test]
fn a_start_is_written_with_whatever_is_written_next() {
    let mut rig = Rig::new(2);
    let run = rig.submit(manual());
    let (token, at) = (rig.run(run).token, rig.now);
    let batches = rig.batches.len();
    rig.tell(Report::Started { run, token, at });
    assert_eq!(rig.batches.len(), batches, "it is not worth a commit of its own");
    check(&mut rig, |rig| rig.submit(manual()), &["update run running", "insert run running"]);
    assert_eq!(rig.run(run).started_at, Some(at));
}

#[test]
fn a_progress_is_written_after_a_second_at_the_latest() {
    let mut rig = Rig::new(1);
    let run = rig.submit(manual());
    let token = rig.run(run).token;
    for percent in [10, 20, 100, 250] {
        rig.tell(Report::Progress { run, token, progress: Progress::percent(percent) });
    }
    rig.advance("959ms");
    assert_eq!(rig.run(run).progress, None);
    check(&mut rig, |rig| rig.advance("1ms"), &["update run running"]);
    assert_eq!(rig.run(run).percent(), Some(100), "the newest, and never more than all");
}

#[test]
fn a_progress_after_a_batch_has_a_second_of_its_own() {
    let mut rig = Rig::new(2);
    let run = rig.submit(manual());
    let token = rig.run(run).token;
    let report = |rig: &mut Rig, percent| {
        rig.tell(Report::Progress { run, token, progress: Progress::percent(percent) });
    };
    report(&mut rig, 10);
    rig.advance("500ms");
    check(&mut rig, |rig| rig.submit(manual()), &["update run running", "insert run running"]);
    report(&mut rig, 20);
    let batches = rig.batches.len();
    rig.advance("959ms");
    assert_eq!(rig.batches.len(), batches, "the deadline of the first report is over, and causes no batch");
    check(&mut rig, |rig| rig.advance("1ms"), &["update run running"]);
    assert_eq!(rig.run(run).percent(), Some(20));
}

#[test]
fn every_change_of_a_run_is_an_entry() {
    let mut rig = Rig::new(1);
    let mut twice = manual();
    twice.retry.attempts = 2;
    let run = rig.submit(twice);
    rig.fail(run);
    rig.advance("10s");
    rig.succeed(run);
    let entries = rig.run(run).entries.clone();
    let whats: Vec<_> = entries.iter().map(|entry| entry.what).collect();
    use What::{Assigned, Created, Due, Ended, Failed};
    assert_eq!(whats, [Created, Due, Assigned, Failed, Due, Assigned, Ended]);
    assert_eq!(entries.last().map(|entry| entry.to), Some(Status::Succeeded));
    assert!(entries.is_sorted_by_key(|entry| (entry.at, entry.token)));
}

#[test]
fn a_run_is_indexed_when_it_is_made_and_its_error_when_it_ends() {
    let mut rig = Rig::new(1);
    let mut job = manual();
    job.labels.insert("team".to_owned(), "billing".to_owned());
    rig.put("job", job);
    check(&mut rig, |rig| rig.start("job"), &["insert run running", "insert term", "insert term"]);
    let run = rig.running()[0];
    let failed = ["delete run", "insert history failed", "insert dead letter"];
    let before = rig.batches.len();
    rig.fail(run);
    let mut written = words(&rig.batches[before]);
    let terms = written.iter().filter(|row| *row == "insert term").count();
    written.retain(|row| row != "insert term");
    assert_eq!(written, failed);
    assert_eq!(terms, rig.run(run).error.split_whitespace().count(), "the words of its error");
}
