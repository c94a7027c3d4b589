//! An attempt by its run and token, and instants.

use punctual_core::Timestamp;
use punctual_core::ids::{RunId, Token};

use super::Malformed;
use super::v1;

pub fn attempt(run: RunId, token: Token) -> v1::Attempt {
    v1::Attempt { run: run.0, token: token.0 }
}

pub fn read_attempt(attempt: Option<v1::Attempt>) -> Result<(RunId, Token), Malformed> {
    let v1::Attempt { run, token } = attempt.ok_or_else(|| Malformed::missing("attempt"))?;
    if run < 0 {
        return Err(Malformed::new("attempt.run", format!("no run has the id {run}")));
    }
    // Stores keep tokens as signed numbers, so a larger token was never given out.
    if i64::try_from(token).is_err() {
        return Err(Malformed::new("attempt.token", format!("no attempt has the token {token}")));
    }
    Ok((RunId(run), Token(token)))
}

pub fn read_attempts(attempts: Vec<v1::Attempt>) -> Result<Vec<(RunId, Token)>, Malformed> {
    attempts.into_iter().map(|attempt| read_attempt(Some(attempt))).collect()
}

pub(super) fn read_instant(field: &'static str, millis: i64) -> Result<Timestamp, Malformed> {
    if !(Timestamp::MIN.as_millis()..=Timestamp::MAX.as_millis()).contains(&millis) {
        return Err(Malformed::new(field, format!("{millis} is no instant in milliseconds since 1970")));
    }
    Ok(Timestamp::from_millis(millis))
}
