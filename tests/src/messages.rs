//! Producers and consumers of a queue that go on whatever happens to its server, and what they have seen.
//!
//! They speak through redis-rs, an ordinary Redis client. A word that was lost on the way counts as not said: only what was
//! answered is held against the server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult, cmd};

use crate::wait::{self, SOON};

/// How long anybody waits for an answer before it takes the server for dead: longer than a server looks for a leader.
const PATIENCE: Duration = Duration::from_secs(10);
/// Before a server that is away is dialled again.
const PAUSE: Duration = Duration::from_millis(20);

/// The queue, and what the bodies begin with, of messages that come again until they are acknowledged.
pub const AGAIN: &str = "again";
/// The same of messages that are delivered once at most.
pub const ONCE: &str = "once";
/// When a message that nobody acknowledged comes again.
const RETRY: Duration = Duration::from_secs(1);

/// What is known of one message, by its body.
#[derive(Debug, Default, Clone)]
struct Fate {
    /// The server said that it has it.
    added: bool,
    deliveries: u32,
    /// Since when the server has said that it is acknowledged.
    acked: Option<Instant>,
    /// It was delivered to a consumer that asked after that.
    came_back: bool,
}

impl Fate {
    fn is_owed(&self) -> bool {
        self.added && self.deliveries == 0
    }
}

/// The fates of all messages.
#[derive(Debug, Clone, Default)]
pub struct Book(Arc<Mutex<BTreeMap<String, Fate>>>);

impl Book {
    fn note(&self, body: &str, note: impl FnOnce(&mut Fate)) {
        note(self.open().entry(body.to_owned()).or_default());
    }

    /// Lets the consumers work off what is left, ends them, and holds the server to what it said: of `again…` whatever
    /// was added has come, of `once…` nothing came twice, and nothing that was acknowledged came back.
    #[track_caller]
    pub fn close(&self, consumers: Vec<Busy>) {
        let is_owed = |(body, fate): (&String, &Fate)| body.starts_with(AGAIN) && fate.is_owed();
        wait::until_so("all that was promised has come", 2 * SOON, || !self.open().iter().any(is_owed));
        // A message that was delivered and not acknowledged comes again; an acknowledged one does not.
        wait::pass(2 * RETRY);
        consumers.into_iter().for_each(Busy::end);
        let (mut once, mut lost, mut doubled) = (0, 0, 0);
        for (body, fate) in self.open().iter() {
            assert!(!fate.came_back, "{body} was acknowledged and came back: {fate:?}");
            if body.starts_with(ONCE) {
                assert!(fate.deliveries <= 1, "{body} was to be delivered once at most: {fate:?}");
                once += fate.deliveries;
                lost += u32::from(fate.is_owed());
            } else {
                assert!(!fate.is_owed(), "{body} was promised and never came: {fate:?}");
                doubled += u32::from(fate.deliveries > 1);
            }
        }
        let all = self.open().len();
        println!("{all} messages; {doubled} came again, {lost} of those to be delivered once never");
        assert!(once > 0, "nothing was delivered once: the scene proves little");
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, Fate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that goes on until it is told to end.
#[derive(Debug)]
pub struct Busy {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    fn go(mut work: impl FnMut() + Send + 'static) -> Busy {
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                work();
            }
        });
        Busy { ends, thread: Some(thread) }
    }

    pub fn end(mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it ends when it is told to");
        }
    }
}

/// Ways to one of several servers, the next one when this one fails.
#[derive(Debug, Clone)]
pub struct Ways {
    ports: Arc<Mutex<Vec<u16>>>,
    first: usize,
    secret: Option<String>,
}

impl Ways {
    pub fn to(ports: &[u16]) -> Ways {
        Ways { ports: Arc::new(Mutex::new(ports.to_vec())), first: 0, secret: None }
    }

    /// What servers have to hear first.
    #[must_use]
    pub fn with_secret(self, secret: &str) -> Ways {
        Ways { secret: Some(secret.to_owned()), ..self }
    }

