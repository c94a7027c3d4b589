use punctual_core::task::Kind;

use super::*;

const LEASE: Duration = Duration::from_secs(15);

fn at(seconds: i64) -> Elapsed {
    Elapsed::from_millis(seconds * 1000)
}

fn worker(name: &str) -> WorkerId {
    WorkerId(Arc::from(name))
}

/// A roster that a worker has joined and lent all its slots to.
fn lent(name: &str, slots: usize) -> Roster {
    let mut roster = Roster::default();
    join_and_lend(&mut roster, name, slots);
    roster
}

fn anything() -> Class {
    Class { kind: Kind::Shell, function: None, selector: None, pin: None }
}

fn join_and_lend(roster: &mut Roster, name: &str, slots: usize) {
    roster.join(&worker(name), Announcement::of(slots), &[], at(0));
    roster.lent(&worker(name), slots as u64).unwrap();
}

#[test]
fn a_worker_silent_for_its_lease_loses_what_it_has_in_hand() {
    let mut roster = lent("a", 2);
    roster.take(&worker("a"), RunId(1), Token(1));
    roster.sent(&worker("a"), RunId(1), Token(1), at(0));
    assert_eq!(roster.silence(LEASE, at(14)), Silence::default());
    assert_eq!(roster.silence(LEASE, at(15)).lost, [(RunId(1), Token(1))]);
    assert_eq!(roster.least_loaded(&anything()), None, "a silent worker gets nothing more");
    roster.heard(&worker("a"), &[], LEASE, at(16));
    assert_eq!(roster.least_loaded(&anything()), Some(worker("a")), "until it is heard again");
}

#[test]
fn a_worker_is_lost_while_it_is_silent_or_its_connection_is_gone() {
    let mut roster = lent("a@1", 2);
    roster.take(&worker("a@1"), RunId(1), Token(1));
    roster.sent(&worker("a@1"), RunId(1), Token(1), at(0));
    let names = |roster: &Roster, now| -> Vec<String> {
        roster.lost(at(now)).into_iter().map(|(id, _)| id.to_string()).collect()
    };
    roster.silence(LEASE, at(15));
    assert_eq!((names(&roster, 15), roster.present().len()), (vec!["a@1".to_owned()], 0));
    roster.heard(&worker("a@1"), &[], LEASE, at(16));
    assert!(names(&roster, 16).is_empty());
    roster.lose(&worker("a@1"), at(20));
    assert_eq!(names(&roster, 20), ["a@1"]);
    assert!(names(&roster, 20 + 3600).is_empty(), "it is forgotten after an hour");
    join_and_lend(&mut roster, "a@2", 2);
    assert!(names(&roster, 20).is_empty(), "its next life is here");
}

#[test]
fn a_worker_with_empty_hands_may_be_silent_for_ever() {
    let mut roster = lent("a", 2);
    assert_eq!((roster.next_silence(LEASE), roster.silence(LEASE, at(1000))), (None, Silence::default()));
    roster.take(&worker("a"), RunId(1), Token(1));
    assert_eq!(roster.next_silence(LEASE), None, "its order waits for a slow commit: it knows of nothing");
    roster.sent(&worker("a"), RunId(1), Token(1), at(2000));
    assert_eq!(roster.next_silence(LEASE), Some(at(2015)), "a lease counts from what it was given");
    roster.take(&worker("a"), RunId(2), Token(1));
    roster.sent(&worker("a"), RunId(2), Token(1), at(2010));
    assert_eq!(roster.next_silence(LEASE), Some(at(2015)), "and what comes later does not prolong it");
    roster.give_back(&worker("a"), RunId(1));
    roster.give_back(&worker("a"), RunId(2));
    assert_eq!(roster.next_silence(LEASE), None);
}

#[test]
fn a_silent_worker_is_asked_every_lease_until_it_is_heard_or_leaves() {
    let mut roster = lent("a", 2);
    roster.take(&worker("a"), RunId(1), Token(1));
    roster.sent(&worker("a"), RunId(1), Token(1), at(0));
    for second in [15, 30, 45] {
        assert_eq!(roster.next_silence(LEASE), Some(at(second)));
        assert_eq!(roster.silence(LEASE, at(second)).ask, [worker("a")]);
    }
    roster.heard(&worker("a"), &[], LEASE, at(46));
    assert_eq!((roster.next_silence(LEASE), roster.free()), (None, 1), "what it lost it has to lend again");
}

