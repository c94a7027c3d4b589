//! `punctual run approvals`: the steps that wait for an approval.

use clap::Args;
use comfy_table::Cell;
use punctual_wire::rest::Approval;

use crate::cli::failure::Failure;
use crate::cli::output::{Output, text};
use crate::cli::paging::{gather, say_if_more};
use crate::cli::{Session, time};
use crate::wiring;

#[derive(Debug, Args)]
pub(crate) struct Approvals {
    /// The most to show
    #[arg(long, default_value_t = 50)]
    limit: usize,
}

impl Approvals {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let read = async |after: Option<String>, size| {
            session.client.approvals(&session.namespace, after.as_deref(), size).await
        };
        let (approvals, more) = gather(self.limit, read).await?;
        session.output.show(&approvals, |output| table(output, &approvals))?;
        say_if_more(more);
        Ok(())
    }
}

fn table(output: Output, approvals: &[Approval]) -> String {
    let now = wiring::now();
    let mut table = output.table(&["RUN", "STEP", "JOB", "SINCE", "UNTIL"]);
    for approval in approvals {
        table.add_row([
            Cell::new(approval.run),
            Cell::new(&approval.step),
            Cell::new(approval.job.as_ref().map_or("-", |job| job.as_str())),
            Cell::new(time::both(approval.since.0, now)),
            Cell::new(approval.until.map_or("-".to_owned(), |until| time::both(until.0, now))),
        ]);
    }
    text(table)
}
