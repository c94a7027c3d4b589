//! A workflow that is running, in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use punctual_core::job::Definition;
use punctual_core::limits::{STEP_OUTPUT_BYTES_MAX, WORKFLOW_OUTPUT_BYTES_MAX};
use punctual_core::template::Value;
use punctual_core::workflow::{Graph, Items, Known, Output, Progress, State, StepReason, StepRecord};
use rustc_hash::FxHashMap;

use super::{index, number};

/// The step, and the item of a step with `map`.
pub(super) type Place = (u32, Option<u32>);

#[derive(Debug)]
pub(crate) struct Flow {
    pub(super) graph: Graph,
    pub(super) progress: Progress,
    /// Whether the run is split: its only step has the parts as items.
    pub(super) is_split: bool,
    /// The steps that were decided, and the items of steps with `map` that have not ended.
    pub(super) rows: BTreeMap<Place, Arc<StepRecord>>,
    /// Steps that may start and have not started completely. They have no row yet, or not a row for each item.
    pub(super) to_start: VecDeque<u32>,
    /// Steps with `map` that have started and not ended.
    pub(super) maps: FxHashMap<u32, Mapped>,
    /// What the runs of steps that have not ended share.
    pub(super) prepared: FxHashMap<u32, Arc<Prepared>>,
    /// Bytes of the outputs in the rows.
    pub(super) output_bytes: usize,
    /// A deadline for the rest of a fan-out is set.
    pub(super) is_waiting_for_batch: bool,
}

/// A step with `map`.
#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) items: Arc<[Value]>,
    /// How many items are executed. It is less than the number of items if the workflow was stopped meanwhile.
    pub(super) total: u32,
    pub(super) parallel: u32,
    /// The next item to start.
    pub(super) next: u32,
    pub(super) ended: u32,
    pub(super) failed: u32,
    /// Whether it is among the steps to start.
    pub(super) is_queued: bool,
}

impl Mapped {
    /// Starts no further item. Returns whether none is left.
    pub(super) fn cut(&mut self) -> bool {
        (self.total, self.is_queued) = (self.next, false);
        self.ended == self.total
    }
}

/// What the runs of a step share.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) definition: Arc<Definition>,
    /// The steps that its expressions name, by name. `None` means that they name none.
    pub(super) steps: Option<Value>,
    /// The same as JSON, for its task.
    pub(super) json: Option<Arc<str>>,
}

/// What the items of a step came to.
pub(super) struct MapResult {
    pub(super) state: State,
    pub(super) reason: Option<StepReason>,
    pub(super) items: Items,
    pub(super) output: Option<Arc<str>>,
    pub(super) error: Box<str>,
}

impl Flow {
    pub(super) fn with(graph: Graph, progress: Progress, is_split: bool) -> Flow {
        Flow {
            graph,
            progress,
            is_split,
            rows: BTreeMap::new(),
            to_start: VecDeque::new(),
            maps: FxHashMap::default(),
            prepared: FxHashMap::default(),
            output_bytes: 0,
            is_waiting_for_batch: false,
        }
    }

