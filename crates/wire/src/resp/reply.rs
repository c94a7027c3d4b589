//! Writes replies in the client's version of the protocol.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    #[default]
    Two,
    Three,
}

impl Protocol {
    pub fn number(self) -> i64 {
        match self {
            Protocol::Two => 2,
            Protocol::Three => 3,
        }
    }
}

/// Replies collected for one write.
#[derive(Debug, Default)]
pub struct Replies {
    bytes: Vec<u8>,
    protocol: Protocol,
    errors: u64,
}

impl Replies {
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Switches the protocol, from the next reply on.
    pub fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Errors written so far, including those already sent or taken back.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// Clears the buffer after sending. A buffer that grew for a large reply is shrunk.
    pub fn clear(&mut self) {
        const KEPT: usize = 64 * 1024;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
    }

    /// Takes back what was written since `len`.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// A text without line breaks.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// `ERR …`: a code and a message.
    pub fn error(&mut self, text: &str) {
        self.errors += 1;
        self.line(b'-', text);
    }

    pub fn number(&mut self, number: i64) {
        self.head(b':', number);
    }

    pub fn count(&mut self, count: u64) {
        self.number(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub fn bulk(&mut self, bytes: &[u8]) {
        self.sized(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub fn text(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }

    /// The null reply.
    pub fn nil(&mut self) {
        self.absent(b"$-1\r\n");
    }

    /// The null reply for an array.
    pub fn nil_array(&mut self) {
        self.absent(b"*-1\r\n");
    }

    /// Starts an array of this many replies.
    pub fn array(&mut self, items: usize) {
        self.sized(b'*', items);
    }

    /// Starts a map of this many pairs; in version 2 a flat array.
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Two => self.sized(b'*', pairs * 2),
            Protocol::Three => self.sized(b'%', pairs),
        }
    }

    fn absent(&mut self, in_two: &[u8]) {
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Two => in_two,
            Protocol::Three => b"_\r\n",
        });
    }

    fn sized(&mut self, kind: u8, size: usize) {
        self.head(kind, i64::try_from(size).unwrap_or(i64::MAX));
    }

    /// Replaces line breaks, because the text may contain input of a client.
    fn line(&mut self, kind: u8, text: &str) {
        self.bytes.push(kind);
        let safe = |byte: u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte };
        self.bytes.extend(text.bytes().map(safe));
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn head(&mut self, kind: u8, number: i64) {
        const DIGITS: usize = 20;
        let mut digits = [0u8; DIGITS];
        let (mut at, mut left) = (DIGITS, number.unsigned_abs());
        loop {
            at -= 1;
            digits[at] = b'0' + u8::try_from(left % 10).unwrap_or(0);
            left /= 10;
            if left == 0 {
                break;
            }
        }
        self.bytes.push(kind);
        if number < 0 {
            self.bytes.push(b'-');
        }
        self.bytes.extend_from_slice(&digits[at..]);
        self.bytes.extend_from_slice(b"\r\n");
    }
}
