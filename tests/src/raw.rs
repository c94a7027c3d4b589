//! A connection by hand, for what no well-behaved client sends.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Longer than any answer of a test takes; reading never waits for ever.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct Raw {
    stream: TcpStream,
    /// Read, but not yet taken.
    ahead: Vec<u8>,
}

/// One answer, taken apart.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Raw {
    /// Opens a connection to an address such as `http://127.0.0.1:7400`.
    pub fn open(address: &str) -> io::Result<Raw> {
        let stream = TcpStream::connect(address.trim_start_matches("http://"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Raw { stream, ahead: Vec::new() })
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Nothing more will be sent.
    pub fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// The next answer; none: the other side closed without one.
    pub fn reply(&mut self) -> Option<Reply> {
        let end = loop {
            if let Some(end) = self.ahead.windows(4).position(|part| part == b"\r\n\r\n") {
                break end + 4;
            }
            if self.more() == 0 {
                return None;
            }
        };
        let head = String::from_utf8_lossy(&self.ahead[..end]).to_lowercase();
        self.ahead.drain(..end);
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        let length: usize = length.unwrap_or(0);
        while self.ahead.len() < length {
            if self.more() == 0 {
                break;
            }
        }
        let body: Vec<u8> = self.ahead.drain(..length.min(self.ahead.len())).collect();
        let body = String::from_utf8_lossy(&body).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Some(Reply { status, head, body })
    }

    /// Whether the other side closes without saying anything more.
    pub fn is_closed(&mut self) -> bool {
        self.ahead.is_empty() && self.more() == 0
    }

    fn more(&mut self) -> usize {
        let mut part = [0; 16 * 1024];
        match self.stream.read(&mut part) {
            Ok(count) => {
                self.ahead.extend_from_slice(&part[..count]);
                count
            }
            // A reset ends the answer, too. A timeout fails the test.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("no answer for {PATIENCE:?}"),
            Err(_) => 0,
        }
    }
}

impl Reply {
    pub fn has(&self, header: &str) -> bool {
        self.head.lines().any(|line| line == header)
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}
