//! How many approvals wait, locks are held, or incidents are open in each namespace.

use std::collections::BTreeMap;

use punctual_core::ids::ShardId;
use punctual_core::name::Namespace;

/// Counted by namespace and shard. The shards of other nodes are not counted: a count over the whole cluster would need a
/// read of the store before each of them begins. A fixed share of the limit for each shard would be far too small for
/// a namespace with few jobs.
#[derive(Debug, Default)]
pub(super) struct CountByNamespace(BTreeMap<(Namespace, ShardId), usize>);

impl CountByNamespace {
    /// How many there are in a namespace.
    pub(super) fn of(&self, namespace: &Namespace) -> usize {
        let first = (namespace.clone(), ShardId(0));
        let of_namespace = self.0.range(first..).take_while(|((of, _), _)| of == namespace);
        of_namespace.map(|(_, count)| count).sum()
    }

    pub(super) fn began(&mut self, namespace: &Namespace, shard: ShardId) {
        *self.0.entry((namespace.clone(), shard)).or_default() += 1;
    }

    pub(super) fn ended(&mut self, namespace: &Namespace, shard: ShardId) {
        let key = (namespace.clone(), shard);
        if let Some(count) = self.0.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&key);
            }
        }
    }

    pub(super) fn forget(&mut self, shard: ShardId) {
        self.0.retain(|(_, of), _| *of != shard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_counted_over_the_shards_of_a_node() {
        let (a, b): (Namespace, Namespace) = ("a".parse().unwrap(), "b".parse().unwrap());
        let mut counts = CountByNamespace::default();
        for (namespace, shard) in [(&a, 1), (&a, 1), (&a, 63), (&b, 1)] {
            counts.began(namespace, ShardId(shard));
        }
        assert_eq!((counts.of(&a), counts.of(&b)), (3, 1));
        counts.ended(&a, ShardId(63));
        counts.forget(ShardId(1));
        assert!(counts.of(&a) == 0 && counts.0.is_empty());
    }
}
