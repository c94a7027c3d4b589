//! What a worker was assigned on this stream, and which reports that allows.
//!
//! Pure: it counts orders and checks reports. A worker that lends slots which it never announced, or sends
//! more output than allowed, loses its stream.

use punctual_core::attempt::{Order, Report};
use punctual_core::ids::{RunId, Token};
use punctual_core::limits::HOLDING_MAX;
use punctual_core::log::{CHUNK_BYTES_MAX, Chunk};
use punctual_wire::grpc::LOG_WINDOW_BYTES;
use std::collections::HashSet;

#[derive(Debug)]
pub(super) struct Ledger {
    slots: u64,
    /// Credits used up and given back since it joined.
    assigned: u64,
    gave_back: u64,
    held: HashSet<(RunId, Token)>,
    /// Bytes of output not yet acknowledged.
    unwritten: usize,
}

impl Ledger {
    pub(super) fn new(slots: u32) -> Ledger {
        Ledger { slots: slots.into(), assigned: 0, gave_back: 0, held: HashSet::new(), unwritten: 0 }
    }

    /// Records an order that is sent to the worker.
    pub(super) fn ordered(&mut self, order: &Order) {
        match order {
            Order::Assign(assignment) => {
                self.assigned += u64::from(!assignment.again);
                self.held.insert((assignment.run, assignment.token));
            }
            Order::Acknowledge { run, token } => {
                self.held.remove(&(*run, *token));
            }
            Order::GaveBack { total } => self.gave_back = *total,
            Order::Cancel { .. } | Order::Resend | Order::Waiting { .. } => {}
        }
    }

    /// Whether an attempt was assigned on this stream and is not settled.
    pub(super) fn holds(&self, run: RunId, token: Token) -> bool {
        self.held.contains(&(run, token))
    }

    /// Checks a report; the error names what cannot be true.
    pub(super) fn judge(&self, report: &Report) -> Result<(), String> {
        match report {
            // A worker lends a slot again only after it got the order that used it, or the notice that gave it back.
            Report::Lent { total } if *total > self.slots + self.assigned + self.gave_back => {
                Err(format!("lent.total: {total} slots of a worker that has {}", self.slots))
            }
            Report::Alive { attempts } if attempts.len() > HOLDING_MAX => {
                Err(format!("alive.attempts: at most {HOLDING_MAX}"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn printed(&mut self, chunk: &Chunk) -> Result<(), String> {
        self.unwritten += chunk.bytes.len();
        if self.unwritten > LOG_WINDOW_BYTES + CHUNK_BYTES_MAX {
            return Err(format!("logs: more than {LOG_WINDOW_BYTES} bytes without an acknowledgement"));
        }
        Ok(())
    }

    pub(super) fn wrote(&mut self, bytes: usize) {
        self.unwritten = self.unwritten.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::Timestamp;
    use punctual_core::log::Stream;

    use super::*;

    #[test]
    fn a_worker_lends_no_more_slots_than_it_has() {
        let mut ledger = Ledger::new(4);
        assert!(ledger.judge(&Report::Lent { total: 4 }).is_ok());
        assert!(ledger.judge(&Report::Lent { total: 5 }).is_err());
        assert!(ledger.judge(&Report::Lent { total: 1 << 31 }).is_err());
        ledger.ordered(&Order::GaveBack { total: 2 });
        assert!(ledger.judge(&Report::Lent { total: 6 }).is_ok());
        assert!(ledger.judge(&Report::Lent { total: 7 }).is_err());
    }

    #[test]
    fn a_worker_sends_no_more_output_than_the_window_holds() {
        let mut ledger = Ledger::new(1);
        let chunk = |number| Chunk {
            run: RunId(1),
            token: Token(1),
            number,
            at: Timestamp::MIN,
            stream: Stream::Out,
            bytes: vec![0; CHUNK_BYTES_MAX],
        };
        let fits = LOG_WINDOW_BYTES / CHUNK_BYTES_MAX + 1;
        assert!((0..fits as u32).all(|number| ledger.printed(&chunk(number)).is_ok()));
        ledger.wrote(CHUNK_BYTES_MAX);
        assert!(ledger.printed(&chunk(0)).is_ok());
        assert!(ledger.printed(&chunk(1)).is_err());
    }
}
