//! Each command: what it says, and what it says when it is asked wrongly.

use std::collections::BTreeSet;

use punctual_core::ids::SessionId;
use punctual_core::limits::KEY_BYTES_MAX;
use punctual_node::Failure;
use punctual_store::Session;

use super::super::names::NodeId;
use super::super::table::commands;
use super::*;
use crate::routes::Right;

/// An id that is well-formed, and that nobody made.
const FOREIGN: &str = "D-dcb833cf-8YL1NT17e9+wsA/09NqxscQI-05a1";

#[tokio::test]
async fn a_job_goes_through_its_life() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    let id = client.add("mail hello 0").await;
    assert_eq!((id.len(), &id[..2], &id[35..]), (40, "D-", "-05a1"), "{id}");
    client.ask("QLEN mail", ":1\r\n").await;
    let job = format!("*3\r\n$4\r\nmail\r\n$40\r\n{id}\r\n$5\r\nhello\r\n");
    client.ask("QPEEK mail 10", &format!("*1\r\n{job}")).await;
    client.ask("GETJOB FROM mail", &format!("*1\r\n{job}")).await;
    client.ask("QLEN mail", ":0\r\n").await;
    client.ask(&format!("NACK {id}"), ":1\r\n").await;
    let counted = job.replacen("*3", "*7", 1) + "$5\r\nnacks\r\n:1\r\n$21\r\nadditional-deliveries\r\n:0\r\n";
    client.ask("GETJOB NOHANG WITHCOUNTERS FROM mail", &format!("*1\r\n{counted}")).await;
    client.ask(&format!("WORKING {id}"), ":300\r\n").await;
    client.ask(&format!("ENQUEUE {id}"), ":1\r\n").await;
    client.ask(&format!("DEQUEUE {id}"), ":1\r\n").await;
    client.ask(&format!("ACKJOB {id} {FOREIGN}"), ":1\r\n").await;
    client.ask(&format!("ACKJOB {id}"), ":0\r\n").await;
    client.ask(&format!("SHOW {id}"), "$-1\r\n").await;
    client.ask("GETJOB NOHANG FROM mail", "*-1\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn everything_about_a_job_is_told_in_thirty_items() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    let id = client.add("mail hello 0 DELAY 5 RETRY 7 TTL 60").await;
    assert!(id.ends_with("-0001"), "{id}");
    let node = scene.endpoint.node.as_str();
    let expected = format!(
        "*30\r\n$2\r\nid\r\n$40\r\n{id}\r\n$5\r\nqueue\r\n$4\r\nmail\r\n$5\r\nstate\r\n$6\r\nactive\r\n$4\r\nrepl\r\n:1\r\n\
$3\r\nttl\r\n:60\r\n$5\r\nctime\r\n:1800000000000000000\r\n$5\r\ndelay\r\n:5\r\n$5\r\nretry\r\n:7\r\n$5\r\nnacks\r\n:0\r\n\
$21\r\nadditional-deliveries\r\n:0\r\n$15\r\nnodes-delivered\r\n*1\r\n$40\r\n{node}\r\n$15\r\nnodes-confirmed\r\n*0\r\n\
$19\r\nnext-requeue-within\r\n:5000\r\n$17\r\nnext-awake-within\r\n:5000\r\n$4\r\nbody\r\n$5\r\nhello\r\n"
    );
    client.ask(&format!("SHOW {id}"), &expected).await;
    // The nodes are those of the leader; the id stays the same.
    *scene.fake.leader.lock() = Some("other".into());
    let elsewhere = expected.replace(node, NodeId::of("other").as_str());
    client.ask(&format!("SHOW {id}"), &elsewhere).await;
    scene.stop().await;
}

