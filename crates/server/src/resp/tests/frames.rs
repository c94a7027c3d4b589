//! Bytes that are no requests, or too many: refused within limits, and nobody else notices.

use super::*;

fn resident() -> u64 {
    super::super::process::resident()
}

/// What is sent, what is said, and whether the connection ends.
fn frames() -> Vec<(&'static str, Vec<u8>, &'static str, bool)> {
    let protocol = |name, bytes: &[u8], error: &'static str| (name, bytes.to_vec(), error, true);
    let mut frames = vec![
        protocol("no count", b"*\r\n", "invalid multibulk length"),
        protocol("a word as count", b"*abc\r\n", "invalid multibulk length"),
        protocol("a signed count", b"*+3\r\n", "invalid multibulk length"),
        protocol("a count with a zero", b"*03\r\n", "invalid multibulk length"),
        protocol("a count with a space", b"* 3\r\n", "invalid multibulk length"),
        protocol("a fraction", b"*1.5\r\n", "invalid multibulk length"),
        protocol("an exponent", b"*1e3\r\n", "invalid multibulk length"),
        protocol("a hexadecimal count", b"*0x10\r\n", "invalid multibulk length"),
        protocol("a binary count", b"*\x00\x01\r\n", "invalid multibulk length"),
        protocol("a count without its newline", b"*1\rx", "invalid multibulk length"),
        protocol("one word too many", b"*1048577\r\n", "invalid multibulk length"),
        protocol("two thousand million words", b"*2147483647\r\n", "invalid multibulk length"),
        protocol("more words than 64 bits", b"*18446744073709551616\r\n", "invalid multibulk length"),
        protocol("a minus alone", b"*-\r\n", "invalid multibulk length"),
        protocol(
            "digits without end",
            &[b"*".as_slice(), &[b'1'; 100]].concat(),
            "too big mbulk count string",
        ),
        protocol("a simple string inside", b"*1\r\n+PING\r\n", "expected '$', got '+'"),
        protocol("a number inside", b"*1\r\n:1\r\n", "expected '$', got ':'"),
        protocol("an error inside", b"*1\r\n-ERR\r\n", "expected '$', got '-'"),
        protocol("an array inside", b"*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"),
        protocol("a map inside", b"*1\r\n%1\r\n", "expected '$', got '%'"),
        protocol("a null of protocol 3 inside", b"*1\r\n_\r\n", "expected '$', got '_'"),
        protocol("a line inside", b"*1\r\nPING\r\n", "expected '$', got 'P'"),
        protocol("an end of line inside", b"*1\r\n\r\n", "expected '$', got '?'"),
        protocol("a NUL inside", b"*1\r\n\x00", "expected '$', got '?'"),
        protocol("no length", b"*1\r\n$\r\n", "invalid bulk length"),
        protocol("a word as length", b"*1\r\n$abc\r\n", "invalid bulk length"),
        protocol("a length below zero", b"*1\r\n$-1\r\n", "invalid bulk length"),
        protocol("a length far below zero", b"*1\r\n$-9223372036854775808\r\n", "invalid bulk length"),
        protocol("a signed length", b"*1\r\n$+4\r\n", "invalid bulk length"),
        protocol("a length with a zero", b"*1\r\n$04\r\n", "invalid bulk length"),
        protocol("more than 512 MiB", b"*1\r\n$536870913\r\n", "invalid bulk length"),
        protocol("more than 64 bits", b"*1\r\n$99999999999999999999\r\n", "invalid bulk length"),
        protocol("a length without its newline", b"*1\r\n$4\rPING\r\n", "invalid bulk length"),
        protocol(
            "a length without end",
            &[b"*1\r\n$".as_slice(), &[b'1'; 100]].concat(),
            "too big bulk count string",
        ),
        protocol(
            "a word that is longer",
            b"*1\r\n$4\r\nPINGS\r\n",
            "expected an end of line after a bulk string",
        ),
        protocol(
            "a word that is shorter",
            b"*1\r\n$6\r\nPING\r\n*1",
            "expected an end of line after a bulk string",
        ),
        protocol("an open quote", b"PING \"a\r\n", "unbalanced quotes in request"),
        protocol("an open single quote", b"PING 'a\r\n", "unbalanced quotes in request"),
        protocol("something glued to a quote", b"PING \"a\"b\r\n", "unbalanced quotes in request"),
        protocol("a line without end", &[b'a'; 70_000], "too big inline request"),
        protocol("a line of NULs", &[0; 70_000], "too big inline request"),
        protocol(
            "a TLS hello",
            &[&[0x16, 3, 1, 2, 0, 1][..], &[0; 70_000]].concat(),
            "too big inline request",
        ),
    ];
    let goes_on = |name, bytes: Vec<u8>, error: &'static str| (name, bytes, error, false);
    let bad_id = "-BADID Invalid Job ID format.\r\n";
    let unknown = "-ERR unknown command ";
    let id = |id: &[u8]| request(&[b"ACKJOB", id]);
    frames.extend([
        goes_on("an array of nothing", b"*0\r\n*-1\r\n*-5\r\n\r\n\r\nPING\r\n".to_vec(), "+PONG\r\n"),
        goes_on("an empty word as command", b"*1\r\n$0\r\n\r\n".to_vec(), unknown),
        goes_on("a command of binary", request(&[&[0, 255, 13, 10, 7]]), unknown),
        goes_on("a command of a megabyte", request(&[&[b'x'; 1024 * 1024]]), unknown),
        goes_on("an answer for a request", b"+OK\r\n".to_vec(), unknown),
        goes_on("a null id", id(&[0; 40]), bad_id),
        goes_on("a binary id", id(&[255; 40]), bad_id),
        goes_on("a short id", id(b"D-dcb833cf"), bad_id),
        goes_on("an id of a megabyte", id(&[b'D'; 1024 * 1024]), bad_id),
        goes_on(
            "an id that is binary in the middle",
            id(&[b"D-dcb833cf-", &[0xff; 24][..], b"-05a1"].concat()),
            ":0\r\n",
        ),
        goes_on(
            "a body of two megabytes",
            request(&[b"ADDJOB", b"q", &[b'x'; 2 << 20], b"0"]),
            "-ERR this request is too long",
        ),
        goes_on("a thousand ids", request(&vec![&b"x"[..]; 1000]), unknown),
        goes_on("a hundred thousand empty words", request(&vec![&b""[..]; 100_000]), unknown),
    ]);
    frames
}

