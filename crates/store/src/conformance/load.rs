//! What a new leader of a shard loads.

use std::sync::Arc;

use punctual_core::change::{Changes, RowKey};
use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Job};
use punctual_core::task::Task;

use super::given::*;
use crate::{Result, Store};

fn ids(loaded: &punctual_core::change::Loaded) -> Vec<RunId> {
    let mut ids: Vec<RunId> = loaded.runs.iter().map(|record| record.run.id).collect();
    ids.sort_unstable();
    ids
}

/// Runs that only wait for their due time stay in the store, however many; all other unfinished runs are the live set.
pub async fn held_and_backing_off_runs_are_loaded_and_waiting_ones_are_not(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let waiting = leader.ad_hoc(at(0));
    let live = [
        ready(&leader.ad_hoc(at(0))),
        running(&leader.ad_hoc(at(0))),
        held(&leader.ad_hoc(at(0))),
        backing_off(&leader.ad_hoc(at(0))),
    ];
    leader.insert(store, live.iter().chain([&waiting]).map(run_row)).await?;
    let loaded = leader.load(store).await?;
    assert_eq!(ids(&loaded), live.iter().map(|run| run.id).collect::<Vec<_>>());
    for record in loaded.runs {
        assert!(live.iter().any(|run| *run == *record.run), "a run was loaded as something else");
    }
    Ok(())
}

/// A run enters and leaves the live set with its state.
pub async fn a_run_is_live_from_its_due_time_to_its_end(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let run = leader.ad_hoc(at(0));
    leader.insert(store, [run_row(&run)]).await?;
    assert!(ids(&leader.load(store).await?).is_empty());
    leader.update(store, [run_row(&ready(&run))]).await?;
    assert_eq!(ids(&leader.load(store).await?), [run.id]);
    leader.settle(store, &succeeded(&run, at(3))).await?;
    assert!(ids(&leader.load(store).await?).is_empty());
    assert!(store.run(&run.namespace, run.id).await?.is_some(), "a settled run is history");
    Ok(())
}

pub async fn a_load_has_only_the_runs_of_its_shard(store: &dyn Store) -> Result<()> {
    let mut own = Vec::new();
    for shard in [SHARD, OTHER] {
        let mut leader = Leader::of(store, shard).await?;
        let runs: Vec<_> = (0..10).map(|n| ready(&leader.ad_hoc_made_at(at(n), at(n)))).collect();
        leader.insert(store, runs.iter().map(run_row)).await?;
        own.push((leader, runs.iter().map(|run| run.id).collect::<Vec<_>>()));
    }
    for (leader, runs) in own {
        assert_eq!(ids(&leader.load(store).await?), runs);
    }
    Ok(())
}

/// An edit does not change earlier runs: a run keeps the definition it was created with.
pub async fn a_run_keeps_the_revision_it_was_made_under(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = leader.job("edited");
    let old = ready(&leader.run_of(&job, at(0)));
    leader.insert(store, [job_row(&job), revision_of(&job), run_row(&old)]).await?;
    let definition = Arc::new(Definition::of(Task::Shell("echo new".to_owned())));
    let edited = Job { revision: 2, definition, ..job.clone() };
    let new = ready(&leader.run_of(&edited, at(1)));
    let mut changes = updates([job_row(&edited)]);
    changes.insert(revision_of(&edited));
    changes.insert(run_row(&new));
    leader.commit(store, changes).await?;

    let loaded = leader.load(store).await?;
    for (run, definition) in [(&old, &job.definition), (&new, &edited.definition)] {
        let record = loaded.runs.iter().find(|record| record.run.id == run.id).expect("the run is live");
        assert_eq!((&record.definition, record.job.as_deref()), (definition, Some(&edited)));
    }
    Ok(())
}

/// A job may be deleted while one of its runs is live.
pub async fn a_run_of_a_deleted_job_keeps_its_definition(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = leader.job("deleted");
    let run = running(&leader.run_of(&job, at(0)));
    leader.insert(store, [job_row(&job), revision_of(&job), run_row(&run)]).await?;
    leader.delete(store, [RowKey::Job(job.id)]).await?;
    let loaded = leader.load(store).await?;
    assert_eq!((&loaded.runs[0].definition, &loaded.runs[0].job), (&job.definition, &None));
    Ok(())
}

pub async fn a_new_shard_loads_empty(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let loaded = leader.load(store).await?;
    assert!(loaded.runs.is_empty());
    assert_eq!(loaded.last_id, 0);
    leader.commit(store, Changes::default()).await
}