    /// The same ways, beginning with another of them.
    #[must_use]
    pub fn beginning_with(&self, first: usize) -> Ways {
        Ways { first, ..self.clone() }
    }

    /// From now on they are here.
    pub fn are(&self, ports: &[u16]) {
        *self.ports.lock().unwrap_or_else(PoisonError::into_inner) = ports.to_vec();
    }

    fn dial(&self, turn: usize) -> Option<Connection> {
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let port = ports.get((self.first + turn) % ports.len().max(1))?;
        let connection = dial(*port, self.secret.as_deref());
        if connection.is_none() {
            thread::sleep(PAUSE);
        }
        connection
    }
}

/// Connects to the Redis-protocol endpoint on a port, with a password if there is one. `None` means the port is closed.
pub fn dial(port: u16, secret: Option<&str>) -> Option<Connection> {
    let login = secret.map_or(String::new(), |secret| format!(":{secret}@"));
    let client =
        redis::Client::open(format!("redis://{login}127.0.0.1:{port}/")).expect("this is an address");
    let connection = client.get_connection_with_timeout(PATIENCE).ok()?;
    connection.set_read_timeout(Some(PATIENCE)).expect("a socket can be told to wait");
    Some(connection)
}

/// Adds messages with these options, one after the other, under names that begin like this.
pub fn producer(ways: &Ways, book: &Book, queue: &str, name: &str, options: &[&str]) -> Busy {
    let (ways, book) = (ways.clone(), book.clone());
    let (queue, name) = (queue.to_owned(), name.to_owned());
    let options: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
    let (mut count, mut connection) = (0_usize, None);
    Busy::go(move || {
        let Some(live) = connection.as_mut() else {
            connection = ways.dial(count);
            count += 1;
            return;
        };
        count += 1;
        let body = format!("{name}-{count}");
        let added: RedisResult<String> =
            cmd("ADDJOB").arg(&queue).arg(&body).arg(0).arg(&options).query(live);
        match added {
            Ok(_) => book.note(&body, |fate| fate.added = true),
            Err(_) => connection = None,
        }
    })
}

/// Takes messages of these queues and acknowledges them.
pub fn consumer(ways: &Ways, book: &Book, queues: &[&str]) -> Busy {
    let (ways, book) = (ways.clone(), book.clone());
    let queues: Vec<String> = queues.iter().map(|queue| (*queue).to_owned()).collect();
    let (mut turn, mut connection) = (0_usize, None);
    Busy::go(move || {
        let Some(live) = connection.as_mut() else {
            connection = ways.dial(turn);
            turn += 1;
            return;
        };
        if take(live, &book, &queues).is_err() {
            connection = None;
        }
    })
}

fn take(connection: &mut Connection, book: &Book, queues: &[String]) -> RedisResult<()> {
    let asked = wait::now();
    let taken: Option<Vec<(String, String, String)>> =
        cmd("GETJOB").arg(&["TIMEOUT", "200", "COUNT", "100", "FROM"]).arg(queues).query(connection)?;
    let taken = taken.unwrap_or_default();
    if taken.is_empty() {
        return Ok(());
    }
    for (_, _, body) in &taken {
        book.note(body, |fate| {
            fate.deliveries += 1;
            // A consumer that asked before may have been given the message before, and learn of it later.
            fate.came_back |= fate.acked.is_some_and(|acked| acked < asked);
        });
    }
    let ids: Vec<&String> = taken.iter().map(|(_, id, _)| id).collect();
    let acked: usize = cmd("ACKJOB").arg(&ids).query(connection)?;
    // If fewer were acknowledged, it is unknown which: another consumer acknowledged the missing ones before.
    if acked == taken.len() {
        let acked = Some(wait::now());
        taken.iter().for_each(|(_, _, body)| book.note(body, |fate| fate.acked = acked));
    }
    Ok(())
}
