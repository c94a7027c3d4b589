//! A report of progress that an attempt sends by itself.

use punctual_core::ids::{RunId, Token};
use punctual_core::progress::Progress;
use punctual_core::task::Params;

use super::v1;
use crate::error::Error;
use crate::rest::ProgressReport;

pub fn read_progress(request: v1::ReportRequest) -> Result<ProgressReport, Error> {
    let progress = Progress {
        // A number that does not fit is above 100, and refused as such.
        percent: request.percent.map(|percent| u8::try_from(percent).unwrap_or(u8::MAX)),
        message: request.message.map(Into::into),
        checkpoint: request.checkpoint.map(Into::into),
        seq: request.seq,
        rebalance: request.rebalance,
        params: request.params.map(|json| Params(json.into())),
    };
    progress.check()?;
    let (run, token) = (request.run.map(RunId), request.token.map(Token));
    Ok(ProgressReport { run, token, progress, durable: request.durable })
}
