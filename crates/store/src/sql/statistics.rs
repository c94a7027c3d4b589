//! Reads statistics: adds up the rows of each bucket.

use std::collections::BTreeMap;

use punctual_core::Timestamp;
use punctual_core::statistics::{Counts, Period, RecentCounts};

use super::backend::{Backend, work};
use super::connection::{Ask, ask};
use super::queries::statistics;
use super::value::Row;
use crate::reads::{StatisticsFilter, StatisticsOf};
use crate::{Result, codec};

/// Buckets that one statement reads: with 64 shards, some ten thousand rows.
const BUCKETS_AT_ONCE: u32 = 720;

pub(super) async fn read<B: Backend>(
    store: &B,
    filter: &StatisticsFilter,
) -> Result<Vec<(Timestamp, Counts)>> {
    let mut buckets: BTreeMap<Timestamp, Counts> = BTreeMap::new();
    let mut since = filter.since;
    while since < filter.until {
        let until = (since + filter.of.period() * BUCKETS_AT_ONCE).min(filter.until);
        let list = ask_for(&filter.of, since, until);
        let rows = work!(|c| c.all(list, read_row).await);
        let span = StatisticsFilter { since, until, ..filter.clone() };
        for row in store.list(rows).await? {
            match row {
                Read::Bucket(at, counts) => buckets.entry(at).or_default().add(&counts),
                Read::Recent(recent) => span.add(&recent, &mut buckets),
            }
        }
        since = until;
    }
    Ok(buckets.into_iter().collect())
}

enum Read {
    Bucket(Timestamp, Counts),
    Recent(RecentCounts),
}

fn read_row(row: &dyn Row) -> Result<Read> {
    let cannot_read = |error| codec::cannot_read(&error);
    Ok(match row.instant_or_none(0)? {
        Some(at) => Read::Bucket(at, Counts::decode(row.bytes(1)?).map_err(cannot_read)?),
        None => Read::Recent(RecentCounts::decode(0, row.bytes(1)?).map_err(cannot_read)?),
    })
}

fn ask_for(of: &StatisticsOf, since: Timestamp, until: Timestamp) -> Ask<'static> {
    match of {
        StatisticsOf::All(period) => {
            ask!(statistics::OF_ALL, codec::statistics_kind(*period, false), since, until)
        }
        StatisticsOf::Namespace(namespace, period) => {
            let (namespace, kind) = (namespace.as_str().to_owned(), codec::statistics_kind(*period, false));
            ask!(statistics::OF_ONE, namespace, String::new(), kind, since, until)
        }
        StatisticsOf::Job(namespace, job) => {
            let (namespace, job) = (namespace.as_str().to_owned(), job.as_str().to_owned());
            ask!(statistics::OF_ONE, namespace, job, codec::statistics_kind(Period::Hour, true), since, until)
        }
    }
}
