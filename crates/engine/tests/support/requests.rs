//! What a node does between shards, in one thread.

use punctual_core::cross_shard::{CrossShardRequest, Exchange, Next};
use punctual_engine::Effect;

use super::Rig;

impl Rig {
    /// The requests that have left since the last look.
    pub(crate) fn requests(&mut self) -> Vec<CrossShardRequest> {
        let is_request = |effect: &mut Effect| matches!(effect, Effect::CrossShard(_));
        let requests = self.effects.extract_if(.., is_request);
        requests
            .filter_map(|effect| match effect {
                Effect::CrossShard(request) => Some(request),
                _ => None,
            })
            .collect()
    }

    /// Runs every request, and those that come of them.
    pub(crate) fn run_requests(&mut self) {
        loop {
            let requests = self.requests();
            if requests.is_empty() {
                return;
            }
            requests.into_iter().for_each(|request| self.run_request(request));
        }
    }

    /// The node dies before it carries out its requests, and another takes over with a worker of so many slots.
    pub(crate) fn crash(&mut self, slots: usize) {
        self.effects.clear();
        self.reload();
        self.join(slots);
        // A page of timers brings the notices after a load.
        self.advance("1s");
    }

    pub(crate) fn run_request(&mut self, request: CrossShardRequest) {
        let mut exchange = Exchange::new(request);
        let mut next = exchange.begin(self.now);
        while let Next::Ask(command) = next {
            next = exchange.heard(self.ask(*command));
        }
        assert_eq!(next, Next::Done);
    }
}
