//! Add on one node, take on another, acknowledge on the third (R132).

use punctual_tests::Scene;
use punctual_tests::cluster::{NODES, node_name};
use serde_json::json;

use super::{Job, ask, leader_of, one_led_by_each, say, show, start, text};

#[test]
fn any_node_adds_takes_and_acknowledges_a_message() {
    let scene = Scene::new();
    let cluster = start(&scene);
    let mut connections: Vec<_> = (0..NODES).map(|node| cluster.queues(node)).collect();
    for turn in 0..9 {
        // Three queues in turn, so that each node adds to one that it leads and to two that it does not.
        let queue = format!("q-{}", turn / NODES);
        let (one, other, third) = (turn % NODES, (turn + 1) % NODES, (turn + 2) % NODES);
        let id: String = say(&mut connections[one], &format!("ADDJOB {queue} body-{turn} 0"));
        for connection in &mut connections {
            let shown = show(connection, &id).expect("every node finds it");
            assert_eq!(text(&shown["body"]), format!("body-{turn}"));
            assert_eq!(text(&shown["state"]), "queued");
            assert_eq!(text(&shown["id"]), id);
            assert_eq!(say::<usize>(connection, &format!("QLEN {queue}")), 1);
        }
        let taken: Vec<Job> = say(&mut connections[other], &format!("GETJOB TIMEOUT 5000 FROM {queue}"));
        assert_eq!((taken.len(), taken[0].0.as_str()), (1, queue.as_str()));
        assert_eq!(
            (taken[0].1.as_str(), taken[0].2.as_str()),
            (id.as_str(), format!("body-{turn}").as_str())
        );
        assert_eq!(say::<usize>(&mut connections[third], &format!("ACKJOB {}", taken[0].1)), 1);
        for connection in &mut connections {
            assert_eq!(say::<usize>(connection, &format!("ACKJOB {id}")), 0);
            assert!(show(connection, &id).is_none(), "what was acknowledged is gone everywhere");
        }
    }
}

/// A client matches the id of its `ADDJOB` with what it hears later, on whichever node.
#[test]
fn the_id_of_a_message_is_the_same_string_everywhere() {
    let scene = Scene::new();
    let cluster = start(&scene);
    cluster.wait_until_settled();
    for queue in one_led_by_each(&cluster, "q") {
        let id: String = say(&mut cluster.queues(0), &format!("ADDJOB {queue} body 0 RETRY 60 UNIQUE once"));
        let encoded = id.replace('+', "%2B").replace('/', "%2F");
        let mut told = Vec::new();
        for node in 0..NODES {
            let mut connection = cluster.queues(node);
            told.push(say(&mut connection, &format!("ADDJOB {queue} again 0 UNIQUE once")));
            told.push(text(&show(&mut connection, &id).expect("every node finds it")["id"]));
            let peeked: Vec<Job> = say(&mut connection, &format!("QPEEK {queue} 1"));
            told.push(peeked[0].1.clone());
            let (_, scanned): (String, Vec<String>) = say(&mut connection, &format!("JSCAN 0 QUEUE {queue}"));
            told.extend(scanned);
            let queues = "/api/v1/namespaces/default/queues";
            let peeked = cluster.insist(node, |api| api.get(&format!("{queues}/{queue}/peek")));
            told.push(peeked["items"][0]["id"].as_str().expect("an id").to_owned());
            let messages = "/api/v1/namespaces/default/messages";
            let shown = cluster.insist(node, |api| api.get(&format!("{messages}/{encoded}")));
            told.push(shown["id"].as_str().expect("an id").to_owned());
            let taken: Vec<Job> = say(&mut connection, &format!("GETJOB TIMEOUT 5000 FROM {queue}"));
            told.push(taken[0].1.clone());
            assert_eq!(say::<usize>(&mut connection, &format!("NACK {id}")), 1);
        }
        assert_eq!(told, vec![id; 7 * NODES]);
    }
}

