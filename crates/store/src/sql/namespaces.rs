//! Namespaces, found one by one through the index of names, so that the number of jobs does not matter.

use punctual_core::name::Namespace;

use super::connection::{Ask, Connection, ask};
use super::queries::namespaces::{JOBS, NEXT_OF_JOBS, NEXT_OF_QUEUES, QUEUES};
use crate::Result;
use crate::reads::{NAMESPACE_COUNT_MAX, NamespaceCounts};

pub(super) async fn read(
    c: &mut dyn Connection,
    mut after: String,
    limit: usize,
) -> Result<Vec<NamespaceCounts>> {
    let mut found: Vec<NamespaceCounts> = Vec::new();
    while found.len() < limit {
        let Some(namespace) = next(c, after).await? else { break };
        after = namespace.as_str().to_owned();
        found.push(NamespaceCounts { namespace, jobs: 0, queues: 0 });
    }
    let names = found.iter().map(|counts| counts.namespace.as_str().to_owned());
    let both = |name: String| {
        [ask!(JOBS, name.clone(), NAMESPACE_COUNT_MAX), ask!(QUEUES, name, NAMESPACE_COUNT_MAX)]
    };
    let asks: Vec<Ask<'static>> = names.flat_map(both).collect();
    c.query(&asks, &mut |index, row| {
        let count = row.int(0)?.cast_unsigned();
        let counts = &mut found[index / 2];
        *(if index % 2 == 0 { &mut counts.jobs } else { &mut counts.queues }) = count;
        Ok(true)
    })
    .await?;
    Ok(found)
}

/// The next namespace with a job or a queue, in the order of names.
async fn next(c: &mut dyn Connection, after: String) -> Result<Option<Namespace>> {
    let mut first: Option<Namespace> = None;
    let asks = [ask!(NEXT_OF_JOBS, after.clone()), ask!(NEXT_OF_QUEUES, after)];
    c.query(&asks, &mut |_, row| {
        let namespace: Namespace = row.name(0)?;
        if first.as_ref().is_none_or(|first| namespace < *first) {
            first = Some(namespace);
        }
        Ok(false)
    })
    .await?;
    Ok(first)
}
