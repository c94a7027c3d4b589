//! Keys: the same ask under the same key has one effect, and hears of the same run.

use std::collections::HashMap;

use proptest::prelude::*;
use punctual_core::Timestamp;
use punctual_core::command::{Answer, Command, Refusal, RetryRun, RunJob, Submit};
use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Overlap, Unique};
use punctual_core::task::Params;

use crate::support::{Rig, key, made, manual, retry, span, start, submit};

fn keyed(text: &str, kept: &str) -> Command {
    Command::Submit(Submit { key: key(text, span(kept)), ..submit(manual()) })
}

/// The run an answer names, made or found.
fn named(answer: Option<Result<Answer, Refusal>>) -> (RunId, bool) {
    match answer {
        Some(Ok(Answer::Run(run))) => (run.id, true),
        Some(Ok(Answer::Existing(run))) => (run, false),
        other => panic!("{other:?}"),
    }
}

/// The second ask finds the run of the first.
fn check_same(rig: &mut Rig, first: Command, second: Command) {
    let run = made(rig.ask(first));
    assert_eq!(rig.ask(second), Ok(Answer::Existing(run)));
}

/// The second ask makes a run of its own.
fn check_other(rig: &mut Rig, first: Command, second: Command) {
    let run = made(rig.ask(first));
    assert_ne!(made(rig.ask(second)), run);
}

#[test]
fn a_key_given_twice_makes_one_run() {
    let mut rig = Rig::new(1);
    check_same(&mut rig, keyed("k", "1h"), keyed("k", "1h"));
    assert_eq!(rig.all_runs().len(), 1);
    check_other(&mut rig, keyed("a", "1h"), keyed("b", "1h"));
}

#[test]
fn a_key_outlives_its_run_and_a_reload() {
    let mut rig = Rig::new(1);
    let run = made(rig.ask(keyed("k", "1h")));
    rig.succeed(run);
    rig.reload();
    rig.advance("59m");
    assert_eq!(rig.ask(keyed("k", "1h")), Ok(Answer::Existing(run)));
}

#[test]
fn an_expired_key_can_be_given_again() {
    let mut rig = Rig::new(1);
    let first = made(rig.ask(keyed("k", "1h")));
    rig.advance("1h");
    let second = made(rig.ask(keyed("k", "1h")));
    assert_ne!(first, second);
    assert_eq!(rig.ask(keyed("k", "1h")), Ok(Answer::Existing(second)), "its row was taken over");
}

#[test]
fn a_key_counts_before_its_commit() {
    let mut rig = Rig::new(1);
    rig.hold_commits();
    let first = rig.begin(keyed("k", "1h"));
    let unsealed = rig.begin(keyed("k", "1h"));
    rig.commit();
    let sealed = rig.begin(keyed("k", "1h"));
    rig.commit();
    assert_eq!(rig.answer(sealed), None, "nothing is said before it is true");
    rig.let_commits_through();
    let run = named(rig.answer(first)).0;
    assert_eq!(named(rig.answer(unsealed)), (run, false));
    assert_eq!(named(rig.answer(sealed)), (run, false));
}

#[test]
fn the_unique_key_of_a_job_guards_its_starts() {
    let mut rig = Rig::new(3);
    let unique = Some(Unique { key: "daily".to_owned(), kept: span("24h") });
    rig.put("job", Definition { unique, overlap: Overlap::Allow, ..manual() });
    check_same(&mut rig, Command::RunJob(start("job")), Command::RunJob(start("job")));
    let other = RunJob { key: key("mine", span("1h")), ..start("job") };
    check_same(&mut rig, Command::RunJob(other.clone()), Command::RunJob(other));
    rig.advance("24h");
    made(rig.ask(Command::RunJob(start("job"))));
}

#[test]
fn the_unique_key_of_a_far_job_is_looked_up_too() {
    let mut rig = Rig::new(3);
    let unique = Some(Unique { key: "daily".to_owned(), kept: span("24h") });
    rig.put("job", Definition { unique, overlap: Overlap::Allow, ..manual() });
    let run = rig.start("job");
    rig.succeed(run);
    rig.reload();
    assert_eq!(rig.ask(Command::RunJob(start("job"))), Ok(Answer::Existing(run)));
}

#[test]
fn the_unique_key_of_a_submit_is_its_key() {
    let unique = Some(Unique { key: "once".to_owned(), kept: span("1h") });
    let ask = Command::Submit(submit(Definition { unique, ..manual() }));
    check_same(&mut Rig::new(1), ask.clone(), ask);
}

