//! `/metrics`: what the node and the endpoints count, in the OpenMetrics text format.
//!
//! Only the HTTP metrics are stored here (those of queues are in `resp::counts`), one set for each row of the
//! route table. The set is fixed, so counting takes no lock, and a made-up path never becomes a label.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use punctual_core::queue::{QueueKey, QueueStat};
use punctual_node::handle::{Looked, QueueStatus};
use punctual_node::metrics::{Histogram, Snapshot};
use punctual_store::{Session, Stats};
use tokio::time::timeout;

use crate::Endpoints;
use crate::resp::Outcome;
use crate::rest::problem::{Failed, internal};
use crate::routes::table;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const MICROS: f64 = 1_000_000.0;
/// How long the node and the store may take to answer.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// The label of requests that matched no route.
const NO_ROUTE: &str = "none";
/// The label of commands that are not in the table.
const NO_COMMAND: &str = "unknown";
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The metrics of one route.
#[derive(Debug)]
struct RouteMetrics {
    method: String,
    route: &'static str,
    by_class: [AtomicU64; CLASSES.len()],
    time: Histogram,
}

/// Requests answered, by route.
#[derive(Debug)]
pub(crate) struct Requests {
    routes: HashMap<&'static str, Vec<RouteMetrics>>,
    others: RouteMetrics,
}

impl RouteMetrics {
    fn of(method: &str, route: &'static str) -> RouteMetrics {
        RouteMetrics {
            method: method.to_owned(),
            route,
            by_class: Default::default(),
            time: Histogram::of_times(),
        }
    }

    fn labels(&self) -> [(&str, &str); 2] {
        [("method", self.method.as_str()), ("route", self.route)]
    }
}

impl Requests {
    pub(crate) fn new() -> Requests {
        let mut routes: HashMap<&'static str, Vec<RouteMetrics>> = HashMap::new();
        for route in table() {
            routes.entry(route.path).or_default().push(RouteMetrics::of(route.method.as_str(), route.path));
        }
        Requests { routes, others: RouteMetrics::of(NO_ROUTE, NO_ROUTE) }
    }

    pub(crate) fn answered(&self, method: &Method, route: Option<&str>, status: StatusCode, time: Duration) {
        // HEAD is answered by the GET route.
        let method = if method == Method::HEAD { Method::GET.as_str() } else { method.as_str() };
        let of_route = route.and_then(|route| self.routes.get(route)).into_iter().flatten();
        let route = of_route.into_iter().find(|route| route.method == method).unwrap_or(&self.others);
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        route.by_class[class].fetch_add(1, Relaxed);
        route.time.observe_time(time);
    }

    fn all(&self) -> impl Iterator<Item = &RouteMetrics> {
        self.routes.values().flatten().chain([&self.others])
    }
}

pub(crate) async fn metrics(State(endpoints): State<Endpoints>) -> Result<Response, Failed> {
    let mut registry = Registry::with_prefix("punctual");
    // A blocked loop or store must not hold back the other metrics.
    let looked = timeout(LOOK_MAX, endpoints.handle.look()).await.ok();
    let stored = timeout(LOOK_MAX, endpoints.handle.reads().stats()).await.ok().and_then(Result::ok);
    registry.register_collector(Box::new(Page { endpoints, looked, stored }));
    let mut page = String::new();
    match text::encode(&mut page, &registry) {
        Ok(()) => Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], page).into_response()),
        Err(fmt::Error) => Err(Failed(internal())),
    }
}

type QueueMetric = (&'static str, &'static str, Option<Unit>, MetricType, fn(&QueueStat) -> Option<u64>);

/// The metrics of each of the longest queues.
const QUEUE_METRICS: [QueueMetric; 8] = [
    (
        "queue_length",
        "Messages that wait for a consumer, of the longest queues that this node leads",
        None,
        MetricType::Gauge,
        |queue| Some(queue.len),
    ),
    (
        "queue_messages",
        "All messages of these queues, delayed and delivered ones included",
        None,
        MetricType::Gauge,
        |queue| Some(queue.messages),
    ),
    (
        "queue_unacknowledged",
        "Messages of these queues that are delivered and not acknowledged",
        None,
        MetricType::Gauge,
        |queue| Some(queue.unacked),
    ),
    (
        "queue_oldest_message_age",
        "Age of the oldest of the first messages of these queues",
        Some(Unit::Seconds),
        MetricType::Gauge,
        |queue| queue.oldest_at.map(|at| queue.now.since(at).as_secs()),
    ),
    ("queue_added", "Messages added to these queues", None, MetricType::Counter, |queue| Some(queue.added)),
    (
        "queue_delivered",
        "Messages delivered from these queues, redeliveries included",
        None,
        MetricType::Counter,
        |queue| Some(queue.taken),
    ),
    ("queue_expired", "Messages of these queues that expired", None, MetricType::Counter, |queue| {
        Some(queue.expired)
    }),
    (
        "queue_dead",
        "Messages of these queues that went to their dead-letter queue",
        None,
        MetricType::Counter,
        |queue| Some(queue.dead),
    ),
];

