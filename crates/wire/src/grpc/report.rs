//! The reports of a worker.

use std::sync::Arc;

use punctual_core::attempt::{End, Outcome, Report};
use punctual_core::progress::Progress;
use punctual_core::retry::Failed;
use punctual_core::task::Params;

use super::Malformed;
use super::attempt::{attempt, read_attempt, read_attempts, read_instant};
use super::v1::{self, report::Said};

pub fn report(report: Report) -> v1::Report {
    let said = match report {
        Report::Started { run, token, at } => {
            Said::Started(v1::Started { attempt: Some(attempt(run, token)), at: at.as_millis() })
        }
        Report::Progress { run, token, progress } => Said::Progress(v1::Progress {
            attempt: Some(attempt(run, token)),
            percent: progress.percent.map(u32::from),
            message: progress.message.map(Into::into),
            checkpoint: progress.checkpoint.map(|json| json.as_ref().to_owned()),
            seq: progress.seq,
            rebalance: progress.rebalance,
            params: progress.params.map(|params| params.0.as_ref().to_owned()),
        }),
        Report::Alive { attempts } => Said::Alive(v1::Alive {
            attempts: attempts.into_iter().map(|(run, token)| attempt(run, token)).collect(),
        }),
        Report::Finished { run, token, outcome } => {
            let Outcome { end, started_at, exit_code, output, error, failed } = outcome;
            let end = match end {
                End::Succeeded => v1::End::Succeeded,
                End::Failed => v1::End::Failed,
                End::TimedOut => v1::End::TimedOut,
                End::Yielded => v1::End::Yielded,
            };
            Said::Finished(v1::Finished {
                attempt: Some(attempt(run, token)),
                end: end.into(),
                started_at: started_at.as_millis(),
                exit_code,
                output: output.into(),
                error: error.into(),
                status: match failed {
                    Failed::Status(status) => Some(status.into()),
                    Failed::Error | Failed::Timeout => None,
                },
                timed_out: failed == Failed::Timeout,
            })
        }
        Report::Declined { run, token } => {
            Said::Declined(v1::Declined { attempt: Some(attempt(run, token)) })
        }
        Report::Lent { total } => Said::Lent(v1::Lent { total }),
        Report::Recall { credits } => Said::Recall(v1::Recall { credits }),
        Report::Draining { on } => Said::Draining(v1::Draining { on }),
        Report::Load { cpu_percent, memory_percent } => {
            Said::Load(v1::Load { cpu_percent: cpu_percent.into(), memory_percent: memory_percent.into() })
        }
    };
    v1::Report { said: Some(said) }
}

/// `None` means a report of a newer version, which this one does not know.
pub fn read_report(report: v1::Report) -> Result<Option<Report>, Malformed> {
    let Some(said) = report.said else { return Ok(None) };
    Ok(Some(match said {
        Said::Started(v1::Started { attempt, at }) => {
            let (run, token) = read_attempt(attempt)?;
            Report::Started { run, token, at: read_instant("started.at", at)? }
        }
        Said::Progress(v1::Progress { attempt, percent, message, checkpoint, seq, rebalance, params }) => {
            let (run, token) = read_attempt(attempt)?;
            let percent = percent.map(|percent| read_percent("progress.percent", percent)).transpose()?;
            let (message, checkpoint) = (message.map(Into::into), checkpoint.map(Arc::from));
            let params = params.map(|params| Params(params.into()));
            let progress = Progress { percent, message, checkpoint, seq, rebalance, params };
            progress.check().map_err(|invalid| Malformed::new("progress", invalid.to_string()))?;
            Report::Progress { run, token, progress }
        }
        Said::Alive(v1::Alive { attempts }) => Report::Alive { attempts: read_attempts(attempts)? },
        Said::Finished(finished) => {
            let end = match finished.end() {
                v1::End::Succeeded => End::Succeeded,
                v1::End::Failed => End::Failed,
                v1::End::TimedOut => End::TimedOut,
                v1::End::Yielded => End::Yielded,
                v1::End::Unspecified => return Err(Malformed::missing("finished.end")),
            };
            let (run, token) = read_attempt(finished.attempt)?;
            let started_at = read_instant("finished.started_at", finished.started_at)?;
            let v1::Finished { exit_code, output, error, status, timed_out, .. } = finished;
            let failed = match status {
                Some(status) => Failed::Status(read_status(status)?),
                None if timed_out => Failed::Timeout,
                None => Failed::Error,
            };
            let (output, error) = (output.into(), error.into());
            let outcome = Outcome { end, started_at, exit_code, output, error, failed };
            Report::Finished { run, token, outcome }
        }
        Said::Declined(v1::Declined { attempt }) => {
            let (run, token) = read_attempt(attempt)?;
            Report::Declined { run, token }
        }
        Said::Lent(v1::Lent { total }) => Report::Lent { total },
        Said::Recall(v1::Recall { credits }) => Report::Recall { credits },
        Said::Draining(v1::Draining { on }) => Report::Draining { on },
        Said::Load(v1::Load { cpu_percent, memory_percent }) => Report::Load {
            cpu_percent: read_percent("load.cpu_percent", cpu_percent)?,
            memory_percent: read_percent("load.memory_percent", memory_percent)?,
        },
    }))
}

fn read_status(status: u32) -> Result<u16, Malformed> {
    u16::try_from(status).map_err(|_| Malformed::new("finished.status", format!("{status} is no status")))
}

fn read_percent(field: &'static str, percent: u32) -> Result<u8, Malformed> {
    let number = u8::try_from(percent).ok().filter(|percent| *percent <= 100);
    number.ok_or_else(|| Malformed::new(field, format!("0 to 100, not {percent}")))
}
