//! A worker that lies (T-20), replays (T-19) and comes back as a ghost (P8): it is refused or bounded, and nobody else
//! notices.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use punctual::core::Timestamp;
use punctual::core::attempt::{Outcome, Report};
use punctual::core::ids::{RunId, Token};
use punctual::core::log::{CHUNK_BYTES_MAX, Chunk, Stream};
use punctual::core::progress::Progress;
use punctual::core::run::Status;
use punctual::core::time::Clock;
use punctual::core::worker::Announcement;
use punctual::wire::grpc::v1::order::Said;
use punctual::wire::grpc::v1::worker_client::WorkerClient;
use punctual::wire::grpc::{self, v1};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Code, Streaming};

use crate::scene::{Center, REAL, Setting, noop, shell, within};

/// A worker by hand: it says what it is told to say.
struct Liar {
    out: mpsc::UnboundedSender<v1::FromWorker>,
    incoming: Streaming<v1::FromNode>,
    /// Orders that came in one message with others.
    unread: VecDeque<Said>,
}

impl Liar {
    async fn dial(center: &Center) -> Liar {
        let endpoint = Endpoint::from_shared(format!("http://{}", center.address)).unwrap();
        let mut client = WorkerClient::new(endpoint.connect().await.unwrap());
        let (out, messages) = mpsc::unbounded_channel();
        let incoming = client.session(UnboundedReceiverStream::new(messages)).await.unwrap().into_inner();
        let mut liar = Liar { out, incoming, unread: VecDeque::new() };
        assert!(liar.next().await.unwrap().unwrap().welcome.is_some(), "the node speaks first");
        liar
    }

    /// A worker that is taken, with four slots and all of them lent.
    async fn join(center: &Center, name: &str) -> Liar {
        let mut liar = Liar::dial(center).await;
        liar.announce(grpc::announcement(name, 1, "0.1.0", &Announcement::of(4), &[]));
        assert!(liar.next().await.unwrap().unwrap().admitted);
        liar.report(Report::Lent { total: 4 });
        liar
    }

    fn say(&self, message: v1::FromWorker) {
        drop(self.out.send(message));
    }

    fn announce(&self, announce: v1::Announce) {
        self.say(v1::FromWorker { announce: Some(announce), ..Default::default() });
    }

    fn report(&self, report: Report) {
        self.say(v1::FromWorker { reports: vec![grpc::report(report)], ..Default::default() });
    }

    fn raw(&self, said: v1::report::Said) {
        self.say(v1::FromWorker { reports: vec![v1::Report { said: Some(said) }], ..Default::default() });
    }

    async fn next(&mut self) -> Result<Option<v1::FromNode>, tonic::Status> {
        within("a word of the node", self.incoming.message()).await
    }

    /// The next order of a kind.
    async fn order<T>(&mut self, wanted: impl Fn(Said) -> Option<T>) -> T {
        loop {
            while let Some(said) = self.unread.pop_front() {
                if let Some(found) = wanted(said) {
                    return found;
                }
            }
            let message = self.next().await.unwrap().expect("the stream goes on");
            self.unread.extend(message.orders.into_iter().filter_map(|order| order.said));
        }
    }

    async fn assigned(&mut self) -> (RunId, Token) {
        let attempt = self.order(|said| match said {
            Said::Assign(assignment) => Some(assignment.attempt),
            _ => None,
        });
        grpc::read_attempt(attempt.await).unwrap()
    }

    async fn acknowledged(&mut self) -> (RunId, Token) {
        let attempt = self.order(|said| match said {
            Said::Acknowledge(attempt) => Some(attempt),
            _ => None,
        });
        grpc::read_attempt(Some(attempt.await)).unwrap()
    }

