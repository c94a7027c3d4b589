//! Finds runs by the search index.
//!
//! If a word of the search has few matches in the index, these runs are read. If every word has many, a walk over all
//! runs soon meets a match, so each of its steps asks the index about the runs that it visited.

use std::cmp::Reverse;
use std::sync::Arc;

use punctual_core::ids::RunId;
use punctual_core::name::Namespace;
use punctual_core::run::Run;
use punctual_core::search::{Search, end_of};
use rustc_hash::FxHashMap;

use super::backend::{Backend, Purpose, Scope, work};
use super::connection::{Connection, ask};
use super::queries::run_terms;
use super::records;
use crate::listing::{Span, listed};
use crate::{Result, RunFilter};

/// Matches of a word that are few: all of them are read at once.
const MATCHES_MAX: usize = 10_000;
/// Runs that are read in one step.
const RUNS_AT_ONCE: usize = 256;

/// The runs that one word of the search matches, in any order. `None` means that every word matches too many, or that
/// there is no word.
pub(super) async fn candidates<B: Backend>(
    store: &B,
    namespace: &Namespace,
    search: &Search,
) -> Result<Option<Vec<i64>>> {
    let mut fewest: Option<Vec<i64>> = None;
    for word in search.looked_up() {
        let (first, end) = (word.as_bytes().to_vec(), end_of(word));
        let list = ask!(run_terms::RUNS, namespace.as_str().to_owned(), first, end, MATCHES_MAX + 1);
        let runs = store.list(work!(|c| c.all(list, |row| row.int(0)).await)).await?;
        if runs.len() <= MATCHES_MAX && fewest.as_ref().is_none_or(|fewest| runs.len() < fewest.len()) {
            fewest = Some(runs);
        }
    }
    Ok(fewest)
}

/// The runs among the candidates that the filter takes, in its order.
pub(super) async fn among<B: Backend>(
    store: &B,
    mut candidates: Vec<i64>,
    filter: &RunFilter,
    after: Option<RunId>,
    limit: usize,
) -> Result<Vec<Arc<Run>>> {
    let Some(span) = Span::of(filter, after) else { return Ok(Vec::new()) };
    candidates.retain(|run| (span.first..=span.last).contains(run));
    candidates.sort_unstable();
    candidates.dedup();
    if !filter.oldest_first {
        candidates.reverse();
    }
    let mut runs = Vec::new();
    for ids in candidates.chunks(RUNS_AT_ONCE) {
        let (ids, filter) = (ids.to_vec(), filter.clone());
        let read = work!(|c| {
            let ids = matching(c, filter.search.as_ref(), ids).await?;
            let ids: Vec<RunId> = ids.into_iter().map(RunId).collect();
            let mut found = records::runs_by_id(c, &ids, listed).await?;
            found.retain(|(run, _)| filter.takes(run));
            found.sort_by_key(|(run, _)| Reverse(run.id));
            if filter.oldest_first {
                found.reverse();
            }
            Ok(found)
        });
        let found: Vec<records::Found> = Backend::run(store, Purpose::List, Scope::Snapshot, read).await?;
        runs.extend(found.into_iter().map(|(run, _)| run));
        if runs.len() >= limit {
            break;
        }
    }
    runs.truncate(limit);
    Ok(runs)
}

/// Those of the runs whose terms match the search.
pub(super) async fn matching(
    c: &mut dyn Connection,
    search: Option<&Search>,
    runs: Vec<i64>,
) -> Result<Vec<i64>> {
    let Some(search) = search else { return Ok(runs) };
    let mut terms: FxHashMap<i64, Vec<String>> = FxHashMap::default();
    let keys = runs.iter().map(|run| vec![(*run).into()]).collect();
    let found = c.by_keys(run_terms::OF_RUNS, keys, |row| Ok((row.int(0)?, row.text(1)?.to_owned()))).await?;
    for (run, term) in found {
        terms.entry(run).or_default().push(term);
    }
    let is_match = |run: &i64| terms.get(run).is_some_and(|terms| search.finds(terms));
    Ok(runs.into_iter().filter(is_match).collect())
}