#[tokio::test]
async fn a_queue_tells_how_it_is_and_lets_through_what_it_should() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    client.ask("QSTAT mail", "*-1\r\n").await;
    client.ask("PAUSE mail state", "+none\r\n").await;
    client.ask("QSTAT mail", "*-1\r\n").await;
    client.add("mail hello 0").await;
    client.ask("PAUSE mail out", "+out\r\n").await;
    client.ask("GETJOB NOHANG FROM mail", "*-1\r\n").await;
    client.ask("PAUSE mail in BCAST", "+in\r\n").await;
    client.ask("ADDJOB mail more 0", "-PAUSED Queue paused in input, try later\r\n").await;
    client.ask("PAUSE mail IN OUT", "+all\r\n").await;
    let stat = "*20\r\n$4\r\nname\r\n$4\r\nmail\r\n$3\r\nlen\r\n:1\r\n$3\r\nage\r\n:90\r\n$4\r\nidle\r\n:7\r\n\
$7\r\nblocked\r\n:0\r\n$11\r\nimport-from\r\n*0\r\n$11\r\nimport-rate\r\n:0\r\n$7\r\njobs-in\r\n:3\r\n$8\r\njobs-out\r\n:2\r\n\
$5\r\npause\r\n$3\r\nall\r\n";
    client.ask("QSTAT mail", stat).await;
    client.ask("PAUSE mail none", "+none\r\n").await;
    client.ask("QFLUSH mail", ":1\r\n").await;
    client.ask("QFLUSH mail", ":0\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn what_is_asked_wrongly_is_refused_in_disques_words() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    client.add("full x 0").await;
    let old = client.add("olds old 0").await;
    let working = format!("WORKING {old}");
    let long_key = format!("ADDJOB q b 0 UNIQUE {}", "k".repeat(KEY_BYTES_MAX + 1));
    let unique = "ERR UNIQUE takes a key of 1 to 256 bytes of UTF-8 text without control characters";
    for (line, error) in [
        ("nosuch", "ERR unknown command 'nosuch'"),
        ("ADDJOB q b", "ERR wrong number of arguments for 'addjob' command"),
        ("addjob q b x", "ERR timeout is not an integer or out of range"),
        ("ADDJOB q b -1", "ERR timeout is negative"),
        ("ADDJOB q b 0 REPLICATE 0", "ERR REPLICATE must be between 1 and 65535"),
        ("ADDJOB q b 0 REPLICATE 65536", "ERR REPLICATE must be between 1 and 65535"),
        ("ADDJOB q b 0 REPLICATE x", "ERR REPLICATE must be between 1 and 65535"),
        ("ADDJOB q b 0 REPLICATE 2", "NOREPL Not enough reachable nodes for the requested replication level"),
        ("ADDJOB q b 0 TTL 0", "ERR TTL must be a number > 0"),
        ("ADDJOB q b 0 RETRY -1", "ERR RETRY time must be a non negative number"),
        ("ADDJOB q b 0 DELAY -1", "ERR DELAY time must be a non negative number"),
        ("ADDJOB q b 0 MAXLEN 0", "ERR MAXLEN must be a positive number"),
        ("ADDJOB q b 0 PRIORITY 10", "ERR PRIORITY must be between 0 and 9"),
        ("ADDJOB q b 0 TTL", "ERR syntax error"),
        ("ADDJOB q b 0 LATER", "ERR syntax error"),
        ("ADDJOB q b x TTL 0", "ERR TTL must be a number > 0"),
        (
            "ADDJOB q b 0 RETRY 0 REPLICATE 2",
            "ERR With RETRY set to 0 please explicitly set  REPLICATE to 1 (at-most-once delivery)",
        ),
        (
            "ADDJOB q b 0 DELAY 5 TTL 5",
            "ERR The specified DELAY is greater than TTL. Job refused since would never be delivered",
        ),
        ("ADDJOB full b 0 MAXLEN 1", "MAXLEN Queue is already longer than the specified MAXLEN count"),
        ("ADDJOB \"\" b 0", "ERR the name of a queue is UTF-8 text of 1 to 512 bytes"),
        ("ADDJOB \"\\xff\" b 0", "ERR the name of a queue is UTF-8 text of 1 to 512 bytes"),
        ("GETJOB", "ERR wrong number of arguments for 'getjob' command"),
        ("GETJOB q", "ERR syntax error"),
        (&long_key, unique),
        ("ADDJOB q b 0 UNIQUE \"\"", unique),
        ("ADDJOB q b 0 UNIQUE \"a\\nb\"", unique),
        ("ADDJOB q b 0 UNIQUE \"\\xff\"", unique),
        ("GETJOB FROM", "ERR syntax error"),
        ("GETJOB NOHANG COUNT 1", "ERR syntax error"),
        ("GETJOB COUNT 0 FROM q", "ERR COUNT must be a number greater than zero"),
        ("GETJOB COUNT x FROM q", "ERR COUNT must be a number greater than zero"),
        ("GETJOB TIMEOUT x FROM q", "ERR timeout is not an integer or out of range"),
        ("GETJOB TIMEOUT -1 FROM q", "ERR timeout is negative"),
        ("ACKJOB x", "BADID Invalid Job ID format."),
        ("FASTACK x", "BADID Invalid Job ID format."),
        ("DELJOB x", "BADID Invalid Job ID format."),
        ("NACK x", "BADID Invalid Job ID format."),
        ("ENQUEUE x", "BADID Invalid Job ID format."),
        ("DEQUEUE x", "BADID Invalid Job ID format."),
        ("SHOW x", "BADID Invalid Job ID format."),
        ("WAITJOB x", "BADID Invalid Job ID format."),
        ("WORKING x", "BADID Invalid Job ID format."),
        (
            "WORKING D-dcb833cf-8YL1NT17e9+wsA/09NqxscQI-05a1",
            "NOJOB Job not known in the context of this node.",
        ),
        (
            &working,
            "TOOLATE Half of job TTL already elapsed, you are no longer allowed to postpone the next delivery.",
        ),
        ("QPEEK q x", "ERR value is not an integer or out of range"),
        ("PAUSE q sideways", "ERR syntax error"),
        ("PAUSE q", "ERR wrong number of arguments for 'pause' command"),
        ("QSCAN nonsense", "ERR invalid cursor or option name"),
        ("QSCAN 0 0", "ERR syntax error"),
        ("QSCAN COUNT 0", "ERR syntax error"),
        ("QSCAN COUNT x", "ERR value is not an integer or out of range"),
        ("JSCAN STATE lost", "ERR Invalid job state name"),
        ("JSCAN REPLY some", "ERR Invalid REPLY type, try ID or ALL"),
        ("JSCAN QUEUE", "ERR invalid cursor or option name"),
        ("LOADJOB x", "ERR LOADJOB is a special command only processed from AOF"),
        ("AUTH x", "ERR Client sent AUTH, but no password is set"),
        ("HELLO 4", "NOPROTO unsupported protocol version"),
        ("HELLO x", "ERR Protocol version is not an integer or out of range"),
        ("SELECT 1", "ERR DB index is out of range"),
        ("SELECT x", "ERR value is not an integer or out of range"),
        ("PING a b", "ERR wrong number of arguments for 'ping' command"),
        ("CLUSTER", "ERR wrong number of arguments for 'cluster' command"),
        ("CLUSTER DANCE", "ERR Wrong CLUSTER subcommand or number of arguments"),
        ("CLUSTER MEET 10.0.0.1 x", "ERR Invalid TCP port specified: x"),
        ("CLUSTER MEET 10.0.0.1 55536", "ERR Invalid TCP port specified: 55536"),
        ("CLUSTER MEET nowhere 7711", "ERR Invalid node address specified: nowhere:7711"),
        ("CLUSTER FORGET x", "ERR Invalid node identifier"),
        ("CLUSTER LEAVING perhaps", "ERR Wrong argument for CLUSTER LEAVING. Use 'yes' or 'no'"),
        ("CONFIG SET nosuch 1", "ERR Unsupported CONFIG parameter: nosuch"),
        ("CONFIG SET slowlog-max-len x", "ERR Invalid argument 'x' for CONFIG SET 'slowlog-max-len'"),
        ("CONFIG REWRITE", "ERR The server is running without a config file"),
        ("CONFIG DANCE", "ERR CONFIG subcommand must be one of GET, SET, RESETSTAT, REWRITE"),
        ("DEBUG FLUSHALL", "ERR DEBUG FLUSHALL is not allowed here: set resp.flush, or use QFLUSH"),
        ("SHUTDOWN", "ERR SHUTDOWN is not allowed here: stop the process, or set resp.shutdown"),
        ("LATENCY DANCE", "ERR syntax error"),
    ] {
        client.ask(line, &format!("-{error}\r\n")).await;
    }
    client.ask("QLEN q", ":0\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn one_bad_id_among_good_ones_and_nothing_is_done() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    let id = client.add("mail hello 0").await;
    client.ask(&format!("ACKJOB {id} x"), "-BADID Invalid Job ID format.\r\n").await;
    client.ask("QLEN mail", ":1\r\n").await;
    client.ask("ACKJOB", ":0\r\n").await;
    client.ask(&format!("DELJOB {id} {id}"), ":1\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn jobs_of_several_queues_come_in_turn_and_no_more_than_were_asked_for() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    for body in ["1", "2", "3"] {
        client.add(&format!("a a{body} 0")).await;
        client.add(&format!("b b{body} 0")).await;
    }
    client.send("GETJOB COUNT 4 FROM a b a\r\n").await;
    assert_eq!(client.line().await, "*4");
    let mut bodies = Vec::new();
    for _ in 0..4 {
        assert_eq!(client.line().await, "*3");
        let (_, _, body) = (client.bulk().await, client.bulk().await, client.bulk().await);
        bodies.push(body);
    }
    assert_eq!(bodies, ["a1", "b1", "a2", "b2"]);
    scene.stop().await;
}

#[tokio::test]
async fn a_pipeline_is_answered_in_order_and_asked_for_together() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    let adds: String = (0..16).map(|number| format!("ADDJOB q{} b{number} 0\r\n", number % 2)).collect();
    client.send(adds + "ADDJOB q0 b 0 TTL 0\r\nQLEN q0\r\n").await;
    let mut ids = Vec::new();
    for _ in 0..16 {
        ids.push(client.line().await[1..].to_owned());
    }
    client.expect("-ERR TTL must be a number > 0\r\n:8\r\n").await;
    assert_eq!(*scene.fake.asks.lock(), ["Add 8", "Add 8", "Stat"], "one ask a queue");
    let acks: String = ids.iter().map(|id| format!("ACKJOB {id}\r\n")).collect();
    client.send(format!("{acks}ACKJOB {}\r\nPING\r\n", ids[0])).await;
    client.expect(&(":1\r\n".repeat(16) + ":0\r\n+PONG\r\n")).await;
    scene.stop().await;
}