#[test]
fn keys_of_different_asks_do_not_meet() {
    let mut rig = Rig::new(9);
    for job in ["a", "b"] {
        rig.put(job, Definition { overlap: Overlap::Allow, ..manual() });
    }
    let of = |job| Command::RunJob(RunJob { key: key("k", span("1h")), ..start(job) });
    check_other(&mut rig, of("a"), of("b"));
    let dead = rig.submit(manual());
    rig.fail(dead);
    let again = RetryRun { key: key("k", span("1h")), ..retry(dead) };
    check_other(&mut rig, keyed("k", "1h"), Command::RetryRun(again));
}

#[test]
fn a_retry_by_hand_repeated_under_its_key_is_one_run() {
    let mut rig = Rig::new(1);
    let dead = rig.submit(manual());
    rig.fail(dead);
    let ask = Command::RetryRun(RetryRun { key: key("k", span("1h")), ..retry(dead) });
    check_same(&mut rig, ask.clone(), ask);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Asks under few keys, while batches land early or late and memory is lost in between.
    #[test]
    fn a_key_names_one_run_as_long_as_it_lives(
        asks in prop::collection::vec((0u8..3, 1u64..5, 0u64..4, 0u8..6), 1..40),
    ) {
        let mut rig = Rig::new(2);
        let mut asked = Vec::new();
        rig.hold_commits();
        for (text, kept, wait, then) in asks {
            rig.pass(&format!("{wait}s"));
            let kept = format!("{kept}s");
            let ticket = rig.begin(keyed(&text.to_string(), &kept));
            asked.push((ticket, text, rig.now, rig.now + span(&kept)));
            if then < 3 {
                rig.commit();
            }
            if then < 2 {
                rig.let_commits_through();
                rig.hold_commits();
            }
            if then == 0 {
                rig.reload();
            }
        }
        rig.commit();
        rig.let_commits_through();
        let mut bearers: HashMap<u8, (RunId, Timestamp)> = HashMap::new();
        for (ticket, text, now, expires) in asked {
            let (run, is_new) = named(rig.answer(ticket));
            match bearers.get(&text).filter(|(_, expires)| *expires > now) {
                Some((bearer, _)) => prop_assert_eq!((run, is_new), (*bearer, false)),
                None => {
                    prop_assert!(is_new, "the key was free");
                    bearers.insert(text, (run, expires));
                }
            }
        }
    }
}

#[test]
fn a_key_made_of_params_is_one_key_for_each_of_their_values() {
    let mut rig = Rig::new(1);
    let unique = Some(Unique { key: "order-{{ params.order }}".to_owned(), kept: span("1h") });
    rig.put("remind", Definition { unique: unique.clone(), overlap: Overlap::Allow, ..manual() });
    let order = |order: &str| {
        let params = Some(Params(format!(r#"{{"order": {order}}}"#).into()));
        Command::RunJob(RunJob { params, ..start("remind") })
    };
    check_same(&mut rig, order("17"), order("17"));
    check_other(&mut rig, order("18"), order("19"));
    rig.reload();
    assert!(matches!(rig.ask(order("17")), Ok(Answer::Existing(_))), "it was read for the ask");

    let submit_order = |order: &str| {
        let params = Params(format!(r#"{{"order": {order}}}"#).into());
        Command::Submit(submit(Definition { unique: unique.clone(), params, ..manual() }))
    };
    check_same(&mut rig, submit_order("17"), submit_order("17"));
}

#[test]
fn a_key_that_cannot_be_evaluated_is_refused_and_makes_no_run() {
    let mut rig = Rig::new(1);
    let unique = Some(Unique { key: "{{ params.order }}".to_owned(), kept: span("1h") });
    rig.put("remind", Definition { unique, ..manual() });
    for (params, expected) in [
        ("{}", "unique.key: there is no `params.order` (column 4 of the text)"),
        (r#"{"order": ""}"#, "unique.key: gives no key of 1 to 256 bytes without control characters"),
        (r#"{"order": "a\nb"}"#, "unique.key: gives no key of 1 to 256 bytes without control characters"),
    ] {
        let ask = RunJob { params: Some(Params(params.into())), ..start("remind") };
        assert_eq!(rig.ask(Command::RunJob(ask)).unwrap_err().to_string(), expected);
    }
    assert_eq!(rig.all_runs().len(), 0);
}
