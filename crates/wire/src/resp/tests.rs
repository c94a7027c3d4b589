use std::time::Duration;

use bytes::BytesMut;
use proptest::prelude::*;
use punctual_core::queue::{MessageId, QueueNumber};

use super::*;

/// Everything that comes out of bytes which arrive in such pieces: the words of each request, or how it went wrong.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: Limits) -> Vec<String> {
    let (mut decoder, mut buffer, mut seen) = (Decoder::new(limits), BytesMut::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buffer) {
                Ok(None) => break,
                Ok(Some(Decoded::TooLong)) => seen.push("too long".to_owned()),
                Ok(Some(Decoded::Request(request))) => {
                    assert!(request.len() > 0);
                    let word = |word: &[u8]| word.escape_ascii().to_string();
                    seen.push(request.words(0).map(word).collect::<Vec<_>>().join("|"));
                }
                Err(malformed) => {
                    seen.push(format!("! {malformed}"));
                    return seen;
                }
            }
        }
    }
    seen
}

#[track_caller]
fn check(bytes: &[u8], expected: &[&str]) {
    assert_eq!(read([bytes], Limits::KNOWN), expected, "{}", bytes.escape_ascii());
    assert_eq!(read(bytes.chunks(1), Limits::KNOWN), expected, "byte by byte: {}", bytes.escape_ascii());
}

#[test]
fn requests_come_one_behind_the_other_in_both_forms() {
    check(b"*1\r\n$4\r\nPING\r\n", &["PING"]);
    check(b"PING\r\nping hello\n", &["PING", "ping|hello"]);
    check(b"*2\r\n$4\r\nQLEN\r\n$3\r\na\r\n\r\nPING\r\n", &["QLEN|a\\r\\n", "PING"]);
    check(b"*3\r\n$1\r\na\r\n$0\r\n\r\n$2\r\n\x00\xff\r\n", &["a||\\x00\\xff"]);
    check(b"*0\r\n*-1\r\n\r\n  \r\nPING\r\n", &["PING"]);
    check(b"*1\r\n$4\r\nPI", &[]);
}

#[test]
fn a_line_is_split_as_redis_cli_splits_it() {
    check(b"  a   b\t c \r\n", &["a|b|c"]);
    check(b"a \"b c\" 'd e' \"\"\n", &["a|b c|d e|"]);
    check(
        br#"a "\x41\n\"\q" 'it\'s \n'"#.iter().chain(b"\n").copied().collect::<Vec<_>>().as_slice(),
        &["a|A\\n\\\"q|it\\'s \\\\n"],
    );
    check(b"a pre\"fix\"\n", &["a|prefix"]);
    for bad in [&b"a \"b\n"[..], b"a 'b\n", b"a \"b\"c\n", b"a 'b'c\n", b"\"\n", b"a \"b\\\n"] {
        check(bad, &["! unbalanced quotes in request"]);
    }
}

