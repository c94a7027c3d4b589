use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;

use super::*;
use crate::wait::{self, SOON};

/// Long enough to see that nothing comes.
const NOTHING: Duration = Duration::from_millis(150);
const LATE: Duration = Duration::from_millis(100);

/// A server that says everything back.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let place = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let (mut from, mut to) = (stream.try_clone().unwrap(), stream);
                std::io::copy(&mut from, &mut to)
            });
        }
    });
    place
}

fn dial(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.place()).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

#[track_caller]
fn says_back(stream: &mut TcpStream, text: &[u8]) {
    stream.write_all(text).unwrap();
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, text);
}

#[track_caller]
fn says_nothing(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(NOTHING)).unwrap();
    let read = stream.read(&mut [0; 16]);
    assert!(matches!(&read, Err(error) if error.kind() == ErrorKind::WouldBlock), "{read:?}");
    stream.set_read_timeout(Some(SOON)).unwrap();
}

#[track_caller]
fn is_cut(stream: &mut TcpStream) {
    let read = stream.read(&mut [0; 16]);
    assert!(matches!(&read, Err(error) if error.kind() == ErrorKind::ConnectionReset), "{read:?}");
}

#[test]
fn what_is_said_arrives_and_is_counted() {
    let proxy = Proxy::to(echo());
    says_back(&mut dial(&proxy), b"hello");
    let Counts { connections, cuts, bytes, .. } = proxy.counts();
    assert_eq!((connections, cuts, bytes), (1, 0, 10));
}

#[test]
fn what_is_held_either_way_comes_when_it_is_repaired() {
    for ways in [&[Way::There][..], &[Way::Back], &Way::BOTH] {
        let proxy = Proxy::to(echo());
        let mut stream = dial(&proxy);
        says_back(&mut stream, b"before");
        proxy.hold(ways, Whose::Everyones);
        stream.write_all(b"held").unwrap();
        says_nothing(&mut stream);
        proxy.repair();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"held");
    }
}

#[test]
fn one_process_is_held_and_another_is_not() {
    let proxy = Proxy::to(echo());
    let mut stream = dial(&proxy);
    proxy.hold(&Way::BOTH, Whose::Process(1));
    says_back(&mut stream, b"hello");
    proxy.hold(&Way::BOTH, Whose::Process(std::process::id()));
    stream.write_all(b"held").unwrap();
    says_nothing(&mut stream);
}

/// A connection that begins at this port; 0: at any that is free.
fn dial_from(port: u16, proxy: &Proxy) -> TcpStream {
    let dialled = runtime().block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        socket.connect(proxy.place()).await.unwrap().into_std().unwrap()
    });
    dialled.set_nonblocking(false).unwrap();
    dialled.set_read_timeout(Some(SOON)).unwrap();
    dialled
}

#[test]
fn connections_that_begin_at_the_same_address_are_told_apart() {
    let server = echo();
    let others: Vec<Proxy> = (0..8).map(|_| Proxy::to(server)).collect();
    let proxy = Proxy::to(server);
    // Those that are over stay in the table of the system for a while, and are nobody's.
    let port = dial_from(0, &proxy).local_addr().unwrap().port();
    others.iter().for_each(|other| says_back(&mut dial_from(port, other), b"over"));
    let mut stream = dial_from(port, &proxy);
    says_back(&mut stream, b"before");
    proxy.hold(&Way::BOTH, Whose::Process(std::process::id()));
    stream.write_all(b"held").unwrap();
    says_nothing(&mut stream);
}

#[test]
fn after_a_word_of_the_server_nobody_is_heard_until_it_is_repaired() {
    let proxy = Proxy::to(echo());
    let mut stream = dial(&proxy);
    proxy.hush_after("hush", &[Whose::Everyones]);
    says_back(&mut stream, b"hus");
    says_back(&mut stream, b"h");
    stream.write_all(b"x").unwrap();
    says_nothing(&mut stream);
    proxy.repair();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"x");
}

