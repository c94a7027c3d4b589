//! `-h HOST` and `-p PORT` name the Redis-protocol endpoint, as in Disque, but the commands use REST. So the
//! server is asked for its REST address: `INFO server` has it as `punctual_url`.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::super::failure::{Exit, Failure};

const PATIENCE: Duration = Duration::from_secs(10);
/// A longer answer does not come from Punctual.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

pub(super) async fn rest_of(host: &str, port: u16, token: Option<&str>) -> Result<String, Failure> {
    let place = format!("{host}:{port}");
    let unreachable = |why: &str| Failure::new(Exit::Unreachable, format!("cannot ask {place}: {why}"));
    let answer = match timeout(PATIENCE, ask(&place, token)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(unreachable(&error.to_string())),
        Err(_) => return Err(unreachable("no answer")),
    };
    if let Some(url) = answer.lines().find_map(|line| line.strip_prefix("punctual_url:")) {
        return Ok(reachable(url.trim(), host));
    }
    let hint = if answer.contains("-NOAUTH") || answer.contains("-ERR invalid password") {
        "--token TOKEN or PUNCTUAL_TOKEN says who you are; --server URL names its REST endpoint instead of -h and -p"
    } else {
        "--server URL names the REST endpoint of a Punctual server"
    };
    Err(Failure::new(Exit::Unreachable, format!("{place} does not say where its REST endpoint is"))
        .hint(hint))
}

async fn ask(place: &str, token: Option<&str>) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(place).await?;
    let mut words = vec![vec!["INFO", "server"], vec!["QUIT"]];
    words.splice(0..0, token.map(|token| vec!["AUTH", token]));
    for command in words {
        let mut bytes = format!("*{}\r\n", command.len());
        for word in command {
            bytes += &format!("${}\r\n{word}\r\n", word.len());
        }
        stream.write_all(bytes.as_bytes()).await?;
    }
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// If the server listens on all addresses, use the host where it was found.
fn reachable(url: &str, host: &str) -> String {
    ["//0.0.0.0:", "//[::]:"]
        .iter()
        .fold(url.to_owned(), |url, everywhere| url.replacen(everywhere, &format!("//{host}:"), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_listens_everywhere_is_reached_by_the_given_name() {
        assert_eq!(reachable("http://0.0.0.0:7400", "db1"), "http://db1:7400");
        assert_eq!(reachable("https://[::]:7400", "db1"), "https://db1:7400");
        assert_eq!(reachable("http://127.0.0.1:7400", "db1"), "http://127.0.0.1:7400");
    }
}