#[tokio::test]
async fn a_key_finds_the_job_that_has_it_and_a_priority_goes_first() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    let id = client.add("mail hello 0 UNIQUE invoice-7").await;
    assert_eq!(client.add("mail other 0 UNIQUE invoice-7").await, id);
    let urgent = client.add("mail urgent 0 PRIORITY 9").await;
    let first = format!("*1\r\n*3\r\n$4\r\nmail\r\n$40\r\n{urgent}\r\n$6\r\nurgent\r\n");
    client.ask("GETJOB FROM mail", &first).await;
    client.ask(&format!("NACK {urgent} DELAY 60"), ":1\r\n").await;
    client.ask("QLEN mail", ":1\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn scans_bring_every_queue_and_every_job_page_by_page() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    let mut added = BTreeSet::new();
    for number in 0..25 {
        added.insert(client.add(&format!("q{:02} x 0", number % 5)).await);
    }
    client.send("QSCAN 0 COUNT 2\r\n").await;
    assert_eq!(client.line().await, "*2");
    let cursor = client.bulk().await;
    client.expect("*2\r\n$3\r\nq00\r\n$3\r\nq01\r\n").await;
    client.send(format!("QSCAN COUNT 10 {cursor}\r\n")).await;
    client.expect("*2\r\n$1\r\n0\r\n*3\r\n$3\r\nq02\r\n$3\r\nq03\r\n$3\r\nq04\r\n").await;
    client.ask("QSCAN MINLEN 6", "*2\r\n$1\r\n0\r\n*0\r\n").await;
    client.ask("QSCAN IMPORTRATE 1 BUSYLOOP", "*2\r\n$1\r\n0\r\n*0\r\n").await;
    let (mut seen, mut cursor) = (BTreeSet::new(), "0".to_owned());
    loop {
        client.send(format!("JSCAN {cursor} COUNT 7 STATE queued\r\n")).await;
        assert_eq!(client.line().await, "*2");
        cursor = client.bulk().await;
        let items: usize = client.line().await[1..].parse().unwrap();
        for _ in 0..items {
            assert!(seen.insert(client.line().await[1..].to_owned()));
        }
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen, added);
    client.ask("JSCAN STATE acked BUSYLOOP", "*2\r\n$1\r\n0\r\n*0\r\n").await;
    client.send("JSCAN QUEUE q00 REPLY all BUSYLOOP\r\n").await;
    client.expect("*2\r\n$1\r\n0\r\n*5\r\n*30\r\n$2\r\nid\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn redis_clients_find_what_they_look_for_in_both_protocols() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    let version = env!("CARGO_PKG_VERSION");
    let map = |proto: u8, id: u8| {
        let head = if proto == 3 { "%7" } else { "*14" };
        format!(
            "{head}\r\n$6\r\nserver\r\n$8\r\npunctual\r\n$7\r\nversion\r\n${}\r\n{version}\r\n$5\r\nproto\r\n:{proto}\r\n\
$2\r\nid\r\n:{id}\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n",
            version.len()
        )
    };
    client.ask("HELLO 3 SETNAME me", &map(3, 1)).await;
    client.ask("CLIENT GETNAME", "$2\r\nme\r\n").await;
    client.ask("GETJOB NOHANG FROM q", "_\r\n").await;
    client.ask(&format!("SHOW {FOREIGN}"), "_\r\n").await;
    client.ask("CONFIG GET maxclients", "%1\r\n$10\r\nmaxclients\r\n$5\r\n10000\r\n").await;
    client.ask("HELLO 2", &map(2, 1)).await;
    client.ask("CONFIG GET maxclients", "*2\r\n$10\r\nmaxclients\r\n$5\r\n10000\r\n").await;
    client.ask("CLIENT SETINFO LIB-NAME redis-py", "+OK\r\n").await;
    client.ask("CLIENT SETINFO LIB-VER 8.1.0", "+OK\r\n").await;
    client.ask("CLIENT ID", ":1\r\n").await;
    client.ask("SELECT 0", "+OK\r\n").await;
    client.ask("TIME", "*2\r\n$10\r\n1800000000\r\n$1\r\n0\r\n").await;
    client.ask("ping hello", "$5\r\nhello\r\n").await;
    client.ask("COMMAND COUNT", &format!(":{}\r\n", commands().len())).await;
    client
        .ask(
            "COMMAND INFO qlen nosuch",
            "*2\r\n*6\r\n$4\r\nqlen\r\n:2\r\n*1\r\n+readonly\r\n:0\r\n:0\r\n:0\r\n*-1\r\n",
        )
        .await;
    client
        .ask("CLIENT NOSUCH", "-ERR Unknown subcommand or wrong number of arguments for 'NOSUCH'\r\n")
        .await;
    client.ask("CLUSTER SAVECONFIG", "+OK\r\n").await;
    let id = client.add("fast x 0").await;
    client.ask(&format!("FASTACK {id}"), ":1\r\n").await;
    client.ask("QUIT", "+OK\r\n").await;
    client.expect_end().await;
    scene.stop().await;
}

#[tokio::test]
async fn nodes_are_told_as_disque_tells_them() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    let (node, port) = (scene.endpoint.node.as_str().to_owned(), scene.endpoint.address.port().to_string());
    client.ask("CLUSTER MYID", &format!("$40\r\n{node}\r\n")).await;
    let hello = format!(
        "*3\r\n:1\r\n$40\r\n{node}\r\n*4\r\n$40\r\n{node}\r\n$0\r\n\r\n${}\r\n{port}\r\n$1\r\n1\r\n",
        port.len()
    );
    client.ask("HELLO", &hello).await;
    client.ask("CLUSTER LEAVING", "+no\r\n").await;
    let session = |name: &str| Session {
        id: SessionId(1),
        node: name.into(),
        address: Some("10.0.0.7:7400".into()),
        weight: 1,
        embedded: false,
        load: 0,
    };
    *scene.fake.members.lock() = vec![session("dev"), session("other")];
    client.send("CLUSTER NODES\r\n").await;
    let nodes = client.bulk().await;
    assert_eq!(nodes.lines().count(), 2);
    assert!(nodes.lines().next().unwrap().contains(&format!("{node} 127.0.0.1:{port} myself")), "{nodes}");
    // The other node has not announced an endpoint, so its port is 0.
    let other = NodeId::of("other");
    assert!(
        nodes.lines().nth(1).unwrap().contains(&format!("{} 10.0.0.7:0 noflags", other.as_str())),
        "{nodes}"
    );
    let hello = format!(
        "*4\r\n:1\r\n$40\r\n{node}\r\n*4\r\n$40\r\n{node}\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n$1\r\n1\r\n\
         *4\r\n$40\r\n{}\r\n$8\r\n10.0.0.7\r\n$1\r\n0\r\n$3\r\n100\r\n",
        port.len(),
        other.as_str()
    );
    client.ask("HELLO", &hello).await;
    client
        .ask(
            "ADDJOB q b 0 RETRY 0",
            "-ERR With RETRY set to 0 please explicitly set  REPLICATE to 1 (at-most-once delivery)\r\n",
        )
        .await;
    assert!(client.add("q b 0 RETRY 0 REPLICATE 1").await.ends_with("-05a0"));
    assert!(client.add("q b 0 REPLICATE 2").await.ends_with("-05a1"));
    client
        .ask(
            "ADDJOB q b 0 REPLICATE 3",
            "-NOREPL Not enough reachable nodes for the requested replication level\r\n",
        )
        .await;
    scene.stop().await;
}

