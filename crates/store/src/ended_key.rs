//! The place of an ended run, used as the primary key of the history: its id, and for a child run the id with the sign bit
//! set.
//!
//! Every index of the history ends with the place. So the runs that lists show are one range of every index, and the child
//! runs are another: a list passes over no child, and no index has an entry more. Both ranges are in the order of ids.

use punctual_core::ids::RunId;
use punctual_core::run::Run;

const CHILD: i64 = i64::MIN;

pub(crate) fn of(run: &Run) -> i64 {
    if run.parent().is_some() { child(run.id) } else { whole(run.id) }
}

/// The place of a run without a parent.
pub(crate) fn whole(id: RunId) -> i64 {
    id.0
}

/// The place of a child run.
pub(crate) fn child(id: RunId) -> i64 {
    id.0 | CHILD
}

pub(crate) fn run(place: i64) -> RunId {
    RunId(place & !CHILD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_a_range_below_the_others_in_the_order_of_ids() {
        let ids = [0, 1, 1 << 40, i64::MAX].map(RunId);
        assert!(ids.is_sorted_by_key(|id| child(*id)) && child(RunId(i64::MAX)) < whole(RunId(0)));
        for id in ids {
            assert_eq!([run(child(id)), run(whole(id))], [id, id]);
        }
    }
}