#[test]
fn what_is_no_request_is_refused_as_redis_words_it() {
    for (bytes, expected) in [
        (&b"*a\r\n"[..], "! invalid multibulk length"),
        (b"*\r\n", "! invalid multibulk length"),
        (b"*+1\r\n", "! invalid multibulk length"),
        (b"*01\r\n", "! invalid multibulk length"),
        (b"*1\rx", "! invalid multibulk length"),
        (b"*1048577\r\n", "! invalid multibulk length"),
        (b"*99999999999999999999\r\n", "! invalid multibulk length"),
        (b"*11111111111111111111111111111111111", "! too big mbulk count string"),
        (b"*1\r\n+OK\r\n", "! expected '$', got '+'"),
        (b"*1\r\n\r\n", "! expected '$', got '?'"),
        (b"*1\r\n*1\r\n", "! expected '$', got '*'"),
        (b"*1\r\n$a\r\n", "! invalid bulk length"),
        (b"*1\r\n$-1\r\n", "! invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "! invalid bulk length"),
        (b"*1\r\n$11111111111111111111111111111111111", "! too big bulk count string"),
        (b"*1\r\n$1\r\nabc", "! expected an end of line after a bulk string"),
    ] {
        check(bytes, &[expected]);
    }
    check(&vec![b'a'; INLINE_BYTES_MAX], &["! too big inline request"]);
    let mut longest = vec![b'a'; INLINE_BYTES_MAX - 1];
    longest.push(b'\n');
    assert_eq!(read([&longest[..]], Limits::KNOWN)[0].len(), INLINE_BYTES_MAX - 1);
}

#[test]
fn who_has_not_said_who_they_are_may_say_little() {
    let (items, bulk) = (b"*11\r\n".as_slice(), b"*1\r\n$16385\r\n".as_slice());
    assert_eq!(read([items], Limits::STRANGER), ["! unauthenticated multibulk length"]);
    assert_eq!(read([bulk], Limits::STRANGER), ["! unauthenticated bulk length"]);
    assert_eq!(read([&b"*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n"[..]], Limits::STRANGER), ["AUTH|x"]);
}

#[test]
fn what_is_too_long_is_passed_over_and_never_kept() {
    let (mut decoder, mut buffer) = (Decoder::new(Limits::KNOWN), BytesMut::new());
    let long = 3 * BULK_BYTES_MAX;
    buffer.extend_from_slice(format!("*3\r\n$6\r\nADDJOB\r\n$1\r\nq\r\n${long}\r\n").as_bytes());
    let piece = vec![b'x'; 1000];
    let mut sent = 0;
    while sent < long {
        assert_eq!(decoder.decode(&mut buffer), Ok(None));
        assert!(buffer.is_empty(), "{} bytes are kept", buffer.len());
        let next = piece.len().min(long - sent);
        buffer.extend_from_slice(&piece[..next]);
        sent += next;
    }
    buffer.extend_from_slice(b"\r\nPING\r\n");
    assert_eq!(decoder.decode(&mut buffer), Ok(Some(Decoded::TooLong)));
    let Ok(Some(Decoded::Request(next))) = decoder.decode(&mut buffer) else {
        panic!("what follows is read")
    };
    assert_eq!(next.word(0), b"PING");
}

#[test]
fn many_words_that_are_too_much_together_are_passed_over_too() {
    let one = format!("${BULK_BYTES_MAX}\r\n{}\r\n", "x".repeat(BULK_BYTES_MAX));
    let fit = REQUEST_BYTES_MAX / BULK_BYTES_MAX - 1;
    let request = |words: usize| format!("*{words}\r\n{}", one.repeat(words));
    assert!(read([request(fit).as_bytes()], Limits::KNOWN)[0].starts_with("xxx"));
    let over = request(fit + 3) + "PING\r\n";
    assert_eq!(read(over.as_bytes().chunks(70_000), Limits::KNOWN), ["too long", "PING"]);
}

#[test]
fn a_million_words_are_taken_and_one_more_is_not() {
    let request = |words: usize| format!("*{words}\r\n{}", "$0\r\n\r\n".repeat(words));
    let most = REQUEST_BYTES_MAX / "$0\r\n\r\n".len() - 1;
    assert!(most > ITEMS_MAX);
    assert_eq!(read([request(ITEMS_MAX).as_bytes()], Limits::KNOWN)[0].len(), ITEMS_MAX - 1);
}

#[test]
fn answers_are_written_as_each_protocol_has_them() {
    let write = |protocol, with: fn(&mut Replies)| {
        let mut replies = Replies::default();
        replies.speak(protocol);
        with(&mut replies);
        String::from_utf8(replies.bytes().to_vec()).unwrap()
    };
    for (with, two, three) in [
        ((|to| to.simple("OK")) as fn(&mut Replies), "+OK\r\n", "+OK\r\n"),
        (|to| to.error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
        (|to| to.number(0), ":0\r\n", ":0\r\n"),
        (|to| to.number(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
        (|to| to.count(u64::MAX), ":9223372036854775807\r\n", ":9223372036854775807\r\n"),
        (|to| to.bulk(b"a\r\n"), "$3\r\na\r\n\r\n", "$3\r\na\r\n\r\n"),
        (|to| to.text(""), "$0\r\n\r\n", "$0\r\n\r\n"),
        (Replies::nil, "$-1\r\n", "_\r\n"),
        (Replies::nil_array, "*-1\r\n", "_\r\n"),
        (|to| to.array(2), "*2\r\n", "*2\r\n"),
        (|to| to.map(2), "*4\r\n", "%2\r\n"),
    ] {
        assert_eq!(write(Protocol::Two, with), two);
        assert_eq!(write(Protocol::Three, with), three);
    }
}

fn message(queue: u32, number: i64) -> MessageId {
    MessageId { queue: QueueNumber(queue), number }
}

fn written(ttl: u64, at_most_once: bool) -> String {
    JobId::new(message(7, 1 << 40), Duration::from_secs(ttl), at_most_once).to_string()
}

#[test]
fn an_id_ends_in_its_minutes_odd_if_it_may_be_delivered_again() {
    for (ttl, again, once) in [
        (86400, "05a1", "05a0"),
        (5, "0001", "0000"),
        (60, "0001", "0000"),
        (120, "0003", "0002"),
        (u64::MAX, "ffff", "fffe"),
    ] {
        assert!(written(ttl, false).ends_with(&format!("-{again}")), "{}", written(ttl, false));
        assert!(written(ttl, true).ends_with(&format!("-{once}")), "{}", written(ttl, true));
    }
}

#[test]
fn ids_are_written_in_the_same_way_for_ever() {
    assert_eq!(written(86400, false), "D-00000000-AAAAAABwAAAgAAAAABFBBJCM-05a1");
}

#[test]
fn an_id_is_known_by_its_length_and_four_characters() {
    let good = written(5, false);
    assert_eq!(parse_id(good.as_bytes()), Ok(Some(message(7, 1 << 40))));
    let changed = |at: usize, to: &str| {
        let mut text = good.clone();
        text.replace_range(at..=at, to);
        text
    };
    for bad in
        ["", "D-", &good[1..], &changed(0, "d"), &changed(1, "_"), &changed(10, "_"), &changed(35, "x")]
    {
        assert_eq!(parse_id(bad.as_bytes()), Err(BadId), "{bad}");
    }
    assert_eq!(parse_id(format!("{good}x").as_bytes()), Err(BadId));
    for other in [changed(11, "!"), changed(12, "-"), changed(20, "z"), changed(34, "z"), changed(33, "\0")] {
        assert_eq!(parse_id(other.as_bytes()), Ok(None), "well-formed, and never made by us: {other}");
    }
    assert_eq!(parse_id(b"D-dcb833cf-8YL1NT17e9+wsA/09NqxscQI-05a1"), Ok(None));
    assert_eq!(parse_id(&[b'D'; 40]), Err(BadId));
}

proptest! {
    #[test]
    fn any_message_comes_back_from_its_id(
        queue: u32, number in 0..=i64::MAX, seconds: u64, once: bool
    ) {
        let id = JobId::new(message(queue, number), Duration::from_secs(seconds), once);
        prop_assert_eq!(id.as_bytes().len(), ID_BYTES);
        prop_assert_eq!(parse_id(id.as_bytes()), Ok(Some(message(queue, number))));
        let shard = message(queue, number).shard().0;
        let character = |at: u16| b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[usize::from(at)];
        prop_assert_eq!(id.as_str()[2..10].to_owned(), format!("{shard:08x}"));
        prop_assert_eq!(&id.as_bytes()[11..13], &[character(shard >> 6), character(shard & 63)]);
    }

    #[test]
    fn no_bytes_are_an_id_that_breaks_anything(text in proptest::collection::vec(any::<u8>(), 0..60)) {
        let _ = parse_id(&text);
    }

    /// Bytes that look like requests often enough to get anywhere.
    #[test]
    fn however_the_bytes_are_cut_they_mean_the_same(
        tokens in proptest::collection::vec(
            prop_oneof![
                Just(b"*1\r\n".to_vec()), Just(b"*2\r\n".to_vec()), Just(b"$4\r\nPING\r\n".to_vec()),
                Just(b"$0\r\n\r\n".to_vec()), Just(b"\r\n".to_vec()), Just(b"a 'b c' \"d\"\r\n".to_vec()),
                Just(b"$2000000\r\n".to_vec()), Just(b"*0\r\n".to_vec()),
                proptest::collection::vec(any::<u8>(), 0..6),
            ],
            0..20,
        ),
        cuts in proptest::collection::vec(1usize..9, 1..30),
        known: bool,
    ) {
        let bytes: Vec<u8> = tokens.concat();
        let limits = if known { Limits::KNOWN } else { Limits::STRANGER };
        let (mut pieces, mut rest, mut cuts) = (Vec::new(), &bytes[..], cuts.into_iter().cycle());
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
            pieces.push(piece);
            rest = behind;
        }
        prop_assert_eq!(read([&bytes[..]], limits), read(pieces, limits));
    }
}
