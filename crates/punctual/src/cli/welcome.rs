//! `punctual` without arguments: first steps after the installation.

use std::time::Duration;

use tokio::time::timeout;

use super::Session;
use super::failure::Failure;
use super::output::print;

/// How long to wait for a server.
const LOOK_MAX: Duration = Duration::from_secs(1);

pub(crate) async fn greet(session: &Session) -> Result<(), Failure> {
    let server = session.client.server();
    let answers = matches!(timeout(LOOK_MAX, session.client.is_ready()).await, Ok(Ok(true)));
    print(&text(answers.then_some(server)))
}

fn text(server: Option<&str>) -> String {
    let begin = match server {
        Some(server) => format!("A server is ready at {server}.\n\nTry it:\n"),
        None => "No server answers yet.\n\nStart one here, and leave it running:\n  punctual dev\n\nThen, in another terminal:\n"
            .to_owned(),
    };
    format!(
        "Punctual is a task scheduler: it starts jobs on time, retries failed runs, and records what happened.\n\n{begin}  \
punctual run submit --shell 'echo hello' --wait     run a command once
  punctual job apply hello.yaml                       create a job from a file
  punctual run list                                   list the runs

  punctual doctor                                     check this machine and the server
  punctual --help                                     every command"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_words_say_how_to_begin() {
        assert!(text(None).contains("\n  punctual dev\n"));
        let ready = text(Some("http://127.0.0.1:7400"));
        assert!(
            ready.contains("ready at http://127.0.0.1:7400") && !ready.contains("punctual dev"),
            "{ready}"
        );
    }
}
