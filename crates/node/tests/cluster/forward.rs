//! A command reaches the leader of its shard, or its answer says that it did not.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::command::{Answer, Command, Expect, PutJob, Submit};
use punctual_core::ids::RunId;
use punctual_core::job::Definition;
use punctual_core::name::{Name, Namespace};
use punctual_core::task::Task;
use punctual_node::{Failure, Leader, Leaders};
use punctual_store::memory::Memory;
use punctual_store::{Reads, RunFilter};

use super::rig::{Fate, GONE, LONG, SHARDS, Told, at, leading, passing_on, store, submit};

async fn runs(store: &Memory) -> usize {
    store.runs(&RunFilter::default(), None, 100).await.unwrap().len()
}

fn name() -> Name {
    "hello".parse().unwrap()
}

fn put(expect: Expect, description: &str) -> Command {
    let definition =
        Arc::new(Definition { description: description.to_owned(), ..Definition::of(Task::Noop) });
    Command::PutJob(PutJob { namespace: Namespace::default(), name: name(), definition, expect })
}

fn pause() -> Command {
    let (namespace, reason) = (Namespace::default(), Box::default());
    Command::PauseJob { namespace, name: name(), reason, by: None, until: None }
}

/// Sends a command through a node that forwards it. Returns the answer, the nodes that were asked, and the number of runs.
async fn sent(command: Command, fates: &[Fate]) -> (Result<Answer, Failure>, Vec<String>, usize) {
    let store = store();
    let (leader, _lead) = leading(&store).await;
    let peers = Told::new(leader.handle(), fates);
    let (node, lead) = passing_on(&store, peers.clone(), LONG);
    lead.send_replace(at("a:1"));
    let answer = node.handle().command(command).await;
    (answer, peers.asked(), runs(&store).await)
}

#[tokio::test]
async fn a_command_is_carried_out_by_the_leader_of_its_shard() {
    let (answer, asked, runs) = sent(submit(None), &[]).await;
    assert!(matches!(answer, Ok(Answer::Run(_))), "{answer:?}");
    assert_eq!((asked.len(), runs), (1, 1));
}

#[tokio::test]
async fn a_refusal_of_the_leader_is_passed_on_as_it_is() {
    let (answer, asked, _) = sent(pause(), &[]).await;
    assert!(matches!(answer, Err(Failure::Refused(_))), "{answer:?}");
    assert_eq!(asked.len(), 1);
}

#[tokio::test]
async fn a_leader_that_cannot_be_reached_is_asked_again() {
    let (answer, asked, runs) = sent(submit(None), &[Fate::Unreached, Fate::Unreached]).await;
    assert!(matches!(answer, Ok(Answer::Run(_))), "{answer:?}");
    assert_eq!((asked.len(), runs), (3, 1));
}

/// P6: a command without a key is not repeated to find out whether it took effect.
#[tokio::test]
async fn a_command_without_a_key_is_not_sent_again_after_a_lost_answer() {
    for (fate, happened) in [(Fate::AnswerLost, 1), (Fate::Lost, 0)] {
        let (answer, asked, runs) = sent(submit(None), &[fate]).await;
        assert!(matches!(answer, Err(Failure::Unknown(_))), "{answer:?}");
        assert_eq!((asked.len(), runs), (1, happened));
    }
}

/// P6: a repetition under the same key has one effect and the same answer.
#[tokio::test]
async fn a_command_with_a_key_is_sent_again_after_a_lost_answer() {
    for fate in [Fate::AnswerLost, Fate::Lost] {
        let (answer, asked, runs) = sent(submit(Some("k")), &[fate, Fate::Unreached, fate]).await;
        assert!(matches!(answer, Ok(Answer::Run(_) | Answer::Existing(_))), "{answer:?}");
        assert_eq!((asked.len(), runs), (4, 1));
    }
}

/// The second try is refused because the first one took effect, so the answer must not be "nothing happened".
#[tokio::test]
async fn a_refusal_after_a_lost_answer_is_unknown() {
    let store = store();
    let (leader, _lead) = leading(&store).await;
    leader.handle().command(put(Expect::Absent, "one")).await.unwrap();
    let peers = Told::new(leader.handle(), &[Fate::AnswerLost]);
    let (node, lead) = passing_on(&store, peers.clone(), LONG);
    lead.send_replace(at("a:1"));
    let answer = node.handle().command(put(Expect::Revision(1), "two")).await;
    assert!(matches!(answer, Err(Failure::Unknown(_))), "{answer:?}");
    assert_eq!(store.job(&Namespace::default(), &name()).await.unwrap().unwrap().revision, 2);
    // A command that has the same effect when repeated gets its answer.
    peers.fates.lock().unwrap().push_back(Fate::AnswerLost);
    let answer = node.handle().command(pause()).await;
    assert!(matches!(&answer, Ok(Answer::Job { job, .. }) if job.is_paused()), "{answer:?}");
}

