//! Missing runs of jobs that follow another one.
//!
//! A follower is started by a notice, which waits as long as a shard of the two jobs has no leader, and a follower that is
//! paused is not started. An export shows neither. So a run is missed only if the follower was started by an end before and
//! by another one long after, and was not changed meanwhile.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::State;
use punctual_core::run::Trigger;
use punctual_core::topic::is_among;
use rustc_hash::FxHashMap;

use super::Kept;
use crate::checks::{COMMIT_MAX, Sheet, runs_with_jobs};
use crate::history::{Follows, JobRecord, RunRecord};

/// Notices of one job to another are delivered side by side. A notice that is refused, because too many runs are live, is
/// sent again within less than this.
const NOTICE_MAX: Duration = Duration::from_secs(3600);

/// When the runs of a follower were made, by the runs whose ends started them.
type Started = FxHashMap<RunId, Timestamp>;

pub(super) fn check(sheet: &mut Sheet<'_>, kept: &Kept) {
    let history = sheet.history;
    let mut started: FxHashMap<JobId, Started> = FxHashMap::default();
    let mut ended: FxHashMap<JobId, Vec<(Timestamp, &RunRecord)>> = FxHashMap::default();
    for (job, run) in runs_with_jobs(history).filter(|(_, run)| run.parent.is_none()) {
        if let Some(by) = run.started_by.filter(|_| run.trigger == Trigger::After) {
            started.entry(job).or_default().insert(by, run.created_at);
        }
        if let Some(at) = run.finished_at.filter(|_| run.status.is_terminal()) {
            ended.entry(job).or_default().push((at, run));
        }
    }
    let followers = history.jobs.values().filter(|job| job.state == State::Active);
    for (job, started) in followers.filter_map(|job| Some((job, started.get(&job.id)?))) {
        for follows in &job.rules.follows {
            let upstream = history.job_named(&job.namespace, &follows.job);
            let ends = upstream.and_then(|upstream| ended.get(&upstream.id));
            check_link(sheet, kept, (job, follows), (ends.map_or(&[], Vec::as_slice), started));
        }
    }
}