#[derive(Debug)]
struct Page {
    endpoints: Endpoints,
    /// `None`: the node did not answer in time.
    looked: Option<Looked>,
    /// `None`: the store did not answer in time.
    stored: Option<Stats>,
}

impl Collector for Page {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Writer(encoder);
        self.node(&mut page)?;
        self.cluster(&mut page)?;
        self.stored(&mut page)?;
        self.queues(&mut page)?;
        self.runs(&mut page)?;
        self.messages(&mut page)?;
        self.http(&mut page)?;
        self.resp(&mut page)
    }
}

impl Page {
    fn node(&self, page: &mut Writer<'_>) -> fmt::Result {
        let (handle, status) = (&self.endpoints.handle, self.endpoints.handle.status());
        let metrics = handle.metrics();
        page.info("build", "The version of Punctual", &[("version", env!("CARGO_PKG_VERSION"))])?;
        page.gauge(
            "ready",
            "1 if every shard is loaded and the store accepts commits",
            u64::from(status.ready),
        )?;
        page.gauge("shards_led", "Shards that this node leads", status.shards_led as u64)?;
        let waiting = status.live_runs.saturating_sub(status.ready_runs + status.running_runs);
        page.gauge(
            "commands_pending",
            "Commands that wait to be handled by this node",
            handle.asks() as u64,
        )?;
        page.gauges(
            "live_runs",
            "Runs in the memory of this node, by state",
            "state",
            [
                ("waiting", waiting as u64),
                ("ready", status.ready_runs as u64),
                ("running", status.running_runs as u64),
            ],
        )?;
        page.counter("commits", "Durable commits", status.commits)?;
        page.counter("changes", "Rows changed by durable commits", status.changes)?;
        page.times("commit_duration", "How long a commit took", &metrics.commit_time.snapshot())?;
        page.sizes("commit_changes", "Rows changed in one commit", &metrics.commit_changes.snapshot())
    }

    fn cluster(&self, page: &mut Writer<'_>) -> fmt::Result {
        let status = self.endpoints.handle.status();
        let is_lost = |session: &Session| status.lost.iter().any(|lost| lost.session.id == session.id);
        // A single node has no members.
        let alive = status.members.iter().filter(|session| !is_lost(session)).count().max(1);
        page.gauges(
            "nodes",
            "Nodes of the cluster as this node sees them; a lost node is counted for an hour",
            "state",
            [("alive", alive as u64), ("lost", status.lost.len() as u64)],
        )?;
        let Some(Looked { workers, .. }) = &self.looked else { return Ok(()) };
        let (lost, workers): (Vec<_>, Vec<_>) = workers.iter().partition(|worker| worker.lost);
        let states = [("ready", workers.len() as u64), ("lost", lost.len() as u64)];
        page.gauges(
            "workers",
            "Workers of this node; a lost worker is counted for an hour",
            "state",
            states,
        )?;
        let slots: usize = workers.iter().map(|worker| worker.slots).sum();
        page.gauge("worker_slots", "Slots of the ready workers, shared by all nodes", slots as u64)?;
        let busy: usize = workers.iter().map(|worker| worker.busy).sum();
        page.gauge("worker_slots_busy", "Slots in use by attempts of this node", busy as u64)
    }

    /// What the store counts, for the whole cluster.
    fn stored(&self, page: &mut Writer<'_>) -> fmt::Result {
        let Some(stored) = &self.stored else { return Ok(()) };
        page.gauge("jobs", "Jobs in the store", stored.jobs)?;
        page.gauge("dead_letters", "Dead letters in the store", stored.dead_letters)?;
        page.gauge("queues", "Queues in the store", stored.queues)?;
        page.gauge("messages", "Messages in the store, of all queues", stored.messages)
    }