#[tokio::test]
async fn info_has_the_fields_of_disque() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    client.add("q b 0").await;
    client.send("INFO\r\n").await;
    let info = client.bulk().await;
    for field in [
        "# Server\r\n",
        "disque_version:",
        "tcp_port:",
        "# Clients\r\n",
        "connected_clients:1\r\n",
        "blocked_clients:0\r\n",
        "used_memory_human:",
        "registered_jobs:1\r\n",
        "registered_queues:1\r\n",
        "loading:0\r\n",
        "aof_state:on\r\n",
        "total_commands_processed:",
        "used_cpu_sys:",
    ] {
        assert!(info.contains(field), "{field} in {info}");
    }
    assert!(!info.contains("cmdstat_"));
    client.send("INFO all\r\n").await;
    assert!(client.bulk().await.contains("cmdstat_addjob:calls=1,"));
    client.ask("INFO queues", "$31\r\n# Queues\r\nregistered_queues:1\r\n\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn a_node_that_cannot_says_whether_it_may_have_happened() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    for (failure, said) in [
        (Failure::NotLed("no leader".into()), "-TRYAGAIN no leader\r\n"),
        (Failure::Unknown("lost".into()), "-IOERR lost\r\n"),
        (Failure::Full("no room".into()), "-MISCONF Errors writing to the AOF file: no room\r\n"),
    ] {
        *scene.fake.failing.lock() = Some(failure);
        client.ask("ADDJOB q b 0", said).await;
        client.ask("GETJOB FROM q", said).await;
        client.ask("QLEN q", said).await;
    }
    scene.stop().await;
}

