//! Two thousand consumers wait on a node that does not lead, and nobody else has to wait for them (R133).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use punctual_tests::cluster::ADMIN;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Machine, Scene};

use super::{one_led_by_each, say, show, start};

const CROWD: usize = 2000;
/// What three commands through the crowded node may take: if they had to wait for the crowd, it would be for ever.
const COMMAND_MAX: Duration = Duration::from_secs(2);

/// Reads until so much has come.
fn read(stream: &mut TcpStream, until: impl Fn(&str) -> bool) -> String {
    let mut heard = Vec::new();
    let mut some = [0; 512];
    while !until(&String::from_utf8_lossy(&heard)) {
        let count = stream.read(&mut some).expect("something more comes");
        assert!(count > 0, "it hung up after {}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&some[..count]);
    }
    String::from_utf8_lossy(&heard).into_owned()
}

#[test]
fn thousands_of_waiting_consumers_block_no_command() {
    let scene = Scene::new();
    let cluster = start(&scene);
    cluster.wait_until_settled();
    let queue = &one_led_by_each(&cluster, "crowd")[0];
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        let mut stream =
            TcpStream::connect(("127.0.0.1", cluster.nodes[1].resp_port())).expect("it is let in");
        stream.set_read_timeout(Some(SOON)).expect("a socket can be told to wait");
        write!(stream, "AUTH {ADMIN}\r\nGETJOB TIMEOUT 0 FROM {queue}\r\n").expect("it can be said");
        crowd.push(stream);
    }
    let mut connection = cluster.queues(1);
    wait::until_so("all of them wait", 2 * SOON, || {
        let row: Vec<redis::Value> = say(&mut connection, &format!("QSTAT {queue}"));
        row.contains(&redis::Value::Int(CROWD as i64))
    });
    // Commands of others through the same two nodes.
    let (mut longest, machine) = (Duration::ZERO, Machine::watched());
    for number in 0..50 {
        let began = wait::now();
        let id: String = say(&mut connection, &format!("ADDJOB {queue} x 0 DELAY 3600"));
        assert!(show(&mut connection, &id).is_some());
        assert_eq!(say::<usize>(&mut connection, &format!("DELJOB {id}")), 1, "{number}");
        longest = longest.max(began.elapsed());
    }
    println!("three commands beside {CROWD} who wait took {longest:?} at most");
    assert!(longest < COMMAND_MAX + machine.taken(), "{longest:?}");
    // Some go away, and each of those who stay gets one message.
    crowd.truncate(CROWD / 2);
    let mut other = cluster.queues(2);
    wait::until_so("half of them have gone", SOON, || {
        let row: Vec<redis::Value> = say(&mut other, &format!("QSTAT {queue}"));
        row.contains(&redis::Value::Int((CROWD / 2) as i64))
    });
    for number in 0..CROWD / 2 {
        say::<String>(&mut other, &format!("ADDJOB {queue} body-{number:04}-end 0"));
    }
    let mut bodies: Vec<String> = Vec::new();
    for mut stream in crowd {
        let heard = read(&mut stream, |heard| heard.contains("-end"));
        let at = heard.find("body-").expect("it is a message");
        bodies.push(heard[at..at + 9].to_owned());
    }
    bodies.sort();
    assert_eq!(bodies, (0..CROWD / 2).map(|number| format!("body-{number:04}")).collect::<Vec<_>>());
}
