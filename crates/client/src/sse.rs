//! Parses server-sent events as they arrive.

/// Larger than any event of this server: a longer block is not an event stream.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// `Last-Event-ID` continues after it. Empty means that the event has none.
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) data: String,
}

#[derive(Debug)]
pub(crate) struct TooLong;

/// Bytes that are not a whole event yet.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    bytes: Vec<u8>,
}

impl Parser {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole event; comments and `retry` hints are skipped.
    pub(crate) fn next(&mut self) -> Result<Option<Event>, TooLong> {
        while let Some(end) = self.bytes.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.bytes.drain(..end + 2).collect();
            let event = parse(&String::from_utf8_lossy(&block));
            if !event.kind.is_empty() {
                return Ok(Some(event));
            }
        }
        if self.bytes.len() > EVENT_BYTES_MAX { Err(TooLong) } else { Ok(None) }
    }
}

fn parse(block: &str) -> Event {
    let mut event = Event::default();
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => value.clone_into(&mut event.id),
            "event" => value.clone_into(&mut event.kind),
            "data" => event.data.push_str(value),
            // Other fields are for browsers.
            _ => {}
        }
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_however_the_bytes_arrive() {
        let stream = b"retry: 1000\n\n: still there\n\nid: 1-0\nevent: output\ndata: {\"a\":1}\n\nevent: end\ndata: 2\n\nevent";
        for size in 1..=stream.len() {
            let (mut parser, mut events) = (Parser::default(), Vec::new());
            for piece in stream.chunks(size) {
                parser.push(piece);
                while let Ok(Some(event)) = parser.next() {
                    events.push(event);
                }
            }
            let expected = [("1-0", "output", "{\"a\":1}"), ("", "end", "2")];
            let expected = expected.map(|(id, kind, data)| Event {
                id: id.into(),
                kind: kind.into(),
                data: data.into(),
            });
            assert_eq!(events, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_stream_without_an_end_is_given_up() {
        let mut parser = Parser::default();
        parser.push(&vec![b'x'; EVENT_BYTES_MAX + 1]);
        assert!(parser.next().is_err());
    }
}
