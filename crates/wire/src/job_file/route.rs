//! Where a job's runs go, as people write it.

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
        Local
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
}

impl Route {
    pub(crate) fn into_core(self) -> rule::Route {
        rule::Route {
            strategy: self.strategy.map(Into::into).unwrap_or_default(),
            selector: Arc::new(self.selector.unwrap_or_default()),
            key: self.key,
        }
    }

    pub(super) fn of(route: &rule::Route) -> Route {
        let selector = (!route.selector.is_empty()).then(|| (*route.selector).clone());
        Route { strategy: Some(route.strategy.into()), selector, key: route.key.clone() }
    }
}