    /// The output as the row keeps it. A longer one stays in the history of its run.
    pub(super) fn keep_output<'a>(&mut self, output: &'a str) -> Output<'a> {
        let bytes = output.len();
        if bytes == 0 {
            return Output::Nothing;
        }
        if bytes > STEP_OUTPUT_BYTES_MAX || self.output_bytes + bytes > WORKFLOW_OUTPUT_BYTES_MAX {
            return Output::TooLong;
        }
        self.output_bytes += bytes;
        Output::Text(output)
    }

    pub(super) fn step_ended(&mut self, step: u32, state: State) {
        self.progress.ended(&self.graph, index(step), state);
        self.maps.remove(&step);
        self.prepared.remove(&step);
    }

    /// Counts an item that has ended. Returns whether it was the last.
    pub(super) fn item_ended(&mut self, step: u32, item: u32, state: State) -> bool {
        let Some(map) = self.maps.get_mut(&step) else { return false };
        debug_assert!(item < map.next);
        map.ended += 1;
        map.failed += u32::from(state == State::Failed);
        if map.next < map.total && !map.is_queued {
            map.is_queued = true;
            self.to_start.push_back(step);
        }
        map.ended == map.total
    }

    /// The result of a step with `map`; its items leave memory.
    pub(super) fn map_result(&mut self, step: u32) -> Option<MapResult> {
        let map = self.maps.get(&step)?;
        let (ended, failed, all) = (map.ended, map.failed, number(map.items.len()));
        let state = if failed > 0 || ended < all { State::Failed } else { State::Succeeded };
        let items = Items { total: all, succeeded: ended - failed, failed };
        let stopped = (state == State::Failed && failed == 0).then_some(StepReason::Stopped);
        if self.is_split {
            // The result of the run comes from the rows of its parts.
            return Some(MapResult { state, reason: stopped, items, output: None, error: Box::default() });
        }
        let places: Vec<Place> = self.items_of(step).map(|(place, _)| *place).collect();
        let rows: Vec<Arc<StepRecord>> = places.iter().filter_map(|place| self.rows.remove(place)).collect();
        let first = rows.iter().find(|row| row.state == State::Failed);
        let error = first.map_or_else(Box::default, |row| {
            let item = row.key.item.unwrap_or_default();
            format!("item {item}: {}", row.error).into()
        });
        self.output_bytes -=
            rows.iter().filter_map(|row| row.output.as_ref()).map(|text| text.len()).sum::<usize>();
        let is_whole = rows.iter().all(|row| row.reason != Some(StepReason::OutputTooLong));
        let list = is_whole.then(|| listed(&rows));
        let output = match list.as_deref().map(|list| self.keep_output(list)) {
            Some(Output::Text(text)) => Some(Arc::from(text)),
            _ => None,
        };
        let too_long = state == State::Succeeded && output.is_none();
        let reason = stopped.or(too_long.then_some(StepReason::OutputTooLong));
        Some(MapResult { state, reason, items, output, error })
    }

    /// The rows of the items of a step.
    pub(super) fn items_of(&self, step: u32) -> impl Iterator<Item = (&Place, &Arc<StepRecord>)> {
        self.rows.range((step, Some(0))..=(step, Some(u32::MAX)))
    }

    /// What expressions know of a step that has ended.
    pub(super) fn known(&self, step: usize) -> Option<Known<'_>> {
        self.rows.get(&(number(step), None)).map(|row| row.known())
    }

    /// The row of a split run itself. `None` means that the run is a workflow.
    pub(crate) fn whole_of_parts(&self) -> Option<&StepRecord> {
        self.rows.get(&(0, None)).filter(|_| self.is_split).map(|row| &**row)
    }

    /// The rows of the parts of a split run that have started.
    pub(crate) fn parts(&self) -> Vec<&StepRecord> {
        self.items_of(0).map(|(_, row)| &**row).collect()
    }

    pub(super) fn percent(&self) -> u8 {
        if let Some(parts) = self.maps.get(&0).filter(|_| self.is_split) {
            return percent_of(index(parts.ended), parts.items.len());
        }
        let states = self.progress.states();
        let ended = states.iter().filter(|state| state.has_ended()).count();
        percent_of(ended, states.len())
    }
}

fn percent_of(ended: usize, all: usize) -> u8 {
    u8::try_from(ended * 100 / all.max(1)).unwrap_or(100)
}

/// The outputs of the items as a list in JSON; an item without output is null.
fn listed(rows: &[Arc<StepRecord>]) -> String {
    let outputs = rows.iter().map(|row| match &row.output {
        Some(text) => Value::from_json(text).unwrap_or_else(|| Value::text(Arc::clone(text))),
        None => Value::Null,
    });
    Value::List(outputs.collect()).to_json().to_string()
}
