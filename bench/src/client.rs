//! A connection that speaks as much of RESP2 as the measuring needs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, bail};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Text(Vec<u8>),
    Number(i64),
    Many(Vec<Reply>),
    Nothing,
}

pub(crate) struct Client {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    /// What was said and not yet sent.
    said: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: &str, password: Option<&str>) -> Result<Client> {
        let stream = TcpStream::connect(address).with_context(|| format!("nobody answers on {address}"))?;
        stream.set_nodelay(true)?;
        let reader = BufReader::with_capacity(64 * 1024, stream.try_clone()?);
        let mut client = Client { reader, writer: stream, said: Vec::new() };
        if let Some(password) = password {
            client.ask(&[b"AUTH", password.as_bytes()])?;
        }
        Ok(client)
    }

    /// Notes a command; [`Client::send`] sends all that were noted.
    pub(crate) fn say(&mut self, words: &[&[u8]]) {
        self.begin(words.len());
        words.iter().for_each(|word| self.word(word));
    }

    /// A command of so many words, which follow.
    pub(crate) fn begin(&mut self, words: usize) {
        self.said.extend_from_slice(format!("*{words}\r\n").as_bytes());
    }

    pub(crate) fn word(&mut self, word: &[u8]) {
        self.said.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        self.said.extend_from_slice(word);
        self.said.extend_from_slice(b"\r\n");
    }

    pub(crate) fn send(&mut self) -> Result<()> {
        self.writer.write_all(&self.said)?;
        self.said.clear();
        Ok(())
    }

    pub(crate) fn ask(&mut self, words: &[&[u8]]) -> Result<Reply> {
        self.say(words);
        self.send()?;
        self.hear()
    }

    /// The next reply; one that says no is an error.
    pub(crate) fn hear(&mut self) -> Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_first().context("an empty line is no reply")?;
        match kind {
            b'+' => Ok(Reply::Text(rest.to_vec())),
            b'-' => bail!("the server says: {}", String::from_utf8_lossy(rest)),
            b':' => Ok(Reply::Number(number(rest)?)),
            b'$' => match usize::try_from(number(rest)?) {
                Err(_) => Ok(Reply::Nothing),
                Ok(length) => {
                    let mut text = vec![0; length + 2];
                    self.reader.read_exact(&mut text)?;
                    text.truncate(length);
                    Ok(Reply::Text(text))
                }
            },
            b'*' => match usize::try_from(number(rest)?) {
                Err(_) => Ok(Reply::Nothing),
                Ok(length) => Ok(Reply::Many((0..length).map(|_| self.hear()).collect::<Result<_>>()?)),
            },
            other => bail!("`{}` begins no reply", char::from(*other)),
        }
    }

    fn line(&mut self) -> Result<Vec<u8>> {
        let mut line = Vec::new();
        if self.reader.read_until(b'\n', &mut line)? == 0 {
            bail!("the server hung up");
        }
        line.truncate(line.len().saturating_sub(2));
        Ok(line)
    }
}

fn number(text: &[u8]) -> Result<i64> {
    Ok(std::str::from_utf8(text)?.parse()?)
}
