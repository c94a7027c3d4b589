//! Queues of a cluster, over the Redis protocol: whichever node is asked (R131 to R133).

mod anywhere;
mod replicas;
mod waiting;
mod crowd;
mod nodes;
mod kills;

use std::collections::BTreeMap;

use punctual_tests::cluster::{ADMIN, Kept, NODES};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Scene, messages};
use redis::{Connection, FromRedisValue, RedisResult, Value, cmd};

/// A lease long enough to survive a short stall of the machine, after which a command would have to be repeated.
const WORDS: [&str; 4] = ["--shard-lease", "5s", "--resp", "127.0.0.1:0"];

/// A message as a consumer gets it: its queue, its id and its body.
type Job = (String, String, String);

fn start(scene: &Scene) -> Cluster {
    Cluster::start(scene, &Kept::Postgres.address(), &WORDS)
}

/// What a line says: words that are parted by spaces.
fn ask<T: FromRedisValue>(connection: &mut Connection, line: &str) -> RedisResult<T> {
    let mut words = line.split(' ');
    let mut command = cmd(words.next().unwrap_or_default());
    for word in words {
        command.arg(word);
    }
    command.query(connection)
}

/// The same, where nothing else will do.
#[track_caller]
fn say<T: FromRedisValue>(connection: &mut Connection, line: &str) -> T {
    ask(connection, line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Everything that SHOW tells of a message, by name; none: there is no such message.
#[track_caller]
fn show(connection: &mut Connection, id: &str) -> Option<BTreeMap<String, Value>> {
    let row: Option<Vec<Value>> = say(connection, &format!("SHOW {id}"));
    let pairs = row?;
    let name = |value: &Value| String::from_redis_value(value.clone()).expect("a name is text");
    Some(pairs.chunks(2).map(|pair| (name(&pair[0]), pair[1].clone())).collect())
}

#[track_caller]
fn text(value: &Value) -> String {
    String::from_redis_value(value.clone()).unwrap_or_else(|error| panic!("{value:?}: {error}"))
}

/// Which node leads the queue of a message, as SHOW says.
#[track_caller]
fn leader_of(cluster: &Cluster, by: usize, id: &str) -> usize {
    let shown = show(&mut cluster.queues(by), id).expect("it is there");
    let named = Vec::<String>::from_redis_value(shown["nodes-delivered"].clone()).expect("nodes have names");
    let is_called = |node: &usize| {
        // A node that was killed has no id.
        let connection = messages::dial(cluster.nodes[*node].resp_port(), Some(ADMIN));
        connection.is_some_and(|mut connection| named == [say::<String>(&mut connection, "CLUSTER MYID")])
    };
    (0..NODES).find(is_called).unwrap_or_else(|| panic!("nobody is called {named:?}"))
}

/// A queue that each of the nodes leads, in their order: a message is put into queues with these names until all are found.
#[track_caller]
fn one_led_by_each(cluster: &Cluster, names: &str) -> [String; NODES] {
    let mut found: [Option<String>; NODES] = [const { None }; NODES];
    let mut connection = cluster.queues(0);
    let mut number = 0;
    wait::until_so("every node leads a queue", SOON, || {
        let queue = format!("{names}-{number}");
        number += 1;
        let id: String = say(&mut connection, &format!("ADDJOB {queue} first 0"));
        found[leader_of(cluster, 0, &id)].get_or_insert(queue);
        assert_eq!(say::<usize>(&mut connection, &format!("ACKJOB {id}")), 1);
        found.iter().all(Option::is_some)
    });
    found.map(Option::unwrap_or_default)
}