    /// The counters are those of the leader: they begin again after a takeover.
    fn queues(&self, page: &mut Writer<'_>) -> fmt::Result {
        let queues = self.looked.as_ref().map(|looked| looked.queues.as_slice()).unwrap_or_default();
        for (name, help, unit, kind, value) in QUEUE_METRICS {
            let mut metric = page.metric(name, help, unit.as_ref(), kind)?;
            for QueueStatus { queue: QueueKey { namespace, name }, stat } in queues {
                let labels = [("namespace", namespace.as_str()), ("queue", name.as_str())];
                let Some(value) = value(stat) else { continue };
                let metric = metric.encode_family(&labels)?;
                match kind {
                    MetricType::Counter => ConstCounter::new(value).encode(metric)?,
                    _ => ConstGauge::new(value).encode(metric)?,
                }
            }
        }
        Ok(())
    }

    fn runs(&self, page: &mut Writer<'_>) -> fmt::Result {
        let (metrics, status) = (self.endpoints.handle.metrics(), self.endpoints.handle.status());
        let help = "From the due time of a run to the moment its first attempt was handed to a worker";
        page.times("start_lateness", help, &metrics.lateness.snapshot())?;
        page.counter("runs_created", "Runs created", metrics.runs_created())?;
        let ended = metrics.runs_ended().map(|(state, count)| (state.as_str(), count));
        page.counters("runs_ended", "Runs that ended, by their last state", "state", ended)?;
        let attempts = metrics.attempts().map(|(ending, count)| (ending.as_str(), count));
        page.counters("attempts", "Attempts of the runs that ended, by outcome", "outcome", attempts)?;
        page.counter(
            "stale_reports",
            "Results refused because a newer attempt had outdated them",
            status.stale_reports,
        )?;
        self.progress(page)?;
        let (bytes, cut, lost) = metrics.logs();
        page.counter("log_bytes", "Bytes of output stored", bytes)?;
        page.counter("log_cuts", "Attempts whose output reached its limit", cut)?;
        page.counter("log_losses", "Chunks of output that could not be stored", lost)
    }