#[test]
fn an_assignment_that_never_arrived_is_noticed_after_a_lease() {
    let mut roster = lent("a", 2);
    roster.take(&worker("a"), RunId(1), Token(1));
    assert!(
        roster.heard(&worker("a"), &[], LEASE, at(20)).is_empty(),
        "its order may wait for a slow commit"
    );
    roster.sent(&worker("a"), RunId(1), Token(1), at(21));
    assert!(roster.heard(&worker("a"), &[], LEASE, at(25)).is_empty(), "it may still be on its way");
    assert_eq!(roster.heard(&worker("a"), &[], LEASE, at(37)), [(RunId(1), Token(1))]);
}

#[test]
fn the_credit_of_an_attempt_that_another_leader_settled_is_not_free_again() {
    let mut roster = lent("a", 1);
    roster.take(&worker("a"), RunId(1), Token(1));
    roster.sent(&worker("a"), RunId(1), Token(1), at(0));
    roster.heard(&worker("a"), &[(RunId(1), Token(1))], LEASE, at(5));
    assert_eq!(roster.heard(&worker("a"), &[], LEASE, at(16)), [(RunId(1), Token(1))]);
    roster.give_back(&worker("a"), RunId(1));
    assert_eq!(roster.free(), 0, "the worker lends the slot again by itself");
}

#[test]
fn a_worker_that_says_good_bye_finishes_nothing_more() {
    let mut roster = lent("a", 2);
    roster.take(&worker("a"), RunId(1), Token(1));
    roster.leave(&worker("a"));
    assert_eq!(roster.attempts_of(&worker("a")), [(RunId(1), Token(1))]);
    assert!(!roster.is_present(&worker("a")));
    roster.give_back(&worker("a"), RunId(1));
    assert_eq!(roster.attempts_of(&worker("a")), []);
}

#[test]
fn a_worker_that_comes_back_loses_what_it_does_not_name() {
    let mut roster = Roster::default();
    roster.adopt(&worker("a"), RunId(1), Token(1), at(0));
    roster.adopt(&worker("a"), RunId(2), Token(1), at(0));
    assert_eq!(
        roster.join(&worker("a"), Announcement::of(2), &[(RunId(2), Token(1))], at(1)),
        [(RunId(1), Token(1))]
    );
}

#[test]
fn a_worker_that_starts_again_outlives_what_was_given_to_its_earlier_life() {
    let mut roster = Roster::default();
    let (earlier, later) = (WorkerId::new("a", 1), WorkerId::new("a", 2));
    roster.adopt(&earlier, RunId(1), Token(1), at(0));
    assert_eq!(roster.join(&later, Announcement::of(2), &[], at(1)), [(RunId(1), Token(1))]);
    assert!(roster.is_outlived(&earlier) && !roster.is_outlived(&later));
}

#[test]
fn runs_go_to_the_worker_with_the_most_room_for_its_size() {
    let mut roster = lent("big", 10);
    join_and_lend(&mut roster, "small", 2);
    roster.take(&worker("big"), RunId(1), Token(1));
    assert_eq!(roster.least_loaded(&anything()), Some(worker("small")));
    roster.take(&worker("small"), RunId(2), Token(1));
    assert_eq!(roster.least_loaded(&anything()), Some(worker("big")));
}
#[test]
fn a_slot_comes_back_only_by_being_lent_again() {
    let mut roster = lent("a", 1);
    roster.take(&worker("a"), RunId(1), Token(1));
    roster.sent(&worker("a"), RunId(1), Token(1), at(1));
    roster.give_back(&worker("a"), RunId(1));
    assert_eq!((roster.attempts_held(), roster.free()), (0, 0), "given up, and its worker may still run it");
    roster.lent(&worker("a"), 2).unwrap();
    roster.lent(&worker("a"), 2).unwrap();
    assert_eq!(roster.free(), 1, "told twice, lent once");
}

