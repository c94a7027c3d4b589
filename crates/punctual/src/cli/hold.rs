//! `punctual hold` and `punctual release`: nothing in a namespace, or anywhere, starts.

use std::time::Duration;

use clap::{Args, ValueEnum};
use punctual_core::Timestamp;
use punctual_core::name::Namespace;
use punctual_wire::Text;
use punctual_wire::rest::{HeldFires, Hold, PutHold};
use punctual_wire::text::Span;

use super::Session;
use super::failure::Failure;
use super::output::{one_line, print, text};
use super::time;
use crate::wiring;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual hold -n payments --reason 'the bank is closed' --for 2h
  punctual hold --everywhere --reason 'the database moves' --fires keep
  punctual hold                              show the holds that cover the namespace

Runs that have started go on. Everything else waits until the hold ends.")]
pub(crate) struct Order {
    /// Why; everyone whose runs wait sees it. Without a reason, the command shows the holds that cover the
    /// namespace
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// How long the hold lasts [default: until it is released]
    #[arg(long = "for", value_name = "DURATION", value_parser = time::duration, requires = "reason")]
    lasts: Option<Duration>,
    /// When the hold ends by itself, within a year
    #[arg(long, value_name = "INSTANT", conflicts_with = "lasts", requires = "reason")]
    until: Option<Timestamp>,
    /// What happens to the due times during the hold: skip them, or keep them for a backfill after the hold
    #[arg(long, value_enum, default_value_t = FiresArg::Skip, requires = "reason")]
    fires: FiresArg,
    /// Every namespace, not only that of -n
    #[arg(long)]
    everywhere: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual release -n payments
  punctual release --everywhere")]
pub(crate) struct Release {
    /// Release the hold of all namespaces; holds of single namespaces stay
    #[arg(long)]
    everywhere: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FiresArg {
    Skip,
    Keep,
}

impl Order {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let scope = scope(session, self.everywhere);
        let Some(reason) = self.reason else { return list(session, scope).await };
        let fires = match self.fires {
            FiresArg::Skip => HeldFires::Skip,
            FiresArg::Keep => HeldFires::Keep,
        };
        let order = PutHold { reason, until: self.until.map(Text), lasts: self.lasts.map(Span), fires };
        let hold = session.client.hold(scope, &order).await?;
        session.output.show(&hold, |_| describe(&hold))
    }
}

impl Release {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let scope = scope(session, self.everywhere);
        session.client.release(scope).await?;
        print(&format!("released {}", scope.map_or("everything", Namespace::as_str)))
    }
}

fn scope(session: &Session, everywhere: bool) -> Option<&Namespace> {
    (!everywhere).then_some(&session.namespace)
}

async fn list(session: &Session, scope: Option<&Namespace>) -> Result<(), Failure> {
    let holds = session.client.holds(scope).await?.items;
    session.output.show(&holds, |output| {
        if holds.is_empty() {
            return "no hold is in force".to_owned();
        }
        let now = wiring::now();
        let mut table = output.table(&["HOLD", "SINCE (UTC)", "UNTIL (UTC)", "FIRES", "BY", "REASON"]);
        for hold in &holds {
            let pause = &hold.pause;
            let until = pause.until.map(|until| output.time(until.0, now));
            table.add_row([
                scope_of(hold),
                output.time(pause.since.0, now),
                until.unwrap_or_else(|| "its release".to_owned()),
                if hold.fires == HeldFires::Keep { "keep" } else { "skip" }.to_owned(),
                pause.by.clone().unwrap_or_default(),
                one_line(&pause.reason, 60),
            ]);
        }
        text(table)
    })
}

/// In words: ``namespace `payments` is on hold by ops: the bank is closed``.
fn describe(hold: &Hold) -> String {
    let what = match &hold.namespace {
        Some(namespace) => format!("namespace `{namespace}` is on hold"),
        None => "all namespaces are on hold".to_owned(),
    };
    let mark = if hold.pause.by.is_some() { "" } else { ":" };
    format!("{what}{mark} {}", hold.pause.told())
}

/// What a hold covers, and whether some shards have missed its order.
fn scope_of(hold: &Hold) -> String {
    if hold.is_complete() {
        return hold.scope();
    }
    format!("{} (in {} of {} shards: repeat it)", hold.scope(), hold.shards_held, hold.shards)
}
