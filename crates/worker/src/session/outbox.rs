//! Messages for one node that the stream has not sent yet.
//!
//! The transport adds reports; when the network has room, the stream sends all that has accumulated as one message. So
//! a slow network makes messages larger, not more numerous. The outbox is bounded: outcomes by the running attempts,
//! output by its window, and of heartbeats, credit totals and load only the newest is kept.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use prost::Message;
use punctual_core::attempt::Report;
use punctual_wire::grpc::{self, MESSAGE_BYTES_FULL, v1};
use tokio_stream::Stream;

use super::logs::Pending;

#[derive(Debug, Clone, Default)]
pub(crate) struct Outbox(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    announce: Option<v1::Announce>,
    reports: VecDeque<Report>,
    /// The newest heartbeat and its number.
    alive: Option<(u64, Report)>,
    lent: Option<Report>,
    load: Option<Report>,
    recall: Option<Report>,
    /// The newest liveness question of the node. 0 means there is none to answer.
    answer: u64,
    logs: VecDeque<Pending>,
    /// Chunks that were sent and not yet acknowledged.
    unacknowledged: VecDeque<Pending>,
    /// Their total size; `window` is its maximum.
    in_flight: usize,
    window: usize,
    leaving: bool,
    closed: bool,
    waker: Option<Waker>,
}

impl Outbox {
    pub(crate) fn new(window: usize) -> Outbox {
        let outbox = Outbox::default();
        outbox.lock().window = window;
        outbox
    }

    pub(crate) fn announce(&self, announce: v1::Announce) {
        self.change(|state| state.announce = Some(announce));
    }

    pub(crate) fn report(&self, report: Report) {
        self.change(|state| match report {
            Report::Lent { .. } => state.lent = Some(report),
            Report::Load { .. } => state.load = Some(report),
            Report::Recall { .. } => state.recall = Some(report),
            report => state.reports.push_back(report),
        });
    }

    pub(crate) fn beat(&self, number: u64, alive: Report) {
        self.change(|state| state.alive = Some((number, alive)));
    }

    /// Answers the node's liveness question.
    pub(crate) fn answer(&self, ask: u64) {
        self.change(|state| state.answer = ask);
    }

    pub(crate) fn log(&self, pending: Pending) {
        self.change(|state| state.logs.push_back(pending));
    }

    /// Removes a chunk that the node stored or refused for good, and returns it. `None` means it was not in flight.
    pub(crate) fn acknowledged(&self, attempt: crate::driver::Key, number: u32) -> Option<Pending> {
        let mut state = self.lock();
        let place = state.unacknowledged.iter().position(|sent| sent.is(attempt, number))?;
        let pending = state.unacknowledged.remove(place)?;
        state.in_flight = state.in_flight.saturating_sub(pending.chunk.bytes.len());
        state.wake();
        Some(pending)
    }

    /// Sends what is queued, then a leave message, and ends the stream.
    pub(crate) fn leave(&self) {
        self.change(|state| {
            state.leaving = true;
            state.closed = true;
        });
    }

    /// Ends the stream without a leave message.
    pub(crate) fn close(&self) {
        self.change(|state| state.closed = true);
    }