#[test]
fn every_node_names_the_leader_of_a_message() {
    let scene = Scene::new();
    let cluster = start(&scene);
    cluster.wait_until_settled();
    for (leader, queue) in one_led_by_each(&cluster, "q").iter().enumerate() {
        let id: String = say(&mut cluster.queues(0), &format!("ADDJOB {queue} body 0"));
        let path =
            format!("/api/v1/namespaces/default/messages/{}", id.replace('+', "%2B").replace('/', "%2F"));
        for node in 0..NODES {
            assert_eq!(leader_of(&cluster, node, &id), leader, "SHOW {id} by {}", node_name(node));
            let shown = cluster.insist(node, |api| api.get(&path));
            assert_eq!(shown["delivery_info"]["node"], json!(node_name(leader)), "{shown}");
            let peek = format!("/api/v1/namespaces/default/queues/{queue}/peek");
            let peeked = cluster.insist(node, |api| api.get(&peek));
            assert_eq!(peeked["items"][0]["node"], json!(node_name(leader)), "{peeked}");
        }
    }
}

#[test]
fn an_id_finds_its_message_after_the_node_that_told_it_is_gone() {
    let scene = Scene::new();
    let mut cluster = start(&scene);
    // More queues than nodes: some are led by the one that dies.
    let mut connection = cluster.queues(0);
    let ids: Vec<String> =
        (0..12).map(|n| say(&mut connection, &format!("ADDJOB q-{n} body-{n} 0"))).collect();
    drop(connection);
    cluster.nodes[0].kill();
    let mut connections = [cluster.queues(1), cluster.queues(2)];
    for (n, id) in ids.iter().enumerate() {
        let shown = show(&mut connections[n % 2], id).expect("the others find it");
        assert_eq!(text(&shown["body"]), format!("body-{n}"));
        let taken: Vec<Job> = say(&mut connections[(n + 1) % 2], &format!("GETJOB TIMEOUT 5000 FROM q-{n}"));
        assert_eq!(&taken[0].1, id);
        // The very id that the dead one told.
        assert_eq!(say::<usize>(&mut connections[n % 2], &format!("ACKJOB {id}")), 1);
    }
    let strange = ask::<Option<String>>(&mut connections[0], "SHOW D-00000000-AAAAAAAAAAAAAAAAAAAAAAAA-05a1");
    assert_eq!(strange, Ok(None), "nobody made this one");
}

/// Three mebibytes are more than one would think an answer between nodes may have; forty are more than it may.
#[test]
fn large_messages_come_through_another_node_whole_and_in_order() {
    const LARGE: usize = 1024 * 1024;
    const COUNT: usize = 40;
    let scene = Scene::new();
    let cluster = start(&scene);
    cluster.wait_until_settled();
    let queue = &one_led_by_each(&cluster, "large")[0];
    let mut connection = cluster.queues(1);
    let mut ids = Vec::new();
    for number in 0..COUNT {
        let body = format!("{number:02}{}", "x".repeat(LARGE - 2));
        let id: String =
            redis::cmd("ADDJOB").arg(queue).arg(body).arg(0).query(&mut connection).expect("it is added");
        ids.push(id);
    }
    assert_eq!(text(&show(&mut connection, &ids[7]).expect("it is there")["body"]).len(), LARGE);
    let seen: Vec<Job> = say(&mut connection, &format!("QPEEK {queue} 1"));
    assert_eq!((seen.len(), &seen[0].2[..2]), (1, "00"));
    let mut taken: Vec<Job> = Vec::new();
    while taken.len() < COUNT {
        let some: Vec<Job> = say(&mut connection, &format!("GETJOB TIMEOUT 5000 COUNT 100 FROM {queue}"));
        assert!(!some.is_empty() && some.iter().all(|job| job.2.len() == LARGE), "after {}", taken.len());
        taken.extend(some);
    }
    let numbers: Vec<usize> = taken.iter().map(|job| job.2[..2].parse().expect("a number")).collect();
    assert_eq!(numbers, (0..COUNT).collect::<Vec<_>>());
    let ids: Vec<String> = taken.into_iter().map(|job| job.1).collect();
    assert_eq!(say::<usize>(&mut connection, &format!("ACKJOB {}", ids.join(" "))), COUNT);
}
