//! Refuses a job that would be one ping too many in its namespace.
//!
//! Two jobs that are saved at the same moment may both be the last one.

use punctual_core::command::PutJob;
use punctual_core::job::Invalid;
use punctual_core::limits::{PAGE_MAX, PING_JOBS_MAX, PINGS_MAX};
use punctual_store::JobFilter;

use crate::failure::Failure;
use crate::handle::Handle;

impl Handle {
    pub(crate) async fn refuse_too_many_pings(&self, put: &PutJob) -> Result<(), Failure> {
        let unavailable = |error: punctual_store::Error| Failure::Unavailable(error.to_string());
        if put.definition.ping().is_none() {
            return Ok(());
        }
        let present = self.reads().job(&put.namespace, &put.name).await.map_err(unavailable)?;
        if present.is_some_and(|job| job.definition.ping().is_some()) {
            return Ok(());
        }
        let filter = JobFilter { namespace: Some(put.namespace.clone()), calendar: None };
        let (mut after, mut pings) = (None, 0);
        for _ in 0..PING_JOBS_MAX / PAGE_MAX {
            let page = self.reads().jobs(&filter, after, PAGE_MAX).await.map_err(unavailable)?;
            pings += page.iter().filter(|job| job.definition.ping().is_some()).count();
            if pings >= PINGS_MAX {
                let message =
                    format!("namespace `{}` has {PINGS_MAX} pings, the most allowed", put.namespace);
                return Err(Failure::Refused(Invalid::new("task.ping", message).into()));
            }
            match page.last() {
                Some(last) if page.len() == PAGE_MAX => {
                    after = Some((last.namespace.clone(), last.name.clone()));
                }
                _ => break,
            }
        }
        Ok(())
    }
}