#[test]
fn an_assignment_that_never_left_has_used_no_credit_up() {
    let mut roster = lent("a", 3);
    for run in 1..=3 {
        roster.take(&worker("a"), RunId(run), Token(1));
    }
    assert_eq!(roster.free(), 0);
    roster.give_back(&worker("a"), RunId(1));
    assert_eq!(roster.free(), 1);
    roster.forget(RunId(2).shard());
    assert_eq!(roster.free(), 3, "the memory of its shard was thrown away before the commit");
    roster.adopt(&worker("a"), RunId(2), Token(1), at(1));
    roster.offer_again(&worker("a"), RunId(2), Token(1));
    assert_eq!(roster.free(), 3, "what is offered again uses none");
}

#[test]
fn an_assignment_that_is_sent_after_its_worker_joined_anew_uses_no_credit() {
    let mut roster = lent("a", 2);
    roster.take(&worker("a"), RunId(1), Token(1));
    roster.take(&worker("a"), RunId(2), Token(1));
    assert!(roster.sent(&worker("a"), RunId(1), Token(1), at(1)));
    roster.join(&worker("a"), Announcement::of(2), &[], at(2));
    assert!(!roster.sent(&worker("a"), RunId(2), Token(1), at(2)));
    roster.lent(&worker("a"), 2).unwrap();
    assert_eq!(roster.free(), 2);
}

#[test]
fn what_is_recalled_is_given_back_as_far_as_it_is_unused() {
    let mut roster = lent("a", 3);
    roster.take(&worker("a"), RunId(1), Token(1));
    assert_eq!(roster.recall(&worker("a"), 5), Some(Order::GaveBack { total: 2 }));
    assert_eq!(roster.recall(&worker("a"), 1), Some(Order::GaveBack { total: 2 }));
    assert_eq!(roster.free(), 0);
    roster.join(&worker("a"), Announcement::of(3), &[(RunId(1), Token(1))], at(1));
    assert_eq!(roster.recall(&worker("a"), 1), Some(Order::GaveBack { total: 0 }), "it joined anew");
}

#[test]
fn a_loan_shows_that_a_worker_drains_no_longer() {
    let mut roster = lent("a", 1);
    let say = |roster: &mut Roster, report| drop(roster.hear(&worker("a"), &report, LEASE, at(1)));
    roster.take(&worker("a"), RunId(1), Token(1));
    say(&mut roster, Report::Draining { on: true });
    say(&mut roster, Report::Draining { on: false });
    say(&mut roster, Report::Draining { on: true });
    say(&mut roster, Report::Lent { total: 1 });
    assert_eq!(roster.free(), 0, "an old loan shows nothing");
    say(&mut roster, Report::Lent { total: 2 });
    assert_eq!(roster.free(), 1, "the first report was repeated late");
}

#[test]
fn a_worker_is_told_once_that_runs_wait() {
    let mut roster = lent("a", 1);
    assert_eq!(roster.tell_waiting(|_, _| (Some(5), 3)), [], "it has lent us what we need");
    roster.take(&worker("a"), RunId(1), Token(1));
    let mut tell = |priority, runs| {
        let words = roster.tell_waiting(|_, _| (priority, runs)).into_iter();
        words.map(|(_, word)| word).collect::<Vec<_>>()
    };
    assert_eq!(tell(Some(5), 3), [Order::Waiting { priority: Some(5), runs: 3 }]);
    assert_eq!(tell(Some(5), 4), [], "that is about as many");
    assert_eq!(tell(Some(9), 4), [Order::Waiting { priority: Some(9), runs: 4 }]);
    assert_eq!(tell(Some(9), 5), [Order::Waiting { priority: Some(9), runs: 5 }]);
    assert_eq!(tell(None, 0), [Order::Waiting { priority: None, runs: 0 }]);
    assert_eq!(tell(None, 0), []);
}

#[test]
fn a_worker_lends_no_more_slots_than_it_has() {
    let mut roster = lent("a", 4);
    assert!(roster.lent(&worker("a"), 5).is_err());
    assert!(roster.lent(&worker("a"), 1 << 31).is_err());
    roster.recall(&worker("a"), 2);
    roster.take(&worker("a"), RunId(1), Token(1));
    assert!(roster.lent(&worker("a"), 7).is_ok());
    assert!(roster.lent(&worker("a"), 8).is_err());
}
