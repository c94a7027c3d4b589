//! Explains cron expressions.

use punctual_core::Timestamp;
use punctual_core::schedule::Weekdays;
use punctual_wire::Text;
use punctual_wire::rest::Explained;
use reqwest::Method;
use serde::Serialize;

use crate::{Client, Result};

/// What to explain, and how. `None` means that the server chooses.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CronQuery {
    pub expression: String,
    pub timezone: Option<String>,
    pub weekdays: Option<Weekdays>,
    pub count: Option<usize>,
    /// `en` or `zh`.
    pub lang: Option<String>,
    pub from: Option<Text<Timestamp>>,
    /// The value that `H` is hashed from: namespace and name of a job.
    pub spread_key: Option<String>,
}

impl Client {
    pub async fn explain_cron(&self, query: &CronQuery) -> Result<Explained> {
        self.get(self.request(Method::GET, "/api/v1/cron/explain").query(query)).await
    }
}
