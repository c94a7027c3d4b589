//! The search index: which runs a search finds, in which order, and that terms go with their run.

use punctual_core::change::Row;
use punctual_core::ids::RunId;
use punctual_core::run::{Run, Status};
use punctual_core::search::Search;

use super::given::*;
use crate::{Error, PrunePolicy, Result, RunFilter, Store};

fn filter(text: &str) -> RunFilter {
    let search = Some(Search::parse(text).expect("a case searches well"));
    RunFilter { namespace: Some(namespace("default")), search, ..RunFilter::default() }
}

async fn found(store: &dyn Store, filter: &RunFilter) -> Result<Vec<RunId>> {
    Ok(store.runs(filter, None, 100).await?.iter().map(|run| run.id).collect())
}

async fn find(store: &dyn Store, text: &str) -> Result<Vec<RunId>> {
    found(store, &filter(text)).await
}

/// Inserts a live run with these terms.
async fn indexed(store: &dyn Store, leader: &mut Leader, terms: &[&str]) -> Result<Run> {
    let run = leader.ad_hoc(at(1000));
    let terms = terms.iter().map(|term| term_of(&run, term));
    let rows: Vec<Row> = terms.chain([run_row(&run)]).collect();
    leader.insert(store, rows).await?;
    Ok(run)
}

pub async fn runs_are_found_by_the_beginning_of_a_term(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let one = indexed(store, &mut leader, &["order-4711", "order-4712", "größe"]).await?.id;
    let two = indexed(store, &mut leader, &["order-48"]).await?.id;
    let none: [RunId; 0] = [];
    assert_eq!(find(store, "order-4711").await?, [one]);
    assert_eq!(find(store, "ORDER-47").await?, [one], "once, however many of its terms match");
    assert_eq!(find(store, "order-4").await?, [two, one]);
    assert_eq!(find(store, "order-5").await?, none);
    assert_eq!(find(store, "rder-4711").await?, none);
    assert_eq!(find(store, "order-47111").await?, none);
    assert_eq!(find(store, "grö").await?, [one]);
    assert_eq!(find(store, "or%").await?, [two, one], "punctuation around a word is left out");
    assert_eq!(find(store, "o_der").await?, none, "no character stands for another");
    assert_eq!(find(store, "--").await?, none, "it has no words");
    Ok(())
}

pub async fn every_word_of_a_search_must_match(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let both = indexed(store, &mut leader, &["acme", "billing", "timeout"]).await?.id;
    let one = indexed(store, &mut leader, &["acme", "shipping"]).await?.id;
    assert_eq!(find(store, "acme").await?, [one, both]);
    assert_eq!(find(store, "acme bill").await?, [both]);
    assert_eq!(find(store, "time acme bill").await?, [both]);
    assert_eq!(find(store, "billing shipping").await?, []);
    Ok(())
}

pub async fn a_search_goes_with_the_other_filters(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = leader.job("its-job");
    let (waiting, ended) = (leader.run_of(&job, at(10)), failed(&leader.run_of(&job, at(0)), at(5)));
    let other = indexed(store, &mut leader, &["acme"]).await?;
    let rows = [job_row(&job), run_row(&waiting), history_row(&ended)];
    let terms = [&waiting, &ended].map(|run| term_of(run, "acme"));
    leader.insert(store, rows.into_iter().chain(terms)).await?;
    let all = filter("acme");
    assert_eq!(found(store, &all).await?.len(), 3);
    let of_job = RunFilter { jobs: vec![job.id], ..all.clone() };
    assert_eq!(found(store, &of_job).await?, [ended.id, waiting.id]);
    assert_eq!(found(store, &RunFilter { statuses: vec![Status::Failed], ..all.clone() }).await?, [ended.id]);
    let oldest_first = RunFilter { oldest_first: true, ..all.clone() };
    assert_eq!(found(store, &oldest_first).await?, [waiting.id, ended.id, other.id]);
    assert_eq!(found(store, &RunFilter { until: Some(NOW.before(DAY)), ..all }).await?, []);
    Ok(())
}

