//! The place of a live run: its id with the shard in front, used as the primary key.
//!
//! A run id is (milliseconds, shard, count), so ids are in time order. A place is (shard, milliseconds, count): the
//! same 63 bits in another order, so that a shard is one key range of the table and the key is still one integer.
//! Within a shard both orders are the same.

use punctual_core::ids::{RunId, ShardId};

const COUNT_BITS: u32 = 12;
const SHARD_BITS: u32 = 10;
const MILLIS_BITS: u32 = 41;
const COUNT_MASK: i64 = (1 << COUNT_BITS) - 1;
const SHARD_MASK: i64 = (1 << SHARD_BITS) - 1;
const MILLIS_MASK: i64 = (1 << MILLIS_BITS) - 1;

pub(crate) fn of(run: RunId) -> i64 {
    let (millis, shard, count) = parts(run.0);
    place(shard, millis, count)
}

pub(crate) fn run(place: i64) -> RunId {
    let (shard, millis, count) =
        (place >> (MILLIS_BITS + COUNT_BITS), (place >> COUNT_BITS) & MILLIS_MASK, place & COUNT_MASK);
    RunId((millis << (SHARD_BITS + COUNT_BITS)) | (shard << COUNT_BITS) | count)
}

/// The last place of a shard whose run id is at most `id`, which may belong to another shard.
pub(crate) fn through(shard: ShardId, id: i64) -> i64 {
    let own = i64::from(shard.0);
    if id < 0 {
        return place(own, 0, 0) - 1;
    }
    let (millis, of, count) = parts(id);
    match of.cmp(&own) {
        std::cmp::Ordering::Less => place(own, millis, 0) - 1,
        std::cmp::Ordering::Equal => place(own, millis, count),
        std::cmp::Ordering::Greater => place(own, millis, COUNT_MASK),
    }
}

/// The key range of a shard, both ends included.
pub(crate) fn span(shard: ShardId) -> (i64, i64) {
    (through(shard, -1) + 1, through(shard, i64::MAX))
}

fn parts(id: i64) -> (i64, i64, i64) {
    (id >> (SHARD_BITS + COUNT_BITS), (id >> COUNT_BITS) & SHARD_MASK, id & COUNT_MASK)
}

fn place(shard: i64, millis: i64, count: i64) -> i64 {
    (shard << (MILLIS_BITS + COUNT_BITS)) | (millis << COUNT_BITS) | count
}

#[cfg(test)]
mod tests {
    use punctual_core::Timestamp;
    use punctual_core::ids::IdMaker;

    use super::*;

    fn ids() -> Vec<RunId> {
        let shards = [0, 1, 63, 1023].map(|shard| IdMaker::new(ShardId(shard), 0));
        let clock = [1_735_689_600_000, 1_735_689_600_001, 1_800_000_000_000, 3_000_000_000_000];
        let mut ids = vec![RunId(0), RunId(1), RunId(i64::MAX)];
        for mut shard in shards {
            ids.extend(
                clock.iter().flat_map(|ms| [ms, ms]).map(|ms| RunId(shard.next(Timestamp::from_millis(*ms)))),
            );
        }
        ids
    }

    #[test]
    fn a_place_leads_back_to_its_id_and_lies_in_its_shard() {
        for id in ids() {
            let (first, last) = span(id.shard());
            assert_eq!(run(of(id)), id);
            assert!((first..=last).contains(&of(id)), "{id}");
        }
    }

    #[test]
    fn any_number_cuts_a_shard_where_it_cuts_the_ids() {
        for bound in ids().into_iter().map(|id| id.0).chain([-1]) {
            for id in ids() {
                assert_eq!(of(id) <= through(id.shard(), bound), id.0 <= bound, "{id} and {bound}");
            }
        }
    }
}