    fn progress(&self, page: &mut Writer<'_>) -> fmt::Result {
        let help = "Reports of progress, by the way they came in and by outcome";
        let mut metric = page.metric("progress", help, None, MetricType::Counter)?;
        let workers = self.endpoints.handle.status().progress;
        for (way, outcome, count) in self.endpoints.reports.all(workers) {
            let labels = [("way", way), ("outcome", outcome)];
            ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn messages(&self, page: &mut Writer<'_>) -> fmt::Result {
        let messages = self.endpoints.handle.status().messages;
        page.counter("messages_added", "Messages added to queues that this node leads", messages.added)?;
        page.counter(
            "messages_delivered",
            "Messages delivered to consumers, redeliveries included",
            messages.taken,
        )?;
        page.counter("messages_acknowledged", "Messages acknowledged by consumers", messages.acked)?;
        page.counter("messages_expired", "Messages whose time to live was over", messages.expired)?;
        page.counter("messages_dead", "Messages that went to a dead-letter queue", messages.dead)
    }

    fn http(&self, page: &mut Writer<'_>) -> fmt::Result {
        let Endpoints { places, requests, .. } = &self.endpoints;
        page.gauge("http_connections", "Open connections", places.taken() as u64)?;
        page.counter("http_connections_refused", "Connections refused at the limit", places.refused())?;
        let mut answered =
            page.metric("http_requests", "Requests answered, by route", None, MetricType::Counter)?;
        for route in requests.all() {
            for (class, count) in CLASSES.iter().zip(&route.by_class) {
                let count = count.load(Relaxed);
                if count > 0 {
                    let [method, route] = route.labels();
                    let labels = [method, route, ("status", *class)];
                    ConstCounter::new(count).encode(answered.encode_family(&labels)?)?;
                }
            }
        }
        let help = "Time until the answer began, by route";
        let mut times =
            page.metric("http_request_duration", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for route in requests.all() {
            let seen = route.time.snapshot();
            if seen.count > 0 {
                histogram(&mut times.encode_family(&route.labels())?, &seen, MICROS)?;
            }
        }
        Ok(())
    }
}

/// The metrics of the Redis-protocol endpoint.
impl Page {
    fn resp(&self, page: &mut Writer<'_>) -> fmt::Result {
        let (endpoint, counts) = (&self.endpoints.queue_endpoint, &self.endpoints.queue_endpoint.counts);
        page.gauge("resp_connections", "Open connections", endpoint.connections() as u64)?;
        page.gauge("resp_clients_blocked", "Clients that wait for a message", endpoint.blocked() as u64)?;
        for (name, help, count) in [
            ("resp_connections_accepted", "Connections accepted", &counts.connections),
            ("resp_connections_refused", "Connections refused at the limit", &counts.rejected),
            ("resp_received_bytes", "Bytes received from clients", &counts.bytes_in),
            ("resp_sent_bytes", "Bytes sent to clients", &counts.bytes_out),
        ] {
            page.counter(name, help, count.load(Relaxed))?;
        }
        let nonsense = counts.nonsense().map(|(why, count)| (why.as_str(), count));
        page.counters("resp_protocol_errors", "Invalid requests, by reason", "reason", nonsense)?;
        self.resp_commands(page)
    }

    fn resp_commands(&self, page: &mut Writer<'_>) -> fmt::Result {
        let counts = &self.endpoints.queue_endpoint.counts;
        let mut done = page.metric("resp_commands", "Commands, by outcome", None, MetricType::Counter)?;
        for command in counts.commands() {
            for (outcome, count) in command.outcomes().filter(|(_, count)| *count > 0) {
                let labels = [("command", command.name), ("outcome", outcome.as_str())];
                ConstCounter::new(count).encode(done.encode_family(&labels)?)?;
            }
        }
        let labels = [("command", NO_COMMAND), ("outcome", Outcome::Error.as_str())];
        ConstCounter::new(counts.unknown()).encode(done.encode_family(&labels)?)?;
        let help = "Time until the answer, including the wait for a message";
        let mut times =
            page.metric("resp_command_duration", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for command in counts.commands() {
            let seen = command.time.snapshot();
            if seen.count > 0 {
                histogram(&mut times.encode_family(&[("command", command.name)])?, &seen, MICROS)?;
            }
        }
        Ok(())
    }
}

/// Writes metrics one after the other.
struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    fn metric<'b>(
        &'b mut self,
        name: &'b str,
        help: &str,
        unit: Option<&'b Unit>,
        kind: MetricType,
    ) -> Result<MetricEncoder<'b>, fmt::Error> {
        self.0.encode_descriptor(name, help, unit, kind)
    }

    fn info(&mut self, name: &str, help: &str, labels: &[(&str, &str); 1]) -> fmt::Result {
        self.metric(name, help, None, MetricType::Info)?.encode_info(labels)
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        ConstGauge::new(value).encode(self.metric(name, help, None, MetricType::Gauge)?)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        ConstCounter::new(value).encode(self.metric(name, help, None, MetricType::Counter)?)
    }

    fn gauges<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, u64)>,
    ) -> fmt::Result {
        let mut metric = self.metric(name, help, None, MetricType::Gauge)?;
        values.into_iter().try_for_each(|(which, value)| {
            ConstGauge::new(value).encode(metric.encode_family(&[(label, which)])?)
        })
    }

    fn counters<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, u64)>,
    ) -> fmt::Result {
        let mut metric = self.metric(name, help, None, MetricType::Counter)?;
        values.into_iter().try_for_each(|(which, value)| {
            ConstCounter::new(value).encode(metric.encode_family(&[(label, which)])?)
        })
    }

    fn times(&mut self, name: &str, help: &str, seen: &Snapshot) -> fmt::Result {
        histogram(&mut self.metric(name, help, Some(&Unit::Seconds), MetricType::Histogram)?, seen, MICROS)
    }

    fn sizes(&mut self, name: &str, help: &str, seen: &Snapshot) -> fmt::Result {
        histogram(&mut self.metric(name, help, None, MetricType::Histogram)?, seen, 1.0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a curve does not show the 54th bit")]
fn histogram(metric: &mut MetricEncoder<'_>, seen: &Snapshot, scale: f64) -> fmt::Result {
    let bound = |bound: u64| if bound == u64::MAX { f64::INFINITY } else { bound as f64 / scale };
    let buckets: Vec<(f64, u64)> = seen.buckets.iter().map(|(most, count)| (bound(*most), *count)).collect();
    metric.encode_histogram::<NoLabelSet>(seen.sum as f64 / scale, seen.count, &buckets, None)
}