    /// Says again and again that it lives, with these in hand.
    fn beats(&self, attempts: Vec<(RunId, Token)>) -> tokio::task::JoinHandle<()> {
        let out = self.out.clone();
        tokio::spawn(async move {
            loop {
                let alive = grpc::report(Report::Alive { attempts: attempts.clone() });
                if out.send(v1::FromWorker { reports: vec![alive], ..Default::default() }).is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        })
    }

    /// How the node ended the stream.
    async fn refusal(&mut self) -> tonic::Status {
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ended well"),
                Err(status) => return status,
            }
        }
    }
}

fn finished((run, token): (RunId, Token), started_at: i64, output: &str) -> Report {
    let outcome = Outcome { output: output.into(), ..Outcome::succeeded(Timestamp::from_millis(started_at)) };
    Report::Finished { run, token, outcome }
}

async fn center() -> Center {
    Center::start(Setting { lease: Duration::from_secs(3), ..Setting::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_announcement_that_cannot_be_true_ends_the_stream_and_says_why() {
    let center = center().await;
    let good = || grpc::announcement("w", 1, "0.1.0", &Announcement::of(4), &[]);
    let cases: [(v1::Announce, Code, &str); 4] = [
        (v1::Announce { slots: 1 << 31, ..good() }, Code::InvalidArgument, "slots"),
        (v1::Announce { name: "a@1".to_owned(), ..good() }, Code::InvalidArgument, "name"),
        (v1::Announce { name: "x".repeat(1 << 20), ..good() }, Code::InvalidArgument, "name"),
        (v1::Announce { protocol: 99, ..good() }, Code::FailedPrecondition, "protocol 99"),
    ];
    for (announce, code, why) in cases {
        let mut liar = Liar::dial(&center).await;
        liar.announce(announce);
        let status = liar.refusal().await;
        assert_eq!(status.code(), code);
        assert!(status.message().contains(why), "{status:?}");
    }
    let mut silent = Liar::dial(&center).await;
    silent.report(Report::Alive { attempts: Vec::new() });
    assert_eq!(silent.refusal().await.code(), Code::InvalidArgument, "a name comes first");
    center.workers(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_cannot_be_true_ends_the_stream_and_says_why() {
    use v1::report::Said;
    let center = center().await;
    let attempt = Some(v1::Attempt { run: 7, token: 1 });
    let cases: [(Said, &str); 5] = [
        (Said::Progress(v1::Progress { attempt, percent: Some(255), ..v1::Progress::default() }), "percent"),
        (Said::Lent(v1::Lent { total: 1 << 31 }), "lent"),
        (Said::Started(v1::Started { attempt, at: i64::MAX }), "instant"),
        (Said::Started(v1::Started { attempt: None, at: 0 }), "attempt"),
        (Said::Finished(v1::Finished { attempt, ..Default::default() }), "end"),
    ];
    for (said, why) in cases {
        let mut liar = Liar::join(&center, "w").await;
        liar.raw(said);
        let status = liar.refusal().await;
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(why), "{status:?}");
    }
    let mut loud = Liar::join(&center, "w").await;
    let output = "x".repeat(5 << 20);
    loud.report(finished((RunId(7), Token(1)), 0, &output));
    assert_eq!(loud.refusal().await.code(), Code::OutOfRange, "a message has its limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_speaks_for_the_run_of_another() {
    let center = center().await;
    let mut honest = Liar::join(&center, "honest").await;
    let run = center.submit(noop()).await;
    let attempt = honest.assigned().await;
    assert_eq!(attempt.0, run);
    let mut liar = Liar::join(&center, "liar").await;
    // Foreign, of the future, of no shard, never made: none is believed, and what has a leader is acknowledged, so that it
    // is not said again.
    let future = (run, Token(attempt.1.0 + 1));
    for lie in [attempt, future, (RunId(i64::MAX), Token(1)), (RunId(4096), Token(7))] {
        liar.report(Report::Progress { run: lie.0, token: lie.1, progress: Progress::percent(99) });
        liar.report(finished(lie, 0, "mine"));
    }
    assert_eq!(liar.acknowledged().await, attempt);
    let seen = center.run(run).await;
    assert_eq!((seen.state.0, seen.progress), (Status::Running, None));
    assert!(center.node.handle().status().stale_reports >= 2);
    honest.report(finished(attempt, 0, "truth"));
    let ended = center.ended(run).await;
    assert_eq!((ended.state.0, ended.output.as_deref()), (Status::Succeeded, Some("truth")));
    assert!(ended.started_at.unwrap().0 >= ended.created_at.0, "nobody begins in 1970");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_told_twice_counts_once_and_a_ghost_is_refused_and_counted() {
    let center = center().await;
    let mut ghost = Liar::join(&center, "ghost").await;
    let run = center.submit(noop()).await;
    let old = ghost.assigned().await;
    // It says nothing for a lease; then the run is another's.
    let mut other = Liar::join(&center, "other").await;
    let beating = other.beats(Vec::new());
    let new = other.assigned().await;
    assert!(new.0 == run && new.1 > old.1);
    let before = center.node.handle().status().stale_reports;
    ghost.report(finished(old, 0, "from the grave"));
    assert_eq!(ghost.acknowledged().await, old);
    assert!(center.node.handle().wait_until(|status| status.stale_reports > before).await);
    other.report(finished(new, 0, "alive"));
    assert_eq!(other.acknowledged().await, new);
    other.report(finished(new, 0, "alive twice"));
    assert_eq!(other.acknowledged().await, new);
    let ended = center.ended(run).await;
    assert_eq!((ended.attempt, ended.output.as_deref()), (2, Some("alive")));
    beating.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_only_pretends_to_live_meets_the_timeout_of_the_job() {
    let center = center().await;
    let mut liar = Liar::join(&center, "liar").await;
    let timeout = Some(punctual::wire::text::Span(Duration::from_millis(300)));
    let run = center.submit(punctual::wire::rest::Submit { timeout, ..shell("sleep 1000") }).await;
    let attempt = liar.assigned().await;
    let cancelled = liar.order(|said| match said {
        Said::Cancel(cancel) => Some(cancel),
        _ => None,
    });
    assert_eq!(cancelled.await.cause(), v1::Cause::Timeout, "by the time of the node");
    // It never stops and never says so: its lease gives it up in the end.
    drop(liar);
    let ended = center.ended(run).await;
    assert_eq!(ended.state.0, Status::TimedOut, "{attempt:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_never_finishes_is_timed_out_by_the_node() {
    let center = center().await;
    let mut liar = Liar::join(&center, "liar").await;
    let timeout = Some(punctual::wire::text::Span(Duration::from_millis(300)));
    let run = center.submit(punctual::wire::rest::Submit { timeout, ..shell("sleep 1000") }).await;
    let attempt = liar.assigned().await;
    // It says that it began in the far future, so by its own account there is all the time in the world.
    liar.report(Report::Started { run, token: attempt.1, at: Timestamp::from_millis(4_000_000_000_000) });
    let beating = liar.beats(vec![attempt]);
    let cancelled = liar.order(|said| match said {
        Said::Cancel(cancel) => Some(cancel),
        _ => None,
    });
    assert_eq!(cancelled.await.cause(), v1::Cause::Timeout);
    // Other runs go their way meanwhile.
    let mut honest = Liar::join(&center, "honest").await;
    let other = center.submit(noop()).await;
    let (own, theirs) = tokio::join!(
        tokio::time::timeout(Duration::from_secs(1), liar.assigned()),
        tokio::time::timeout(Duration::from_secs(1), honest.assigned()),
    );
    let (worker, given) = match (own, theirs) {
        (Ok(given), _) => (&liar, given),
        (_, Ok(given)) => (&honest, given),
        _ => panic!("nobody was given the other run"),
    };
    worker.report(finished(given, 0, "done"));
    assert_eq!(center.ended(other).await.state.0, Status::Succeeded);
    let seen = center.run(run).await;
    let (started, now) = (seen.started_at.map(|at| at.0), REAL.now());
    assert!(started.is_none_or(|started| started <= now), "nobody begins in the future: {started:?}");
    // When it falls silent at last, it is given up: timed out, not lost.
    beating.abort();
    let ended = center.ended(run).await;
    assert_eq!(ended.state.0, Status::TimedOut);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_without_a_start_counts_for_its_own_run_only() {
    let center = center().await;
    let mut liar = Liar::join(&center, "liar").await;
    let begun = REAL.now();
    for (turn, said) in (1..).zip([0, 1, 4_000_000_000_000]) {
        let (own, other) = (center.submit(noop()).await, center.submit(noop()).await);
        let (first, second) = (liar.assigned().await, liar.assigned().await);
        // Never started, and ended in 1970 or in the far future.
        liar.report(finished(first, said, "so it says"));
        assert_eq!(liar.acknowledged().await, first);
        let ended = center.ended(first.0).await;
        assert_eq!((ended.state.0, ended.attempt), (Status::Succeeded, 1));
        for at in [ended.started_at, ended.finished_at] {
            let at = at.expect("a run that has ended says when").0;
            assert!((begun..=REAL.now()).contains(&at), "{at} is no time of this test");
        }
        assert_eq!(center.run(second.0).await.state.0, Status::Running, "it spoke of one run");
        liar.report(finished(second, said, "and this"));
        assert_eq!(center.ended(second.0).await.state.0, Status::Succeeded);
        assert_eq!([first.0.min(second.0), first.0.max(second.0)], [own.min(other), own.max(other)]);
        // Both slots are lent anew: it is a total.
        liar.report(Report::Lent { total: 4 + 2 * turn });
    }
}

fn chunk((run, token): (RunId, Token), number: u32, bytes: Vec<u8>) -> v1::LogChunk {
    grpc::chunk(Chunk { run, token, number, at: Timestamp::MIN, stream: Stream::Out, bytes })
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_taken_for_what_a_worker_has_in_hand_and_for_nothing_else() {
    let center = center().await;
    let mut honest = Liar::join(&center, "honest").await;
    let run = center.submit(noop()).await;
    let attempt = honest.assigned().await;
    let mut liar = Liar::join(&center, "liar").await;
    let lies =
        vec![chunk(attempt, 0, b"false".to_vec()), chunk((RunId(i64::MAX), Token(1)), 0, b"x".to_vec())];
    liar.say(v1::FromWorker { logs: lies, ..Default::default() });
    let mut acks = 0;
    while acks < 2 {
        acks += liar.next().await.unwrap().unwrap().log_acks.len();
    }
    assert_eq!(center.printed(run).await, "");
    honest.say(v1::FromWorker { logs: vec![chunk(attempt, 0, b"true".to_vec())], ..Default::default() });
    while honest.next().await.unwrap().unwrap().log_acks.is_empty() {}
    assert_eq!(center.printed(run).await, "true");
    let many = (1..60).map(|number| chunk(attempt, number, vec![b'x'; CHUNK_BYTES_MAX])).collect();
    honest.say(v1::FromWorker { logs: many, ..Default::default() });
    let status = honest.refusal().await;
    assert!(status.message().contains("without an acknowledgement"), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_comes_by_a_new_stream_leaves_the_old_one() {
    let center = Arc::new(center().await);
    let mut old = Liar::join(&center, "w").await;
    let run = center.submit(noop()).await;
    let attempt = old.assigned().await;
    let mut new = Liar::dial(&center).await;
    new.announce(grpc::announcement("w", 1, "0.1.0", &Announcement::of(4), &[attempt]));
    assert!(new.next().await.unwrap().unwrap().admitted);
    assert_eq!(old.refusal().await.code(), Code::Aborted);
    center.workers(1).await;
    new.report(finished(attempt, 0, "by the new one"));
    let ended = center.ended(run).await;
    assert_eq!((ended.attempt, ended.output.as_deref()), (1, Some("by the new one")), "it was adopted");
}