#[tokio::test]
async fn everything_is_deleted_only_where_that_is_allowed() {
    let settings = Settings { flush: true, ..Settings::default() };
    let scene = Scene::with(settings, Gate::open()).await;
    let mut client = scene.client().await;
    client.add("a x 0").await;
    let delayed = client.add("b x 0 DELAY 60").await;
    client.ask("PAUSE p all", "+all\r\n").await;
    client.ask("DEBUG FLUSHALL", "+OK\r\n").await;
    client.ask("QLEN a", ":0\r\n").await;
    client.ask(&format!("SHOW {delayed}"), "$-1\r\n").await;
    client.ask("QSCAN 0", "*2\r\n$1\r\n0\r\n*0\r\n").await;
    client.ask("PAUSE p state", "+none\r\n").await;
    scene.stop().await;
}

#[test]
fn every_command_has_a_row_with_the_right_it_needs() {
    let names: BTreeSet<&str> = commands().iter().map(|row| row.name).collect();
    assert_eq!(names.len(), commands().len(), "each once");
    assert!(names.len() > 30, "as Disque's clients expect");
    for row in commands() {
        let changes =
            ["ADDJOB", "GETJOB", "ACKJOB", "FASTACK", "DELJOB", "NACK", "ENQUEUE", "DEQUEUE", "WORKING"];
        let rules = ["CONFIG", "DEBUG", "SHUTDOWN", "MONITOR", "SLOWLOG"];
        let open = ["HELLO", "AUTH", "QUIT", "RESET"];
        let expected = match row.name {
            name if changes.contains(&name) => Right::Run,
            "PAUSE" | "QFLUSH" => Right::Edit,
            name if rules.contains(&name) => Right::Admin,
            name if open.contains(&name) => Right::Anyone,
            _ => continue,
        };
        assert_eq!(row.right, expected, "{}", row.name);
    }
    let anyone = commands().iter().filter(|row| row.right == Right::Anyone).count();
    assert_eq!(anyone, 4, "nothing else is done for a stranger");
}
