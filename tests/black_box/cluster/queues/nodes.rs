//! HELLO and CLUSTER tell of all nodes, and where clients reach them (R132).

use std::collections::BTreeMap;

use punctual_tests::cluster::{ADMIN, Kept, NODES};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Node, Scene, messages};
use redis::{Connection, FromRedisValue, Value};

use super::{WORDS, say};

/// Where each node says that it is: `host port` by its id, as HELLO tells it.
fn greeted(connection: &mut Connection) -> BTreeMap<String, String> {
    let told: Vec<Value> = say(connection, "HELLO");
    let nodes = told.into_iter().skip(2).map(|node| {
        let node = Vec::<String>::from_redis_value(node).expect("a node is four words");
        let priority = if node[2] == "0" { "100" } else { "1" };
        assert_eq!((node.len(), node[3].as_str()), (4, priority), "{node:?}");
        (node[0].clone(), format!("{} {}", node[1], node[2]))
    });
    nodes.collect()
}

/// The same as CLUSTER NODES tells it, and which of them it is itself.
fn listed(connection: &mut Connection) -> (BTreeMap<String, String>, Vec<String>) {
    let told: String = say(connection, "CLUSTER NODES");
    let (mut nodes, mut itself) = (BTreeMap::new(), Vec::new());
    for line in told.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!((words.len(), words[5]), (6, "connected"), "{line}");
        let (host, port) = words[1].rsplit_once(':').expect("host:port");
        nodes.insert(words[0].to_owned(), format!("{host} {port}"));
        if words[2] == "myself" {
            itself.push(words[0].to_owned());
        }
    }
    (nodes, itself)
}

/// Waits until every node tells of exactly these, with the host and port of each.
#[track_caller]
fn wait_until_all_know(connections: &mut [Connection], ports: &[u16]) {
    let ids: Vec<String> = connections.iter_mut().map(|connection| say(connection, "CLUSTER MYID")).collect();
    let places = ports.iter().map(|port| format!("127.0.0.1 {port}"));
    let expected: BTreeMap<String, String> = ids.iter().cloned().zip(places).collect();
    for (connection, id) in connections.iter_mut().zip(ids) {
        wait::until_so("a node knows where all of them are", SOON, || greeted(connection) == expected);
        assert_eq!(listed(connection), (expected.clone(), vec![id]));
        let info: String = say(connection, "CLUSTER INFO");
        assert!(info.contains(&format!("cluster_size:{}\r\n", expected.len())), "{info}");
    }
}

#[test]
fn every_node_lists_all_nodes_and_newcomers() {
    let scene = Scene::new();
    let store = Kept::Postgres.address();
    let mut cluster = Cluster::start(&scene, &store, &WORDS);
    let mut connections: Vec<Connection> = (0..NODES).map(|node| cluster.queues(node)).collect();
    let mut ports: Vec<u16> = cluster.nodes.iter().map(Node::resp_port).collect();
    wait_until_all_know(&mut connections, &ports);

    // A node that came back with another address is listed with it.
    cluster.nodes[2].kill();
    cluster.nodes[2].start();
    (connections[2], ports[2]) = (cluster.queues(2), cluster.nodes[2].resp_port());
    wait_until_all_know(&mut connections, &ports);

    let mut fourth = cluster.newcomer(&scene, "fourth", &store, &WORDS);
    fourth.start();
    let met: String = say(&mut connections[0], &format!("CLUSTER MEET 127.0.0.1 {}", fourth.resp_port()));
    assert!(met.starts_with("OK"), "{met}");
    connections.push(messages::dial(fourth.resp_port(), Some(ADMIN)).expect("it is there"));
    ports.push(fourth.resp_port());
    wait_until_all_know(&mut connections, &ports);
    // With four nodes, four copies can be asked for.
    say::<String>(&mut connections[1], "ADDJOB q x 0 REPLICATE 4");

    // A node without a Redis endpoint is listed with port 0, so no client is sent there.
    let mut fifth = cluster.newcomer(&scene, "fifth", &store, &WORDS[..2]);
    fifth.start();
    wait::until_so("it is told of", SOON, || greeted(&mut connections[0]).len() == 5);
    assert_eq!(greeted(&mut connections[0]).values().filter(|place| place.ends_with(" 0")).count(), 1);
    let nodes = cluster.api(0).get("/api/v1/nodes").expect("it answers").ok();
    let told = nodes["items"].as_array().expect("a page has items").iter();
    let told: BTreeMap<_, _> = told.map(|node| (node["name"].as_str(), node["resp"].as_str())).collect();
    assert_eq!(told[&Some("fifth")], None, "{told:?}");
    assert_eq!(told[&Some("fourth")], Some(format!("127.0.0.1:{}", ports[3]).as_str()), "{told:?}");
}