    /// Takes the output that the node may not have stored, so that another node can.
    pub(crate) fn take_logs(&self) -> Vec<Pending> {
        let mut state = self.lock();
        state.in_flight = 0;
        let mut logs: Vec<Pending> = state.unacknowledged.drain(..).collect();
        logs.extend(state.logs.drain(..));
        logs
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.wake();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Code under this lock does not panic, so a poisoned state is still consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Everything that fits into one message. `None` means there is nothing to send.
    fn message(&mut self) -> Option<v1::FromWorker> {
        let (announce, answer) = (self.announce.take(), std::mem::take(&mut self.answer));
        let mut message = v1::FromWorker { announce, answer, ..v1::FromWorker::default() };
        let mut bytes = message.announce.as_ref().map_or(0, Message::encoded_len);
        if let Some((number, alive)) = self.alive.take() {
            message.beat = number;
            push(&mut message.reports, alive, &mut bytes);
        }
        for word in [self.lent.take(), self.recall.take(), self.load.take()].into_iter().flatten() {
            push(&mut message.reports, word, &mut bytes);
        }
        while bytes < MESSAGE_BYTES_FULL
            && let Some(report) = self.reports.pop_front()
        {
            push(&mut message.reports, report, &mut bytes);
        }
        self.add_logs(&mut message.logs, &mut bytes);
        if message != v1::FromWorker::default() {
            return Some(message);
        }
        std::mem::take(&mut self.leaving).then_some(v1::FromWorker { leaving: true, ..message })
    }

    fn add_logs(&mut self, logs: &mut Vec<v1::LogChunk>, bytes: &mut usize) {
        while *bytes < MESSAGE_BYTES_FULL
            && let Some(next) = self.logs.front()
            && (self.in_flight == 0 || self.in_flight + next.chunk.bytes.len() <= self.window)
            && let Some(pending) = self.logs.pop_front()
        {
            self.in_flight += pending.chunk.bytes.len();
            *bytes += pending.chunk.bytes.len();
            logs.push(grpc::chunk(pending.chunk.clone()));
            self.unacknowledged.push_back(pending);
        }
    }
}

fn push(reports: &mut Vec<v1::Report>, report: Report, bytes: &mut usize) {
    let report = grpc::report(report);
    *bytes += report.encoded_len();
    reports.push(report);
}

#[derive(Debug)]
pub(crate) struct Outgoing(pub(crate) Outbox);

impl Stream for Outgoing {
    type Item = v1::FromWorker;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<v1::FromWorker>> {
        let mut state = self.0.lock();
        match state.message() {
            Some(message) => Poll::Ready(Some(message)),
            None if state.closed => Poll::Ready(None),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::Timestamp;
    use punctual_core::attempt::Outcome;
    use punctual_core::ids::{RunId, Token};
    use punctual_core::log::{Chunk, Stream as LogStream};

    use super::*;

    fn finished(run: i64, output: usize) -> Report {
        let outcome = Outcome { output: "x".repeat(output).into(), ..Outcome::succeeded(Timestamp::MIN) };
        Report::Finished { run: RunId(run), token: Token(1), outcome }
    }

    fn pending(number: u32, bytes: usize) -> Pending {
        let (run, token, at) = (RunId(1), Token(1), Timestamp::MIN);
        let chunk = Chunk { run, token, number, at, stream: LogStream::Out, bytes: vec![7; bytes] };
        Pending { chunk, _room: None }
    }

    #[test]
    fn what_has_piled_up_goes_as_one_message_and_only_the_newest_heartbeat() {
        let outbox = Outbox::new(1000);
        outbox.beat(1, Report::Alive { attempts: Vec::new() });
        outbox.beat(2, Report::Alive { attempts: vec![(RunId(1), Token(1))] });
        outbox.report(Report::Lent { total: 1 });
        outbox.report(Report::Lent { total: 2 });
        (0..100).for_each(|run| outbox.report(finished(run, 0)));
        let message = outbox.lock().message().unwrap();
        assert_eq!((message.beat, message.reports.len()), (2, 102));
        assert_eq!(outbox.lock().message(), None);
    }

    #[test]
    fn no_message_is_much_larger_than_it_may_be() {
        let outbox = Outbox::new(1000);
        (0..200).for_each(|run| outbox.report(finished(run, 64 * 1024)));
        let (mut count, mut messages) = (0, 0);
        while let Some(message) = outbox.lock().message() {
            assert!(message.encoded_len() < grpc::MESSAGE_BYTES_MAX / 2);
            count += message.reports.len();
            messages += 1;
        }
        assert!(count == 200 && messages > 10, "{count} in {messages}");
    }

    #[test]
    fn no_more_output_is_under_way_than_the_window_holds() {
        let outbox = Outbox::new(1000);
        (0..5).for_each(|number| outbox.log(pending(number, 400)));
        assert_eq!(outbox.lock().message().unwrap().logs.len(), 2);
        assert_eq!(outbox.lock().message(), None);
        assert!(outbox.acknowledged((RunId(1), Token(1)), 0).is_some());
        assert!(outbox.acknowledged((RunId(1), Token(1)), 0).is_none(), "told twice, it counts once");
        assert_eq!(outbox.lock().message().unwrap().logs[0].number, 2);
        let left: Vec<u32> = outbox.take_logs().iter().map(|pending| pending.chunk.number).collect();
        assert_eq!(left, [1, 2, 3, 4], "what the node may not have is sent again in order");
    }

    #[test]
    fn good_bye_comes_last() {
        let outbox = Outbox::new(1000);
        outbox.leave();
        outbox.report(finished(1, 0));
        assert!(!outbox.lock().message().unwrap().leaving);
        assert!(outbox.lock().message().unwrap().leaving);
        assert_eq!(outbox.lock().message(), None);
    }
}