pub async fn a_search_is_of_one_namespace(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let here = indexed(store, &mut leader, &["acme"]).await?.id;
    let there = Run { namespace: namespace("default/below"), ..leader.ad_hoc(at(1000)) };
    leader.insert(store, [run_row(&there), term_of(&there, "acme")]).await?;
    assert_eq!(find(store, "acme").await?, [here]);
    let below = RunFilter { namespace: Some(namespace("default/below")), ..filter("acme") };
    assert_eq!(found(store, &below).await?, [there.id]);
    Ok(())
}

pub async fn pages_of_found_runs_neither_skip_nor_repeat(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut expected = Vec::new();
    let mut rows = Vec::new();
    for n in 0..700 {
        let run = leader.ad_hoc(at(1000));
        let term = if n % 2 == 0 { "even" } else { "odd" };
        rows.extend([run_row(&run), term_of(&run, term), term_of(&run, "all")]);
        expected.extend((n % 2 == 0).then_some(run.id));
    }
    leader.insert(store, rows).await?;
    for oldest_first in [true, false] {
        let filter = RunFilter { oldest_first, ..filter("even al") };
        let mut seen: Vec<RunId> = Vec::new();
        loop {
            let page = store.runs(&filter, seen.last().copied(), 40).await?;
            if page.is_empty() {
                break;
            }
            seen.extend(page.iter().map(|run| run.id));
        }
        assert_eq!(seen, expected);
        expected.reverse();
    }
    Ok(())
}

pub async fn a_run_is_found_while_it_lives_and_after_its_end(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let run = indexed(store, &mut leader, &["acme"]).await?;
    assert_eq!(find(store, "acme").await?, [run.id]);
    leader.settle(store, &failed(&run, at(2000))).await?;
    leader.insert(store, [term_of(&run, "broke")]).await?;
    assert_eq!(find(store, "acme broke").await?, [run.id]);
    Ok(())
}

/// A term of more runs than are read at once.
pub async fn a_frequent_term_finds_the_newest_runs_first(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut all = Vec::new();
    for _ in 0..11 {
        let runs: Vec<Run> = (0..1000).map(|_| succeeded(&leader.ad_hoc(at(0)), at(1))).collect();
        let terms = runs.iter().map(|run| term_of(run, "billing"));
        let rows: Vec<Row> = runs.iter().map(history_row).chain(terms).collect();
        leader.insert(store, rows).await?;
        all.extend(runs.iter().map(|run| run.id));
    }
    let last = all[all.len() - 5];
    let rare = Run { id: last, ..leader.ad_hoc(at(0)) };
    leader.insert(store, [term_of(&rare, "rare")]).await?;
    all.reverse();
    assert_eq!(find(store, "billing").await?, all[..100]);
    assert_eq!(find(store, "rare billing").await?, [last]);
    let page = store.runs(&filter("bill"), Some(all[5000]), 3).await?;
    assert_eq!(page.iter().map(|run| run.id).collect::<Vec<_>>(), all[5001..5004]);
    Ok(())
}

/// What is pruned can be inserted again: an entry that was left behind would be refused.
pub async fn the_terms_of_a_run_go_with_it(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (old, recent) =
        (succeeded(&leader.ad_hoc(at(0)), NOW.before(8 * DAY)), succeeded(&leader.ad_hoc(at(0)), NOW));
    let rows = [history_row(&old), history_row(&recent), term_of(&old, "acme"), term_of(&recent, "acme")];
    leader.insert(store, rows).await?;
    let policy = PrunePolicy { now: NOW, ad_hoc_kept: 7 * DAY };
    assert_eq!(store.prune(&policy, 1000).await?, 1, "terms are part of their run");
    assert_eq!(find(store, "acme").await?, [recent.id]);
    leader.insert(store, [term_of(&old, "acme")]).await?;
    let refused = leader.insert(store, [term_of(&recent, "acme")]).await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    Ok(())
}