/// A job that follows another one, the ends of that one, and the runs among them that have started the follower.
fn check_link(
    sheet: &mut Sheet<'_>,
    kept: &Kept,
    (job, follows): (&JobRecord, &Follows),
    (ends, started): (&[(Timestamp, &RunRecord)], &Started),
) {
    let is_single = job.rules.follows.iter().filter(|other| other.job == follows.job).count() == 1;
    if follows.is_limited || !is_single {
        return;
    }
    let changed_at = job.updated_at + COMMIT_MAX;
    let known = ends.iter().filter_map(|(at, run)| Some((*at, *started.get(&run.id)?)));
    let known: Vec<(Timestamp, Timestamp)> = known.filter(|(at, _)| *at >= changed_at).collect();
    let ends_known = || known.iter().map(|(at, _)| at);
    let (Some(first), Some(last)) = (ends_known().min(), ends_known().max()) else { return };
    // After an outage of the shard, the notices that waited for it are delivered side by side.
    let slowest = known.iter().map(|(at, started)| started.since(*at)).max().unwrap_or_default();
    let read_from = sheet.history.runs.values().filter_map(|run| run.read_at).min();
    let until = read_from.map_or(*last, |read_from| read_from.min(*last)).before(NOTICE_MAX.max(2 * slowest));
    for (at, run) in
        ends.iter().filter(|(at, run)| at > first && *at <= until && is_among(run.status, follows.on))
    {
        sheet.saw(1);
        // The missing run is newer than this one.
        if !started.contains_key(&run.id)
            && super::was_read(sheet, run.id)
            && kept.keeps(sheet.history, job, run.id)
        {
            let message = format!(
                "it ended at {at} and did not start job `{}`, which follows its job and was started by earlier and later ends",
                job.name
            );
            sheet.broken_run(run, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual_core::job::{Definition, Job};
    use punctual_core::run::{Link, Origin, Run, State as RunState};
    use punctual_core::schedule::{After, Ends, Schedule, When};
    use punctual_core::task::Task;

    use super::*;
    use crate::checks::Check;
    use crate::fixture::{Story, at};
    use crate::options::Options;

    const HOUR: i64 = 3600;

    /// A job that ends three times, and a follower that each of the ends starts.
    struct Followed {
        story: Story,
        follower: Job,
        runs: Vec<Run>,
    }

    impl Followed {
        fn new() -> Followed {
            let mut story = Story::every_ten_seconds();
            story.reschedule(1, When::Every(Duration::from_secs(3600)));
            story.fire(HOUR).fire(2 * HOUR).fire(3 * HOUR).fire(4 * HOUR);
            let after = After { job: story.job.name.clone(), on: Ends::Succeeded };
            let schedules = vec![Schedule::new(When::After(after))];
            let definition = Arc::new(Definition { schedules, ..Definition::of(Task::Noop) });
            let mut follower = Job {
                id: JobId(2),
                name: "settle".parse().unwrap(),
                definition,
                revision: 1,
                ..story.job.clone()
            };
            follower.plan_after(at(0));
            let runs = (1..).zip(&story.runs).map(|(number, upstream)| {
                let origin = Origin::Job { id: follower.id, name: follower.name.clone(), revision: 1 };
                let id = RunId(upstream.id.0 + 100 * number);
                let ended = upstream.finished_at.unwrap();
                let mut run = Run::new(id, upstream.namespace.clone(), origin, Trigger::After, ended, ended);
                run.link = Some(Box::new(Link { upstream: Some(upstream.id), depth: 1, ..Link::default() }));
                run
            });
            let runs = runs.collect();
            Followed { story, follower, runs }
        }

        fn found(&self, options: &Options) -> Vec<String> {
            let mut history = self.story.history();
            history.add_job(&self.follower);
            self.runs.iter().for_each(|run| history.add_run(run));
            history.check(options).of(Check::Links).map(|finding| finding.message.clone()).collect()
        }
    }

    #[test]
    fn an_end_between_others_that_started_no_run_is_found() {
        let mut followed = Followed::new();
        assert_eq!(followed.found(&Options::default()), Vec::<String>::new());
        followed.runs.remove(1);
        let found = followed.found(&Options::default());
        assert!(found.len() == 1 && found[0].contains("did not start job `settle`"), "{found:?}");
    }

    type Change = fn(&mut Followed);

    /// Each change explains why the run is not there.
    #[test]
    fn an_end_that_need_not_start_a_run_is_no_finding() {
        let changes: [(&str, Change); 8] = [
            ("its end was no success", |it| it.story.runs[1].state = RunState::Failed),
            ("the follower is paused", |it| it.follower.pause = it.story.clone().pause(5).job.pause.clone()),
            ("the follower was changed later", |it| it.follower.updated_at = at(2 * HOUR)),
            ("the follower is another job of that name", |it| it.follower.id = JobId(1_000_000)),
            ("the link has an end", |it| {
                Arc::make_mut(&mut it.follower.definition).schedules[0].end = Some(at(9 * HOUR));
            }),
            ("retention has deleted it", |it| Arc::make_mut(&mut it.follower.definition).keep.runs = 1),
            ("no earlier end is known to have started a run", |it| drop(it.runs.remove(0))),
            ("no later end has started a run", |it| it.runs.truncate(1)),
        ];
        for (why, change) in changes {
            let mut followed = Followed::new();
            followed.runs.remove(1);
            change(&mut followed);
            assert_eq!(followed.found(&Options::default()), Vec::<String>::new(), "{why}");
        }
    }

    #[test]
    fn notices_that_were_slow_once_may_be_slow_again() {
        let mut followed = Followed::new();
        followed.runs.remove(1);
        let slow = followed.runs.last_mut().unwrap();
        slow.created_at = slow.created_at + 2 * NOTICE_MAX;
        assert_eq!(followed.found(&Options::default()), Vec::<String>::new());
    }

    #[test]
    fn a_notice_may_still_be_on_its_way_when_the_export_begins() {
        let mut followed = Followed::new();
        followed.runs.remove(1);
        let check = |read_at: Timestamp| {
            let mut history = followed.story.history();
            history.add_job(&followed.follower);
            followed.runs.iter().for_each(|run| history.add_run(run));
            history.runs.values_mut().for_each(|run| run.read_at = Some(read_at));
            history.check(&Options { still: true, ..Options::default() }).of(Check::Links).count()
        };
        let delivered = followed.story.runs[1].finished_at.unwrap() + NOTICE_MAX;
        assert_eq!((check(delivered.before(Duration::from_millis(1))), check(delivered)), (0, 1));
    }
}
