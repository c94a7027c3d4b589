//! What a client says, told apart message by message: enough of two protocols to see a COMMIT.
//!
//! PostgreSQL's clients prepare `COMMIT` once and then only name what they prepared; MariaDB's say it as it is.

use std::collections::BTreeSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Nothing is looked at.
    Any,
    Postgres,
    MariaDb,
}

impl Language {
    /// How a text stands in a transaction: MariaDB's has its values in hex.
    pub(super) fn written(self, text: &str) -> Vec<u8> {
        match self {
            Language::Any | Language::Postgres => text.as_bytes().to_vec(),
            Language::MariaDb => text.bytes().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect(),
        }
    }

    /// Whether what came back since COMMIT was passed on has its answer in it.
    pub(super) fn is_committed(self, answered: &[u8]) -> bool {
        match self {
            Language::Postgres => has(answered, b"COMMIT\0"),
            Language::Any | Language::MariaDb => !answered.is_empty(),
        }
    }
}

/// One message, whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    pub(super) is_commit: bool,
}

#[derive(Debug)]
pub(super) struct Reader {
    language: Language,
    unread: Vec<u8>,
    /// PostgreSQL's first message has no type byte before its length.
    has_begun: bool,
    /// What the client calls the COMMIT that it prepared, and the beginnings of transactions that only read.
    commits: BTreeSet<Vec<u8>>,
    readings: BTreeSet<Vec<u8>>,
    /// What is under way only reads: its end decides nothing.
    is_reading: bool,
}

impl Reader {
    pub(super) fn new(language: Language) -> Reader {
        let (commits, readings) = (BTreeSet::new(), BTreeSet::new());
        Reader { language, unread: Vec::new(), has_begun: false, commits, readings, is_reading: false }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// The next message, if all of it is there.
    pub(super) fn next(&mut self) -> Option<Message> {
        let length = self.length()?;
        if self.unread.is_empty() || length > self.unread.len() {
            return None;
        }
        let bytes: Vec<u8> = self.unread.drain(..length).collect();
        let is_commit = match self.language {
            Language::Any => false,
            Language::Postgres if !std::mem::replace(&mut self.has_begun, true) => false,
            Language::Postgres => self.is_commit_of_postgres(&bytes),
            // The length, a number, "this is a query", the query.
            Language::MariaDb => bytes.get(4..) == Some(b"\x03COMMIT"),
        };
        Some(Message { bytes, is_commit })
    }

    fn length(&self) -> Option<usize> {
        let number = |at: usize| -> Option<usize> {
            let four: [u8; 4] = self.unread.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_be_bytes(four)).ok()
        };
        match self.language {
            Language::Any => Some(self.unread.len()),
            Language::Postgres if self.has_begun => Some(1 + number(1)?),
            Language::Postgres => number(0),
            Language::MariaDb => {
                let [low, middle, high]: [u8; 3] = self.unread.get(..3)?.try_into().ok()?;
                Some(4 + usize::from(low) + (usize::from(middle) << 8) + (usize::from(high) << 16))
            }
        }
    }

    fn is_commit_of_postgres(&mut self, bytes: &[u8]) -> bool {
        let mut words = bytes.get(5..).unwrap_or_default().split(|byte| *byte == 0);
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match bytes.first() {
            // Parse: what it is called, what it is.
            Some(b'P') if second == b"COMMIT" => {
                self.commits.insert(first.to_vec());
                false
            }
            Some(b'P') if second.starts_with(b"BEGIN") && second.ends_with(b"READ ONLY") => {
                self.readings.insert(first.to_vec());
                false
            }
            // Bind: where to, what it is called.
            Some(b'B') if self.readings.contains(second) => {
                self.is_reading = true;
                false
            }
            Some(b'B') if self.commits.contains(second) => !std::mem::take(&mut self.is_reading),
            Some(b'Q') => first == b"COMMIT",
            _ => false,
        }
    }
}

pub(super) fn has(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn postgres(kind: &[u8], body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [kind, &length.to_be_bytes(), body].concat()
    }

    /// Which of the messages are commits, whatever pieces they come in.
    #[track_caller]
    fn check(language: Language, said: &[Vec<u8>], commits: &[usize]) {
        let all = said.concat();
        for piece in [1, 3, all.len()] {
            let mut reader = Reader::new(language);
            let mut found = Vec::new();
            for bytes in all.chunks(piece) {
                reader.push(bytes);
                found.extend(std::iter::from_fn(|| reader.next()));
            }
            let bytes: Vec<&[u8]> = found.iter().map(|message| message.bytes.as_slice()).collect();
            assert_eq!(bytes, said.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let places = found.iter().enumerate().filter(|(_, message)| message.is_commit);
            assert_eq!(places.map(|(place, _)| place).collect::<Vec<_>>(), commits);
        }
    }

    #[test]
    fn a_commit_of_postgresql_is_seen_when_what_was_prepared_is_named() {
        let said = [
            postgres(b"", b"\0\x03\0\0user\0punctual\0\0"),
            postgres(b"P", b"s1\0COMMIT\0\0\0"),
            postgres(b"P", b"s2\0SELECT 'COMMIT'\0\0\0"),
            postgres(b"B", b"\0s2\0\0\0\0\0\0\0"),
            postgres(b"B", b"\0s1\0\0\0\0\0\0\0"),
            postgres(b"E", b"\0\0\0\0\0"),
            postgres(b"Q", b"COMMIT\0"),
            postgres(b"P", b"s3\0BEGIN READ ONLY\0\0\0"),
            postgres(b"B", b"\0s3\0\0\0\0\0\0\0"),
            postgres(b"B", b"\0s1\0\0\0\0\0\0\0"),
        ];
        check(Language::Postgres, &said, &[4, 6]);
    }

    #[test]
    fn a_commit_of_mariadb_is_a_packet_of_its_own() {
        let said = [
            b"\x03\0\0\x01abc".to_vec(),
            b"\x0e\0\0\0\x03SELECT COMMIT".to_vec(),
            b"\x07\0\0\0\x03COMMIT".to_vec(),
        ];
        check(Language::MariaDb, &said, &[2]);
    }
}