#[tokio::test]
async fn a_command_waits_until_its_shard_has_a_leader() {
    let store = store();
    let (leader, _lead) = leading(&store).await;
    let peers = Told::new(leader.handle(), &[]);
    let (node, lead) = passing_on(&store, peers.clone(), LONG);
    let handle = node.handle();
    let waiting = tokio::spawn(async move { handle.command(submit(None)).await });
    // While no node leads the shard, no peer is asked; the command is sent when the leader is known.
    tokio::task::yield_now().await;
    assert_eq!(peers.asked(), Vec::<String>::new());
    lead.send_replace(at("b:2"));
    assert!(waiting.await.unwrap().is_ok());
    assert_eq!(peers.asked(), ["b:2"]);
}

#[tokio::test]
async fn a_command_follows_its_shard_to_the_new_leader() {
    let store = store();
    let (leader, _lead) = leading(&store).await;
    let (former, former_lead) = passing_on(&store, Told::new(leader.handle(), &[]), LONG);
    former_lead.send_replace(at("elsewhere:1"));
    let refused = former.handle().command_here(submit(None)).await;
    assert!(
        matches!(refused, Err(Failure::NotLed(_))),
        "a node never forwards a forwarded command: {refused:?}"
    );

    let peers = Told::new(leader.handle(), &[]);
    let (node, lead) = passing_on(&store, peers.clone(), LONG);
    lead.send_replace(at(GONE));
    let handle = node.handle();
    let waiting = tokio::spawn(async move { handle.command(submit(None)).await });
    while peers.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    lead.send_replace(at("newer:2"));
    assert!(waiting.await.unwrap().is_ok());
    let mut asked = peers.asked();
    asked.dedup();
    assert_eq!(asked, [GONE, "newer:2"]);
    assert_eq!(runs(&store).await, 1);
}

#[tokio::test]
async fn a_command_without_a_leader_fails_after_its_time_limit() {
    let store = store();
    let (node, _lead) = passing_on(&store, Arc::new(Told::default()), Duration::from_millis(50));
    let answer = node.handle().command(submit(None)).await;
    let why = "new run: no node leads its shard right now; try again".to_owned();
    assert_eq!(answer, Err(Failure::Unavailable(why)));
    assert_eq!(runs(&store).await, 0);
}

#[tokio::test]
async fn an_id_of_a_missing_shard_is_not_found_on_any_node() {
    let store = store();
    let (node, lead) = passing_on(&store, Arc::new(Told::default()), LONG);
    lead.send_replace(at("a:1"));
    let run = RunId((1 << 40) | (i64::from(SHARDS) << 12));
    let cancel = Command::CancelRun {
        namespace: Namespace::default(),
        run,
        now: false,
        by: None,
        comment: Box::default(),
    };
    let answer = node.handle().command(cancel).await;
    assert!(matches!(answer, Err(Failure::Refused(_))), "{answer:?}");
}

#[tokio::test]
async fn a_node_that_stops_answers_every_waiting_command() {
    let store = store();
    let (node, lead) = leading(&store).await;
    let handle = node.handle();
    node.shut_down().await;
    assert!(matches!(handle.command(submit(None)).await, Err(Failure::Unavailable(_))));
    assert!(matches!(handle.command_here(submit(None)).await, Err(Failure::NotLed(_))), "nothing happened");
    lead.send_replace(Leaders::alone(SHARDS));
}

#[tokio::test]
async fn a_run_without_a_key_stays_on_the_node_that_was_asked() {
    let (node, lead) = leading(&store()).await;
    let handle = node.handle();
    let mut half = at(GONE);
    half.shards[1] = Leader::Here;
    half.shards[2] = Leader::Here;
    lead.send_replace(half);
    let shards: Vec<u16> = (0..1000).map(|_| Submit::shard_of(handle.spread(), SHARDS).0).collect();
    let stayed = shards.iter().filter(|shard| [1, 2].contains(shard)).count();
    assert!(stayed > 950, "{stayed} of 1000");
    assert!([1, 2].iter().all(|led| shards.iter().filter(|shard| *shard == led).count() > 300));
    lead.send_replace(at(GONE));
    let elsewhere: Vec<u16> = (0..1000).map(|_| Submit::shard_of(handle.spread(), SHARDS).0).collect();
    assert!((0..SHARDS).all(|shard| elsewhere.iter().filter(|at| **at == shard).count() > 100));
    node.shut_down().await;
}
