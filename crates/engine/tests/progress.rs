//! The progress that an attempt reports through an endpoint.

use punctual_core::command::{Answer, Command, Refusal};
use punctual_core::ids::{RunId, Token};
use punctual_core::name::Namespace;
use punctual_core::retry::Retry;

use crate::support::{Rig, manual, span};

fn progress(run: RunId, token: Token, percent: u8) -> Command {
    Command::Progress { namespace: Namespace::default(), run, token, percent }
}

#[test]
fn progress_of_the_newest_attempt_is_noted_and_written_with_what_comes_next() {
    let mut rig = Rig::new(1);
    let run = rig.submit(manual());
    let token = rig.run(run).token;
    assert_eq!(rig.ask(progress(run, token, 40)), Ok(Answer::Noted));
    rig.advance("2s");
    assert_eq!(rig.run(run).progress, Some(40));
    assert_eq!(rig.ask(progress(run, token, 250)), Ok(Answer::Noted));
    rig.succeed(run);
    assert_eq!(rig.run(run).progress, Some(100), "more than all is all");
}

#[test]
fn progress_under_an_outdated_token_is_refused() {
    let mut rig = Rig::new(1);
    let retry = Retry { attempts: 2, delay: span("10s"), ..Retry::default() };
    let run = rig.submit(punctual_core::job::Definition { retry, ..manual() });
    let first = rig.run(run).token;
    rig.fail(run);
    assert!(matches!(rig.ask(progress(run, first, 50)), Err(Refusal::WrongState { .. })), "nobody runs it");
    rig.advance("10s");
    assert_eq!(rig.ask(progress(run, first, 50)), Err(Refusal::OutdatedToken(run)));
    rig.succeed(run);
    let ended = rig.ask(progress(run, rig.run(run).token, 50));
    assert!(matches!(ended, Err(Refusal::WrongState { .. })), "{ended:?}");
    assert_eq!(rig.run(run).progress, None);
    let nobody = RunId(run.0 + 1);
    assert_eq!(rig.ask(progress(nobody, first, 50)), Err(Refusal::NoSuchRun(nobody)));
}