#[test]
fn what_is_delayed_or_throttled_comes_late() {
    let proxy = Proxy::to(echo());
    let mut stream = dial(&proxy);
    let ways: [&dyn Fn(); 2] = [&|| proxy.delay(LATE / 2), &|| proxy.throttle(20_000)];
    for slow in ways {
        slow();
        let asked = wait::now();
        says_back(&mut stream, &[7; 1000]);
        assert!(asked.elapsed() >= LATE, "{:?}", asked.elapsed());
        proxy.repair();
    }
}

#[test]
fn a_reset_is_heard_and_a_new_connection_is_whole() {
    let proxy = Proxy::to(echo());
    let mut stream = dial(&proxy);
    says_back(&mut stream, b"before");
    proxy.reset(Whose::Process(1));
    says_back(&mut stream, b"between");
    proxy.reset(Whose::Everyones);
    is_cut(&mut stream);
    says_back(&mut dial(&proxy), b"after");
    assert_eq!(proxy.counts().cuts, 1);
}

#[test]
fn refused_connections_are_accepted_after_a_repair() {
    let proxy = Proxy::to(echo());
    let mut stream = dial(&proxy);
    says_back(&mut stream, b"before");
    proxy.refuse();
    is_cut(&mut stream);
    wait::until_so("new connections are refused", SOON, || {
        TcpStream::connect(proxy.place()).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    });
    proxy.repair();
    let again = || TcpStream::connect(proxy.place()).ok();
    says_back(&mut wait::until("it listens again", SOON, again), b"after");
}

#[test]
fn after_so_many_bytes_it_is_cut() {
    let proxy = Proxy::to(echo());
    let mut stream = dial(&proxy);
    proxy.cut_after(6);
    says_back(&mut stream, b"abc");
    stream.write_all(b"d").unwrap();
    is_cut(&mut stream);
    proxy.repair();
    says_back(&mut dial(&proxy), b"after");
}

/// Packets as MariaDB's clients send them, of which the last is a COMMIT.
fn transaction(query: &[u8]) -> Vec<u8> {
    let packet = |query: &[u8]| [&[u8::try_from(query.len() + 1).unwrap(), 0, 0, 0, 3], query].concat();
    [packet(query), packet(b"COMMIT")].concat()
}

#[test]
fn only_the_commit_that_is_meant_meets_its_end() {
    let (proxy, key) = (Proxy::local(Language::MariaDb, echo().port()), b"x'6b6579'");
    let meant = transaction(key);
    for (cut, answered) in [(Cut::Before, meant.len() - 11), (Cut::After, 0)] {
        let mut stream = dial(&proxy);
        proxy.cut_commit("key", cut);
        says_back(&mut stream, &transaction(b"x'6b6578'"));
        stream.write_all(&meant).unwrap();
        let mut heard = Vec::new();
        let end = stream.read_to_end(&mut heard).map_err(|error| error.kind());
        assert_eq!(end, Err(ErrorKind::ConnectionReset), "{cut:?}");
        // What is on its way back when it is cut may be lost with it.
        assert!(heard.len() <= answered, "{cut:?}: {heard:?}");
        says_back(&mut dial(&proxy), &meant);
    }
    let Counts { commits, commits_met, cuts, .. } = proxy.counts();
    assert_eq!((commits, commits_met, cuts), (6, 2, 2));
}

#[test]
fn a_commit_is_kept_back_until_it_is_repaired() {
    let proxy = Proxy::local(Language::MariaDb, echo().port());
    let (mut stream, meant) = (dial(&proxy), transaction(b"x'6b6579'"));
    proxy.cut_commit("key", Cut::Held);
    stream.write_all(&meant).unwrap();
    let mut answer = vec![0; meant.len() - 11];
    stream.read_exact(&mut answer).unwrap();
    says_nothing(&mut stream);
    proxy.repair();
    let mut rest = [0; 11];
    stream.read_exact(&mut rest).unwrap();
    assert_eq!([answer, rest.to_vec()].concat(), meant);
}
