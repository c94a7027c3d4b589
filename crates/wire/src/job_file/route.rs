//! `route:`, which workers a job's runs go to.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::job as rule;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::policy::words;

words!(
    Strategy = rule::Strategy {
        LeastLoaded,
        RoundRobin,
        Random,
        LeastUtilised,
        Weighted,
        ConsistentHash,
        Sticky,
        First,
        Last,
        LeastRecentlyUsed,
        LeastFrequentlyUsed,
        Failover,
        Local,
        Broadcast
    }
);

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { strategy: round_robin, selector: { disk: ssd } }")]
pub struct Route {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Into how many child runs each run is split; `PUNCTUAL_SHARD_INDEX` and `PUNCTUAL_SHARD_TOTAL` tell them apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,
}

impl Route {
    pub(crate) fn into_core(self) -> rule::Route {
        rule::Route {
            strategy: self.strategy.map(Into::into).unwrap_or_default(),
            selector: Arc::new(self.selector.unwrap_or_default()),
            key: self.key,
            shards: self.shards,
        }
    }

    pub(crate) fn of(route: &rule::Route) -> Route {
        let selector = (!route.selector.is_empty()).then(|| (*route.selector).clone());
        let (key, shards) = (route.key.clone(), route.shards);
        Route { strategy: Some(route.strategy.into()), selector, key, shards }
    }
}
