//! Pages and pins: far timers are rows, near ones are in memory, and nothing falls between the two.

use punctual_core::command::{Command, Submit};
use punctual_core::job::{Definition, Overlap};
use punctual_core::run::Status;
use punctual_core::schedule::Schedule;
use punctual_engine::Settings;

use crate::support::{Rig, at, cancel, delete, every, made, manual, on, once_at, pause, put, start, submit};

const PAGE: usize = 8;

/// A shard with small pages and no worker.
fn rig() -> Rig {
    Rig::with(1, 0, Settings { page: PAGE, ..Settings::default() })
}

/// A shard with more far jobs than a page holds: its memory ends before theirs.
fn with_far_jobs() -> Rig {
    let mut rig = rig();
    for index in 0..4 * PAGE {
        rig.put(&format!("far-{index}"), on([once_at(&format!("{}h", index + 1))]));
    }
    rig
}

/// How many jobs are in memory: those that a command needs no row of.
fn jobs_in_memory(rig: &Rig, names: impl Iterator<Item = String>) -> usize {
    names.filter(|name| rig.shards[0].wants(&pause(name)).is_empty()).count()
}

/// Fires until a page is wanted, and asks for it without bringing it.
fn until_a_page_is_wanted(rig: &mut Rig) -> (usize, punctual_core::change::TimerPage) {
    for hour in 1..=4 * PAGE {
        rig.now = at(&format!("{hour}h"));
        rig.apply(rig.shards[0].id(), punctual_engine::Event::Tick { limit: 256 });
        rig.commit();
        if let Some(page) = rig.ask_page() {
            assert!(!page.1.jobs.is_empty(), "there are far jobs left");
            return page;
        }
    }
    panic!("no page was ever wanted");
}

#[test]
fn ten_thousand_far_jobs_do_not_stay_in_memory() {
    let mut rig = Rig::with(1, 0, Settings { page: 64, ..Settings::default() });
    for index in 0..10_000 {
        rig.put(&format!("job-{index}"), on([once_at(&format!("{}s", 3600 + index))]));
    }
    let names = || (0..10_000).map(|index| format!("job-{index}"));
    assert!(jobs_in_memory(&rig, names()) <= 2 * 64 + 1, "{}", jobs_in_memory(&rig, names()));
    rig.advance("4h");
    assert_eq!(rig.all_runs().len(), 10_000, "and every one of them fires once");
    assert!(rig.all_runs().iter().all(|run| run.created_at == run.due), "at its time");
}

#[test]
fn far_submits_do_not_stay_in_memory_and_come_in_time() {
    let mut rig = rig();
    for index in 0..500 {
        let due = Some(at(&format!("{}s", 60 + (index * 37) % 500)));
        made(rig.ask(Command::Submit(Submit { due, ..submit(manual()) })));
    }
    assert!(rig.shards[0].live_runs() <= 2 * PAGE + 1, "{}", rig.shards[0].live_runs());
    assert_eq!(rig.pool.live_runs(), rig.shards[0].live_runs());
    rig.advance("10m");
    for run in rig.all_runs() {
        assert_eq!((run.status(), run.entries[1].at), (Status::Ready, run.due), "in time");
    }
}

#[test]
fn a_job_created_while_a_page_is_being_read_is_armed() {
    for near in ["1s", "90m", "300h"] {
        let mut rig = with_far_jobs();
        let page = until_a_page_is_wanted(&mut rig);
        let due = rig.now + crate::support::span(near);
        rig.put("new", on([Schedule { start: Some(due), ..every("8000h") }]));
        rig.bring(page);
        rig.advance("310h");
        assert_eq!(rig.runs("new").len(), 1, "due {near} after the page was asked for");
    }
}

/// A far job that is edited while a page with its old row is on the way fires as the edit says.
fn check_stale(edit: Command, fires: usize) {
    let mut rig = with_far_jobs();
    let page = until_a_page_is_wanted(&mut rig);
    let stale = page.1.jobs[0].name.to_string();
    let edit = match edit {
        Command::PauseJob { .. } => pause(&stale),
        Command::DeleteJob { .. } => delete(&stale),
        Command::PutJob(edit) => put(&stale, (*edit.definition).clone()),
        other => other,
    };
    rig.ask(edit.clone()).expect("edited");
    rig.bring(page);
    rig.advance("100h");
    assert_eq!(rig.runs(&stale).len(), fires, "{edit:?}");
}

#[test]
fn a_row_on_a_page_that_is_older_than_memory_is_not_believed() {
    check_stale(pause("it"), 0);
    check_stale(delete("it"), 0);
    check_stale(put("it", on([])), 0);
    check_stale(put("it", on([once_at("80h")])), 1);
    check_stale(put("it", on([once_at("8000h")])), 0);
    check_stale(put("it", on([Schedule { end: Some(at("60h")), ..every("20h") }])), 3);
}

#[test]
fn a_row_that_is_sealed_and_not_committed_is_not_lost_to_a_page() {
    let mut rig = with_far_jobs();
    rig.hold_commits();
    rig.begin(put("new", on([once_at("20h")])));
    rig.begin(pause("far-20"));
    rig.begin(delete("far-21"));
    rig.begin(Command::RunJob(punctual_core::command::RunJob { due: Some(at("20h")), ..start("far-31") }));
    rig.commit();
    let page = until_a_page_is_wanted(&mut rig);
    rig.bring(page);
    rig.let_commits_through();
    rig.advance("100h");
    assert_eq!(rig.runs("new").len(), 1);
    assert_eq!(rig.runs("far-20").len() + rig.runs("far-21").len(), 0);
    assert_eq!(rig.runs("far-31").len(), 2, "its delayed start and its fire");
}

#[test]
fn a_page_that_failed_is_asked_for_again() {
    let mut rig = with_far_jobs();
    until_a_page_is_wanted(&mut rig);
    rig.put("new", on([once_at("40h")]));
    rig.shards[0].page_failed();
    let page = rig.ask_page().expect("it is asked for again");
    rig.bring(page);
    rig.advance("100h");
    assert_eq!(rig.all_runs().len(), 4 * PAGE + 1, "each fired once");
}

#[test]
fn a_far_run_can_be_cancelled_and_a_far_job_started() {
    let mut rig = with_far_jobs();
    let due = Some(at("500h"));
    let far = made(rig.ask(Command::Submit(Submit { due, ..submit(manual()) })));
    assert_eq!(rig.shards[0].wants(&cancel(far)).len(), 1, "it is only a row");
    rig.ask(cancel(far)).expect("cancelled");
    assert_eq!(rig.status(far), Status::Cancelled);
    let started = rig.start("far-31");
    assert_eq!(rig.status(started), Status::Ready);
}

#[test]
fn an_idle_shard_knows_when_to_wake_however_far_that_is() {
    let mut rig = rig();
    rig.put("job", Definition { overlap: Overlap::Allow, ..on([once_at("80000h")]) });
    assert_eq!(rig.next_wake(), Some(at("80000h")));
    rig.reload();
    assert_eq!(rig.next_wake(), Some(at("80000h")));
}