#[tokio::test]
async fn no_bytes_bring_the_endpoint_down_and_each_is_refused_by_its_name() {
    let scene = Scene::new().await;
    let mut bystander = scene.client().await;
    let all = frames();
    assert!(all.len() >= 45, "{}", all.len());
    for (name, bytes, said, ends) in &all {
        let mut client = scene.client().await;
        // It may hang up before it has all of it.
        let _ = client.stream.write_all(bytes).await;
        let line = client.line().await;
        if *ends {
            assert_eq!(line, format!("-ERR Protocol error: {said}"), "{name}");
            // What was sent and not read resets the connection: that is an end, too.
            let mut rest = Vec::new();
            let _ = timeout(SOON, client.stream.read_to_end(&mut rest)).await.expect(name);
            assert_eq!(shown(&rest), "", "{name}");
        } else {
            assert!(format!("{line}\r\n").starts_with(said), "{name}: {}", &line[..line.len().min(200)]);
            client.ask("PING", "+PONG\r\n").await;
        }
        bystander.ask("PING", "+PONG\r\n").await;
    }
    bystander.ask("QLEN q", ":0\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn words_without_end_are_passed_over_and_not_kept() {
    const SENT: usize = 256 * 1024 * 1024;
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    let before = resident();
    client.send(format!("*4\r\n$6\r\nADDJOB\r\n$1\r\nq\r\n${SENT}\r\n")).await;
    let piece = vec![b'x'; 1024 * 1024];
    for _ in 0..SENT / piece.len() {
        client.send(&piece).await;
    }
    client.send("\r\n$1\r\n0\r\nPING\r\n").await;
    assert!(client.line().await.starts_with("-ERR this request is too long"));
    client.expect("+PONG\r\n").await;
    let grown = resident().saturating_sub(before) / (1024 * 1024);
    assert!(grown < 64, "{grown} MiB for {} MiB that were sent", SENT >> 20);
    scene.stop().await;
}

#[tokio::test]
async fn a_flood_of_requests_that_nobody_reads_the_answers_of_is_cut_off() {
    let settings = Settings { request_time: Duration::from_millis(500), ..Settings::default() };
    let scene = Scene::with(settings, Gate::open()).await;
    let mut client = scene.client().await;
    let before = resident();
    let flood = "COMMAND\r\n".repeat(10_000);
    let cut = async { while client.stream.write_all(flood.as_bytes()).await.is_ok() {} };
    timeout(SOON, cut).await.expect("it is cut off");
    let grown = resident().saturating_sub(before) / (1024 * 1024);
    assert!(grown < 64, "{grown} MiB");
    scene.client().await.ask("PING", "+PONG\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn an_endless_request_is_cut_off() {
    let settings = Settings { request_time: Duration::from_millis(300), ..Settings::default() };
    let scene = Scene::with(settings, Gate::open()).await;
    let (mut slow, mut resting) = (scene.client().await, scene.client().await);
    resting.ask("PING", "+PONG\r\n").await;
    let began = tokio::time::Instant::now();
    slow.send("*2\r\n$4\r\nQLEN\r\n$1000\r\n").await;
    let dripping = async {
        while slow.stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, dripping).await.expect("it is cut off");
    assert!(began.elapsed() >= Duration::from_millis(300));
    resting.ask("PING", "+PONG\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn a_million_words_are_one_request() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    let mut bytes = b"*1048576\r\n$6\r\nACKJOB\r\n".to_vec();
    bytes.extend(b"$0\r\n\r\n".repeat(1_048_575));
    client.send(bytes).await;
    client.expect("-BADID Invalid Job ID format.\r\n").await;
    client.ask("PING", "+PONG\r\n").await;
    scene.stop().await;
}
